"""The ensemble as LangChain's own kinds of object: embeddings, a vector store, a retriever."""

from uec_rag.base.environment import missing_extra

try:
    import langchain_core  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "langchain_core":
        raise
    raise ImportError(missing_extra("langchain-core", "langchain")) from error

from uec_rag.langchain.embeddings import UECEmbeddings
from uec_rag.langchain.gate import UECGate
from uec_rag.langchain.vectorstore import UECRetriever, UECVectorStore

__all__ = ["UECEmbeddings", "UECGate", "UECRetriever", "UECVectorStore"]
