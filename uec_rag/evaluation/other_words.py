"""The worth of the questions beside passages: an index beside its copy without them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from uec_rag.base.text import QUESTION_KEYS, questions_in, telling_words
from uec_rag.confidence.model import JUDGED
from uec_rag.encoders.lexical import keys_of, stem_of, term_key, written_words
from uec_rag.index.retriever import Retriever
from uec_rag.questions.languages import ENGLISH, function_words, language_of
from uec_rag.retrieval.results import SearchResult
from uec_rag.stores.local import LocalStore, View
from uec_rag.stores.local.store import copy_view
from uec_rag.stores.passage import Passage

_HALF = 0.5  # of a question's content, which a passage has whose words it uses


def with_passages(retriever: Retriever, passages: Sequence[Passage]) -> Retriever | None:
    """Return a copy of an index in memory, with other passages in the place of those of their ids.

    None if its passages are in an engine or in a store of somebody else.
    """
    view = retriever.snapshot()
    if not isinstance(view.store, View):
        return None
    store = LocalStore()
    copy_view(view.store, store, {})
    options = {"fit": False, "tenant_required": retriever.tenant_required}
    twin = Retriever(view.uec.with_cache(), store, language=retriever.language, **options)
    twin.calibration, twin.gate = retriever.calibration, retriever.gate
    twin.usual_filter, twin.usual_tenant = retriever.usual_filter, retriever.usual_tenant
    if passages:
        texts, ids, metadatas = zip(*((p.text, p.id, p.metadata) for p in passages), strict=True)
        twin.add(texts, ids, metadatas)
    return twin


def without_questions(passage: Passage) -> Passage:
    """Return a passage without questions and names beside its text."""
    metadata = {key: v for key, v in passage.metadata.items() if key not in QUESTION_KEYS}
    return replace(passage, metadata=metadata)


def is_in_other_words(question: str, passages: Sequence[Passage]) -> bool:
    """Return whether no passage has half of the content of a question in its text.

    Examples
    --------
    >>> pets = Passage("pets", "Animals are welcome in all rooms.")
    >>> [is_in_other_words(q, [pets]) for q in ("May my cat stay?", "In which rooms are animals?")]
    [True, False]
    """
    language = language_of(question) or ENGLISH
    words = telling_words(written_words(question), function_words(language))
    keys = {term_key(stem_of(word)) for word in words}
    texts = ({*keys_of(passage.with_source).tolist()} for passage in passages)
    return bool(keys) and all(len(keys & text) < _HALF * len(keys) for text in texts)


def compare_without(
    retriever: Retriever, labels: Mapping[str, Collection[str]], result: SearchResult
) -> dict[str, Any] | None:
    """Compare what is found for labelled questions in other words, with and without questions.

    Parameters
    ----------
    retriever : Retriever
    labels : mapping of str to collection of str
        The ids of the passages that answer each question.
    result : SearchResult
        Of these questions.

    Returns
    -------
    dict or None
        The number of "questions" that are in other words than the passages which answer them, and
        of "hits" that are looked at; of "with" and "without", for how many questions an answer is
        "found" among these hits, and how many of those are "handed_over": answered, or uncertain.
        None if no passage has questions, none of the questions is in other words, or the store is
        elsewhere.
    """
    holders = [p for p in retriever.passages() if questions_in(p.metadata)]
    rows = [
        row
        for row, (question, ids) in enumerate(labels.items())
        if ids and is_in_other_words(question, retriever.get([*ids]))
    ]
    twin = (
        with_passages(retriever, [*map(without_questions, holders)]) if holders and rows else None
    )
    if twin is None:
        return None
    questions, answers = [*labels], [{*ids} for ids in labels.values()]
    before = twin.search([questions[row] for row in rows], JUDGED)
    after = SearchResult([result[row] for row in rows])
    relevant = [answers[row] for row in rows]
    return {
        "questions": len(rows),
        "hits": JUDGED,
        "with": _counts(after, relevant),
        "without": _counts(before, relevant),
    }


def _counts(results: SearchResult, relevant: Sequence[set[str]]) -> dict[str, int]:
    hits = [
        result.decision
        for result, ids in zip(results, relevant, strict=True)
        if any(result.finds(ids)[:JUDGED])
    ]
    near = sum(decision.code in ("answered", "uncertain") for decision in hits)
    return {"found": len(hits), "handed_over": near}
