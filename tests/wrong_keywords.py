"""Calls with a keyword that is not there: each is an error to a type checker, or `make lint` fails.

An ignored error that is none is an error itself, to mypy --strict and to pyright as it is set here.
"""

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from llama_index.core import VectorStoreIndex

from uec_rag import UEC, Gate, Retriever, llama_index
from uec_rag.langchain import UECGate, UECRetriever, UECVectorStore

TEXTS = ["The loan of a laptop lasts two weeks."]


def langchain(store: VectorStore, embedding: Embeddings) -> None:
    """Call what indexes, what searches and what decides."""
    retriever = UECRetriever.from_texts(TEXTS)
    UECRetriever.from_texts(TEXTS, metadata_s=[{}])  # type: ignore[call-arg]
    UECRetriever.from_documents([Document("a")], top_k=1)  # type: ignore[call-arg]
    UECRetriever.from_store(UECVectorStore(), top_k=1)  # type: ignore[call-arg]
    UECRetriever.over(store, embedding, candidate=20)  # type: ignore[call-arg]
    UECVectorStore.from_texts(TEXTS, embeddings=embedding)  # type: ignore[call-arg]
    UECVectorStore().as_retriever(top_k=1)  # type: ignore[call-arg]
    retriever.invoke("How long?", top_k=1)  # type: ignore[call-arg]
    retriever.fit_from(progress=True)  # type: ignore[call-arg]
    UECGate(retriever=retriever, threshold=0.5)  # type: ignore[call-arg]
    UECGate(retriever=retriever).invoke("How long?", chat_history=[])  # type: ignore[call-arg]
    UECGate.from_labels(retriever, TEXTS, [{"1"}], max_worng=0.1)  # type: ignore[call-arg]


def llamaindex(index: Retriever, theirs: VectorStoreIndex) -> None:
    """Call what indexes, what searches and what decides."""
    llama_index.UECRetriever(index, k=3)  # type: ignore[call-arg]
    llama_index.UECRetriever.from_texts(TEXTS, top_k=3)  # type: ignore[call-arg]
    llama_index.UECRetriever.from_nodes([], top_k=3)  # type: ignore[call-arg]
    llama_index.UECRetriever.from_documents([], top_k=3)  # type: ignore[call-arg]
    llama_index.UECRetriever.over(theirs, filter=None)  # type: ignore[call-arg]
    llama_index.UECQueryEngine.from_args(llama_index.UECRetriever(index), streamin=True)  # type: ignore[call-arg]
    llama_index.UECVectorStore(embeddings=None)  # type: ignore[call-arg]
    llama_index.UECGatePostprocessor(gates=None)  # type: ignore[call-arg]
    llama_index.UECQueryBundle("How long?", witin=None)  # type: ignore[call-arg]


def alone(index: Retriever) -> None:
    """Call what needs no framework."""
    UEC(encoder=["bm25"])  # type: ignore[call-arg]
    UEC().fit([], epochs=3)  # type: ignore[call-arg]
    Retriever(UEC(), threshold=0.5)  # type: ignore[call-arg]
    index.search(TEXTS, top_k=3)  # type: ignore[call-arg]
    Gate.from_labels(index, TEXTS, [{"1"}], max_worng=0.1)  # type: ignore[call-arg]
    Gate().search(index, TEXTS, top_k=3)  # type: ignore[call-arg]
