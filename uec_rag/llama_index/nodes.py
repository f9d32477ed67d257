"""Conversion of nodes to passages, of hits to nodes, of messages to turns, and of filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, cast

from llama_index.core.llms import ChatMessage
from llama_index.core.schema import (
    BaseComponent,
    BaseNode,
    MetadataMode,
    NodeWithScore,
    QueryBundle,
    TextNode,
)
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.core.vector_stores.utils import (
    build_metadata_filter_fn,
    metadata_dict_to_node,
    node_to_metadata_dict,
)

from uec_rag.adapters.other_retrievers import Converted, note
from uec_rag.base.checks import check_type
from uec_rag.base.errors import warn
from uec_rag.base.text import QUESTION_KEYS, questions_in
from uec_rag.documents.passages import BOOKKEEPING
from uec_rag.questions.answers import Turn
from uec_rag.questions.query import turns_of
from uec_rag.questions.replies import Within
from uec_rag.retrieval import SearchResult
from uec_rag.retrieval.results import KEY, HitMetadata, as_json, own_metadata
from uec_rag.stores.base import Everyone, Filter
from uec_rag.stores.filters import check_tenant, translate
from uec_rag.stores.passage import Passage, make_passages

_N = TypeVar("_N", bound=BaseNode)
_OF_NODES = frozenset(["_node_content", "_node_type", "document_id", "doc_id", "ref_doc_id"])


def passages_of(nodes: Sequence[BaseNode]) -> list[Passage]:
    """Convert nodes to passages with the nodes in their metadata, and the embedded text as text.

    Questions that stand beside a text are no part of it.

    Raises
    ------
    ValueError
        If one has no text to embed, or if an id occurs twice.
    """
    copies = [_without_findings(node, type(node)) for node in nodes]
    return make_passages(
        [_content(node, [*node.excluded_embed_metadata_keys, *QUESTION_KEYS]) for node in copies],
        [node.node_id for node in copies],
        [node_to_metadata_dict(node) for node in copies],
    )


def passages_again(nodes: Sequence[BaseNode], converted: Converted) -> list[Passage]:
    """Convert nodes that may have been converted before; of each, the id may occur twice."""
    keys = [(type(node), node.node_id) for node in nodes]
    ways = (partial(_passage_of, node) for node in nodes)
    return [*map(converted.of, keys, map(vars, nodes), ways)]


def _passage_of(node: BaseNode) -> Passage:
    return passages_of([node])[0]


def _content(node: BaseNode, hidden: Sequence[str]) -> str:
    """Return the text of a node as it is embedded, without some of its metadata."""
    update = {"excluded_embed_metadata_keys": [*hidden]}
    copy = node.model_copy(update=update) if questions_in(node.metadata) else node
    return copy.get_content(metadata_mode=MetadataMode.EMBED)


def embedded_text(passage: Passage) -> str:
    """Return the text of a passage's node as LlamaIndex embeds it, where it has questions, too."""
    node = _own_node(passage) if questions_in(passage.metadata) else None
    return passage.text if node is None else node.get_content(metadata_mode=MetadataMode.EMBED)


def _own_node(passage: Passage) -> BaseNode | None:
    """Return the node in a passage's metadata; None unless it is of its id and its text.

    Whoever writes metadata may have put another one there, or what is none.
    """
    if not isinstance(passage.metadata.get("_node_content"), str):
        return None
    try:
        node = metadata_dict_to_node(passage.metadata)
        text = _content(node, [*node.excluded_embed_metadata_keys, *QUESTION_KEYS])
    except Exception:
        return None
    return node if (node.node_id, text) == (passage.id, passage.text) else None


def with_text(nodes: Sequence[_N]) -> list[_N]:
    """Return the nodes that have a text of their own, besides metadata, and warn of the others.

    Readers make documents without text of empty files and scanned pages, whose path alone would
    "answer" questions about it.
    """
    for node in nodes:
        check_type(node, BaseNode, "nodes", "LlamaIndex nodes")
    texts = [node for node in nodes if node.get_content(metadata_mode=MetadataMode.NONE).strip()]
    if len(texts) < len(nodes):
        blank = [node for node in nodes if node not in texts]
        paths = ", ".join(repr(node.metadata.get("file_path", node.node_id)) for node in blank[:9])
        warn(f"nodes: {len(blank)} without text are left out: {paths}.")
    return texts


def node_of(passage: Passage) -> BaseNode:
    """Return the node in the metadata of a passage, or create a text node if there is none.

    Metadata by which an index keeps track of its files are hidden from models.
    """
    if (node := _own_node(passage)) is not None:
        node.metadata = own_metadata(node.metadata)
        return node
    metadata = own_metadata(passage.metadata)
    if "_node_content" in metadata:  # another node's, which was not judged
        metadata = {key: value for key, value in metadata.items() if key not in _OF_NODES}
    hidden = sorted(BOOKKEEPING.union(QUESTION_KEYS) & metadata.keys())
    return TextNode(
        id_=passage.id,
        text=passage.text,
        metadata=metadata,
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
    )


def hits(result: SearchResult, details: bool = False) -> list[NodeWithScore]:
    """Convert the hits of one query to new nodes, with the keys of `Result.metadata`.

    These keys are hidden from LLMs and embedding models, as are questions beside a text.

    `result`: result of a single query. `details`: whether to add details of score and decision.
    """
    [outcome] = result
    nodes = [*map(node_of, outcome.passages)]
    note(result, [node.get_content(MetadataMode.NONE) for node in nodes])
    nodes = [with_findings(node, outcome.metadata(at, details)) for at, node in enumerate(nodes)]
    scores = outcome.scores.tolist()
    return [NodeWithScore(node=n, score=score) for n, score in zip(nodes, scores, strict=True)]


def with_findings(node: BaseNode, findings: dict[str, Any]) -> BaseNode:
    """Return a copy of a node with metadata that LLMs and embedding models do not see."""
    kind = _Hit if type(node) is TextNode else type(node)
    hidden = "excluded_llm_metadata_keys", "excluded_embed_metadata_keys"
    questions = [key for key in QUESTION_KEYS if key in node.metadata]
    hiding = {
        name: [*dict.fromkeys([*getattr(node, name), *findings, *questions])] for name in hidden
    }
    metadata = HitMetadata(own_metadata(node.metadata) | findings)
    return kind.model_construct(**dict(node) | hiding | {"metadata": metadata})


def in_place_of(hit: NodeWithScore, parts: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    """Return what LlamaIndex puts in the place of a hit, with what was found of the hit.

    What a retriever of ours finds in its place has findings of its own.
    """
    findings = {key: hit.node.metadata[key] for key in hit.node.metadata if key.startswith(KEY)}
    return [
        part
        if part is hit or any(key.startswith(KEY) for key in part.node.metadata)
        else NodeWithScore(node=with_findings(part.node, findings), score=part.score)
        for part in parts
    ]


def first_of_each(hits: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    """Return hits without those whose node is there before."""
    return [*{hit.node.node_id: hit for hit in reversed(hits)}.values()][::-1]


def _without_findings(hit: BaseNode, kind: type[BaseNode]) -> BaseNode:
    return kind.model_construct(**dict(hit) | {"metadata": as_json(own_metadata(hit.metadata))})


def plain_hit(hit: NodeWithScore) -> NodeWithScore:
    """Return a hit whose score and metadata are JSON values."""
    metadata = type(hit.node.metadata)(as_json(hit.node.metadata))
    return NodeWithScore(
        node=hit.node.model_copy(update={"metadata": metadata}), score=as_json(hit.score)
    )


class _Hit(TextNode):
    """Has the hash of its node, by which LlamaIndex identifies it, without what was found.

    A node that is found by two queries, as in a `QueryFusionRetriever`, has two scores, but must
    still be the same node.
    """

    @property
    def hash(self) -> str:
        return _without_findings(self, TextNode).hash


@dataclass
class UECQueryBundle(QueryBundle):
    """A query with the turns before it, for any engine or retriever over a `UECRetriever`.

    Attributes
    ----------
    history : sequence of ChatMessage or str, optional
        The turns before the question, oldest first. `uec_rag.questions.query.turns_of`
        describes which of them are used.
    within : Reading, mapping or sequence of str, optional
        The reading that the user chose, as in `Retriever.search`.
    **kwargs
        Parameters of `QueryBundle`.

    Examples
    --------
    >>> asked = UECQueryBundle("And how long?", history=["Who repairs the door?"])
    >>> asked.query_str, turns(asked.history)
    ('And how long?', ['Who repairs the door?'])
    """

    history: Sequence[ChatMessage | str] | None = None
    within: Within | None = None


def turns(history: object) -> list[str | Turn]:
    """Extract the turns that a question is searched with, as `turns_of` does.

    Only the texts of messages are used. Strings are always kept.

    `history`: messages, strings, or None; TypeError if it has another type.
    """
    if history is None:
        return []
    if isinstance(history, str | Mapping | ChatMessage) or not isinstance(history, Sequence):
        raise TypeError(
            f"history: expected ChatMessages or strings in a list, got {history!r:.60}."
        )
    pairs = [(turn.text, turn.speaker) if isinstance(turn, Turn) else turn for turn in history]
    pairs = [(turn, "user") if isinstance(turn, str) else turn for turn in pairs]
    messages = [ChatMessage(t[0], role=t[1]) if isinstance(t, tuple) else t for t in pairs]
    return turns_of((message.role.value, message.content or "") for message in messages)


class Whole(BaseComponent):
    """A component that is pickled and serialised whole, or not at all.

    LlamaIndex leaves out what does not pickle, so that another ensemble, or no gate, would take its
    place. JSON has a mark of it.
    """

    _members: ClassVar[tuple[str, ...]]

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """Make a component again; ValueError without a part of it that `to_dict` leaves out."""
        for name in cls._members:
            if data.get(name) is not None and name not in kwargs:
                raise ValueError(
                    f"{name}: expected what to_dict leaves out, as in from_dict(data, {name}=...)."
                )
        return super().from_dict(data, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        before = {**self.__dict__}
        state: dict[str, Any] = super().__getstate__()
        fields = state["__dict__"] | {name: before[name] for name in self._members}
        self.__dict__.update(before)  # from which LlamaIndex removes what it leaves out
        return state | {"__dict__": fields}


_SHARED = ("EQ", "NE", "GT", "GTE", "LT", "LTE", "IN", "NIN", "CONTAINS")
_OPERATORS = {FilterOperator[name]: f"${name.lower()}" for name in _SHARED}
_OF_LISTS = {FilterOperator.ANY: "$or", FilterOperator.ALL: "$and"}
_Theirs: TypeAlias = MetadataFilters | MetadataFilter
_THEIRS = {ours: native for native, ours in _OPERATORS.items()}


def passage_filter(
    filters: MetadataFilters | None = None,
    *,
    node_ids: Sequence[str] | None = None,
    doc_ids: Sequence[str] | None = None,
) -> Filter | None:
    """Combine the restrictions of a LlamaIndex query to one filter; None if there are none.

    Operators have the semantics of LlamaIndex's `SimpleVectorStore`, and groups may be nested.
    Operators that `uec_rag.stores.filters` lacks, such as text matches, become predicates that call
    LlamaIndex's code, for stores in memory.

    `node_ids`: nodes to select; an empty list, as passed by LlamaIndex's index, means all.
    `doc_ids`: documents whose nodes to select. TypeError if `filters` has another type.
    """
    conditions: list[dict[str, Any]] = []
    if filters is not None:
        check_type(filters, MetadataFilters, "filters", "LlamaIndex MetadataFilters")
        conditions.append(_group(filters))
    if node_ids:
        conditions.append({"$id": list(node_ids)})
    if doc_ids is not None:
        conditions.append({"ref_doc_id": {"$in": list(doc_ids)}})
    return {"$and": conditions} if conditions else None


Tenant: TypeAlias = MetadataFilters | Filter | Everyone
"""The nodes of one tenant: a filter of LlamaIndex, or one of ours."""


def tenant_filter(tenant: Tenant, *, required: bool = False) -> Filter | None:
    """Return the filter of a tenant's nodes; None for all; errors as in `check_tenant`."""
    ours = passage_filter(tenant) if isinstance(tenant, MetadataFilters) else tenant
    return check_tenant(ours, required=required)


def _group(filters: MetadataFilters) -> dict[str, Any]:
    members = [
        _group(member) if isinstance(member, MetadataFilters) else _leaf(member)
        for member in filters.filters
    ]
    if filters.condition == FilterCondition.OR and members:
        return {"$or": members}
    if filters.condition == FilterCondition.NOT and members:
        return {"$not": {"$or": members}}
    return {"$and": members}


def _leaf(filter_: MetadataFilter) -> Filter:
    key, value, operator = filter_.key, filter_.value, _OPERATORS.get(filter_.operator)
    is_plain = isinstance(value, list) == (operator in ("$in", "$nin")) and value is not None
    if operator is not None and is_plain and not key.startswith("$"):  # theirs are any text
        return {key: {operator: value}}
    if filter_.operator in _OF_LISTS and value not in (None, []) and not key.startswith("$"):
        values = [value] if isinstance(value, int | float) else [*value]
        has = ({"$or": [{key: {"$contains": item}}, {key: item}]} for item in values)
        return {_OF_LISTS[filter_.operator]: [*has]}
    # What LlamaIndex calls a node's id is handed to the first argument and looked at nowhere else,
    # so a passage may take its place: one predicate is made for all of them.
    lookup: Any = attrgetter("metadata")
    return cast(Filter, build_metadata_filter_fn(lookup, MetadataFilters(filters=[filter_])))


def metadata_filters(filter: Filter, *, quoted: bool = False) -> MetadataFilters | None:
    """Translate what LlamaIndex's filters can say of a filter; None if that is nothing.

    `quoted`: whether the store writes texts into SQL between quotes as they are; ValueError if one
    would end there.
    """

    def join(kind: str, parts: list[_Theirs]) -> _Theirs:
        condition = FilterCondition.AND if kind == "$and" else FilterCondition.OR
        return MetadataFilters(filters=parts, condition=condition)

    def leaf(key: str, operator: str, operand: Any) -> _Theirs:  # noqa: ANN401
        texts = map(str, [key, *operand] if isinstance(operand, list) else [key, operand])
        if quoted and any({*"'\"\\"} & {*text} for text in texts):
            raise ValueError("it does not escape quotes")
        return MetadataFilter(key=key, value=operand, operator=_THEIRS[operator])

    terms = translate(filter, leaf, join)
    return MetadataFilters(filters=[terms]) if isinstance(terms, MetadataFilter) else terms
