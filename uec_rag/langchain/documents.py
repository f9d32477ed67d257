"""Conversion of LangChain's documents to passages and back, and of its messages to turns."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from langchain_core.callbacks import BaseRunManager
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
)
from langchain_core.messages.utils import convert_to_messages
from langchain_core.structured_query import (
    Comparator,
    Comparison,
    Operation,
    Operator,
    StructuredQuery,
    Visitor,
)

from uec_rag.base.checks import listed
from uec_rag.base.errors import warn
from uec_rag.confidence.decision import Decision, outcome
from uec_rag.ensemble.conversation import turns_of, with_turns
from uec_rag.retrieval import SearchResult
from uec_rag.retrieval.result import KEY, FoundMetadata, own_metadata
from uec_rag.stores.base import Filter, Passage

DocumentFilter: TypeAlias = Mapping[str, Any] | Callable[[Document], bool]
"""Metadata values that must be equal, or a predicate on the document."""

PIECE = "uec_passage"
"""Key of the id of the passage that was found, on a larger document that it is a piece of."""


def to_document(passage: Passage) -> Document:
    """Make a document that can be changed without changing what is stored."""
    metadata = copy.deepcopy(own_metadata(passage.metadata))
    return Document(id=passage.id, page_content=passage.text, metadata=metadata)


def with_uncertainty(result: SearchResult, row: int = 0, details: bool = False) -> list[Document]:
    """Make documents of the hits of one query, with the keys of `Result.metadata`."""
    one = result[row]
    decision = one.decision if one.judged else None
    documents = []
    for rank, hit in enumerate(one.passages):
        document = Document(id=hit.id, page_content=hit.text)
        # Set, not given to the constructor, which makes a plain dict of it.
        document.metadata = FoundMetadata.of(
            copy.deepcopy(hit.metadata), one.metadata(rank, details), decision
        )
        documents.append(document)
    return documents


def note_decision(run: BaseRunManager, decision: Decision | None) -> None:
    """Write decision, confidence and in_corpus into the metadata of a run, for tracers to show."""
    if decision is not None:
        for key, value in outcome([decision]).items():
            run.metadata[f"uec_{key}"] = value


def best_pieces(hits: Sequence[Document], id_key: str) -> dict[str, Document]:
    """Find the best hit in each larger document, by that document's id; best first."""
    best: dict[str, Document] = {}
    for hit in hits:
        if id_key in hit.metadata:
            best.setdefault(hit.metadata[id_key], hit)
    return best


def larger_documents(
    best: Mapping[str, Document], documents: Sequence[Document | None]
) -> list[Document]:
    """Copy the metadata of the best piece to each larger document that is there."""
    out = []
    for piece, document in zip(best.values(), documents, strict=True):
        found = {key: value for key, value in piece.metadata.items() if key.startswith(KEY)}
        if document is not None:
            decision = getattr(piece.metadata, "decision", None)
            copied = document.model_copy()
            found[PIECE] = piece.id
            copied.metadata = FoundMetadata.of(document.metadata, found, decision)
            out.append(copied)
    return out


def passage_filter(filter: DocumentFilter | None) -> Filter | None:
    """Turn a filter on documents into one on passages.

    Raises TypeError if it is neither a mapping nor callable.
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


class UECTranslator(Visitor):
    """Turns what a model asks for in LangChain's `SelfQueryRetriever` into a filter of ours.

    ``SelfQueryRetriever.from_llm(llm, store, ..., structured_query_translator=UECTranslator())``;
    LangChain looks for translators among its own alone. A pattern ("like") has no equal here.
    """

    allowed_operators = tuple(Operator)
    allowed_comparators = tuple(one for one in Comparator if one is not Comparator.LIKE)

    def visit_operation(self, operation: Operation) -> dict[str, Any]:
        """Join filters; "not" means that none of them holds."""
        self._validate_func(operation.operator)
        parts = [argument.accept(self) for argument in operation.arguments]
        if operation.operator == Operator.NOT:
            return {"$not": {"$or": parts}}
        return {f"${operation.operator.value}": parts}

    def visit_comparison(self, comparison: Comparison) -> dict[str, Any]:
        """Compare a metadata value; a date is an ISO string, as it is stored."""
        self._validate_func(comparison.comparator)
        kind, value = comparison.comparator, comparison.value
        if isinstance(value, Mapping) and str(value.get("type", "")).startswith("date"):
            value = value[value["type"]]
        operator = "$contains" if kind == Comparator.CONTAIN else f"${kind.value}"
        return {comparison.attribute: {operator: value}}

    def visit_structured_query(
        self, structured_query: StructuredQuery
    ) -> tuple[str, dict[str, Any]]:
        """Take query and filter apart, as `UECVectorStore.search` is given them."""
        where = structured_query.filter
        return structured_query.query, {} if where is None else {"filter": where.accept(self)}


def from_documents(
    documents: Iterable[Document], ids: Sequence[str | None] | None
) -> tuple[dict[str, Any], list[str]]:
    """Convert documents to the arguments of `Retriever.add`, and return the ids of blank ones.

    Loaders make blank documents, of blank pages; LangChain's `index` hands on a hundred at a time,
    and one of them must not end it in the middle. They are left out, with a warning that names id
    and source; the second return value is their ids: what stood there before is out of date.

    Raises TypeError, ValueError if one is not a `Document`, or there is not an id for each.
    """
    if isinstance(documents, Document):
        raise TypeError("documents: expected a list of Documents, got one; write [document].")
    all_ = list(documents)
    for index, document in enumerate(all_):
        if not isinstance(document, Document):
            raise TypeError(
                f"documents[{index}]: expected a Document, got {type(document).__name__} "
                f"{document!r:.60}; for strings there is add_texts."
            )
    names = [document.id for document in all_] if ids is None else listed(ids, "ids")
    if len(names) != len(all_):
        raise ValueError(f"ids: expected {len(all_)}, one per text, got {len(names)}.")
    pairs = [*zip(names, all_, strict=True)]
    blank = [(name, d) for name, d in pairs if not d.page_content.strip()]
    if blank:
        listing = ", ".join(f"{name!r} from {d.metadata.get('source')!r}" for name, d in blank)
        warn(f"documents: {len(blank)} without text are left out: {listing}.")
        pairs = [(name, d) for name, d in pairs if d.page_content.strip()]
    added = from_texts(
        [d.page_content for _, d in pairs],
        [name for name, _ in pairs],
        [d.metadata for _, d in pairs],
    )
    return added, [name for name, _ in blank if name is not None]


def from_texts(
    texts: Iterable[str],
    ids: Sequence[str | None] | None,
    metadatas: Sequence[Mapping[str, Any] | None] | None,
) -> dict[str, Any]:
    """Convert texts to the arguments of `Retriever.add`; ids that are None are made up."""
    given = None if ids is None else listed(ids, "ids")
    return {
        "texts": texts if isinstance(texts, str) else list(texts),
        "ids": given and [uuid.uuid4().hex if name is None else name for name in given],
        "metadatas": metadatas,
    }


def refuse_unknown(kwargs: Mapping[str, Any], method: str, known: Sequence[str]) -> None:
    """Raise TypeError for a keyword that is not known, with those that are.

    LangChain's signatures let any keyword through; a misspelt one must not go unnoticed.
    """
    unknown = sorted(set(kwargs) - set(known))
    if unknown:
        raise TypeError(
            f"{method}() got an unexpected keyword argument {unknown[0]!r}; expected some of "
            f"{', '.join(known)}."
        )


Question: TypeAlias = str | Mapping[str, Any]
"""The question itself, or a mapping with a "question" or an "input", and maybe "chat_history"."""

_EXPECTED = "a list of messages or strings, oldest first"


def question_and_history(given: object, history: object = None) -> tuple[str, object]:
    """Take a question and its history, which `turns` checks, out of what a chain was given.

    Parameters
    ----------
    given : Question
    history : sequence of messages or str, optional
        Instead of the mapping's "chat_history".

    Raises
    ------
    TypeError
        If there is no question.
    """
    question: object = given
    if isinstance(given, Mapping):
        question = given.get("question", given.get("input"))
        history = given.get("chat_history") if history is None else history
    if not isinstance(question, str):
        raise TypeError(
            'input: expected a question, a string, or a mapping with a string "question" or '
            f'"input", got {given!r:.80}.'
        )
    return question, history


def joined(questions: Sequence[Question], history: Sequence[object] | None) -> list[Question]:
    """Join questions with the turns before each, as mappings.

    Raises ValueError if there are not as many lists as questions.
    """
    if history is None:
        return [*questions]
    return [
        {**(one if isinstance(one, Mapping) else {"question": one}), "chat_history": before}
        for one, before in with_turns(questions, history)
    ]


def turns(history: object) -> list[str]:
    """Extract the turns that a question is searched with, as `ensemble.conversation.turns_of` does.

    Of a message its text counts. A string stays whatever it says.

    `history`: messages, what LangChain makes messages of (tuples, dicts), or strings; or None.
    Raises TypeError if it is something else.
    """
    if history is None:
        return []
    if isinstance(history, str | Mapping | BaseMessage) or not isinstance(history, Sequence):
        raise TypeError(f"history: expected {_EXPECTED}, got {history!r:.60}.")
    return turns_of(_speaker_and_text(one, place) for place, one in enumerate(history))


def _speaker_and_text(given: object, place: int) -> tuple[str, str]:
    try:
        [message] = convert_to_messages([cast(Any, given)])
    except (NotImplementedError, TypeError, ValueError) as error:
        raise TypeError(f"history[{place}]: expected {_EXPECTED}, got {given!r:.60}.") from error
    asks = isinstance(message, HumanMessage)
    if asks or (isinstance(message, ChatMessage) and message.role == "user"):
        return "user", message.text
    return "assistant" if isinstance(message, AIMessage) else message.type, message.text


def messages_of(state: object) -> Sequence[AnyMessage]:
    """Return the messages of a graph's state: its "messages", or all of it if it is a list."""
    found = state if isinstance(state, list) else member(state, "messages")
    return cast(Sequence[AnyMessage], found or [])


def member(state: object, key: str) -> object:
    """Return a value of a graph's state, a mapping or an object; None if it has none."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def place_of_question(messages: Sequence[AnyMessage]) -> int:
    """Find the place of the last human message; behind all of them if there is none."""
    asked = [place for place, one in enumerate(messages) if isinstance(one, HumanMessage)]
    return asked[-1] if asked else len(messages)
