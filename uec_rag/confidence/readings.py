"""The readings of a question: parts of an outline of its hits among which it does not choose.

Each hit has a path in its corpus: site, folders, document, heading above, title. The paths of the
hits of a question are a small tree, its `Outline`. The posterior over the hits puts mass on the
nodes. From the root, the heaviest child is followed while it has nearly all of the mass. Where it
has not, the children are the `readings`, each by its own name, and `ambiguity` tells from five
numbers about this node (`features`) whether the question leaves open which is meant.

Nothing here depends on the language but words from `uec_rag.base.text` and
`uec_rag.questions.grammar`, where a new one goes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, takewhile
from operator import attrgetter
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import cached_property
from uec_rag.base.text import (
    FUNCTION_WORDS,
    GENERAL_TITLES,
    HAS_SPACELESS,
    About,
    path_names,
    split_words,
    stems,
    without_number,
)
from uec_rag.confidence.model import LEAST_SHARE, SURE, Calibrator, shipped
from uec_rag.questions.grammar import extract_concept, lacks_referent, refers_back

CLARIFY_FROM = 0.68
"""The lowest P(underspecified) at which to ask for clarification.

By the questions to the manuals (`benchmarks.quality.golden asking`): from 0.72 to 0.68, 10 more of
149 ambiguous ones are asked back, and 2 more of 376 answerable ones in vain.
"""

FEATURES = ("brief", "others", "referent", "shared", "named")
"""The names of the `features`: all but the last are evidence for an underspecified question."""

MOST_READINGS, MOST_CLOSEST = 4, 3  # titles that a user is told at once
LONGEST_LABEL = 60  # characters

# Share of the mass with which a child is followed, or is the only reading. What has the rest of the
# mass is named, if the question has its name.
_NEARLY = 0.9
_OFFERED = 0.02  # share of the mass with which a child is a reading
_PAIR = 0.38  # words that a pair of characters counts as; by `benchmarks/quality/decisions.py`
_FUNCTION = 0.25  # weight of a function word, which is rarer in manuals than in questions
_ENDS = " :?？"  # which a label does not end with
_SENTENCE = 25  # number of words up to which a passage is told from others by its own words
_PAGE = re.compile(r"page \d+")  # the title of a passage without a heading
_SITE = re.compile(
    r"(.+?) [—–|·»-] (.+?)(?: [—–|·»-] .+?)?(?: v?\d[\w.]*)?( documentation| docs| manual| help)?",
    re.IGNORECASE,
)  # the title of a page and its site
_TOKEN = re.compile(r"\w+(?:[.,:/-]\w+)*")  # also a number with its decimals, a date, a version

# Kinds of words that belong together: numbers (n) with what they count, words of one passage alone
# (o) with function words (l) between them, but not of two clauses, whose first are capitals.
_RUN = re.compile("[nN][ox]?|.(?:l{0,2}o)*")


@dataclass(frozen=True)
class Reading:
    """One of the possible meanings of a question.

    Attributes
    ----------
    title : str
        A title, a heading, the beginning of a long passage, or a few words of a short one that
        distinguish it from the other readings.
    ids : tuple of str
        Ids of its passages, best first.
    probability : float
        Its share of the mass, see `readings`.
    """

    title: str
    ids: tuple[str, ...]
    probability: float


class Name(NamedTuple):
    """A name on the path to a hit; `key` tells it from those of other things."""

    key: str
    text: str
    is_title: bool = True


@dataclass(eq=False)
class Outline:
    """The first m hits of one question, best first, and their places in the corpus.

    Parameters
    ----------
    ids, texts : sequence of m str
    described : sequence of m About
        What each hit says about itself.
    logits : array, shape (m,)
        Logits of the posterior over the hits, up to a constant.
    words : sequence of m collections of str
        Words of the question that each hit contains, spelled as in `idf`.
    idf : mapping of str to float
        Inverse document frequency of each of the question's w words, including those that no
        passage has: ``log(1 + (N - n + 1/2) / (n + 1/2))``.
    size : int
        N, the number of passages by which `idf` was computed.
    function_words : frozenset of str
        Those of the question's language.

    Attributes
    ----------
    paths : list of m lists of Name
        The names on the path to each hit, outermost first.
    keys : list of m tuples of str
        What these names are told apart by.
    titles : list of m str
        The title of each hit, whether it is on the path or not; "" if it has none.
    content : list of str
        The words of the question that are neither options ("-n") nor function words.
    rarity : array, shape (w,)
        The idf of each word by that of a word that no passage has, a quarter of it for a function
        word. The corpus size cancels.
    in_text : bool array, shape (m, w)
        True where a hit has a word.
    said : dict of str to bool array, shape (w,)
        True where a name or title has a word, in any inflection.
    mass : array, shape (m,)
        The posterior of each hit, times the exponentials of the rarity of the words in its text and
        of those in its head, which is its title and how it begins, up to a factor.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    described: Sequence[About]
    logits: FloatArray
    words: Sequence[Collection[str]]
    idf: Mapping[str, float]
    size: int
    function_words: frozenset[str] = FUNCTION_WORDS

    def __post_init__(self) -> None:
        folded = [word.casefold() for word in self.idf]
        little = [word in self.function_words for word in folded]
        weight = np.where(little, _FUNCTION, 1.0) / math.log1p(2 * self.size + 1)
        self.rarity = np.array([*self.idf.values()], float) * weight
        self.content = [w for w, no in zip(self.idf, little, strict=True) if not no and w[0] != "-"]
        self.paths, self.titles = _paths(self.described)
        self.keys = [tuple(map(attrgetter("key"), path)) for path in self.paths]
        names = {name.text for path in self.paths for name in path}
        self.said = _say([*self.idf], {*names, *self.titles})
        has = [[word in words for word in self.idf] for words in self.words]
        self.in_text = np.array(has, bool).reshape(len(self.ids), len(self.idf))
        in_head = np.array([self.said[title] for title in self.titles])
        begins = [f" {word}" for word in folded]
        for of_head, of_text, one in zip(in_head, has, self.described, strict=True):
            for at, is_there in enumerate(of_text):
                if is_there and begins[at] in one.opening:
                    of_head[at] = True
        said = (self.in_text + 1.0 * in_head) @ self.rarity
        logits = np.asarray(self.logits, np.float64) + said
        self.mass = np.exp(logits - logits.max())

    def below(self, rows: Sequence[int], depth: int = 0) -> Node:
        """Return the node of some hits, which have names of this depth in common.

        Its children differ in the first level of names that tell what is below them, or else in the
        last.
        """
        while True:
            groups, is_last = dict[object, list[int]](), True
            for row in rows:
                keys = self.keys[row]
                groups.setdefault(keys[: depth + 1] or row, []).append(row)
                is_last = is_last and len(keys) <= depth + 1
            if (tells := len(groups) > 1 and self._tells([*groups.values()], depth)) or is_last:
                break
            depth += 1
        tells = tells or bool({self.titles[row] for row in rows} - {""})
        every = [*groups.values()]
        mass = _reduce(np.add, self.mass, every).tolist()
        order = sorted(range(len(mass)), key=mass.__getitem__, reverse=True)
        children = [every[at] for at in order]
        return Node(self, children, [mass[at] / sum(mass) for at in order], depth, tells)

    def _tells(self, groups: Sequence[Sequence[int]], depth: int) -> bool:
        """Return whether the names of some children tell what is below them.

        A title is written to do so. The names of folders and files do if most passages say that of
        their own, less those that say another: "restic" and "caddy", but not "reference".
        """
        names = [name for rows in groups for name in self.paths[rows[0]][depth : depth + 1]]
        titles = [name.is_title for name in names]
        if any(titles) or len(names) < len(groups):
            return all(titles)
        of = [stems(name.text.replace("_", " ")) for name in names]
        shared = Counter([stem for one in of for stem in one])
        owned = [[f" {s}" for s in one if shared[s] == 1 and not s.isdigit()] for one in of]
        own, other, count = 0, 0, 0
        for number, rows in enumerate(groups):
            for row in rows:
                text = f" {' '.join(split_words(self.texts[row].casefold()))}"
                told = [any(map(text.__contains__, one)) for one in owned]
                own, other = own + told[number], other + (sum(told) > told[number])
            count += len(rows)
        return 2 * (own - other) >= count

    def split(self) -> Node:
        """Return the first node whose heaviest child has not nearly all of its mass."""
        node = self.below(range(len(self.ids)))
        while node.shares[0] >= _NEARLY:
            below = self.below(node.children[0], node.depth + 1)
            if len(below.children) == 1:
                break
            node = below
        return node

    def among(self, rows: Sequence[int]) -> Node:
        """Return a node of some hits, of which any may be meant as well as another."""
        return Node(self, [[row] for row in rows], [1 / len(rows)] * len(rows), 0)

    def asked_in(self, name: str) -> float:
        """Return how much of the content of the question, by rarity, a name or title says."""
        said = zip(self.idf, self.rarity.tolist(), self.said.get(name, ()), strict=False)
        return sum(float(rarity) for word, rarity, has in said if has and word in self.content)

    def document(self, row: int) -> str:
        """Return the title of a hit's document; "" if it has none but the name of its file."""
        one = self.described[row]
        key = one.source or one.document
        return next((up.text for up in self.paths[row] if up.is_title and up.key == key), "")

    def section(self, rows: Sequence[int], depth: int) -> str:
        """Return the title of nearly all of the mass of some hits, else a name; "" if none."""
        least = _NEARLY * float(self.mass[rows].sum())
        for at in (None, *range(max(len(self.paths[row]) for row in rows), depth, -1)):
            mass = Counter[str]()
            for row in rows:
                names = self.paths[row][at - 1 : at] if at else ()
                mass[names[0].text if names else "" if at else self.titles[row]] += self.mass[row]
            (title, most), *_ = mass.most_common(1)
            if title and most >= least:
                return title
        return ""


@dataclass(frozen=True, eq=False)
class Node:
    """A node of an outline with its children, the heaviest first.

    Attributes
    ----------
    outline : Outline
    children : list of c lists of int
        The hits below each child.
    shares : list of c float
        The share of each child in the mass of the node.
    depth : int
        The number of names above those in which the children differ.
    tells : bool
        Whether their names tell what is below them; if not, they are those of files.
    """

    outline: Outline
    children: list[list[int]]
    shares: list[float]
    depth: int
    tells: bool = True

    @cached_property
    def said(self) -> NDArray[np.bool_]:
        """True where the names below a child have a word of the question; shape (c, w).

        They are those on the paths to its hits below the node, and their titles.
        """
        outline = self.outline
        table = np.zeros((len(self.children), len(outline.idf)), bool)
        says = {name for name, words in outline.said.items() if words.any()}
        for row_of_table, rows in zip(table, self.children if says else (), strict=False):
            for row in rows:
                path = outline.paths[row][self.depth :] or outline.paths[row][-1:]
                for name in says.intersection([outline.titles[row], *(one.text for one in path)]):
                    row_of_table |= outline.said[name]
        return table


def _paths(described: Sequence[About]) -> tuple[list[list[Name]], list[str]]:
    """Compute `Outline.paths` and `Outline.titles`."""
    subjects = [" ".join(one.subject.split()) for one in described]
    split = [_SITE.fullmatch(subject) for subject in subjects]
    bearers = Counter(
        [s for s, _ in {(s[2], d.source) for s, d in zip(split, described, strict=True) if s}]
    )
    split = [s if s and (s[3] or bearers[s[2]] > 1) else None for s in split]
    documents = Counter([_plain(d) for d, _ in {(one.document, one.source) for one in described}])
    paths, titles = list[list[Name]](), list[str]()
    for one, subject, site in zip(described, subjects, split, strict=True):
        if not (one.source or one.document or subject):
            paths.append([])
            titles.append("")
            continue
        folders, file = path_names(one.source)
        document, title = without_number(one.document), without_number(site[1] if site else subject)
        called = document if document and documents[_plain(one.document)] == 1 else file or document
        is_named = bool(document) and _plain(document) != _plain(file)
        is_file = bool(folders) or file != one.source
        if (is_file and one.subject in (one.source, PurePath(one.source).name)) or (
            document and not is_named and _plain(title) == _plain(document)
        ):
            title = ""  # nothing but the name of the file
        names = [Name(site[2], site[2])] if site and all(split) else []
        names += [Name(folder, folder, False) for folder in folders]
        if called:
            names.append(Name(one.source or document, called, is_named))
        names += [Name(one.above, one.above)] if one.above else []
        if title and not _PAGE.fullmatch(title):
            is_same = bool(names) and _plain(names[-1].text) == _plain(title)
            names.append(Name(names.pop().key if is_same else title, title))
        paths.append(names)
        titles.append(title)
    # A title that stands at several places tells nothing of what is below it.
    places = {(_plain(path[-1].text), *path[:-1]) for path in paths if path}
    bearers = Counter([place[0] for place in places])
    for path in paths:
        if path[1:] and path[-1].is_title:
            title = _plain(path[-1].text)
            if bearers[title] > 1 or title in GENERAL_TITLES or path[-1].text.isupper():
                path.pop()
    return paths, titles


def _say(words: Sequence[str], names: Collection[str]) -> dict[str, NDArray[np.bool_]]:
    """Compute `Outline.said`."""
    folded = [word.casefold() for word in words]
    of = [stems(word) for word in folded]
    parts = [bool(HAS_SPACELESS.search(word)) for word in folded]
    said = {}
    for name in names:
        plain, known = _known(name)
        said[name] = np.array(
            [
                word in known or bool(one and one <= known) or (is_part and word in plain)
                for word, one, is_part in zip(folded, of, parts, strict=True)
            ],
            bool,
        )
    return said


@lru_cache(4096)
def _known(name: str) -> tuple[str, frozenset[str]]:
    """Return a name in small letters, and its words and their stems."""
    plain = name.replace("_", " ").casefold()
    return plain, stems(plain).union(split_words(plain))


def _reduce(how: np.ufunc, rows: NDArray[Any], groups: Sequence[Sequence[int]]) -> NDArray[Any]:
    """Reduce the rows of each of some groups, none of which is empty, to one."""
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    return how.reduceat(rows[[*chain(*groups)]], starts)


def features(question: str, node: Node, turns: Sequence[str] = ()) -> FloatArray:
    """Compute the evidence that a question does not say which child of a node is meant, shape (5,).

    They are the `FEATURES`. `turns`: the turns before the question, which may have its referent.

    - "brief": how little the question says, minus the log of the number of its words, without
      function words; an option ("-n") counts once, and a pair of characters, in a script without
      spaces, `_PAIR`.
    - "others": the log odds of the mass outside the heaviest child; the probability is kept between
      1e-4 and 1 - 1e-4.
    - "referent": whether it `lacks_referent`.
    - "shared": the share of the question, by squared idf, that the names of the heaviest child and
      of another one say, less what the other lacks; the maximum over others, at least 0.
    - "named": how far it says which is meant, see `_names_one`.
    """
    outline, context = node.outline, "\n".join([*turns, question])
    texts = _reduce(np.logical_or, outline.in_text, node.children)
    said, square = node.said, outline.rarity**2
    lacks = (said[0] & ~said) * 1.0 + (texts[0] & ~texts)
    shared = ((said[0] & said) - lacks)[1:] @ square / max(float(square.sum()), 1e-12)
    length = sum(_PAIR if HAS_SPACELESS.search(word) else 1.0 for word in outline.content)
    best = min(max(node.shares[0], LEAST_SHARE), 1 - LEAST_SHARE)
    refers, named = lacks_referent(context), float(bool(extract_concept(question)))
    if not named and not (refers and refers_back(context)):
        named = _names_one(node)
    return np.array(
        [
            -math.log(max(length, 1)),
            math.log1p(-best) - math.log(best),
            refers,
            max(float(shared.max(initial=0.0)), 0.0),
            named,
        ],
        dtype=np.float32,
    )


def _names_one(node: Node) -> float:
    """Return how far a question says which part of a node is meant, from 0 to 1.

    It has all words of a title or of the name of a file, in any inflection, that only one place has
    and a tenth of the mass or more is below. These words have as much idf as the others (0), to
    twice as much or more (1): "the name variable" is not "Variables".
    """
    outline, asked = node.outline, frozenset[str]().union(*map(stems, node.outline.content))
    files = {path_names(one.source)[1].replace("_", " ") for one in outline.described}
    if not any(name and name <= asked for name in map(stems, files.union(outline.said))):
        return 0.0
    mass: dict[tuple[bool, frozenset[str]], dict[tuple[str, ...], float]] = {}
    rows = [row for child in node.children for row in child]
    for row in rows:
        path, keys, names = (
            outline.paths[row],
            tuple[str, ...](),
            list[tuple[bool, str, tuple[str, ...]]](),
        )
        for name in path:
            keys = (*keys, name.key)
            if name.is_title:
                names.append((True, name.text, keys))
        if keys[-1:] != (title := outline.titles[row],):  # it is not on the path
            names.append((True, title, (*keys, title)))
        source = outline.described[row].source
        names.append((False, path_names(source)[1].replace("_", " "), (source,)))
        for is_title, text, place in names:
            if (stemmed := stems(text)) and stemmed <= asked:
                of = mass.setdefault((is_title, stemmed), {})
                of[place] = of.get(place, 0.0) + float(outline.mass[row])
    least, most = (1 - _NEARLY) * float(outline.mass[rows].sum()), 0.0
    words = [*zip(map(stems, outline.idf), outline.rarity.tolist(), strict=True)]
    for (_, stemmed), places in mass.items():
        if len(places) == 1 and max(places.values()) >= least:
            most = max(most, sum(rarity for one, rarity in words if one and one <= stemmed))
    others = float(outline.rarity.sum()) - most
    return min(max(most / max(others, 1e-12) - 1, 0.0), 1.0)


@cache
def shipped_underspecified() -> Calibrator:
    """Return the model of P(underspecified), learned by `benchmarks/quality/decisions.py`."""
    return Calibrator.restore(shipped("readings.json")["underspecified"])


def underspecified(
    numbers: FloatArray, confidence: FloatArray, model: Calibrator | None = None
) -> FloatArray:
    """Estimate P(the corpus answers several readings, the question does not say which), shape (n,).

    A question may say too little, or only a name that several readings share: these two are
    combined by a noisy-or. The first is reduced if the hits answer the question with a confidence
    above 0.85, unless it lacks a referent. The result is 0 if the question names a reading.

    Parameters
    ----------
    numbers : array, shape (n, 5)
        `features` of each question.
    confidence : array, shape (n,)
        P(the hits answer the question).
    model : Calibrator, optional
        Model of the first three features; the shipped one by default. "shared" is used as a
        probability.
    """
    values = np.asarray(numbers, np.float32)
    vague, (shared, named) = values[:, :-2], values[:, -2:].T
    doubt = np.minimum((1 - np.asarray(confidence, np.float32)) / np.float32(1 - SURE), 1)
    doubt = np.maximum(doubt, values[:, FEATURES.index("referent")])
    said = 1 - (model or shipped_underspecified()).predict(vague) * doubt
    unsaid: FloatArray = (1 - said * (1 - shared)) * (1 - named)
    return unsaid


def ambiguity(
    question: str, outline: Outline, confidence: float, turns: Sequence[str] = ()
) -> tuple[float, Node]:
    """Estimate P(the question does not say which is meant), and of which node's children.

    Parameters
    ----------
    question, turns
        As in `features`.
    outline : Outline
    confidence : float
        P(the hits answer the question).
    """
    node = outline.split()
    evidence = features(question, node, turns)[None]
    return float(underspecified(evidence, np.array([confidence]))[0]), node


def readings(node: Node) -> list[Reading]:
    """Return the children of a node with the best hits, at most four, of 2 % of its mass or more.

    Those of one document are one, unless it has nearly all of the mass. If the question is a name
    that several of them share, it means one of these; else one whose first hit has half as much of
    the question, by idf, as any. There is only the heaviest one if it has nearly all of the mass,
    or if all that is known of them are the names of files that their passages do not say.
    """
    if node.shares[0] > _NEARLY or not node.tells:
        return _named(node, [0])
    node, outline = _by_document(node), node.outline
    chosen = [at for at, share in enumerate(node.shares) if share >= _OFFERED]
    said = (2 * node.said[chosen] - 1) @ outline.rarity >= 0  # half of it or more
    if np.count_nonzero(said) < 2:
        first = [node.children[at][0] for at in chosen]
        titles = np.array([outline.said[outline.titles[row]] for row in first])
        has = (outline.in_text[first] | titles) @ outline.rarity
        said = has >= has.max() / 2
    if np.count_nonzero(said) > 1:
        chosen = [at for at, of in zip(chosen, said.tolist(), strict=True) if of]
    chosen = [0] if _names_each(node, chosen) else _without_repeated(node, chosen)
    return _named(node, chosen[:MOST_READINGS])


def _names_each(node: Node, chosen: Sequence[int]) -> bool:
    """Return whether each of some statements alone has a word of the question, which compares."""
    outline, rows = node.outline, [node.children[at][0] for at in chosen]
    is_content = np.array([word in outline.content for word in outline.idf], bool)
    has = outline.in_text[rows] & is_content
    alone = has & (has.sum(axis=0) == 1)
    return (
        len(rows) > 1
        and bool(alone.any(axis=1).all())
        and not any(map(outline.paths.__getitem__, rows))
    )


def _without_repeated(node: Node, chosen: Sequence[int]) -> list[int]:
    """Leave out what is short, without a title, and says no more than another: one fact."""
    outline, first = node.outline, {at: node.children[at][0] for at in chosen}
    said = {at: stems(outline.texts[row]) for at, row in first.items()}
    return [
        at
        for at, row in first.items()
        if outline.titles[row]
        or len(outline.texts[row].split()) > _SENTENCE
        or not any(
            said[at] <= said[to] and (to < at or said[at] != said[to]) for to in chosen if to != at
        )
    ]


def _by_document(node: Node) -> Node:
    """Return a node with the children of each document as one, those with the best hits first.

    They are not one if a document has nearly all of the mass.
    """
    outline, mass, of = node.outline, node.outline.mass.tolist(), dict[object, list[int]]()
    for child in node.children:
        about = [outline.described[row] for row in child]
        sources = {one.source or one.document for one in about}
        is_one = len(sources) == 1 and "" not in sources
        of.setdefault(min(sources) if is_one else child[0], []).extend(child)
    whole = sum(map(mass.__getitem__, chain(*node.children)))
    is_split = max(sum(map(mass.__getitem__, rows)) for rows in of.values()) < _NEARLY * whole
    groups = of.values() if is_split else node.children
    children = [sorted(rows, key=mass.__getitem__, reverse=True) for rows in groups]
    children.sort(key=lambda rows: mass[rows[0]], reverse=True)
    shares = [sum(map(mass.__getitem__, rows)) / whole for rows in children]
    return Node(outline, children, shares, node.depth, node.tells)


def closest_sections(node: Node, most: int = MOST_CLOSEST) -> list[Reading]:
    """Name the first different sections of the hits, for a question that none answers."""
    outline, groups = node.outline, dict[object, list[int]]()
    for row, path in enumerate(outline.paths):
        groups.setdefault(tuple([name.key for name in path]) or row, []).append(row)
    chosen = [*groups.values()][:most]
    total = float(outline.mass.sum())
    shares = [float(outline.mass[group].sum()) / total for group in chosen]
    return _named(Node(outline, chosen, shares, max(map(len, outline.paths))), range(len(chosen)))


def _named(node: Node, chosen: Sequence[int]) -> list[Reading]:
    """Make readings of some children: by their names, and the sections that alone matter.

    A folder gives way to the title of its first hit, if that says more of the question. A name
    without a word of the question has its document's in front.
    """
    outline, made = node.outline, dict[str, Reading]()
    groups, shares = [node.children[at] for at in chosen], [node.shares[at] for at in chosen]
    depth = node.depth + 1
    paths = [_common([outline.paths[row][:depth] for row in rows]) for rows in groups]
    if len(groups) > 1 and paths.count(paths[0]) == len(paths):  # which names no part alone
        paths = [[] for _ in groups]
    own = [_name_of(outline, *of, depth) for of in zip(groups, paths, strict=True)]
    documents = [outline.document(rows[0]) for rows in groups]
    for rows, path, name, document, share in zip(
        groups, paths, own, documents, shares, strict=True
    ):
        alike = [p for p, one in zip(paths, own, strict=True) if _plain(one) == _plain(name)]
        apart = [
            up.text
            for at, up in enumerate(path)
            if [p[at : at + 1] for p in alike].count([up]) == 1 and len(alike) > 1
        ]
        if name != outline.titles[rows[0]] or not outline.asked_in(name):
            apart += [up.text for up in path[node.depth :] or path[-1:]]
        if len({*documents}) > 1 and not outline.asked_in(name):
            apart.append(document)
        above = next((up for up in apart if up and not _is_said(up, name)), "")
        name = f"{shorten(above, LONGEST_LABEL // 2)}: {name}" if above else name
        title = shorten(name or _opening(outline, rows, groups)) or outline.ids[rows[0]]
        ids = tuple([outline.ids[row] for row in rows])
        if title in made and name:  # nobody could choose between the two
            ids, share = (*made[title].ids, *ids), made[title].probability + share
        elif title in made:
            title = f"{title} ({rows[0] + 1})"
        made[title] = Reading(title, ids, share)
    return [*made.values()]


def _common(paths: Sequence[Sequence[Name]]) -> list[Name]:
    """Return the names with which all paths begin."""
    levels = takewhile(lambda level: len({*level}) == 1, zip(*paths, strict=False))
    return [level[0] for level in levels]


def _name_of(outline: Outline, rows: Sequence[int], path: Sequence[Name], depth: int) -> str:
    """Return the name of some hits, which are below a path; "" if they have none."""
    if not path or (name := outline.section(rows, depth)):
        return name if path else ""
    name, title = path[-1].text, outline.titles[rows[0]]
    is_wide = not path[-1].is_title or name == outline.document(rows[0])  # a folder, a document
    return title if is_wide and outline.asked_in(title) > outline.asked_in(name) else name


def _is_said(name: str, title: str) -> bool:
    """Return whether a title has all words of a name."""
    return {*split_words(name.casefold())} <= {*split_words(title.casefold())}


def _opening(outline: Outline, rows: Sequence[int], groups: Sequence[Sequence[int]]) -> str:
    """Return the first words of a long passage; of a short one, those that no other has together.

    A function word is none of them, but for a name such as "May". With them are those that belong
    to them, "sales in Lund", "15 minutes".
    """
    text, without = outline.texts[rows[0]], outline.function_words
    if len(text.split()) > _SENTENCE:
        return text
    asked = {word.casefold() for word in outline.idf}
    others = [
        {token.casefold() for row in group for token in _TOKEN.findall(outline.texts[row])}
        for group in groups
        if group is not rows
    ]
    every = [*_TOKEN.finditer(text)]
    said, kinds = asked.union(*others), ""
    for at, token in enumerate(every):
        folded, before = (
            token[0].casefold(),
            text[every[at - 1].end() : token.start()] if at else "",
        )
        is_name = at > 0 and token[0][:1].isupper()
        kind = "l" if folded in without and not is_name else "n" if folded[0].isdecimal() else ""
        kind = kind or ("x" if folded in said else "o")
        kinds += kind.upper() if before.strip() else kind  # the first of a clause
    told = list[tuple[int, int]]()
    has_name = any(
        k in "oO" and t[0][:1].isupper() for k, t in zip(kinds[1:], every[1:], strict=True)
    )
    # Of what has a name of its own, values tell only if no words do.
    for at in sorted(range(len(every)), key=lambda at: has_name and kinds[at] in "nN"):
        folded = every[at][0].casefold()
        left = [has for has in others if folded in has]
        is_new = not any(begin <= at < end for begin, end in told) and kinds[at] not in "lL"
        if is_new and folded not in asked and len(left) < len(others):
            others, run = left, _RUN.match(kinds, at)
            told.append((at, run.end() if run else at + 1))
    spans = [text[every[begin].start() : every[end - 1].end()] for begin, end in sorted(told)]
    return text.rstrip(".") if others else " ".join(spans) or text.rstrip(".")


@lru_cache(4096)
def _plain(title: str) -> str:
    """Return a title in a form in which "Add a user?" equals "Add a User" and "add_a-user"."""
    return " ".join(re.split(r"[-_\s]+", title.casefold())).strip(_ENDS)


def shorten(label: str, most: int = LONGEST_LABEL) -> str:
    """Return a label on one line of at most `most` characters, cut between words.

    Only a single word that is longer is cut, and scripts without spaces anywhere.
    """
    line = " ".join(label.split()).rstrip(_ENDS)
    if len(line) <= most:
        return line
    head = line[: most - 1]
    if not HAS_SPACELESS.match(line[most - 1]):
        head = line[:most].rpartition(" ")[0].rstrip(_ENDS) or head
    return f"{head}…"
