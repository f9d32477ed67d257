"""What sigma_s^2 says of a hit: of its first half, of the members' disagreement, of both.

    python -m benchmarks.quality.variance DATA --ensemble arctic-embed-s,bm25 --ensemble A,B,C

Ensembles are fitted on TyDi QA's training pairs, but for the embedded one, which is as it comes.
`within` is the variance of the members' posteriors (paper eq. 5), `between` that of their logits.
The true similarity of a hit is taken to be the mean of its kind: of the relevant ones, or of the
others, among the first ten hits of its collection. Printed of each collection:

- AUROC of the first hit's variance, for wrong against right first hits; no value where none is
  wrong. "shared" is `within` with the covariance that eq. 5 leaves out, as query and passage go
  through one draw of W, and how many times `within` that is; beside them what the similarity and
  the confidence in one hit say, the lower the more suspect;
- coverage, the share of the first ten hits whose truth lies within two standard deviations, and the
  mean squared residual in units of the variance; Var-ECE of the paper's eq. 31;
- Spearman's correlation of the first hit's variance with the error of its relevance;
- what nDCG@10 gains where twenty hits are ordered by the score with all of the variance;
- AUROC of `in_corpus` for questions whose answers are in the corpus against those, a random half,
  whose are not, and what it gains from the logarithm of the first hit's variance.

Whatever else is chosen is chosen on collections of other domains, too: beta, and the logistic
regression of `in_corpus`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks.paper.data import Collection, load_collection, sample_collection
from benchmarks.paper.metrics import mean_ndcg, var_ece
from benchmarks.quality.options import FITTED_ON, Data, Fit, Markdown
from benchmarks.quality.shipped_confidence import DOMAINS, cached
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever, SearchResult
from uec_rag.base.gaussian import probit
from uec_rag.base.properties import cached_property
from uec_rag.confidence.model import log_odds
from uec_rag.encoders import DEFAULT_ENCODERS, load_encoder
from uec_rag.ensemble.convolution import blocks

LANGUAGES = {f"xquad_{name}": name for name in ("zh", "ru", "ar")} | {"belebele_de": "de"}
_K, _READ = 10, 20
_BETAS = (0, 1, 3, 10, 30, 100, 300, 1000)


@dataclass(frozen=True, eq=False)
class Seen:
    """A collection's questions, asked of all of it and with the answers of a half removed.

    Attributes
    ----------
    whole, half : SearchResult
    relevant : array of bool, shape (n, _READ)
        Of the hits in all of it.
    gone : array of bool, shape (n,)
        Whose answers were removed.
    shared : array, shape (n, _READ)
        `cross_term` of the hits in all of it.
    """

    collection: Collection
    whole: SearchResult
    half: SearchResult
    relevant: np.ndarray
    gone: np.ndarray
    shared: np.ndarray

    @classmethod
    def of(cls, uec: UEC, collection: Collection) -> Seen:
        """Ask them."""
        wanted = list(collection.relevant.values())
        gone = np.random.default_rng(0).permutation(len(wanted)) < len(wanted) // 2
        lost = set().union(*(row for row, away in zip(wanted, gone, strict=True) if away))
        (index, whole), (_, half) = asked(uec, collection, set()), asked(uec, collection, lost)
        relevant = [[i in row for i in ids] for ids, row in zip(whole.ids, wanted, strict=True)]
        shared = cross_term(uec, index, whole)
        return cls(collection, whole, half, np.array(relevant), gone, shared)

    @property
    def truth(self) -> np.ndarray:
        """The mean similarity of relevant hits, or of others, shape (n, _K)."""
        mu, right = self.whole.mu[:, :_K], self.relevant[:, :_K]
        return np.where(right, mu[right].mean(), mu[~right].mean())

    def covered(self, variance: np.ndarray) -> float:
        """The share of truths within two standard deviations."""
        deviation = np.abs(self.whole.mu[:, :_K] - self.truth)
        return float((deviation < 2 * np.sqrt(variance[:, :_K])).mean())

    def residual(self, variance: np.ndarray) -> float:
        """The mean squared residual over its variance."""
        squared = (self.whole.mu[:, :_K] - self.truth) ** 2
        return float((squared / variance[:, :_K]).mean())

    def presence(self, with_variance: bool) -> np.ndarray:
        """Log odds of `in_corpus`, and the log of the variance if wanted; shape (n, F)."""
        columns = [log_odds(self.half.in_corpus)]
        if with_variance:
            columns.append(np.log(self.half.sigma2[:, 0]))
        return np.stack(columns, axis=1)

    @cached_property
    def ndcg(self) -> np.ndarray:
        """Of the hits in the order of the score with all of the variance, for each beta."""
        found = []
        for beta in _BETAS:
            order = np.argsort(-probit(self.whole.mu, self.whole.sigma2, beta), kind="stable")
            ids = [[row[i] for i in o[:_K]] for row, o in zip(self.whole.ids, order, strict=True)]
            found.append(mean_ndcg(self.collection, ids))
        return np.array(found)


def asked(uec: UEC, collection: Collection, lost: set[str]) -> tuple[Retriever, SearchResult]:
    """Index a collection without some passages and ask all its questions."""
    left = {id_: text for id_, text in collection.passages.items() if id_ not in lost}
    retriever = Retriever(uec)
    retriever.add(list(left.values()), ids=list(left))
    return retriever, retriever.search(list(collection.queries.values()), _READ)


def cross_term(uec: UEC, index: Retriever, result: SearchResult) -> np.ndarray:
    """What one draw of W for query and passage adds to eq. 5, shape (n, _READ).

    Of "kron" posteriors over the projection of models without a Dense layer, where the layer's
    input is the embedding: ``2 (h_q' A^-1 h_c)(z_q' G^-1 z_c) + (h_q' A^-1 h_c)^2 tr(G^-2)``.
    """
    fitted, total = uec.fitted, np.zeros_like(result.model_variance)
    parts = uec.encode(result.queries, "query")
    means = index.store.vectors([id_ for ids in result.ids for id_ in ids]).mean
    dense = blocks(
        means.reshape(*total.shape, -1), [part.dimension for part in parts], fitted.weights
    )
    counted = (result.coefficients * fitted.weights).T ** 2
    for weight, posterior, part, block in zip(
        counted, fitted.posteriors, parts, dense, strict=True
    ):
        if part.terms:
            continue
        root, profile = posterior.covariance, posterior.profile[0]
        both = np.einsum("nd,nkd->nk", part.mean @ root, block @ root) * posterior.summary.scale
        along = np.einsum("nd,nkd->nk", part.mean * profile, block)
        total += weight[:, None] * (2 * both * along + both**2 * (profile @ profile))
    return total


def auroc(wrong: np.ndarray, variance: np.ndarray) -> float:
    """NaN where all are right."""
    return float(roc_auc_score(wrong, variance)) if wrong.any() else float("nan")


def figures(one: Seen, others: Sequence[Seen]) -> dict[str, dict[str, float]]:
    """What holds of a collection; `others`: collections of other domains."""
    wrong, whole = ~one.relevant[:, 0], one.whole
    shared = whole.model_variance + one.shared
    variances = {"within": whole.model_variance, "both": whole.sigma2}
    first = {
        "within": whole.model_variance[:, 0],
        "shared": shared[:, 0],
        "between": whole.disagreement[:, 0],
    }
    first |= {"both": whole.sigma2[:, 0], "-mu": -whole.mu[:, 0]}
    first["-confidence"] = -whole.confidence_at_k[:, 0]
    sides = whole.mu[:, :_K].ravel(), one.truth.ravel()
    error = np.abs(whole.relevance[:, 0] - one.relevant[:, 0])
    best = int(np.argmax(np.mean([o.ndcg for o in others], axis=0)))
    plain, more = (presence(one, others, with_) for with_ in (False, True))
    return {
        "Wrong first hits against right ones, AUROC": {
            **{name: auroc(wrong, values) for name, values in first.items()},
            "shared / within": float((shared / whole.model_variance)[:, 0].mean()),
        },
        "Its size": {
            **{f"coverage {name}": one.covered(v) for name, v in variances.items()},
            **{f"residual {name}": one.residual(v) for name, v in variances.items()},
            **{
                f"100 Var-ECE {name}": 100
                * var_ece(sides[0], variances[name][:, :_K].ravel(), sides[1])
                for name in variances
            },
        },
        "Its use": {
            "Spearman within": float(spearmanr(whole.model_variance[:, 0], error).statistic),
            "Spearman both": float(spearmanr(whole.sigma2[:, 0], error).statistic),
            "beta": _BETAS[best],
            "nDCG@10 gained": float(one.ndcg[best] - one.ndcg[0]),
            "AUROC of in_corpus": plain,
            "gained": more - plain,
        },
    }


def presence(one: Seen, others: Sequence[Seen], with_variance: bool) -> float:
    """AUROC of a logistic regression that other collections taught, each with equal weight."""
    features = np.concatenate([o.presence(with_variance) for o in others])
    there = np.concatenate([~o.gone for o in others])
    weight = np.concatenate([np.full(len(o.gone), 1 / len(o.gone)) for o in others])
    learned = LogisticRegression().fit(features, there, weight * len(there) / weight.sum())
    return float(roc_auc_score(~one.gone, learned.decision_function(one.presence(with_variance))))


def main(
    data: Data,
    ensemble: Annotated[list[str], typer.Option(help="Members, comma-separated; several times.")],
    fit: Fit = FITTED_ON,
    pairs: Annotated[int, typer.Option(help="Pairs to fit on at most.")] = 1200,
    queries: Annotated[int, typer.Option(help="Questions of a collection at most.")] = 200,
    passages: Annotated[int, typer.Option(help="Passages beside their answers at most.")] = 600,
    markdown: Markdown = False,
) -> None:
    """Print three tables per ensemble."""
    warnings.simplefilter("ignore")
    domains = DOMAINS | LANGUAGES
    collections = [
        sample_collection(load_collection(data / name), queries, passages) for name in domains
    ]
    seen: dict[str, dict[str, Seen]] = {}
    for members in ensemble:
        uec = UEC([cached(load_encoder(name)) for name in members.split(",")])
        if tuple(members.split(",")) == DEFAULT_ENCODERS:
            uec.fitted = UEC().fitted
        else:
            uec.fit(load_collection(data / fit, "train").pairs()[:pairs])
        seen[", ".join(uec.names)] = {one.name: Seen.of(uec, one) for one in collections}
    for names, part in seen.items():
        rows = {}
        for name, one in part.items():
            others = [o for o in part.values() if domains[o.collection.name] != domains[name]]
            rows[name] = figures(one, others)
        for title in next(iter(rows.values())):
            values = {name: list(row[title].values()) for name, row in rows.items()}
            values["mean"] = np.nanmean(list(values.values()), axis=0).tolist()
            header = ["collection", *rows[collections[0].name][title]]
            table = [[name, *(f"{v:.3f}" for v in row)] for name, row in values.items()]
            print_table(f"{title}: {names}", header, table, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
