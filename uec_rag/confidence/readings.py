"""The readings of a question, and P(it does not say which of them is meant).

A reading is what some of the hits are about. A question is underspecified if the corpus answers
several readings of it differently and it does not say which; several passages on one subject are
one reading. Definite descriptions and pronouns without a referent ("the loan", "it") are evidence,
in English.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.model import Calibrator
from uec_rag.confidence.wording import FUNCTION_WORDS, WORD, lacks_referent

ASK = 0.68
"""P(underspecified) from which on to ask back: of ordinary questions 2 % are above it."""

SUBJECT_KEYS = ("title", "heading", "header", "source")
"""Metadata that says what a passage is about; the first that a passage has counts."""

FEATURES = ("rivals", "brief", "common", "others", "referent", "namesakes")
"""Names of the `features`, each evidence for an underspecified question."""

_ALIKE = 0.93  # cosine of two passages without a subject in their metadata that have the same one
_HEAD = 10  # words at the beginning of a passage that say what it is about, beside its subject
_LACK = 4.0  # how fast a reading ceases to be a rival, per word that it lacks and no passage has
_FULL = 0.3  # in_corpus from which on readings are plausible
MOST_READINGS, LONGEST_LABEL = 5, 60
_ENOUGH = 0.98  # of the posterior, that the readings hold together
_LABEL_FROM = 60  # words of a passage among which its label is looked for
# With a dot: "7.5. Virtual packages", and not "3 Idiots".
_SECTION_NUMBER = re.compile(r"\A(?:[A-Z]\.\d|\d+\.)[\d.]*\s+")
_ASCII_WORD = re.compile(r"\w+", re.ASCII)  # the same in ASCII, at a third of the time


@dataclass(frozen=True)
class Reading:
    """One of the things that a question may mean.

    Attributes
    ----------
    label : str
        What tells it from the others: its title or heading, or a few words.
    ids : tuple of str
        Its passages, best first.
    probability : float
        Its share of the posterior over the hits.
    """

    label: str
    ids: tuple[str, ...]
    probability: float

    @property
    def filter(self) -> dict[str, Any]:
        """The filter of a search that goes on among this reading's passages."""
        return {"$id": [*self.ids]}


@dataclass(frozen=True, eq=False)
class Candidates:
    """The first m hits of one question, best first, with all that readings are found by.

    Attributes
    ----------
    ids, texts : sequence of m str
    titles : sequence of m str
        The subject that each one's metadata names (`subject_of`); "" if none.
    sources : sequence of m str
        "" if that is not known.
    logits : array, shape (m,)
        Of the posterior over the hits, up to a constant: log shares of the softmax.
    words : sequence of m collections of str
        Words of the question that each hit holds, named as in `idf`.
    idf : mapping of str to float
        Of every word of the question, also those that no passage has:
        ``log(1 + (N - n + 1/2) / (n + 1/2))``.
    size : int
        N, the number of passages that were searched.
    vectors : array, shape (m, d), optional
        Stored vectors, to tell subjects apart if metadata does not; of any length.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    titles: Sequence[str]
    sources: Sequence[str]
    logits: FloatArray
    words: Sequence[Collection[str]]
    idf: Mapping[str, float]
    size: int
    vectors: FloatArray | None = None


def subjects(candidates: Candidates) -> NDArray[np.intp]:
    """Number the subjects of hits from 0 in the order of their first hits, shape (m,).

    Hits of one title or heading in one source share a subject, or of one source; of those without
    any, hits as similar to each other as passages of one text.
    """
    alike: list[list[bool]] = []
    if candidates.vectors is not None:
        vectors = np.asarray(candidates.vectors, np.float32)
        norms = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        unit = vectors / norms
        alike = (unit @ unit.T >= _ALIKE).tolist()
    numbers: dict[object, int] = {}
    leaders: list[int] = []
    found = []
    for row, title in enumerate(candidates.titles):
        # "Description" of two files is of two subjects.
        key: object = (title, candidates.sources[row])
        if not title:
            leader = next((one for one in leaders if alike and alike[row][one]), row)
            if leader == row:
                leaders.append(row)
            key = (leader,)
        found.append(numbers.setdefault(key, len(numbers)))
    return np.array(found, dtype=np.intp)


def subject_of(metadata: Mapping[str, Any]) -> str:
    """Return the subject that a passage's metadata names; "" if none."""
    for key in SUBJECT_KEYS:
        if metadata.get(key):
            return str(metadata[key]).strip()
    return ""


def features(question: str, candidates: Candidates, subject: NDArray[np.intp]) -> FloatArray:
    """Compute the evidence of whether a question says which reading it means, shape (6,).

    rivals
        ``log(1 + sum_r exp(-4 (l_r + h_r)))`` over the subjects r but the best hit's, with l_r the
        idf of the question's words that the best subject's hits have and r's have not, and h_r that
        of those in titles and first words: how many subjects have all that the question says. 0 if
        it says one title of several words in full, word by word.
    brief
        Minus the log of the number of the question's words: how little it says.
    common
        Minus the highest idf of a word that some hit has: how little its most specific word tells.
    others
        Log odds that the posterior over the hits gives to subjects other than the best hit's.
    referent
        1 if `lacks_referent`, else 0: evidence in English alone.
    namesakes
        The share of the question's squared idf that is in the titles of the best subject that has
        any and in another one's as well, less what the best has and that one lacks, in titles and
        in texts; of the subject that has the most, at least 0: how far what it says is a name that
        several bear. 0 if it says one title in full, which is meant.

    Any idf is in units of that of a word that no passage has, so that a corpus's size cancels.

    `subject`: as `subjects` gives it.
    """
    unknown = float(np.log1p(2 * candidates.size + 1))
    idf = np.array([*candidates.idf.values()], np.float64) / unknown
    words = [*candidates.idf]
    called: dict[str, set[str]] = {}  # words by their forms in a title, and in scripts of no spaces
    inside: dict[str, str] = {}
    for word in words:
        low = word.casefold()
        for form in {low, f"{low}s", low.removesuffix("s")}:
            called.setdefault(form, set()).add(word)
        if not low.isascii():
            inside[word] = low
    said: list[list[set[str]]] = [[set(), set(), set()] for _ in range(int(subject.max()) + 1)]
    for row, number in enumerate(subject.tolist()):
        in_texts, in_heads, in_titles = said[number]
        held = candidates.idf.keys() & candidates.words[row]
        titled = _named(candidates.titles[row], called, inside) & held
        head = " ".join(candidates.texts[row][:400].split(None, _HEAD)[:_HEAD])
        in_texts |= held
        in_heads |= titled | _named(head, called, inside) & held
        in_titles |= titled
    has = [[[word in some for word in words] for some in of_one] for of_one in said]
    # Which words the hits of each subject have; and which of the first's each of them lacks.
    table = np.array(has, dtype=bool).swapaxes(0, 1)
    in_text, _, in_title = table
    lacks_text, lacks_head, _ = (table[:, :1] & ~table).astype(np.float64)
    rivals = np.exp(-_LACK * (lacks_text + lacks_head) @ idf)[1:].sum()
    titles = zip(subject.tolist(), candidates.titles, strict=True)
    best_titled = next((number for number, title in titles if title), 0)
    lacks_text, _, lacks_title = (table[:, [best_titled]] & ~table).astype(np.float64)
    names = (in_title & in_title[best_titled]).astype(np.float64) - (lacks_title + lacks_text)
    shared = np.delete(names @ idf**2, best_titled)
    namesakes = shared.max(initial=0.0) / max(float(idf @ idf), 1e-12)
    meant = _title_said(question, {*zip(subject.tolist(), candidates.titles, strict=True)})
    if meant:
        namesakes = 0.0
    # A title of one word, or words of one apart from each other, may also be said by chance.
    if len(meant) > 1 and _holds_phrase(_split(question.casefold()), meant):
        rivals = 0.0
    best = float(np.clip(_mass(candidates.logits, subject)[0], 1e-4, 1 - 1e-4))
    return np.array(
        [
            np.log1p(rivals),
            -np.log(max(len(idf), 1)),
            -(in_text.any(axis=0) * idf).max(initial=0.0),
            np.log1p(-best) - np.log(best),
            lacks_referent(question),
            namesakes,
        ],
        dtype=np.float32,
    )


def _named(text: str, called: Mapping[str, Set[str]], inside: Mapping[str, str]) -> set[str]:
    """Find the words that a short text contains, in any inflection or as a part."""
    low = text.casefold()
    found = set[str]()
    for form in _split(low):
        if form in called:
            found |= called[form]
    if inside and not low.isascii():
        found.update(word for word, form in inside.items() if form in low)
    return found


def _title_said(question: str, titled: Collection[tuple[int, str]]) -> list[str]:
    """Find the one title, of subjects and their titles, whose words a question has, all of them.

    Its words in order; none if there is no such title, or several. A title counts as part of
    another one that is said in full and has more words.
    """
    said = {*_split(question.casefold())}
    words = [_split(title.casefold()) for _, title in titled]
    full = [some for some in words if some and said.issuperset(some)]
    whole = [some for some in full if not any({*some} < {*other} for other in full)]
    return whole[0] if len(whole) == 1 else []


def _holds_phrase(words: Sequence[str], phrase: Sequence[str]) -> bool:
    size = len(phrase)
    return any(words[start : start + size] == phrase for start in range(len(words) - size + 1))


def _split(text: str) -> list[str]:
    return (_ASCII_WORD if text.isascii() else WORD).findall(text)


def _mass(logits: FloatArray, subject: NDArray[np.intp]) -> NDArray[np.float64]:
    """Sum the posterior over the hits of each subject."""
    weights = np.exp(np.asarray(logits, np.float64) - np.max(logits))
    return np.bincount(subject, weights / weights.sum()).astype(np.float64)


@cache
def shipped_underspecified() -> Calibrator:
    """P(underspecified | the corpus answers), as learned by `benchmarks/quality/decisions.py`."""
    saved = files("uec_rag.confidence").joinpath("readings.json").read_text(encoding="utf-8")
    return Calibrator.restore(json.loads(saved)["underspecified"])


def underspecified(
    found: FloatArray, in_corpus: FloatArray, model: Calibrator | None = None
) -> FloatArray:
    """P(the corpus answers several readings and the question does not say which), shape (n,).

    A question says too little, or what it says is a name that several subjects bear: either is
    enough. Times how plausible it is that any reading is answered: to ask back about readings of
    which none is answered helps with nothing.

    Parameters
    ----------
    found : array, shape (n, 6)
        `features` of each question.
    in_corpus : array, shape (n,)
        P(the corpus answers the question).
    model : Calibrator, optional
        Of all features but the last, which is a probability as it is; the shipped one by default.
    """
    known = np.asarray(found, np.float32)
    said = 1 - (model or shipped_underspecified()).predict(known[:, :-1])
    plausible: FloatArray = np.minimum(np.asarray(in_corpus, np.float32) / np.float32(_FULL), 1)
    return (1 - said * (1 - known[:, -1])) * plausible


def readings(candidates: Candidates, subject: NDArray[np.intp]) -> list[Reading]:
    """Find the readings that a question may have, the likeliest first, up to five.

    As many as hold all but a fiftieth of the posterior. `subject`: as `subjects` gives it.
    """
    mass = _mass(candidates.logits, subject)
    order = np.argsort(-mass, kind="stable")
    count = int(np.searchsorted(np.cumsum(mass[order]), _ENOUGH)) + 1
    chosen = order[: min(max(count, 2), MOST_READINGS)].tolist()
    rows = {number: np.flatnonzero(subject == number).tolist() for number in chosen}
    labels = _labels(candidates, rows)
    return [
        Reading(
            labels[number],
            tuple(candidates.ids[row] for row in rows[number]),
            float(mass[number]),
        )
        for number in chosen
    ]


def _labels(candidates: Candidates, rows: Mapping[int, Sequence[int]]) -> dict[int, str]:
    """Label each of some groups of hits by what tells it from the others."""
    titles = {number: candidates.titles[some[0]] for number, some in rows.items()}
    bearing = Counter(titles.values())
    headings = {number: _SECTION_NUMBER.sub("", title) for number, title in titles.items()}
    named = Counter(headings.values())
    labels = {}
    for number, some in rows.items():
        title = headings[number] if named[headings[number]] == 1 else titles[number]
        # In capitals it is a section of a manual page, as each has.
        if title and (bearing[title] > 1 or (title.isupper() and candidates.sources[some[0]])):
            title = f"{candidates.sources[some[0]]}: {title}"
        elif not title:
            others = [row for other in rows for row in rows[other] if other != number]
            common = {word.casefold() for word in candidates.idf} | FUNCTION_WORDS
            common.update(*(_split(candidates.texts[row].casefold()) for row in others))
            title = _first_phrase(candidates.texts[some[0]], common)
        labels[number] = _shortened(title or candidates.ids[some[0]])
    return labels


def _first_phrase(text: str, common: Set[str]) -> str:
    """Return the first words of a text, one after the other, that are not common; "" if all are."""
    phrase: list[regex.Match[str]] = []
    for word in islice(WORD.finditer(text), _LABEL_FROM):
        tells = len(word[0]) > 1 and word[0].casefold() not in common
        if not phrase:
            phrase = [word] if tells else []
        elif tells and text[phrase[-1].end() : word.start()] in (" ", "-"):
            phrase.append(word)
        else:
            break
    return text[phrase[0].start() : phrase[-1].end()] if phrase else ""


def _shortened(label: str) -> str:
    line = " ".join(label.split())
    return line if len(line) <= LONGEST_LABEL else f"{line[: LONGEST_LABEL - 1].rstrip()}…"
