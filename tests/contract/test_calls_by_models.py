"""What a model writes into a call of LlamaIndex's tools, or over MCP, opens nothing."""

import json

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from mcp.server.fastmcp.exceptions import ToolError

from tests.helpers import index_of
from uec_rag import UEC
from uec_rag.llama_index import UECQueryEngine, UECRetriever, retriever_tool
from uec_rag.server import create_mcp

QUESTION = "Who repairs the camera?"
NORTH, SOUTH = {"customer": "north"}, {"customer": "south"}
TEXTS = [f"The camera of {name} is repaired by {name}." for name in ("Ann", "Bob", "Cleo", "Dan")]
IN_SOUTH = "Cleo", "Dan"
FORGED = [
    {"tenant": SOUTH},
    {"tenant": None},
    {"filter": SOUTH, "filters": SOUTH},
    {"within": ["2", "3"]},
    {"history": ["Cleo"], "kwargs": {"tenant": SOUTH}},
    {"retriever": None, "similarity_top_k": 50},
]


@pytest.fixture(scope="module")
def index():
    customers = [{"customer": name} for name in ("north", "north", "south", "south")]
    return index_of(UEC(["bm25"]), TEXTS, [*"0123"], customers)


def filters_of(condition):
    pairs = [MetadataFilter(key=key, value=value) for key, value in condition.items()]
    return MetadataFilters(filters=pairs)


def engine_over(retriever):
    return UECQueryEngine.from_args(retriever, MockLLM())


RETRIEVERS = {
    "tenant": lambda index: UECRetriever(index, tenant=NORTH),
    "filters": lambda index: UECRetriever(index, filters=filters_of(NORTH)),
}
TOOLS = {
    "retriever_tool": retriever_tool,
    "RetrieverTool": RetrieverTool.from_defaults,
    "QueryEngineTool": lambda one: QueryEngineTool.from_defaults(engine_over(one)),
    "resolving": lambda one: QueryEngineTool.from_defaults(
        engine_over(one), resolve_input_errors=True
    ),
}


def of_south(said, more):
    """The names of the others that are said, but for those that the call had."""
    return [name for name in IN_SOUTH if name in said and name not in json.dumps(more)]


@pytest.mark.parametrize("make", RETRIEVERS.values(), ids=RETRIEVERS)
@pytest.mark.parametrize("wrap", TOOLS.values(), ids=TOOLS)
async def test_a_tool_of_llama_index_stays_with_its_tenant(index, make, wrap):
    tool = wrap(make(index))
    name = "query" if tool.metadata.fn_schema.model_fields.keys() == {"query"} else "input"
    for more in FORGED:
        for call in (lambda **given: tool.call(**given), tool.acall):
            try:
                reply = call(**{name: QUESTION}, **more)
                said = (reply if hasattr(reply, "content") else await reply).content
            except TypeError as error:
                said = str(error)
            assert not of_south(said, more)


def calls_first(name, arguments):
    """A model's replies: a call of a tool, then what the tool replied."""

    def reply(messages, **_):
        last = messages[-1]
        if last.role == "tool":
            return ChatMessage(last.content, role="assistant")
        call = ToolCallBlock(tool_call_id="1", tool_name=name, tool_kwargs=arguments)
        return ChatMessage(role="assistant", blocks=[call])

    return reply


@pytest.mark.parametrize("more", [{}, *FORGED], ids=str)
async def test_an_agent_of_llama_index_opens_no_other_tenant(index, more):
    tool = retriever_tool(UECRetriever(index, tenant=NORTH))
    says = calls_first(tool.metadata.name, {"query": QUESTION, **more})
    model = MockFunctionCallingLLM(response_generator=says, is_chat_model=True)
    agent = FunctionAgent(tools=[tool], llm=model, streaming=False)
    said = str(await agent.run(QUESTION))
    assert not of_south(said, more)
    assert ("Ann" in said) == (not more)  # a call that is wrong is refused


async def test_no_argument_over_mcp_leads_out_of_its_filter(index):
    server = create_mcp(index, NORTH)
    found = await server.call_tool("search", {"question": QUESTION, "filter": SOUTH})
    assert not of_south(str(found), {})
    found = await server.call_tool("get", {"ids": ["0", "2"]})
    assert "Ann" in str(found)
    assert not of_south(str(found), {})
    for more in FORGED:
        unknown = {key: value for key, value in more.items() if key not in ("filter", "history")}
        for asked in (unknown, {"filter": SOUTH, **unknown}):
            try:
                said = str(await server.call_tool("search", {"question": QUESTION, **asked}))
            except ToolError as error:
                said = str(error)
            assert not of_south(said, asked)
