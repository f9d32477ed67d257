"""Whatever a call says to see less is done, or refused: nothing of it is dropped without a word."""

import asyncio

import pytest
from langchain_classic.retrievers import EnsembleRetriever
from langchain_core.runnables import (
    ConfigurableField,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)

from uec_rag import UEC
from uec_rag.langchain import UECGate, UECRetriever, retrieval_node, retriever_tool

QUESTION = "Who repairs the camera?"
TEXTS = [f"The camera of {name} is repaired by {name}." for name in ("Ann", "Bob", "Cleo", "Dan")]
A, B = {"t": "a"}, {"t": "b"}
NARROWING = [
    {"tenant": A},
    {"filter": A},
    {"tenant": lambda passage: passage.metadata["t"] == "a"},
    {"tenant": {"t": {"$in": ["a", "b"]}}, "filter": A},
    {"within": ["0", "1"], "k": 9},
]


@pytest.fixture(scope="module")
def retriever():
    letters = [{"t": letter} for letter in "aabb"]
    return UECRetriever.from_texts(TEXTS, UEC(["bm25"]), letters, [*"0123"], k=4, fit=False)


def with_keys(runnable, options):
    return runnable.invoke({"question": QUESTION, **options})


def assigned(runnable, options):
    given = {key: lambda _, value=value: value for key, value in options.items()}
    return (RunnablePassthrough.assign(**given) | runnable).invoke({"question": QUESTION})


def called(tool, **call):
    asked = {"name": tool.name, "args": {"query": QUESTION}, "id": "1", "type": "tool_call"}
    return tool.invoke(asked, **call).artifact


WAYS = {
    "keyword": lambda one, options: one.invoke(QUESTION, **options),
    "awaited": lambda one, options: asyncio.run(one.ainvoke(QUESTION, **options)),
    "keys": with_keys,
    "awaited keys": lambda one, o: asyncio.run(one.ainvoke({"question": QUESTION, **o})),
    "keys in a batch": lambda one, options: one.batch([{"input": QUESTION, **options}])[0],
    "assigned": assigned,
    "bound": lambda one, options: one.bind(**options).invoke(QUESTION),
    "parallel": lambda one, options: with_keys(RunnableParallel(found=one), options)["found"],
    "tool's call": lambda one, options: called(one.as_tool(), **options),
    "made tool": lambda one, options: called(one.as_tool(**options)),
    "retriever_tool": lambda one, options: called(retriever_tool(one.bind(**options))),
    "node": lambda one, options: retrieval_node(one).invoke({"question": QUESTION, **options}),
}


def ids_of(found):
    documents = found["documents"] if isinstance(found, dict) else found
    return {document.id for document in documents}


@pytest.mark.parametrize("options", NARROWING, ids=lambda options: " ".join(options))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [lambda one: one, lambda one: UECGate(retriever=one)])
def test_a_call_sees_less_whichever_way_it_says_so(retriever, make, way, options):
    if way == "node":
        options = {key: value for key, value in options.items() if key != "k"}
    assert ids_of(WAYS[way](make(retriever), options)) == {"0", "1"}


@pytest.mark.parametrize("wrong", ["tenants", "filters", "Tenant", "with_in", "tenant_id"])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "node"])
@pytest.mark.parametrize("make", [lambda one: one, lambda one: UECGate(retriever=one)])
def test_what_is_no_option_is_refused_whichever_way_it_comes(retriever, make, way, wrong):
    with pytest.raises(TypeError, match=f"{wrong}.*did you mean"):
        WAYS[way](make(retriever), {wrong: A})


@pytest.mark.parametrize("make", [lambda one: one, lambda one: UECGate(retriever=one)])
def test_a_tool_takes_options_as_keys_of_a_programs_input(retriever, make):
    tool = make(retriever).as_tool()
    for options in NARROWING:
        said = tool.invoke({"query": QUESTION, **options})
        assert "Ann" in said
        assert not any(name in said for name in ("Cleo", "Dan"))
    # It may be a model that writes the keys: it is not told which others there are.
    with pytest.raises(TypeError, match=r"'tenants': search_documents has no such argument\.$"):
        tool.invoke({"query": QUESTION, "tenants": A})


def test_a_retriever_takes_no_key_that_it_drops(retriever):
    with pytest.raises(TypeError, match="'topic' is no option of a search, got 3; known are"):
        retriever.invoke({"question": QUESTION, "topic": 3})
    assert UECGate(retriever=retriever).invoke({"question": QUESTION, "topic": 3})["topic"] == 3


def test_the_keys_of_a_mapping_and_of_its_call_count_together(retriever):
    gate = UECGate(retriever=retriever)
    for one in (retriever, gate):
        assert not ids_of(one.invoke({"question": QUESTION, "tenant": A}, tenant=B))
        assert not ids_of(one.invoke({"question": QUESTION, "filter": A}, filter=B))
        assert len(ids_of(one.invoke({"question": QUESTION, "k": 1}, k=2))) == 2


def test_a_gate_hands_on_who_asks_to_the_next_search(retriever):
    gate = UECGate(retriever=retriever)
    state = gate.invoke({"question": QUESTION, "tenant": A, "within": ["0"]})
    assert ids_of(state) == {"0"}
    assert "within" not in state
    for again in (retriever, gate, retrieval_node(gate)):
        assert ids_of(again.invoke(state)) == {"0", "1"}
    ways = dict.fromkeys(("answer", "clarify", "abstain", "uncertain"), gate)
    assert ids_of(gate.route(**ways).invoke({"question": QUESTION, "tenant": A})) == {"0", "1"}


def test_over_another_retriever_nothing_is_dropped(retriever):
    both = EnsembleRetriever(retrievers=[retriever, retriever], weights=[0.5, 0.5])
    gate, state = UECGate(retriever=both), {"question": QUESTION, "tenant": A}
    for call in (
        lambda: gate.invoke(state),
        lambda: gate.invoke(QUESTION, tenant=A),
        lambda: UECGate(retriever=RunnableLambda(lambda _: [])).invoke(state),
        lambda: retrieval_node(both).invoke(state),
        lambda: called(retriever_tool(both), tenant=A),
        lambda: gate.as_tool().invoke({"query": QUESTION, "tenant": A}),
    ):
        with pytest.raises(TypeError, match="tenant"):
            call()


def test_what_wraps_a_retriever_of_ours_takes_its_keys(retriever):
    field = ConfigurableField(id="k")
    for wrapped in (
        retriever.with_retry(),
        retriever.with_fallbacks([retriever]),
        retriever.configurable_fields(k=field).with_config(configurable={"k": 4}),
        retriever.with_config(tags=["t"]).bind(k=4),
    ):
        assert ids_of(retrieval_node(wrapped).invoke({"question": QUESTION, "tenant": A})) == {
            "0",
            "1",
        }
        given = {"question": QUESTION, "chat_history": [], "topic": 3}
        assert UECGate(retriever=wrapped).invoke(given)["topic"] == 3


def test_what_the_guide_says_is_dropped_by_langchain(retriever):
    """If this narrows some day, docs/production.md is to be changed."""
    parallel = RunnableParallel(found=UECGate(retriever=retriever))
    assert len(ids_of(parallel.invoke(QUESTION, tenant=A)["found"])) == 4


CONFIGS = {
    "with_config": lambda one, name: one.with_config(**{name: A}),
    "a configuration": lambda one, name: one.invoke(QUESTION, {name: A}),
    "awaited": lambda one, name: asyncio.run(one.ainvoke(QUESTION, {name: A})),
    "a key of it": lambda one, name: one.invoke(QUESTION, {"configurable": {name: A}}),
    "a text": lambda one, name: one.invoke(QUESTION, {"configurable": {name: "a"}}),
    "with_config of one": lambda one, name: (
        one.with_types().with_config(configurable={name: A}).invoke(QUESTION)
    ),
    "a batch": lambda one, name: one.batch([QUESTION], [{"configurable": {name: A}}]),
    "a tool": lambda one, name: one.as_tool().invoke(QUESTION, {"configurable": {name: A}}),
    "a node": lambda one, name: retrieval_node(one).invoke(
        {"question": QUESTION}, {"configurable": {name: A}}
    ),
    "around it": lambda one, name: (RunnableLambda(str) | one).invoke(QUESTION, {name: A}),
    "beside a tenant": lambda one, name: one.bind(tenant={"t": {"$in": ["a", "b"]}}).invoke(
        QUESTION, {"configurable": {name: A}}
    ),
    "another field": lambda one, name: one.configurable_fields(
        name=ConfigurableField(id="shown")
    ).invoke(QUESTION, {"configurable": {name: A, "shown": "x"}}),
}


@pytest.mark.parametrize(
    "name", ["tenant", "tenants", "tenat", "Tenant", "tenant_id", "filter", "filters"]
)
@pytest.mark.parametrize("way", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("make", [lambda one: one, lambda one: UECGate(retriever=one)])
def test_a_condition_in_a_configuration_is_refused(retriever, make, way, name):
    with pytest.raises(TypeError, match=f"{name}.*bind\\(tenant="):
        way(make(retriever), name)


def test_a_graph_keeps_keys_of_its_own(retriever):
    config = {"configurable": {"thread_id": "7", "user": "eve", "checkpoint_ns": ""}}
    for one in (retriever, UECGate(retriever=retriever), retrieval_node(retriever)):
        assert len(ids_of(one.invoke({"question": QUESTION}, config))) == 4
    by_text = {"configurable": {"tenant_id": "north", "tenant": "north"}}
    for one in (retriever, UECGate(retriever=retriever)):
        assert ids_of(one.invoke(QUESTION, by_text, tenant=A)) == {"0", "1"}
        assert ids_of(one.invoke(QUESTION, {"configurable": {"tenant": A}}, tenant=A)) == {"0", "1"}


def test_a_tenant_that_a_configuration_chooses_is_required(retriever):
    field = ConfigurableField(id="customer")
    configured = retriever.configurable_fields(tenant=field, k=ConfigurableField(id="most"))
    gate = UECGate(retriever=configured)
    for one in (configured, configured.with_retry(wait_exponential_jitter=False), gate):
        assert ids_of(one.invoke(QUESTION, {"configurable": {"customer": A}})) == {"0", "1"}
        for values in ({}, {"client": A}, {"most": 3}):
            with pytest.raises(ValueError, match="tenant: expected a filter"):
                one.invoke(QUESTION, {"configurable": values})
        for values in ({"custommer": A}, {"customer": A, "mots": 3}):
            with pytest.raises(TypeError, match="did you mean"):
                one.invoke(QUESTION, {"configurable": values})
    assert ids_of(configured.invoke(QUESTION, tenant=A)) == {"0", "1"}
    named = retriever.configurable_fields(tenant=ConfigurableField(id="tenant"))
    assert ids_of(named.with_config(tenant=A).invoke(QUESTION)) == {"0", "1"}


def test_a_model_is_not_told_of_the_options_of_a_tool(retriever):
    for tool in (retriever.as_tool(), UECGate(retriever=retriever).as_tool(tenant=A)):
        assert [*tool.args] == ["query"]
        assert "phrased so that it can stand alone" in tool.args["query"]["description"]
        said = tool.invoke(QUESTION, tenant=A)
        assert "Bob" in said
        assert "Cleo" not in said
