"""How likely a hit is relevant and a query answered, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from uec_rag.gaussian import FloatArray

Action = Literal["answer", "clarify", "abstain"]


@dataclass(frozen=True)
class Decision:
    """What to do with a query's hits.

    Attributes
    ----------
    action : {"answer", "clarify", "abstain"}
    reason : str
        In plain words.
    candidates : tuple of str
        Ids of the hits that compete, where the action is "clarify".
    """

    action: Action
    reason: str
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Signals:
    """What a search knows about n queries over a corpus of N passages, for the k best hits.

    Attributes
    ----------
    logits : array, shape (n, k)
        Calibrated logit of each hit, ``slope * mu_s + intercept``.
    logit_variance : array, shape (n, k)
        ``slope^2 * sigma_s^2``.
    log_normaliser : array, shape (n,)
        log sum over the whole corpus of exp(logit).
    member_posterior : array, shape (n, K, k)
        Each encoder's own softmax over the corpus, at the hits.
    size : int
        N.
    """

    logits: FloatArray
    logit_variance: FloatArray
    log_normaliser: FloatArray
    member_posterior: FloatArray
    size: int

    @property
    def posterior(self) -> FloatArray:
        """Softmax of the logits over the whole corpus, at the hits, shape (n, k)."""
        posterior: FloatArray = np.exp(self.logits - self.log_normaliser[:, None])
        return posterior


def relevance(signals: Signals) -> FloatArray:
    """P(this hit is relevant), shape (n, k)."""
    return signals.posterior


def confidence(signals: Signals) -> FloatArray:
    """P(the query is answered by its hits), shape (n,)."""
    top: FloatArray = signals.posterior.max(axis=1, initial=0.0)
    return top


def decide(signals: Signals, ids: list[list[str]]) -> list[Decision]:
    """A first plain rule for each query."""
    out = []
    for row, (top, hits) in enumerate(zip(confidence(signals), ids, strict=True)):
        if top >= 0.5:
            out.append(Decision("answer", f"one passage stands out (confidence {top:.2f})"))
        elif top >= 0.2:
            rivals = tuple(
                h for h, p in zip(hits, signals.posterior[row], strict=True) if p >= top / 4
            )
            out.append(
                Decision("clarify", f"several passages compete (confidence {top:.2f})", rivals)
            )
        else:
            out.append(Decision("abstain", f"no passage stands out (confidence {top:.2f})"))
    return out
