"""A service that fails at a question takes the answer with it, but not what words find."""

import logging

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from tests.contract.service import WIDTH, Service
from tests.helpers import bag_of_words, data_of, index_of
from tests.ways import engine_of, of_langchain
from uec_rag import UEC, Gate, Retriever, llama_index
from uec_rag.langchain import UECGate, UECRetriever
from uec_rag.retrieval.search import LOG

SHOP = data_of("shop.json")["texts"]
ASKED, ANSWER = "How long is the warranty on lamps?", "The warranty on lamps is two years."
pytestmark = pytest.mark.filterwarnings(
    "ignore:This UEC is not fitted", "ignore:encoder. .*Searched without it", "ignore:Fewer than 30"
)


class Embedding(Service):
    """A service that embeds some questions as nothing."""

    unknown, nothing = (), [0.0] * WIDTH

    def embed_query(self, text):
        vector = super().embed_query(text)
        return self.nothing if text in self.unknown else vector


class RateLimit(Exception):
    """As packages of services have their own."""


ERRORS = [
    ConnectionError("429 Too Many Requests"),
    TimeoutError("timed out"),
    RateLimit("quota"),
    ValueError("the API said no"),
    KeyError("data"),
]


@pytest.fixture
def service():
    return Embedding(model="text-embedding")


@pytest.fixture
def index(service):
    return index_of(UEC([service, "bm25"]), SHOP)


class Theirs(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(text) for text in SHOP]


TEA = "Does the herbalist brew tea?"


def shown(found):
    texts = [document.page_content for document in found["documents"]]
    return found["decision"], found["reason_code"], found["reason"], texts


def by_engine(index, gate):
    response = engine_of(index, gate).query(ASKED)
    told = [response.metadata[f"uec_{name}"] for name in ("decision", "reason_code", "reason")]
    return *told, [node.text for node in response.source_nodes]


def by_search(index, gate):
    [one] = index.with_gate(gate).search([ASKED])
    texts = [passage.text for passage in one.passages]
    return one.decision.action, one.decision.code, one.decision.reason, texts


def by_judge(index, gate):
    judge = UECGate(retriever=Theirs(), embedding=index.uec, gate=gate)
    found = shown(judge.invoke(ASKED))
    return *found[:3], sorted(found[3], key=lambda text: text != ANSWER)  # in the order of theirs


def by_postprocessor(index, gate):
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in SHOP]
    gate = llama_index.UECGatePostprocessor(gate=gate, embedding=index.uec)
    [notice, *_] = gate.postprocess_nodes(nodes, query_str=ASKED)
    told = [notice.metadata[f"uec_{name}"] for name in ("decision", "reason_code", "reason")]
    return *told, [ANSWER]


WAYS = {
    "search": by_search,
    "LangChain's gate": lambda index, gate: shown(
        UECGate(retriever=of_langchain(index), gate=gate).invoke(ASKED)
    ),
    "LangChain's tool": lambda index, gate: shown(
        UECGate(retriever=of_langchain(index), gate=gate)
        .as_tool()
        .invoke({"name": "x", "args": {"query": ASKED}, "id": "1", "type": "tool_call"})
        .artifact
    ),
    "a gate that judges": by_judge,
    "over another retriever": lambda index, gate: shown(
        UECGate(retriever=UECRetriever.over(Theirs(), index.uec), gate=gate).invoke(ASKED)
    ),
    "LlamaIndex's engine": by_engine,
    "LlamaIndex's postprocessor": by_postprocessor,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("gate", [None, Gate(0.0)], ids=["0.5", "0"])
def test_it_is_uncertain_with_what_words_find_and_says_which_encoder_failed(
    index, service, way, gate
):
    service.fails = lambda _: ERRORS[0]
    action, code, reason, texts = WAYS[way](index, gate)
    assert (action, code) == ("abstain", "uncertain")
    assert texts[0] == ANSWER
    assert "text-embedding failed" in reason


@pytest.mark.filterwarnings("ignore:encoder .*decided without it")
@pytest.mark.parametrize("way", WAYS)
def test_a_question_to_which_it_returns_zeros_is_decided_by_words(index, service, way):
    service.unknown = {ASKED}
    action, code, _, texts = WAYS[way](index, Gate(0.1))
    assert (action, code, texts[0]) == ("answer", "answered", ANSWER)


def test_zeros_for_a_question_change_nothing_of_those_beside_it(index, service):
    before = index.search(["When is shipping free?"])[0]
    service.unknown = {ASKED}
    with pytest.warns(UserWarning, match="'text-embedding' returned NaN, .*decided without it"):
        zeros, other = index.search([ASKED, "When is shipping free?"])
    assert zeros.passages[0].text == ANSWER
    assert (other.ids, other.decision) == (before.ids, before.decision)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_service_raises(index, service, error):
    service.fails = lambda _: error
    with pytest.warns(UserWarning, match=f"'text-embedding' failed .*{type(error).__name__}"):
        [one] = index.search([ASKED])
    assert one.decision.code == "uncertain"


@pytest.mark.parametrize("reply", [None, [None] * WIDTH, [float("nan")] * WIDTH], ids=str)
def test_a_question_whose_vector_is_null_is_uncertain_as_where_the_service_fails(
    index, service, reply
):
    service.unknown, service.nothing = {ASKED, TEA}, reply
    for question, text in ((ASKED, ANSWER), (TEA, None)):
        with pytest.warns(UserWarning, match="Searched without it"):
            [result] = index.search([question])
        assert result.decision.code == "uncertain"
        assert "text-embedding failed" in result.decision.reason
        assert text in (None, result.passages[0].text)


def test_a_question_for_which_a_service_returns_no_vector_is_uncertain():
    words = bag_of_words(16, "service")
    index = index_of(UEC([lambda texts: [] if ASKED in texts else words(texts), "bm25"]), [ANSWER])
    with pytest.warns(UserWarning, match="Searched without it"):
        result = index.search([ASKED])[0]
    assert (result.passages[0].text, result.decision.code) == (ANSWER, "uncertain")


def test_it_is_told_in_the_language_of_the_question(index, service):
    service.fails = lambda _: ERRORS[0]
    [one] = index.search(["Wie lange ist die Garantie auf Lampen?"])
    assert "text-embedding ist ausgefallen" in one.decision.reason


def test_a_conversation_goes_on_by_words(index, service):
    service.fails = lambda _: ERRORS[0]
    [one] = index.search(["And on lamps?"], history=[["How long is the warranty on sofas?"]])
    assert one.passages[0].text == ANSWER


def test_no_advisor_is_asked_and_no_decision_is_logged(index, service, caplog):
    service.fails, asked = (lambda _: ERRORS[0]), []
    gate = Gate(doubt=(0.0, 1.0), advisor=lambda *given: asked.append(given))
    with caplog.at_level(logging.INFO, LOG.name):
        index.with_gate(gate).search([ASKED])
    assert not asked
    assert not [record for record in caplog.records if record.name == LOG.name]


def test_it_answers_again_once_the_service_does(index, service):
    before = index.search([ASKED]).decisions
    service.fails = lambda _: ERRORS[0]
    index.search(["What else is there?"])
    service.fails = lambda _: None
    assert index.search([ASKED]).decisions == before


@pytest.mark.parametrize("names", [("a",), ("a", "b")], ids=["one", "two"])
def test_where_nothing_else_is_left_the_error_names_the_encoder(names):
    services = [Service(model=name) for name in names]
    index = index_of(UEC(services), SHOP)
    for service in services:
        service.fails = lambda _: ERRORS[0]
    with pytest.raises(ConnectionError, match=f"encoder: '{names[-1]}' failed .*429") as raised:
        index.search([ASKED])
    assert raised.value.__cause__ is ERRORS[0]


def test_a_defect_of_a_function_is_no_failure_of_a_service():
    def defective(texts):
        return texts.vectors

    with pytest.raises(AttributeError, match="vectors"):
        Retriever(UEC([defective, "bm25"])).add(SHOP)
