"""LlamaIndex nodes as passages of an index, and hits as nodes that carry their uncertainty."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    MetadataMode,
    Node,
    NodeWithScore,
    TextNode,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from uec_rag.retrieval import SearchResult, make_passages
from uec_rag.stores.base import Passage

_N = TypeVar("_N", bound=BaseNode)
_KEY = "uec_"


def passages_of(nodes: Sequence[BaseNode]) -> list[Passage]:
    """Passages that hold nodes whole; their text is what LlamaIndex embeds of a node.

    Raises
    ------
    TypeError, ValueError
        If one is not a node, has no text to embed, or an id comes twice.
    """
    for node in nodes:
        if not isinstance(node, BaseNode):
            raise TypeError(f"nodes: expected LlamaIndex nodes, got {type(node).__name__}.")
    return make_passages(
        [node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes],
        [node.node_id for node in nodes],
        [node_to_metadata_dict(node) for node in nodes],
    )


def node_of(passage: Passage) -> BaseNode:
    """Return the node that a passage holds, or a text node of a passage that came without one."""
    if "_node_content" in passage.metadata:
        return metadata_dict_to_node(passage.metadata)
    return TextNode(id_=passage.id, text=passage.text, metadata=copy.deepcopy(passage.metadata))


def hits(found: SearchResult) -> list[NodeWithScore]:
    """Hits of one query as nodes of their own, with what is known about each in the metadata.

    The keys are those of `SearchResult.metadata`. All are kept out of what an LLM or an embedding
    model is shown of a node.

    Parameters
    ----------
    found : SearchResult
        Of a single query.
    """
    return [
        NodeWithScore(
            node=_annotated(node_of(passage), found.metadata(0, rank)),
            score=float(found.scores[0, rank]),
        )
        for rank, passage in enumerate(found.passages[0])
    ]


def _annotated(node: BaseNode, found: Mapping[str, Any]) -> BaseNode:
    kind = _HITS.get(type(node), type(node))
    return kind.model_construct(
        **dict(node)
        | {
            "metadata": {**node.metadata, **found},
            "excluded_llm_metadata_keys": [*node.excluded_llm_metadata_keys, *found],
            "excluded_embed_metadata_keys": [*node.excluded_embed_metadata_keys, *found],
        }
    )


def _without_findings(hit: BaseNode, kind: type[_N]) -> _N:
    own = {key: value for key, value in hit.metadata.items() if not key.startswith(_KEY)}
    return kind.model_construct(**dict(hit) | {"metadata": own})


# LlamaIndex tells nodes apart by `hash`, which covers the metadata. Found by two queries, as in its
# QueryFusionRetriever, a node has two scores and must still be one.
class _TextHit(TextNode):
    @property
    def hash(self) -> str:
        return _without_findings(self, TextNode).hash


class _IndexHit(IndexNode):
    @property
    def hash(self) -> str:
        return _without_findings(self, IndexNode).hash


class _NodeHit(Node):
    @property
    def hash(self) -> str:
        return _without_findings(self, Node).hash


_HITS: dict[type[BaseNode], type[BaseNode]] = {
    TextNode: _TextHit,
    IndexNode: _IndexHit,
    Node: _NodeHit,
}
