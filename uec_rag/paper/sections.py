"""The report's sections on the analyses, each a table and a figure with the paper's beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uec_rag.paper import figures
from uec_rag.paper.paper_numbers import (
    COVARIANCE,
    ECE,
    LAYERS,
    OVERLAP,
    RELATIVE_TIME,
    SPARSITY,
    VAR_ECE,
)
from uec_rag.paper.tables import Cell, Grid, averages, markdown, paper_table

Analysis = Mapping[str, Any]
_METRICS = ("ndcg10", "recall10", "auc10")
_LABELS = ("nDCG@10", "Recall@10", "AUC@10")
_ERRORS = ("ece_deterministic", "ece", "nll_deterministic", "nll")


def retrieval_figure(grid: Grid, systems: Sequence[str], path: Path) -> str:
    """Draw mean nDCG@10 and AUC@10 of every system."""
    return _bars(grid, systems, ("ndcg10", "auc10"), path, "Means over the collections")


def language_figure(grid: Grid, systems: Sequence[str], path: Path) -> str:
    """Draw nDCG@10 of every system in each language (paper figure 2)."""
    kept = [s for s in systems if all(_ndcg(cells.get(s)) is not None for cells in grid.values())]
    if not kept:
        return ""
    series = {
        name: [_ndcg(cells[system]) or 0.0 for system in kept] for name, cells in grid.items()
    }
    figures.bars(path, kept, series, "nDCG@10")
    return _image("nDCG@10 by language", path)


def analysis_sections(analysis: Analysis, folder: Path) -> Iterator[str]:
    """Write every analysis that a run has.

    Parameters
    ----------
    analysis : mapping of name -> result
    folder : path
        Where the figures go.
    """
    makers = {
        "coefficients": _coefficients,
        "similarities": _similarities,
        "similarities of UEC.paper": _similarities,
        "search times": _search_times,
        "ablation": _ablation,
        "ablation of UEC.paper": _ablation,
        "sensitivity": _sensitivity,
        "sensitivity of UEC.paper": _sensitivity,
        "calibration": _calibration,
        "posterior variants": _variants,
        "layers": _layers,
        "theory": _theory,
        "overlap of main": _overlap,
        "overlap of languages": _overlap,
        "fit": _fit,
    }
    for name, make in makers.items():
        result = analysis.get(name)
        if result is None:
            continue
        yield f"## {name[0].upper()}{name[1:]}"
        if (problem := result.get("error") or result.get("not_applicable")) is not None:
            yield f"Not measured: {problem}"
            continue
        yield from make(result, folder / f"{name.replace(' ', '_').replace('.', '_')}.png")
        if name in ("similarities", "ablation"):
            yield folded(paper_table(name))


def _coefficients(result: Analysis, path: Path) -> Iterator[str]:
    yield "Mean coefficient of each encoder over a collection's queries, by UEC (paper figure 3)."
    rows = result["rows"]
    figures.heatmap(path, list(rows.values()), list(rows), result["encoders"])
    yield markdown(
        ["Queries of", *result["encoders"]],
        [[name, *(f"{value:.3f}" for value in values)] for name, values in rows.items()],
    )
    yield _image("coefficients", path)


def _similarities(result: Analysis, path: Path) -> Iterator[str]:
    yield (
        f"The same Gaussians, compared in other ways (paper table 10); means over "
        f"{', '.join(result['collections'])}. Abstention by the top similarity. Times are of all "
        "queries against all passages on this machine, relative to s_hat."
    )
    head = ["Similarity", "nDCG@10", "Recall@10", "AUC@10", "seconds", "relative time"]
    yield markdown(
        head,
        [
            [row["name"], *_quality(row), f"{row['seconds']:.3f}", f"{row['relative']:.2f}"]
            for row in result["rows"]
        ],
    )


def _search_times(result: Analysis, path: Path) -> Iterator[str]:
    yield "Combining and comparing embeddings that are there, relative to uniform (paper table 6)."
    yield markdown(
        ["Method", "milliseconds", "relative time", "paper"],
        [
            [
                row["name"],
                f"{1000 * row['seconds']:.2f}",
                f"{row['relative']:.3f}",
                f"{RELATIVE_TIME[row['name']]:.3f}",
            ]
            for row in result["rows"]
        ],
    )


def _ablation(result: Analysis, path: Path) -> Iterator[str]:
    yield (
        f"Parts taken away (paper table 7); means over {', '.join(result['collections'])}. "
        '"- confidence" abstains by the top score, and so do the rows below it.'
    )
    yield markdown(
        ["", "nDCG@10", "Recall@10", "AUC@10"],
        [[row["name"], *_quality(row)] for row in result["rows"]],
    )


def _sensitivity(result: Analysis, path: Path) -> Iterator[str]:
    yield (
        f"Means over {', '.join(result['collections'])}; abstention by the top score. T is that of "
        "the trace rule."
    )
    for knob, rows in result["curves"].items():
        x = [float(row["name"]) for row in rows]
        own = path.with_name(f"{path.stem}_{knob}.png")
        series = {
            label: [_number(row[metric]) for row in rows]
            for label, metric in (
                ("nDCG@10", "ndcg10"),
                ("Recall@10", "recall10"),
                ("AUC@10", "auc10"),
            )
        }
        figures.curves(own, x, series, (knob, ""))
        yield markdown(
            [knob, "nDCG@10", "Recall@10", "AUC@10"],
            [[row["name"], *_quality(row)] for row in rows],
        )
        yield _image(f"sensitivity to {knob}", own)


def _calibration(result: Analysis, path: Path) -> Iterator[str]:
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
        yield _calibration_table(result[name], lambda row: _paper_pair(ECE, row))
        own = path.with_name(f"{path.stem}_{name}.png")
        figures.reliability(own, {row["name"]: row["reliability"] for row in result[name]})
        yield _image(f"reliability, {name}", own)
    paper = ", ".join(f"{name} {value:.3f}" for name, value in VAR_ECE.items())
    yield (
        "Var-ECE (paper table 5) is with the semantic textual similarity above; the paper's, on "
        f"SemRel24: {paper}."
    )


def _calibration_table(rows: Sequence[Analysis], paper: Callable[[str], str]) -> str:
    head = ["", "Accuracy", "ECE det.", "ECE prob.", "NLL det.", "NLL prob.", "AUROC", "fit, s"]
    return markdown(
        [*head, "paper ECE"],
        [
            [
                row["name"],
                f"{100 * row['accuracy']:.2f}",
                *(f"{row[key]:.4f}" for key in _ERRORS),
                f"{100 * _number(row['error_auroc']):.1f}",
                f"{row['seconds']:.1f}",
                paper(row["name"]),
            ]
            for row in rows
        ],
    )


def _variants(result: Analysis, path: Path) -> Iterator[str]:
    yield (
        f"Posteriors of {result['encoder']}, told answers from hits: structure, likelihood, layer, "
        "and less and less data (paper tables 18 and 20). In the paper's form (accuracy, ECE): "
        + "; ".join(f"{name} {acc} {ece}" for name, (acc, ece) in (COVARIANCE | SPARSITY).items())
        + f". Means of {result['seeds']} fits, ± their standard deviation: another seed is another "
        "fifth held out, other negatives, and another part of the data."
    )
    head = ["", "Accuracy", "ECE det.", "ECE prob.", "NLL det.", "NLL prob.", "AUROC", "fit, s"]
    yield markdown(
        head,
        [
            [
                row["name"],
                f"{100 * row['accuracy']:.2f}",
                *(_within(row[key], row[f"{key}_sd"]) for key in _ERRORS),
                _within(row["error_auroc"], row["error_auroc_sd"], 100, 1),
                f"{row['seconds']:.1f}",
            ]
            for row in result["rows"]
        ],
    )


def _layers(result: Analysis, path: Path) -> Iterator[str]:
    paper = ", ".join(f"{count}: {acc} {ece}" for count, (acc, ece) in LAYERS.items())
    yield (
        f"Diagonal posteriors of {result['encoder']} over its last linear layers, and over parts "
        f"of the data, by laplace-torch (paper tables 19 and 20; accuracy and ECE by layers there: "
        f"{paper}). Fitted among hard negatives, tuned and tested among hits. With 0 pairs the "
        "posterior is the prior. Means of several draws of so many pairs, ± standard error by "
        "drawing pairs and test queries anew; the gain is of the probabilistic over the "
        "deterministic NLL, where less than 0 is better."
    )
    head = ["Layers", "pairs", "Accuracy", "ECE prob.", "ECE det.", "NLL prob. - det."]
    yield markdown(
        [*head, "mean logit variance", "AUROC"],
        [
            [
                str(row["layers"]),
                str(row["pairs"]),
                f"{100 * row['accuracy']:.2f}",
                *(
                    _within(row[key], row[f"{key}_se"])
                    for key in ("ece", "ece_deterministic", "nll_gain")
                ),
                f"{row['logit_variance']:.3g}",
                _within(row["error_auroc"], row["error_auroc_se"], 100, 1),
            ]
            for row in result["rows"]
        ],
    )


def _theory(result: Analysis, path: Path) -> Iterator[str]:
    yield (
        "How the residual of s_hat against W2 (theorem 1) and Jeffreys (theorem 2) falls with eps, "
        "the largest variance: order 2 is what the paper states. The corrected residual has the "
        "two first-order terms taken off that the paper's proof takes for second-order ones. Rank "
        "agreement is of s_hat with the distance, from the largest eps to the smallest."
    )
    for name in ("theorem 1", "theorem 2"):
        rows = result[name]
        own = path.with_name(f"{name.replace(' ', '_')}.png")
        series, corrected = (
            {row["name"]: [_number(value) for value in row[key]] for row in rows}
            for key in ("residual", "corrected")
        )
        figures.curves(
            own,
            rows[0]["epsilons"],
            series,
            ("eps", "residual (dashed: corrected)"),
            log=(True, True),
            dashed=corrected,
        )
        yield f"**{name[0].upper()}{name[1:]}**"
        yield markdown(
            ["Regime", "assumptions", "order", "order, corrected", "rank agreement"],
            [
                [
                    row["name"],
                    "hold" if row["holds"] else "broken",
                    f"{_number(row['slope']):.2f}",
                    f"{_number(row['corrected_slope']):.2f}",
                    f"{_number(row['agreement'][-1]):.3f} – {_number(row['agreement'][0]):.3f}",
                ]
                for row in rows
            ],
        )
        yield _image(name, own)


def _overlap(result: Analysis, path: Path) -> Iterator[str]:
    paper = ", ".join(f"{a}/{b} {value}" for (a, b), value in OVERLAP.items())
    yield (
        f"Mean canonical correlation over {result['texts']:,} passages (paper table 9: {paper}). "
        "Found and measured on the same texts it nears 100 % whenever there are few texts for the "
        "dimensions, whatever the models (see the second encoder's texts shuffled); on held-out "
        "texts it says what two models share."
    )
    yield markdown(
        ["Pair", "same texts", "same texts, shuffled", "held-out texts"],
        [
            [
                " / ".join(row["pair"]),
                *(f"{100 * row[key]:.1f}" for key in ("fitted", "chance", "held_out")),
            ]
            for row in result["rows"]
        ],
    )


def _fit(result: Analysis, path: Path) -> Iterator[str]:
    yield "What fitting found for UEC; NLL is that of the probit predictive on held-out pairs."
    for group, report in result.items():
        if not isinstance(report, dict):
            continue
        yield f"{group}: {report['structure']} posterior, {report['likelihood']} likelihood"
        yield markdown(
            ["Encoder", "pairs", "slope", "prior precision", "scale", "NLL", "without variance"],
            [
                [
                    name,
                    str(row["pairs"]),
                    f"{row['slope']:.1f}",
                    f"{row['prior_precision']:.2g}",
                    f"{row['scale']:.2g}",
                    f"{row['nll']:.4f}",
                    f"{row['nll_deterministic']:.4f}",
                ]
                for name, row in report["encoders"].items()
            ],
        )


def _bars(
    grid: Grid, systems: Sequence[str], metrics: Sequence[str], path: Path, label: str
) -> str:
    means = {metric: averages(grid, systems, metric) for metric in metrics}
    kept = [system for system in systems if all(system in found for found in means.values())]
    if not kept:
        return ""
    names = {"ndcg10": "nDCG@10", "auc10": "AUC@10"}
    series = {names[metric]: [means[metric][system] for system in kept] for metric in metrics}
    figures.bars(path, kept, series, label)
    return _image(label, path)


def _ndcg(cell: Cell | None) -> float | None:
    return None if cell is None else cell.metrics.get("ndcg10")


def _quality(row: Analysis) -> list[str]:
    return [f"{100 * _number(row[metric]):.2f}" for metric in _METRICS]


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _within(value: float | None, error: float | None, unit: float = 1, digits: int = 4) -> str:
    """A number and how far off it may be."""
    if value is None or error is None:  # NaN in a run's results
        return "-"
    return f"{unit * value:.{digits}f} ± {unit * error:.{digits}f}"


def _paper_pair(table: Mapping[str, tuple[float, float]], name: str) -> str:
    key = next((k for k in table if name.lower().startswith(k.lower())), None)
    key = "UEC" if name == "UEC.paper" else key
    if key is None or name == "UEC":
        return ""
    return "{:.3f} → {:.3f}".format(*table[key])


def folded(text: str) -> str:
    """Hide the paper's table until it is clicked on."""
    return f"<details><summary>The paper's table</summary>\n\n{text}\n</details>"


def _image(text: str, path: Path) -> str:
    return f"![{text}]({path.name})"
