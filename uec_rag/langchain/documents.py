"""Conversion between LangChain documents and passages, and from messages to turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from langchain_core.callbacks import BaseRunManager
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ChatMessage, HumanMessage
from langchain_core.messages.utils import convert_to_messages

from uec_rag.base.checks import as_list, check_documents, did_you_mean
from uec_rag.base.errors import warn
from uec_rag.base.text import headings_of, is_heading
from uec_rag.confidence.decision import Decision, outcome
from uec_rag.retrieval import SearchResult
from uec_rag.retrieval.conversation import turns_of
from uec_rag.retrieval.request import with_turns
from uec_rag.retrieval.result import HitMetadata, own_metadata
from uec_rag.stores.base import Filter, Passage

DocumentFilter: TypeAlias = Mapping[str, Any] | Callable[[Document], bool]
"""Metadata values that must be equal, or a predicate on the document."""


def to_document(passage: Passage) -> Document:
    """Convert a passage to a document, without what a search adds to its metadata."""
    metadata = own_metadata(passage.metadata)  # others may have written to the store
    return Document(id=passage.id, page_content=passage.text, metadata=metadata)


def with_uncertainty(result: SearchResult, row: int = 0, details: bool = False) -> list[Document]:
    """Convert the hits of one query to documents, with the keys of `Result.metadata`."""
    search_result = result[row]
    decision = search_result.decision if search_result.judged else None
    documents = []
    for rank, hit in enumerate(search_result.passages):
        document = Document(id=hit.id, page_content=hit.text)
        # The constructor would convert it to a plain dict.
        document.metadata = HitMetadata.from_metadata(
            hit.metadata, search_result.metadata(rank, details), decision
        )
        documents.append(document)
    return documents


def note_decision(run: BaseRunManager, decision: Decision | None) -> None:
    """Add decision, confidence and in_corpus to the metadata of a run, for tracers."""
    if decision is not None:
        for key, value in outcome([decision]).items():
            run.metadata[f"uec_{key}"] = value


def passage_filter(filter: DocumentFilter | None) -> Filter | None:
    """Convert a filter on documents to one on passages.

    TypeError if it is neither a mapping nor callable.
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


def with_text(
    documents: Iterable[Document], ids: Sequence[str | None] | None
) -> tuple[list[tuple[str | None, Document]], list[str]]:
    """Pair documents with their ids, and return the ids of blank ones apart.

    Loaders produce blank documents for blank pages, which must not interrupt LangChain's `index`,
    so they are left out with a warning that names id and source. A splitter of HTML also makes a
    document of each heading alone; it is left out if another has the text below the heading. Under
    the ids of both an outdated document may be stored.

    TypeError or ValueError if one is not a `Document`, or the number of ids differs.
    """
    all_ = check_documents(documents, Document, "Document", "add_texts")
    names = [document.id for document in all_] if ids is None else as_list(ids, "ids")
    if len(names) != len(all_):
        raise ValueError(f"ids: expected {len(all_)}, one per text, got {len(names)}.")
    pairs = [*zip(names, all_, strict=True)]
    blank = [(name, d) for name, d in pairs if not d.page_content.strip()]
    if blank:
        listing = ", ".join(f"{name!r} from {d.metadata.get('source')!r}" for name, d in blank)
        warn(f"documents: {len(blank)} without text are left out: {listing}.")
    bare = [is_heading(d.metadata, d.page_content) for d in all_]
    paths = [tuple(headings_of(d.metadata)) for d in all_]
    above = {
        path[:depth]
        for path, is_bare in zip(paths, bare, strict=True)
        for depth in range(0 if is_bare else len(path) + 1)
    }
    kept, left = list[tuple[str | None, Document]](), list[str]()
    for (name, d), path, is_bare in zip(pairs, paths, bare, strict=True):
        if d.page_content.strip() and not (is_bare and path in above):
            kept.append((name, d))
        elif name is not None:
            left.append(name)
    return kept, left


def refuse_unknown(kwargs: Mapping[str, Any], method: str, known: Sequence[str]) -> None:
    """Raise TypeError for an unknown keyword argument, listing the known ones.

    LangChain's signatures accept any keyword, and a misspelt one should not be ignored.
    """
    unknown = sorted(kwargs.keys() - set(known))
    if unknown:
        expected = f"expected some of {', '.join(known)}" if known else "it takes none"
        raise TypeError(
            f"{method}() got an unexpected keyword argument {unknown[0]!r}; {expected}"
            f"{did_you_mean(unknown[0], known) or '.'}"
        )


Question: TypeAlias = str | Mapping[str, Any]
"""A question, or a mapping with a "question" or "input", and "chat_history" or "history"."""

_EXPECTED = "a list of messages or strings, oldest first"


def question_and_history(question_input: object, history: object = None) -> tuple[str, object]:
    """Extract the question and its history, which `turns` checks, from the input of a chain.

    Parameters
    ----------
    question_input : Question
    history : sequence of messages or str, optional
        Overrides the "chat_history" or "history" of the mapping.

    Raises
    ------
    TypeError
        If there is no question.
    """
    question: object = question_input
    if isinstance(question_input, Mapping):
        question = question_input.get("question", question_input.get("input"))
        before = question_input.get("chat_history", question_input.get("history"))
        history = before if history is None else history
    if not isinstance(question, str):
        raise TypeError(
            'input: expected a question, a string, or a mapping with a string "question" or '
            f'"input", got {question_input!r:.80}.'
        )
    return question, history


def join_histories(
    questions: Sequence[Question], history: Sequence[object] | None
) -> list[Question]:
    """Join questions with the turns before each, as mappings.

    ValueError if the number of lists is not the number of questions.
    """
    if history is None:
        return [*questions]
    return [
        {
            **(question if isinstance(question, Mapping) else {"question": question}),
            "chat_history": before,
        }
        for question, before in with_turns(questions, history)
    ]


def turns(history: object) -> list[str]:
    """Extract the turns that a question is searched with, as `turns_of` does.

    Only the texts of messages are used. Strings are always kept.

    `history`: messages, tuples or dicts that LangChain converts to messages, strings, or None.
    TypeError if it has another type.
    """
    if history is None:
        return []
    if isinstance(history, str | Mapping | BaseMessage) or not isinstance(history, Sequence):
        raise TypeError(f"history: expected {_EXPECTED}, got {history!r:.60}.")
    return turns_of(
        _speaker_and_text(message, position) for position, message in enumerate(history)
    )


def _speaker_and_text(turn: object, position: int) -> tuple[str, str]:
    try:
        [message] = convert_to_messages([cast(Any, turn)])
    except (NotImplementedError, TypeError, ValueError) as error:
        raise TypeError(f"history[{position}]: expected {_EXPECTED}, got {turn!r:.60}.") from error
    asks = isinstance(message, HumanMessage)
    if asks or (isinstance(message, ChatMessage) and message.role == "user"):
        return "user", message.text
    return "assistant" if isinstance(message, AIMessage) else message.type, message.text


def messages_of(state: object) -> Sequence[AnyMessage]:
    """Return the messages of a graph's state: its "messages", or the state if it is a list."""
    found = state if isinstance(state, list) else state_value(state, "messages")
    return cast(Sequence[AnyMessage], found or [])


def state_value(state: object, key: str) -> object:
    """Return a value of a graph's state, a mapping or an object; None if it is missing."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def place_of_question(messages: Sequence[AnyMessage]) -> int:
    """Return the position of the last human message, or the number of messages if none is."""
    asked = [
        position for position, message in enumerate(messages) if isinstance(message, HumanMessage)
    ]
    return asked[-1] if asked else len(messages)
