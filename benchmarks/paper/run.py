"""The run: every system on every task, then the analyses; each result is kept at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.paper.analyses import analyses
from benchmarks.paper.plan import Group
from benchmarks.paper.report import write_report
from benchmarks.paper.results import Json, Results
from benchmarks.paper.systems import Entry, NotApplicable
from benchmarks.paper.tasks import Task, evaluate
from uec_rag.base.progress import progress_bar

_AT_ONCE = 128  # texts between two steps of the progress bar


@dataclass(frozen=True)
class _Job:
    key: tuple[str, ...]
    label: str
    work: Callable[[], Json]


def run(groups: Sequence[Group], out: Path) -> Path:
    """Measure everything that `out` does not hold yet, then write the report.

    Parameters
    ----------
    groups : sequence of Group
        The main one first.
    out : path
        Gets ``results/``, ``results.json``, ``report.md`` and the figures.

    Returns
    -------
    path
        Of the report.

    Raises
    ------
    ValueError
        If `out` holds a run with other settings.
    """
    results = Results(out, {group.name: _settings(group) for group in groups})
    for group in groups:
        _embed_ahead(group)
    jobs = [job for job in _jobs(groups) if results.get(*job.key) is None]
    with progress_bar("Measuring", len(jobs)) as bar:
        for job in jobs:
            bar.name = f"Measuring {job.label}"
            results.put({"name": job.key[-1]} | job.work(), *job.key)
            bar.update()
    return write_report(results, groups[0].plan.left_out)


def _settings(group: Group) -> Json:
    plan = group.plan
    return {
        "encoders": [[e.name, e.revision] for e in group.lineup.encoders],
        "systems": [[entry.name, entry.family] for entry in group.lineup.entries()],
        "tasks": [
            {
                "kind": task.kind,
                "name": task.name,
                "metrics": list(task.metrics),
                "texts": [[role, len(texts)] for role, texts in task.texts()],
            }
            for task in plan.tasks
        ],
        "pairs": len(plan.pairs),
        "proxy": len(plan.proxy),
    }


def _embed_ahead(group: Group) -> None:
    """Bring all texts into the encoders' caches, long ones first: the bar only gets faster."""
    wanted = [
        (role, text)
        for role, texts in group.plan.texts().items()
        for text in sorted(texts, key=len, reverse=True)
    ]
    for encoder in group.lineup.encoders:
        with progress_bar(f"Embedding with {encoder.name}", len(wanted)) as bar:
            for role in ("query", "passage"):
                own = [text for r, text in wanted if r == role]
                for start in range(0, len(own), _AT_ONCE):
                    some = own[start : start + _AT_ONCE]
                    encoder.encode(some, role)
                    bar.update(len(some))


def _jobs(groups: Sequence[Group]) -> Iterator[_Job]:
    for group in groups:
        entries = group.lineup.entries()
        for task in group.plan.tasks:
            for entry in entries:
                if task.small or not entry.costly:
                    yield _Job(
                        (group.name, task.kind, task.name, entry.name),
                        f"{entry.name} on {task.name}",
                        partial(_measure, task, entry),
                    )
    for name, work in analyses(groups).items():
        yield _Job(("analysis", name), name, partial(_guarded, work))


def _measure(task: Task, entry: Entry) -> Json:
    def work() -> Json:
        metrics, chosen = evaluate(task, entry.build())
        return {"metrics": metrics, "chosen": chosen}

    return _guarded(work)


def _guarded(work: Callable[[], Json]) -> Json:
    """Run; what fails keeps its place in the report, with the error's text."""
    start = time.perf_counter()
    try:
        value = work()
    except NotApplicable as error:
        value = {"not_applicable": str(error)}
    except Exception as error:
        text = " ".join(str(error).split())
        value = {"error": f"{type(error).__name__}: {text}"}
    return value | {"seconds": time.perf_counter() - start}
