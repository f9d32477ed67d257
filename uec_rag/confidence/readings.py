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
from typing import Any, TypeAlias

import numpy as np
import regex
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.model import Calibrator

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
_LONGEST_LABEL, _LABEL_FROM = 60, 60
_LONGEST_REPLY = _SHOWN * (_LONGEST_LABEL + 10)  # that names every label, politely
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
_BEFORE = r"(?:(?:yes|no|ok|okay|i mean|i meant|it is|it's|that is|that's|take|choose)[ ,:]+)*"
_AFTER = r"(?:,? (?:please|thanks|thank you))*"
_PLACE = (
    r"(?:(?:option|number|choice|reading|no\.?) ?|\#|\(|第)?"
    rf"(?P<place>{'|'.join(sorted(_PLACES, key=len, reverse=True))})(?:[.)]|一?[个個种種项項])?"
)
_ONE = r"(?: (?:one|option|choice|reading))?"
_OF_THEM = r"(?: (?:of )?(?:them|these|those|the above|(?:the )?(?:two|three|four|five)|one))?"
_EVERY = (
    rf"(?P<every>(?:both|all|any|either){_OF_THEM}|(?:[两兩三四五][个個种種])?都(?:要|是)?|全部)"
)
_NO = rf"(?P<no>(?:neither|none){_OF_THEM}|no|something else|(?:以上)?都不(?:是|要)|没有)"
_AND = r"(?:,? (?:and|or) |, ?| ?& ?| ?[、和与與] ?)"
# Atomic: where a label is a place, too, a long list would be tried in each way.
_NAMED = rf"(?>(?:the )??[\"'`]?(?:(?P<label>\L<labels>)|{_PLACE})[\"'`]?{_ONE})"
_REPLY = rf"{_BEFORE}(?:{_NAMED}(?>{_AND}{_NAMED})*|{_EVERY}|{_NO}){_AFTER}[.!?,; ]*"
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
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


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
            common = {word.casefold() for word in candidates.idf} | _FUNCTION_WORDS
            common.update(*(_split(candidates.texts[row].casefold()) for row in others))
            title = _first_phrase(candidates.texts[some[0]], common)
        labels[number] = _shortened(title or candidates.ids[some[0]])
    return labels


def _first_phrase(text: str, common: Set[str]) -> str:
    """Return the first words of a text, one after the other, that are not common; "" if all are."""
    phrase: list[regex.Match[str]] = []
    for word in islice(_WORD.finditer(text), _LABEL_FROM):
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


def readings_named(reply: str, found: Sequence[Reading]) -> list[Reading]:
    """The readings that a reply names: by labels, by places, or all or none of them.

    Whatever the case of its letters; none if it says "neither".

    Raises
    ------
    UnknownReading
        If it says anything else.

    Examples
    --------
    >>> found = [Reading("git add", ("a", "b"), 0.5), Reading("rsync", ("c",), 0.5)]
    >>> [[one.label for one in readings_named(reply, found)]
    ...  for reply in ("Git Add", "the second one", "both", "neither")]
    [['git add'], ['rsync'], ['git add', 'rsync'], []]
    """
    labels = [reading.label for reading in found]
    if not labels:
        raise UnknownReading(f"within: this question has no readings, got {reply!r:.60}.")
    places = _places_named(reply, labels, len(labels))
    if places is None:
        raise UnknownReading(
            "within: expected a reading's ids, or the label of one that this question has, "
            f"{labels}, got {reply!r:.60}."
        )
    return [found[place] for place in places]


def _plain(label: str) -> str:
    return " ".join(label.casefold().split())


def _places_named(reply: str, labels: Sequence[str], count: int) -> list[int] | None:
    """The places of the labels that a reply names; None if it says anything else.

    `count`: how many labels there are to count places by.
    """
    said, plain = _plain(reply), [*map(_plain, labels)]

    def place_of(label: str) -> int:
        alike = [place for place, one in enumerate(plain) if one == label]
        # "inspect.Signature" and "inspect.signature" are two.
        return next((place for place in alike if labels[place] in reply), alike[0])

    if said in plain:
        return [place_of(said)]
    if len(said) > _LONGEST_REPLY:
        return None
    there = {one for one in plain if one and one in said} or {"\n"}
    match = regex.fullmatch(_REPLY, said, labels=there)
    if match is None:
        return None
    if match["every"]:
        return [*range(count)]
    places = {_PLACES[word] for word in match.captures("place")}
    if not all(place < count for place in places):
        return None
    return sorted({place % count for place in places} | {*map(place_of, match.captures("label"))})


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


def names_reading(asked: str, reply: str) -> bool | None:
    """Tell if a reply to a question of `ask_back` says which readings are meant, and nothing else.

    `readings_named` knows which. False if it has one label among other words; None if it has none
    or several, or what was asked is no such question.

    Examples
    --------
    >>> asked = "Do you mean git add, rsync or git push?"
    >>> names_reading(asked, "Rsync, please"), names_reading(asked, "How does rsync do it?")
    (True, False)
    """
    if not asked.lstrip().startswith(_WHICH):
        return None
    named = asked.strip().removeprefix(_WHICH).rpartition("?")[0]
    parts = regex.split("(, | or )", " ".join(named.split()))
    if len(named) > _LONGEST_REPLY or len(parts) > 8 * _SHOWN:  # not made by `ask_back`
        return None
    labels = [*map(_plain, parts[::2])]
    # A label may itself have a comma or an "or".
    ends = range(1, len(parts) + 1, 2)
    runs = ["".join(parts[start:stop]) for stop in ends for start in range(0, stop, 2)]
    if _places_named(reply, runs, len(labels)) is not None:
        return True
    said = _plain(reply)
    held = {
        label
        for label in labels
        if label and regex.search(rf"(?<!\w){regex.escape(label)}(?!\w)", said)
    }
    longest = [one for one in held if not any(one != other and one in other for other in held)]
    return False if len(longest) == 1 else None


def asks_back(text: str) -> bool:
    """Tell if a text is a question of `ask_back`, or begins with one."""
    return text.lstrip().startswith((_WHICH, _WHAT))


def asked_back(answer: str) -> str | None:
    """Find what an answer asks back, as one that `asks_back`; None if it answers, or offers more.

    Answers of others ask if they are one question: so does a language model that asks for what is
    missing.

    Parameters
    ----------
    answer : str

    Examples
    --------
    >>> asked_back("Which year do you mean?"), asked_back("It costs 3 euros. Anything else?")
    ('What exactly do you mean? Which year do you mean?', None)
    """
    if asks_back(answer):
        return answer
    asks = _ONE_QUESTION.fullmatch(answer.strip()) and not _OFFER.search(answer)
    return f"{_WHAT} {answer.strip()}" if asks else None


def is_question(text: str) -> bool:
    """Tell if a text has a question mark, or begins as English questions and requests do.

    Examples
    --------
    >>> is_question("how much is it"), is_question("多少钱？"), is_question("The second year.")
    (True, True, False)
    """
    words = text.split(maxsplit=1)
    return bool(_ASKS.search(text)) or (bool(words) and words[0].lower() in _OPENINGS)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD_OR_CLITIC = regex.compile(r"[\p{L}\p{M}\p{N}_'’]+")
_PRONOUNS = _words("it he she him they them its his their theirs one ones")
_DEMONSTRATIVES = _words("this these those")
_BEFORE_THAT = _words("of for in on to with is was does did do about from at by")
_BEFORE_ONE = _words("a the that this which new other another")
_COMPLEMENTS = _words("of that which who whose whom where between")
_TIMES = _words("year years day days century time morning week month")
# What follows "the" in a description that needs no referent: the first, the difference, the sun.
_UNIQUE = _words(
    """first second third fourth last next previous present past future only same most least best
    worst main other following latest difference differences number amount name term word meaning
    average total minimum maximum current world sun moon earth internet us usa uk"""
)
_FUNCTION_WORDS = _words(
    """a an and are as at be been being but by can could did do does for from get got had has have
    he her his how i if in into is it its of on or our she should that the their them there these
    they this those to was we were what when where which who whose why will with would you your not
    my me us about any some much many so than then please tell explain happens happen use used mean
    means during between after before over under also just"""
)
_DUMMY_IT = regex.compile(
    r"\bit\s+(?:takes?|took|possible|safe|legal|true|necessary|ok|okay|better|worth|normal|important"
    r"|illegal|means?|rains?|snows?|matters?)\b",
    regex.IGNORECASE,
)
# A digit, an underscore, an inner capital or dot, a call, a quotation mark, an option.
_MARKED = regex.compile(r"\p{N}|_|\p{Ll}\p{Lu}|\w\.\w|\(\)|[\"“”«»`]|^-{1,2}\w")
_CAPITAL = regex.compile(r"\p{Lu}")
_CLITIC = regex.compile(r"['’]\p{L}{1,2}$")
_MOST_WORDS = 4
_ASKS = regex.compile("[?？؟]")
_ONE_QUESTION = regex.compile(r"(?:[^.!?。！？؟]|[.!](?=\S))+[?？؟]")
_OFFER = regex.compile(r"\b(?:else|help|assist|anything)\b", regex.IGNORECASE)
_OPENINGS = _words(
    """how what when where who which why whose can could do does did is are was were will would
    should tell show explain give list describe find compare"""
)
# Demonstratives, and not "so" or "then", that are written alike.
_CHINESE_PRONOUN = regex.compile("[它他她]|这(?![么样])|那[个些里儿边]")


def lacks_referent(question: str) -> bool:
    """Tell if an English question refers to something that it does not name.

    It does if it has a pronoun, a demonstrative or a definite description without a complement, and
    no name, number, identifier or quotation. In other languages almost always False.

    Parameters
    ----------
    question : str

    Examples
    --------
    >>> lacks_referent("How do I repay the loan?"), lacks_referent("Who wrote the Odyssey?")
    (True, False)
    >>> lacks_referent("Where was it built?"), lacks_referent("What is the capital of a country?")
    (True, False)
    """
    return not _names_something(question) and _refers(question)


def _names_something(question: str) -> bool:
    """Tell if there is a name, a number, an identifier or a quotation."""
    words = question.split()
    if any(map(_MARKED.search, words)):
        return True
    inner = [word.strip("?.,!;:()'\"") for word in words[1:]]
    capitals = [
        bool(_CAPITAL.match(w))
        for w, previous in zip(inner, words, strict=False)
        if w[:1].isalpha() and w.split("'")[0] != "I" and not _ends_sentence(previous)
    ]
    # In a title in capitals they tell nothing.
    return any(capitals) and not (len(capitals) > 1 and all(capitals))


def _ends_sentence(word: str) -> bool:
    return word[-1] in ".!?:"


def named_words(question: str) -> frozenset[str]:
    """Find the words of an English question that are of names, numbers, identifiers or quotations.

    Casefolded, without what any question may have; none of a title in capitals.

    Parameters
    ----------
    question : str

    Examples
    --------
    >>> sorted(named_words("When did Apollo 11 land on the moon?"))
    ['11', 'apollo']
    >>> sorted(named_words("Risk to Reward Ratio")), sorted(named_words("What does --rss do?"))
    ([], ['rss'])
    """
    words = question.split()
    if words and words[0].casefold() not in _FUNCTION_WORDS:
        inner = [word.strip("?.,!;:()'\"") for word in words[1:]]
        telling = [w for w in inner if w[:1].isalpha() and w.casefold() not in _FUNCTION_WORDS]
        if telling and all(map(_CAPITAL.match, telling)):
            return frozenset()  # a title in capitals
    named: set[str] = set()
    quoted = False
    for place, word in enumerate(words):
        bare = word.strip("?.,!;:()'\"“”«»`")
        quoted = quoted or word[0] in '"“«`'
        begins = not place or _ends_sentence(words[place - 1])
        capital = bool(_CAPITAL.match(bare)) and not begins
        if quoted or capital or _MARKED.search(word):
            named.update(_WORD.findall(_CLITIC.sub("", bare).casefold()))
        quoted = quoted and word.rstrip("?.,!;:")[-1:] not in '"”»`'
    return frozenset(named - _FUNCTION_WORDS)


def refers_back(question: str) -> bool:
    """Tell if a question has a pronoun or a demonstrative whose referent it does not name.

    In English and Chinese; in other languages False.

    Parameters
    ----------
    question : str

    Examples
    --------
    >>> refers_back("Where was it built?"), refers_back("这个景点开放吗？")
    (True, True)
    >>> refers_back("Where was the bridge built?"), refers_back("Does it rain in London?")
    (False, False)
    """
    words = _lowered(question)
    return bool(_CHINESE_PRONOUN.search(question)) or any(
        _is_pronoun(words, place) for place in range(len(words))
    )


def _refers(question: str) -> bool:
    words = _lowered(question)
    return any(
        _is_pronoun(words, place) or _is_description(words, place) for place in range(len(words))
    )


def _lowered(question: str) -> list[str]:
    return [word.lower() for word in _WORD_OR_CLITIC.findall(question)]


def _is_pronoun(words: Sequence[str], place: int) -> bool:
    """Tell if a word is a pronoun or a demonstrative of something that is not named before it."""
    word = words[place]
    previous = words[place - 1] if place else ""
    following = words[place + 1] if place + 1 < len(words) else ""
    if word in ("one", "ones"):
        return not _BEFORE_ONE.isdisjoint(words[max(0, place - 2) : place])
    if word in _PRONOUNS:
        if _DUMMY_IT.match(f"{word} {following}"):
            return False
        # Two words of content before it may well be what it refers to.
        before = [w for w in words[:place] if w not in _FUNCTION_WORDS and w.isalpha()]
        return len(before) < 2
    if word in _DEMONSTRATIVES:
        return following not in _TIMES
    return word == "that" and (not previous or previous in _BEFORE_THAT) and following not in _TIMES


def _is_description(words: Sequence[str], place: int) -> bool:
    """Tell if "the" begins a definite description without a complement: "the loan"."""
    following = words[place + 1] if place + 1 < len(words) else ""
    if words[place] != "the" or following in _UNIQUE or following.endswith("est"):
        return False
    end = place + 1
    while (
        end < len(words)
        and end - place <= _MOST_WORDS
        and words[end].isalpha()
        and words[end] not in _FUNCTION_WORDS
    ):
        end += 1
    complement = end < len(words) and words[end] in _COMPLEMENTS
    return end > place + 1 and not complement
