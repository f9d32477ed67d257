"""With LlamaIndex's own engines and retrievers around ours."""

import pytest
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever

from tests.llama_index.conftest import Saying, always
from uec_rag.confidence.languages import SENTENCES
from uec_rag.llama_index import UECGatePostprocessor, UECQueryEngine
from uec_rag.llama_index.gate import NOTICE

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
        assert (SAID.get(action, "Reply with") in streamed) == (action != "answer")


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
