"""Conversion between LangChain's types and ours: documents, messages, options, embeddings.

The keys that a hit's document gets are made in `uec_rag.retrieval.results`.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias, TypedDict

from langchain_core.callbacks import BaseRunManager
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.utils import convert_to_messages
from langchain_core.runnables.config import CONFIG_KEYS, RunnableConfig, ensure_config

from uec_rag.adapters import indexes
from uec_rag.adapters.other_retrievers import Converted, Hits, note
from uec_rag.base.checks import (
    as_list,
    check_documents,
    check_text,
    check_type,
    did_you_mean,
    refuse_unknown,
)
from uec_rag.base.errors import warn
from uec_rag.base.text import headings_of, is_heading
from uec_rag.ensemble import UEC
from uec_rag.index import Retriever
from uec_rag.questions.answers import Turn
from uec_rag.questions.query import turns_of
from uec_rag.questions.replies import Within
from uec_rag.retrieval import SearchResult
from uec_rag.retrieval.diversity import Diversity
from uec_rag.retrieval.results import HitMetadata, as_json, own_metadata
from uec_rag.retrieval.search import RUN
from uec_rag.stores.base import EVERYONE, Everyone, Filter
from uec_rag.stores.filters import all_of, check_tenant
from uec_rag.stores.passage import Passage, content_id

KIND = "langchain_core.documents.Document"
"""The class of documents, for messages."""

Question: TypeAlias = str | Mapping[str, Any]
"""A question, or a mapping with a "question" or "input", its "chat_history", and options.

The turns may also be the "messages" of a graph's state, of which the last may be the question.
"""

Embedding: TypeAlias = UEC | Embeddings | Retriever | None
"""The types from which a store can be created."""


def to_document(passage: Passage) -> Document:
    """Convert a passage to a document, without what a search adds to its metadata."""
    metadata = own_metadata(passage.metadata)  # others may have written to the store
    return Document(id=passage.id, page_content=passage.text, metadata=metadata)


def passages_of(documents: Sequence[Document], converted: Converted | None = None) -> list[Passage]:
    """Convert documents of another store to passages; langchain-qdrant has ids in the metadata.

    `converted`: what was made of others before.
    """
    passages = []
    for document in documents:
        text, metadata = document.page_content, document.metadata
        id_ = document.id or metadata.get("_id")
        id_ = content_id(text, metadata) if id_ is None else str(id_)
        convert = partial(_passage, id_, text, metadata)
        if converted is None:
            passages.append(convert())
        else:
            passages.append(converted.of((id_, text), metadata, convert))
    return passages


def _passage(id_: str, text: str, metadata: dict[str, Any]) -> Passage:
    return Passage(id_, text, as_json(metadata))


def checked_passages(documents: Iterable[Document]) -> list[Passage]:
    """Convert documents that a user passes to passages; TypeError if one is none."""
    return passages_of(check_documents(documents, Document, KIND, "Document(text)"))


def plain_document(document: Document) -> Document:
    """Return a document of LangChain's own class, whose metadata are JSON values."""
    twin = Document(id=document.id, page_content=document.page_content)
    metadata = as_json(document.metadata)
    kind = HitMetadata if isinstance(document.metadata, HitMetadata) else dict
    twin.metadata = kind(metadata)  # the constructor would convert it to a plain dict
    return twin


def with_uncertainty(result: SearchResult, details: bool = False) -> list[Document]:
    """Convert the hits of one query to documents, with the keys of `Result.metadata`."""
    [outcome] = result
    documents = []
    for rank, hit in enumerate(outcome.passages):
        document = Document(id=hit.id, page_content=hit.text)
        # The constructor would convert it to a plain dict.
        document.metadata = HitMetadata(hit.metadata | outcome.metadata(rank, details))
        documents.append(document)
    return documents


def plain_documents(result: SearchResult) -> list[Document]:
    """Convert the hits of one query to documents as they were added."""
    [outcome] = result
    note(result, [passage.text for passage in outcome.passages])
    return [*map(to_document, outcome.passages)]


def select_documents(result: SearchResult, details: bool, floor: float) -> Hits[Document]:
    """Return the documents of one query whose relevance is at least a threshold, with the decision.

    `details`: as in `with_uncertainty`.
    """
    hits = with_uncertainty(result, details)
    documents = Hits(d for d in hits if d.metadata.get("uec_relevance", 0) >= floor)
    documents.decision = result[0].told
    return documents


def with_text(
    texts: Iterable[str],
    metadatas: Sequence[Mapping[str, Any]] | None,
    ids: Sequence[str | None] | None,
) -> tuple[list[str], list[str] | None, list[Mapping[str, Any]], list[str]]:
    """Return the texts, ids and metadata to add, and the ids of what `without_text` leaves out.

    ValueError if there is not one id or mapping per text.
    """
    items = as_list(texts, "texts")
    count = len(items)
    about = [{}] * count if metadatas is None else as_list(metadatas, "metadatas")
    names = [None] * count if ids is None else as_list(ids, "ids")
    for argument, values in (("metadatas", about), ("ids", names)):
        if len(values) != count:
            raise ValueError(f"{argument}: expected {count}, one per text, got {len(values)}.")
    blanks = without_text(items, about)
    rows = [at for at in range(count) if at not in blanks]
    labels = None if ids is None else [names[at] or uuid.uuid4().hex for at in rows]
    outdated = [id_ for at in blanks if (id_ := names[at]) is not None]
    return [items[at] for at in rows], labels, [about[at] for at in rows], outdated


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


def question_of(input: object) -> str:
    """Return the question of a chain's input; TypeError if it has none."""
    question = input.get("question", input.get("input")) if isinstance(input, Mapping) else input
    if not isinstance(question, str):
        raise TypeError(
            'input: expected a question, a string, or a mapping with a string "question" or '
            f'"input", got {input!r:.80}.'
        )
    return question


CONDITIONS = ("tenant", "filter")
"""The options of a call that limit what was set before."""


def all_options(before: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of both: all conditions count, of others the latest.

    ValueError if a `tenant` is None.
    """
    check_named(before)
    check_named(options)
    joint = {name: all_of(before.get(name), options.get(name)) for name in CONDITIONS}
    return {**before, **options, **{k: v for k, v in joint.items() if v is not None}}


def check_config(config: RunnableConfig | None, *conditions: Mapping[str, Any]) -> None:
    """Raise TypeError if a configuration, which no search reads, has a condition of a search.

    A graph may have keys of its own, such as one by which a node finds the tenant that it passes:
    beside a condition, one that is none is taken for such a key.

    `*conditions`: options of the search, which have them; if there are none, only keys are checked
    that are no key of a configuration.
    """
    advice = "a search reads no configuration; pass it to the call or to bind: bind(tenant=...)."
    for name in (config or {}).keys() - {*CONFIG_KEYS}:
        if name in CallOptions.__annotations__ or _condition_of(name):
            raise TypeError(f"config: {name!r:.60} is no key of a RunnableConfig; {advice}")
    if not conditions:
        return
    for name, value in ensure_config(config)["configurable"].items():
        if not (kind := _condition_of(name)):
            continue
        parts = [part for options in conditions for part in _parts_of(options.get(kind))]
        is_condition = callable(value) or isinstance(value, Mapping)
        if not parts or (is_condition and value not in parts):
            raise TypeError(
                f"config: configurable[{name!r:.60}]: {advice} Or let a configuration choose it: "
                "configurable_fields(tenant=ConfigurableField(id=...))."
            )


def _condition_of(name: object) -> str:
    """Return which condition a key is, or is like; "" if it is like none."""
    if "tenant" in str(name).casefold():
        return "tenant"
    return next((kind for kind in CONDITIONS if did_you_mean(name, [kind])), "")


def _parts_of(condition: Filter | Everyone | None) -> list[object]:
    """Return the filters that `all_of` has joined."""
    if condition is None or condition is EVERYONE:
        return []
    if isinstance(condition, Mapping) and condition.keys() == {"$and"}:
        return [condition, *(part for item in condition["$and"] for part in _parts_of(item))]
    return [condition]


def check_named(options: Mapping[str, Any]) -> None:
    """Raise ValueError if the `tenant` of a call or a state is None, which would be everybody."""
    if "tenant" in options and options["tenant"] is None:
        check_tenant(None)


def with_options(
    input: Question, call: Mapping[str, Any], handed_on: Collection[str] | None = ()
) -> tuple[str, dict[str, Any]]:
    """Return the question of a chain's input, and the options of its search.

    These are the options of a call, and the keys of a mapping that are such options, too. What both
    filter must match both; of others, those of the call count.

    Parameters
    ----------
    input : str or mapping
    call : mapping
    handed_on : collection of str, optional
        The keys of a mapping that may be there besides; with None, all that resemble no option.

    Raises
    ------
    TypeError
        If there is no question, or a key of a mapping would be dropped.
    ValueError
        If a `tenant` is None.
    """
    for given in (call, input):
        if isinstance(given, Mapping) and "tenant" in given:
            check_named(given)
    options = {k: v for k, v in call.items() if v is not None}
    if isinstance(input, str):
        return input, options
    question = question_of(input)
    before = input.get("chat_history", input.get("history"))
    if before is None and input.get("messages") is not None:
        before = turns_before(question, input["messages"])
    extras = {name: input[name] for name in CallOptions.__annotations__ if name in input}
    extras = {k: v for k, v in {**extras, "history": before}.items() if v is not None}
    for name in input.keys() - extras.keys() - _ASKING - {*(handed_on or ())}:
        advice = did_you_mean(name, CallOptions.__annotations__)
        if advice or handed_on is not None:
            names = f"; known are {', '.join([*_ASKING, *CallOptions.__annotations__])}."
            raise TypeError(
                f"input: {name!r:.60} is no option of a search, got {input[name]!r:.60}"
                f"{advice or names}"
            )
    return question, all_options(extras, options)


def turns_before(question: str, messages: object) -> Sequence[BaseMessage]:
    """Return the messages of a graph's state before a question, which may be the newest of a human.

    TypeError if they are no messages.
    """
    if isinstance(messages, str | Mapping | BaseMessage) or not isinstance(messages, Sequence):
        raise TypeError(
            f"messages: expected a list of messages, oldest first, got {messages!r:.60}."
        )
    lines = convert_to_messages(messages)
    positions = [at for at, message in enumerate(lines) if isinstance(message, HumanMessage)]
    is_last = bool(positions) and text_of(lines[positions[-1]]) == question
    return lines[: positions[-1]] if is_last else lines


def turns(history: object) -> list[str | Turn]:
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
    plain = [(turn.speaker, turn.text) if isinstance(turn, Turn) else turn for turn in history]
    messages = convert_to_messages(plain)
    return turns_of((_speaker(message), text_of(message)) for message in messages)


def text_of(message: BaseMessage) -> str:
    r"""Return the text of a message, each block of it on a line of its own.

    Examples
    --------
    >>> text_of(HumanMessage(["I am here.", {"type": "text", "text": "How long?"}]))
    'I am here.\nHow long?'
    """
    if isinstance(message.content, str):
        return message.content
    blocks = [{"text": block} if isinstance(block, str) else block for block in message.content]
    return "\n".join(block["text"] for block in blocks if block.get("type", "text") == "text")


def _speaker(message: BaseMessage) -> str:
    if isinstance(message, HumanMessage):
        return "user"
    return "assistant" if isinstance(message, AIMessage) else message.type


class Shown(TypedDict, total=False):
    """The parameters of a `UECRetriever` besides its store and k."""

    filter: Filter | None
    tenant: Filter | Everyone
    tenant_required: bool
    details: bool
    search_type: str
    search_kwargs: dict[str, Any]
    tags: list[str] | None
    metadata: dict[str, Any] | None
    name: str | None


class Parameters(Shown, total=False):
    """The parameters of a `UECRetriever` besides its store."""

    k: int


class Indexed(indexes.MakeOptions, Parameters, total=False):
    """The options of `UECRetriever.from_texts`."""


_ASKING = {"question", "input", "chat_history", "history", "messages"}


class CallOptions(TypedDict, total=False):
    """The options of a call of a retriever or a gate; see `UECRetriever`."""

    k: int | None
    filter: Filter | None
    tenant: Filter | Everyone
    history: object
    within: Within | None
    fetch_k: int
    lambda_mult: float
    score_threshold: float | None


def check_options(call: Mapping[str, Any]) -> None:
    """Raise TypeError if one is no option of a call, ValueError if a `tenant` is None."""
    check_named(call)
    refuse_unknown(call, partial(_arguments, ""))


def arguments_of(
    search_type: str,
    base: Mapping[str, Any],
    call: Mapping[str, Any],
    limit: Filter | None = None,
    *,
    required: bool = False,
) -> tuple[dict[str, Any], float]:
    """Return the arguments of an index's search by a call's options, and the threshold of hits.

    `base`: the options of the retriever, which count where the call has none, as its tenant always
    does. `limit`: a filter that no call lifts. `required`: whether there must be a tenant.
    """
    options = {**base, **{name: value for name, value in call.items() if value is not None}}
    if limit is not None:
        options["filter"] = all_of(limit, options["filter"])
    if base["tenant"] is not EVERYONE:
        options["tenant"] = all_of(base["tenant"], call.get("tenant"))
    if required:
        check_tenant(options["tenant"], required=True)
    parse = partial(_arguments, search_type)
    try:
        arguments = parse(**options)
    except TypeError:
        refuse_unknown(options, parse)
        raise
    return arguments, options.get("score_threshold") or 0.0


def _arguments(
    search_type: str,
    *,
    k: int,
    filter: Filter | None,
    tenant: Filter | Everyone,
    history: object = None,
    within: Within | None = None,
    fetch_k: int = 20,
    lambda_mult: float = 0.5,
    score_threshold: float | None = None,
) -> dict[str, Any]:
    if score_threshold is not None and search_type != "similarity_score_threshold":
        raise ValueError(
            'score_threshold: it needs search_type="similarity_score_threshold", got '
            f"{search_type!r}."
        )
    return {
        "k": k,
        "filter": filter,
        "tenant": tenant,
        "history": [[] if history is None else turns(history)],
        "within": within,
        "diversity": Diversity(fetch_k, lambda_mult) if search_type == "mmr" else None,
    }


class UECEmbeddings(Embeddings):
    """The mean vectors of an ensemble as a LangChain `Embeddings`.

    Vectors carry no variance: to search with uncertainty, use `UECVectorStore` or `UECRetriever`.
    Vectors of passages have length 1. Vectors of queries may not, if the encoders' weights depend
    on the query; then use the inner product (a cosine gives the same order).

    Parameters
    ----------
    uec : UEC, optional
        `UEC()` by default.

    Raises
    ------
    TypeError
        If uec is not a UEC.

    Examples
    --------
    Set up, with a function as the model; ``UEC()`` has one of its own:

    >>> def letters(texts):
    ...     return [[text.count(letter) + 1 for letter in "abc"] for text in texts]
    >>> embeddings = UECEmbeddings(uec=UEC([letters]))

    Embed:

    >>> [round(number, 3) for number in embeddings.embed_query("aba")]
    [0.802, 0.535, 0.267]
    """

    def __init__(self, uec: UEC | None = None) -> None:
        check_type(uec, UEC | None, "uec", "a UEC", "; make one with UEC([encoder, ...])")
        self.uec = UEC() if uec is None else uec

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""
        vectors: list[list[float]] = self.uec.embed(texts, "passage").mean.tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed one query."""
        vector: list[float] = self.uec.embed([check_text(text, "text")], "query").mean[0].tolist()
        return vector


@contextmanager
def in_run(manager: BaseRunManager) -> Iterator[None]:
    """Log decisions in the block with the ids of a run, unless a gate's run is around it."""
    ids = {"run_id": manager.run_id, "parent_run_id": manager.parent_run_id}
    token = RUN.set(RUN.get() or {name: str(id_) for name, id_ in ids.items() if id_})
    try:
        yield
    finally:
        RUN.reset(token)
