"""Calibration of the probabilistic embeddings on the pair task (paper table 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from uec_rag.ensemble import UEC
from uec_rag.paper import figures
from uec_rag.paper.analyses.base import Result, image, number
from uec_rag.paper.analyses.pair_classifier import ERRORS, HEAD, calibrate, hard_tasks, random_tasks
from uec_rag.paper.groups import Group
from uec_rag.paper.paper_numbers import ECE, VAR_ECE
from uec_rag.paper.results import Json
from uec_rag.paper.tables import markdown


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
        figures.reliability(own, {row["name"]: row["reliability"] for row in result[name]})
        yield image(f"reliability, {name}", own)
    paper = ", ".join(f"{name} {value:.3f}" for name, value in VAR_ECE.items())
    yield (
        "Var-ECE (paper table 5) is with the semantic textual similarity above; the paper's, on "
        f"SemRel24: {paper}."
    )


def _table(rows: Sequence[Result]) -> str:
    return markdown(
        [*HEAD, "paper ECE"],
        [
            [
                row["name"],
                f"{100 * row['accuracy']:.2f}",
                *(f"{row[key]:.4f}" for key in ERRORS),
                f"{100 * number(row['error_auroc']):.1f}",
                f"{row['seconds']:.1f}",
                _printed(ECE, row["name"]),
            ]
            for row in rows
        ],
    )


def _printed(table: Mapping[str, tuple[float, float]], name: str) -> str:
    key = next((k for k in table if name.lower().startswith(k.lower())), None)
    key = "UEC" if name == "UEC.paper" else key
    if key is None or name == "UEC":
        return ""
    return "{:.3f} → {:.3f}".format(*table[key])
