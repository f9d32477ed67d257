"""Decisions are told in the language of the question, or in the one that the retriever has."""

import pytest

from tests.helpers import WORDS, bag_of_words, index_of, pairs, passages
from uec_rag import UEC, Gate, Retriever
from uec_rag.questions.languages import language_of, sentence

ASKED = {
    "de": "Was ist das für ein Ding?",
    "es": "¿Qué es esto y para qué sirve?",
    "zh": "这是什么东西？",
    "ar": "ما هذا الشيء؟",
    "en": " ".join(WORDS[:3]),  # of no language that is known
}


@pytest.fixture(scope="module")
def index():
    uec = UEC([bag_of_words(64, "fine"), bag_of_words(24, "coarse", seed=1)]).fit(pairs(200))
    return index_of(uec, passages(60, seed=3))


def told(result):
    return [language_of(decision.reason) for decision in result.decisions]


def test_each_question_is_answered_in_its_own_language(index):
    found = index.search([*ASKED.values()])
    assert told(found) == [*ASKED]
    assert [one.language for one in found.decisions] == [*ASKED]
    assert [language_of(one.reason) for one in found.decide(0.99)] == [*ASKED]
    view = index.snapshot()
    view.gate = Gate(0.9)
    assert told(view.search([*ASKED.values()])) == [*ASKED]


def test_a_question_without_words_of_its_own_takes_the_language_of_its_turns(index):
    found = index.search(["tar -x"], history=[[ASKED["de"]]])
    assert told(found) == ["de"]


def test_a_note_on_a_question_is_in_the_language_of_the_question(index):
    [german, chinese] = index.search([ASKED["de"], ASKED["zh"]])
    assert german.decision.unfamiliar == sentence("unknown_writing", "de")
    assert chinese.decision.reason.endswith(f"注意：{sentence('unknown_writing', 'zh')}。")


def test_a_retriever_may_have_one_language_for_all(index):
    view = index.snapshot()
    view.language = "fr"
    assert told(view.search([*ASKED.values()])) == ["fr"] * len(ASKED)
    assert told(view.search(ASKED["de"].split(), filter={"$id": ["none"]})) == ["fr"] * 6
    vector = view.uec.embed(["a"], role="query").mean[0]
    assert view.search_vector(vector)[0].decision.reason == sentence("vector", "fr")
    assert told(index.search([ASKED["de"]])) == ["de"]
    with pytest.raises(ValueError, match="language: expected one of en, de"):
        Retriever(view.uec, language="German")
    with pytest.raises(ValueError, match="language: expected one of en, de"):
        view.language = "German"
