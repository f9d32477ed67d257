"""Learn how much earlier turns count in a question, and judge each set by the others.

    python -m benchmarks.quality.view_weights DATA --markdown

Minimises the listwise negative log likelihood of the relevant passages under `UEC()` over the two
weights of `uec_rag.ensemble.views.ViewWeights`, plus a ridge. It learns from turns of conversations
and from questions of ordinary collections that are put behind one to four questions about something
else, or (of XQuAD, whose passages come five to an article) about the other passages of the article.
Each set counts the same whatever its size, turns that stand alone as much as turns that do not, and
a made-up conversation half. Prints nDCG@10 of each set with weights that were learned without its
collection, and the weights that all of them teach. DATA as in `benchmarks.quality.conversation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from benchmarks.paper.data import Collection, load_collection
from benchmarks.quality.conversation import (
    SETS,
    Conversations,
    Index,
    Turn,
    Views,
    load_conversations,
    ndcg,
    of_collection,
)
from benchmarks.quality.hybrid import shipped
from benchmarks.quality.options import CACHE, Cache, Data, Markdown
from benchmarks.tables import print_table
from uec_rag.base.gaussian import FloatArray
from uec_rag.ensemble.views import ViewWeights

_GRID = np.linspace(0, 1, 11, dtype=np.float32)
_MADE_UP = 0.5  # what a made-up conversation counts
_FEW = 60  # turns of a kind; each of fewer counts no more than that
_PENALTY = 0.01
_QUESTIONS, _MOST_BEFORE = 200, 4
_OF_ARTICLE = 5  # consecutive passages of XQuAD


def put_behind(collection: Collection, *, same: bool) -> Conversations:
    """Questions behind others, about one other subject or about the same article."""
    rng = np.random.default_rng(7)
    names, place = list(collection.queries), {p: i for i, p in enumerate(collection.passages)}
    passage = np.array([place[next(iter(collection.relevant[name]))] for name in names])
    of_articles = collection.name.startswith("xquad")
    subject = passage // _OF_ARTICLE if of_articles else passage
    turns = {}
    for row in rng.permutation(len(names))[:_QUESTIONS]:
        count = int(rng.integers(1, _MOST_BEFORE + 1))
        others = np.flatnonzero(subject != subject[row])
        if same:
            others = np.flatnonzero((subject == subject[row]) & (passage != passage[row]))
        else:
            of_one = np.flatnonzero(subject == subject[rng.choice(others)])
            others = of_one if len(of_one) >= count else others
        if not len(others):
            continue
        before = rng.choice(others, min(count, len(others)), replace=False)
        rng.random()
        said = [collection.queries[names[i]] for i in before]
        turns[names[row]] = Turn(collection.queries[names[row]], said, "", standalone=True)
    return of_collection(collection, turns)


@dataclass(frozen=True, eq=False)
class Lesson:
    """What every share of the view with the turns before would do to n turns of a set.

    Attributes
    ----------
    loss, ndcg : array, shape (n, 11)
        Negative log likelihood of the relevant passages, and nDCG@10, at shares of `_GRID`.
    weight : array, shape (n,)
        What a turn counts.
    """

    source: str
    name: str
    kinds: dict[str, NDArray[np.bool_]]
    views: Views
    loss: FloatArray
    ndcg: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, source: str, label: str, index: Index, some: Conversations) -> Lesson:
        """Search with every share."""
        views = Views.of(index, some.turns)
        losses, scores = [], []
        for share in _GRID:
            logits = views.logits(np.full(len(some.turns), share))
            right = np.where(some.gains > 0, logits, -np.inf)
            losses.append(logsumexp(logits, axis=1) - logsumexp(right, axis=1))
            scores.append(ndcg(logits, some.gains))
        weight = np.zeros(len(some.turns), dtype=np.float32)
        for rows in some.kinds.values():
            weight[rows] = (_MADE_UP if label else 1) / max(rows.sum(), _FEW)
        name = f"{source}{label}"
        return cls(
            source, name, some.kinds, views, np.stack(losses, 1), np.stack(scores, 1), weight
        )

    def at(self, table: FloatArray, weights: ViewWeights) -> FloatArray:
        """A table's numbers at the shares that weights give, between those of the grid."""
        place = self.views.shares(weights) * (len(_GRID) - 1)
        low = np.minimum(place.astype(int), len(_GRID) - 2)
        part = place - low
        rows = np.arange(len(table))
        between: FloatArray = (1 - part) * table[rows, low] + part * table[rows, low + 1]
        return between


def learn(lessons: Sequence[Lesson]) -> ViewWeights:
    """The weights under which the relevant passages are most likely."""

    def loss(values: NDArray[np.float64]) -> float:
        weights = ViewWeights(*values.tolist())
        total = sum(float(of.weight @ of.at(of.loss, weights)) for of in lessons)
        return 0.2 * total + _PENALTY * float(values[0] ** 2)

    best = minimize(loss, np.array([-1.0, 0.5]), method="Nelder-Mead")
    return ViewWeights(*(round(float(value), 2) for value in best.x))


def main(
    data: Data,
    sets: Annotated[str, typer.Option(help="Conversations, comma-separated.")] = SETS,
    behind: Annotated[
        str, typer.Option(help="Collections whose questions are put behind others.")
    ] = "xquad_en,belebele_en",
    cache: Cache = CACHE,
    markdown: Markdown = False,
) -> None:
    """Print the table and the weights."""
    uec = shipped(cache)
    lessons = []
    for name in sets.split(","):
        some = load_conversations(data / name)
        lessons.append(Lesson.of(name, "", Index(uec, some.passages), some))
    for name in behind.split(","):
        collection = load_collection(data / name)
        index = Index(uec, list(collection.passages.values()))
        for same in (False, True) if name.startswith("xquad") else (False,):
            label = ", same article" if same else ", other subject"
            lessons.append(Lesson.of(name, label, index, put_behind(collection, same=same)))
    rows = []
    for judged in lessons:
        weights = learn([one for one in lessons if one.source != judged.source])
        found = judged.at(judged.ndcg, weights)
        shares = judged.views.shares(weights)
        for kind, chosen in judged.kinds.items():
            some_scores = judged.ndcg[chosen].mean(axis=0)
            rows.append(
                [
                    f"{judged.name}, {kind}",
                    *(f"{some_scores[place]:.3f}" for place in (0, 5, 10)),
                    f"{found[chosen].mean():.3f}",
                    f"{shares[chosen].mean():.2f}",
                    str(list(weights.metadata().values())),
                ]
            )
    header = ["set", "last", "half", "joined", "views", "share", "weights of the others"]
    print_table("nDCG@10 with weights learned without the set", header, rows, markdown=markdown)
    print(learn(lessons))


if __name__ == "__main__":
    typer.run(main)
