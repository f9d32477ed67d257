"""What happened, for LlamaIndex's instrumentation."""

from __future__ import annotations

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events.base import (  # type: ignore[attr-defined]
    BaseEvent,
)

from uec_rag.confidence.decision import Action
from uec_rag.retrieval import SearchResult

_dispatcher = get_dispatcher(__name__)


class UECRetrievalEvent(BaseEvent):
    """A query's hits with everything that is known about them.

    Attributes
    ----------
    query : str
    node_ids : list of str
    scores, mu, sigma2 : list of float
        One per hit, as in `uec_rag.retrieval.SearchResult`.
    relevance : list of float, or None
        This and what follows is None where only a vector was searched with.
    coefficients : dict, or None
        How much each encoder counted.
    confidence : float, or None
        P(the query is answered by its hits).
    decision : {"answer", "clarify", "abstain"}, or None
    reason : str, or None
    """

    query: str
    node_ids: list[str]
    scores: list[float]
    mu: list[float]
    sigma2: list[float]
    relevance: list[float] | None = None
    coefficients: dict[str, float] | None = None
    confidence: float | None = None
    decision: Action | None = None
    reason: str | None = None

    @classmethod
    def class_name(cls) -> str:
        """Name in serialised form."""
        return "UECRetrievalEvent"


class UECGateEvent(BaseEvent):
    """What a gate decided.

    Attributes
    ----------
    query : str or None
    decision : {"answer", "clarify", "abstain"}
    reason : str
    confidence : float
    candidates : list of str
        Ids of the nodes that compete, where the decision is "clarify".
    """

    query: str | None
    decision: Action
    reason: str
    confidence: float
    candidates: list[str]

    @classmethod
    def class_name(cls) -> str:
        """Name in serialised form."""
        return "UECGateEvent"


def announce(query: str, found: SearchResult) -> None:
    """Dispatch a `UECRetrievalEvent` for the hits of one query."""
    event = UECRetrievalEvent(
        query=query,
        node_ids=found.ids[0],
        scores=found.scores[0].tolist(),
        mu=found.mu[0].tolist(),
        sigma2=found.sigma2[0].tolist(),
    )
    if found.judged:
        shares = found.shares[0].tolist()
        event.relevance = found.relevance[0].tolist()
        event.coefficients = dict(zip(found.names, shares, strict=True))
        event.confidence = float(found.confidence[0])
        event.decision = found.decisions[0].action
        event.reason = found.decisions[0].reason
    _dispatcher.event(event)
