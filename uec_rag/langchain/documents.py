"""LangChain's documents on one side, passages on the other."""

from __future__ import annotations

import copy
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from langchain_core.documents import Document

from uec_rag.base.checks import check_texts
from uec_rag.base.gaussian import FloatArray
from uec_rag.retrieval import SearchResult
from uec_rag.stores.base import Filter, Passage

DocumentFilter: TypeAlias = Mapping[str, Any] | Callable[[Document], bool]
"""Metadata values that must be equal, or a predicate on the document."""

KEY = "uec_"
"""What the keys begin with that a search writes into a document's metadata."""

PIECE = "uec_passage"
"""Key of the id of the passage that was found, on a larger document that it is a piece of."""


class Added(TypedDict):
    """What `Retriever.add` takes."""

    texts: list[str]
    ids: Sequence[str] | None
    metadatas: list[dict[str, Any]] | None


class FoundMetadata(dict[str, Any]):
    """Metadata of a hit: a dict, equal to another hit's whatever two queries said of them.

    LangChain tells documents apart by all of their metadata, and its `MultiQueryRetriever` keeps of
    equal ones the first. A document that two queries find has other `uec_` values from each, and
    is still one document.

    Examples
    --------
    >>> FoundMetadata(page=1, uec_score=0.8) == FoundMetadata(page=1, uec_score=0.6)
    True
    >>> FoundMetadata(page=1, uec_score=0.8) == {"page": 1}
    False
    """

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FoundMetadata):
            return self._own() == other._own()
        return dict(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def _own(self) -> dict[str, Any]:
        return {key: value for key, value in self.items() if not key.startswith(KEY)}


def to_document(passage: Passage, found: Mapping[str, Any] | None = None) -> Document:
    """Make a document that can be changed without changing what is stored.

    Parameters
    ----------
    passage : Passage
    found : mapping, optional
        What is known of it as a hit.
    """
    metadata = copy.deepcopy(passage.metadata)
    document = Document(id=passage.id, page_content=passage.text, metadata=metadata)
    return document if found is None else annotated(document, found)


def annotated(document: Document, found: Mapping[str, Any]) -> Document:
    """Return a copy of a document that carries what is known of it as a hit."""
    copied = document.model_copy()
    # Set, not given to the constructor, which makes a plain dict of it.
    copied.metadata = FoundMetadata(document.metadata | dict(found))
    return copied


def to_documents(passages: Sequence[Passage]) -> list[Document]:
    """Make a document of each passage."""
    return [to_document(passage) for passage in passages]


def with_numbers(
    documents: Sequence[Document], numbers: FloatArray
) -> list[tuple[Document, float]]:
    """Pair each document with its number."""
    return list(zip(documents, numbers.tolist(), strict=True))


def with_uncertainty(result: SearchResult, row: int = 0) -> list[Document]:
    """Make documents of the hits of one query, the `uec_` keys in their metadata."""
    hits = result.passages[row]
    return [to_document(hit, result.metadata(row, rank)) for rank, hit in enumerate(hits)]


def best_pieces(hits: Sequence[Document], id_key: str) -> dict[str, Document]:
    """The best hit in each larger document, by that document's id; best first."""
    best: dict[str, Document] = {}
    for hit in hits:
        if id_key in hit.metadata:
            best.setdefault(hit.metadata[id_key], hit)
    return best


def larger_documents(
    best: Mapping[str, Document], documents: Sequence[Document | None]
) -> list[Document]:
    """Write on each larger document that is there what is known of its best piece."""
    return [
        annotated(document, _findings(piece))
        for piece, document in zip(best.values(), documents, strict=True)
        if document is not None
    ]


def _findings(piece: Document) -> dict[str, Any]:
    found = {key: value for key, value in piece.metadata.items() if key.startswith(KEY)}
    return found | {PIECE: piece.id}


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


def from_documents(
    documents: Iterable[Document], ids: Sequence[str | None] | None
) -> tuple[Added, list[str]]:
    """Take documents apart; their own ids count where none are given.

    Loaders make blank documents, of blank pages; LangChain's `index` hands on a hundred at a time,
    and one of them must not end it in the middle. They are left out.

    Returns
    -------
    Added
        What is to be added.
    list of str
        Ids of the blank ones that have any: what stood there before is out of date.

    Raises
    ------
    TypeError, ValueError
        If one is not a `Document`, or there is not an id for each.

    Warns
    -----
    UserWarning
        With id and source of each blank document.
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
    if ids is not None and not isinstance(ids, str) and len(ids) != len(listed):
        raise ValueError(f"ids: expected {len(listed)}, one per text, got {len(ids)}.")
    names = [document.id for document in listed] if ids is None or isinstance(ids, str) else ids
    blank = [place for place, document in enumerate(listed) if not document.page_content.strip()]
    if blank:
        listing = ", ".join(
            f"{names[place]!r} from {listed[place].metadata.get('source')!r}" for place in blank
        )
        warnings.warn(
            f"documents: {len(blank)} without text are left out: {listing}.",
            UserWarning,
            stacklevel=3,
        )
    kept = [place for place in range(len(listed)) if place not in set(blank)]
    added = from_texts(
        [listed[place].page_content for place in kept],
        ids if isinstance(ids, str) else [names[place] for place in kept],
        [listed[place].metadata for place in kept],
        argument="documents",
    )
    return added, [name for place in blank if (name := names[place]) is not None]


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
