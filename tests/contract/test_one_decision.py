"""The gate that is saved with an index decides wherever the index is searched."""

import asyncio

import pytest
from langchain_core.runnables import RunnableLambda
from llama_index.core.llms import MockLLM

from tests.cli.conftest import call
from tests.server.conftest import STRICT, TEXTS, make, serving
from tests.ways import engine_of, nodes_of, of_langchain, vector_index
from uec_rag import Gate, Retriever, langchain, llama_index
from uec_rag.llama_index import retriever_tool
from uec_rag.retrieval.diversity import Diversity
from uec_rag.server import create_mcp

QUESTION = "Where may staff park?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    to = tmp_path_factory.mktemp("gated") / "idx"
    make().save(to)
    return to


def of_result(result):
    return result[0].decision.action, result[0].ids


def of_hits(hits):
    """Of LangChain's documents, and of LlamaIndex's nodes."""
    return {hit.metadata["uec_decision"] for hit in hits}.pop(), hits


def of_gate(told):
    return coded(told), told["documents"]


def coded(told):
    """The decision in JSON, whose reason is coded."""
    assert told["reason_code"] == {"answer": "answered", "abstain": "uncertain"}[told["decision"]]
    return told["decision"]


def store_of_llama_index(index, k, **options):
    return vector_index(index).as_retriever(similarity_top_k=k, **options)


# The decision of a search for k hits, and the hits.
SEARCHES = {
    "search": lambda index, k: of_result(index.search([QUESTION], k)),
    "asearch": lambda index, k: of_result(asyncio.run(index.asearch([QUESTION], k))),
    "diverse": lambda index, k: of_result(index.search([QUESTION], k, diversity=Diversity())),
    "LangChain": lambda index, k: of_hits(of_langchain(index).invoke(QUESTION, k=k)),
    "LangChain, mmr": lambda index, k: of_hits(
        of_langchain(index, search_type="mmr").invoke(QUESTION, k=k)
    ),
    "LangChain's gate": lambda index, k: of_gate(
        langchain.UECGate(retriever=of_langchain(index)).invoke(QUESTION, k=k)
    ),
    "LlamaIndex": lambda index, k: of_hits(nodes_of(index, k).retrieve(QUESTION)),
    "LlamaIndex's store": lambda index, k: of_hits(
        store_of_llama_index(index, k).retrieve(QUESTION)
    ),
}

OF_AN_INDEX = {
    name: lambda index, search=search: search(index, 4)[0] for name, search in SEARCHES.items()
} | {
    "LlamaIndex's engine": lambda index: engine_of(index).query(QUESTION).metadata["uec_decision"],
    "LlamaIndex's tool": lambda index: coded(
        retriever_tool(llama_index.UECRetriever(index))(QUESTION).raw_output
    ),
}


def over_http(folder):
    with serving(folder) as client:
        return coded(client.post("/ask", json={"question": QUESTION}).json())


def over_mcp(folder):
    server = create_mcp(Retriever.load(folder))
    return coded(asyncio.run(server.call_tool("search", {"question": QUESTION})).structuredContent)


OF_A_FOLDER = {
    "HTTP": over_http,
    "MCP": over_mcp,
    "the command line": lambda folder: coded(call("ask", folder, QUESTION, json_output=True)),
} | {
    name: lambda folder, decide=decide: decide(Retriever.load(folder))
    for name, decide in OF_AN_INDEX.items()
}


@pytest.mark.parametrize("decide", OF_A_FOLDER.values(), ids=OF_A_FOLDER)
def test_the_gate_saved_with_an_index_decides(folder, decide):
    (folder / "gate.json").unlink(missing_ok=True)
    assert decide(folder) == "answer"
    Gate(0.99999, k=3).save(folder / "gate.json")
    assert decide(folder) == "abstain"


@pytest.mark.parametrize("decide", OF_AN_INDEX.values(), ids=OF_AN_INDEX)
def test_a_gate_that_is_set_decides(decide):
    index = make()
    index.gate = Gate(1.0)
    assert decide(index) == "abstain"
    index.gate = None
    assert decide(index) == "answer"


def test_a_gate_that_is_set_later_decides_in_what_was_made_before():
    index = make()
    gate, asked = langchain.UECGate(retriever=of_langchain(index)), engine_of(index)
    index.gate = Gate(1.0)
    assert gate.invoke(QUESTION)["decision"] == "abstain"
    assert asked.query(QUESTION).metadata["uec_decision"] == "abstain"


def test_with_more_hits_than_asked_for_the_gate_decides_on_its_own_number():
    index = make()
    index.gate = Gate(0.1, k=9)
    found = index.search([QUESTION], 2)[0]
    assert (len(found.passages), found.decision.threshold) == (2, 0.1)
    assert found.decision.confidence == index.search([QUESTION], 9)[0].decision.confidence


ONE_HIT = {
    name: lambda index, search=search: search(index, 1)[1] for name, search in SEARCHES.items()
} | {
    "Gate.search": lambda index: index.gate.search(make(), [QUESTION], 1)[0].ids,
    "LangChain's gate, its own": lambda index: langchain.UECGate(
        retriever=of_langchain(make()), gate=index.gate
    ).invoke(QUESTION, k=1)["documents"],
}


@pytest.mark.parametrize("search", ONE_HIT.values(), ids=ONE_HIT)
@pytest.mark.parametrize(("guarantee", "count"), [(None, 1), (STRICT.guarantee, 3)])
def test_with_a_guarantee_as_many_hits_are_handed_over_as_it_is_of(search, guarantee, count):
    """Decided on three hits and answered from one, half of the answers were wrong."""
    index = make()
    index.gate = Gate(0.1, guarantee, k=3)
    assert len(search(index)) == count


def of_a_gate_of_langchain(index, gate):
    one_hit = RunnableLambda(of_langchain(index, search_kwargs={"k": 1}).invoke)
    return coded(langchain.UECGate(retriever=one_hit, gate=gate).invoke(QUESTION))


def of_a_postprocessor(index, gate):
    gated = llama_index.UECGatePostprocessor(gate=gate)
    return of_hits(gated.postprocess_nodes(nodes_of(index, 1).retrieve(QUESTION))[:1])[0]


def of_an_engine(index, gate):
    asked = llama_index.UECQueryEngine.from_args(nodes_of(index, 1), MockLLM(), gate)
    return asked.query(QUESTION).metadata["uec_decision"]


ON_ONE_HIT = [of_a_gate_of_langchain, of_a_postprocessor, of_an_engine]


@pytest.mark.parametrize("decide", ON_ONE_HIT)
def test_a_gate_that_is_handed_fewer_hits_than_its_guarantee_is_of_abstains_and_says_so(decide):
    assert decide(make(), Gate(0.1, k=4)) == "answer"
    yes = Gate(0.1, STRICT.guarantee, advisor=lambda *_: True, doubt=(0.0, 1.0), is_advised=True)
    for gate in (Gate(0.1, STRICT.guarantee, k=4), yes):
        with pytest.warns(UserWarning, match="made for 4 hits, and fewer of them are left, here 1"):
            assert decide(make(), gate) == "abstain"
    assert decide(make({"parking": TEXTS["parking"]}), gate) == "answer"  # there are no more


@pytest.mark.parametrize(
    "make_it",
    [
        lambda index, gate: langchain.UECGate(retriever=of_langchain(index), gate=gate),
        lambda index, gate: llama_index.UECGatePostprocessor(gate=gate),
        lambda index, gate: llama_index.UECQueryEngine(engine_of(index), gate=gate),
        lambda index, gate: setattr(index, "gate", gate),
    ],
)
@pytest.mark.parametrize("gate", [0.1, "gate.json"])
def test_a_gate_is_a_gate(make_it, gate):
    instead = r"load a saved gate with Gate.load\(path\), or make one with Gate\(threshold\)"
    with pytest.raises(TypeError, match=rf"gate: expected a Gate, got \w+; {instead}"):
        make_it(make(), gate)
