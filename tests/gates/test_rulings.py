"""A gate with a decision model: what its probabilities change, and what is logged."""

import json
import logging

import pytest
from langchain_core.language_models import FakeListChatModel

from tests.helpers import data_of
from uec_rag import UEC, Advice, Gate, Retriever
from uec_rag.langchain import UECGate, UECRetriever

ALWAYS = {"doubt": (0.0, 1.0)}
GOODS = data_of("rulings.json")
FACTS = {
    "Warranty on the {}": "It lasts {} years from the day of the purchase, also on spare parts.",
    "Price of the {}": "It costs {} euros, and twice as much with a case made of oak.",
    "Weight of the {}": "It weighs {} kilograms without the box in which we send it.",
}
PASSAGES = [
    (f"{goods}-{number}", title.format(goods), text.format(number * 7 + at))
    for at, goods in enumerate(GOODS)
    for number, (title, text) in enumerate(FACTS.items())
]


@pytest.fixture(scope="module")
def index():
    made = Retriever(UEC(["bm25"]), fit=False)
    ids, titles, texts = zip(*PASSAGES, strict=True)
    made.add(texts, ids, [{"title": title} for title in titles])
    return made


class Model:
    """A decision model that knows which text answers, as far as `sharp` says, and is called."""

    def __init__(self, wanted=lambda question, text: False, sharp=0.95):
        self.wanted, self.sharp, self.requests = wanted, sharp, []

    def __call__(self, state, questions):
        self.requests.append((state, questions))
        question = state["question"]
        right = [n for n, text in state["passages"].items() if self.wanted(question, text)]
        yes = self.sharp if right else 1 - self.sharp
        names = [*questions["passage"]["criteria"]]
        told = dict.fromkeys(names, (1 - self.sharp) / (len(names) - 1))
        told[right[0] if right else "none"] = self.sharp
        return {
            "answers": {
                "contains": {"type": "noul", "noul": yes},
                "passage": {
                    "type": "choice",
                    "choice": max(told, key=told.get),
                    "probabilities": told,
                },
            },
            "usage": {"input_tokens": 100, "output_tokens": 2},
        }


def knows(question, text):
    """Whether a text stands below the title that a question is."""
    return any(title == question and text.endswith(body) for _, title, body in PASSAGES)


QUESTION = "Warranty on the kettle"
ANSWER = next(id_ for id_, title, _ in PASSAGES if title == QUESTION)


def test_ten_passages_are_read_and_the_named_one_becomes_the_first_of_k(index):
    last = Gate().search(index, ["kettle"], 10)[0].passages[9]
    model = Model(lambda question, text: text == last.searched)
    [one] = Gate(advisor=model, **ALWAYS).search(index, ["kettle"], k=3)
    [(state, _)] = model.requests
    assert len(state["passages"]) == 10
    assert one.ids[0] == last.id
    assert (len(one.ids), one.decision.action) == (3, "answer")
    assert max(one.relevance) <= one.decision.confidence + 1e-6
    assert one.relevance.sum() >= one.decision.confidence - 1e-6


@pytest.mark.parametrize("share", [0.99, 0.7, 0.51, 0.3, 0.01])
@pytest.mark.parametrize("threshold", [0.2, 0.9])
def test_a_probability_decides_whatever_the_threshold(index, share, threshold):
    gate = Gate(threshold, advisor=lambda question, texts: share, **ALWAYS)
    [one] = gate.search(index, [QUESTION])
    assert one.decision.action == ("answer" if share > 0.5 else "abstain")
    assert one.decision.confidence == pytest.approx(share)
    assert one.metadata(0)["uec_advice_probability"] == pytest.approx(share)


def test_what_it_costs_is_in_the_metadata(index):
    [one] = Gate(advisor=Model(knows), **ALWAYS).search(index, [QUESTION])
    told = one.metadata(0)
    assert (told["uec_advice_calls"], told["uec_advice_tokens"]) == (1, 102)
    assert json.loads(json.dumps(told)) == told


def advised(records):
    """The lines of an advisor in the log of decisions."""
    lines = [json.loads(record.getMessage()) for record in records]
    return [line for line in lines if "before" in line]


def test_a_shadow_asks_and_decides_as_before(index, caplog):
    plain = index.search([QUESTION, "Who painted the chapel?"])
    gate = Gate(advisor=Model(), **ALWAYS, ask="shadow")
    with caplog.at_level(logging.INFO, "uec_rag.decisions"):
        shadowed = gate.search(index, plain.queries)
    for one, before in zip(shadowed, plain, strict=True):
        assert one.ids[:4] == before.ids
        assert (one.decision.action, one.decision.confidence) == (
            before.decision.action,
            before.decision.confidence,
        )
    lines = advised(caplog.records)
    assert {line["question"] for line in lines} <= {*plain.queries}
    first = lines[0]
    assert (first["before"], first["after"]) == ("answer", "abstain")
    assert (first["advice_calls"], first["advice_tokens"]) == (1, 102)
    assert first["advice_probability"] < 0.1
    assert first["seconds"] >= 0


def test_advice_is_logged_only_where_decisions_are(index, caplog):
    caplog.set_level(logging.INFO)  # of all loggers, as applications set it
    gate = Gate(advisor=Model(knows), **ALWAYS)
    gate.search(index, [QUESTION])
    assert advised(caplog.records) == []
    with caplog.at_level(logging.INFO, "uec_rag.decisions"):
        gate.search(index, [QUESTION, QUESTION])
    lines = advised(caplog.records)
    assert [line["question"] for line in lines] == [QUESTION] * 2
    assert lines[0]["confidence"] != lines[0]["confidence_before"]


def test_after_a_no_the_rewriter_is_asked_and_only_then(index):
    asked = []

    def rewriter(question, texts):
        asked.append(question)
        return Advice("no", rewrite=QUESTION)

    gate = Gate(advisor=Model(), rewriter=rewriter, **ALWAYS, rewritten=0.3, clarify_from=1.0)
    [one] = gate.search(index, ["how long may I bring the tea kettle back?"])
    assert len(asked) == 1
    assert (one.decision.searched_as, one.ids[0]) == (QUESTION, ANSWER)
    assert one.decision.advice_calls == 2
    gate.search(index, [QUESTION])
    assert (
        Gate(advisor=Model(knows), rewriter=rewriter, **ALWAYS)
        .search(index, [QUESTION])
        .decisions[0]
        .action
        == "answer"
    )
    assert len(asked) == 2  # not for the one that the passages answer


def test_in_langchain_one_decides_and_a_chat_model_rewrites():
    retriever = UECRetriever.from_texts(
        [text for *_, text in PASSAGES],
        UEC(["bm25"]),
        metadatas=[{"title": title} for _, title, _ in PASSAGES],
        fit=False,
    )
    chat = FakeListChatModel(responses=[json.dumps({"verdict": "no", "rewrite": QUESTION})])
    gate = UECGate(
        retriever=retriever,
        gate=Gate(**ALWAYS, rewritten=0.3, clarify_from=1.0),
        advisor=Model(),
        rewriter=chat,
    )
    found = gate.invoke("how long may I bring the tea kettle back?")
    assert found["decision"] == "answer"
    assert found["documents"][0].metadata["uec_searched_as"] == QUESTION
