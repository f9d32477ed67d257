"""Fitting a verifier on what the ensemble finds for the fit queries, and confidence with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.fit import FitView, fit_confidence
from uec_rag.encoders.verifier import Scored, Verifier
from uec_rag.ensemble.evidence_fit import CorpusView
from uec_rag.ensemble.questions import Questions
from uec_rag.ensemble.verifier import FittedVerifier, Verified
from uec_rag.laplace.pair_scores import fit_pair_scores
from uec_rag.laplace.posterior import Posterior


@dataclass(frozen=True, eq=False)
class ReadViews:
    """What a verifier says of the best hits of each view's queries.

    Attributes
    ----------
    cuts, views : list of CorpusView, of FitView
        Which queries were asked of which passages, and what the ensemble says.
    hits : list of int arrays, shape (n, v)
        The view's columns that were read.
    pairs : list of int arrays, shape (n, v)
        Where in `scored` each is.
    scored : Scored
        Of p distinct pairs.
    query : int array, shape (p,)
        Which question each pair is of.
    labels : array, shape (p,)
        1 where the passage answers it.
    """

    cuts: Sequence[CorpusView]
    views: Sequence[FitView]
    hits: list[NDArray[np.intp]]
    pairs: list[NDArray[np.intp]]
    scored: Scored
    query: NDArray[np.int64]
    labels: FloatArray

    def joined(self, posterior: Posterior, weight: float) -> list[FitView]:
        """The views, with what the verifier says added to their logits."""
        out = []
        for view, hits, pairs in zip(self.views, self.hits, self.pairs, strict=True):
            flat = pairs.ravel()
            scored = Scored(self.scored.scores[flat], self.scored.features[flat])
            read = Verified.of(posterior, weight, scored, (hits.shape[0], hits.shape[1]))
            logits = view.logits + read.floor[:, None]
            variance = view.variance.copy()
            rows = np.arange(len(hits))[:, None]
            logits[rows, hits] += read.gain
            variance[rows, hits] += read.variance
            out.append(replace(view, logits=logits, variance=variance))
        return out


def read_views(
    verifier: Verifier,
    k: int,
    questions: Questions,
    cuts: Sequence[CorpusView],
    views: Sequence[FitView],
) -> ReadViews:
    """Have a verifier read the k best hits of every query of every view, each pair once.

    Parameters
    ----------
    verifier : Verifier
    k : int
    questions : Questions
        Their texts.
    cuts, views : sequence of CorpusView, of FitView
    """
    size = len(questions.corpus)
    hits = [np.argsort(-view.logits, axis=1, kind="stable")[:, :k] for view in views]
    keys = [
        cut.queries[:, None].astype(np.int64) * size + cut.passages[columns]
        for cut, columns in zip(cuts, hits, strict=True)
    ]
    distinct, place = np.unique(np.concatenate([k.ravel() for k in keys]), return_inverse=True)
    query, passage = distinct // size, distinct % size
    asked, starts = np.unique(query, return_index=True)
    scored = verifier.score(
        [questions.queries[row] for row in asked],
        [[questions.corpus[column] for column in own] for own in np.split(passage, starts[1:])],
    )
    ends = np.cumsum([k.size for k in keys])[:-1]
    labels = [float(p in questions.relevant[q]) for q, p in zip(query, passage, strict=True)]
    return ReadViews(
        cuts,
        views,
        hits,
        [part.reshape(k.shape) for part, k in zip(np.split(place, ends), keys, strict=True)],
        scored,
        query,
        np.asarray(labels, dtype=np.float32),
    )


def fit_verifier(name: str, k: int, read: ReadViews, encoders: int, seed: int) -> FittedVerifier:
    """Fit a verifier's slope, intercept and posterior, and confidence where it has read.

    Parameters
    ----------
    name : str
    k : int
        How many hits it reads.
    read : ReadViews
    encoders : int
        How many there are beside it.
    seed : int
        Of the held-out split.
    """
    scored = read.scored
    posterior = fit_pair_scores(scored.scores, scored.features, read.labels, read.query, seed)
    weight = 1 / encoders
    model = fit_confidence(read.joined(posterior, weight))
    return FittedVerifier(name, k, weight, posterior, model)
