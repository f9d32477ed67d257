"""What systems are measured on: retrieval, reranking, classification, clustering, STS, bitext."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.data import Collection, LabelledTexts
from benchmarks.paper.metrics import mean_average_precision, mean_ndcg, score_retrieval, var_ece
from benchmarks.paper.systems import System
from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders import Role


@dataclass(frozen=True)
class Task(ABC):
    """Something systems are measured on.

    Attributes
    ----------
    data : Collection, LabelledTexts, ScoredPairs or Bitext
    small : bool
        Whether systems with a model of their own are measured on it too.
    kind : str
        Which table it belongs to.
    metrics : tuple of str
        What `evaluate` returns, the metric that candidates are chosen by first.
    """

    data: Any
    small: bool = False
    kind: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]

    @property
    def name(self) -> str:
        """Name of the data."""
        return str(self.data.name)

    @abstractmethod
    def texts(self) -> list[tuple[Role, list[str]]]:
        """Every list of texts that is embedded, with its role."""

    def evaluate(self, system: System) -> dict[str, float]:
        """Measure a system."""
        return {self.metrics[0]: self.selection(system)}

    @abstractmethod
    def selection(self, system: System) -> float:
        """Measure what candidates are chosen by, quickly."""


def evaluate(task: Task, built: System | Sequence[System]) -> tuple[dict[str, float], str]:
    """Measure a system, or the candidate that is best on the task itself.

    Returns
    -------
    metrics : dict
    chosen : str
        Name of the candidate; empty where there was nothing to choose.
    """
    if isinstance(built, System):
        return task.evaluate(built), ""
    best = max(built, key=task.selection)
    return task.evaluate(best), best.name


_DEPTH = 100


_SEED = 42  # of draws, samples and k-means: all systems see the same


class _OfCollection(Task):
    """A task whose data is a collection."""

    data: Collection

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Queries and passages."""
        return [
            ("query", list(self.data.queries.values())),
            ("passage", list(self.data.passages.values())),
        ]


class Retrieval(_OfCollection):
    """nDCG@10, Recall@10, Recall@100 and AUC@10 on a collection."""

    kind: ClassVar[str] = "retrieval"
    metrics: ClassVar[tuple[str, ...]] = ("ndcg10", "recall10", "recall100", "auc10")

    def evaluate(self, system: System) -> dict[str, float]:
        """Search all queries and score the best hits."""
        found = system.search(list(self.data.queries.values()), self.data.passages, _DEPTH)
        return score_retrieval(self.data, found.ids, found.confidence)

    def selection(self, system: System) -> float:
        """nDCG@10."""
        found = system.search(list(self.data.queries.values()), self.data.passages, 10)
        return mean_ndcg(self.data, found.ids)


@dataclass(frozen=True)
class Reranking(_OfCollection):
    """Mean average precision over each query's own candidates.

    `candidates`: the ids of the passages to order, by query id.
    """

    candidates: Mapping[str, list[str]] = field(kw_only=True)
    kind: ClassVar[str] = "reranking"
    metrics: ClassVar[tuple[str, ...]] = ("map",)

    def selection(self, system: System) -> float:
        """MAP."""
        scores = system.similarities(
            list(self.data.queries.values()), list(self.data.passages.values())
        )
        column = {passage: index for index, passage in enumerate(self.data.passages)}
        ordered = [
            sorted(self.candidates[query], key=lambda passage: -row[column[passage]])
            for query, row in zip(self.data.queries, scores.tolist(), strict=True)
        ]
        return mean_average_precision(self.data, ordered)


_EXPERIMENTS = 10
_PER_LABEL = 8


@dataclass(frozen=True)
class Classification(Task):
    """Accuracy, macro F1 and AUROC, means over ten draws of eight training texts a class.

    AUROC is one class against the rest, averaged over the classes. `data` is what is tested on,
    `train` the pool that training texts are drawn from.
    """

    train: LabelledTexts = field(kw_only=True)
    kind: ClassVar[str] = "classification"
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "f1", "auroc")

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Training and test texts, as passages."""
        return [("passage", self.train.texts), ("passage", self.data.texts)]

    def evaluate(self, system: System) -> dict[str, float]:
        """Train and test ten heads."""
        return self._mean_scores(system, _EXPERIMENTS)

    def selection(self, system: System) -> float:
        """Accuracy of one head."""
        return self._mean_scores(system, 1)["accuracy"]

    def _mean_scores(self, system: System, experiments: int) -> dict[str, float]:
        train = system.embed(self.train.texts, "passage").mean
        test = system.embed(self.data.texts, "passage").mean
        rng = np.random.default_rng(_SEED)
        scores = [self._one_head(train, test, self._draw(rng)) for _ in range(experiments)]
        return {metric: float(np.mean([s[metric] for s in scores])) for metric in self.metrics}

    def _draw(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Indices of eight random training texts of every class."""
        labels = np.array(self.train.labels)
        return np.concatenate(
            [
                rng.permutation(np.flatnonzero(labels == label))[:_PER_LABEL]
                for label in np.unique(labels)
            ]
        )

    def _one_head(
        self, train: FloatArray, test: FloatArray, rows: NDArray[np.int64]
    ) -> dict[str, float]:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

        labels = np.array(self.train.labels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # 100 steps are the protocol's
            head = LogisticRegression(max_iter=100).fit(train[rows], labels[rows])
        gold = np.array(self.data.labels)
        predicted, probability = head.predict(test), head.predict_proba(test)
        present = np.isin(head.classes_, gold) & ~np.all(gold[:, None] == head.classes_, axis=0)
        areas = [
            roc_auc_score(gold == label, probability[:, column])
            for column, label in enumerate(head.classes_)
            if present[column]
        ]
        return {
            "accuracy": float(accuracy_score(gold, predicted)),
            "f1": float(f1_score(gold, predicted, average="macro")),
            "auroc": float(np.mean(areas)),
        }


_SAMPLES = 5
_BATCH = 512


class Clustering(Task):
    """V-measure, mean over five mini-batch k-means on samples with replacement, as mteb does."""

    kind: ClassVar[str] = "clustering"
    metrics: ClassVar[tuple[str, ...]] = ("v_measure",)

    def texts(self) -> list[tuple[Role, list[str]]]:
        """The texts, as passages."""
        return [("passage", self.data.texts)]

    def evaluate(self, system: System) -> dict[str, float]:
        """Cluster five samples."""
        return {"v_measure": self._mean_score(system, _SAMPLES)}

    def selection(self, system: System) -> float:
        """V-measure on one sample."""
        return self._mean_score(system, 1)

    def _mean_score(self, system: System, experiments: int) -> float:
        from sklearn.cluster import MiniBatchKMeans
        from sklearn.metrics import v_measure_score

        embedding = system.embed(self.data.texts, "passage").mean
        labels = np.array(self.data.labels)
        rng = np.random.default_rng(_SEED)
        scores = []
        for _ in range(experiments):
            rows = rng.integers(0, len(labels), len(labels))
            clusters = MiniBatchKMeans(
                n_clusters=len(np.unique(labels[rows])),
                batch_size=_BATCH,
                n_init=1,
                random_state=_SEED,
            ).fit_predict(embedding[rows])
            scores.append(v_measure_score(labels[rows], clusters))
        return float(np.mean(scores))


class SemanticSimilarity(Task):
    """Spearman's correlation with the scores people gave, and Var-ECE."""

    kind: ClassVar[str] = "sts"
    metrics: ClassVar[tuple[str, ...]] = ("spearman", "var_ece")

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Both sides, as passages."""
        return [("passage", self.data.first), ("passage", self.data.second)]

    def evaluate(self, system: System) -> dict[str, float]:
        """Spearman of the score; Var-ECE of the similarity's mean and variance (paper eq. 31)."""
        mu, sigma2 = system.pair_moments(self.data.first, self.data.second)
        return {
            "spearman": self.selection(system),
            "var_ece": var_ece(mu, sigma2, self.data.scores, bins=min(10, len(mu))),
        }

    def selection(self, system: System) -> float:
        """Spearman; 0 where all scores are alike."""
        from scipy.stats import spearmanr

        scores = system.pair_scores(self.data.first, self.data.second)
        if np.ptp(scores) == 0:
            return 0.0
        return float(spearmanr(scores, self.data.scores).statistic)


class BitextMining(Task):
    """Weighted F1 of the most similar sentence, as mteb computes it."""

    kind: ClassVar[str] = "bitext"
    metrics: ClassVar[tuple[str, ...]] = ("f1",)

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Both sides; the one that is looked up is a query."""
        return [("query", self.data.first), ("passage", self.data.second)]

    def selection(self, system: System) -> float:
        """F1."""
        from sklearn.metrics import f1_score

        scores = system.similarities(self.data.first, self.data.second)
        gold = np.arange(len(self.data.first))
        return float(f1_score(gold, scores.argmax(axis=1), average="weighted", zero_division=0))
