"""An agent in LangChain that reaches an index by the Model Context Protocol.

    uec-rag index FOLDER --out idx
    python examples/mcp_agent.py idx "How do I reset my password?"
    python examples/mcp_agent.py idx --model openai:gpt-4o-mini "How do I reset my password?"

The server runs as a process of its own, begun by the client; any other client of the protocol is
given the same command. Needs pip install "uec-rag[agents,serve]" langchain-mcp-adapters. With no
model a script stands in: it asks the tool, and does what the tool tells it to.
"""

import argparse
import asyncio
import json
import sys

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

INSTRUCTIONS = (
    "Before you answer anything, call `search` with the user's question, and do what its answer "
    "says under `what_to_do`."
)


class Obedient(BaseChatModel):
    """Asks the tool, and does what it is told."""

    @property
    def _llm_type(self) -> str:
        return "obedient"

    def bind_tools(self, tools, **kwargs):
        """Know the tool by heart."""
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        last = messages[-1]
        if not isinstance(last, ToolMessage):
            call = {"name": "search", "args": {"question": last.text, "k": 3}, "id": "1"}
            said = AIMessage("", tool_calls=[call])
        elif last.status == "error":
            said = AIMessage(f"The search failed: {last.text}")
        else:
            said = AIMessage(_reply(last.artifact["structured_content"], last.text))
        return ChatResult(generations=[ChatGeneration(message=said)])


def _reply(found, text) -> str:
    passages = found["passages"]
    if found["decision"] == "answer":
        first = next(line for line in text.splitlines() if line.startswith("[1] "))
        return f"{json.loads(first.partition(') ')[2])} (from {passages[0]['metadata']['source']})"
    if found["reason_code"] == "uncertain":  # a model would read the passages
        return f"{found['reason']} The nearest is {passages[0]['metadata']['source']}."
    return found["reason"]


async def ask(index: str, question: str, model: BaseChatModel | None = None) -> str:
    """What an agent answers whose only tools are those of the index."""
    main = "from uec_rag.cli import main; main()"  # the command uec-rag, of this environment
    server = {"transport": "stdio", "command": sys.executable, "args": ["-c", main, "mcp", index]}
    client = MultiServerMCPClient({"documents": server})
    async with client.session("documents") as session:
        tools = await load_mcp_tools(session)
        agent = create_agent(model or Obedient(), tools, system_prompt=INSTRUCTIONS)
        found = await agent.ainvoke({"messages": [("user", question)]})
    return found["messages"][-1].text


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer, ask back or abstain.")
    parser.add_argument("index", help="a folder that 'uec-rag index' made")
    parser.add_argument("question")
    parser.add_argument("--model", help="a chat model, such as openai:gpt-4o-mini")
    arguments = parser.parse_args()
    model = None
    if arguments.model:
        from langchain.chat_models import init_chat_model

        model = init_chat_model(arguments.model)
    print(asyncio.run(ask(arguments.index, arguments.question, model)))


if __name__ == "__main__":
    main()
