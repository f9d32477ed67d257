"""The ensemble as LangChain objects: embeddings, a vector store, a retriever."""

from uec_rag.base.errors import missing_extra

try:
    import langchain_core  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(missing_extra("langchain-core", "langchain")) from error

from uec_rag.langchain.gate import UECGate, chat_advisor
from uec_rag.langchain.gated import Gated, retrieval_node, retriever_tool, route_on_decision
from uec_rag.langchain.vectorstore import UECEmbeddings, UECRetriever, UECVectorStore

__all__ = [
    "Gated",
    "UECEmbeddings",
    "UECGate",
    "UECRetriever",
    "UECVectorStore",
    "chat_advisor",
    "retrieval_node",
    "retriever_tool",
    "route_on_decision",
]
