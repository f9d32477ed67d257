"""What is compared: encoders alone, ensembles, rank fusion, each behind one interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import moments, probit
from uec_rag.encoders import Encoder, Role
from uec_rag.ensemble import UEC
from uec_rag.index import Retriever
from uec_rag.retrieval.results import SearchResult


class NotApplicable(TypeError):
    """What is asked of a system is not what it does; not a failure."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """What a system found for n queries.

    Attributes
    ----------
    ids : list of list of str
        Passage ids, best first.
    scores : array, shape (n, k)
        What they are ordered by.
    confidence : array, shape (n,)
        What queries are abstained on by, least first.
    """

    ids: list[list[str]]
    scores: FloatArray
    confidence: FloatArray


class System(ABC):
    """One row of the report.

    Attributes
    ----------
    name, family : str
        What the row, and the group of rows, is called.
    """

    name: str
    family: str

    @abstractmethod
    def similarities(self, queries: Sequence[str], passages: Sequence[str]) -> FloatArray:
        """Score every query against every passage, shape (n, m)."""

    @abstractmethod
    def embed(self, texts: Sequence[str], role: Role) -> Gaussian:
        """Embed texts; `NotApplicable` where a system has no embeddings, as rank fusion."""

    def pair_moments(
        self, first: Sequence[str], second: Sequence[str]
    ) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the similarity of each pair of texts, shape (n,) each."""
        return pair_moments(self.embed(first, "passage"), self.embed(second, "passage"))

    def pair_scores(self, first: Sequence[str], second: Sequence[str]) -> FloatArray:
        """Score each pair of texts, shape (n,); the mean similarity where nothing else is said."""
        return self.pair_moments(first, second)[0]

    def search(self, queries: Sequence[str], passages: Mapping[str, str], k: int) -> Ranking:
        """Rank passages, id -> text, for each query; confident where the top score is high."""
        scores = self.similarities(queries, list(passages.values()))
        return ranking(scores, list(passages), k)


def ranking(scores: FloatArray, ids: Sequence[str], k: int) -> Ranking:
    """Best k columns of each row of a score matrix (n, m), by name."""
    k = min(k, scores.shape[1])
    top = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable")
    top = np.take_along_axis(top, order, axis=1)
    best = np.take_along_axis(scores, top, axis=1)
    return Ranking([[ids[index] for index in row] for row in top], best, best[:, 0])


def pair_moments(first: Gaussian, second: Gaussian) -> tuple[FloatArray, FloatArray]:
    """Moments of the similarity of matching rows (paper eq. 5), shape (n,) each."""
    mu = np.einsum("nd,nd->n", first.mean, second.mean)
    sigma2 = np.einsum("nd,nd->n", first.mean**2 + first.variance, second.variance)
    sigma2 += np.einsum("nd,nd->n", second.mean**2, first.variance)
    return mu, sigma2


class Ensemble(System):
    """A UEC, of one encoder or several, with any of its options.

    Parameters
    ----------
    name, family : str
    uec : UEC
        Fitted.
    calibrated : bool
        Search with the retriever and its confidence; else the top score is the confidence.
    """

    def __init__(self, name: str, family: str, uec: UEC, *, calibrated: bool = False) -> None:
        self.name, self.family, self.uec, self.calibrated = name, family, uec, calibrated

    def embed(self, texts: Sequence[str], role: Role, weigh_as: Role | None = None) -> Gaussian:
        """Embed texts with the prompt of `role` and the coefficients of `weigh_as`.

        Sentences that are compared with each other have a passage's prompt; the first of two is
        weighed as a query, which is what the coefficients are for.
        """
        parts = self.uec.encode(texts, role)
        return self.uec.fitted.combine(parts, self.uec.fitted.coefficients(parts, weigh_as or role))

    def compared(
        self, queries: Sequence[str], passages: Sequence[str]
    ) -> tuple[Gaussian, Gaussian]:
        """Gaussians of queries and passages, the queries weighed as the passages suggest."""
        parts, candidates = self.uec.encode(queries, "query"), self.uec.encode(passages, "passage")
        passage = self.uec.fitted.combine(
            candidates, self.uec.fitted.coefficients(candidates, "passage")
        )
        return self.uec.fitted.combine(parts, self.query_coefficients(parts, candidates)), passage

    def query_coefficients(
        self, parts: Sequence[Gaussian], candidates: Sequence[Gaussian]
    ) -> FloatArray:
        """Coefficients of queries, shape (n, K), from the members' Gaussians.

        Where they are learned from a corpus's evidence, the candidates are that corpus.
        """
        fitted = self.uec.fitted
        if fitted.rule.evidence is None:
            return fitted.coefficients(parts, "query")
        own = [q.mean @ c.mean.T for q, c in zip(parts, candidates, strict=True)]
        best = np.stack([similarities.max(axis=1) for similarities in own], axis=1)
        return fitted.weigh(parts, own, best)

    def similarities(self, queries: Sequence[str], passages: Sequence[str]) -> FloatArray:
        """s_hat of every query and passage."""
        return probit(*moments(*self.compared(queries, passages)), self.uec.fitted.options.beta)

    def pair_moments(
        self, first: Sequence[str], second: Sequence[str]
    ) -> tuple[FloatArray, FloatArray]:
        """Moments of each pair, the first text weighed as a query."""
        return pair_moments(
            self.embed(first, "passage", weigh_as="query"), self.embed(second, "passage")
        )

    def pair_scores(self, first: Sequence[str], second: Sequence[str]) -> FloatArray:
        """s_hat of each pair."""
        return probit(*self.pair_moments(first, second), self.uec.fitted.options.beta)

    def search(self, queries: Sequence[str], passages: Mapping[str, str], k: int) -> Ranking:
        """Rank by s_hat."""
        if not self.calibrated:
            return super().search(queries, passages, k)
        found = self.retrieve(queries, passages, k)
        return Ranking(found.ids, found.scores, found.confidence)

    def retrieve(self, queries: Sequence[str], passages: Mapping[str, str], k: int) -> SearchResult:
        """Search with a `Retriever`, as a user does."""
        retriever = Retriever(self.uec)
        retriever.add(list(passages.values()), ids=list(passages))
        return retriever.search(list(queries), k=k)


class Vectors(System):
    """Deterministic vectors made of some encoders': task arithmetic, for one.

    Parameters
    ----------
    name, family : str
    encoders : sequence of Encoder
    combine : callable(list of (n, d) arrays) -> (n, d) array of unit vectors
    """

    def __init__(
        self,
        name: str,
        family: str,
        encoders: Sequence[Encoder],
        combine: Callable[[list[FloatArray]], FloatArray],
    ) -> None:
        self.name, self.family, self.encoders, self.combine = name, family, encoders, combine

    def embed(self, texts: Sequence[str], role: Role) -> Gaussian:
        """Combine the encoders' vectors; variance 0."""
        mean = self.combine([e.encode(texts, role).embedding for e in self.encoders])
        nothing = np.zeros((len(mean), 1), np.float32), np.zeros((1, mean.shape[1]), np.float32)
        return Gaussian.from_factors(mean, *nothing)

    def similarities(self, queries: Sequence[str], passages: Sequence[str]) -> FloatArray:
        """Cosines."""
        return self.embed(queries, "query").mean @ self.embed(passages, "passage").mean.T


class Probabilistic(System):
    """Gaussians out of any function, compared by s_hat.

    Parameters
    ----------
    name, family : str
    gaussians : callable(texts, role) -> Gaussian
    """

    def __init__(
        self, name: str, family: str, gaussians: Callable[[Sequence[str], Role], Gaussian]
    ) -> None:
        self.name, self.family, self.gaussians = name, family, gaussians

    def embed(self, texts: Sequence[str], role: Role) -> Gaussian:
        """Gaussians of the function."""
        return self.gaussians(texts, role)

    def similarities(self, queries: Sequence[str], passages: Sequence[str]) -> FloatArray:
        """s_hat with beta 1."""
        query, passage = self.embed(queries, "query"), self.embed(passages, "passage")
        return probit(*moments(query, passage))

    def pair_scores(self, first: Sequence[str], second: Sequence[str]) -> FloatArray:
        """s_hat of each pair."""
        return probit(*self.pair_moments(first, second))


class Fused(System):
    """Rank fusion of the members' score matrices; there are no embeddings to speak of.

    Parameters
    ----------
    name, family : str
    members : sequence of System
    fuse : callable(list of (n, m) arrays) -> (n, m) array
    """

    def __init__(
        self,
        name: str,
        family: str,
        members: Sequence[System],
        fuse: Callable[[list[FloatArray]], FloatArray],
    ) -> None:
        self.name, self.family, self.members, self.fuse = name, family, members, fuse

    def embed(self, texts: Sequence[str], role: Role) -> Gaussian:
        """Refuse."""
        raise NotApplicable("rank fusion has no embeddings; it only ranks")

    def similarities(self, queries: Sequence[str], passages: Sequence[str]) -> FloatArray:
        """Fused scores."""
        return self.fuse([member.similarities(queries, passages) for member in self.members])

    def pair_moments(
        self, first: Sequence[str], second: Sequence[str]
    ) -> tuple[FloatArray, FloatArray]:
        """Refuse."""
        raise NotApplicable("rank fusion has no score of a single pair; it only ranks")


@dataclass(frozen=True)
class Entry:
    """A row of the report, and how to get the system behind it when it is needed.

    Attributes
    ----------
    name, family : str
    build : callable
        Makes the system; or several, of which each task takes the one that is best on the very
        data it reports, as the paper tunes its weights.
    costly : bool
        Whether it has to embed all texts with a model of its own: run on small tasks only.
    """

    name: str
    family: str
    build: Callable[[], System | Sequence[System]]
    costly: bool = False


def variation(uec: UEC, encoders: Sequence[int] | None = None, **options: Any) -> UEC:
    """Another UEC with the posteriors of a fitted one: nothing is fitted again.

    Parameters
    ----------
    uec : UEC
        Fitted.
    encoders : sequence of int, optional
        Which of its encoders; all by default.
    **options
        What differs, of `UEC`'s options.
    """
    rows = range(len(uec.encoders)) if encoders is None else encoders
    same = ("space", "structure", "beta")
    kept = {name: getattr(uec.fitted.options, name) for name in same} | {"coefficients": "uniform"}
    other = UEC([uec.encoders[row] for row in rows], **(kept | options))
    if encoders is None and "coefficients" not in options:
        other.fitted = replace(other.fitted, rule=uec.fitted.rule)
    if uec.fitted.posteriors is not None:
        posteriors = tuple(uec.fitted.posteriors[row] for row in rows)
        other.fitted = replace(other.fitted, posteriors=posteriors)
    return other
