"""What a model writes into a call of a tool opens nothing that the tool was not made for."""

import asyncio

import pytest
from langchain.agents import create_agent
from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    ConfigurableField,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import ValidationError

from uec_rag import UEC
from uec_rag.langchain import UECGate, UECRetriever, retrieval_node, retriever_tool

QUESTION = "Who repairs the camera?"
NAMES = {"north": ("Ann", "Bob"), "south": ("Cleo", "Dan")}
TEXTS = [f"The camera of {name} is repaired by {name}." for two in NAMES.values() for name in two]
NORTH, SOUTH = {"customer": "north"}, {"customer": "south"}
IDS = [*"0123"]


@pytest.fixture(scope="module")
def retriever():
    metadatas = [{"customer": customer} for customer, two in NAMES.items() for _ in two]
    return UECRetriever.from_texts(TEXTS, UEC(["bm25"]), metadatas, IDS, k=4, fit=False)


ALIKE = {"customer": {"$in": ["north"]}}
MADE = {
    "as_tool(tenant=)": lambda one: one.as_tool(tenant=NORTH),
    "as_tool(filter=)": lambda one: one.as_tool(filter=NORTH),
    "retriever_tool(bind)": lambda one: retriever_tool(one.bind(tenant=NORTH)),
    "bind.as_tool": lambda one: one.bind(tenant=NORTH).as_tool(),
    "with_config.bind": lambda one: one.with_config(tags=["a"]).bind(tenant=NORTH).as_tool(),
    "with_retry.bind": lambda one: one.with_retry().bind(filter=NORTH).as_tool(),
    "bound, then made": lambda one: one.bind(tenant=NORTH).as_tool(filter=ALIKE),
    "made once more": lambda one: one.bind(tenant=NORTH).bind(tenant=ALIKE).as_tool(),
}
FORGED = [
    {"tenant": SOUTH},
    {"tenant": None},
    {"tenant": {"customer": {"$exists": True}}},
    {"filter": SOUTH},
    {"filter": None},
    {"within": ["2", "3"]},
    {"options": {"tenant": SOUTH}},
    {"config": {"configurable": {"tenant": SOUTH}}},
    {"kwargs": {"tenant": SOUTH}, "args": [SOUTH]},
    {"_limits": {"tenant": SOUTH}},
    {"search_kwargs": {"filter": {}}, "k": 50},
    {"run_manager": None, "state": {"tenant": SOUTH}},
]


@pytest.fixture(params=[lambda one: one, lambda one: UECGate(retriever=one)], ids=["hits", "gate"])
def made(retriever, request):
    return request.param(retriever)


def call_of(tool, more):
    args = {"query": QUESTION, **more}
    return {"name": tool.name, "args": args, "id": "1", "type": "tool_call"}


def by_tool_call(tool, more):
    return tool.invoke(call_of(tool, more)).content


def by_awaited_call(tool, more):
    return asyncio.run(tool.ainvoke(call_of(tool, more))).content


def by_node(tool, more):
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([tool]))
    graph.add_edge(START, "tools")
    given = [HumanMessage(QUESTION), AIMessage("", tool_calls=[call_of(tool, more)])]
    return graph.compile().invoke({"messages": given})["messages"][-1].content


class Caller(GenericFakeChatModel):
    """A model that calls a tool with whatever it likes."""

    def bind_tools(self, tools, **_):
        return self


def by_agent(tool, more):
    says = iter([AIMessage("", tool_calls=[call_of(tool, more)]), AIMessage("Done.")])
    agent = create_agent(Caller(messages=says), [tool])
    messages = agent.invoke({"messages": [HumanMessage(QUESTION)]})["messages"]
    return "\n".join(message.text for message in messages[1:])


def by_executor(tool, more):
    says = iter([AIMessage("", tool_calls=[call_of(tool, more)]), AIMessage("Done.")])
    prompt = ChatPromptTemplate([("human", "{input}"), ("placeholder", "{agent_scratchpad}")])
    agent = create_tool_calling_agent(Caller(messages=says), [tool], prompt)
    options = {"return_intermediate_steps": True, "stream_runnable": False}
    executor = AgentExecutor(agent=agent, tools=[tool], **options)
    [(_, reply)] = executor.invoke({"input": QUESTION})["intermediate_steps"]
    return str(reply)


CALLS = [by_tool_call, by_awaited_call, by_node, by_agent, by_executor]


def names_in(said):
    return {customer for customer, two in NAMES.items() if any(name in said for name in two)}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
@pytest.mark.parametrize("call", CALLS)
def test_a_models_call_opens_no_other_tenant(made, make, call):
    tool = make(made)
    assert names_in(call(tool, {})) == {"north"}
    for more in FORGED:
        try:
            said = call(tool, more)
        except ValidationError as error:
            said = str(error)
        assert "south" not in names_in(said), more
        # What is refused names what the call had, and nothing that it could have.
        options = {"tenant", "filter", "within", "history", "fetch_k", "score_threshold"}
        assert not {name for name in options - {*str(more).split("'")} if f"{name}\n" in said}


@pytest.mark.parametrize("more", [{"tenant": SOUTH}, {"within": ["2"]}, {"k": 1}])
def test_what_a_models_call_has_beside_the_schema_is_refused(made, more):
    tool = made.as_tool()
    for call in (by_tool_call, by_awaited_call):
        with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
            call(tool, more)
    for call in (by_node, by_executor):
        assert "Extra inputs are not permitted" in call(tool, more)
    assert names_in(by_tool_call(tool, {})) == {"north", "south"}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_what_a_program_passes_limits_a_tool_further_and_opens_nothing(made, make):
    tool = make(made)
    for options in ({"tenant": SOUTH}, {"filter": SOUTH}):
        for said in (
            tool.invoke(QUESTION, **options),
            tool.invoke({"query": QUESTION, **options}),
            asyncio.run(tool.ainvoke({"query": QUESTION}, **options)),
            tool.invoke(call_of(tool, {}), **options).content,
        ):
            assert not names_in(said)
    first = {"filter": {"$id": ["0", "2"]}}
    for said in (tool.invoke(QUESTION, **first), tool.invoke({"query": QUESTION, **first})):
        assert "Ann" in said
        assert not {"Bob", "Cleo", "Dan"} & {*said.replace(".", " ").split()}
    for none in (
        lambda: tool.invoke(QUESTION, tenant=None),
        lambda: tool.invoke({"query": QUESTION, "tenant": None}),
    ):
        with pytest.raises(ValueError, match=r"tenant: .*None"):
            none()


def test_a_tool_keeps_the_filter_of_its_retriever(retriever):
    of_north = retriever.model_copy(update={"filter": NORTH})
    for made in (of_north, UECGate(retriever=of_north)):
        for tool in (made.as_tool(), made.as_tool(filter={"$id": IDS})):
            assert names_in(tool.invoke(QUESTION)) == {"north"}
            assert not names_in(tool.invoke(QUESTION, filter=SOUTH))


LATER = {
    "keyword": lambda one: one.invoke(QUESTION, tenant=SOUTH),
    "key": lambda one: one.invoke({"question": QUESTION, "tenant": SOUTH}),
    "batch": lambda one: one.batch([QUESTION], tenant=SOUTH)[0],
    "bind": lambda one: one.bind(tenant=SOUTH).invoke(QUESTION),
    "state": lambda one: retrieval_node(one).invoke({"question": QUESTION, "tenant": SOUTH}),
}
BOUND = {
    "bind": lambda one: one.bind(tenant=NORTH),
    "after a config": lambda one: one.with_config(tags=["a"]).bind(tenant=NORTH),
    "before a config": lambda one: one.bind(tenant=NORTH).with_config(tags=["a"]),
    "after a retry": lambda one: one.with_retry().bind(tenant=NORTH),
    "before a retry": lambda one: one.bind(tenant=NORTH).with_retry(),
    "before fallbacks": lambda one: one.bind(tenant=NORTH).with_fallbacks([RunnableLambda(str)]),
    "before a sequence": lambda one: one.bind(tenant=NORTH) | RunnableLambda(lambda found: found),
}


async def heard(_):
    pass


def with_field(one):
    """A runnable of which a configuration chooses a parameter that both classes have."""
    return one.configurable_fields(tenant_required=ConfigurableField(id="strict"))


WRAPPED = {
    "listeners": lambda one: one.with_listeners(on_start=lambda _: None),
    "awaited listeners": lambda one: one.with_alisteners(on_end=heard),
    "types": lambda one: one.with_types(input_type=str),
    "a field": with_field,
    "a chosen field": lambda one: with_field(one).with_config(configurable={"strict": True}),
    "alternatives": lambda one: one.configurable_alternatives(
        ConfigurableField(id="which"), other=one.with_retry(), made=lambda: one
    ),
    "a chosen alternative": lambda one: one.configurable_alternatives(
        ConfigurableField(id="which"), other=lambda: one
    ).with_config(configurable={"which": "other"}),
    "fallbacks": lambda one: one.with_fallbacks([one.with_types(output_type=list)]),
    "a config and a field": lambda one: with_field(one).with_config(tags=["a"]),
    "a field in a retry": lambda one: with_field(one).with_retry(),
    "listeners of a bound one": lambda one: one.bind(filter=NORTH).with_listeners(),
    "all at once": lambda one: (
        with_field(one).with_types(input_type=str).with_retry().with_listeners().with_fallbacks([])
    ),
}
for name, wrap in WRAPPED.items():
    BOUND[f"after {name}"] = lambda one, wrap=wrap: wrap(one).bind(tenant=NORTH)
    BOUND[f"before {name}"] = lambda one, wrap=wrap: wrap(one.bind(tenant=NORTH))
LATER |= {
    "awaited": lambda one: asyncio.run(one.ainvoke(QUESTION, tenant=SOUTH)),
    "stream": lambda one: next(one.stream(QUESTION, tenant=SOUTH)),
    "tool": lambda one: (
        retriever_tool(one)
        .invoke(
            {"name": "search", "args": {"query": QUESTION}, "id": "1", "type": "tool_call"},
            tenant=SOUTH,
        )
        .artifact
    ),
}


@pytest.mark.parametrize("later", LATER.values(), ids=LATER)
@pytest.mark.parametrize("bound", BOUND.values(), ids=BOUND)
def test_no_later_tenant_takes_the_place_of_a_bound_one(made, bound, later):
    if later is LATER["tool"] and bound is BOUND["before a sequence"]:
        return  # no retriever of ours, so that its tool takes no options
    found = later(bound(made))
    assert not (found["documents"] if isinstance(found, dict) else found)


@pytest.mark.parametrize("bound", BOUND.values(), ids=BOUND)
def test_what_is_bound_is_shown(made, bound):
    found = bound(made).invoke(QUESTION)
    documents = found["documents"] if isinstance(found, dict) else found
    assert {document.id for document in documents} == {"0", "1"}


def test_a_parameter_that_a_configuration_chooses_lifts_no_binding(retriever):
    other = retriever.model_copy(update={"k": 3})
    gate = UECGate(retriever=retriever)
    for one, name, value in (
        (gate, "retriever", other),
        (retriever, "filter", SOUTH),
        (retriever, "search_kwargs", {"filter": SOUTH, "tenant": SOUTH}),
        (retriever, "tenant", SOUTH),
    ):
        field = one.configurable_fields(**{name: ConfigurableField(id="it")})
        for limited in (field.bind(tenant=NORTH), field.bind(filter=NORTH).with_types()):
            found = limited.invoke(QUESTION, {"configurable": {"it": value}})
            documents = found["documents"] if isinstance(found, dict) else found
            assert {document.id for document in documents} <= {"0", "1"}


def test_what_takes_no_tenant_is_not_asked_for_one(made):
    elsewhere = RunnableParallel(a=RunnablePassthrough())
    chosen = made.configurable_alternatives(ConfigurableField(id="which"), other=elsewhere)
    with pytest.raises(TypeError, match="tenant: RunnableParallel takes no options"):
        chosen.bind(tenant=NORTH)
    for later in (
        lambda one: one.bind(tenant=NORTH).invoke(QUESTION, score_threshold=0.5),
        lambda one: one.invoke(QUESTION, tenant=NORTH, score_threshold=0.5),
        lambda one: asyncio.run(one.ainvoke(QUESTION, tenant=NORTH, score_threshold=0.5)),
    ):
        with pytest.raises(ValueError, match="score_threshold: it needs"):
            later(made.with_fallbacks([elsewhere]))
    assert made.with_fallbacks([elsewhere]).invoke("", {"tags": ["a"]}) is not None


@pytest.mark.parametrize("bound", [*BOUND][:5])
def test_each_tenant_that_is_bound_counts(made, bound):
    twice = BOUND[bound](made).bind(tenant=SOUTH)
    found = twice.invoke(QUESTION, tenant=NORTH)
    assert not (found["documents"] if isinstance(found, dict) else found)


def test_a_configuration_does_not_lift_a_tenant(retriever):
    field = ConfigurableField(id="tenant")
    of_north = retriever.model_copy(update={"tenant": NORTH}).configurable_fields(tenant=field)
    kwargs = ConfigurableField(id="search_kwargs")
    by_kwargs = retriever.model_copy(update={"search_kwargs": {"tenant": NORTH}})
    by_kwargs = by_kwargs.configurable_fields(search_kwargs=kwargs)
    for one in (of_north, of_north.with_config(tags=["a"]), by_kwargs):
        asked = {"tenant": SOUTH, "search_kwargs": {"tenant": SOUTH}}
        assert one.invoke(QUESTION, {"configurable": asked}) == []
        asked = {"search_kwargs": {"k": 3}}
        assert {d.id for d in one.invoke(QUESTION, {"configurable": asked})} == {"0", "1"}
    free = retriever.configurable_fields(tenant=field)
    assert {d.id for d in free.invoke(QUESTION, {"configurable": {"tenant": SOUTH}})} == {"2", "3"}


NOBODY = {
    "keyword": lambda one: one.invoke(QUESTION, tenant=None),
    "awaited": lambda one: asyncio.run(one.ainvoke(QUESTION, tenant=None)),
    "key": lambda one: one.invoke({"question": QUESTION, "tenant": None}),
    "batch": lambda one: one.batch([{"question": QUESTION, "tenant": None}]),
    "bind": lambda one: one.bind(tenant=None).invoke(QUESTION),
    "a bound call": lambda one: one.bind(tenant=NORTH).invoke(QUESTION, tenant=None),
    "after fallbacks": lambda one: (
        one.with_fallbacks([], exceptions_to_handle=(KeyError,)).bind(tenant=None).invoke(QUESTION)
    ),
    "as_tool": lambda one: one.as_tool(tenant=None),
    "state": lambda one: retrieval_node(one).invoke({"question": QUESTION, "tenant": None}),
    "state of a bound one": lambda one: retrieval_node(one.bind(tenant=NORTH)).invoke(
        {"question": QUESTION, "tenant": None}
    ),
}


@pytest.mark.parametrize("way", NOBODY.values(), ids=NOBODY)
def test_none_is_no_tenant(made, way):
    with pytest.raises(ValueError, match=r"tenant: expected a filter.*got None. Leave it out"):
        way(made)


@pytest.mark.parametrize("forged", [{}, {"tenant": SOUTH}, []])
def test_what_a_binding_keeps_is_not_replaced_by_an_option_of_its_name(made, forged):
    """As where a server hands the keywords of a request on."""
    for one in (made, made.bind(tenant=NORTH)):
        with pytest.raises(TypeError, match="_limits: expected no such argument"):
            one.invoke(QUESTION, _limits=forged)
        with pytest.raises(TypeError, match="_limits: expected no such argument"):
            asyncio.run(one.ainvoke(QUESTION, _limits=forged))
