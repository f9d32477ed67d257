"""The opinion of an advisor that has read the hits, and what it makes of a decision.

Whoever reads the hits gives probabilities: a decision model its own, a chat model's verdict those
that stand for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.records import Record
from uec_rag.confidence.decision import Action, Decision, decide_again
from uec_rag.confidence.model import fit_logistic, log_odds, shipped
from uec_rag.confidence.readings import Reading
from uec_rag.confidence.replies import find_positions

Verdict: TypeAlias = Literal["answer", "clarify", "no"]

READ = 10
"""The number of passages that an advisor reads."""

_LEAST = 0.005  # no single answer counts for more than this and 1 - this
_LIKELY = 0.5  # the weight of a decision model's log odds before anything is known of it
_EVEN = 0.5  # what is probable: a verdict is taken at its word, whatever the confidence


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
    verdict : str
        What it said in one word, for which the probabilities stand: "answer", "clarify" or "no". ""
        if it gave probabilities.
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
    verdict: Verdict | Literal[""] = ""
    failure: str = ""
    missing: tuple[str, ...] = ()
    tokens: int = 0
    calls: int = 1
    seconds: float = field(default=0.0, compare=False)


def odds_of(share: float) -> float:
    """Return the log odds of a probability, within bounds that no single answer exceeds."""
    inside = min(max(share, _LEAST), 1 - _LEAST)
    return math.log(inside / (1 - inside))


def share_of(odds: float) -> float:
    """Return the probability with these log odds."""
    return 1 / (1 + math.exp(-odds))


@dataclass(frozen=True)
class OpinionModel(Record):
    """The model from the log odds of a search and of a second opinion to one probability.

    Attributes
    ----------
    confidence, contains : float
        Weights of the log odds of the confidence and of `Opinion.contains`, at least 0.
    bias : float
    usual : float
        The mean log odds of the confidence in borderline questions, at which it counts for nothing.
    questions : int
        Number of questions made of an index's passages that it was fitted on; 0 if it came with the
        package.
    before, after : float or None
        AUROC, on these, of the confidence alone and of the probability.
    """

    confidence: float
    contains: float
    bias: float
    usual: float = 0.0
    questions: int = 0
    before: float | None = None
    after: float | None = None

    @property
    def report(self) -> str:
        """The worth of a second opinion on the index that it was fitted on."""
        if self.before is None or self.after is None:
            return ""
        return (
            f"On {self.questions} questions made of the passages, with and without their answer, "
            f"the AUROC is {self.before:.3f} without and {self.after:.3f} with its probabilities."
        )

    def log_odds(
        self, confidence: NDArray[np.float64], odds: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Compute the log odds that the passages answer each of n questions."""
        own = log_odds(np.clip(confidence, _LEAST, 1 - _LEAST)) - self.usual
        return self.confidence * own + self.contains * odds + self.bias

    def probability(self, confidence: float, contains: float) -> float:
        """Compute P(the passages answer a question), given two probabilities of that."""
        odds = self.log_odds(np.array([confidence]), np.array([odds_of(contains)]))
        return share_of(float(odds[0]))

    def fit(self, odds: NDArray[np.float64], right: NDArray[np.bool_]) -> Self:
        """Return a model of one decision model, from questions with known answers.

        Its probabilities alone are calibrated. Questions made of passages say nothing of how far to
        trust confidence: they are easier to find than those of users.

        Parameters
        ----------
        odds : array, shape (n,)
            The opinion's log odds on what was found for each question.
        right : bool array, shape (n,)
            Whether it has the answer.
        """
        counts, start = np.ones(len(right)), np.array([_LIKELY])
        [contains], bias = fit_logistic(odds[:, None], right, counts, start, 1.0, 1.0)
        return replace(self, contains=float(contains), bias=bias)


@cache
def shipped_opinion_model() -> OpinionModel:
    """Return the model that comes with the package, by `benchmarks.quality.opinion`."""
    return OpinionModel.restore(shipped("opinion.json"))


# What is added to the log odds of an ambiguous question by an opinion; chosen on the three further
# manuals of benchmarks.quality.opinion.
_MEANT = 0.5
_VERDICTS: dict[Action, Verdict] = {"answer": "answer", "clarify": "clarify", "abstain": "no"}


def apply_opinion(
    decision: Decision, opinion: Opinion, model: OpinionModel, threshold: float
) -> Decision:
    """Decide again by the confidence of a search and a second opinion on it together.

    P(the corpus answers) moves with the confidence. What the opinion says of which reading is meant
    is further evidence, which is added in log odds, at most at the weight of its other answers, and
    orders the readings. A verdict is taken at its word instead; one of a mere yes or no leaves a
    clarifying question. Its options are offered in place of the readings: one that names a reading
    is that reading, and another has no passages.

    Parameters
    ----------
    decision : Decision
        The decision about the hits that were read.
    opinion : Opinion
    model : OpinionModel
    threshold : float
        The confidence above which to answer.

    Examples
    --------
    >>> model = OpinionModel(confidence=0.5, contains=1.0, bias=0.0)
    >>> found = decide_again(Decision("abstain", "", confidence=0.4), 0.5)
    >>> [apply_opinion(found, Opinion(share), model, 0.5).action for share in (0.9, 0.2)]
    ['answer', 'abstain']
    >>> unclear = Opinion(0.97, unclear=0.97, options=("rent", "deposit"), verdict="clarify")
    >>> apply_opinion(found, unclear, model, 0.5).reason
    'Do you mean rent or deposit?'
    """
    missing = "; ".join(f"not given: {one}" for one in opinion.missing)
    costs: dict[str, Any] = {"advice_calls": opinion.calls, "advice_tokens": opinion.tokens}
    if opinion.contains is None and opinion.unclear is None:
        return replace(decision, advice=f"none: {opinion.failure or missing}", **costs)
    made = decision
    if not opinion.verdict:
        made = decide_again(_as_evidence(decision, opinion, model), threshold)
    elif opinion.unclear is not None:
        made = decide_again(_at_its_word(decision, opinion), _EVEN)
    elif decision.action != "clarify":  # else, a mere yes or no leaves the question
        made = decide_as_clear(_at_its_word(decision, opinion), _EVEN)
    advice = "; ".join(filter(None, (opinion.verdict or _VERDICTS[made.action], missing)))
    return replace(made, advice=advice, advice_probability=opinion.contains, **costs)


def decide_as_clear(decision: Decision, threshold: float) -> Decision:
    """Repeat a decision at another threshold, but do not ask which reading is meant."""
    made = decide_again(replace(decision, underspecified=0.0), threshold)
    return replace(made, underspecified=decision.underspecified)


def _at_its_word(decision: Decision, opinion: Opinion) -> Decision:
    """Return a decision with the probabilities, and the options, of a verdict."""
    sure = decision.confidence if opinion.contains is None else opinion.contains
    unsaid = decision.underspecified if opinion.unclear is None else opinion.unclear
    count, readings = len(opinion.options), decision.readings
    readings = tuple(_reading(title, readings, count) for title in opinion.options) or readings
    if opinion.verdict == "clarify" and len(readings) == 1:
        readings = ()  # it is not the only one
    return replace(
        decision, confidence=sure, in_corpus=sure, underspecified=unsaid, readings=readings
    )


def _reading(title: str, readings: Sequence[Reading], count: int) -> Reading:
    """Return the known reading that a title names; if there is none, one without passages."""
    named = find_positions(title, [reading.title for reading in readings]) or []
    if len(named) != 1:
        return Reading(title, (), 1 / count)
    return replace(readings[named[0]], title=title)


def _as_evidence(decision: Decision, opinion: Opinion, model: OpinionModel) -> Decision:
    """Return a decision with what probabilities and those of the search say together."""
    sure, unsaid, readings = decision.confidence, decision.underspecified, decision.readings
    if opinion.contains is not None:
        sure = model.probability(sure, opinion.contains)
    if opinion.unclear is not None:
        heard = min(model.contains, 1) * (odds_of(opinion.unclear) + _MEANT)
        unsaid = share_of(odds_of(unsaid) + heard)
        told = zip(opinion.meaning, readings, strict=False)
        first = sorted(told, key=lambda pair: -pair[0])
        readings = (*(reading for _, reading in first), *readings[len(first) :])
    scale = min(sure / max(decision.confidence, 1e-7), 1.0)
    in_corpus = min(max(decision.in_corpus * scale, sure), 1.0)
    return replace(
        decision, confidence=sure, in_corpus=in_corpus, underspecified=unsaid, readings=readings
    )
