"""What `UEC.paper` owes to its prior: the precision that was chosen, and others given by hand.

Its grid ends at 1e4 times the mean curvature. Beside what is chosen there are 1 and 1e-5, which is
the authors' default, and the prior without any data, under which the trace of a text is the squared
length of the layer's input times a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.analyses.base import Result, fitted_posterior, searched
from benchmarks.paper.analyses.calibration import HEAD, calibrate, cells, hard_tasks
from benchmarks.paper.analyses.routing import FITS, given_to, owners_of, routing_auroc
from benchmarks.paper.plan import Group, Pair
from benchmarks.paper.results import Json, markdown
from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders import Encoder
from uec_rag.ensemble.fitted import PAPER
from uec_rag.laplace.fit_posterior import Factors, Layer, accumulate
from uec_rag.laplace.posterior import Posterior

PRECISIONS: Mapping[str, float | None] = {
    "as chosen": None,
    "1": 1.0,
    "1e-5": 1e-5,
    "no data": None,
}


@dataclass(frozen=True, eq=False)
class Fit:
    """A diagonal posterior, and the curvature that it was made of, shape (m, d)."""

    posterior: Posterior
    curvature: NDArray[np.float64]
    gain: FloatArray

    @classmethod
    def of(cls, encoder: Encoder, pairs: Sequence[Pair]) -> Fit:
        """Fit as `UEC.paper` does."""
        seen: list[Factors] = []

        def remembered(layer: Layer) -> Factors:
            seen.append(accumulate(layer))
            return seen[0]

        options = {name: PAPER[name] for name in ("structure", "negatives", "scaled")}
        posterior = fitted_posterior(encoder, pairs, **options, curvature=remembered)
        return cls(posterior, seen[0][0].T, encoder.gain)

    @property
    def precision(self) -> float:
        """Of the prior, as chosen."""
        return self.posterior.summary.prior_precision

    @property
    def share(self) -> float:
        """Of the data in a weight's precision."""
        return float((self.curvature / (self.curvature + self.precision)).mean())

    def at(self, name: str) -> Posterior:
        """The posterior at one of `PRECISIONS`."""
        precision = PRECISIONS[name] or self.precision
        known = np.zeros_like(self.curvature) if name == "no data" else self.curvature
        variance = (self.gain**2 / (known + precision)).astype(np.float32)
        return replace(self.posterior, covariance=variance)


def run(groups: Sequence[Group]) -> Json:
    """Calibration of the main group's UEC.paper, and how well traces tell languages."""
    group = groups[0]
    inside = group.lineup.inside()
    fits = [Fit.of(encoder, group.lineup.pairs) for encoder in inside]
    paper, tasks, rows = group.lineup.paper(), hard_tasks(group), []
    chosen = paper.fitted
    for name in PRECISIONS:
        paper.fitted = replace(chosen, posteriors=tuple(fit.at(name) for fit in fits))
        rows.append(asdict(calibrate(paper, *tasks, name)))
    paper.fitted = chosen
    return {
        "encoders": [
            {
                "name": encoder.name,
                "precision": fit.precision,
                "over": fit.precision / float(fit.curvature.mean()),
                "share": fit.share,
            }
            for encoder, fit in zip(inside, fits, strict=True)
        ],
        "rows": rows,
        "auroc": {
            f"{other.name}: {fitted_on}": _telling(other, fitted_on)
            for other in groups
            if other.plan.languages
            for fitted_on in FITS
        },
    }


def _telling(group: Group, fitted_on: str) -> dict[str, float]:
    """How well standardised traces tell whose language a query is in, at each precision."""
    inside = group.lineup.inside()
    owners = owners_of(inside, group.plan.languages)
    given = [given_to(k, fitted_on, group.plan.languages, owners) for k in range(len(inside))]
    fits = [Fit.of(encoder, pairs) for encoder, pairs in zip(inside, given, strict=True)]
    questions = {one.name: list(one.queries.values()) for one in searched(group)}
    found = {}
    for name in PRECISIONS:
        standard = {
            language: np.stack(
                [
                    _standard_traces(encoder, fit.at(name), [q for q, _ in own], asked)
                    for encoder, fit, own in zip(inside, fits, given, strict=True)
                ],
                axis=1,
            )
            for language, asked in questions.items()
        }
        found[name] = routing_auroc(standard, owners)
    return found


def _standard_traces(
    encoder: Encoder, posterior: Posterior, usual: Sequence[str], asked: Sequence[str]
) -> FloatArray:
    """Log traces of queries, in standard deviations from those that were fitted on."""
    logs = []
    for texts in (usual, asked):
        encoded = encoder.encode(list(texts), "query")
        logs.append(np.log(posterior.gaussian(encoded).trace))
    return (logs[1] - logs[0].mean()) / max(float(logs[0].std()), 1e-4)


def section(result: Result, path: Path) -> Iterator[str]:
    """Write what was chosen, and a table of each."""
    yield (
        "Prior precision that `UEC.paper` chooses on held-out pairs: "
        + "; ".join(
            f"{row['name']} {row['precision']:.2g}, {row['over']:.0f} times the mean curvature, "
            f"of a weight's precision {row['share']:.5f} is the data's"
            for row in result["encoders"]
        )
        + ". One true passage and the best wrong hit of each query, as in Calibration:"
    )
    yield markdown(["Prior precision", *HEAD[1:-1]], [*map(cells, result["rows"])])
    if result["auroc"]:
        yield (
            "How well the difference of two members' log traces, in standard deviations, tells "
            "whose language a query is in, as in Routing, in per cent (AUROC):"
        )
        yield markdown(
            ["Fitted on", *PRECISIONS],
            [
                [name, *(f"{100 * row[precision]:.1f}" for precision in PRECISIONS)]
                for name, row in result["auroc"].items()
            ],
        )
