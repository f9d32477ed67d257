"""A run's results: one JSON file each, so that a killed run continues, and tables of them."""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.tables import markdown
from uec_rag.base.files import read_json, replace_file

Json = dict[str, object]

_SETTINGS = "settings.json"


class Results:
    """A folder of results, keyed by parts of a path.

    Parameters
    ----------
    folder : path
    settings : dict
        What the results follow from: JSON-able.

    Raises
    ------
    ValueError
        If the folder holds results of other settings.
    """

    def __init__(self, folder: str | os.PathLike[str], settings: Json) -> None:
        self.folder = Path(folder)
        found = self.folder / _SETTINGS
        if found.is_file() and (old := read_json(found)) != _plain(settings):
            differ = sorted(key for key in {*old, *settings} if old.get(key) != settings.get(key))
            raise ValueError(
                f"--out: {str(self.folder)!r} holds a run with other settings ({differ}); choose "
                "another folder, or remove it."
            )
        self.write_to(found, settings)

    def get(self, *key: str) -> Json | None:
        """Return a result, or None where it is not there yet."""
        file = self._file(key)
        return read_json(file) if file.is_file() else None

    def put(self, value: Json, *key: str) -> None:
        """Keep a result."""
        self.write_to(self._file(key), value)

    def write_to(self, file: Path, value: Json) -> None:
        """Write JSON in one rename: a killed run leaves the whole file or none."""
        file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_plain(value), ensure_ascii=False, indent=1, allow_nan=False)
        replace_file(file, text)

    def _file(self, key: tuple[str, ...]) -> Path:
        *folders, name = (re.sub(r"[^\w.+-]+", "_", part) for part in key)
        return self.folder.joinpath("results", *folders, f"{name}.json")


def _plain(value: object) -> object:
    """JSON has no NaN: a number that is not there is null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


_NAMES = read_json(Path(__file__).parent / "report.json")
METRICS: dict[str, str] = _NAMES["metrics"]
"""How metrics are written. All are shown in per cent but Var-ECE, where less is better."""

_PLAIN = {"var_ece"}
_SYSTEMS: dict[str, str] = _NAMES["systems"]
"""System -> the name that the paper has for it."""
_MEMBERS = {"bge": "BGE", "e5": "E5", "gte": "GTE"}
_SAME_DATA = {
    "belebele_en": ("retrieval", "Belebele"),
    "poem_sentiment": ("classification", "Poem"),
    "stsb_en": ("sts", "STSB"),
}


@dataclass(frozen=True)
class PaperTable:
    """One table as the paper prints it: percentages, on its own data sets and models.

    BGE, E5 and GTE are base models there (768 dimensions); ours are what a run is given, so only
    differences between systems compare.

    Attributes
    ----------
    title : str
    columns : tuple of str
        Systems, or metrics.
    rows : dict
        (data set or setting, metric or "") -> one number per column.
    """

    title: str
    columns: tuple[str, ...]
    rows: dict[tuple[str, str], tuple[float, ...]]


@cache
def paper_tables() -> dict[str, PaperTable]:
    """Read the paper's tables by name ("Uncertainty-driven Embedding Convolution", ICLR 2026)."""
    found: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    titles = {}
    with (Path(__file__).parent / "paper_numbers.csv").open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            titles[line["table"]] = line["title"]
            row = found.setdefault(line["table"], {}).setdefault((line["row"], line["metric"]), {})
            row[line["column"]] = float(line["value"])
    return {
        name: PaperTable(
            titles[name],
            tuple(next(iter(rows.values()))),
            {key: tuple(row.values()) for key, row in rows.items()},
        )
        for name, rows in found.items()
    }


def paper_rows(name: str) -> dict[str, tuple[float, ...]]:
    """Rows of one of the paper's tables that has one metric a column."""
    return {row: numbers for (row, _), numbers in paper_tables()[name].rows.items()}


@dataclass(frozen=True)
class Cell:
    """One measurement.

    Attributes
    ----------
    metrics : dict
        Metric -> value, None where it is not a number. Empty where measuring failed.
    error : str
    not_applicable : str
        Why the system has no part in this task.
    chosen : str
        Which candidate the task chose.
    """

    metrics: Mapping[str, float | None]
    error: str = ""
    not_applicable: str = ""
    chosen: str = ""

    @classmethod
    def of(cls, result: Json) -> Cell:
        """Read a result."""
        metrics = result.get("metrics")
        return cls(
            metrics if isinstance(metrics, dict) else {},
            str(result.get("error") or ""),
            str(result.get("not_applicable") or ""),
            str(result.get("chosen") or ""),
        )


Grid = Mapping[str, Mapping[str, Cell]]
"""Data set -> system -> what was measured."""


def system_table(
    grid: Grid, systems: Sequence[str], metrics: Sequence[str], members: Sequence[str]
) -> str:
    """One line per data set and metric, one column per system, as the paper's tables.

    The best of a line is bold. "oracle" is the member that is best on the set; no one could have
    known. Where the paper has the same data set its figures stand below ours.

    Parameters
    ----------
    grid : Grid
    systems : sequence of str
    metrics : sequence of str
    members : sequence of str
        The systems that are one encoder alone.
    """
    columns = [*systems, "oracle"]
    lines = []
    for name, cells in grid.items():
        for metric in metrics:
            values = [_value(cells.get(system), metric) for system in systems]
            values.append(_oracle(cells, metrics[0], metric, members))
            failed = [bool((cell := cells.get(s)) and cell.error) for s in systems] + [False]
            lines.append([name, METRICS[metric], *_written(values, metric, failed)])
            if (paper := _paper_line(name, metric, columns)) is not None:
                lines.append([f"{name} (paper)", METRICS[metric], *paper])
    if len(grid) > 1:
        lines += [_average_line(grid, systems, metric, metrics[0], members) for metric in metrics]
    return markdown(["Data set", "Metric", *columns], lines)


def paper_table(name: str) -> str:
    """One of the paper's own tables, as printed."""
    table = paper_tables()[name]
    lines = [
        [*filter(None, key), *(f"{number:.2f}" for number in numbers)]
        for key, numbers in table.rows.items()
    ]
    head = ["", ""] if any(metric for _, metric in table.rows) else [""]
    return f"{table.title}, its own data sets and models:\n\n" + markdown(
        [*head, *table.columns], lines
    )


def folded(text: str) -> str:
    """Hide the paper's table until it is clicked on."""
    return f"<details><summary>The paper's table</summary>\n\n{text}\n</details>"


def averages(grid: Grid, systems: Sequence[str], metric: str) -> dict[str, float]:
    """Mean of a metric over the data sets, for the systems that have it on all of them."""
    means = {}
    for system in systems:
        values = [_value(cells.get(system), metric) for cells in grid.values()]
        if values and np.isfinite(values).all():
            means[system] = float(np.mean(values))
    return means


def failures(grid: Grid) -> list[str]:
    """What failed or does not apply, each reason once, with the sets it concerns."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, cells in grid.items():
        for system, cell in cells.items():
            if cell.error:
                reason = f"failed: {cell.error}"
            elif cell.not_applicable:
                reason = f"is not applicable: {cell.not_applicable}"
            else:
                continue
            found.setdefault((system, reason), []).append(name)
    return [
        f"- {system} ({'all sets' if len(names) == len(grid) else ', '.join(names)}) {reason}"
        for (system, reason), names in found.items()
    ]


def _value(cell: Cell | None, metric: str) -> float:
    value = cell.metrics.get(metric) if cell is not None else None
    return float("nan") if value is None else float(value)


def _oracle(cells: Mapping[str, Cell], main: str, metric: str, members: Sequence[str]) -> float:
    known = [m for m in members if np.isfinite(_value(cells.get(m), main))]
    if not known:
        return float("nan")
    return _value(cells[max(known, key=lambda m: _value(cells[m], main))], metric)


def _average_line(
    grid: Grid, systems: Sequence[str], metric: str, main: str, members: Sequence[str]
) -> list[str]:
    means = averages(grid, systems, metric)
    oracle = [_oracle(cells, main, metric, members) for cells in grid.values()]
    values = [means.get(system, float("nan")) for system in systems] + [float(np.mean(oracle))]
    written = _written(values, metric, [False] * len(values))
    return ["**Average**", METRICS[metric], *written]


def _written(values: Sequence[float], metric: str, failed: Sequence[bool]) -> list[str]:
    """Numbers of a line; the best is bold, the oracle (last) does not compete."""
    scale, digits = (1.0, 4) if metric in _PLAIN else (100.0, 2)
    rounded = [round(scale * value, digits) for value in values]
    known = [value for value in rounded[:-1] if np.isfinite(value)]
    best = (min if metric in _PLAIN else max)(known, default=None)
    out = []
    for index, value in enumerate(rounded):
        if not np.isfinite(value):
            out.append("failed" if failed[index] else "–")
        else:
            text = f"{value:.{digits}f}"
            bold = value == best and index < len(rounded) - 1
            out.append(f"**{text}**" if bold else text)
    return out


def _paper_line(name: str, metric: str, columns: Sequence[str]) -> list[str] | None:
    table, row = _same_data(name)
    if table is None or (numbers := table.rows.get((row, METRICS[metric]))) is None:
        return None
    printed = dict(zip(table.columns, numbers, strict=True))
    found = [printed.get(_SYSTEMS.get(column) or _member(column)) for column in columns]
    return ["" if number is None else f"{number:.2f}" for number in found]


def _same_data(name: str) -> tuple[PaperTable | None, str]:
    if name in _SAME_DATA:
        table, row = _SAME_DATA[name]
        return paper_tables()[table], row
    family, _, language = name.partition("_")
    if family == "semrel24":
        return paper_tables()["multilingual_sts"], language.capitalize()
    return None, ""


def _member(column: str) -> str:
    return next((ours for start, ours in _MEMBERS.items() if column.startswith(start)), "")
