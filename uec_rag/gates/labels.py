"""Labelled questions: what a calibration and a guarantee are made of, checked."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from uec_rag.base.checks import as_list, check_texts
from uec_rag.base.errors import warn
from uec_rag.stores.base import Searched

FEWEST = 20
"""The smallest number of labelled questions to learn from."""


def check_labels(
    queries: Sequence[str],
    relevant_ids: Sequence[Collection[str]],
    store: Searched,
    minimum: int = FEWEST,
) -> list[frozenset[str]]:
    """Check labelled queries before anything is encoded.

    Returns
    -------
    list of frozenset of str
        Ids of the passages that answer each query; empty if none does.

    Raises
    ------
    TypeError, ValueError
        If there is not one collection of ids per query, an id is not in the index, all collections
        are empty, or there are fewer than `minimum` queries.
    """
    check_texts(queries, "queries")
    if len(relevant_ids) != len(queries):
        raise ValueError(
            f"relevant_ids: expected {len(queries)} collections of ids, one per query, got "
            f"{len(relevant_ids)}."
        )
    answers = [
        frozenset(as_list(ids, f"relevant_ids[{row}]")) for row, ids in enumerate(relevant_ids)
    ]
    union = sorted(frozenset().union(*answers), key=str)
    if not union:
        raise ValueError(
            "relevant_ids: no query has a relevant passage; expected at least one that has. "
            "Queries that the corpus does not answer may be included."
        )
    stored = {passage.id for passage in store.get(union)} if store.can_look_up else {*union}
    if unknown := [id_ for id_ in union if id_ not in stored]:
        raise ValueError(
            f"relevant_ids: {len(unknown)} of {len(union)} ids are not in the index, first "
            f"{unknown[0]!r}; use the ids that `add` returned."
        )
    if len(queries) < minimum:
        raise ValueError(
            f"queries: expected at least {minimum} to calibrate on, got {len(queries)}."
        )
    return answers


def warn_of_lost(store: Searched, answers: Sequence[Collection[str]]) -> None:
    """Warn if a source of candidates has not found some of the passages that are labelled.

    `store`: the view that was searched.
    """
    ids = frozenset[str]().union(*answers)
    if lost := store.missed(ids):
        warn(
            f"{len(lost)} of {len(ids)} labelled passages are not among the candidates that the "
            f"store finds ({store}): no answer can come from these. Ask it for more, by "
            "candidates= of `over`."
        )
