"""The report of a run: tables, figures, and one file with every number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.paper import plots
from benchmarks.paper.analyses import analysis_sections
from benchmarks.paper.analyses.base import image
from benchmarks.paper.plan import LANGUAGES, MAIN
from benchmarks.paper.results import (
    METRICS,
    Cell,
    Grid,
    Json,
    Results,
    averages,
    failures,
    folded,
    markdown,
    paper_table,
    system_table,
)
from uec_rag.base.files import read_json

_FOLDER = Path(__file__).parent
_TASKS = read_json(_FOLDER / "report.json")["tasks"]
"""Kind of task -> its title, a note on its figures, and the paper's tables of it."""


def write_report(results: Results, left_out: Sequence[str] = ()) -> Path:
    """Write ``report.md``, ``results.json`` and the figures from the results of a run.

    Parameters
    ----------
    results : Results
    left_out : sequence of str
        What was not measured for want of data, in words.

    Returns
    -------
    path
        Of the report.
    """
    everything = _collect(results)
    results.write_to(results.folder / "results.json", everything)
    introduction = (_FOLDER / "introduction.md").read_text(encoding="utf-8")
    parts = ["# Evaluation", introduction, _setting(everything)]
    if left_out:
        parts.append("Not measured: " + "; ".join(left_out) + ".")
    for kind in _TASKS:
        parts += _task_section(everything, MAIN, kind, results.folder)
    if LANGUAGES in everything["settings"]:
        parts += _language_section(everything, results.folder)
    parts += analysis_sections(everything["analysis"], results.folder)
    parts += _time_section(everything)
    path = results.folder / "report.md"
    path.write_text("\n\n".join(part.strip() for part in parts if part) + "\n", encoding="utf-8")
    return path


def _collect(results: Results) -> dict[str, Any]:
    settings = read_json(results.folder / "settings.json")
    groups: dict[str, dict[str, dict[str, dict[str, Json]]]] = {}
    for group, setting in settings.items():
        for task in setting["tasks"]:
            kind, name = task["kind"], task["name"]
            for system, _ in setting["systems"]:
                found = results.get(group, kind, name, system)
                if found is not None:
                    cells = groups.setdefault(group, {}).setdefault(kind, {})
                    cells.setdefault(name, {})[system] = found
    folder = results.folder / "results" / "analysis"
    analysis = {
        str(value.pop("name", file.stem)): value
        for file in sorted(folder.glob("*.json"))
        for value in [read_json(file)]
    }
    return {"settings": settings, "groups": groups, "analysis": analysis}


def _setting(everything: dict[str, Any]) -> str:
    lines = []
    for group, setting in everything["settings"].items():
        names = ", ".join(name for name, _ in setting["encoders"])
        what = "Language-specialised encoders" if group == LANGUAGES else "Encoders"
        lines.append(f"{what}: {names}. Fitted on {setting['pairs']:,} pairs of other data sets.")
    return "\n".join(lines)


def _task_section(everything: dict[str, Any], group: str, kind: str, folder: Path) -> Iterator[str]:
    grid, systems, members, metrics = _grid(everything, group, kind)
    if not grid:
        return
    yield f"## {_TASKS[kind]['title']}"
    yield _TASKS[kind]["note"]
    yield system_table(grid, systems, metrics, members)
    yield _failed(grid)
    if kind == "retrieval":
        figure = folder / "retrieval.png"
        yield _retrieval_figure(grid, systems, figure)
    for name in _TASKS[kind]["paper_tables"]:
        yield folded(paper_table(name))


def _language_section(everything: dict[str, Any], folder: Path) -> Iterator[str]:
    grid, systems, members, metrics = _grid(everything, LANGUAGES, "retrieval")
    yield "## Language-specialised models"
    yield (
        "Each language's questions are put to passages of the same language; the members know "
        "some languages only (the paper's MIRACL subset, on XQuAD). Every posterior is fitted on "
        "the pairs of all languages."
    )
    yield system_table(grid, systems, [m for m in metrics if m != "recall100"], members)
    yield _failed(grid)
    yield _language_figure(grid, systems, folder / "languages.png")
    yield folded(paper_table("miracl"))


def _time_section(everything: dict[str, Any]) -> Iterator[str]:
    systems: dict[str, float] = {}
    for kinds in everything["groups"].values():
        for cells in (cells for grid in kinds.values() for cells in grid.values()):
            for system, found in cells.items():
                systems[system] = systems.get(system, 0.0) + float(str(found.get("seconds", 0)))
    analyses = {
        n: float(str(found.get("seconds", 0))) for n, found in everything["analysis"].items()
    }
    yield "## Time"
    yield (
        f"Systems took {sum(systems.values()):.0f} s on all tasks, analyses "
        f"{sum(analyses.values()):.0f} s, each with what it fits, tunes and loads when it is first "
        "asked for; embedding ahead is not counted."
    )
    longest = sorted((systems | analyses).items(), key=lambda item: -item[1])
    yield markdown(
        ["", "seconds"], [[n, f"{seconds:.1f}"] for n, seconds in longest if seconds >= 1]
    )


def _grid(
    everything: dict[str, Any], group: str, kind: str
) -> tuple[dict[str, dict[str, Cell]], list[str], list[str], list[str]]:
    """Cells of a table, its systems, which of them are members, and its metrics."""
    found = everything["groups"].get(group, {}).get(kind, {})
    grid = {
        name: {system: Cell.of(result) for system, result in cells.items()}
        for name, cells in found.items()
    }
    setting = everything["settings"][group]
    present = {system for cells in grid.values() for system in cells}
    systems = [system for system, _ in setting["systems"] if system in present]
    members = [name for name, _ in setting["encoders"]]
    metrics: list[str] = next(
        (task["metrics"] for task in setting["tasks"] if task["kind"] == kind), []
    )
    return grid, systems, members, [metric for metric in METRICS if metric in metrics]


def _failed(grid: dict[str, dict[str, Cell]]) -> str:
    return "\n".join(failures(grid))


def _retrieval_figure(grid: Grid, systems: Sequence[str], path: Path) -> str:
    """Draw mean nDCG@10 and AUC@10 of every system that has both."""
    names = {"ndcg10": "nDCG@10", "auc10": "AUC@10"}
    means = {metric: averages(grid, systems, metric) for metric in names}
    kept = [system for system in systems if all(system in found for found in means.values())]
    if not kept:
        return ""
    series = {label: [means[metric][system] for system in kept] for metric, label in names.items()}
    title = "Means over the collections"
    plots.bars(path, kept, series, title)
    return image(title, path)


def _language_figure(grid: Grid, systems: Sequence[str], path: Path) -> str:
    """Draw nDCG@10 of every system in each language (paper figure 3)."""
    kept = [s for s in systems if all(_ndcg(cells.get(s)) is not None for cells in grid.values())]
    if not kept:
        return ""
    series = {
        name: [_ndcg(cells[system]) or 0.0 for system in kept] for name, cells in grid.items()
    }
    plots.bars(path, kept, series, "nDCG@10")
    return image("nDCG@10 by language", path)


def _ndcg(cell: Cell | None) -> float | None:
    return None if cell is None else cell.metrics.get("ndcg10")
