"""The ways to ask an index, of LangChain, LlamaIndex and none."""

from langchain_core.runnables import RunnableLambda
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine

from uec_rag import langchain, llama_index
from uec_rag.langchain import UECGate, retrieval_node


def of_langchain(index, **options):
    return langchain.UECVectorStore(index).as_retriever(**options)


def nodes_of(index, k=4):
    return llama_index.UECRetriever(index, k)


def vector_index(index):
    store, embedding = llama_index.UECVectorStore(index), llama_index.UECEmbedding(uec=index.uec)
    return VectorStoreIndex.from_vector_store(store, embed_model=embedding)


def engine_of(index, gate=None):
    return llama_index.UECQueryEngine.from_args(nodes_of(index), MockLLM(), gate)


WAYS = {
    "asearch": lambda gated, *_: lambda q: gated.asearch([q]),
    "UECRetriever": lambda gated, *_: of_langchain(gated).ainvoke,
    "UECGate": lambda _, index, gate: UECGate(retriever=of_langchain(index), gate=gate).ainvoke,
    "UECGate over another retriever": lambda _, index, gate: (
        UECGate(retriever=RunnableLambda(str.strip) | of_langchain(index), gate=gate).ainvoke
    ),
    "node": lambda gated, *_: (
        lambda q: retrieval_node(of_langchain(gated)).ainvoke({"question": q})
    ),
    "tool": lambda gated, *_: lambda q: of_langchain(gated).as_tool().ainvoke({"query": q}),
    "LlamaIndex's UECRetriever": lambda gated, *_: nodes_of(gated).aretrieve,
    "LlamaIndex's index": lambda gated, *_: vector_index(gated).as_retriever().aretrieve,
    "UECQueryEngine": lambda _, index, gate: engine_of(index, gate).aquery,
    "postprocessor": lambda _, index, gate: (
        RetrieverQueryEngine.from_args(
            nodes_of(index),
            llm=MockLLM(),
            node_postprocessors=[llama_index.UECGatePostprocessor(gate=gate)],
        ).aquery
    ),
    "LlamaIndex's tool": lambda gated, *_: llama_index.retriever_tool(nodes_of(gated)).acall,
}
"""Each awaited, of an index in which a gate decides, or of one without it and the gate."""
