"""Labels of a table, as `gate` and `evaluate` look for them in an index."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from uec_rag.base.checks import pluralize
from uec_rag.cli.console import note
from uec_rag.documents.labels import Labels, find_labels

if TYPE_CHECKING:
    from uec_rag.retrieval import Retriever


def find_noted(asked: Mapping[str, Collection[str]], retriever: Retriever, table: str) -> Labels:
    """Find what labels name in an index; note what is gone.

    `table`: name of the table of the labels.
    """
    labels = find_labels(asked, retriever.passages(), table)
    if labels.gone:
        note(
            f"{table}: {pluralize(len(labels.gone), 'label')} not in the index, first "
            f"{labels.gone[0]!r}; questions without another answer are left out"
        )
    return labels
