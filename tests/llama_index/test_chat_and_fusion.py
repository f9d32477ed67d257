"""With LlamaIndex's own engines and retrievers around ours."""

import pytest
from llama_index.core import Document, StorageContext
from llama_index.core.base.base_selector import BaseSelector, MultiSelection, SingleSelection
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.indices.query.query_transform.base import IdentityQueryTransform
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import HierarchicalNodeParser, get_leaf_nodes
from llama_index.core.prompts.mixin import PromptMixin
from llama_index.core.query_engine import (
    CitationQueryEngine,
    CustomQueryEngine,
    MultiStepQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
)
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever
from llama_index.core.schema import MetadataMode
from llama_index.core.tools import QueryEngineTool

from tests.helpers import python
from tests.llama_index.conftest import Saying, always, said_by
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


class WithoutPrompts(PromptMixin):
    def _get_prompts(self):
        return {}

    def _update_prompts(self, prompts):
        pass


class Both(WithoutPrompts, BaseSelector):
    """Selects all engines, without a model."""

    def _select(self, choices, query):
        return MultiSelection(
            selections=[SingleSelection(index=at, reason="") for at in range(len(choices))]
        )

    async def _aselect(self, choices, query):
        return self._select(choices, query)


class Other(CustomQueryEngine):
    """An engine that is not of this package."""

    def custom_query(self, query_str):
        return "of another engine"


def tools_of(engines):
    return [
        QueryEngineTool.from_defaults(one, name=f"t{at}", description=f"t{at}")
        for at, one in enumerate(engines)
    ]


def routed(llm, *engines):
    return RouterQueryEngine.from_defaults(tools_of(engines), llm=llm, selector=Both())


class Never(MockLLM):
    """A model that is not to be called."""

    def complete(self, *_, **__):
        raise AssertionError

    def chat(self, *_, **__):
        raise AssertionError


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("actions", "action"),
    [
        (("abstain", "abstain"), "abstain"),
        (("clarify", "clarify"), "clarify"),
        (("answer", "abstain"), "answer"),
        (("answer", "clarify"), "answer"),
    ],
)
async def test_a_router_over_engines_that_refuse_calls_no_model(
    retriever, question, actions, action, streaming
):
    engines = [
        UECQueryEngine.from_args(retriever, LLM, always(one), streaming=streaming)
        for one in actions
    ]
    router = routed(Never(), *engines)
    for response in (router.query(question), await router.aquery(question)):
        assert response.metadata["uec_decision"] == action
        assert isinstance(response, Response) != streaming
        assert (await said_by(response)).startswith({"answer": ANSWER, **SAID}[action])


def test_a_router_joins_what_several_engines_answer(retriever, question):
    answers = UECQueryEngine.from_args(retriever, LLM, always("answer"))
    refuses = UECQueryEngine.from_args(retriever, LLM, always("abstain"))
    joined = routed(MockLLM(), answers, refuses, Other()).query(question)
    assert joined.metadata["uec_decision"] == "answer"
    assert "of another engine" in str(joined)
    assert SAID["abstain"] not in str(joined)
    alone = routed(Never(), refuses, Other()).query(question)
    assert (str(alone), "uec_decision" in alone.metadata) == ("of another engine", False)


class Parts(WithoutPrompts, BaseQuestionGenerator):
    """Asks each engine the whole question, without a model."""

    def generate(self, tools, query):
        asked = query.query_str
        return [SubQuestion(sub_question=asked, tool_name=tool.name) for tool in tools]

    async def agenerate(self, tools, query):
        return self.generate(tools, query)


def in_parts(llm, *engines, use_async=False, streaming=False):
    joins, tools = get_response_synthesizer(llm, streaming=streaming), tools_of(engines)
    return SubQuestionQueryEngine(Parts(), joins, tools, verbose=False, use_async=use_async)


def in_steps(llm, *engines, streaming=False):
    joins = get_response_synthesizer(llm, streaming=streaming)
    steps = IdentityQueryTransform()
    return MultiStepQueryEngine(engines[0], steps, joins, num_steps=2, early_stopping=False)


def in_parts_at_once(llm, *engines, **options):
    return in_parts(llm, *engines, use_async=True, **options)


def in_parts_of_routes(llm, *engines, **options):
    return in_parts(llm, routed(llm, *engines), in_steps(llm, *engines), **options)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("action", ["abstain", "clarify"])
@pytest.mark.parametrize("made", [in_parts, in_parts_at_once, in_steps, in_parts_of_routes])
async def test_where_all_parts_are_refused_the_refusal_is_the_response(
    retriever, question, made, action, streaming
):
    engines = [UECQueryEngine.from_args(retriever, LLM, always(action)) for _ in range(2)]
    engine = made(Never(), *engines, streaming=streaming)
    for response in (engine.query(question), await engine.aquery(question)):
        assert response.metadata["uec_decision"] == action
        assert isinstance(response, Response) != streaming
        assert (await said_by(response)).startswith(SAID[action])
        assert bool(response.source_nodes) == (action == "clarify")
        if made is in_steps:
            assert len(response.metadata["sub_qa"]) == 2


@pytest.mark.parametrize("made", [in_parts, in_parts_at_once])
async def test_parts_of_which_one_is_answered_are_joined_by_the_model(retriever, question, made):
    answers = UECQueryEngine.from_args(retriever, LLM, always("answer"))
    refuses = UECQueryEngine.from_args(retriever, LLM, always("abstain"))
    for engines in [(refuses, answers), (refuses, Other())]:
        engine = made(LLM, *engines)
        for response in (engine.query(question), await engine.aquery(question)):
            assert str(response) == ANSWER


IMPORTED = """
from inspect import getattr_static
import llama_index.core.query_engine as theirs
from llama_index.core.query_engine import router_query_engine as router
import logging
kinds = theirs.SubQuestionQueryEngine, theirs.MultiStepQueryEngine
def now():
    known = [getattr_static(kind, name) for kind in kinds for name in ("_query", "_aquery")]
    levels = {name: logging.getLogger(name).level for name in ("uec_rag", "uec_rag.decisions")}
    return *known, router.combine_responses, router.acombine_responses, *levels.values()
before = now()
import uec_rag.llama_index
from uec_rag.llama_index import UECQueryEngine, UECRetriever
assert now() == before
from uec_rag import UEC
from llama_index.core.llms import MockLLM
UECQueryEngine.from_args(UECRetriever.from_texts(["Cats purr."], UEC(["bm25"])), MockLLM())
changed = now()
assert all(one is not other for one, other in zip(changed[:6], before[:6]))
assert changed[6:] == before[6:] == (0, 0)
UECQueryEngine.from_args(UECRetriever.from_texts(["Cats purr."], UEC(["bm25"])), MockLLM())
assert now() == changed
"""


def test_an_import_changes_nothing_before_an_engine_is_made():
    done = python(IMPORTED)
    assert done.returncode == 0, done.stderr
