"""A RAG chain that answers, asks back or abstains, depending on how sure the retrieval is.

    python examples/langchain_rag.py
    python examples/langchain_rag.py --model openai:gpt-4o-mini "How do I open a file?"

It knows the documentation of Python's standard library. Any chat model of LangChain's works: the
name is for `langchain.chat_models.init_chat_model` (pip install langchain langchain-openai). With
no model it quotes the best passage in place of an answer. Each passage has its score, and how
uncertain that is: its variance.
"""

import argparse
import textwrap

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    Runnable,
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)

from uec_rag import UEC
from uec_rag.documents import passages_of
from uec_rag.documents.python_docs import gather_corpus
from uec_rag.langchain import UECRetriever

QUESTIONS = [
    "How do I remove the common indentation from all lines of a text?",
    "How do I open a file?",
    "What is the capital of France?",
]

ANSWER = ChatPromptTemplate.from_messages(
    [
        ("system", "Answer from the passages only, in three sentences at most.\n\n{passages}"),
        ("human", "{question}"),
    ]
)
ASK_BACK = ChatPromptTemplate.from_messages(
    [
        (
            "system",
            "Several passages could be meant. Do not answer: ask one short question to "
            "find out which one is meant.\n\n{passages}",
        ),
        ("human", "{question}"),
    ]
)


def build_chain(retriever, model: Runnable | None = None) -> Runnable:
    """Question in; question, documents, decision, confidence, reason and reply out."""
    if model is None:
        answer, clarifying_question = RunnableLambda(quote), RunnableLambda(ask_what_is_meant)
    else:
        answer = ANSWER | model | StrOutputParser()
        clarifying_question = ASK_BACK | model | StrOutputParser()
    return (
        RunnableParallel(question=RunnablePassthrough(), documents=retriever)
        | RunnablePassthrough.assign(
            # Every document of a question carries the same three.
            decision=lambda found: found["documents"][0].metadata["uec_decision"],
            confidence=lambda found: found["documents"][0].metadata["uec_confidence"],
            reason=lambda found: found["documents"][0].metadata["uec_reason"],
            passages=lambda found: "\n\n".join(d.page_content for d in found["documents"]),
        )
        | RunnablePassthrough.assign(
            reply=RunnableBranch(
                (lambda found: found["decision"] == "answer", answer),
                (lambda found: found["decision"] == "clarify", clarifying_question),
                RunnableLambda(abstain),
            )
        )
    )


def abstain(found):
    return f"I do not know. {found['reason']} (confidence {found['confidence']:.2f})"


def quote(found):
    return "(no chat model, so the best passage) " + found["documents"][0].page_content


def ask_what_is_meant(found):
    return "(no chat model, so only the question) " + found["reason"]


def build_retriever(uec: UEC | None = None, passages: int = 600) -> UECRetriever:
    """Index the documentation, under the default `UEC()` unless another is passed."""
    corpus = passages_of(gather_corpus(passages))
    return UECRetriever.from_texts(
        [passage.text for passage in corpus],
        uec,
        metadatas=[passage.metadata for passage in corpus],
        ids=[passage.id for passage in corpus],
        k=3,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer, ask back or abstain.")
    parser.add_argument("question", nargs="*", default=QUESTIONS)
    parser.add_argument("--model", help="a chat model, such as openai:gpt-4o-mini")
    arguments = parser.parse_args()
    model = None
    if arguments.model:
        from langchain.chat_models import init_chat_model

        model = init_chat_model(arguments.model)
    print("Indexing Python's documentation, about half a minute ...")
    chain = build_chain(build_retriever(), model)
    for question in arguments.question:
        found = chain.invoke(question)
        print(f"\n{question}\n  [{found['decision']}, confidence {found['confidence']:.2f}]")
        for document in found["documents"]:
            m = document.metadata
            print(f"  {m['uec_score']:.3f} (variance {m['uec_sigma2']:.1e})  {m['source']}")
        print(textwrap.indent(textwrap.fill(textwrap.shorten(found["reply"], 400), 90), "  > "))


if __name__ == "__main__":
    main()
