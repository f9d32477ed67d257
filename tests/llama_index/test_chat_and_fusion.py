"""With LlamaIndex's own engines and retrievers around ours."""

import pytest
from llama_index.core import Document, StorageContext
from llama_index.core.base.base_selector import BaseSelector, MultiSelection, SingleSelection
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import HierarchicalNodeParser, get_leaf_nodes
from llama_index.core.query_engine import (
    CitationQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
)
from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever
from llama_index.core.schema import MetadataMode
from llama_index.core.tools import QueryEngineTool

from tests.llama_index.conftest import Saying, always
from uec_rag import Gate
from uec_rag.llama_index import UECGatePostprocessor, UECQueryEngine, UECRetriever
from uec_rag.llama_index.gate import NOTICE
from uec_rag.questions.languages import SENTENCES

LLM = MockLLM(max_tokens=3)
ANSWER = "text text text"
MODES = ["simple", "reciprocal_rerank", "relative_score", "dist_based_score"]


SAID = {"clarify": "Do you mean ", "abstain": SENTENCES["no_answer"]}


def check_told(response, action):
    """What a model was told to say, and what the response's sources know of the decision."""
    first = response.source_nodes[0]
    assert (first.node_id, first.metadata["uec_decision"]) == (NOTICE, action)
    assert first.metadata["uec_reason"].startswith(SAID[action])
    assert f'Reply with this alone: "{SAID[action]}' in first.text
    assert len(response.source_nodes) == (1 if action == "abstain" else 5)


KINDS = {
    "query": (RetrieverQueryEngine.from_args, "query", "aquery"),
    "citation": (CitationQueryEngine, "query", "aquery"),
    "context": (ContextChatEngine.from_defaults, "chat", "achat"),
    "condensed": (CondensePlusContextChatEngine.from_defaults, "chat", "achat"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("action", ["answer", "clarify", "abstain"])
async def test_in_engines_the_decision_reaches_the_response_and_the_llm(
    retriever, question, kind, action
):
    make, ask, aask = KINDS[kind]
    gate = UECGatePostprocessor(gate=always(action))
    engine = make(retriever, llm=MockLLM(), node_postprocessors=[gate])
    for response in (getattr(engine, ask)(question), await getattr(engine, aask)(question)):
        if action == "answer":
            assert NOTICE not in {node.node_id for node in response.source_nodes}
            continue
        assert SAID[action] in str(response)
        if kind != "citation":  # which makes nodes of its own
            check_told(response, action)
    if ask == "chat":
        streamed = "".join(engine.stream_chat(question).response_gen)
        later = await engine.astream_chat(question)
        parts = [part async for part in later.async_response_gen()]
        for said in (streamed, "".join(parts)):
            assert (SAID.get(action, "Reply with") in said) == (action != "answer")


@pytest.fixture(params=MODES)
def fusion(request, retriever, texts):
    llm = Saying(" ".join(texts[3].split()[:6]))  # a question that the same passage answers
    return QueryFusionRetriever(
        [retriever], llm=llm, mode=request.param, num_queries=2, similarity_top_k=4, use_async=False
    )


def test_fusion_joins_what_two_queries_found(fusion, question):
    found = fusion.retrieve(question)
    assert found[0].node_id == "n3"
    assert len({hit.node_id for hit in found}) == len(found) == 4


async def test_fused_nodes_pass_the_gate(fusion, question):
    surest = max(hit.metadata["uec_confidence"] for hit in fusion.retrieve(question))
    engine = UECQueryEngine.from_args(fusion, LLM)
    for response in (engine.query(question), await engine.aquery(question)):
        assert response.metadata["uec_confidence"] == surest
        assert str(response) == ANSWER


@pytest.mark.slow
@pytest.mark.parametrize("levels", [[48, 16], [96, 48, 16]])
async def test_a_parent_that_all_leaves_are_merged_into_has_their_decision(fitted, texts, levels):
    parser = HierarchicalNodeParser.from_defaults(chunk_sizes=levels, chunk_overlap=0)
    nodes = parser.get_nodes_from_documents([Document(text=texts[3], metadata={"page": 7})])
    leaves, storage = get_leaf_nodes(nodes), StorageContext.from_defaults()
    storage.docstore.add_documents(nodes)
    ours = UECRetriever.from_nodes(leaves, fitted, similarity_top_k=len(leaves))
    merging = AutoMergingRetriever(ours, storage)
    [whole] = merging.retrieve(texts[3])
    assert whole.node_id not in {leaf.node_id for leaf in leaves}
    engine = UECQueryEngine.from_args(merging, LLM, gate=Gate(0.0))
    known = ours.retrieve(texts[3])[0].metadata
    for response in (engine.query(texts[3]), await engine.aquery(texts[3])):
        assert response.metadata["uec_confidence"] == known["uec_confidence"]
        assert str(response) == ANSWER
        [source] = response.source_nodes
        assert source.node_id == whole.node_id
        assert source.metadata.items() >= {"page": 7, "uec_decision": "answer"}.items()
        assert "uec_" not in source.get_content(MetadataMode.LLM)


class Chosen(BaseSelector):
    """Selects the engines with these numbers, without a model."""

    def __init__(self, *numbers):
        self.numbers = numbers

    def _get_prompts(self):
        return {}

    def _update_prompts(self, prompts):
        pass

    def _select(self, choices, query):
        return MultiSelection(
            selections=[SingleSelection(index=number, reason="") for number in self.numbers]
        )

    async def _aselect(self, choices, query):
        return self._select(choices, query)


async def test_a_router_returns_the_refusal_of_the_engine_that_it_selects(retriever, question):
    engines = [
        UECQueryEngine.from_args(retriever, LLM, always(action)) for action in ("answer", "abstain")
    ]
    tools = [QueryEngineTool.from_defaults(engine, description="Manuals.") for engine in engines]
    for number, text in enumerate([ANSWER, SAID["abstain"]]):
        router = RouterQueryEngine.from_defaults(tools, LLM, selector=Chosen(number))
        for response in (router.query(question), await router.aquery(question)):
            assert str(response).startswith(text)
            assert response.metadata["uec_decision"] == ("answer", "abstain")[number]
    both = RouterQueryEngine.from_defaults(tools, LLM, selector=Chosen(0, 1)).query(question)
    assert str(both) == ANSWER  # its model has joined them
