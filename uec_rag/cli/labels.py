"""Labels of a table, as `gate` and `evaluate` look for them in an index."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from uec_rag.base.checks import pluralize
from uec_rag.cli.console import note
from uec_rag.documents.labels import Labels, find_labels

if TYPE_CHECKING:
    from uec_rag.retrieval import Retriever


def find_noted(asked: Mapping[str, Collection[str]], retriever: Retriever, table: str) -> Labels:
    """Find what labels name in an index; note what is gone, or has changed since its gate was made.

    `table`: name of the table of the labels.
    """
    labels = find_labels(asked, retriever.passages(), table)
    if labels.gone:
        note(
            f"{table}: {pluralize(len(labels.gone), 'label')} not in the index, first "
            f"{labels.gone[0]!r}; questions without another answer are left out"
        )
    before: Mapping[str, str] = {}
    with suppress(ValueError):  # the gate is damaged
        before = getattr(retriever.gate, "labels", {})
    changed = sorted(n for n, text in labels.digests.items() if before.get(n, text) != text)
    if changed:
        note(
            f"{table}: {pluralize(len(changed), 'label')} whose passages have changed since the "
            f"gate was made, first {changed[0]!r}; check that they still answer"
        )
    return labels
