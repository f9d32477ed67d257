"""What systems are measured on: retrieval, reranking, classification, clustering, STS, bitext."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.data import Bitext, Collection, LabelledTexts, ScoredPairs
from benchmarks.paper.metrics import mean_average_precision, mean_ndcg, score_retrieval, var_ece
from benchmarks.paper.systems import System
from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders import Role


class Task(Protocol):
    """Something systems are measured on.

    Attributes
    ----------
    kind : str
        Which table it belongs to.
    metrics : tuple of str
        What `evaluate` returns, the metric that candidates are chosen by first.
    name : str
        Of the data.
    small : bool
        Whether systems with a model of their own are measured on it too.
    """

    kind: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def small(self) -> bool: ...  # noqa: D102

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Every list of texts that is embedded, with its role."""
        ...

    def evaluate(self, system: System) -> dict[str, float]:
        """Measure a system."""
        ...

    def selection(self, system: System) -> float:
        """Measure what candidates are chosen by, quickly."""
        ...


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


def _texts_of(collection: Collection) -> list[tuple[Role, list[str]]]:
    return [
        ("query", list(collection.queries.values())),
        ("passage", list(collection.passages.values())),
    ]


@dataclass(frozen=True)
class Retrieval:
    """nDCG@10, Recall@10, Recall@100 and AUC@10 on a collection.

    Attributes
    ----------
    collection : Collection
    small : bool
    """

    collection: Collection
    small: bool = False
    kind: ClassVar[str] = "retrieval"
    metrics: ClassVar[tuple[str, ...]] = ("ndcg10", "recall10", "recall100", "auc10")

    @property
    def name(self) -> str:
        """Name of the collection."""
        return self.collection.name

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Queries and passages."""
        return _texts_of(self.collection)

    def evaluate(self, system: System) -> dict[str, float]:
        """Search all queries and score the best hits."""
        found = system.search(
            list(self.collection.queries.values()), self.collection.passages, _DEPTH
        )
        scores = asdict(score_retrieval(self.collection, found.ids, found.confidence))
        return {metric: float(scores[metric]) for metric in self.metrics}

    def selection(self, system: System) -> float:
        """nDCG@10."""
        found = system.search(list(self.collection.queries.values()), self.collection.passages, 10)
        return mean_ndcg(self.collection, found.ids)


@dataclass(frozen=True)
class Reranking:
    """Mean average precision over each query's own candidates.

    Attributes
    ----------
    collection : Collection
    candidates : mapping
        Query id -> ids of the passages to order.
    small : bool
    """

    collection: Collection
    candidates: Mapping[str, list[str]]
    small: bool = False
    kind: ClassVar[str] = "reranking"
    metrics: ClassVar[tuple[str, ...]] = ("map",)

    @property
    def name(self) -> str:
        """Name of the collection."""
        return self.collection.name

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Queries and passages."""
        return _texts_of(self.collection)

    def evaluate(self, system: System) -> dict[str, float]:
        """Order the candidates."""
        return {"map": self.selection(system)}

    def selection(self, system: System) -> float:
        """MAP."""
        scores = system.similarities(
            list(self.collection.queries.values()), list(self.collection.passages.values())
        )
        column = {passage: index for index, passage in enumerate(self.collection.passages)}
        ordered = [
            sorted(self.candidates[query], key=lambda passage: -row[column[passage]])
            for query, row in zip(self.collection.queries, scores.tolist(), strict=True)
        ]
        return mean_average_precision(self.collection, ordered)


_EXPERIMENTS = 10
_PER_LABEL = 8


@dataclass(frozen=True)
class Classification:
    """Accuracy, macro F1 and AUROC, means over ten draws of eight training texts a class.

    AUROC is one class against the rest, averaged over the classes.

    Attributes
    ----------
    train, test : LabelledTexts
    small : bool
    seed : int
        Of the draws; all systems see the same.
    """

    train: LabelledTexts
    test: LabelledTexts
    small: bool = False
    seed: int = 42
    kind: ClassVar[str] = "classification"
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "f1", "auroc")

    @property
    def name(self) -> str:
        """Name of the set."""
        return self.test.name

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Training and test texts, as passages."""
        return [("passage", self.train.texts), ("passage", self.test.texts)]

    def evaluate(self, system: System) -> dict[str, float]:
        """Train and test ten heads."""
        return self._mean_scores(system, _EXPERIMENTS)

    def selection(self, system: System) -> float:
        """Accuracy of one head."""
        return self._mean_scores(system, 1)["accuracy"]

    def _mean_scores(self, system: System, experiments: int) -> dict[str, float]:
        train = system.embed(self.train.texts, "passage").mean
        test = system.embed(self.test.texts, "passage").mean
        rng = np.random.default_rng(self.seed)
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
        gold = np.array(self.test.labels)
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


@dataclass(frozen=True)
class Clustering:
    """V-measure, mean over five mini-batch k-means on samples with replacement, as mteb does.

    Attributes
    ----------
    labelled : LabelledTexts
    small : bool
    seed : int
        Of the samples and the k-means; all systems see the same.
    """

    labelled: LabelledTexts
    small: bool = False
    seed: int = 42
    kind: ClassVar[str] = "clustering"
    metrics: ClassVar[tuple[str, ...]] = ("v_measure",)

    @property
    def name(self) -> str:
        """Name of the set."""
        return self.labelled.name

    def texts(self) -> list[tuple[Role, list[str]]]:
        """The texts, as passages."""
        return [("passage", self.labelled.texts)]

    def evaluate(self, system: System) -> dict[str, float]:
        """Cluster five samples."""
        return {"v_measure": self._mean_score(system, _SAMPLES)}

    def selection(self, system: System) -> float:
        """V-measure on one sample."""
        return self._mean_score(system, 1)

    def _mean_score(self, system: System, experiments: int) -> float:
        from sklearn.cluster import MiniBatchKMeans
        from sklearn.metrics import v_measure_score

        embedding = system.embed(self.labelled.texts, "passage").mean
        labels = np.array(self.labelled.labels)
        rng = np.random.default_rng(self.seed)
        scores = []
        for _ in range(experiments):
            rows = rng.integers(0, len(labels), len(labels))
            clusters = MiniBatchKMeans(
                n_clusters=len(np.unique(labels[rows])),
                batch_size=_BATCH,
                n_init=1,
                random_state=self.seed,
            ).fit_predict(embedding[rows])
            scores.append(v_measure_score(labels[rows], clusters))
        return float(np.mean(scores))


@dataclass(frozen=True)
class SemanticSimilarity:
    """Spearman's correlation with the scores people gave, and Var-ECE.

    Attributes
    ----------
    pairs : ScoredPairs
    small : bool
    """

    pairs: ScoredPairs
    small: bool = False
    kind: ClassVar[str] = "sts"
    metrics: ClassVar[tuple[str, ...]] = ("spearman", "var_ece")

    @property
    def name(self) -> str:
        """Name of the set."""
        return self.pairs.name

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Both sides, as passages."""
        return [("passage", self.pairs.first), ("passage", self.pairs.second)]

    def evaluate(self, system: System) -> dict[str, float]:
        """Spearman of the score; Var-ECE of the similarity's mean and variance (paper eq. 31)."""
        mu, sigma2 = system.pair_moments(self.pairs.first, self.pairs.second)
        return {
            "spearman": self.selection(system),
            "var_ece": var_ece(mu, sigma2, self.pairs.scores, bins=min(10, len(mu))),
        }

    def selection(self, system: System) -> float:
        """Spearman; 0 where all scores are alike."""
        from scipy.stats import spearmanr

        scores = system.pair_scores(self.pairs.first, self.pairs.second)
        if np.ptp(scores) == 0:
            return 0.0
        return float(spearmanr(scores, self.pairs.scores).statistic)


@dataclass(frozen=True)
class BitextMining:
    """Weighted F1 of the most similar sentence, as mteb computes it.

    Attributes
    ----------
    bitext : Bitext
    small : bool
    """

    bitext: Bitext
    small: bool = False
    kind: ClassVar[str] = "bitext"
    metrics: ClassVar[tuple[str, ...]] = ("f1",)

    @property
    def name(self) -> str:
        """Name of the set and its language."""
        return self.bitext.name

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Both sides; the one that is looked up is a query."""
        return [("query", self.bitext.first), ("passage", self.bitext.second)]

    def evaluate(self, system: System) -> dict[str, float]:
        """Match the sentences."""
        return {"f1": self.selection(system)}

    def selection(self, system: System) -> float:
        """F1."""
        from sklearn.metrics import f1_score

        scores = system.similarities(self.bitext.first, self.bitext.second)
        gold = np.arange(len(self.bitext.first))
        return float(f1_score(gold, scores.argmax(axis=1), average="weighted", zero_division=0))
