"""Learning relevance and confidence, from fit queries asked of small corpora."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.model import NEAREST, ConfidenceModel, Examples, features, shipped_model

_CLEARLY = 0.05  # nats per query
# A fit asks each of its questions of several corpora, and all are of one domain. Counted in full
# they move the level of what is asked elsewhere too far (docs/measurements); at this weight 1,200
# of them stand against a prior that slope and offset keep to .1 and .14.
_WEIGHT = np.float32(0.01)
_USUAL_TEMPERATURE, _LOG_DEVIATION = 0.8, 1.5  # of ensembles of small encoders, and of any


@dataclass(frozen=True, eq=False)
class FitView:
    """Fit queries asked of one corpus.

    Attributes
    ----------
    logits, variance : array, shape (n, N)
        Mean and variance of the ensemble's logit of every passage.
    relevant : array of bool, shape (n, N)
        A row without any is a query that the corpus does not answer.
    members : array, shape (K, n, N), or None
        The members' own logits of every passage; None of an ensemble that does not keep them.
    words : bool
        Whether words are a member.
    """

    logits: FloatArray
    variance: FloatArray
    relevant: NDArray[np.bool_]
    members: FloatArray | None = None
    words: bool = False


def fit_confidence(
    views: Sequence[FitView], k: int = 10, *, standardised: bool = False, at_home: bool = False
) -> ConfidenceModel:
    """Learn the model on fit queries asked of several corpora, some without the answer.

    Confidence rests on what many collections taught (see `shipped_model`): that order is kept, and
    its level moved a little towards these queries. Only where they clearly tell otherwise is it
    learned from them alone, as of an ensemble whose logits are like no other's.

    Parameters
    ----------
    views : sequence of FitView
        Small and larger corpora; a fifth of the queries unanswerable is a good share.
    k : int
        Hits that count.
    standardised : bool
        Whether the logits are an unfitted ensemble's; see `ConfidenceModel`.
    at_home : bool
        Whether what will be asked is these very corpora: then the queries count in full.

    Raises
    ------
    ValueError
        If no query is answerable, or no hit of any is relevant.
    """
    words = all(view.words for view in views)
    shipped = shipped_model("unfitted" if standardised else "words" if words else "fitted")
    known = replace(shipped, temperature=fit_temperature(views))
    examples = Examples.joined([view_examples(view, known, k) for view in views])
    moved, own = known.moved(examples), known.relearned(examples)
    if moved.surprise(examples) - own.surprise(examples) > _CLEARLY:
        return own
    if at_home:
        return moved
    return known.moved(replace(examples, weight=_WEIGHT * examples.weight))


def view_examples(view: FitView, model: ConfidenceModel, k: int) -> Examples:
    """Compute the features of a view's queries and their k best hits, with their labels."""
    size = view.logits.shape[1]
    near = min(max(k, NEAREST), size)
    best = np.argpartition(-view.logits, near - 1, axis=1)[:, :near]
    order = np.argsort(-np.take_along_axis(view.logits, best, axis=1), axis=1, kind="stable")
    hits = np.take_along_axis(best, order, axis=1)
    logits = np.take_along_axis(view.logits, hits, axis=1)
    variance = np.take_along_axis(view.variance, hits, axis=1)
    members = logits[:, :1]
    if view.members is not None:
        members = view.members[:, np.arange(len(hits)), hits[:, 0]].T
    return Examples(
        features(logits, variance, members, model.temperature).first(k),
        relevant=np.take_along_axis(view.relevant, hits[:, :k], axis=1),
        answerable=np.asarray(view.relevant.any(axis=1)),
        weight=np.ones(len(logits), dtype=np.float32),
    )


def fit_temperature(views: Sequence[FitView]) -> float:
    """Find the temperature at which the relevant passages have the largest share of the posterior.

    Raises ValueError if no query is answerable.
    """
    from scipy.optimize import minimize_scalar

    answerable = [
        (view.logits[some], view.relevant[some])
        for view in views
        if (some := view.relevant.any(axis=1)).any()
    ]
    if not answerable:
        raise ValueError("views: expected at least one query with a relevant passage.")

    def loss(log_scale: float) -> float:
        # Where every answer is the clear winner the views alone would send it to 0.
        total = float((log_scale + np.log(_USUAL_TEMPERATURE)) ** 2 / (2 * _LOG_DEVIATION**2))
        for logits, relevant in answerable:
            scaled = np.float32(np.exp(log_scale)) * logits
            mass = np.exp(scaled - scaled.max(axis=1, keepdims=True))
            share = np.where(relevant, mass, 0).sum(axis=1) / mass.sum(axis=1)
            total -= float(np.log(np.maximum(share, 1e-30)).sum())
        return total

    found = minimize_scalar(loss, bounds=(-4, 6), method="bounded")
    return float(np.exp(-found.x))
