"""The opinion of an advisor that has read the hits, which is taken at its word.

Whoever reads the hits gives probabilities: a decision model its own, a chat model's verdict those
that stand for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from uec_rag.base.logistic import EVEN
from uec_rag.confidence.decision import Action, Criteria, Decision, Evidence, decide
from uec_rag.questions.replies import Reading, find_positions

Verdict: TypeAlias = Literal["answer", "clarify", "no"]

_LEAST = 0.005  # no single answer counts for more than this and 1 - this
_MEANT = 0.5  # what is added to the log odds that a question is ambiguous if a model is asked


@dataclass(frozen=True)
class Opinion:
    """An advisor's view of a question and its hits; a part that it does not give is None or empty.

    Attributes
    ----------
    contains : float or None
        P(the passages contain the answer).
    passage : int
        The position of the passage that has the answer.
    unclear : float or None
        P(the question does not say which reading is meant).
    meaning : tuple of float
        P(this reading is meant), of each that was asked about.
    options : tuple of str
        What the question may mean, as titles.
    rewrite : str
        The question in the words that documents would use, to search for once more.
    failure : str
        Why there is no opinion.
    missing : tuple of str
        What is wrong with each answer that counts as not given.
    tokens, calls : int
        Tokens that were read and written, 0 if unknown, and calls of advisors.
    seconds : float
        The time that it took.
    """

    contains: float | None = None
    passage: int = 0
    unclear: float | None = None
    meaning: tuple[float, ...] = ()
    options: tuple[str, ...] = ()
    rewrite: str = ""
    failure: str = ""
    missing: tuple[str, ...] = ()
    tokens: int = 0
    calls: int = 1
    seconds: float = field(default=0.0, compare=False)


_VERDICTS: dict[Action, Verdict] = {"answer": "answer", "clarify": "clarify", "abstain": "no"}


def odds_of(share: float) -> float:
    """Return the log odds of a probability, within bounds that no single answer exceeds."""
    inside = min(max(share, _LEAST), 1 - _LEAST)
    return math.log(inside / (1 - inside))


def share_of(odds: float) -> float:
    """Return the probability with these log odds."""
    return 1 / (1 + math.exp(-odds))


def apply_opinion(decision: Decision, opinion: Opinion) -> Decision:
    """Decide again by what an advisor says, whatever the confidence of the search.

    Only of which reading is meant, where it was asked, the search is further evidence. What it does
    not say is as before. That the passages answer, as a bool or a number says, tells not what is
    meant: a clarifying question stays. Its options are offered in place of the readings: one that
    names a reading is that reading, and another has no passages.

    Examples
    --------
    >>> found = decide(Evidence(confidence=0.4))
    >>> [apply_opinion(found, Opinion(share)).action for share in (0.9, 0.2)]
    ['answer', 'abstain']
    >>> unclear = Opinion(0.97, unclear=0.97, options=("rent", "deposit"))
    >>> apply_opinion(found, unclear).reason
    'Do you mean rent or deposit?'
    """
    missing = "; ".join(f"not given: {name}" for name in opinion.missing)
    costs: dict[str, Any] = {"advice_calls": opinion.calls, "advice_tokens": opinion.tokens}
    if opinion.contains is None and opinion.unclear is None:
        return replace(decision, advice=f"none: {opinion.failure or missing}", **costs)
    outcome, asks_back = decision, opinion.unclear is not None
    if asks_back or decision.action != "clarify":
        threshold = decision.threshold if opinion.contains is None else EVEN
        criteria = Criteria(threshold, decision.clarify_from, asks_back)
        outcome = decide(_at_its_word(decision, opinion), criteria)
    verdict = _VERDICTS[outcome.action]
    if opinion.unclear is None and opinion.contains is not None:  # a clarifying question stays
        verdict = "answer" if opinion.contains > EVEN else "no"
    advice = "; ".join(filter(None, (verdict, missing)))
    return replace(outcome, advice=advice, advice_probability=opinion.contains, **costs)


def _at_its_word(decision: Decision, opinion: Opinion) -> Evidence:
    """Return evidence with an opinion's probabilities and options in place of the search's."""
    readings = decision.readings
    sure, in_corpus = decision.confidence, decision.in_corpus
    if opinion.contains is not None:
        sure = in_corpus = min(max(opinion.contains, _LEAST), 1 - _LEAST)
    ambiguous = decision.underspecified if opinion.unclear is None else opinion.unclear
    if opinion.meaning:  # of readings that the search has found: both are evidence
        ambiguous = share_of(odds_of(decision.underspecified) + odds_of(ambiguous) + _MEANT)
    if opinion.options:
        count = len(opinion.options)
        readings = tuple(_reading(title, readings, count) for title in opinion.options)
    elif len(opinion.meaning) > 1:
        ranking = sorted(zip(opinion.meaning, readings, strict=False), key=lambda pair: -pair[0])
        readings = (*(reading for _, reading in ranking), *readings[len(ranking) :])
    elif opinion.unclear and opinion.unclear > EVEN and len(readings) == 1:
        readings = ()  # it is not the only one
    return replace(
        decision, confidence=sure, in_corpus=in_corpus, underspecified=ambiguous, readings=readings
    )


def _reading(title: str, readings: Sequence[Reading], count: int) -> Reading:
    """Return the known reading that a title names; if there is none, one without passages."""
    positions = find_positions(title, [reading.title for reading in readings]) or []
    if len(positions) != 1:
        return Reading(title, (), 1 / count)
    return replace(readings[positions[0]], title=title)
