"""Classification: a logistic head on the embeddings, trained on few examples, as mteb does."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders import Role
from uec_rag.paper.labelled import LabelledTexts
from uec_rag.paper.systems import System

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
