"""What a task is, and how an entry of the report is measured on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from uec_rag.encoders import Role
from uec_rag.paper.systems import System


class Task(Protocol):
    """Something systems are measured on.

    Attributes
    ----------
    kind : str
        Which table it belongs to.
    metrics : tuple of str
        What `evaluate` returns, the metric that candidates are chosen by first.
    name : str
        Of the data.
    small : bool
        Whether systems with a model of their own are measured on it too.
    """

    kind: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def small(self) -> bool: ...  # noqa: D102

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Every list of texts that is embedded, with its role."""
        ...

    def evaluate(self, system: System) -> dict[str, float]:
        """Measure a system."""
        ...

    def selection(self, system: System) -> float:
        """Measure what candidates are chosen by, quickly."""
        ...


def evaluate(task: Task, built: System | Sequence[System]) -> tuple[dict[str, float], str]:
    """Measure a system, or the candidate that is best on the task itself.

    Returns
    -------
    metrics : dict
    chosen : str
        Name of the candidate; empty where there was nothing to choose.
    """
    if isinstance(built, System):
        return task.evaluate(built), ""
    best = max(built, key=task.selection)
    return task.evaluate(best), best.name
