"""Whether a variance per term earns anything: words as a Gaussian member, beside variance 0.

    python -m benchmarks.quality.word_variance DATA [--fit tydiqa_goldp_en]

The last layer of words is a diagonal over terms, W = diag(w_t) with w = 1, through which query and
passage both go: a term adds ``w_t^2 x_t`` to a similarity. The pair-GGN is then closed, ``H_t =
sum p (1 - p) a^2 (2 x_t)^2`` over the fit pairs, and a similarity's variance ``sum x_t^2 (2 v_t +
v_t^2)`` with ``v_t = scale / (H_t + delta)``: terms never seen while fitting keep the prior's. H is
kept in 2^14 buckets of hashed terms. delta and scale would be those of the least predictive NLL on
hits of queries that were held out, as for every member; printed, and since they leave next to
nothing, the table has scales at which a held-out logit's mean variance is as given. Reported on
other collections: nDCG@10 by s_hat, relevance of the first ten hits (ECE, NLL) with slope and
intercept of every other query, measured on the rest, and nAUC of nDCG@10 by the top hit's logit.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import nauc, score_retrieval
from benchmarks.quality.options import Data, Markdown, Sets
from benchmarks.tables import print_table
from uec_rag.base.gaussian import PROBIT
from uec_rag.base.postings import Corpus, Postings
from uec_rag.encoders import Lexical
from uec_rag.laplace.likelihood import (
    bernoulli_map,
    fitting_intercept,
    predictive_nll,
    variance_scale,
)

SETS = "cranfield,cisi,medline,fiqa_small,claude_docs_rag,chroma_chunking,belebele_en,xquad_en"
_BUCKETS = 2**14
_CANDIDATES, _HITS, _WRONG = 30, 10, 4
_QUERIES = 1500
_DELTAS = np.logspace(-3, 3, 7)  # over the mean of H where it is not 0
_BINS = 10
_VARIANCES = (0.0, 1.0, 4.0)  # of a logit


@dataclass(frozen=True)
class Found:
    """What words say of c passages for each of n queries.

    Attributes
    ----------
    rows : array, shape (n, c)
    shares : list of n arrays, shape (c, terms)
        What each term adds to the similarity.
    buckets : list of n arrays, shape (terms,)
    relevant : array of bool, shape (n, c)
    """

    rows: np.ndarray
    shares: list[np.ndarray]
    buckets: list[np.ndarray]
    relevant: np.ndarray

    @property
    def similarity(self) -> np.ndarray:
        """Sum of the shares, shape (n, c)."""
        return np.stack([shares.sum(axis=1) for shares in self.shares])

    def summed(self, values: np.ndarray) -> np.ndarray:
        """Sum over the terms of share^2 times a value of the term's bucket, shape (n, c)."""
        return np.stack(
            [s**2 @ values[bucket] for s, bucket in zip(self.shares, self.buckets, strict=True)]
        )

    def some(self, rows: np.ndarray) -> Found:
        """Of some of the queries."""
        return Found(
            self.rows[rows],
            [self.shares[row] for row in rows],
            [self.buckets[row] for row in rows],
            self.relevant[rows],
        )


def ask(collection: Collection, count: int, wrong_only: bool = False) -> Found:
    """The passages of the highest similarity; for fitting one that answers and some that do not."""
    encoder, names = Lexical(), list(collection.passages)
    place = {name: row for row, name in enumerate(names)}
    terms = encoder.encode(list(collection.queries.values()), "query").terms
    postings = Postings.of(encoder.encode(list(collection.passages.values()), "passage").terms)
    corpus = Corpus(len(names))
    answers = [[place[name] for name in gains] for gains in collection.relevant.values()]
    count, rows = min(count, len(names)), []
    for start in range(0, len(terms), 256):
        similar = postings.similarities(terms[start : start + 256], corpus)
        for row, right in zip(similar, answers[start : start + 256], strict=True):
            if wrong_only:
                row[right] = -1
            best = np.argsort(-row, kind="stable")[:count]
            rows.append([right[0], *best] if wrong_only else best)
    found = np.array(rows)
    keys = [terms.keys[a:b] for a, b in zip(terms.starts, terms.starts[1:], strict=False)]
    return Found(
        found,
        postings.contributions(terms, found, corpus)[0],
        [(key >> np.uint64(1)).astype(np.int64) % _BUCKETS for key in keys],
        np.array([np.isin(row, right) for row, right in zip(found, answers, strict=True)]),
    )


def fit(asked: Found) -> tuple[float, list[np.ndarray]]:
    """Slope, and each bucket's variance for each mean variance of a logit."""
    order = np.random.default_rng(0).permutation(len(asked.rows))
    held, train = asked.some(order[::5]), asked.some(np.setdiff1d(order, order[::5]))
    slope, intercept = bernoulli_map(train.similarity.ravel(), train.relevant.ravel())
    p = 1 / (1 + np.exp(-(slope * train.similarity + intercept)))
    weight = p * (1 - p) * slope**2
    curvature = np.zeros(_BUCKETS)
    for shares, bucket, of_query in zip(train.shares, train.buckets, weight, strict=True):
        np.add.at(curvature, bucket, of_query @ (4 * shares**2))
    labels, similarity = held.relevant.ravel(), held.similarity.ravel()
    _, free = bernoulli_map(similarity, labels, slope)
    without = predictive_nll(similarity, np.zeros(labels.shape), labels, slope, free).mean()
    least = dict.fromkeys(_VARIANCES, np.inf)
    chosen = dict.fromkeys(_VARIANCES, np.zeros(_BUCKETS))
    for delta in _DELTAS * curvature[curvature > 0].mean():
        v = 1 / (curvature + delta)
        single, double = held.summed(2 * v).ravel(), held.summed(v**2).ravel()
        scale, _ = variance_scale(similarity, single, double, labels, slope)
        tuned = slope**2 * scale * single.mean()
        print(f"delta {delta:.3g}: mean variance of a logit, tuned, {tuned:.2g}", file=sys.stderr)
        for wanted in _VARIANCES[1:]:
            scale = wanted / slope**2 / single.mean()  # the square of v is small beside v
            free = fitting_intercept(similarity, scale * single, labels, slope)
            nll = predictive_nll(similarity, scale * single, labels, slope, free).mean()
            print(f"  {wanted:g}: NLL {nll:.4f} ({without:.4f} without)", file=sys.stderr)
            if nll < least[wanted]:
                least[wanted], chosen[wanted] = nll, scale * v
    return slope, list(chosen.values())


def quality(
    collection: Collection, asked: Found, slope: float, variance: np.ndarray
) -> list[float]:
    """nDCG@10, nAUC, ECE and NLL with a variance of each bucket's weight."""
    mu = asked.similarity
    sigma2 = asked.summed(2 * variance + variance**2)
    score, names = mu / np.sqrt(1 + PROBIT * sigma2), list(collection.passages)
    order = np.argsort(-score, axis=1, kind="stable")[:, :_HITS]
    ids = [[names[row] for row in rows] for rows in np.take_along_axis(asked.rows, order, axis=1)]
    pull = 1 / np.sqrt(1 + PROBIT * slope**2 * np.take_along_axis(sigma2, order, axis=1))
    hits, labels = (
        np.take_along_axis(mu, order, axis=1),
        np.take_along_axis(asked.relevant, order, 1),
    )
    # The level is the collection's own: every other query tells slope and intercept.
    _, intercept = bernoulli_map(hits[::2].ravel(), labels[::2].ravel(), slope)
    pulled = (slope * hits + intercept) * pull
    a, b = bernoulli_map(pulled[::2].ravel(), labels[::2].ravel())
    logit, y = (a * pulled[1::2] + b).ravel(), labels[1::2].ravel()
    p = 1 / (1 + np.exp(-logit))
    bins = np.array_split(np.argsort(p), _BINS)
    ece = sum(len(some) * abs(p[some].mean() - y[some].mean()) for some in bins) / len(p)
    nll = float((np.logaddexp(0, logit) - y * logit).mean())
    scores = score_retrieval(collection, ids, pulled[:, 0])
    return [scores.ndcg10, float(nauc(pulled[:, 0], scores.per_query)), float(ece), nll]


def main(
    data: Data,
    fitted_on: Annotated[str, typer.Option("--fit", help="Its train split is fitted on.")] = (
        "tydiqa_goldp_en"
    ),
    sets: Sets = SETS,
    markdown: Markdown = False,
) -> None:
    """Print the table."""
    whole = load_collection(data / fitted_on, "train")
    some = dict(list(whole.queries.items())[:_QUERIES])
    train = Collection(whole.name, whole.passages, some, {q: whole.relevant[q] for q in some})
    slope, variances = fit(ask(train, _WRONG, wrong_only=True))
    rows, table = [], []
    for name in sets.split(","):
        collection = load_collection(data / name)
        asked = ask(collection, _CANDIDATES)
        both = [quality(collection, asked, slope, v) for v in variances]
        rows.append(np.array(both).T.ravel())
        table.append([name, *(f"{value:.3f}" for value in rows[-1])])
    table.append(["mean", *(f"{value:.3f}" for value in np.mean(rows, axis=0))])
    measures = ["nDCG@10", "nAUC", "ECE", "NLL"]
    header = ["collection", *(f"{m}, {v:g}" for m in measures for v in _VARIANCES)]
    print_table("Words with a variance per term", header, table, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
