"""What a run looks into beside its tables, one file each: its run and its section of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from uec_rag.paper.analyses import (
    ablation,
    adaptivity,
    calibration,
    challenge,
    coefficients,
    fit,
    layers,
    overlap,
    routing,
    search_times,
    sensitivity,
    similarities,
    theory,
    variants,
)
from uec_rag.paper.analyses.base import Analysis, Result, has_collections, has_proxy, subset
from uec_rag.paper.groups import LANGUAGES, MAIN, Group
from uec_rag.paper.results import Json
from uec_rag.paper.tables import folded, paper_table


def _of_paper(
    name: str, run: Callable[..., Json], section: Callable[..., Iterator[str]]
) -> Analysis:
    return Analysis(f"{name} of UEC.paper", partial(run, paper=True), section, has_collections)


def _overlap(name: str) -> Analysis:
    return Analysis(
        f"overlap of {name}",
        partial(overlap.run, name=name),
        overlap.section,
        lambda groups: name in [group.name for group in groups],
    )


ANALYSES = (
    Analysis("coefficients", coefficients.run, coefficients.section, has_collections),
    Analysis(
        "similarities", similarities.run, similarities.section, has_collections, "similarities"
    ),
    _of_paper("similarities", similarities.run, similarities.section),
    Analysis("search times", search_times.run, search_times.section, has_collections),
    Analysis("ablation", ablation.run, ablation.section, has_collections, "ablation"),
    _of_paper("ablation", ablation.run, ablation.section),
    Analysis("sensitivity", sensitivity.run, sensitivity.section, has_collections),
    _of_paper("sensitivity", sensitivity.run, sensitivity.section),
    Analysis("challenging case", challenge.run, challenge.section, has_collections),
    Analysis("adaptivity", adaptivity.run, adaptivity.section, has_collections),
    Analysis(
        "routing",
        routing.run,
        routing.section,
        lambda groups: bool(subset(groups).plan.languages),
    ),
    Analysis("calibration", calibration.run, calibration.section, has_proxy),
    Analysis("posterior variants", variants.run, variants.section, has_proxy),
    Analysis("layers", layers.run, layers.section, has_proxy),
    Analysis("theory", theory.run, theory.section),
    _overlap(MAIN),
    _overlap(LANGUAGES),
    Analysis("fit", fit.run, fit.section),
)
"""In the order of the report."""


def analyses(groups: Sequence[Group]) -> dict[str, Callable[[], Json]]:
    """Name the analyses that apply to groups, the main one first, each a function that makes it."""
    return {a.name: partial(a.run, groups) for a in ANALYSES if a.applies(groups)}


def analysis_sections(results: Mapping[str, Result], folder: Path) -> Iterator[str]:
    """Write every analysis that a run has.

    Parameters
    ----------
    results : mapping of name -> result
    folder : path
        Where the figures go.
    """
    for analysis in ANALYSES:
        name, result = analysis.name, results.get(analysis.name)
        if result is None:
            continue
        yield f"## {name[0].upper()}{name[1:]}"
        if (problem := result.get("error") or result.get("not_applicable")) is not None:
            yield f"Not measured: {problem}"
            continue
        figure = folder / f"{name.replace(' ', '_').replace('.', '_')}.png"
        yield from analysis.section(result, figure)
        if analysis.printed:
            yield folded(paper_table(analysis.printed))
