"""Conversion between LangChain documents and passages, and from messages to turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.utils import convert_to_messages

from uec_rag.base.errors import warn
from uec_rag.base.text import headings_of, is_heading
from uec_rag.retrieval import SearchResult
from uec_rag.retrieval.hits import HitMetadata, as_json, own_metadata
from uec_rag.retrieval.query import turns_of
from uec_rag.stores.passage import Passage, content_id

Question: TypeAlias = str | Mapping[str, Any]
"""A question, or a mapping with a "question" or "input", and "chat_history" or "history"."""


def to_document(passage: Passage) -> Document:
    """Convert a passage to a document, without what a search adds to its metadata."""
    metadata = own_metadata(passage.metadata)  # others may have written to the store
    return Document(id=passage.id, page_content=passage.text, metadata=metadata)


def passages_of(documents: Sequence[Document]) -> list[Passage]:
    """Convert documents of another store to passages; langchain-qdrant has ids in the metadata."""
    passages = []
    for document in documents:
        text, metadata = document.page_content, document.metadata
        id_ = document.id or metadata.get("_id")
        id_ = content_id(text, metadata) if id_ is None else str(id_)
        passages.append(Passage(id_, text, as_json(metadata)))
    return passages


def plain_document(document: Document) -> Document:
    """Return a document of LangChain's own class, whose metadata are JSON values."""
    made = Document(id=document.id, page_content=document.page_content)
    metadata = as_json(document.metadata)
    kind = HitMetadata if isinstance(document.metadata, HitMetadata) else dict
    made.metadata = kind(metadata)  # the constructor would convert it to a plain dict
    return made


def with_uncertainty(result: SearchResult, details: bool = False) -> list[Document]:
    """Convert the hits of one query to documents, with the keys of `Result.metadata`."""
    [found] = result
    documents = []
    for rank, hit in enumerate(found.passages):
        document = Document(id=hit.id, page_content=hit.text)
        # The constructor would convert it to a plain dict.
        document.metadata = HitMetadata(hit.metadata | found.metadata(rank, details))
        documents.append(document)
    return documents


def without_text(texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the positions of texts to leave out, with a warning that names blank ones.

    Loaders produce blank documents for blank pages, which must not interrupt LangChain's `index`. A
    splitter of HTML also makes a document of each heading alone; it is left out if another has the
    text below the heading.
    """
    blank = {position for position, text in enumerate(texts) if not text.strip()}
    if blank:
        sources = ", ".join(repr(metadatas[position].get("source")) for position in sorted(blank))
        warn(f"documents: {len(blank)} without text are left out, from {sources}.")
    paths = [tuple(headings_of(metadata)) for metadata in metadatas]
    pairs = zip(metadatas, texts, strict=True)
    bare = {position for position, pair in enumerate(pairs) if is_heading(*pair)}
    above = {
        path[:depth]
        for position, path in enumerate(paths)
        if position not in bare
        for depth in range(len(path) + 1)
    }
    return blank | {position for position in bare if paths[position] in above}


def question_and_history(question_input: object, history: object = None) -> tuple[str, object]:
    """Extract the question and its history, which `turns` checks, from the input of a chain.

    `history`: overrides the "chat_history" or "history" of a mapping. TypeError if there is no
    question.
    """
    question: object = question_input
    if isinstance(question_input, Mapping):
        if "filter" in question_input:
            raise TypeError(
                "input: expected the filter as a keyword, invoke(question, filter={...}), or in "
                'search_kwargs; the "filter" of a mapping would select nothing.'
            )
        question = question_input.get("question", question_input.get("input"))
        if history is None:
            history = question_input.get("chat_history", question_input.get("history"))
    if not isinstance(question, str):
        raise TypeError(
            'input: expected a question, a string, or a mapping with a string "question" or '
            f'"input", got {question_input!r:.80}.'
        )
    return question, history


def turns(history: object) -> list[str]:
    """Extract the turns that a question is searched with, as `turns_of` does.

    Only the texts of messages are used. Strings are always kept.

    `history`: messages, tuples or dicts that LangChain converts to messages, strings, or None.
    TypeError if it has another type.
    """
    if history is None:
        return []
    if isinstance(history, str | Mapping | BaseMessage) or not isinstance(history, Sequence):
        raise TypeError(
            f"history: expected a list of messages or strings, oldest first, got {history!r:.60}."
        )
    messages = convert_to_messages(history)
    return turns_of((_speaker(message), message.text) for message in messages)


def _speaker(message: BaseMessage) -> str:
    if isinstance(message, HumanMessage):
        return "user"
    return "assistant" if isinstance(message, AIMessage) else message.type
