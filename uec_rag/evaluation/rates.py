"""Estimate without labels what an index answers, hands over and refuses, and what it should not.

Questions are made of the passages, as for a fit. They are asked as they are, with their passages
left out, and with a number or a name in them changed, so that nothing answers them. Questions that
were written for passages are asked of an index that lacks them.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import regex

from uec_rag.base.checks import check_share
from uec_rag.base.progress import progress_bar
from uec_rag.base.text import (
    FUNCTION_WORDS,
    QUESTION_KEYS,
    questions_in,
    split_words,
    stems,
    telling_words,
)
from uec_rag.confidence.decision import Decision
from uec_rag.confidence.model import JUDGED
from uec_rag.confidence.risk import lowest_threshold
from uec_rag.documents.generated_questions import questions_of
from uec_rag.evaluation.evaluate import share_of
from uec_rag.evaluation.other_words import with_passages
from uec_rag.evidence.words import names_in
from uec_rag.gates.gate import Gate
from uec_rag.gates.labelled_search import WRONG, usual_tenant
from uec_rag.index.retriever import Retriever
from uec_rag.questions.languages import ENGLISH, language_of
from uec_rag.retrieval.results import Result
from uec_rag.stores.base import EVERYONE, MOST_EXAMPLES, Everyone, Filter
from uec_rag.stores.filters import all_of
from uec_rag.stores.passage import Passage

Way: TypeAlias = Literal["as_they_are", "in_other_words", "left_out", "changed"]

_ANSWERABLE: tuple[Way, ...] = "as_they_are", "in_other_words"

_SEEN = 20  # hits in which copies of what answers a question are looked for
_SECTION = 5  # passages of a section that is about one thing
_MOST_WORDS = 0.75  # of a question, which a passage that may answer it has
_TRIED = 50  # values that are put in place of another
_NUMBER = regex.compile(
    r"(?<![\p{L}\p{N}])[\p{L}\p{Nl}\p{No}]*+\p{Nd}[\p{L}\p{N}]*(?:[.,:/-]\p{N}[\p{L}\p{N}]*)*"
)
_NAME, _DIGIT = regex.compile(r"\p{Lu}\p{L}+"), regex.compile(r"\p{Nd}")


def estimate_rates(
    retriever: Retriever,
    *,
    max_wrong: float = WRONG,
    most: int = 100,
    tenant: Filter | Everyone = EVERYONE,
) -> dict[str, Any]:
    """Estimate without labels how often an index is right, and answers what nothing answers.

    Questions are made of the passages: titles and first sentences, which use the documents' words.
    People use their own, so that the share answered rightly is an upper bound. If questions stand
    beside passages, one of each is asked as well, of an index in memory that lacks it. A passage
    that is left out may be said elsewhere in other words, so that what is still answered is an
    upper bound, too.

    Parameters
    ----------
    retriever : Retriever
        The retriever, which is not changed. Its gate decides, without its advisor.
    max_wrong : float
        Largest share of the questions that nothing answers which may be answered, in (0, 1).
    most : int
        Largest number of questions that are made.
    tenant : mapping or callable, optional
        As in `Retriever.search`.

    Returns
    -------
    dict
        JSON values. "facts": passages, questions, files and the threshold that decides. Of all, and
        in "files" of each file by its name: "as_they_are", "in_other_words", "left_out" and
        "changed", each with
        "questions" and the shares of them that are "answered_rightly", "answered_wrongly",
        "asked_back", "handed_over" (uncertain) and "refused", and "still_answered", those of the
        last two ways together. A share has its 95 % interval (Wilson) as "low" and "high", and is
        None of no question. "threshold": the confidence above which at most `max_wrong` are still
        answered, on average, as `conformal_threshold` chooses it, with the shares "still_answered"
        and "answered_rightly" above it; "needed" is the number of questions that this takes, below
        which the threshold is 1. "mistakes": what is still answered, the most confident first.

    Raises
    ------
    ValueError
        If no question can be made of the passages, or `max_wrong` is not a share.

    Examples
    --------
    >>> from uec_rag import UEC, Retriever
    >>> index = Retriever(UEC(["bm25"]))
    >>> texts = ["Ward 5 is open from 2 pm to 4 pm.", "Dogs bark at strangers they see."]
    >>> ids = index.add(texts, metadatas=[{"source": "a.md"}, {"source": "b.md"}])
    >>> rates = estimate_rates(index)
    >>> rates["as_they_are"]["answered_rightly"]["share"]
    1.0
    >>> [*rates["files"]]
    ['a.md', 'b.md']
    """
    check_share(max_wrong, "max_wrong", "a number in (0, 1)")
    view = retriever.with_gate(None)
    view.uec = view.uec.with_cache()
    tenant = usual_tenant(view, tenant)
    every = view.passages(tenant=tenant)
    passages = view.store.examples()
    if tenant is not EVERYONE:
        passages = [*islice(every, MOST_EXAMPLES)]
    runs = _ask(view, passages, most, tenant, Gate() if retriever.gate is None else retriever.gate)
    files = sorted({question.file for question in runs})
    by_file = {file: [question for question in runs if question.file == file] for file in files}
    mistakes = [
        question
        for question in runs
        if question.way not in _ANSWERABLE and question.outcome == _WRONG
    ]
    mistakes.sort(key=lambda question: -question.decision.confidence)
    return {
        "facts": {
            "passages": len(every),
            "questions": sum(question.way == "as_they_are" for question in runs),
            "files": len(files),
            "threshold": runs[0].decision.threshold,
        },
        **_rates(runs),
        "files": {file: _rates(group) for file, group in by_file.items()},
        "threshold": _threshold(runs, max_wrong),
        "mistakes": [
            {
                "question": question.result.query,
                "way": question.way,
                "file": question.file,
                "confidence": question.decision.confidence,
            }
            for question in mistakes
        ],
    }


_RIGHT, _WRONG = "answered_rightly", "answered_wrongly"
_OUTCOMES = _RIGHT, _WRONG, "asked_back", "handed_over", "refused"


@dataclass(frozen=True)
class _Trial:
    """A question that was made of a file, the way in which it was asked, and what was found.

    `gate`: that which decides. `relevant`: ids of what answers it; none if nothing does.
    """

    way: Way
    file: str
    result: Result
    gate: Gate
    relevant: frozenset[str] = frozenset()

    @property
    def decision(self) -> Decision:
        """The decision at the threshold of the gate."""
        return self.decide(self.gate.threshold)

    def decide(self, threshold: float) -> Decision:
        """Decide at another threshold."""
        return self.result.decide(threshold, self.gate.k, self.gate.clarify_from)

    @property
    def score(self) -> float:
        """The confidence below which it is answered; -infinity if it never is."""
        can_be = self.decide(-math.inf).action == "answer"
        return self.result.confidence_at(self.gate.k) if can_be else -math.inf

    @property
    def is_found(self) -> bool:
        """True if one of the hits answers the question."""
        return any(self.result.first(self.gate.k).finds(self.relevant))

    @property
    def outcome(self) -> str:
        """The outcome of the question, one of `_OUTCOMES`."""
        match self.decision:
            case Decision(action="answer"):
                return _RIGHT if self.is_found else _WRONG
            case Decision(action="clarify"):
                return "asked_back"
            case decision:
                return "handed_over" if decision.code == "uncertain" else "refused"


def _ask(
    view: Retriever, passages: Sequence[Passage], size: int, tenant: Filter | Everyone, gate: Gate
) -> list[_Trial]:
    """Ask questions made of passages in each way; ValueError if none can be made."""
    answers = {text.lstrip("# "): ids for text, ids in questions_of(passages, size).items()}
    results: Iterable[Result] = ()
    if answers:
        results = view.search([*answers], max(_SEEN, gate.k), tenant=tenant)
    asks = {result.query: result for result in results if result.decision.code != "no_question"}
    if not asks:
        raise ValueError(
            "passages: expected some of which a question can be made, got none among "
            f"{len(passages):,} passages. A question is a title in the metadata or a sentence of "
            "12 to 250 characters; or pass a table of questions."
        )
    file_of = {passage.id: passage.about.source for passage in passages}
    files = {text: file_of[answers[text][0]] for text in asks}
    trials, depth, corpus = list[_Trial](), max(JUDGED, gate.k), _Corpus.from_passages(passages)
    with progress_bar("Asking", len(asks)) as progress:
        for text, result in asks.items():
            relevant = _with_copies(result, answers[text])
            trials.append(_Trial("as_they_are", files[text], result, gate, relevant))
            hidden = _with_copies(result, relevant | corpus.beside(text, relevant))
            scope = all_of(tenant, {"$not": {"$id": sorted(hidden)}})
            outcome = view.search([text], depth, tenant=scope or EVERYONE)[0]
            trials.append(_Trial("left_out", files[text], outcome, gate))
            progress.update()
    trials += _ask_written(view, passages, size, tenant, gate)
    changed = dict(corpus.change([*asks]))
    if changed:
        results = view.search([*changed.values()], depth, tenant=tenant)
        pairs = zip(changed, results, strict=True)
        trials += [_Trial("changed", files[text], result, gate) for text, result in pairs]
    return trials


def _ask_written(
    view: Retriever, passages: Sequence[Passage], size: int, tenant: Filter | Everyone, gate: Gate
) -> list[_Trial]:
    """Ask the first question beside each of some passages, of an index that lacks it."""
    pool = [passage for passage in passages if len(questions_in(passage.metadata)) > 1]
    pool = random.Random(0).sample(pool, min(len(pool), size))
    asks = {questions_in(passage.metadata)[0]: passage for passage in pool}
    twins = [
        replace(passage, metadata=passage.metadata | _beside(questions_in(passage.metadata)[1:]))
        for passage in asks.values()
    ]
    index = with_passages(view, twins) if asks else None
    if index is None:
        return []
    results = index.search([*asks], max(_SEEN, gate.k), tenant=tenant)
    return [
        _Trial("in_other_words", p.about.source, result, gate, _with_copies(result, [p.id]))
        for p, result in zip(asks.values(), results, strict=True)
    ]


def _beside(questions: Sequence[str]) -> dict[str, Any]:
    """Return the metadata of a passage that has these questions beside it, and no others."""
    key, *extras = QUESTION_KEYS
    return {key: [*questions], **dict.fromkeys(extras)}


def _with_copies(result: Result, ids: Collection[str]) -> frozenset[str]:
    """Return ids with those of copies of their passages among the hits."""
    return frozenset(ids).union(*(hit.ids for hit in result.hits if not hit.ids.isdisjoint(ids)))


@dataclass(frozen=True)
class _Corpus:
    """The words, sections and numbers of passages.

    `words`: the stems of each passage, by its id. `sections`: the ids of the passages of each
    source and title. `numbers`: all words with a digit.
    """

    words: Mapping[str, frozenset[str]]
    sections: Mapping[tuple[str, str], frozenset[str]]
    numbers: frozenset[str]

    @classmethod
    def from_passages(cls, passages: Sequence[Passage]) -> Self:
        """Read passages."""
        sections = defaultdict[tuple[str, str], set[str]](set)
        for passage in passages:
            about = passage.about
            if about.subject != about.source:
                sections[about.source, about.subject].add(passage.id)
        return cls(
            {passage.id: stems(passage.headed) for passage in passages},
            {section: frozenset(ids) for section, ids in sections.items()},
            frozenset[str]().union(*(_NUMBER.findall(passage.headed) for passage in passages)),
        )

    def holders(self, question: str, share: float = 1.0) -> Iterator[str]:
        """Yield the ids of the passages that have a share of the words of a question."""
        terms = stems(question)
        count = share * len(terms)
        return (id_ for id_, words in self.words.items() if len(terms & words) >= count)

    def beside(self, question: str, ids: Collection[str]) -> frozenset[str]:
        """Return the ids of other passages that may answer a question.

        They have most of its words, or are in a small section with one of those that answer it; a
        large one, such as a table of prices, has statements on other things.
        """
        small = (section for section in self.sections.values() if len(section) <= _SECTION)
        holders = frozenset(self.holders(question, _MOST_WORDS))
        return holders.union(*(section for section in small if not section.isdisjoint(ids)))

    def change(self, questions: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield questions, each with a copy in which the first number, or else name, is another.

        The other one is of the same shape, such as "B7" for "A3", from the documents if possible,
        and no passage has all words of the copy.
        """
        rng, names = random.Random(0), frozenset[str]().union(*map(_names, questions))
        for question in questions:
            values = {*_NUMBER.findall(question)} or _names(question)
            matches = ((_word(value).search(question), value) for value in values)
            places = [(match.start(), value) for match, value in matches if match]
            if not places:
                continue
            _, entity = min(places)
            pool = sorted((self.numbers | names) - values)
            like = [value for value in pool if _shape(value) == _shape(entity)]
            for twin in [*rng.sample(like, min(len(like), _TRIED)), *_other_numbers(entity)]:
                copy = _word(entity).sub(twin, question)
                if copy != question and not any(self.holders(copy)):
                    yield question, copy
                    break


def _word(name: str) -> regex.Pattern[str]:
    """Return a pattern of a word that is no part of another, of an address or of code."""
    return regex.compile(
        rf"(?<![\p{{L}}\p{{N}}_./$<-]){regex.escape(name)}(?![\p{{L}}\p{{N}}_/]|[.-]\w)"
    )


def _names(question: str) -> set[str]:
    """Return the names in a question."""
    words = telling_words(split_words(question), FUNCTION_WORDS)
    is_english = language_of(question) == ENGLISH
    return {*filter(_NAME.fullmatch, names_in(question, words, english=is_english))}


def _shape(value: str) -> str:
    """Return a number with zeros for its digits, or "A" or "a" for a name, as it is written."""
    if not _DIGIT.search(value):
        return "A" if value.isupper() else "a"
    return str(_DIGIT.sub("0", value))


def _other_numbers(number: str) -> Iterator[str]:
    """Yield numbers of the shape of another; nothing for a name."""
    for step in range(1, 10) if _DIGIT.search(number) else ():
        yield "".join(str((int(sign) + step) % 10) if sign.isdecimal() else sign for sign in number)


def _rates(trials: Iterable[_Trial]) -> dict[str, Any]:
    """Return the shares of each outcome by the way of asking."""
    outcomes: dict[Way, list[str]] = {way: [] for way in get_args(Way)}
    for question in trials:
        outcomes[question.way].append(question.outcome)
    shares: dict[str, Any] = {
        way: {"questions": len(group)}
        | {name: share_of([outcome == name for outcome in group]) for name in _OUTCOMES}
        for way, group in outcomes.items()
    }
    nothing = outcomes["left_out"] + outcomes["changed"]
    return shares | {"still_answered": share_of([outcome == _WRONG for outcome in nothing])}


def _threshold(trials: Sequence[_Trial], max_wrong: float) -> dict[str, Any]:
    """Return the threshold at which few enough are still answered, and what it leaves."""
    nothing = [question for question in trials if question.way not in _ANSWERABLE]
    scores = np.array([question.score for question in nothing], dtype=np.float64)
    threshold, guarantee = lowest_threshold(scores, max_wrong)
    there = [question for question in trials if question.way == "as_they_are"]
    right = [
        question.is_found and question.decide(threshold).action == "answer" for question in there
    ]
    return {
        "max_wrong": max_wrong,
        "threshold": threshold,
        "needed": guarantee.needed,
        "still_answered": share_of((scores > threshold).tolist()),
        _RIGHT: share_of(right),
    }
