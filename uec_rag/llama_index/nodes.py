"""Conversion of LlamaIndex nodes to passages, of hits to nodes, and of messages to turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from llama_index.core.llms import ChatMessage
from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    MetadataMode,
    Node,
    NodeWithScore,
    QueryBundle,
    TextNode,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from uec_rag.base.checks import check_type
from uec_rag.base.errors import warn
from uec_rag.confidence.replies import Within
from uec_rag.documents.passages import bookkeeping_keys
from uec_rag.retrieval import SearchResult
from uec_rag.retrieval.query import turns_of
from uec_rag.retrieval.result import HitMetadata, own_metadata
from uec_rag.stores.base import Passage, make_passages

_N = TypeVar("_N", bound=BaseNode)


def passages_of(nodes: Sequence[BaseNode]) -> list[Passage]:
    """Convert nodes to passages with the nodes in their metadata, and the embedded text as text.

    Raises
    ------
    TypeError, ValueError
        If one is not a node or has no text to embed, or if an id occurs twice.
    """
    for node in nodes:
        check_type(node, BaseNode, "nodes", "LlamaIndex nodes")
    own = [_without_findings(node, type(node)) for node in nodes]
    return make_passages(
        [node.get_content(metadata_mode=MetadataMode.EMBED) for node in own],
        [node.node_id for node in own],
        [node_to_metadata_dict(node) for node in own],
    )


def with_text(nodes: Sequence[_N]) -> list[_N]:
    """Return the nodes that have a text of their own, besides metadata, and warn of the others.

    Readers make documents without text of empty files and scanned pages, whose path alone would
    "answer" questions about it.
    """
    for node in nodes:
        check_type(node, BaseNode, "nodes", "LlamaIndex nodes")
    kept = [node for node in nodes if node.get_content(metadata_mode=MetadataMode.NONE).strip()]
    if len(kept) < len(nodes):
        blank = [node for node in nodes if node not in kept]
        paths = ", ".join(repr(node.metadata.get("file_path", node.node_id)) for node in blank[:9])
        warn(f"nodes: {len(blank)} without text are left out: {paths}.")
    return kept


def node_of(passage: Passage) -> BaseNode:
    """Return the node in the metadata of a passage, or create a text node if there is none.

    Metadata by which an index keeps track of its files are hidden from models.
    """
    if "_node_content" in passage.metadata:
        node = metadata_dict_to_node(passage.metadata)
        node.metadata = own_metadata(node.metadata)
        return node
    hidden = sorted(bookkeeping_keys(passage))
    return TextNode(
        id_=passage.id,
        text=passage.text,
        metadata=own_metadata(passage.metadata),
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
    )


def hits(result: SearchResult, details: bool = False) -> list[NodeWithScore]:
    """Convert the hits of one query to new nodes, with the keys of `Result.metadata`.

    These keys are hidden from LLMs and embedding models.

    `result`: result of a single query. `details`: whether to add details of score and decision.
    """
    [outcome] = result
    decision = outcome.decision if outcome.judged else None
    out = []
    for rank, passage in enumerate(outcome.passages):
        node, told = node_of(passage), outcome.metadata(rank, details)
        hit = _HITS.get(type(node), type(node)).model_construct(
            **dict(node)
            | {
                "metadata": HitMetadata({**node.metadata, **told}, decision),
                "excluded_llm_metadata_keys": [*node.excluded_llm_metadata_keys, *told],
                "excluded_embed_metadata_keys": [*node.excluded_embed_metadata_keys, *told],
            }
        )
        out.append(NodeWithScore(node=hit, score=float(outcome.scores[rank])))
    return out


def _without_findings(hit: BaseNode, kind: type[_N]) -> _N:
    return kind.model_construct(**dict(hit) | {"metadata": own_metadata(hit.metadata)})


class _SameHash:
    """Gives a hit the hash of its node, by which LlamaIndex identifies it, without its metadata.

    A node that is found by two queries, as in a `QueryFusionRetriever`, has two scores, but must
    still be the same node.
    """

    @property
    def hash(self) -> str:
        kind = type(self).__mro__[2]
        assert issubclass(kind, BaseNode)
        assert isinstance(self, BaseNode)
        return _without_findings(self, kind).hash


class _TextHit(_SameHash, TextNode): ...


class _IndexHit(_SameHash, IndexNode): ...


class _NodeHit(_SameHash, Node): ...


_HITS: dict[type[BaseNode], type[BaseNode]] = {
    TextNode: _TextHit,
    IndexNode: _IndexHit,
    Node: _NodeHit,
}


@dataclass
class UECQueryBundle(QueryBundle):
    """A query with the turns before it, for any engine or retriever over a `UECRetriever`.

    Attributes
    ----------
    history : sequence of ChatMessage or str, optional
        The turns before the question, oldest first. `uec_rag.retrieval.query.turns_of`
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


def turns(history: object) -> list[str]:
    """Extract the turns that a question is searched with, as `conversation.turns_of` does.

    Only the texts of messages are used. Strings are always kept.

    `history`: messages, strings, or None; TypeError if it has another type.
    """
    expected = "history: expected a list of ChatMessages or strings, oldest first"
    if history is None:
        return []
    if isinstance(history, str | Mapping | ChatMessage) or not isinstance(history, Sequence):
        raise TypeError(f"{expected}, got {history!r:.60}.")
    said = []
    for message in history:
        if isinstance(message, ChatMessage):
            said.append(
                (_SPEAKERS.get(message.role.value, message.role.value), message.content or "")
            )
        elif isinstance(message, str):
            said.append(("user", message))
        else:
            raise TypeError(f"{expected}, got {message!r:.60} among them.")
    return turns_of(said)


_SPEAKERS = {"chatbot": "assistant", "model": "assistant"}
