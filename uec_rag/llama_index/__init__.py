"""The ensemble as LlamaIndex objects: embedding, store, retriever, gate, query engine.

`vector_store` and `retriever` search, `gate` decides, `nodes` converts.
"""

from uec_rag.base.errors import missing_extra

try:
    import llama_index.core  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(missing_extra("llama-index-core", "llama-index")) from error

from uec_rag.llama_index.gate import (
    UECGatePostprocessor,
    UECQueryEngine,
    llm_advisor,
    retriever_tool,
)
from uec_rag.llama_index.nodes import UECQueryBundle
from uec_rag.llama_index.retriever import UECRetriever
from uec_rag.llama_index.vector_store import UECEmbedding, UECVectorStore

__all__ = [
    "UECEmbedding",
    "UECGatePostprocessor",
    "UECQueryBundle",
    "UECQueryEngine",
    "UECRetriever",
    "UECVectorStore",
    "llm_advisor",
    "retriever_tool",
]
