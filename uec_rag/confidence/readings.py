"""What a question may mean: its readings, and P(it does not say which of them is meant).

A reading is what some of the hits are about. A question is underspecified if the corpus answers
several readings of it differently and it does not say which; several passages on one subject are
one reading.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

import numpy as np
import regex
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.model import Calibrator
from uec_rag.confidence.referents import lacks_referent

ASK = 0.66
"""P(underspecified) from which on to ask back: of ordinary questions 2 % are above it."""

SUBJECT_KEYS = ("title", "heading", "header", "source")
"""Metadata that says what a passage is about; the first that a passage has counts."""

FEATURES = ("rivals", "brief", "common", "others", "referent")
"""Names of the `features`, each evidence for an underspecified question."""

_ALIKE = 0.93  # cosine of two passages without a subject in their metadata that have the same one
_HEAD = 10  # words at the beginning of a passage that say what it is about, beside its subject
_LACK = 4.0  # how fast a reading ceases to be a rival, per word that it lacks and no passage has
_FULL = 0.3  # in_corpus from which on readings are plausible: from .2 on more of the underspecified
# are asked back (.48 instead of .46), and more that have no answer; from .5 on fewer of both (.42)
_SHOWN, _ENOUGH = 5, 0.9
_LONGEST_LABEL, _LABEL_WORDS, _LABEL_FROM = 60, 3, 60
_WHICH, _WHAT = "Do you mean ", "What exactly do you mean?"
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+")


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
    """The first m hits of one question, best first, and what is known of them.

    Attributes
    ----------
    ids, texts : sequence of m str
    metadata : sequence of m mappings
        Each passage's own; `SUBJECT_KEYS` are looked at.
    logits : array, shape (m,)
        The ensemble's fused logits.
    words : sequence of m collections of str
        Words of the question that each hit holds, named as in `idf`.
    idf : mapping of str to float
        Of every word of the question, also those that no passage has:
        ``log(1 + (N - n + 1/2) / (n + 1/2))``.
    size : int
        N, the number of passages that were searched.
    vectors : array, shape (m, d), optional
        Stored vectors, to tell subjects apart if metadata does not; of any length.

    Raises
    ------
    ValueError
        If there is no hit, or the columns are not equally long.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    metadata: Sequence[Mapping[str, Any]]
    logits: FloatArray
    words: Sequence[Collection[str]]
    idf: Mapping[str, float]
    size: int
    vectors: FloatArray | None = None

    def __post_init__(self) -> None:
        columns = (self.ids, self.texts, self.metadata, self.logits, self.words)
        lengths = [len(column) for column in columns]
        if self.vectors is not None:
            lengths.append(len(self.vectors))
        if not lengths[0] or len(set(lengths)) > 1:
            raise ValueError(
                "ids, texts, metadata, logits, words, vectors: expected one of each per hit and at "
                f"least one hit, got {lengths}."
            )


def subjects(candidates: Candidates) -> NDArray[np.intp]:
    """Number the subjects of hits from 0 in the order of their first hits, shape (m,).

    Hits of one title, heading or source share a subject; of those without any, hits as similar to
    each other as passages of one text.
    """
    alike: NDArray[np.bool_] | None = None
    if candidates.vectors is not None:
        vectors = np.asarray(candidates.vectors, np.float32)
        norms = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        unit = vectors / norms
        alike = unit @ unit.T >= _ALIKE
    numbers: dict[object, int] = {}
    leaders: list[int] = []
    found = []
    for row, metadata in enumerate(candidates.metadata):
        key: object = subject_of(metadata)
        if not key:
            near = [] if alike is None else np.flatnonzero(alike[row, leaders]).tolist()
            leader = leaders[near[0]] if near else row
            if leader == row:
                leaders.append(row)
            key = (leader,)
        found.append(numbers.setdefault(key, len(numbers)))
    return np.array(found, dtype=np.intp)


def subject_of(metadata: Mapping[str, Any]) -> str:
    """The subject that a passage's metadata names; "" if none."""
    return next((str(metadata[key]).strip() for key in SUBJECT_KEYS if metadata.get(key)), "")


def features(question: str, candidates: Candidates, subject: NDArray[np.intp]) -> FloatArray:
    """What tells whether a question says which of its readings is meant, shape (5,).

    rivals
        ``log(1 + sum_r exp(-4 (l_r + h_r)))`` over the subjects r but the best hit's, with l_r the
        idf of the question's words that the best subject's hits have and r's have not, and h_r that
        of those in titles and first words: how many subjects have all that the question says.
    brief
        ``-log(1 + sum of idf)`` over the question's words: how little it says.
    common
        Minus the highest idf of a word that some hit has: how little its most specific word tells.
    others
        Log odds that the posterior over the hits gives to subjects other than the best hit's.
    referent
        1 if `lacks_referent`, else 0: evidence in English alone.

    Any idf is in units of that of a word that no passage has, so that a corpus's size cancels.

    `subject`: as `subjects` gives it.
    """
    unknown = float(np.log1p(2 * candidates.size + 1))
    idf = {word: value / unknown for word, value in candidates.idf.items()}
    held = [frozenset(words) & idf.keys() for words in candidates.words]
    heads = [
        _in_head(words, subject_of(metadata), text)
        for words, metadata, text in zip(held, candidates.metadata, candidates.texts, strict=True)
    ]
    lacking = _lacking(held, subject, idf) + _lacking(heads, subject, idf)
    rivals = float(np.exp(-_LACK * lacking[1:]).sum())
    mass = _mass(candidates.logits, subject)
    best = float(np.clip(mass[0], 1e-4, 1 - 1e-4))
    known = frozenset().union(*held)
    return np.array(
        [
            np.log1p(rivals),
            -np.log1p(sum(idf.values())),
            -max((idf[word] for word in known), default=0.0),
            np.log1p(-best) - np.log(best),
            lacks_referent(question),
        ],
        dtype=np.float32,
    )


def _in_head(words: frozenset[str], title: str, text: str) -> frozenset[str]:
    """Those of some words that a passage's title or first words have."""
    if not words:
        return words
    head = f"{title} {' '.join(text[:400].split()[:_HEAD])}".casefold()
    there = set(_WORD.findall(head))
    there |= {word.removesuffix("s") for word in there} | {f"{word}s" for word in there}
    return frozenset(
        word
        for word in words
        if (low := word.casefold()) in there or (not low.isascii() and low in head)
    )


def _lacking(
    held: Sequence[frozenset[str]], subject: NDArray[np.intp], idf: Mapping[str, float]
) -> NDArray[np.float64]:
    """The idf of words that the first subject's hits have and each subject's have not."""
    of: list[set[str]] = [set() for _ in range(int(subject.max()) + 1)]
    for words, number in zip(held, subject.tolist(), strict=True):
        of[number] |= words
    return np.array([sum(idf[word] for word in of[0] - words) for words in of])


def _mass(logits: FloatArray, subject: NDArray[np.intp]) -> NDArray[np.float64]:
    """Each subject's share of the posterior over the hits."""
    weights = np.exp(np.asarray(logits, np.float64) - np.max(logits))
    mass = np.zeros(int(subject.max()) + 1)
    np.add.at(mass, subject, weights / weights.sum())
    return mass


@cache
def shipped_underspecified() -> Calibrator:
    """P(underspecified | the corpus answers), as learned by `benchmarks/quality/decisions.py`."""
    saved = files("uec_rag.confidence").joinpath("readings.json").read_text(encoding="utf-8")
    return Calibrator.restore(json.loads(saved)["underspecified"])


def underspecified(
    found: FloatArray, in_corpus: FloatArray, model: Calibrator | None = None
) -> FloatArray:
    """P(the corpus answers several readings and the question does not say which), shape (n,).

    What a question that is answered lacks, times how plausible it is that any reading is answered:
    to ask back about readings of which none is answered helps with nothing.

    Parameters
    ----------
    found : array, shape (n, 5)
        `features` of each question.
    in_corpus : array, shape (n,)
        P(the corpus answers the question).
    model : Calibrator, optional
        The shipped one by default.
    """
    unsaid = (model or shipped_underspecified()).predict(np.asarray(found, np.float32))
    plausible: FloatArray = np.minimum(np.asarray(in_corpus, np.float32) / np.float32(_FULL), 1)
    return unsaid * plausible


def readings(candidates: Candidates, subject: NDArray[np.intp]) -> list[Reading]:
    """The readings that a question may have, the likeliest first: two to five, fewer if it has.

    As many as hold nine tenths of the posterior. `subject`: as `subjects` gives it.
    """
    mass = _mass(candidates.logits, subject)
    order = np.argsort(-mass, kind="stable")
    count = int(np.searchsorted(np.cumsum(mass[order]), _ENOUGH)) + 1
    chosen = order[: min(max(count, 2), _SHOWN)].tolist()
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
    """What tells each of some groups of hits from the others."""
    words = {
        number: {w.casefold() for row in some for w in _WORD.findall(candidates.texts[row])}
        for number, some in rows.items()
    }
    shared = Counter(word for some in words.values() for word in some)
    asked = {word.casefold() for word in candidates.idf}
    labels = {}
    for number, some in rows.items():
        title = subject_of(candidates.metadata[some[0]])
        if not title:
            written = _WORD.findall(candidates.texts[some[0]])[:_LABEL_FROM]
            first: dict[str, str] = {}
            for word in written:
                if word.casefold() not in asked:
                    first.setdefault(word.casefold(), word)
            # The rarest among the readings, then the longest: small words are in all of them.
            telling = sorted(first, key=lambda word: (shared[word], -len(word)))[:_LABEL_WORDS]
            title = " ".join(first[word] for word in first if word in telling)
        labels[number] = _shortened(title or candidates.ids[some[0]])
    return labels


def _shortened(label: str) -> str:
    line = " ".join(label.split())
    return line if len(line) <= _LONGEST_LABEL else f"{line[: _LONGEST_LABEL - 1].rstrip()}…"


Within: TypeAlias = Reading | Mapping[str, Any] | Sequence[str] | str
"""A chosen reading: as a search gave it, as a mapping with its "ids" (JSON), its ids or label."""


def chosen_ids(within: Reading | Mapping[str, Any] | Sequence[str]) -> tuple[str, ...]:
    """The passages of a chosen reading that is not named by its label.

    Raises
    ------
    TypeError, ValueError
        If it is none of `Within`, or has no passage.
    """
    ids: object = within
    if isinstance(within, Reading):
        ids = within.ids
    elif isinstance(within, Mapping):
        ids = within.get("ids")
    if isinstance(ids, str) or not isinstance(ids, Sequence):
        raise TypeError(
            "within: expected a Reading, a mapping with its ids, a list of ids, or a label, got "
            f"{within!r:.60}."
        )
    for one in ids:
        if not isinstance(one, str):
            raise TypeError(f"within: expected ids, strings, got {one!r:.60}.")
    if not ids:
        raise ValueError("within: expected the ids of one passage at least, got none.")
    return tuple(ids)


class UnknownReading(ValueError):
    """A label was given that no reading of the question has."""


def reading_named(label: str, found: Sequence[Reading]) -> Reading:
    """The reading of a label, whatever the case of its letters.

    Raises
    ------
    UnknownReading
        If none has it.

    Examples
    --------
    >>> reading_named("Git Add", [Reading("git add", ("a", "b"), 0.5)]).ids
    ('a', 'b')
    """
    for reading in found:
        if _plain(reading.label) == _plain(label):
            return reading
    labels = [reading.label for reading in found]
    if not labels:
        raise UnknownReading(f"within: this question has no readings, got {label!r:.60}.")
    raise UnknownReading(
        f"within: expected a reading's ids, or the label of one that this question has, {labels}, "
        f"got {label!r:.60}."
    )


def _plain(label: str) -> str:
    return " ".join(label.casefold().split())


def ask_back(found: Sequence[Reading]) -> str:
    """Ask in one sentence which reading is meant.

    Examples
    --------
    >>> ask_back([Reading(name, (name,), 0.3) for name in ("git add", "rsync", "tar")])
    'Do you mean git add, rsync or tar?'
    """
    labels = [reading.label for reading in found]
    if len(labels) < 2:
        return _WHAT
    return f"{_WHICH}{', '.join(labels[:-1])} or {labels[-1]}?"


def reading_meant(asked: str, reply: str) -> tuple[str, bool] | None:
    """The label that a reply to a question of `ask_back` names, and whether it says nothing else.

    None if it names none or several, or what was asked is no such question.

    Examples
    --------
    >>> asked = "Do you mean git add, rsync or git push?"
    >>> reading_meant(asked, "Rsync"), reading_meant(asked, "the one of rsync, please")
    (('rsync', True), ('rsync', False))
    """
    if not asked.lstrip().startswith(_WHICH):
        return None
    named = _plain(asked.strip().removeprefix(_WHICH).rpartition("?")[0])
    said = _plain(reply).strip(".!?,;\"' ")
    # A label may itself have a comma or an "or".
    if said and regex.search(rf"(?:^|, | or ){regex.escape(said)}(?:$|, | or )", named):
        return said, True
    held = {
        label
        for label in regex.split(", | or ", named)
        if label and regex.search(rf"(?<!\w){regex.escape(label)}(?!\w)", said)
    }
    longest = [one for one in held if not any(one != other and one in other for other in held)]
    return (longest[0], False) if len(longest) == 1 else None


def asks_back(text: str) -> bool:
    """Whether a text is a question of `ask_back`, or begins with one."""
    return text.lstrip().startswith((_WHICH, _WHAT))
