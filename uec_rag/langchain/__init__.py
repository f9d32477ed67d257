"""The ensemble as LangChain objects: embeddings, a vector store, a retriever."""

from typing import TYPE_CHECKING

from uec_rag.base.errors import missing_extra

try:
    import langchain_core  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "langchain_core":
        raise
    raise ImportError(missing_extra("langchain-core", "langchain")) from error

from uec_rag.langchain.embeddings import UECEmbeddings
from uec_rag.langchain.gate import UECGate, chat_advisor
from uec_rag.langchain.gated import Gated, retriever_tool
from uec_rag.langchain.graph import retrieval_node, route_on_decision
from uec_rag.langchain.vectorstore import UECRetriever, UECVectorStore

if TYPE_CHECKING:
    from uec_rag.langchain.agent import UECGateMiddleware

__all__ = [
    "Gated",
    "UECEmbeddings",
    "UECGate",
    "UECGateMiddleware",
    "UECRetriever",
    "UECVectorStore",
    "chat_advisor",
    "retrieval_node",
    "retriever_tool",
    "route_on_decision",
]


def __getattr__(name: str) -> object:
    """Import, on first access, the middleware, which needs langchain besides the core."""
    if name != "UECGateMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from uec_rag.langchain.agent import UECGateMiddleware
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("langchain", "langgraph"):
            raise
        raise ImportError(missing_extra("langchain", "agents")) from error
    return UECGateMiddleware
