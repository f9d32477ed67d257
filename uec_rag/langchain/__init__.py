"""The ensemble as LangChain objects: embeddings, a vector store, a retriever.

`vectorstore` has the store and the retriever, `gate` decides, `gated` has what is decided as tools
and nodes take it, `conversion` converts types; `sources` are stores of others.
"""

from uec_rag.base.errors import require

require("langchain", "langchain-core")

from uec_rag.langchain.conversion import UECEmbeddings  # noqa: E402
from uec_rag.langchain.gate import UECGate, chat_advisor  # noqa: E402
from uec_rag.langchain.gated import Gated, retrieval_node, retriever_tool  # noqa: E402
from uec_rag.langchain.vectorstore import UECRetriever, UECVectorStore  # noqa: E402

__all__ = [
    "Gated",
    "UECEmbeddings",
    "UECGate",
    "UECRetriever",
    "UECVectorStore",
    "chat_advisor",
    "retrieval_node",
    "retriever_tool",
]
