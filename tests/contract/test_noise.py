"""Whatever is asked, and whatever other retrievers and advisors return, is decided on."""

import random
import warnings
from contextlib import suppress

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from llama_index.core.llms import ChatMessage
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from tests.helpers import bag_of_words, data_of, index_of
from uec_rag import UEC, Gate, langchain, llama_index
from uec_rag.base.errors import UnknownReading
from uec_rag.gates.decision_models import Case, read_answers
from uec_rag.questions.answers import Turn
from uec_rag.questions.query import Query, turns_of

PARTS = data_of("noise.json")
SIGNS, WORDS = PARTS["signs"], PARTS["words"].split()
HUGE = 10**400
NUMBERS = [0, 1, -1, 0.5, True, HUGE, -HUGE, float("nan"), float("inf"), "0.5", None]


class Noise(random.Random):
    """What nobody has thought of, by a seed."""

    def text(self):
        parts = self.choices(
            [self.choice(SIGNS), self.choice(WORDS), *WORDS], k=self.choice([1, 2, 4, 9, 40])
        )
        parts = [self.choice(SIGNS) if self.random() < 0.3 else part for part in parts]
        return self.choice(["", " ", " ", "\n"]).join(parts)

    def stored(self):
        return self.text().encode(errors="replace").decode()

    def turns(self):
        turns = [
            (self.choice(["user", "assistant"]), self.stored()) for _ in range(self.randrange(5))
        ]
        strings = [self.choice([text, Turn(who, text)]) for who, text in turns]
        return turns, self.choice([strings, turns_of(turns)])

    def value(self, depth=0):
        if depth > 3 or self.random() < 0.6:
            return self.choice([*NUMBERS, self.text(), b"x", object()])
        values = [self.value(depth + 1) for _ in range(self.randrange(4))]
        return self.choice([values, tuple(values), dict(zip("abcd", values, strict=False))])

    def metadata(self):
        metadata = dict(DECIDED) if self.random() < 0.5 else {}
        for key in self.sample(PARTS["keys"].split(), self.randrange(4)):
            metadata[f"uec_{key}"] = self.value()
        return metadata


DECIDED = {}


@pytest.fixture(scope="module")
def index():
    index = index_of(UEC([bag_of_words(64, "fine"), "bm25"]), data_of("shop.json")["texts"])
    document = langchain.UECVectorStore(index).as_retriever().invoke("How long do refunds take?")[0]
    DECIDED.update({k: v for k, v in document.metadata.items() if k.startswith("uec_")})
    return index


@pytest.fixture(scope="module")
def shop():
    return index_of(UEC(), data_of("shop.json")["texts"])


@pytest.mark.parametrize("signs", ["?? ", "🌵 and ", "…? But ", "🧾🧾 or ", "? - and "])
def test_signs_before_a_question_change_no_decision(shop, signs):
    asked = "how much do repairs of chairs cost?"
    plain, signed = shop.search([asked, f"{signs}{asked}"])
    assert signed.ids[0] == plain.ids[0]
    assert signed.decision.action == plain.decision.action == "answer"


@pytest.mark.parametrize("mark", ["1) ", "b) ", "#3 ", "[4] ", "(5) ", "<6> ", "【7】"])
def test_a_mark_of_a_list_makes_no_name_of_the_word_behind_it(shop, mark):
    asked = "How much do repairs of chairs cost?"
    plain, marked = shop.search([asked, f"{mark}{asked}"])
    assert marked.ids[0] == plain.ids[0]
    assert marked.decision.action == "answer"
    assert "How" not in marked.decision.reason


@pytest.mark.parametrize("mark", ["[0] ", "[1] ", "(1) ", "(2) "])
def test_a_string_is_what_its_user_wrote_whatever_it_begins_with(shop, mark):
    marked, before = f"{mark}Who pays for repairs?", "When is lunch?"
    assert Query.parse(marked, [before]).said == marked  # a bracket is no part of what asks
    assert Query.parse("And when?", [before, marked]).history == [before, marked]
    alone, later = shop.search([marked] * 2, history=[[], [before]])
    assert later.ids[0] == alone.ids[0] == shop.search(["Who pays for repairs?"])[0].ids[0]


@pytest.mark.parametrize(
    "damage",
    [
        {"uec_parts": 7},
        {"uec_parts": [[0.5]]},
        {"uec_parts": [None, ["a", 0.5], [0.5, HUGE]]},
        {"uec_parts": {"score": 1}},
        {"uec_score": HUGE},
        {"uec_relevance": -HUGE},
    ],
    ids=lambda damage: f"{damage}"[:30],
)
def test_damaged_numbers_of_hits_are_passed_over(shop, damage):
    asked = "When does the canteen serve lunch?"
    hits = langchain.UECVectorStore(shop).as_retriever().invoke(asked)
    hits[-1] = Document(hits[-1].page_content, metadata={**hits[-1].metadata, **damage})
    theirs = RunnableLambda(lambda _: hits)
    reply = langchain.UECGate(retriever=theirs, gate=Gate(0.5)).invoke(asked)
    assert reply["decision"] == "answer"


def test_a_probability_of_four_hundred_digits_is_none():
    case = Case("Who pays?", ["The tenant pays."], (), 0.0)
    reply = {"answers": {"contains": {"type": "noul", "noul": 10**400}}}
    assert "contains (expected a probability" in read_answers(reply, case).missing[0]


def ask(index, noise):
    """Ask a question in its conversation, as programs, chains and engines do."""
    question, (said, turns) = noise.text(), noise.turns()
    [found] = index.search([question], history=[turns])
    assert found.decision.action in ("answer", "clarify", "abstain")
    with suppress(UnknownReading):
        index.search([question], within=noise.stored(), history=[turns])
    back = found.decision.clarifying_question or "Do you mean lamps or chairs?"
    index.search(
        [noise.text()], history=[[*turns, question.encode(errors="replace").decode(), back]]
    )
    messages = [(HumanMessage if who == "user" else AIMessage)(text) for who, text in said]
    gate = langchain.UECGate(retriever=langchain.UECVectorStore(index).as_retriever())
    gate.invoke({"question": question, "chat_history": messages})
    history = [ChatMessage(text, role=who) for who, text in said]
    bundle = llama_index.UECQueryBundle(question, history=history)
    llama_index.UECRetriever(index).retrieve(bundle)


def judge(index, noise):
    """Decide on hits of another retriever, whose metadata is damaged, and on what advisors say."""
    hits = [(noise.stored(), noise.metadata()) for _ in range(noise.randrange(1, 4))]
    theirs = RunnableLambda(lambda _: [Document(text, metadata=data) for text, data in hits])
    with suppress(ValueError):  # none has a decision
        langchain.UECGate(retriever=theirs, gate=Gate(0.5)).invoke(noise.text())
    nodes = [NodeWithScore(node=TextNode(text=text, metadata=data)) for text, data in hits]
    with suppress(ValueError):
        llama_index.UECGatePostprocessor(gate=Gate(0.5)).postprocess_nodes(
            nodes, QueryBundle("Why?")
        )
    reply = noise.value()
    Gate(advisor=lambda *_: reply, ask="always").search(index, ["How long do refunds take?"])
    case = Case("Why?", [text for text, _ in hits], ("a", "b"), 0.7)
    kinds = {
        "type": noise.choice(["noul", "choice"]),
        "noul": noise.value(),
        "probabilities": noise.value(),
    }
    read_answers(
        {"answers": {name: noise.choice([kinds, noise.value()]) for name in case.questions}}, case
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_noise_raises_nothing(index, seed):
    noise = Noise(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(80):
            ask(index, noise)
            judge(index, noise)
            Query.parse(noise.text())
