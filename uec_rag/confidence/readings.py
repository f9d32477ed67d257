"""The readings of a question, and P(it does not say which of them is meant).

A reading is what some of the hits are about. A question is underspecified if the corpus answers
several readings of it differently and it does not say which; several passages on one subject are
one reading.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, TypeAlias

import numpy as np
import regex
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.model import Calibrator
from uec_rag.confidence.referents import lacks_referent

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
_SHOWN, _ENOUGH = 5, 0.98
_LONGEST_LABEL, _LABEL_WORDS, _LABEL_FROM = 60, 3, 60
_WHICH, _WHAT = "Do you mean ", "What exactly do you mean?"
_COUNTED = (
    ("1", "a", "one", "first", "1st", "former", "一"),
    ("2", "b", "two", "second", "2nd", "二"),
    ("3", "c", "three", "third", "3rd", "三"),
    ("4", "d", "four", "fourth", "4th", "四"),
    ("5", "e", "five", "fifth", "5th", "五"),
)
_PLACES = {word: place for place, words in enumerate(_COUNTED) for word in words}
_PLACES |= dict.fromkeys(("last", "latter", "最后"), -1)
_SAID_PLACE = regex.compile(
    r"(?:(?:yes|ok|okay|i mean|i meant|it is|it's|that is|that's|take|choose)[ ,:]+)*"
    r"(?:the )?(?:(?:option|number|choice|reading|no\.?) ?|\#|\(|第)?"
    rf"(?P<place>{'|'.join(_PLACES)})"
    r"(?:[.)]|一?[个個种種项項])?(?: (?:one|option|choice|reading))?"
    r"(?:,? (?:please|thanks|thank you))?"
)
# With a dot: "7.5. Virtual packages", and not "3 Idiots".
_SECTION_NUMBER = re.compile(r"\A(?:[A-Z]\.\d|\d+\.)[\d.]*\s+")
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+")
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
    metadata : sequence of m mappings
        Each passage's own; `SUBJECT_KEYS` are looked at.
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

    @cached_property
    def titles(self) -> list[str]:
        """The subject that each hit's metadata names; "" if none."""
        return [subject_of(metadata) for metadata in self.metadata]

    @cached_property
    def sources(self) -> list[str]:
        """The source of each hit; "" if that is not known."""
        return [str(metadata.get("source") or "") for metadata in self.metadata]


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
    return next((str(metadata[key]).strip() for key in SUBJECT_KEYS if metadata.get(key)), "")


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
        The share of the question's squared idf that is in the best subject's titles and in another
        one's as well, less what the best has and that one lacks, in titles and in texts; of the
        subject that has the most, at least 0: how far what it says is a name that several bear. 0
        if it says one title in full, which is meant.

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
    held = [candidates.idf.keys() & some for some in candidates.words]
    titled, heads = [], []
    for some, title, text in zip(held, candidates.titles, candidates.texts, strict=True):
        first = " ".join(text[:400].split(None, _HEAD)[:_HEAD])
        titled.append(_named(title, called, inside) & some)
        heads.append(titled[-1] | _named(first, called, inside) & some)
    in_text, in_head, in_title = (
        _by_subject(some, subject, words) for some in (held, heads, titled)
    )
    rivals = np.exp(-_LACK * (_lacking(in_text) + _lacking(in_head)) @ idf)[1:].sum()
    names = (in_title & in_title[0]).astype(np.float64) - _lacking(in_title) - _lacking(in_text)
    namesakes = (names @ idf**2)[1:].max(initial=0.0) / max(float(idf @ idf), 1e-12)
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


def _named(text: str, called: Mapping[str, set[str]], inside: Mapping[str, str]) -> set[str]:
    """Find the words that a short text contains, in any inflection or as a part."""
    low = text.casefold()
    found = {word for form in _split(low) if form in called for word in called[form]}
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
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


def _by_subject(
    found: Sequence[Set[str]], subject: NDArray[np.intp], words: Sequence[str]
) -> NDArray[np.bool_]:
    """Tell which words the hits of each subject have, shape (subjects, words)."""
    place = {word: column for column, word in enumerate(words)}
    table = np.zeros((int(subject.max()) + 1, len(place)), dtype=bool)
    pairs = [*zip(subject.tolist(), found, strict=True)]
    rows = [number for number, some in pairs for _ in some]
    table[rows, [place[word] for _, some in pairs for word in some]] = True
    return table


def _lacking(by_subject: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Tell which words of the first subject each subject lacks."""
    lacking: NDArray[np.float64] = (by_subject[0] & ~by_subject).astype(np.float64)
    return lacking


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
    """Label each of some groups of hits by what tells it from the others."""
    titles = {number: candidates.titles[some[0]] for number, some in rows.items()}
    shared: Counter[str] = Counter()
    if not all(titles.values()):
        for some in rows.values():
            shared.update({w for row in some for w in _split(candidates.texts[row].casefold())})
    asked = {word.casefold() for word in candidates.idf}
    bearing = Counter(titles.values())
    headings = {number: _SECTION_NUMBER.sub("", title) for number, title in titles.items()}
    named = Counter(headings.values())
    labels = {}
    for number, some in rows.items():
        title = headings[number] if named[headings[number]] == 1 else titles[number]
        if title and bearing[title] > 1:
            title = f"{candidates.sources[some[0]]}: {title}"
        elif not title:
            first: dict[str, str] = {}
            for word in _split(candidates.texts[some[0]])[:_LABEL_FROM]:
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
    """The reading of a label, whatever the case of its letters, or of a place among them.

    Raises
    ------
    UnknownReading
        If none has it.

    Examples
    --------
    >>> found = [Reading("git add", ("a", "b"), 0.5), Reading("rsync", ("c",), 0.5)]
    >>> reading_named("Git Add", found).ids, reading_named("the second one", found).ids
    (('a', 'b'), ('c',))
    """
    for reading in found:
        if _plain(reading.label) == _plain(label):
            return reading
    place = _place_said(label)
    if found and place is not None and place < len(found):
        return found[place]
    labels = [reading.label for reading in found]
    if not labels:
        raise UnknownReading(f"within: this question has no readings, got {label!r:.60}.")
    raise UnknownReading(
        f"within: expected a reading's ids, or the label of one that this question has, {labels}, "
        f"got {label!r:.60}."
    )


def _plain(label: str) -> str:
    return " ".join(label.casefold().split())


def _place_said(reply: str) -> int | None:
    """The place that a reply names, from 0, or -1 for the last; None if it says anything else."""
    said = _SAID_PLACE.fullmatch(_plain(reply).strip(".!,;\"' "))
    return None if said is None else _PLACES[said["place"]]


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

    A place ("2", "the last one") counts as a label, which `reading_named` knows. None if a reply
    names none or several, or what was asked is no such question.

    Examples
    --------
    >>> asked = "Do you mean git add, rsync or git push?"
    >>> reading_meant(asked, "Rsync"), reading_meant(asked, "the one of rsync, please")
    (('rsync', True), ('rsync', False))
    >>> reading_meant(asked, "The second one.")
    ('the second one', True)
    """
    if not asked.lstrip().startswith(_WHICH):
        return None
    named = _plain(asked.strip().removeprefix(_WHICH).rpartition("?")[0])
    said = _plain(reply).strip(".!?,;\"' ")
    # A label may itself have a comma or an "or".
    if said and regex.search(rf"(?:^|, | or ){regex.escape(said)}(?:$|, | or )", named):
        return said, True
    labels = regex.split(", | or ", named)
    place = _place_said(reply)
    if place is not None and place < len(labels):
        return said, True
    held = {
        label
        for label in labels
        if label and regex.search(rf"(?<!\w){regex.escape(label)}(?!\w)", said)
    }
    longest = [one for one in held if not any(one != other and one in other for other in held)]
    return (longest[0], False) if len(longest) == 1 else None


def asks_back(text: str) -> bool:
    """Tell if a text is a question of `ask_back`, or begins with one."""
    return text.lstrip().startswith((_WHICH, _WHAT))
