"""How many layers, and how much data, a Laplace posterior needs (paper tables 18 and 19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders import Encoder, SentenceTransformerEncoder, load_encoder
from uec_rag.laplace.pairs import (
    LabelledPairs,
    Pairs,
    check_pairs,
    held_out_pairs,
    training_pairs,
)
from uec_rag.paper.analyses.base import Result, within
from uec_rag.paper.analyses.layer_posteriors import LayerResult, layer_ablation
from uec_rag.paper.analyses.pair_classifier import error_auroc, measure_probabilities
from uec_rag.paper.groups import Group
from uec_rag.paper.paper_numbers import LAYERS
from uec_rag.paper.results import Json
from uec_rag.paper.systems import NotApplicable
from uec_rag.paper.tables import markdown

Triple = tuple[str, str, int]
_Measure = Callable[[LayerResult, NDArray[np.int64]], float]

# Queries to fit, tune and test on: each of their pairs costs a backward pass through a block.
_FIT, _TUNE, _TEST = 100, 60, 110
_HITS = 2  # wrong ones of each query that tunes or tests
_RESAMPLES = 50


def run(groups: Sequence[Group]) -> Json:
    """Look into the first encoder with its weights at hand."""
    group = groups[0]
    for embedder in group.lineup.encoders:
        encoder = None if embedder.spec is None else load_encoder(embedder.spec)
        # A quantised model in ONNX has no layers to differentiate by.
        if isinstance(encoder, SentenceTransformerEncoder) and _has_linear_layers(encoder):
            rows = layers(encoder, embedder, group.lineup.pairs, group.plan.proxy)
            return {"encoder": encoder.name, "rows": rows}
    raise NotApplicable("needs a transformer with its weights at hand, which no encoder is")


def section(result: Result, path: Path) -> Iterator[str]:
    """Write a table."""
    paper = ", ".join(f"{count}: {acc} {ece}" for count, (acc, ece) in LAYERS.items())
    yield (
        f"Diagonal posteriors of {result['encoder']} over its last linear layers, and over parts "
        f"of the data, by laplace-torch (paper tables 18 and 19; accuracy and ECE by layers there: "
        f"{paper}). Fitted among hard negatives, tuned and tested among hits. With 0 pairs the "
        "posterior is the prior. Means of several draws of so many pairs, ± standard error by "
        "drawing pairs and test queries anew; the gain is of the probabilistic over the "
        "deterministic NLL, where less than 0 is better."
    )
    head = ["Layers", "pairs", "Accuracy", "ECE prob.", "ECE det.", "NLL prob. - det."]
    yield markdown(
        [*head, "mean logit variance", "AUROC"],
        [
            [
                str(row["layers"]),
                str(row["pairs"]),
                f"{100 * row['accuracy']:.2f}",
                *(
                    within(row[key], row[f"{key}_se"])
                    for key in ("ece", "ece_deterministic", "nll_gain")
                ),
                f"{row['logit_variance']:.3g}",
                within(row["error_auroc"], row["error_auroc_se"], 100, 1),
            ]
            for row in result["rows"]
        ],
    )


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


def _has_linear_layers(encoder: SentenceTransformerEncoder) -> bool:
    from torch.nn import Linear

    return any(isinstance(module, Linear) for module in encoder.model.modules())
