"""The outline of a question's hits, and whether the question says which part of it is meant.

Each hit has a path in its corpus: site, folders, document, heading above, title. The paths of the
hits of a question are a small tree, its `Outline`. The posterior over the hits puts mass on the
nodes. From the root, the heaviest child is followed while it has nearly all of the mass. Where it
has not, `underspecified` tells from five numbers about this node (`features`) whether the question
leaves open which child is meant.

Nothing here depends on the language but words from `uec_rag.base.text` and those of
questions/languages.toml, where a new one goes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.logistic import LEAST_SHARE, NEARLY, Calibrator, read_learned
from uec_rag.base.records import cached_property, remembered
from uec_rag.base.text import (
    FUNCTION_WORDS,
    GENERAL_TITLES,
    HAS_SPACELESS,
    PAGE,
    About,
    is_statement,
    path_names,
    path_parts,
    split_words,
    stems,
    without_number,
)
from uec_rag.questions.grammar import extract_concept, lacks_referent, refers_back
from uec_rag.questions.languages import ENGLISH
from uec_rag.questions.replies import ENDS

FEATURES = ("brief", "others", "referent", "shared", "named")
"""The names of the `features`: all but the last are evidence for an underspecified question."""

_PAIR = 0.38  # words that a pair of characters counts as; by `benchmarks/quality/decisions.py`
_SHORTEST_OVERLAP = 20  # characters
_FUNCTION = 0.25  # weight of a function word, which is rarer in manuals than in questions
_SITE = re.compile(
    r"(.+?) [—–|·»-] (.+?)(?: [—–|·»-] .+?)?(?: v?\d[\w.]*)?( documentation| docs| manual| help)?",
    re.IGNORECASE,
)  # the title of a page and its site


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
    language : str
        The code of that language.
    metadatas : sequence of m mappings, optional
        Values by which hits may be told apart.

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
    in_name : dict of str to bool array, shape (w,)
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
    language: str = ENGLISH
    metadatas: Sequence[Mapping[str, object]] = ()

    def __post_init__(self) -> None:
        folded = [word.casefold() for word in self.idf]
        little = [word in self.function_words for word in folded]
        weight = np.where(little, _FUNCTION, 1.0) / math.log1p(2 * self.size + 1)
        self.rarity = np.array([*self.idf.values()], float) * weight
        self.content = [w for w, no in zip(self.idf, little, strict=True) if not no and w[0] != "-"]
        self.paths, self.titles = _paths(self.described)
        self.keys = [tuple(map(attrgetter("key"), path)) for path in self.paths]
        names = {name.text for path in self.paths for name in path}
        self.in_name = _say([*self.idf], {*names, *self.titles})
        has = [[word in words for word in self.idf] for words in self.words]
        self.in_text = np.array(has, bool).reshape(len(self.ids), len(self.idf))
        in_head = np.array([self.in_name[title] for title in self.titles])
        begins = [f" {word}" for word in folded]
        for of_head, of_text, about in zip(in_head, has, self.described, strict=True):
            for at, is_there in enumerate(of_text):
                if is_there and begins[at] in about.opening:
                    of_head[at] = True
        scores = (self.in_text + 1.0 * in_head) @ self.rarity
        logits = np.asarray(self.logits, np.float64) + scores
        self.mass = np.exp(logits - logits.max())

    @cached_property
    def overlaps(self) -> set[tuple[int, int]]:
        """The pairs of hits of which one has the end of the other's text, both ways round."""
        whole, pairs = "\n".join(self.texts), set[tuple[int, int]]()
        for row, text in enumerate(self.texts):
            end = text.rstrip()[-_SHORTEST_OVERLAP:]
            if end and whole.count(end) > 1:  # as of nearly none
                places = [at for at, body in enumerate(self.texts) if at != row and end in body]
                pairs |= {pair for at in places for pair in ((row, at), (at, row))}
        return pairs

    def below(self, rows: Sequence[int], depth: int = 0) -> Node:
        """Return the node of some hits, which have names of this depth in common.

        Its children differ in the first level of names that tell what is below them, or else in the
        last; see `apart` of names that all of them have, or that tell nothing.
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
        children = [*groups.values()]
        children = self.apart(children, are_named=len(children) > 1 and tells)
        mass = [float(self.mass[rows].sum()) for rows in children]
        order = sorted(range(len(mass)), key=mass.__getitem__, reverse=True)
        children = [children[at] for at in order]
        return Node(self, children, [mass[at] / sum(mass) for at in order], depth, tells)

    def apart(self, groups: Sequence[list[int]], *, are_named: bool) -> list[list[int]]:
        """Return the hits of each group, apart if its name tells nothing of them.

        It is that of a file or of all, and they are statements, or without titles in one file. What
        says the same as another is with it, since splitters repeat what ends a passage in the next.
        """
        apart = list[list[int]]()
        is_only = len({about.source for about in self.described}) == 1 and not any(self.titles)
        for rows in groups:
            is_whole = are_named or not (is_only or self.are_statements(rows))
            for part in [rows] if is_whole else [[row] for row in rows]:
                for group in apart if len(part) == 1 and self.overlaps else ():
                    if self._repeats(part[0], group):
                        group += part
                        break
                else:
                    apart.append([*part])
        return apart

    def _repeats(self, row: int, part: Sequence[int]) -> bool:
        """Return whether a hit overlaps with one of others, and the overlap is what answers.

        It ends one text and begins the other, behind what both begin with, such as a heading. It
        says twice as much of the question as the remainder of one of the two.
        """
        for place in part:
            if (row, place) not in self.overlaps:
                continue
            if len({self.titles[row], self.titles[place]} - {""}) > 1:
                continue  # which tell what each is about
            texts = [" ".join(self.texts[at].split()) for at in (row, place)]
            pairs = enumerate(zip(*texts, strict=False))
            start = next((at for at, letters in pairs if len({*letters}) > 1), 0)
            overlap = ""
            for head, tail in ([text[start:] for text in texts[::by]] for by in (1, -1)):
                begins, at = tail[:_SHORTEST_OVERLAP], -1
                while len(begins) == _SHORTEST_OVERLAP and (at := head.find(begins, at + 1)) >= 0:
                    if tail.startswith(end := head[at : at + len(tail)]):
                        overlap = end
                        break
            if not overlap or texts[0] == texts[1]:
                continue
            rests = [text.replace(overlap, " ") for text in texts]
            says = _say([*self.idf], {overlap, *rests})
            is_content = np.array([word in self.content for word in self.idf], bool)
            whole, *parts = ((says[text] & is_content) @ self.rarity for text in (overlap, *rests))
            if min(parts) <= whole / 2 > 0:
                return True
        return False

    def are_statements(self, rows: Sequence[int]) -> bool:
        """Return whether some hits are short, as those of a list of rules or prices."""
        return all(is_statement(self.texts[row]) for row in rows)

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
        shared = Counter([stem for words in of for stem in words])
        owned = [[f" {s}" for s in words if shared[s] == 1 and not s.isdigit()] for words in of]
        right, wrong, count = 0, 0, 0
        for number, rows in enumerate(groups):
            for row in rows:
                text = f" {' '.join(split_words(self.texts[row].casefold()))}"
                tells = [any(map(text.__contains__, words)) for words in owned]
                right, wrong = right + tells[number], wrong + (sum(tells) > tells[number])
            count += len(rows)
        return 2 * (right - wrong) >= count

    def split(self) -> Node:
        """Return the first node whose heaviest child has not nearly all of its mass."""
        node = self.below(range(len(self.ids)))
        while node.shares[0] >= NEARLY:
            below = self.below(node.children[0], node.depth + 1)
            if len(below.children) == 1:
                break
            node = below
        return node

    def among(self, rows: Sequence[int]) -> Node:
        """Return a node of some hits, of which any may be meant as well as another."""
        tells = any(self.titles[row] for row in rows)
        return Node(self, [[row] for row in rows], [1 / len(rows)] * len(rows), 0, tells)


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
    def in_names(self) -> NDArray[np.bool_]:
        """True where the names below a child have a word of the question; shape (c, w).

        They are those on the paths to its hits below the node, and their titles.
        """
        outline = self.outline
        table = np.zeros((len(self.children), len(outline.idf)), bool)
        says = {*compress(outline.in_name, map(np.any, outline.in_name.values()))}
        for row_of_table, rows in zip(table, self.children if says else (), strict=False):
            for row in rows:
                path = outline.paths[row][self.depth :] or outline.paths[row][-1:]
                for name in says.intersection([outline.titles[row], *(part.text for part in path)]):
                    row_of_table |= outline.in_name[name]
        return table


def _paths(described: Sequence[About]) -> tuple[list[list[Name]], list[str]]:
    """Compute `Outline.paths` and `Outline.titles`."""
    subjects = [" ".join(hit.subject.split()) for hit in described]
    split = [_SITE.fullmatch(subject) for subject in subjects]
    bearers = Counter(
        [s for s, _ in {(s[2], d.source) for s, d in zip(split, described, strict=True) if s}]
    )
    split = [s if s and (s[3] or bearers[s[2]] > 1) else None for s in split]
    documents = Counter([bare(d) for d, _ in {(hit.document, hit.source) for hit in described}])
    paths, titles = list[list[Name]](), list[str]()
    for hit, subject, site in zip(described, subjects, split, strict=True):
        if not (hit.source or hit.document or subject):
            paths.append([])
            titles.append("")
            continue
        folders, file = path_names(hit.source)
        document, title = without_number(hit.document), without_number(site[1] if site else subject)
        label = document if document and documents[bare(hit.document)] == 1 else file or document
        is_named = bool(document) and bare(document) != bare(file)
        is_file = bool(folders) or file != hit.source
        if (is_file and hit.subject in (hit.source, *path_parts(hit.source)[-1:])) or (
            document and not is_named and bare(title) == bare(document)
        ):
            title = ""  # nothing but the name of the file
        names = [Name(site[2], site[2])] if site and all(split) else []
        names += [Name(folder, folder, False) for folder in folders]
        if label:
            names.append(Name(hit.source or document, label, is_named))
        names += [Name(hit.above, hit.above)] if hit.above else []
        if title and not PAGE.fullmatch(title):
            is_same = bool(names) and bare(names[-1].text) == bare(title)
            names.append(Name(names.pop().key if is_same else title, title))
        paths.append(names)
        titles.append(title)
    # A title that stands at several places tells nothing of what is below it.
    places = {(bare(path[-1].text), *path[:-1]) for path in paths if path}
    bearers = Counter([place[0] for place in places])
    for path in paths:
        if path[1:] and path[-1].is_title:
            title = bare(path[-1].text)
            if bearers[title] > 1 or title in GENERAL_TITLES or path[-1].text.isupper():
                path.pop()
    return paths, titles


def _say(words: Sequence[str], names: Collection[str]) -> dict[str, NDArray[np.bool_]]:
    """Compute `Outline.in_name`."""
    folded = [word.casefold() for word in words]
    of = [stems(word) for word in folded]
    parts = [bool(HAS_SPACELESS.search(word)) for word in folded]
    tables = {}
    for name in names:
        plain, bag = _words_of(name)
        tables[name] = np.array(
            [
                word in bag or bool(forms and forms <= bag) or (is_part and word in plain)
                for word, forms, is_part in zip(folded, of, parts, strict=True)
            ],
            bool,
        )
    return tables


@remembered(20_000)
def _words_of(name: str) -> tuple[str, frozenset[str]]:
    """Return a name in small letters, and its words and their stems."""
    plain = name.replace("_", " ").casefold()
    return plain, stems(plain).union(split_words(plain))


def features(question: str, node: Node, turns: Sequence[str] = ()) -> list[float]:
    """Compute the evidence that a question does not say which child of a node is meant, 5 numbers.

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
    texts = np.array([outline.in_text[rows].any(axis=0) for rows in node.children])
    says, square = node.in_names, outline.rarity**2
    lacks = (says[0] & ~says) * 1.0 + (texts[0] & ~texts)
    shared = ((says[0] & says) - lacks)[1:] @ square / max(float(square.sum()), 1e-12)
    length = sum(_PAIR if HAS_SPACELESS.search(word) else 1.0 for word in outline.content)
    best = min(max(node.shares[0], LEAST_SHARE), 1 - LEAST_SHARE)
    refers, naming = float(lacks_referent(context)), float(bool(extract_concept(question)))
    if not naming and not (refers and refers_back(context)):
        naming = _names_one(node)
    overlap = max(float(shared.max(initial=0.0)), 0.0)
    return [-math.log(max(length, 1)), math.log1p(-best) - math.log(best), refers, overlap, naming]


def _names_one(node: Node) -> float:
    """Return how far a question says which part of a node is meant, from 0 to 1.

    It has all words of a title or of the name of a file, in any inflection, that only one place has
    and a tenth of the mass or more is below. These words have as much idf as the others (0), to
    twice as much or more (1): "the name variable" is not "Variables".
    """
    outline, bag = node.outline, frozenset[str]().union(*map(stems, node.outline.content))
    files = {path_names(hit.source)[1].replace("_", " ") for hit in outline.described}
    if not any(name and name <= bag for name in map(stems, files.union(outline.in_name))):
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
            if (stemmed := stems(text)) and stemmed <= bag:
                of = mass.setdefault((is_title, stemmed), {})
                of[place] = of.get(place, 0.0) + float(outline.mass[row])
    threshold, share = (1 - NEARLY) * float(outline.mass[rows].sum()), 0.0
    words = [*zip(map(stems, outline.idf), outline.rarity.tolist(), strict=True)]
    for (_, stemmed), places in mass.items():
        if len(places) == 1 and max(places.values()) >= threshold:
            share = max(share, sum(rarity for forms, rarity in words if forms and forms <= stemmed))
    remainder = float(outline.rarity.sum()) - share
    return min(max(share / max(remainder, 1e-12) - 1, 0.0), 1.0)


@cache
def shipped_underspecified() -> Calibrator:
    """Return the model of P(underspecified), learned by `benchmarks/quality/decisions.py`."""
    return Calibrator.restore(read_learned("uec_rag.clarify", "readings.json")["underspecified"])


def underspecified(numbers: Sequence[float], model: Calibrator | None = None) -> float:
    """Estimate P(the corpus answers several readings, the question does not say which).

    A question may say too little, or only a name that several readings share: these two are
    combined by a noisy-or. The result is 0 if the question names a reading. That a hit answers it
    confidently says nothing of others that would answer it differently.

    Parameters
    ----------
    numbers : sequence of 5 floats
        `features` of the question.
    model : Calibrator, optional
        Model of the first three features; the shipped one by default. "shared" is used as a
        probability.
    """
    *vague, shared, naming = numbers
    clear = 1 - (model or shipped_underspecified()).probability(vague)
    return (1 - clear * (1 - shared)) * (1 - naming)


@remembered(20_000)
def bare(title: str) -> str:
    """Return a title in a form in which "Add a user?" equals "Add a User" and "add_a-user"."""
    return " ".join(re.split(r"[-_\s]+", title.casefold())).strip(ENDS)
