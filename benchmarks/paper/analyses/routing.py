"""Whether coefficients find the member that knows a query's language.

The paper fits each member on the languages it is good at, and English. Here every setting is tried:
what posteriors are fitted on, their structure and the layer they are about; and beside the paper's
rule the traces in standard deviations from what each member is used to, and UEC's evidence; and
the paper's rule in one space, as `UEC.paper`, where zeros fill up the shorter vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper import plots
from benchmarks.paper.analyses.base import (
    Result,
    encode_pairs,
    fitted_posterior,
    gaussians,
    image,
    mean_within,
    searched,
    standardise_log_trace,
    subset,
    within,
)
from benchmarks.paper.data import Collection
from benchmarks.paper.plan import Group, Pair
from benchmarks.paper.results import Json, markdown
from benchmarks.paper.systems import NotApplicable
from benchmarks.paper.systems.baselines import Relevance
from benchmarks.paper.systems.lineup import ProjectionOf
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import moments, probit, softmax
from uec_rag.encoders import Encoder
from uec_rag.ensemble import UEC
from uec_rag.ensemble.convolution import Rule, convolve_shared
from uec_rag.laplace.pairs import check_pairs
from uec_rag.laplace.posterior import Structure

_SEEDS = 3
_KNOWS = 0.5  # nDCG@10 on a language's fitting pairs from which a member knows it
FITS = ("own", "English + own", "union")
SHARED = {"shared_uniform": Rule("uniform"), "shared_trace": Rule("trace")}
RULES = ("uniform", "trace", "z", "evidence", *SHARED)
_VARYING = ("trace", "z", "evidence", "shared_trace")
_BETA = 0.01  # of `UEC.paper`

Given = Mapping[str, list[Pair]]


@dataclass(frozen=True)
class Setting:
    """How posteriors are fitted.

    Attributes
    ----------
    fitted_on : str
        One of `FITS`.
    structure : {"diag", "kron"}
    layer : str
        "ffn" or "projection".
    """

    fitted_on: str
    structure: Structure
    layer: str


@dataclass(frozen=True, eq=False)
class _Asked:
    """A collection's queries, each member's cosines to its passages, and what answers them."""

    collection: Collection
    cosines: list[FloatArray]
    relevance: Relevance


def run(groups: Sequence[Group]) -> Json:
    """Try every setting on the group of language-specialised members."""
    group = subset(groups)
    if not group.plan.languages or len(group.lineup.encoders) < 2:
        raise NotApplicable("needs several language-specialised members and their languages")
    inside = group.lineup.inside()
    owners = owners_of(inside, group.plan.languages)
    if len(set(owners.values())) < 2:
        raise NotApplicable("needs members that know different languages")
    asked = [_ask(inside, collection) for collection in searched(group)]
    kinds = product(FITS, ("diag", "kron"), ("projection", "ffn"))
    return {
        "encoders": [encoder.name for encoder in inside],
        "owners": {language: inside[k].name for language, k in owners.items()},
        "collections": [own.collection.name for own in asked],
        "seeds": _SEEDS,
        "alone": [
            [float(own.relevance.ndcg(cosine).mean()) for cosine in own.cosines] for own in asked
        ],
        "settings": [
            _try(Setting(*kind), inside, group.plan.languages, owners, asked) for kind in kinds
        ],
    }


def section(result: Result, path: Path) -> Iterator[str]:
    """Write a table of settings, one of mean coefficients, and a heatmap."""
    collections, encoders = result["collections"], result["encoders"]
    owners = ", ".join(f"{language}: {name}" for language, name in result["owners"].items())
    yield (
        f"Members {', '.join(encoders)}; who knows a language, by the fitting pairs: {owners}. "
        'Direct sum by slopes, queries weighed by each rule: "trace" is the paper\'s, T = 1.5 on '
        'traces that nothing scales; "z" is the softmax of minus the log trace in standard '
        'deviations; "evidence" is UEC\'s. "shared" is UEC.paper in one space, shorter '
        "vectors filled up with zeros. AUROC: how well the difference of two members' log "
        "traces in standard deviations tells whose language a query is in; below 50 it points the "
        f"wrong way. nDCG@10, means of {result['seeds']} fits, ± standard error over fits and "
        "queries."
    )
    yield markdown(
        ["Alone", *collections],
        [
            [name, *(f"{100 * row[k]:.1f}" for row in result["alone"])]
            for k, name in enumerate(encoders)
        ],
    )
    yield markdown(
        ["Fitted on", "posterior", "layer", "AUROC", "rule", *collections],
        [
            [
                row["fitted_on"],
                row["structure"],
                row["layer"],
                within(row["auroc"], row["auroc_se"], 100, 1),
                rule,
                *(within(mean, error, 100, 1) for mean, error in row["ndcg10"][rule]),
            ]
            for row in result["settings"]
            for rule in RULES
        ],
    )
    yield "Mean coefficients over each collection's queries (paper figure 4 has this of its rule):"
    yield markdown(
        ["Fitted on", "posterior", "layer", "rule", *collections],
        [
            [
                *(row[key] for key in ("fitted_on", "structure", "layer")),
                rule,
                *(" / ".join(f"{value:.2f}" for value in pi) for pi in row["coefficients"][rule]),
            ]
            for row in result["settings"]
            for rule in _VARYING
        ],
    )
    for rule in _VARYING:
        rows = {
            f"{row['fitted_on']}, {row['structure']}, {row['layer']}: {name}": pi
            for row in result["settings"]
            for name, pi in zip(collections, row["coefficients"][rule], strict=True)
        }
        own = path.with_name(f"{path.stem}_{rule}.png")
        plots.heatmap(own, list(rows.values()), list(rows), encoders)
        yield image(f"mean coefficients by {rule}", own)


def owners_of(encoders: Sequence[Encoder], languages: Given) -> dict[str, int]:
    """Which member knows each language best, where one does.

    Parameters
    ----------
    encoders : sequence of Encoder
    languages : mapping
        Language -> its pairs of query and passage.

    Returns
    -------
    dict
        Language -> place of the member; languages that none knows are left out.
    """
    owners = {}
    for language, pairs in languages.items():
        checked = check_pairs(pairs)
        relevance = Relevance.of([dict.fromkeys(p.tolist(), 1.0) for p in checked.positives])
        both = [encode_pairs(encoder, checked) for encoder in encoders]
        quality = [float(relevance.ndcg(q.embedding @ c.embedding.T).mean()) for q, c in both]
        if max(quality) >= _KNOWS:
            owners[language] = int(np.argmax(quality))
    return owners


def given_to(
    member: int, fitted_on: str, languages: Given, owners: Mapping[str, int]
) -> list[Pair]:
    """Pairs that a member's posterior is fitted on."""
    own = [language for language, k in owners.items() if k == member]
    if fitted_on == "English + own":
        own = list(dict.fromkeys([next(iter(languages)), *own]))
    chosen = own if own and fitted_on != "union" else list(languages)
    return [pair for language in chosen for pair in languages[language]]


def _ask(encoders: Sequence[Encoder], collection: Collection) -> _Asked:
    queries, texts = list(collection.queries.values()), list(collection.passages.values())
    cosines = [
        e.encode(queries, "query").embedding @ e.encode(texts, "passage").embedding.T
        for e in encoders
    ]
    return _Asked(collection, cosines, Relevance.of_collection(collection))


def _try(
    setting: Setting,
    inside: Sequence[Encoder],
    languages: Given,
    owners: Mapping[str, int],
    asked: Sequence[_Asked],
) -> Json:
    encoders = inside if setting.layer == "ffn" else [ProjectionOf(e) for e in inside]
    runs = [
        _fit_and_ask(setting, encoders, languages, owners, asked, seed) for seed in range(_SEEDS)
    ]
    auroc = [one.auroc for one in runs]
    row: Json = asdict(setting) | {
        "auroc": float(np.mean(auroc)),
        "auroc_se": float(np.std(auroc, ddof=1) / np.sqrt(len(auroc))),
    }
    row["ndcg10"] = {
        rule: [
            mean_within(np.stack([one.ndcg[rule][i] for one in runs])) for i in range(len(asked))
        ]
        for rule in RULES
    }
    row["coefficients"] = {
        rule: np.mean([one.coefficients[rule] for one in runs], axis=0).tolist() for rule in RULES
    }
    return row


@dataclass(frozen=True, eq=False)
class _Run:
    """One fit: nDCG@10 of each query and mean coefficients by rule and collection; AUROC."""

    ndcg: dict[str, list[NDArray[np.float64]]]
    coefficients: dict[str, list[NDArray[np.float64]]]
    auroc: float


def _fit_and_ask(
    setting: Setting,
    encoders: Sequence[Encoder],
    languages: Given,
    owners: Mapping[str, int],
    asked: Sequence[_Asked],
    seed: int,
) -> _Run:
    given = [given_to(k, setting.fitted_on, languages, owners) for k in range(len(encoders))]
    uec = UEC(encoders, structure=setting.structure, seed=seed)
    fitted = uec.fit(dict(zip(uec.names, given, strict=True))).fitted
    unscaled = {"structure": setting.structure, "negatives": "random", "scaled": False}
    raw = [
        fitted_posterior(e, own, **unscaled, seed=seed)
        for e, own in zip(encoders, given, strict=True)
    ]
    ndcg: dict[str, list[NDArray[np.float64]]] = {rule: [] for rule in RULES}
    coefficients: dict[str, list[NDArray[np.float64]]] = {rule: [] for rule in RULES}
    standard = {}
    for own in asked:
        texts = list(own.collection.queries.values())
        parts = uec.encode(texts, "query")
        plain = gaussians(encoders, raw, texts, "query")
        pairs = zip(fitted.posteriors or (), parts, strict=True)
        z = np.stack([standardise_log_trace(posterior, part) for posterior, part in pairs], axis=1)
        standard[own.collection.name] = z
        best = np.stack([cosine.max(axis=1) for cosine in own.cosines], axis=1)
        weighed = {
            "uniform": Rule("uniform")(plain),
            "trace": Rule("trace")(plain),
            "z": softmax(-z),
            "evidence": fitted.weigh(parts, own.cosines, best),
        }
        for rule, pi in weighed.items():
            blocks = zip(pi.T, fitted.weights, own.cosines, strict=True)
            mu = np.sum([(p * w)[:, None] * cosine for p, w, cosine in blocks], axis=0)
            ndcg[rule].append(own.relevance.ndcg(mu))
            coefficients[rule].append(pi.mean(axis=0).astype(np.float64))
        passages = gaussians(encoders, raw, [*own.collection.passages.values()], "passage")
        sides = _in_one_space(plain), _in_one_space(passages)
        for rule, weigh in SHARED.items():
            query, candidates = (convolve_shared(side, weigh(side)) for side in sides)
            scores = probit(*moments(query, candidates), _BETA)
            ndcg[rule].append(own.relevance.ndcg(scores))
            coefficients[rule].append(weigh(sides[0]).mean(axis=0).astype(np.float64))
    return _Run(ndcg, coefficients, routing_auroc(standard, owners))


def routing_auroc(standard: Mapping[str, FloatArray], owners: Mapping[str, int]) -> float:
    """How well a difference of two members' traces tells whose language a query is in.

    Parameters
    ----------
    standard : mapping
        Language -> traces of its queries in standard deviations, (n, K).
    owners : mapping
        Language -> the member that knows it.

    Returns
    -------
    float
        Mean over pairs of languages of different owners; .5 is chance, below it points the wrong
        way.
    """
    from sklearn.metrics import roc_auc_score

    found = []
    for first, i in owners.items():
        for second, j in owners.items():
            if i < j:
                # In the second's language the first member should be the less certain one.
                here, there = (z[:, i] - z[:, j] for z in (standard[first], standard[second]))
                labels = np.repeat([0, 1], [len(here), len(there)])
                found.append(roc_auc_score(labels, np.concatenate([here, there])))
    return float(np.mean(found))


def _in_one_space(parts: Sequence[Gaussian]) -> list[Gaussian]:
    """Fill Gaussians up with zeros to the largest dimension."""
    width = max(part.dimension for part in parts)

    def fill(values: FloatArray) -> FloatArray:
        return np.pad(values, ((0, 0), (0, width - values.shape[1])))

    return [Gaussian(fill(part.mean), fill(part.variance)) for part in parts]
