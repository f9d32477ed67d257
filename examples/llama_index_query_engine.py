"""A query engine that answers, asks back or abstains, over an ordinary LlamaIndex index.

    python examples/llama_index_query_engine.py
    python examples/llama_index_query_engine.py --openai gpt-4o-mini "How do I open a file?"

It knows the documentation of Python's standard library. Any LLM of LlamaIndex's works in place of
OpenAI's (pip install llama-index-llms-openai). With none, the passages stand in for the answer.
Each passage has its score, and how uncertain that is: its variance.
"""

import argparse
import textwrap

from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.llms import LLM, MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers.context_only import ContextOnly

from uec_rag import UEC
from uec_rag.documents import passages_of
from uec_rag.documents.python_docs import gather_corpus
from uec_rag.llama_index import UECEmbedding, UECQueryEngine, UECRetriever, UECVectorStore

QUESTIONS = [
    "How do I remove the common indentation from all lines of a text?",
    "How do I open a file?",
    "What is the capital of France?",
]


def build_index(uec: UEC | None = None, passages: int = 600) -> VectorStoreIndex:
    """Index the documentation, under the default `UEC()` unless another is passed."""
    uec = uec or UEC()
    return VectorStoreIndex.from_documents(
        [
            Document(
                text=passage.text,
                id_=passage.id,
                metadata=passage.metadata,
                excluded_embed_metadata_keys=list(passage.metadata),
            )
            for passage in passages_of(gather_corpus(passages))
        ],
        storage_context=StorageContext.from_defaults(vector_store=UECVectorStore(uec)),
        embed_model=UECEmbedding(uec=uec),
    )


def build_engine(index: VectorStoreIndex, llm: LLM | None = None) -> UECQueryEngine:
    """Gate the index's answers by the retrieval's confidence."""
    retriever = UECRetriever(index.vector_store.index, similarity_top_k=3)
    if llm is None:
        context_only = ContextOnly(llm=MockLLM())  # shows the passages and does not ask its LLM
        return UECQueryEngine(RetrieverQueryEngine(retriever, context_only))
    return UECQueryEngine.from_args(retriever, llm)


def beginning(text: str, most: int = 600) -> str:
    """Cut a long text at a word."""
    return text if len(text) <= most else text[: most + 1].rsplit(maxsplit=1)[0] + " ..."


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer, ask back or abstain.")
    parser.add_argument("question", nargs="*", default=QUESTIONS)
    parser.add_argument("--openai", metavar="MODEL", help="an OpenAI model, such as gpt-4o-mini")
    arguments = parser.parse_args()
    llm = None
    if arguments.openai:
        from llama_index.llms.openai import OpenAI

        llm = OpenAI(model=arguments.openai)
    print("Indexing Python's documentation, about half a minute ...")
    engine = build_engine(build_index(), llm)
    for question in arguments.question:
        response = engine.query(question)
        told = response.metadata
        print(f"\n{question}\n  [{told['uec_decision']}: {told['uec_reason']}]")
        for source in response.source_nodes:
            m = source.metadata
            print(f"  {m['uec_score']:.3f} (variance {m['uec_sigma2']:.1e})  {m['source']}")
        filled = (textwrap.fill(line, 86) for line in beginning(str(response)).splitlines())
        print(textwrap.indent("\n".join(filled), "  > ", lambda line: True))


if __name__ == "__main__":
    main()
