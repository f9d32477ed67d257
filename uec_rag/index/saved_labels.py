"""The labels of an index in its folder: which passages answer a question, of all or of a tenant."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from uec_rag.base.checks import check_text
from uec_rag.stores.base import Filter
from uec_rag.stores.filters import normal_form, without_mark
from uec_rag.stores.local import LocalStore

LABELS, _LABELS_OF = "labels", "labels_of_tenants"
ALL_LABELS = (LABELS, _LABELS_OF)
"""The settings that have labels: those of no tenant, and those of each one."""


def check_label(
    question: str, ids: Sequence[str], there: Collection[str], folder: Path | None
) -> None:
    """Check a label before it is written, see `Retriever.label`.

    `there`: the ids of those that are in the index.
    """
    check_text(question, "question")
    if unknown := [id_ for id_ in ids if id_ not in there]:
        raise ValueError(
            f"relevant_ids: expected ids of passages in the index, got {unknown[0]!r:.100}; "
            "pass [] if nothing in the index answers the question."
        )
    if folder is None:
        raise ValueError("label: the index has no folder; save it first.")


def read_labels(home: LocalStore, tenant: Filter | None = None) -> dict[str, dict[str, str]]:
    """Return the labels of an index, or of one of its tenants, as they were given.

    Of each question, the ids of the passages that answer it, with the hashes of their texts.
    """
    if tenant is None:
        return home.settings.get(LABELS) or {}
    rows: dict[str, dict[str, dict[str, str]]] = home.settings.get(_LABELS_OF) or {}
    return rows.get(_name_of(tenant), {})


def labels_alone(settings: Mapping[str, Any], tenant: Filter | None = None) -> dict[str, Any]:
    """Return the settings that have labels: those of all, or of a tenant alone."""
    values = {name: settings.get(name) for name in ALL_LABELS}
    if tenant is None:
        return values
    form = normal_form(tenant)
    labels = {name: rows for name, rows in (values[_LABELS_OF] or {}).items() if name == form}
    return {LABELS: None, _LABELS_OF: labels}


def all_labels(home: LocalStore) -> list[dict[str, dict[str, str]]]:
    """Return the labels of no tenant and those of each one, as `read_labels` does."""
    return [read_labels(home), *(home.settings.get(_LABELS_OF) or {}).values()]


def _name_of(tenant: Filter) -> str:
    """Return the text by which the labels of a tenant are found again; TypeError of a function."""
    if not (name := normal_form(tenant)):
        tenant = without_mark(tenant)
        raise TypeError(f"tenant: expected a mapping, whose labels are saved, got {tenant!r:.60}.")
    return name


def write_label(
    home: LocalStore, question: str, hashes: Mapping[str, str] | None, tenant: Filter | None = None
) -> None:
    """Label a question in place of what it had; None removes its label.

    `hashes`: those of the texts that answer it, by id. `tenant`: whose label it is.
    """
    with home.changing():
        rows = read_labels(home, tenant)
        labels: dict[str, Any] = {text: row for text, row in rows.items() if text != question}
        labels |= {} if hashes is None else {question: dict(sorted(hashes.items()))}
        if tenant is None:
            home.change_settings({LABELS: labels})
        else:
            by_tenant = home.settings.get(_LABELS_OF) or {}
            home.change_settings({_LABELS_OF: {**by_tenant, _name_of(tenant): labels}})
