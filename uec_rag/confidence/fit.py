"""Fit the model of relevance and confidence to fit queries over small corpora."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.model import NEAREST, ConfidenceModel, Examples, features, shipped_model

_CLEAR_GAIN = 0.05  # nats per query
# `fit` searches for each question in several corpora, and all are of one domain. With full weight
# they shift the level of confidence too far in other domains (docs/measurements); at this weight,
# 1,200 of them are balanced by a prior with deviations of .1 of the slope and .14 of the offset.
_WEIGHT = np.float32(0.01)
# Mean for ensembles of small encoders; standard deviation of the log over all ensembles.
_PRIOR_TEMPERATURE, _LOG_DEVIATION = 0.8, 1.5


@dataclass(frozen=True, eq=False)
class FitView:
    """The logits of fit queries for the passages of one corpus.

    Attributes
    ----------
    logits, variance : array, shape (n, N)
        Mean and variance of the ensemble's logit of every passage.
    relevant : array of bool, shape (n, N)
        Whether a passage answers a query; a row without any True is an unanswerable query.
    members : array, shape (K, n, N), or None
        Logit of each member for every passage; None in the shared space, which has none.
    words : bool
        Whether BM25 is a member.
    """

    logits: FloatArray
    variance: FloatArray
    relevant: NDArray[np.bool_]
    members: FloatArray | None = None
    words: bool = False


def fit_confidence(
    views: Sequence[FitView], k: int = 10, *, standardised: bool = False, same_corpora: bool = False
) -> ConfidenceModel:
    """Fit the model to queries over several corpora, some of which lack the answer.

    The shipped model, which was fitted to many collections (see `shipped_model`), is adjusted
    slightly to these queries, without a change of order. Only if a new model is clearly better on
    them, as for an ensemble with unusual logits, does it replace the shipped one.

    Parameters
    ----------
    views : sequence of FitView
        Small and larger corpora; about 20 % of the queries should be unanswerable.
    k : int
        Number of hits that confidence is about.
    standardised : bool
        Whether the logits are those of an unfitted ensemble; see `ConfidenceModel`.
    same_corpora : bool
        Whether later queries are over these very corpora; the examples then have full weight.

    Raises
    ------
    ValueError
        If no query is answerable, or no hit of any is relevant.
    """
    words = all(view.words for view in views)
    shipped = shipped_model("unfitted" if standardised else "words" if words else "fitted")
    known = replace(shipped, temperature=fit_temperature(views))
    examples = Examples.joined([view_examples(view, known, k) for view in views])
    moved, relearned = known.moved(examples), known.relearned(examples)
    if moved.nll(examples) - relearned.nll(examples) > _CLEAR_GAIN:
        return relearned
    if same_corpora:
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
    """Find the temperature that maximises the relevant passages' share of the posterior.

    Raises ValueError if no query is answerable.
    """
    from scipy.optimize import minimize_scalar

    answerable = [
        (view.logits[rows], view.relevant[rows])
        for view in views
        if (rows := view.relevant.any(axis=1)).any()
    ]
    if not answerable:
        raise ValueError("views: expected at least one query with a relevant passage.")

    def loss(log_scale: float) -> float:
        # A prior: if every answer ranks first, the likelihood alone would drive it to 0.
        total = float((log_scale + np.log(_PRIOR_TEMPERATURE)) ** 2 / (2 * _LOG_DEVIATION**2))
        for logits, relevant in answerable:
            scaled = np.float32(np.exp(log_scale)) * logits
            mass = np.exp(scaled - scaled.max(axis=1, keepdims=True))
            share = np.where(relevant, mass, 0).sum(axis=1) / mass.sum(axis=1)
            total -= float(np.log(np.maximum(share, 1e-30)).sum())
        return total

    found = minimize_scalar(loss, bounds=(-4, 6), method="bounded")
    return float(np.exp(-found.x))
