"""What to do about a query: answer, ask back or abstain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from uec_rag.base.errors import InternalError
from uec_rag.base.gaussian import FloatArray

Action = Literal["answer", "clarify", "abstain"]

REASONS: dict[Action, str] = {
    "answer": "The documents seem to answer this.",
    "clarify": "Several passages could answer this.",
    "abstain": "The documents do not seem to answer this.",
}
"""What a decision says to people."""

NOTHING_FOUND = "There is no passage to answer from."

PLAUSIBLE = 0.3
"""P(the corpus answers the query) below which no passage is plausible, however many compete."""


@dataclass(frozen=True)
class Decision:
    """What to do with a query's hits.

    Attributes
    ----------
    action : {"answer", "clarify", "abstain"}
    reason : str
        A sentence for people; its figures are `figures`.
    candidates : tuple of str
        Ids of the hits that compete, whatever the action: another threshold decides by them, too.
    confidence : float
        P(the query is answered by its hits), which the action rests on.
    in_corpus : float
        P(the corpus answers the query); 1 where that is not known.
    unfamiliar : str
        What makes the query unlike those that confidence was learned from; "" where nothing does.
    basis : str
        Fingerprint of what confidence rests on (see `Retriever.basis`), where it is known.
    hits : int
        How many hits confidence is of; 0 where that is not known.
    size : int
        How many passages were searched; 0 where that is not known.
    threshold : float
        The confidence above which to answer.

    Raises
    ------
    InternalError
        If confidence or in_corpus is NaN.
    """

    action: Action
    reason: str
    candidates: tuple[str, ...] = ()
    confidence: float = field(default=0.0, compare=False)
    in_corpus: float = field(default=1.0, compare=False)
    unfamiliar: str = ""
    basis: str = field(default="", compare=False)
    hits: int = field(default=0, compare=False)
    size: int = field(default=0, compare=False)
    threshold: float = field(default=0.5, compare=False)

    def __post_init__(self) -> None:
        # Every decision is made here. Comparisons with what is no number are all false: a gate
        # would abstain, and a user's own "if confidence < 0.5: refuse" would answer.
        if math.isnan(self.confidence) or math.isnan(self.in_corpus):
            raise InternalError(
                f"a confidence is not a number (confidence {self.confidence}, in_corpus "
                f"{self.in_corpus}): a defect of uec_rag; please report how it arose."
            )

    @property
    def decision(self) -> Action:
        """The action, by the name that it has in metadata."""
        return self.action

    @property
    def figures(self) -> str:
        """The numbers that the action rests on, in words."""
        above = "no threshold" if math.isinf(self.threshold) else f"threshold {self.threshold:.2f}"
        held = f"an answer is in the documents with probability {self.in_corpus:.2f}"
        return f"confidence {self.confidence:.2f}, {above}; {held}"


def outcome(decisions: Sequence[Decision]) -> dict[str, Any]:
    """What traces note of decisions: action, confidence, in_corpus; a list of each for several."""
    names = {"decision": "action", "confidence": "confidence", "in_corpus": "in_corpus"}
    found = {key: [getattr(one, name) for one in decisions] for key, name in names.items()}
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}


@dataclass(frozen=True)
class Ambiguity:
    """Why a query is ambiguous.

    Attributes
    ----------
    reason : str
        A sentence for people.
    candidates : tuple of str
        Ids of the hits that compete.
    """

    reason: str
    candidates: tuple[str, ...]


def ambiguities(
    posterior: FloatArray, ids: Sequence[Sequence[str]], in_corpus: FloatArray
) -> list[Ambiguity | None]:
    """Whether each question could mean one of several hits; None if it could not.

    It could if a few passages, none far behind the best, share most of the posterior. If the corpus
    hardly holds an answer at all, none of those that compete is plausible.

    Parameters
    ----------
    posterior : array, shape (n, k)
        Softmax of the fused logits, at the hits.
    ids : sequence of n sequences of k str
        Ids of the hits.
    in_corpus : array, shape (n,)
        P(the corpus answers the question).
    """
    found: list[Ambiguity | None] = []
    for hits, shares, held in zip(ids, posterior, in_corpus, strict=True):
        close = np.flatnonzero(shares >= shares.max() / 4).tolist()
        competes = held >= PLAUSIBLE and len(close) > 1 and shares[close].sum() >= 0.5
        reason = f"{len(close)} passages could answer this."
        found.append(Ambiguity(reason, tuple(hits[row] for row in close)) if competes else None)
    return found


def decide_one(
    confidence: float,
    ambiguity: Ambiguity | None,
    threshold: float = 0.5,
    in_corpus: float = 1.0,
    unfamiliar: str = "",
) -> Decision:
    """Answer above a threshold; below it ask back where the query is ambiguous, else abstain.

    Examples
    --------
    >>> rivals = Ambiguity("2 passages could answer this.", ("a", "b"))
    >>> [decide_one(*given).action for given in ((0.9, None), (0.3, rivals), (0.3, None))]
    ['answer', 'clarify', 'abstain']
    """
    rivals = () if ambiguity is None else ambiguity.candidates
    action: Action = "abstain"
    if confidence > threshold:
        action, reason = "answer", REASONS["answer"]
    elif ambiguity is not None:
        action, reason = "clarify", ambiguity.reason
    elif math.isinf(threshold):
        reason = "No question is answered: no threshold keeps the risk of wrong answers."
    else:
        reason = _why(confidence, in_corpus)
    if unfamiliar:
        reason = f"{reason} Note: {unfamiliar}."
    return Decision(
        action, reason, rivals, confidence, in_corpus, unfamiliar, threshold=float(threshold)
    )


def _why(confidence: float, in_corpus: float) -> str:
    """Which of the two questions is the doubtful one."""
    if in_corpus < PLAUSIBLE:
        return REASONS["abstain"]
    if confidence < in_corpus / 2:
        return "The documents may answer this, but these passages do not seem to."
    return "It is not certain enough that these passages answer this."
