"""What a run looks into beside its tables, one file each: its run and its section of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.paper.analyses import (
    calibration,
    challenge,
    fitted,
    layers,
    overlap,
    similarities,
    theorems,
    variations,
)
from benchmarks.paper.analyses.base import Analysis, Result, has_collections, has_proxy, searched
from benchmarks.paper.analyses.base import subset as subset
from benchmarks.paper.plan import LANGUAGES, MAIN, Group
from benchmarks.paper.results import Json, folded, paper_table


def _both(
    name: str, run: Callable[..., Json], section: Callable[..., Iterator[str]], printed: str = ""
) -> Iterator[Analysis]:
    """Of UEC, and of UEC.paper."""
    yield Analysis(name, run, section, has_collections, printed)
    yield Analysis(f"{name} of UEC.paper", partial(run, paper=True), section, has_collections)


def _overlap(name: str) -> Analysis:
    return Analysis(
        f"overlap of {name}",
        partial(overlap.run, name=name),
        overlap.section,
        lambda groups: name in [group.name for group in groups],
    )


ANALYSES = (
    Analysis("coefficients", fitted.run_coefficients, fitted.section_coefficients, has_collections),
    *_both("similarities", similarities.run, similarities.section, "similarities"),
    Analysis(
        "search times",
        similarities.run_search_times,
        similarities.section_search_times,
        lambda groups: bool(searched(groups[0])),
    ),
    *_both("ablation", variations.run_ablation, variations.section_ablation, "ablation"),
    *_both("sensitivity", variations.run_sensitivity, variations.section_sensitivity),
    Analysis("challenging case", challenge.run, challenge.section, has_collections),
    Analysis("calibration", calibration.run, calibration.section, has_proxy),
    Analysis("layers", layers.run, layers.section, has_proxy),
    Analysis("theory", theorems.run, theorems.section),
    _overlap(MAIN),
    _overlap(LANGUAGES),
    Analysis("fit", fitted.run_fit, fitted.section_fit),
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
