"""Every system the paper compares, built from a few encoders and their fitting pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import permutations
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.systems import (
    Ensemble,
    Entry,
    Fused,
    NotApplicable,
    Probabilistic,
    System,
    Vectors,
    variation,
)
from benchmarks.paper.systems.baselines import (
    ALPHAS,
    Fusion,
    Relevance,
    best_fusion,
    best_weights,
    embedding_arithmetic,
    merge,
    shared_similarity,
    simplex_grid,
    task_arithmetic,
    weighted_sum,
)
from benchmarks.paper.systems.grove import Grove, Means
from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders import Encoded, Encoder, Role, load_encoder
from uec_rag.encoders.base import IdentityHead
from uec_rag.ensemble import UEC
from uec_rag.laplace.pairs import check_pairs

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class ProjectionOf(IdentityHead):
    """The same vectors with the identity as their last layer: nothing is encoded again.

    Parameters
    ----------
    ffn : Encoder
        One with ``last_layer="ffn"``; such a model closes with no linear layer of its own.
    """

    name = property(attrgetter("ffn.name"))
    spec = property(attrgetter("ffn.spec"))
    dimension = property(attrgetter("ffn.dimension"))

    def __init__(self, ffn: Encoder) -> None:
        self.ffn = ffn

    @property
    def revision(self) -> str:
        """That of the encoder inside, with the other layer."""
        return f"{self.ffn.revision}, projection"

    def encode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Embed texts."""
        embedding = self.ffn.encode(texts, role).embedding
        return Encoded(embedding, embedding)


INDIVIDUAL, FUSION, MERGING = "Individual", "Rank fusion", "Model merging"
ENSEMBLE, OURS = "Ensemble", "UEC"
_TUNING_QUERIES = 500  # of the fitting queries; enough to choose one weight per encoder
_MERGE_PAIRS = 96  # that alpha of merged weights is tuned on: each is embedded for every alpha


@dataclass(frozen=True, eq=False)
class _Tuning:
    """Fitting queries and passages, and what each encoder makes of them."""

    queries: list[FloatArray]
    passages: list[FloatArray]
    relevance: Relevance

    @property
    def similarities(self) -> list[FloatArray]:
        return [q @ p.T for q, p in zip(self.queries, self.passages, strict=True)]


@dataclass(frozen=True)
class _Recipe:
    """Task arithmetic on vectors, ``A + alpha (B - C)`` (the paper's form of it)."""

    order: tuple[int, ...]
    alpha: float
    names: tuple[str, ...]

    def __call__(self, parts: list[FloatArray]) -> FloatArray:
        a, b, c = (parts[k] for k in self.order)
        return embedding_arithmetic(a, b, c, self.alpha)

    def __str__(self) -> str:
        a, b, c = self.names
        return f"{a} + {self.alpha:g} ({b} - {c})"


class Lineup:
    """Builds the systems on demand, each fitted on the same pairs and only once.

    Parameters
    ----------
    encoders : sequence of Encoder
    pairs : sequence of (query, passage)
        What everything is fitted and tuned on.
    remember : callable(Encoder) -> Encoder
        Puts a cache around a merged model.
    """

    def __init__(
        self,
        encoders: Sequence[Encoder],
        pairs: Sequence[tuple[str, str]],
        remember: Callable[[Encoder], Encoder],
    ) -> None:
        self.encoders = list(encoders)
        self.pairs = list(pairs)
        self.remember = remember
        self.fitted = cache(self._fitted)
        self.paper = cache(self._paper)
        self.inside = cache(self._inside)
        self._tuning = cache(self._tuning_data)
        self._trained_grove = cache(self._train_grove)

    def _fitted(self) -> UEC:
        return UEC(self.encoders).fit(self.pairs)

    def _paper(self) -> UEC:
        self._check_one_space()
        return UEC.paper(self.inside()).fit(self.pairs)

    def _inside(self) -> list[Encoder]:
        """The encoders with the posterior about their last block's output layer, where one is."""
        return [e.ffn if isinstance(e, ProjectionOf) else e for e in self.encoders]

    def _check_one_space(self) -> None:
        dimensions = [encoder.dimension for encoder in self.encoders]
        if len(set(dimensions)) > 1:
            raise NotApplicable(f"a shared space needs encoders of one dimension, got {dimensions}")

    def entries(self) -> list[Entry]:
        """All systems, in the order of the paper's tables."""
        members = [
            Entry(encoder.name, INDIVIDUAL, partial(self.member, k))
            for k, encoder in enumerate(self.encoders)
        ]
        entries = [
            *members,
            Entry("GroVE", INDIVIDUAL, partial(self.grove, "process")),
            Entry("GroVE, frozen means", INDIVIDUAL, partial(self.grove, "frozen")),
            Entry("Borda", FUSION, lambda: self.fused("Borda", Fusion("Borda", depth=100))),
            Entry("RRF", FUSION, lambda: self.fused("RRF", Fusion("RRF", depth=100))),
            Entry("best fusion", FUSION, self.best_fused),
            Entry("merged, uniform", MERGING, self.merged, costly=True),
            Entry("merged, weighted", MERGING, self.merged_by_weights, costly=True),
            Entry("merged, TA", MERGING, self.merged_by_arithmetic, costly=True),
            Entry("TA, vectors", MERGING, self.task_arithmetic),
            Entry("TA, vectors (test)", MERGING, self.task_arithmetic_on_test),
            Entry("uniform", ENSEMBLE, lambda: self.shared("uniform", "uniform")),
            Entry("weighted (fit)", ENSEMBLE, self.weighted),
            Entry("weighted (test)", ENSEMBLE, self.weighted_on_test),
            Entry("direct sum, uniform", ENSEMBLE, lambda: self.direct("uniform")),
            Entry("direct sum, weighted (fit)", ENSEMBLE, self.direct_weighted),
            Entry("UEC.paper", OURS, lambda: Ensemble("UEC.paper", OURS, self.paper())),
            Entry("UEC", OURS, lambda: Ensemble("UEC", OURS, self.fitted(), calibrated=True)),
        ]
        # A task asks for the system anew; what is fitted or loaded once serves all of them.
        return [replace(entry, build=cache(entry.build)) for entry in entries]

    def member(self, k: int) -> System:
        """One encoder alone: cosine, and the variance of its own posterior."""
        alone = variation(self.fitted(), encoders=[k], beta=0.0)
        return Ensemble(self.encoders[k].name, INDIVIDUAL, alone)

    def grove(self, means: Means) -> System:
        """GroVE on the encoder that is best on the fitting queries."""
        system = copy(self._trained_grove())
        system.means = means
        return Probabilistic("GroVE", INDIVIDUAL, system.embed)

    def _train_grove(self) -> Grove:
        data = self._tuning()
        quality = [float(data.relevance.ndcg(s).mean()) for s in data.similarities]
        return Grove(self.encoders[int(np.argmax(quality))]).fit(self.pairs)

    def members(self) -> list[System]:
        """All encoders, each alone."""
        return [self.member(k) for k in range(len(self.encoders))]

    def shared(self, name: str, coefficients: str | Sequence[float]) -> System:
        """Weighted mean of the unit embeddings, the paper's deterministic ensemble."""
        self._check_one_space()
        uec = variation(self.fitted(), space="shared", coefficients=coefficients, beta=0.0)
        return Ensemble(name, ENSEMBLE, uec)

    def direct(self, coefficients: str | Sequence[float]) -> System:
        """Weighted direct sum of the encoders' spaces, without uncertainty."""
        uec = variation(self.fitted(), coefficients=coefficients, beta=0.0)
        return Ensemble("direct sum", ENSEMBLE, uec)

    def weighted(self) -> System:
        """Shared-space weights that are best on the fitting queries."""
        weights = self._shared_weights()
        return self.shared(_named(weights), weights.tolist())

    def _shared_weights(self) -> NDArray[np.float64]:
        self._check_one_space()
        data = self._tuning()
        return best_weights(
            lambda w: float(
                data.relevance.ndcg(shared_similarity(data.queries, data.passages, w)).mean()
            ),
            len(self.encoders),
        )

    def weighted_on_test(self) -> list[System]:
        """Shared-space ensembles over the paper's grid: every encoder counts at least a tenth."""
        grid = simplex_grid(len(self.encoders))
        return [
            self.shared(_named(weights), weights.tolist()) for weights in grid[grid.min(axis=1) > 0]
        ]

    def direct_weighted(self) -> System:
        """Direct-sum weights that are best on the fitting queries."""
        data = self._tuning()
        slopes = self.fitted().fitted.weights
        scaled = [s * w for s, w in zip(data.similarities, slopes, strict=True)]
        weights = best_weights(
            lambda w: float(data.relevance.ndcg(weighted_sum(scaled, w)).mean()), len(scaled)
        )
        return self.direct(weights.tolist())

    def fused(self, name: str, fusion: Fusion) -> System:
        """Rank fusion of the members."""
        return Fused(name, FUSION, self.members(), fusion)

    def best_fused(self) -> System:
        """The fusion rule that is best on the fitting queries."""
        data = self._tuning()
        fusion = best_fusion(
            data.similarities, lambda fused: float(data.relevance.ndcg(fused).mean())
        )
        return self.fused(" ".join(filter(None, (fusion.rule, fusion.normalisation))), fusion)

    def merged(self) -> System:
        """One model whose weights are the mean of the members'."""
        return self._of_model("merged, uniform", merge(self._models()))

    def merged_by_weights(self) -> System:
        """One model whose weights are a mean weighted as the shared-space ensemble."""
        weights = self._shared_weights().tolist()
        return self._of_model("merged, weighted", merge(self._models(), weights))

    def merged_by_arithmetic(self) -> System:
        """Task arithmetic on weights; the first member stands in for the common base."""
        first, *others = self._models()
        order = np.random.default_rng(0).permutation(len(self.pairs))[:_MERGE_PAIRS]
        pairs = check_pairs([self.pairs[index] for index in order])
        relevance = Relevance.of([dict.fromkeys(p.tolist(), 1.0) for p in pairs.positives])

        def score(alpha: float) -> float:
            encoder = self.remember(load_encoder(task_arithmetic(first, others, alpha)))
            queries = encoder.encode(pairs.queries, "query").embedding
            passages = encoder.encode(pairs.passages, "passage").embedding
            return float(relevance.ndcg(queries @ passages.T).mean())

        # Of equally good ones the largest, which owes the most to the others.
        alpha = max(sorted(ALPHAS, reverse=True), key=score)
        return self._of_model(f"merged, alpha {alpha:g}", task_arithmetic(first, others, alpha))

    def _models(self) -> list[SentenceTransformer]:
        from sentence_transformers import SentenceTransformer

        specs = [encoder.spec for encoder in self.encoders]
        for encoder, spec in zip(self.encoders, specs, strict=True):
            if spec is None or spec.startswith("pypi:"):
                raise NotApplicable(
                    f"merging needs models with their weights at hand; {encoder.name} is not"
                )
        return [SentenceTransformer(spec, device="cpu") for spec in specs if spec]

    def _of_model(self, name: str, model: SentenceTransformer) -> System:
        encoder = self.remember(load_encoder(model))
        return Vectors(name, MERGING, [encoder], lambda parts: parts[0])

    def task_arithmetic(self) -> System:
        """A + alpha (B - C) on vectors, order and alpha tuned on the fitting queries."""
        data = self._tuning()

        def score(recipe: _Recipe) -> float:
            cosine = recipe(data.queries) @ recipe(data.passages).T
            return float(data.relevance.ndcg(cosine).mean())

        return self._arithmetic(max(self._recipes(), key=score))

    def task_arithmetic_on_test(self) -> list[System]:
        """A + alpha (B - C) on vectors, every order and alpha of the paper's grid."""
        return [self._arithmetic(recipe) for recipe in self._recipes()]

    def _arithmetic(self, recipe: _Recipe) -> System:
        return Vectors(str(recipe), MERGING, self.encoders, recipe)

    def _recipes(self) -> list[_Recipe]:
        self._check_one_space()
        if len(self.encoders) < 3:
            raise NotApplicable(
                f"task arithmetic combines three encoders, A + alpha (B - C); got "
                f"{len(self.encoders)}"
            )
        names = [encoder.name for encoder in self.encoders]
        return [
            _Recipe(order, alpha, tuple(names[k] for k in order))
            for order in permutations(range(len(names)), 3)
            for alpha in ALPHAS
        ]

    def _tuning_data(self) -> _Tuning:
        pairs = check_pairs(self.pairs)
        order = np.random.default_rng(0).permutation(len(pairs.queries))
        rows: NDArray[np.int64] = np.sort(order[:_TUNING_QUERIES])
        gains = [dict.fromkeys(pairs.positives[row].tolist(), 1.0) for row in rows]
        return _Tuning(
            [e.encode(pairs.queries, "query").embedding[rows] for e in self.encoders],
            [e.encode(pairs.passages, "passage").embedding for e in self.encoders],
            Relevance.of(gains),
        )


def _named(weights: NDArray[np.float64]) -> str:
    return "weights " + " : ".join(f"{weight:.1f}" for weight in weights)
