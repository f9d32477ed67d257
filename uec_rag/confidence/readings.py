"""The readings of a question, and the evidence that it does not say which is meant.

`Candidates` computes what is known of the hits and their subjects, `features` the evidence that the
question is ambiguous, `underspecified` the probability, and `readings` what it may mean.

A reading is a subject of some of the hits; several passages on one subject are one reading. A
question is underspecified if the corpus has different answers to several of its readings, and the
question does not say which of them is meant. In English, definite descriptions and pronouns without
a referent ("the loan", "it") are evidence of that. Nothing here depends on the language but words
from `uec_rag.base.text` and `uec_rag.confidence.wording`, where a new one goes.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from operator import attrgetter
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.properties import cached_property
from uec_rag.base.text import (
    DOCUMENTS,
    FUNCTION_WORDS,
    GENERAL_TITLES,
    HAS_SPACELESS,
    About,
    first_difference,
    headings_in,
    is_index,
    path_parts,
    singular_and_plural,
    split_words,
    stems,
    without_number,
)
from uec_rag.confidence.model import Calibrator, shipped
from uec_rag.confidence.wording import extract_concept, lacks_referent, refers_back

ASK = 0.72
"""The lowest P(underspecified) at which to ask for clarification."""

FEATURES = ("rivals", "brief", "others", "referent", "namesakes", "named")
"""The names of the `features`: all but the last are evidence for an underspecified question."""

_ALIKE = 0.93  # cosine from which two passages without a subject in their metadata share one
_LACK = 4.0  # decay of a rival's weight per missing word, in units of an unseen word's idf
# Words of a pair of characters: the ratio over 1,190 questions of xquad in English and in Chinese.
_PAIR = 0.375
_MANY = 300  # passages, which have nearly every common word
_FUNCTION = 0.25  # weight of a function word, which is rarer in manuals than in questions
_SURE = 0.85  # confidence from which saying little is less and less of an objection to a question
_TITLED = 2.0  # log likelihood of a reading whose title has all that the question says
_NAMED = 1 / 2, 2 / 3  # shares of a question's idf: up to the first, a title in it is not meant
_SEEN = 0.1  # share of the posterior that the passages under this title need
_TOPIC, _FEWEST = 0.15, 20  # share and number of the passages from which a word is their topic
_OF_OPTIONS = frozenset({"option", "options", "flag", "switch", "argument", "parameter"})
MOST_READINGS, LONGEST_LABEL = 4, 60
# Shares of a question in two titles by which another is not meant that has less in its head.
_TITLES, _HEAD = 0.5, 0.1
_LEAST = 0.02  # likelihood from which a reading is offered
_CERTAIN = 0.9  # likelihood of a reading above which nothing else is meant
_CERTAIN_PRODUCT = 0.99  # the same for a product: what it is about does not tell which is meant
_SENTENCE = 25  # number of words up to which a passage is told from others by its own words
_ENDS = " :?？"  # which a label does not end with
_PAGE = re.compile(r"page \d+")  # the title of a passage without a heading
_VARIANT = 0.9  # P(another is meant) of passages that say the same with other numbers
_SAME = 0.9  # share of the words of two passages that both have if they say the same
_NUMBER = re.compile(
    r"\d+(?:[.,:/-]\d+)*|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|"
    r"twenty|thirty|forty|fifty|sixty|ninety|hundred|january|february|march|april|may|june|july|"
    r"august|september|october|november|december)\b",
    re.IGNORECASE,
)
_ASCII_WORD = re.compile(r"\w+", re.ASCII)  # also beside a character of a script without spaces
_SAID = 0.4  # share of the hits that say the name of their product
_SELDOM = 4  # how many times as many hits say the name of their own product as that of another
_OF_PRODUCTS = 1.6  # log odds by which a question that names none of several products is ambiguous
_DASH = re.compile(r" [—–|·»-] ")  # in the title of a page, before that of its site
_SITE = re.compile(r"(?: v?\d[\w.]*+)? (?:documentation|docs|manual|help)\Z", re.IGNORECASE)
_ARGUMENTS = re.compile(r"(?<=\w)\([^()]*\)\Z")  # of a function


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
        Likelihood of the reading, see `readings`; that of all subjects sums to 1.
    """

    title: str
    ids: tuple[str, ...]
    probability: float


@dataclass(eq=False)
class Candidates:
    """The first m hits of one question, best first, and their s subjects.

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
    vectors : array, shape (m, d), optional
        Stored vectors, to distinguish subjects without metadata; they need not be normalised.
    function_words : frozenset of str
        Those of the question's language.
    sections : Candidates, optional
        The same hits by their sections, if the subjects are products; see `among_products`.

    Attributes
    ----------
    about : list of m About
        The subject of each hit, with the heading above a title that a source has repeatedly.
    bearers : Counter of str
        The number of sources that have each title, by its `_plain` form.
    content : list of str
        The words of the question that are neither options ("-n") nor function words.
    stems : dict of str to float
        The stems of `content`, with the highest idf of a word.
    rarity : array, shape (w,)
        The idf of each word by that of a word that no passage has, a quarter of it for a function
        word. The corpus size cancels.
    subject : array, shape (m,)
        The number of each hit's subject from 0, in the order of their first hits.
    weights : array, shape (m,)
        The posterior of each hit, up to a factor.
    mass : array, shape (s,)
        The posterior of each subject, summed over its hits.
    coverage : bool array, shape (3, s, w)
        True where a subject has a word in its texts, heads and titles; a head is a title and the
        opening words of a text.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    described: Sequence[About]
    logits: FloatArray
    words: Sequence[Collection[str]]
    idf: Mapping[str, float]
    size: int
    vectors: FloatArray | None = None
    function_words: frozenset[str] = FUNCTION_WORDS
    sections: Candidates | None = None
    about: list[About] = field(init=False)
    bearers: Counter[str] = field(init=False)
    content: list[str] = field(init=False)
    stems: dict[str, float] = field(init=False)
    rarity: NDArray[np.float64] = field(init=False)
    subject: NDArray[np.intp] = field(init=False)
    weights: NDArray[np.float64] = field(init=False)
    mass: NDArray[np.float64] = field(init=False)
    coverage: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        above = defaultdict[tuple[str, str], set[str]](set)
        for one in self.described:
            above[one.subject, one.source].add(one.above)
        self.about = [
            one.below() if one.above and len(above[one.subject, one.source]) > 1 else one
            for one in self.described
        ]
        pairs = {(_plain(one.subject), one.source) for one in self.labelled}
        self.bearers = Counter([title for title, _ in pairs])
        self.content, self.stems, telling = [], {}, []
        for word, idf in self.idf.items():
            says_little = word.casefold() in self.function_words
            telling.append(_FUNCTION if says_little else 1.0)
            if says_little or word.startswith("-"):
                continue
            self.content.append(word)
            for stem in stems(word):
                self.stems[stem] = max(idf, self.stems.get(stem, 0.0))
        unknown = float(np.log1p(2 * self.size + 1))
        self.rarity = np.array([*self.idf.values()], float) * telling / unknown
        self.subject = _number_subjects(self)
        logits = np.asarray(self.logits, np.float64)
        self.weights = np.asarray(np.exp(logits - logits.max()))
        self.mass = np.bincount(self.subject, self.weights / self.weights.sum()).astype(np.float64)
        self.coverage = _cover(self)

    @property
    def labelled(self) -> list[About]:
        """The sections of the hits, by which readings are named."""
        return self.about if self.sections is None else self.sections.about

    @cached_property
    def pages(self) -> list[tuple[str, str]]:
        """The title of each hit and the product that it names, else ""; see `_pages`."""
        return _pages(self.labelled)

    @cached_property
    def products(self) -> list[str]:
        """The product of each hit, see `_products`; empty if there are not several."""
        return _products(self)

    def among_products(self) -> Candidates | None:
        """Return the same hits with their products as subjects.

        It is None if there are not several, or if the question names one of them.
        """
        of_product = {
            name: About.from_passage({"title": name, "source": name}) for name in self.products
        }
        named = [one.subject_stems.split() for one in of_product.values()]
        if not named or any(name and self.stems.keys() >= {*name} for name in named):
            return None
        described = [
            replace(of_product[name], opening_words=one.subject_words + one.opening_words)
            for name, one in zip(self.products, self.about, strict=True)
        ]
        return replace(self, described=described, sections=self)

    def rows_of(self, subjects: Iterable[int]) -> list[list[int]]:
        """Return the hits of each of some subjects."""
        return [np.flatnonzero(self.subject == number).tolist() for number in subjects]


def _number_subjects(candidates: Candidates) -> NDArray[np.intp]:
    """Compute `Candidates.subject`.

    Hits with the same title and source share a subject. A title that several sources have, or one
    in capitals, is a section like "OPTIONS": its subject is the source. So is that of hits under
    the title of their document, and of all hits in a file whose name has a word of the question.
    Hits without a title share a subject if they are as similar to each other as passages of one
    text, and do not say the same with other numbers.
    """
    texts, vectors, stems_asked = candidates.texts, candidates.vectors, candidates.stems.keys()
    alike = [[False] * len(texts)] * len(texts)
    if vectors is not None:
        vectors = np.asarray(vectors, np.float32)
        norms = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        unit = vectors / norms
        alike = (unit @ unit.T >= _ALIKE).tolist()  # single elements of arrays are slow
    numbers: dict[object, int] = {}
    leaders: list[int] = []
    subject = []
    for row, one in enumerate(candidates.about):
        title = _plain(one.subject)
        key: object = (one.subject, one.source)
        if not one.subject:
            similar = [before for before in leaders if alike[row][before]]
            key = next((b for b in similar if not _is_variant(texts[row], texts[b])), row)
            if key == row:
                leaders.append(row)
        elif one.source and (
            candidates.bearers[title] > 1
            or one.subject.isupper()
            or title == _plain(one.document)
            or not stems_asked.isdisjoint(one.source_stems.split())
        ):
            key = one.source
        subject.append(numbers.setdefault(key, len(numbers)))
    return np.array(subject, dtype=np.intp)


def _cover(candidates: Candidates) -> NDArray[np.bool_]:
    """Compute `Candidates.coverage`."""
    numbers, count = candidates.subject.tolist(), len(candidates.idf)
    table = np.zeros((3, max(numbers) + 1, count), dtype=bool).tolist()
    in_text, in_head, in_title = table
    forms_of = singular_and_plural(map(str.casefold, candidates.idf))
    for position, (word, forms) in enumerate(zip(candidates.idf, forms_of, strict=True)):
        # A word that is not ASCII, such as a Chinese one, may be a part of another.
        edge, last = (" ", 3) if forms[0].isascii() else ("", 1)
        spellings = {f"{edge}{form}{edge}" for form in forms[-last:]}
        for number, one, of_hit in zip(numbers, candidates.about, candidates.words, strict=True):
            if word in of_hit:
                in_text[number][position] = True
                for form in spellings:
                    if form in one.subject_words:
                        in_head[number][position] = in_title[number][position] = True
                    elif form in one.opening_words:
                        in_head[number][position] = True
    return np.array(table, dtype=bool)


def _is_variant(text: str, other: str) -> bool:
    """Return whether two texts say the same with other numbers, dates or versions."""
    numbers, others = _numbers(text), _numbers(other)
    if numbers == others or not numbers or not others:
        return False
    words, same = _words_beside_numbers(text), _words_beside_numbers(other)
    return len(words & same) >= _SAME * len(words | same)


# Each hit is compared with the first ones, and passages are found again.
@lru_cache(4096)
def _numbers(text: str) -> frozenset[str]:
    return frozenset(number.casefold() for number in _NUMBER.findall(text))


@lru_cache(4096)
def _words_beside_numbers(text: str) -> frozenset[str]:
    return frozenset(split_words(_NUMBER.sub("#", text).casefold()))


def features(question: str, candidates: Candidates, turns: Sequence[str] = ()) -> FloatArray:
    """Compute the evidence that a question does not say which reading is meant, shape (6,).

    They are the `FEATURES`. `turns`: the turns before the question, which may have its referent.

    - "rivals": how many subjects match everything in the question, ``log(1 + sum_r exp(-4 (l_r +
      h_r)))`` over all subjects r except that of the best hit. l_r is the idf of the question's
      words that occur in the hits of the best subject, but not in those of r; h_r is the same for
      titles and first words.
    - "brief": how little the question says, minus the log of the number of its words, without
      function words; an option ("-n") counts once, and a pair of characters, in a script without
      spaces, `_PAIR`.
    - "others": the log odds, by the posterior over the hits, of subjects other than the best hit's;
      the probability is kept between 1e-4 and 1 - 1e-4.
    - "referent": whether it `lacks_referent`.
    - "namesakes": how far it is a name that several subjects share, see `_namesakes`.
    - "named": whether it names its subject. It asks for a concept, or it names a title or a file
      and has no pronoun without a referent: in "How do I move it?", a page on moving is not the
      subject.
    """
    context, table = "\n".join([*turns, question]), candidates.coverage
    lacks_text, lacks_head, _ = (table[:, :1] & ~table).astype(np.float64)
    lacks = -_LACK * (lacks_text + lacks_head) @ candidates.rarity
    length = 0.0
    for word in candidates.content:
        length += _PAIR if HAS_SPACELESS.search(word) else 1.0
    best = min(max(float(candidates.mass[0]), 1e-4), 1 - 1e-4)
    refers = lacks_referent(context)
    named = float(_asks_for_concept(question, candidates))
    if not named and not (refers and refers_back(context)):
        named = _names_title(candidates)
    return np.array(
        [
            np.log1p(np.exp(lacks)[1:].sum()),
            -math.log(max(length, 1)),
            math.log1p(-best) - math.log(best),
            refers,
            _namesakes(candidates),
            named,
        ],
        dtype=np.float32,
    )


def _namesakes(candidates: Candidates) -> float:
    """Compute how far the question is a name that several subjects share.

    For the best subject with a title and another one, it is the sum of squared idf of the
    question's words in the titles of both, minus that of the words that the other lacks in its
    titles and in its texts, divided by the sum over all words; the maximum over other subjects, at
    least 0. If the question is about an option and nothing else ("What does -n do?"), it is at
    least the share of the posterior over the hits with the option that is not of the likeliest
    subject; if another subject says the same with other numbers, see `_shared_statement`.
    """
    idf, (in_text, _, in_title) = candidates.rarity, candidates.coverage
    titles = zip(candidates.subject.tolist(), candidates.about, strict=True)
    best = next((number for number, about in titles if about.subject), 0)
    lacks = (in_title[best] & ~in_title).astype(np.float64) + (in_text[best] & ~in_text)
    names = (in_title & in_title[best]) - lacks
    shared = names @ idf**2
    shared[best] = 0.0
    most = max(float(shared.max()), 0.0) / max(float(idf @ idf), 1e-12)
    options = {word for word in candidates.idf if word.startswith("-")}
    about_options = _OF_OPTIONS.union([option.lstrip("-").casefold() for option in options])
    if options and about_options.issuperset([word.casefold() for word in candidates.content]):
        having = [row for row, words in enumerate(candidates.words) if options <= {*words}]
        mass = np.bincount(candidates.subject[having], candidates.weights[having])
        most = max(most, 1 - mass.max() / mass.sum()) if having else most
    return max(most, _shared_statement(candidates))


def _shared_statement(candidates: Candidates) -> float:
    """Return P(another is meant) of a statement that other subjects make with other numbers.

    It is 0 if the best hit has a word or a number of the question that the others lack.
    """
    asked, said = _numbers(" ".join(candidates.idf)), {*candidates.words[0]}
    texts, about, first = candidates.texts, candidates.about, candidates.subject[0]
    for row in np.flatnonzero(candidates.subject != first).tolist():
        if not said <= {*candidates.words[row]} or not _is_variant(texts[0], texts[row]):
            continue
        own, other = (
            _numbers(f"{about[at].subject} {about[at].source} {texts[at]}") & asked
            for at in (0, row)
        )
        if own == other:
            return _VARIANT
    return 0.0


def _asks_for_concept(question: str, candidates: Candidates) -> bool:
    """Return whether any definition of a term answers the question.

    It asks what a concept is ("What is a gauge?"), or a name that is the topic of the documents,
    whose words are in 15 % of all passages or more.
    """
    term = extract_concept(question)
    if not term:
        return False
    least = max(_TOPIC, _FEWEST / max(candidates.size, 1))
    # Several things may have the same name.
    is_name = any(word[:1].isupper() and word[1:2].islower() for word in term.split())
    return not is_name or all(idf <= -np.log(least) for idf in candidates.stems.values())


def _names_title(candidates: Candidates) -> float:
    """Return how far the question names the title or the file of a source, from 0 to 1.

    It has all words of a title in one source, or of a file's name, in any inflection, and the
    passages under that title or in that file have a tenth of the posterior or more. These words are
    half of its idf (0) to two thirds or more (1): "the name variable" is not "Variables".
    """
    idf, weights, about = candidates.stems, candidates.weights, candidates.about
    least, total, most = _SEEN * float(weights.sum()), max(sum(idf.values()), 1e-12), 0.0
    for name_of in (attrgetter("subject_stems"), attrgetter("source_stems")):
        mass: dict[str, float] = {}
        for name, weight in zip(map(name_of, about), weights.tolist(), strict=True):
            mass[name] = mass.get(name, 0.0) + weight
        for name, words in zip(mass, map(str.split, mass), strict=True):
            if words and mass[name] >= least and idf.keys() >= {*words}:
                share = sum(map(idf.__getitem__, words)) / total
                bearers = {one.source for one in about if name_of(one) == name}
                if len(bearers) == 1:
                    most = max(most, (share - _NAMED[0]) / (_NAMED[1] - _NAMED[0]))
    return min(most, 1.0)


@cache
def shipped_underspecified() -> Calibrator:
    """Return the model of P(underspecified), learned by `benchmarks/quality/decisions.py`."""
    return Calibrator.restore(shipped("readings.json")["underspecified"])


def underspecified(
    numbers: FloatArray,
    confidence: FloatArray,
    model: Calibrator | None = None,
) -> FloatArray:
    """Estimate P(the corpus answers several readings, the question does not say which), shape (n,).

    A question may say too little, or only a name that several subjects share: these two are
    combined by a noisy-or. The first is reduced if the hits answer the question with a confidence
    above 0.85, unless it lacks a referent. The result is 0 if the question names its subject.

    Parameters
    ----------
    numbers : array, shape (n, 6)
        `features` of each question.
    confidence : array, shape (n,)
        P(the hits answer the question).
    model : Calibrator, optional
        Model of the first four features; the shipped one by default. "namesakes" is used as a
        probability.
    """
    values = np.asarray(numbers, np.float32)
    vague, (namesakes, named) = values[:, :-2], values[:, -2:].T
    doubt = np.minimum((1 - np.asarray(confidence, np.float32)) / np.float32(1 - _SURE), 1)
    doubt = np.maximum(doubt, values[:, FEATURES.index("referent")])
    said = 1 - (model or shipped_underspecified()).predict(vague) * doubt
    unsaid: FloatArray = (1 - said * (1 - namesakes)) * (1 - named)
    return unsaid


def ambiguity(
    question: str, candidates: Candidates, confidence: float, turns: Sequence[str] = ()
) -> tuple[float, Candidates]:
    """Estimate P(the question does not say which is meant), and of which candidates.

    It may leave open which of several products is meant, or else which section. Where there are
    several, a question that names none is likelier ambiguous.

    Parameters
    ----------
    question, turns
        As in `features`.
    candidates : Candidates
    confidence : float
        P(the hits answer the question).
    """
    if (products := candidates.among_products()) and products.mass.max() <= _CERTAIN_PRODUCT:
        unsaid = _unsaid(question, products, confidence, turns)
        if unsaid >= ASK:
            return unsaid, products
    return among_sections(question, candidates, confidence, turns)


def among_sections(
    question: str, candidates: Candidates, confidence: float, turns: Sequence[str] = ()
) -> tuple[float, Candidates]:
    """Estimate the same as `ambiguity`, by the sections alone."""
    sections = candidates.sections or candidates
    return _unsaid(question, sections, confidence, turns), sections


def _unsaid(
    question: str, candidates: Candidates, confidence: float, turns: Sequence[str]
) -> float:
    model = shipped_underspecified()
    if candidates.sections is not None:
        model = model.with_line(1.0, _OF_PRODUCTS)
    evidence = features(question, candidates, turns)[None]
    return float(underspecified(evidence, np.array([confidence]), model)[0])


def readings(candidates: Candidates) -> list[Reading]:
    """Find the readings of a question, most probable first.

    The likelihood of a subject is its posterior, times `exp(2 t)` if its titles say a share t of
    the question, by squared idf. The readings are the likeliest four subjects, of those of 2 % or
    more, and among them that of the first hit. There is only the likeliest one if it has more than
    nine tenths, if all that is known of them are the names of their files and they do not say the
    same with other numbers, or if no passage has a word of the question, which none of them would
    answer then.
    """
    rarity = candidates.rarity**2
    titled = candidates.coverage[2] @ rarity / max(float(rarity.sum()), 1e-12)
    mass = candidates.mass * np.exp(_TITLED * titled)
    mass /= mass.sum()
    count = min(max(int((mass >= _LEAST).sum()), 2), MOST_READINGS)
    chosen = np.argsort(-mass, kind="stable")[:count].tolist()
    heads = candidates.coverage[1] @ rarity >= _HEAD * rarity.sum()
    having = [number for number in chosen if heads[number]]
    titles = np.count_nonzero(titled[chosen] >= _TITLES)
    if titles > 1 or (titles and len(having) > 1):  # "lockf" is not what opens a file
        chosen = having
    only_files = all(candidates.about[rows[0]].is_file for rows in candidates.rows_of(chosen))
    certain = _CERTAIN if candidates.sections is None else _CERTAIN_PRODUCT
    is_one = mass.max() > certain or (only_files and not _shared_statement(candidates))
    if is_one or _asks_for_unknown(candidates):
        chosen = chosen[:1]
    elif 0 not in chosen:  # the subject of the first hit
        chosen = sorted([*chosen[:-1], 0], key=mass.tolist().__getitem__, reverse=True)
    groups = candidates.rows_of(chosen)
    return _named(candidates, groups, mass)


def closest_sections(candidates: Candidates, most: int = 3) -> list[Reading]:
    """Name the first different sections of the hits, for a question that none answers."""
    candidates = candidates.sections or candidates
    groups = candidates.rows_of(range(len(candidates.mass)))
    return _named(candidates, groups[:most], candidates.mass)


def _named(
    candidates: Candidates, groups: Sequence[Sequence[int]], mass: NDArray[np.float64]
) -> list[Reading]:
    """Make a reading of each group of hits; `mass`: the probability of each subject."""
    named = []
    for title, rows in zip(_titles(candidates, groups), groups, strict=True):
        probability = float(mass[candidates.subject[rows[0]]])
        named.append(Reading(title, tuple(candidates.ids[row] for row in rows), probability))
    return named


def _asks_for_unknown(candidates: Candidates) -> bool:
    """Return whether the question has a word that no passage of a large corpus has.

    A small corpus lacks many a word that is no object, such as that of "how long".
    """
    unseen = math.log1p(2 * candidates.size + 1) - 1e-3
    absent = ~candidates.coverage[0].any(axis=0)
    return candidates.size >= _MANY and any(
        is_absent and idf >= unseen and word.casefold() not in candidates.function_words
        for (word, idf), is_absent in zip(candidates.idf.items(), absent.tolist(), strict=True)
    )


def _titles(candidates: Candidates, groups: Sequence[Sequence[int]]) -> list[str]:
    """Name each group of hits by its title, with what tells it apart if the title says little."""
    about, pages, titles = candidates.labelled, candidates.pages, list[str]()
    # A section of a product names it, and sections of one file nothing but the file.
    if candidates.sections is not None:
        groups = [[_telling_row(candidates, rows)] for rows in groups]
    heads = [{pages[row][0] for row in rows} for rows in groups]
    own = [without_number(one.pop()) if len(one) == 1 else "" for one in heads]
    bearers = Counter(map(_plain, own))
    sources = _source_titles(about)
    products = {candidates.products[rows[0]] for rows in groups} if candidates.products else set()
    for title, rows in zip(own, groups, strict=True):
        one = about[rows[0]]
        alike = [other[0] for name, other in zip(own, groups, strict=True) if name == title]
        source, is_apart = sources[one.source], False
        if title and len(alike) > 1 and (apart := _tell_apart(about, pages, alike)):
            source, is_apart = apart[alike.index(rows[0])], True
        is_file = one.subject in (one.source, PurePath(one.source).name)
        if is_file and (heading := _heading_about(candidates, rows[0])):
            title, is_file = heading, False
        is_general = title.isupper() or _plain(title) in GENERAL_TITLES
        says_little = is_general or bool(_PAGE.fullmatch(title)) or is_file
        says_little |= max(bearers[_plain(title)], candidates.bearers[_plain(one.subject)]) > 1
        is_only = len(bearers) == 1 < len(groups) and not is_apart
        if source and (not title or is_file or is_only):
            title, source = source, ""
        if len(products) > 1:
            title = f"{source}: {title}" if source and is_general else title
            source, says_little = candidates.products[rows[0]], True
            title = title.removeprefix(f"{source}/")
        if source and says_little and not _is_said(source, title):
            title = f"{shorten(source, LONGEST_LABEL // 2)}: {title}"
        title = shorten(title or _opening(candidates, rows, groups) or candidates.ids[rows[0]])
        number = int(candidates.subject[rows[0]]) + 1
        titles.append(f"{title} ({number})" if title in titles else title)
    return titles


def _telling_row(candidates: Candidates, rows: Sequence[int]) -> int:
    """Return the first of some hits whose titles say a word of the question, else the first."""
    about, texts = candidates.labelled, candidates.texts
    for row in rows:
        titles = map(stems, headings_in(about[row].source, texts[row]))
        said = {*about[row].subject_stems.split(), *about[row].source_stems.split()}.union(*titles)
        if not said.isdisjoint(candidates.stems):
            return row
    return rows[0]


def _heading_about(candidates: Candidates, row: int) -> str:
    """Return the heading in a hit's text that says most of the question; "" if none says any."""

    def says(heading: str) -> float:
        return sum(candidates.stems.get(stem, 0.0) for stem in stems(heading))

    headings = headings_in(candidates.labelled[row].source, candidates.texts[row])
    best = max(headings, key=says, default="")
    return best if says(best) else ""


def _is_said(name: str, title: str) -> bool:
    """Return whether a title has all words of a name."""
    return {*split_words(name.casefold())} <= {*split_words(title.casefold())}


def _pages(about: Sequence[About]) -> list[tuple[str, str]]:
    """Split titles such as "Keys — Borg 1.2 documentation" into page and product, else "".

    What follows the dash names a product if titles of several sources have it, or it says so.
    """
    split = [_DASH.split(" ".join(one.subject.split()), 1) for one in about]
    of_sources = {(parts[-1], one.source) for parts, one in zip(split, about, strict=True)}
    bearers = Counter(last for last, _ in of_sources)
    return [
        (page[0], _SITE.sub("", _DASH.split(page[1])[0]).strip())
        if len(page) == 2 and (bearers[page[1]] > 1 or _SITE.search(page[1]))
        else (one.subject, "")
        for page, one in zip(split, about, strict=True)
    ]


def _products(candidates: Candidates) -> list[str]:
    """Name the product of each hit by the title of its page, or else by its folder or file.

    The first part in which the paths differ names a product if the passages say it: most of them
    have the name of their own part, and hardly any that of another. So "restic" and "caddy" name
    products, but "userguide" and "reference" sections of one.
    """
    if all(sites := [site for _, site in candidates.pages]):
        return sites if len(set(sites)) > 1 else []
    paths = [path_parts(one.source) for one in candidates.labelled]
    depth, parts = first_difference(paths)
    in_folders = {len(path) > depth for path in paths}
    only_files = 2 * sum(one.is_file for one in candidates.labelled) > len(paths)
    # Files beside folders are sections of one product, and files with titles mostly are.
    if in_folders != {True} and (in_folders != {False} or not only_files):
        return []
    names = [_without_suffix(part) for part in parts]
    words = {(w, name) for name in {*names} for w in split_words(name.casefold().replace("_", " "))}
    shared = Counter([*candidates.function_words, *(word for word, _ in words)])
    owner = {word: name for word, name in words if shared[word] == 1 and not word.isdecimal()}
    if len({*owner.values()}) < 2:
        return []
    words_of = {name: [word for word in owner if owner[word] == name] for name in {*names}}
    texts = [*zip(names, map(str.casefold, candidates.texts), strict=True)]
    least = _SAID * len(names)
    # Most indexes are of one product, which a look for each text's own name tells.
    most = sum(any(word in text for word in words_of[name]) for name, text in texts)
    if most < least:
        return []
    own = others = 0
    for name, text in texts:
        said = {owner[word] for word in owner.keys() & _ASCII_WORD.findall(text)}
        own += name in said
        others += len(said - {name}) > 0
    return names if own >= least and others * _SELDOM <= own else []


def _tell_apart(
    about: Sequence[About], pages: Sequence[tuple[str, str]], rows: Sequence[int]
) -> list[str]:
    """Return the products, or else the folders, by which pages of one title differ; [] if none."""
    folders = zip(*(path_parts(about[row].source)[:-1] for row in rows), strict=False)
    for names in ([pages[row][1] for row in rows], *map(list, folders)):
        if all(names) and len({*map(_plain, names)}) == len(names):
            return names
    return []


def _source_titles(about: Sequence[About]) -> dict[str, str]:
    """Name each source by the title of its document if no other has it, else by its path.

    A path is named by its end that no other has, without ".md" and the like, and an index by its
    folder: "loans", "fees/2024".
    """
    documents = {one.source: one.document for one in about if one.source}
    bearers = Counter(map(_plain, documents.values()))
    ends = Counter(end for source in documents for end in _path_ends(source))
    names = {"": ""}
    for source, title in documents.items():
        end = next((end for end in _path_ends(source) if ends[end] == 1), source)
        names[source] = title if title and bearers[_plain(title)] == 1 else end
    return names


def _opening(candidates: Candidates, rows: Sequence[int], groups: Iterable[Sequence[int]]) -> str:
    """Return the first words of a long passage; of a short one, those that the others lack."""
    texts = candidates.texts
    text = texts[rows[0]]
    if len(text.split()) > _SENTENCE:
        return text
    others = [texts[row] for group in groups if group is not rows for row in group]
    said = [*candidates.idf, *candidates.function_words, *split_words("\n".join(others))]
    common = {word.casefold() for word in said}
    own = (word for word in split_words(text) if word.casefold() not in common and len(word) > 1)
    return next(own, text)


@lru_cache(4096)
def _path_ends(source: str) -> tuple[str, ...]:
    """List the ends of a path, shortest first, and the path.

    The ends are without the suffix of a document and the name of an index.
    """
    path = PurePath(source)
    stem = PurePath(_without_suffix(source))
    parts = (stem.parent if is_index(path) else stem).parts
    ends = [PurePath(*parts[-depth:]).as_posix() for depth in range(1, len(parts) + 1)]
    return (*ends, path.as_posix())


@lru_cache(4096)
def _without_suffix(path: str) -> str:
    """Return a path without ".md" and the like."""
    suffix = PurePath(path).suffix
    return path.removesuffix(suffix) if suffix.lower() in DOCUMENTS else path


@lru_cache(4096)
def _plain(title: str) -> str:
    """Return a title in a form in which "Add a user?" equals "Add a User", and "read()" "read"."""
    return _ARGUMENTS.sub("", " ".join(title.split()).rstrip(_ENDS)).casefold()


def shorten(label: str, most: int = LONGEST_LABEL) -> str:
    """Return a label on one line of at most `most` characters, cut between words if possible."""
    line = " ".join(label.split()).rstrip(_ENDS)
    if len(line) <= most:
        return line
    head = line[:most].rpartition(" ")[0]  # whole words, if they are not long themselves
    return f"{head if len(head) > most // 2 else line[: most - 1]}…"
