"""Calibration of the probabilistic embeddings on a pair task (paper tables 4, 17 and 19).

The task is the paper's: does this passage answer this query? Positives are given, one random
passage each is the negative, or one that a search would have shown. The deterministic classifier is
sigmoid(a s + b); the probabilistic one divides the logit by sqrt(1 + pi/8 a^2 sigma_s^2). Each has
its own a and b: with those of the other, its probabilities would all be too close to one half.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from benchmarks.paper import plots
from benchmarks.paper.analyses.base import Result, image, number
from benchmarks.paper.plan import Group
from benchmarks.paper.results import Json, markdown, paper_rows
from benchmarks.paper.systems import pair_moments
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.similarity import PROBIT
from uec_rag.encoders import Encoder
from uec_rag.ensemble import UEC
from uec_rag.laplace.likelihood import bernoulli_map


def run(groups: Sequence[Group]) -> Json:
    """Measure each encoder's own posterior, UEC.paper and UEC, among random negatives and hits."""
    lineup = groups[0].lineup
    fitted = [
        (encoder.name, UEC([encoder], structure="diag").fit(lineup.pairs))
        for encoder in lineup.encoders
    ]
    if len({encoder.dimension for encoder in lineup.encoders}) == 1:
        fitted.append(("UEC.paper", lineup.paper()))
    fitted.append(("UEC", lineup.fitted()))
    return {
        name: [asdict(calibrate(uec, *tasks, row)) for row, uec in fitted]
        for name, tasks in (("random", random_tasks(groups[0])), ("hits", hard_tasks(groups[0])))
    }


def section(result: Result, path: Path) -> Iterator[str]:
    """Write tables and reliability diagrams."""
    yield (
        "Does this passage answer this query? (Paper table 4.) Deterministic: sigmoid(a s + b); "
        "probabilistic: with the variance of s. AUROC is how well the variance alone tells wrong "
        "predictions from right ones: 50 is chance."
    )
    negatives = {
        "random": "One true and one random passage of each query, as the paper has it:",
        "hits": (
            "One true passage and the best wrong hit of each query, by the members' mean cosine:"
        ),
    }
    for name, text in negatives.items():
        yield text
        yield _table(result[name])
        own = path.with_name(f"{path.stem}_{name}.png")
        plots.reliability(own, {row["name"]: row["reliability"] for row in result[name]})
        yield image(f"reliability, {name}", own)
    paper = ", ".join(f"{name} {value:.3f}" for name, (value,) in paper_rows("var_ece").items())
    yield (
        "Var-ECE (paper table 5) is with the semantic textual similarity above; the paper's, on "
        f"SemRel24: {paper}."
    )


def _table(rows: Sequence[Result]) -> str:
    return markdown(
        [*HEAD, "paper ECE"],
        [
            [*cells(row), f"{row['seconds']:.1f}", _printed(paper_rows("ece"), row["name"])]
            for row in rows
        ],
    )


def cells(row: Result) -> list[str]:
    """A row of a table of calibrations, but for its seconds."""
    errors = (f"{row[key]:.4f}" for key in ERRORS)
    sure, wrong = 100 * row["accuracy"], 100 * number(row["error_auroc"])
    return [row["name"], f"{sure:.2f}", *errors, f"{wrong:.1f}"]


def _printed(table: Mapping[str, tuple[float, ...]], name: str) -> str:
    key = next((k for k in table if name.lower().startswith(k.lower())), None)
    key = "UEC" if name == "UEC.paper" else key
    if key is None or name == "UEC":
        return ""
    return "{:.3f} → {:.3f}".format(*table[key])


_Floats = NDArray[np.float64]
_BINS = 15

ERRORS = ("ece_deterministic", "ece", "nll_deterministic", "nll")
HEAD = ("", "Accuracy", "ECE det.", "ECE prob.", "NLL det.", "NLL prob.", "AUROC", "fit, s")
"""Columns of a table of calibrations; `ERRORS` are its third to sixth."""


@dataclass(frozen=True)
class Calibration:
    """How well one classifier is calibrated.

    Attributes
    ----------
    name : str
    accuracy : float
    ece, nll : float
        Expected calibration error (15 bins) and negative log-likelihood per pair of the
        probabilistic classifier.
    ece_deterministic, nll_deterministic : float
        The same without the variance.
    error_auroc : float
        How well the variance alone tells wrong answers from right ones: 0.5 is chance.
    reliability : list of (confidence, accuracy, share)
        Of the probabilistic classifier's bins that are not empty.
    seconds : float
        What fitting took, without the encoders.
    """

    name: str
    accuracy: float
    ece: float
    nll: float
    ece_deterministic: float
    nll_deterministic: float
    error_auroc: float
    reliability: list[tuple[float, float, float]]
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class PairTask:
    """Queries with passages, half of which answer them.

    Attributes
    ----------
    queries, passages : list of str
    labels : array, shape (n,)
    """

    queries: list[str]
    passages: list[str]
    labels: FloatArray


def pair_task(pairs: Sequence[tuple[str, str]], seed: int = 0) -> PairTask:
    """Add a random other passage to each query of some positive pairs.

    Raises
    ------
    ValueError
        If all passages answer one query: there is no negative for it.
    """
    passages, answers = _answers(pairs)
    rng = np.random.default_rng(seed)
    negatives = []
    for query, _ in pairs:
        drawn = passages[int(rng.integers(len(passages)))]
        while drawn in answers[query]:
            drawn = passages[int(rng.integers(len(passages)))]
        negatives.append(drawn)
    return _with_negatives(pairs, negatives)


def hard_pair_task(pairs: Sequence[tuple[str, str]], encoders: Sequence[Encoder]) -> PairTask:
    """Add to each query of some positive pairs the best wrong hit of a uniform ensemble.

    Parameters
    ----------
    pairs : sequence of (query, passage)
    encoders : sequence of Encoder
        Cosines are averaged over them, so that the negatives are none's own.

    Raises
    ------
    ValueError
        As `pair_task`.
    """
    passages, answers = _answers(pairs)
    queries = list(answers)
    column = {passage: index for index, passage in enumerate(passages)}
    similarity = np.zeros((len(queries), len(passages)), dtype=np.float32)
    for encoder in encoders:
        embedded = encoder.encode(queries, "query"), encoder.encode(passages, "passage")
        cosine = embedded[0].embedding @ embedded[1].embedding.T
        similarity += (cosine - cosine.mean()) / cosine.std()
    for row, query in enumerate(queries):
        similarity[row, [column[passage] for passage in answers[query]]] = -np.inf
    hit = dict(zip(queries, similarity.argmax(axis=1).tolist(), strict=True))
    return _with_negatives(pairs, [passages[hit[query]] for query, _ in pairs])


def random_tasks(group: Group) -> tuple[PairTask, PairTask]:
    """What a group's classifiers are fitted on, and its pair task, among random negatives."""
    order = np.random.default_rng(0).permutation(len(group.lineup.pairs))
    return pair_task([group.lineup.pairs[i] for i in order]), pair_task(group.plan.proxy)


def hard_tasks(group: Group) -> tuple[PairTask, PairTask]:
    """The same among hits."""
    encoders = group.lineup.encoders
    return hard_pair_task(group.lineup.pairs, encoders), hard_pair_task(group.plan.proxy, encoders)


def _answers(pairs: Sequence[tuple[str, str]]) -> tuple[list[str], dict[str, set[str]]]:
    """All passages, and each query's own."""
    answers: dict[str, set[str]] = {}
    for query, passage in pairs:
        answers.setdefault(query, set()).add(passage)
    passages = sorted({passage for _, passage in pairs})
    if any(len(own) == len(passages) for own in answers.values()):
        raise ValueError("pairs: expected a passage that does not answer, for every query.")
    return passages, answers


def _with_negatives(pairs: Sequence[tuple[str, str]], negatives: list[str]) -> PairTask:
    queries = [query for query, _ in pairs]
    labels = np.repeat(np.array([1, 0], dtype=np.float32), len(queries))
    return PairTask(2 * queries, [passage for _, passage in pairs] + negatives, labels)


def calibrate(uec: UEC, fit: PairTask, test: PairTask, name: str) -> Calibration:
    """Fit a and b of both pair classifiers on `fit`, measure their calibration on `test`.

    Parameters
    ----------
    uec : UEC
        Fitted, on other pairs than `test`.
    fit, test : PairTask
    name : str
        Of the row.
    """
    (mu, sigma2), (similarity, variance) = (
        pair_moments(uec.embed(task.queries, "query"), uec.embed(task.passages, "passage"))
        for task in (test, fit)
    )
    line = bernoulli_map(similarity, fit.labels)
    plain = _logits(line, mu, np.zeros_like(sigma2))
    probabilistic = _logits(_line(similarity, variance, fit.labels, line), mu, sigma2)
    p, p_plain = expit(probabilistic), expit(plain)
    return Calibration(
        name,
        **measure_probabilities(p, test.labels),
        nll=_nll(probabilistic, test.labels),
        ece_deterministic=_ece(p_plain, test.labels),
        nll_deterministic=_nll(plain, test.labels),
        error_auroc=error_auroc(sigma2, p_plain, test.labels),
        reliability=_reliability(p, test.labels),
        seconds=0.0 if uec.report is None else uec.report.seconds,
    )


def _logits(line: tuple[float, float], mu: FloatArray, sigma2: FloatArray) -> _Floats:
    slope, intercept = line
    logits: _Floats = slope * mu.astype(np.float64) + intercept
    return logits / np.sqrt(1 + PROBIT * slope**2 * sigma2.astype(np.float64))


def _line(
    mu: FloatArray, sigma2: FloatArray, labels: FloatArray, start: tuple[float, float]
) -> tuple[float, float]:
    """Fit slope and intercept of the classifier with variance."""
    centre = float(mu.mean())

    def loss(theta: _Floats) -> float:
        slope = float(np.exp(theta[0]))
        return _nll(_logits((slope, float(theta[1]) - slope * centre), mu, sigma2), labels)

    slope, intercept = start
    found = minimize(loss, [np.log(slope), intercept + slope * centre], method="Nelder-Mead").x
    slope = float(np.exp(found[0]))
    return slope, float(found[1]) - slope * centre


def measure_probabilities(p: NDArray[np.float64], labels: NDArray[np.floating]) -> dict[str, float]:
    """Accuracy and expected calibration error of P(answer) against labels, shape (n,) each."""
    return {"accuracy": float(((p > 0.5) == (labels > 0.5)).mean()), "ece": _ece(p, labels)}


def error_auroc(
    variance: NDArray[np.floating], p: NDArray[np.float64], labels: NDArray[np.floating]
) -> float:
    """How well variance (n,) tells wrong predictions P(answer) (n,) from right ones: 0.5 is chance.

    NaN where all are right, or all wrong.
    """
    from sklearn.metrics import roc_auc_score

    wrong = (p > 0.5) != (labels > 0.5)
    return float(roc_auc_score(wrong, variance)) if 0 < wrong.sum() < len(wrong) else float("nan")


def _nll(logit: _Floats, labels: FloatArray) -> float:
    return float((np.logaddexp(0, logit) - labels * logit).mean())


def _ece(p: _Floats, labels: NDArray[np.floating]) -> float:
    """Expected calibration error of the predicted class, by torchmetrics."""
    import torch
    from torchmetrics.functional.classification import multiclass_calibration_error

    both = torch.from_numpy(np.stack([1 - p, p], axis=1).astype(np.float64))
    target = torch.from_numpy(labels).long()
    return float(multiclass_calibration_error(both, target, num_classes=2, n_bins=_BINS))


def _reliability(p: _Floats, labels: FloatArray) -> list[tuple[float, float, float]]:
    sure, right = np.maximum(p, 1 - p), (p > 0.5) == (labels > 0.5)
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    return [
        (float(sure[bins == b].mean()), float(right[bins == b].mean()), float((bins == b).mean()))
        for b in range(_BINS)
        if (bins == b).any()
    ]
