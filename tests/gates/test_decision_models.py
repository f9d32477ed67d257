"""Decision models are asked over their wire formats, whatever their client is."""

import asyncio
import copy
import logging
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse
from langchain_openai.decisions import OpenAIDecisions
from langchain_typesafe import TypeSafeClassifier
from pydantic import PrivateAttr

from tests.decision_server import KEY, serving
from tests.helpers import data_of
from uec_rag import UEC, Gate, Retriever
from uec_rag.gates.decision_models import Case, SystemOne, decision_model, read_answers

ROWS = data_of("decision_models.json")


pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")

TEXTS = ["Dogs bark at strangers.", "Cats purr when they are content.", "The mill opens at nine."]
CASE = Case("Is it loud?\nWhen do cats purr?", TEXTS, ("cats", "mills"), 0.5)


@pytest.fixture(scope="module")
def shared():
    with serving() as server:
        yield server


@pytest.fixture
def server(shared):
    shared.requests.clear()
    shared.keys.clear()
    shared.plan.clear()
    shared.key, shared.changed = None, lambda body: body
    return shared


class OfLangChain(BaseDecisionModel):
    """A partner's class, as LangChain's guide writes one."""

    model: str = "jev-latest"
    url: str
    _asked: SystemOne = PrivateAttr()

    def model_post_init(self, context):
        self._asked = SystemOne(self.url, self.model)

    @property
    def _provider(self):
        return "ours"

    def _classify(self, state, questions):
        plain = {name: one.model_dump() for name, one in questions.items()}
        return ClassifierResponse.model_validate(self._asked(state, plain))


def a_function(url):
    asked = SystemOne(url, "jev-latest")

    async def decide(state, questions):
        return await asyncio.to_thread(asked, state, questions)

    return decide


CLIENTS = {
    "System One": lambda url: SystemOne(url, "jev-latest"),
    "OpenAI's form": lambda url: SystemOne(f"{url}/v1/decisions", "gpt-6-luna"),
    "TypeSafeClassifier": lambda url: TypeSafeClassifier(base_url=url, api_key=KEY),
    "OpenAIDecisions": lambda url: OpenAIDecisions(
        model="gpt-6-luna", base_url=f"{url}/v1", api_key=KEY
    ),
    "BaseDecisionModel": lambda url: OfLangChain(url=url),
    "a coroutine function": a_function,
}


@pytest.fixture(params=CLIENTS)
def client(request, server):
    return CLIENTS[request.param](server.url)


def ask(client, case=CASE):
    asked = decision_model(client)(case.state, case.questions)
    return read_answers(asyncio.run(asked) if asyncio.iscoroutine(asked) else asked, case)


def test_each_client_asks_one_request_and_gives_the_same_opinion(client, server):
    opinion = ask(client)
    assert opinion.missing == ()
    assert len(server.requests) == 1
    assert opinion == ask(SystemOne(server.url, "jev-latest"))
    assert (opinion.passage, len(opinion.meaning)) == (1, 2)
    assert opinion.contains > 0.4
    assert opinion.tokens > 0


def test_a_gate_asks_it_in_three_searches_of_three_event_loops(client, server):
    index = Retriever(UEC(["bm25"]), fit=False)
    index.add(TEXTS)
    index.gate = Gate(advisor=client, doubt=(0.0, 1.0))
    for _ in range(3):
        [decision] = asyncio.run(index.asearch(["When do cats purr?"])).decisions
        assert decision.advice_probability is not None
        assert (decision.advice_calls, decision.advice_tokens > 0) == (1, True)
    assert index.search(["When do cats purr?"]).decisions == [decision]
    assert len(server.requests) == 4


@pytest.mark.parametrize("status", [429, 500, 503, 2.0])
def test_a_second_try_follows_an_overload_an_error_or_a_timeout(server, status):
    server.plan[:] = [status]
    opinion = ask(SystemOne(server.url, "jev-latest", timeout=3.0))
    assert opinion.missing == ()
    assert len(server.keys) == 2


@pytest.mark.parametrize(("plan", "error", "tries"), ROWS["failures"])
def test_it_fails_with_what_the_server_said(server, plan, error, tries):
    server.plan[:] = plan
    with pytest.raises((ConnectionError, TimeoutError), match=error):
        ask(SystemOne(server.url, "jev-latest", timeout=0.4 if 0.6 in plan else 30))
    assert len(server.keys) <= tries


def test_a_server_that_is_not_there_is_a_failed_call(server):
    index = Retriever(UEC(["bm25"]), fit=False)
    index.add(TEXTS)
    gate = Gate(advisor=SystemOne("http://127.0.0.1:9", "jev-latest"), doubt=(0.0, 1.0))
    [decision] = gate.search(index, ["When do cats purr?"]).decisions
    assert decision.advice == "none: it failed with ConnectionError"


def test_the_key_is_sent_and_stands_nowhere_else(server, caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    server.key = KEY
    model = SystemOne(server.url, "jev-latest", api_key=KEY)
    assert ask(model).missing == ()
    assert server.keys == [f"Bearer {KEY}"]
    gate = Gate(advisor=model)
    index = Retriever(UEC(["bm25"]), fit=False)
    index.add(TEXTS)
    gate.search(index, ["When do cats purr?"])
    gate.save(tmp_path / "gate.json")
    written = [file.read_text(encoding="utf-8") for file in tmp_path.iterdir()]
    for text in (repr(model), repr(gate), caplog.text, *written):
        assert KEY not in text
    server.key = "another"
    with pytest.raises(ConnectionError, match="the status 401") as raised:
        ask(model)
    assert KEY not in str(raised.value)


def test_it_is_pickled_without_a_key_only():
    model = SystemOne("http://localhost:11434", "nimble", timeout=3.0)
    assert pickle.loads(pickle.dumps(model)) == model == copy.deepcopy(model)
    with pytest.raises(TypeError, match="pass SystemOne"):
        pickle.dumps(replace(model, api_key=KEY))


@pytest.mark.parametrize(("url", "address"), ROWS["addresses"])
def test_its_address_is_the_url_with_the_path_that_it_lacks(url, address):
    assert SystemOne(url, "a").address == address


@pytest.mark.parametrize(
    ("url", "model", "error"),
    [("localhost:11434", "a", "begins with http"), ("", "a", "url"), ("http://a", " ", "model")],
)
def test_a_url_without_a_scheme_or_an_empty_name_is_refused(url, model, error):
    with pytest.raises(ValueError, match=error):
        SystemOne(url, model)


@pytest.mark.parametrize("value", [None, 7, "a", object(), print, Case, lambda question, texts: 1])
def test_anything_else_is_no_decision_model(value):
    assert decision_model(value) is None


def test_a_gate_refuses_what_cannot_be_asked():
    with pytest.raises(TypeError, match=r"advisor: expected a callable.* or a decision model"):
        Gate(advisor=object())
    with pytest.raises(TypeError, match="rewriter: expected a callable"):
        Gate(rewriter=7)
    assert Gate(advisor=lambda question, texts: 0.5).advisor is not None


def test_answers_that_are_not_valid_are_told_in_the_advice(server):
    def without_choice(body):
        body["answers"]["passage"]["choice"] = "12"
        return body

    server.changed = without_choice
    index = Retriever(UEC(["bm25"]), fit=False)
    index.add(TEXTS)
    gate = Gate(advisor=SystemOne(server.url, "jev-latest"), doubt=(0.0, 1.0))
    [decision] = gate.search(index, ["When do cats purr?"]).decisions
    assert decision.advice.endswith("; not given: passage ('12' was not offered)")
    assert decision.advice_probability is not None


@pytest.mark.slow
def test_our_test_server_conforms_to_the_wire_format(server):
    command = [Path(sys.executable).with_name("jevcompat"), "test", server.url]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "conformant to spec" in told.stdout, told.stdout
    assert "not conformant" not in told.stdout, told.stdout
