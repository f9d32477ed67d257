"""LangChain's documents on one side, passages on the other."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from langchain_core.documents import Document

from uec_rag.base.checks import check_texts
from uec_rag.base.gaussian import FloatArray
from uec_rag.retrieval import SearchResult
from uec_rag.stores.base import Filter, Passage

DocumentFilter: TypeAlias = Mapping[str, Any] | Callable[[Document], bool]
"""Metadata values that must be equal, or a predicate on the document."""


class Added(TypedDict):
    """What `Retriever.add` takes."""

    texts: list[str]
    ids: Sequence[str] | None
    metadatas: list[dict[str, Any]] | None


def to_document(passage: Passage, extra: Mapping[str, Any] | None = None) -> Document:
    """Make a document that can be changed without changing what is stored.

    Parameters
    ----------
    passage : Passage
    extra : mapping, optional
        More metadata.
    """
    metadata = copy.deepcopy(passage.metadata) | dict(extra or {})
    return Document(id=passage.id, page_content=passage.text, metadata=metadata)


def to_documents(passages: Sequence[Passage]) -> list[Document]:
    """Make a document of each passage."""
    return [to_document(passage) for passage in passages]


def with_numbers(passages: Sequence[Passage], numbers: FloatArray) -> list[tuple[Document, float]]:
    """Make a document of each passage, paired with its number."""
    return list(zip(to_documents(passages), numbers.tolist(), strict=True))


def with_uncertainty(result: SearchResult) -> list[Document]:
    """Make documents of the hits of a single query, the `uec_` keys in their metadata."""
    hits = result.passages[0]
    return [to_document(hit, result.metadata(0, rank)) for rank, hit in enumerate(hits)]


def passage_filter(filter: DocumentFilter | None) -> Filter | None:
    """Turn a filter on documents into one on passages.

    Raises
    ------
    TypeError
        If it is neither a mapping nor callable.
    """
    if filter is None or isinstance(filter, Mapping):
        return filter
    if not callable(filter):
        raise TypeError(
            "filter: expected a mapping of metadata values or a callable(Document) -> bool, "
            f"got {type(filter).__name__}."
        )

    def matches(passage: Passage) -> bool:
        metadata = dict(passage.metadata)
        return filter(Document(id=passage.id, page_content=passage.text, metadata=metadata))

    return matches


def from_documents(documents: Iterable[Document], ids: Sequence[str | None] | None) -> Added:
    """Take documents apart; their own ids count where none are given.

    Raises
    ------
    TypeError, ValueError
        If one is not a `Document`, or its text is empty.
    """
    if isinstance(documents, Document):
        raise TypeError("documents: expected a list of Documents, got one; write [document].")
    listed = list(documents)
    for index, document in enumerate(listed):
        if not isinstance(document, Document):
            raise TypeError(
                f"documents[{index}]: expected a Document, got {type(document).__name__} "
                f"{document!r:.60}; for strings there is add_texts."
            )
    return from_texts(
        [document.page_content for document in listed],
        [document.id for document in listed] if ids is None else ids,
        [document.metadata for document in listed],
        argument="documents",
    )


def from_texts(
    texts: Iterable[str],
    ids: Sequence[str | None] | None,
    metadatas: Sequence[Mapping[str, Any]] | None,
    *,
    argument: str = "texts",
) -> Added:
    """Check texts, make up the ids that are None, and copy the metadata.

    Raises
    ------
    TypeError, ValueError
        If a text is empty or not a string.
    """
    checked = check_texts(texts if isinstance(texts, str) else list(texts), argument)
    names: Sequence[str] | None = ids if ids is None or isinstance(ids, str) else _without_gaps(ids)
    copies = None if metadatas is None else [copy.deepcopy(dict(m or {})) for m in metadatas]
    return Added(texts=checked, ids=names, metadatas=copies)


def _without_gaps(ids: Sequence[str | None]) -> list[str]:
    return [uuid.uuid4().hex if name is None else name for name in ids]


def refuse_unknown(kwargs: Mapping[str, Any], method: str, *known: str) -> None:
    """Raise TypeError for a keyword that is not known.

    LangChain's signatures let any keyword through; a misspelt one must not go unnoticed.
    """
    unknown = sorted(set(kwargs) - set(known))
    if unknown:
        raise TypeError(f"{method}() got an unexpected keyword argument {unknown[0]!r}.")
