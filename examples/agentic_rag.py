"""An agent that stops instead of inventing: its searches say if the documents do not answer.

    python examples/agentic_rag.py
    python examples/agentic_rag.py --model openai:gpt-4o-mini "How do I open a file?"

It knows the documentation of Python's standard library. Any chat model of LangChain's that calls
tools works (pip install "uec-rag[agents]" langchain-openai). With no model a script stands in: it
searches for the question, and then would answer anything, right or wrong.
"""

import argparse
import textwrap

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from uec_rag import UEC
from uec_rag.documents import passages_of
from uec_rag.documents.python_docs import gather_corpus
from uec_rag.langchain import UECRetriever
from uec_rag.langchain.agent import UECGateMiddleware

QUESTIONS = [
    "How do I remove the common indentation from all lines of a text?",
    "How do I open a file?",
    "What is the capital of France?",
]

INSTRUCTIONS = (
    "You answer questions about Python's standard library. Search the documents before you answer "
    "anything, and answer from what the search brings only."
)


class Careless(BaseChatModel):
    """Searches for the question, and quotes whatever came first as if it were the answer."""

    @property
    def _llm_type(self) -> str:
        return "careless"

    def bind_tools(self, tools, **kwargs):
        """Know the tool by heart."""
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        last = messages[-1]
        if isinstance(last, ToolMessage):
            said = AIMessage(f"Surely: {last.artifact['documents'][0].page_content}")
        else:
            search = {"name": "search_documents", "args": {"query": last.text}, "id": last.text}
            said = AIMessage("", tool_calls=[search])
        return ChatResult(generations=[ChatGeneration(message=said)])


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


def build_agent(retriever, model: BaseChatModel | None = None):
    """An agent whose only tool is the retriever, and whose turns end where it does not tell."""
    return create_agent(
        model or Careless(),
        [retriever.as_tool()],
        system_prompt=INSTRUCTIONS,
        middleware=[UECGateMiddleware()],
        checkpointer=InMemorySaver(),
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
    agent = build_agent(build_retriever(), model)
    for number, question in enumerate(arguments.question):
        thread = {"configurable": {"thread_id": str(number)}}
        messages = agent.invoke({"messages": [HumanMessage(question)]}, thread)["messages"]
        for message in messages:
            if isinstance(message, ToolMessage):
                found = message.artifact
                print(f"\n{question}\n  [{found['decision']}: {found['reason']}]")
        print(textwrap.indent(textwrap.shorten(messages[-1].text, 300), "  > "))


if __name__ == "__main__":
    main()
