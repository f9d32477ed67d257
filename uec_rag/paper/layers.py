"""How many layers, and how much data, a Laplace posterior needs (paper tables 19 and 20)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders import Encoder, SentenceTransformerEncoder
from uec_rag.laplace.pairs import (
    LabelledPairs,
    Pairs,
    check_pairs,
    held_out_pairs,
    training_pairs,
)
from uec_rag.paper.baselines.layers import LayerResult, layer_ablation
from uec_rag.paper.calibration import error_auroc, measure_probabilities
from uec_rag.paper.results import Json

Triple = tuple[str, str, int]
_Measure = Callable[[LayerResult, NDArray[np.int64]], float]

# Queries to fit, tune and test on: each of their pairs costs a backward pass through a block.
_FIT, _TUNE, _TEST = 100, 60, 110
_HITS = 2  # wrong ones of each query that tunes or tests
_RESAMPLES = 50


def layers(
    encoder: SentenceTransformerEncoder,
    embedder: Encoder,
    pairs: Sequence[tuple[str, str]],
    proxy: Sequence[tuple[str, str]],
) -> list[Json]:
    """Fit over 1, 2, 4 and 6 layers on parts of the pairs, and tell answers from hits of the proxy.

    Random passages are told apart without error, which leaves nothing for a variance to explain:
    posteriors are fitted among hard negatives, tuned and tested among hits.

    Parameters
    ----------
    encoder : SentenceTransformerEncoder
    embedder : Encoder
        The same behind a cache, to look for negatives with.
    pairs : sequence of (query, passage)
        Some are fitted on, others tune prior precision and scale.
    proxy : sequence of (query, passage)
        What is tested on.

    Returns
    -------
    list of dict
        One per number of layers and size of the data: means over random parts of that size, and
        their standard errors, by drawing parts and test queries anew.
    """
    order = np.random.default_rng(0).permutation(len(pairs))[: _FIT + _TUNE]
    some = check_pairs([pairs[index] for index in order])
    answered = np.random.default_rng(0).permutation(len(some.queries))[: _FIT + _TUNE]
    share = round(len(answered) * _FIT / (_FIT + _TUNE))
    embedded = _embeddings(embedder, some)
    test = _hits(embedder, check_pairs(proxy[:_TEST]))
    found = layer_ablation(
        encoder,
        _triples(some, training_pairs(some, np.sort(answered[:share]), *embedded, 0)),
        _triples(some, held_out_pairs(some, np.sort(answered[share:]), *embedded, _HITS)),
        test,
    )
    resamples = _resamples([query for query, _, _ in test])
    return [
        _summary(list(draws), resamples)
        for _, draws in groupby(found, key=lambda row: (row.layers, row.fraction))
    ]


def _summary(draws: list[LayerResult], resamples: Sequence[NDArray[np.int64]]) -> Json:
    """Means over draws, and standard errors over draws and resampled test queries."""
    measures: dict[str, _Measure] = {
        "ece": lambda r, i: measure_probabilities(r.probability[i], r.labels[i])["ece"],
        "ece_deterministic": lambda r, i: measure_probabilities(r.deterministic[i], r.labels[i])[
            "ece"
        ],
        "nll_gain": lambda r, i: float(
            (_nll(r.probability, r.labels) - _nll(r.deterministic, r.labels))[i].mean()
        ),
        "error_auroc": lambda r, i: error_auroc(r.variance[i], r.deterministic[i], r.labels[i]),
    }
    first = draws[0]
    everything = np.arange(len(first.labels))
    row: Json = {
        "layers": first.layers,
        "fraction": first.fraction,
        "pairs": first.pairs,
        "draws": len(draws),
        "accuracy": float(
            np.mean([measure_probabilities(d.probability, d.labels)["accuracy"] for d in draws])
        ),
        "logit_variance": float(np.mean([d.logit_variance.mean() for d in draws])),
    }
    for name, measure in measures.items():
        row[name] = float(np.mean([measure(d, everything) for d in draws]))
        row[f"{name}_se"] = float(np.nanstd([measure(d, i) for d in draws for i in resamples]))
    return row


def _nll(probability: NDArray[np.float64], labels: NDArray[np.float64]) -> NDArray[np.float64]:
    right = np.where(labels == 1, probability, 1 - probability)
    nll: NDArray[np.float64] = -np.log(np.maximum(right, 1e-12))
    return nll


def _resamples(queries: Sequence[str]) -> list[NDArray[np.int64]]:
    """Rows of queries drawn with replacement, all pairs of a query together."""
    _, own = np.unique(np.array(queries), return_inverse=True)
    rows = [np.flatnonzero(own == query) for query in range(own.max() + 1)]
    rng = np.random.default_rng(0)
    return [
        np.concatenate([rows[query] for query in rng.integers(0, len(rows), len(rows))])
        for _ in range(_RESAMPLES)
    ]


def _hits(encoder: Encoder, pairs: Pairs) -> list[Triple]:
    rows = np.arange(len(pairs.queries))
    return _triples(pairs, held_out_pairs(pairs, rows, *_embeddings(encoder, pairs), _HITS))


def _embeddings(encoder: Encoder, pairs: Pairs) -> tuple[FloatArray, FloatArray]:
    return (
        encoder.encode(pairs.queries, "query").embedding,
        encoder.encode(pairs.passages, "passage").embedding,
    )


def _triples(pairs: Pairs, labelled: LabelledPairs) -> list[Triple]:
    """(query, passage, label) of index pairs."""
    rows = zip(labelled.query_index, labelled.passage_index, labelled.labels, strict=True)
    return [(pairs.queries[q], pairs.passages[p], int(label)) for q, p, label in rows]
