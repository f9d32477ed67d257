"""Mistyped words are searched as the index spells them, and right ones as they are."""

import pytest

from tests.helpers import data_of, index_of
from uec_rag import UEC
from uec_rag.questions.query import Query
from uec_rag.retrieval.spelling import spell

ROWS = data_of("spelling.json")


SHOP = data_of("shop.json")


def test_a_letter_that_is_missing_from_each_of_two_words_changes_little(shop):
    found = shop.search([mistyped for _, _, mistyped in SHOP["questions"]])
    right = [SHOP["texts"][place] for _, place, _ in SHOP["questions"]]
    first = [passages[0].text for passages in found.passages]
    assert sum(map(str.__eq__, first, right)) >= 9
    assert sum(decision.action == "answer" for decision in found.decisions) >= 7
    corrected = [decision for decision in found.decisions if decision.searched_as]
    assert len(corrected) >= 8
    assert all(decision.searched_as in decision.reason for decision in corrected)


@pytest.mark.parametrize("question", ROWS["kept words"])
def test_names_numbers_and_codes_are_not_corrected(shop, question):
    assert shop.search([question])[0].decision.searched_as == ""


def test_a_question_is_as_it_was_written_if_a_correction_finds_no_answer(shop):
    [decision] = shop.search(["Who painted the ceiling of the chapel?"]).decisions
    assert (decision.action, decision.searched_as) == ("abstain", "")


@pytest.mark.parametrize("word", ["card", "bank", "plane"])
def test_a_correct_word_that_no_passage_has_is_not_corrected(uec, word):
    texts = [f"The shop has {near}s." for near in ("cared", "blank", "place", "cart", "lane")]
    assert index_of(uec, texts).search([f"Is there a {word} for it?"])[0].decision.searched_as == ""


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("When is shippng fre?", "When is shipping free?"),
        ("How long is a lmp's warrnty?", "How long is a lamp's warranty?"),
        ("Long Warrnty Lamps", "Long warranty Lamps"),  # a title
    ],
)
def test_short_words_those_before_an_s_and_those_of_titles_are_corrected(shop, question, meant):
    assert shop.search([question])[0].decision.searched_as == meant


def test_what_is_most_likely_meant_is_taken_and_not_what_only_shares_a_stem(uec):
    texts = ["We compress the responses.", *["The com port is open."] * 9]
    index = index_of(uec, [f"{text} {place}" for place, text in enumerate(texts)])
    [found] = index.search(["How do you compess responses?"])
    assert found.decision.searched_as == "How do you compress responses?"


def test_without_an_encoder_that_tells_how_rare_words_are_they_are_corrected_too():
    texts = ["The canteen serves lunch at noon.", "Parcels are returned by post."]
    [found] = index_of(UEC(["bm25"]), texts).search(["When does the cantteen serve lunch?"])
    assert found.passages[0].text == texts[0]


RENTAL = ROWS["rental"]


@pytest.mark.parametrize(("question", "spelled"), ROWS["known words"])
def test_a_word_that_the_model_knows_is_no_other_word(uec, question, spelled):
    [asked] = spell([Query.parse(question)], index_of(uec, RENTAL).store.snapshot(), uec.rarity)
    assert spelled in asked.spelled
    assert bool(asked.spelled) == bool(spelled)


@pytest.mark.parametrize(
    "question", ["How do I darn a hole in a soc?", "Who rescued the sailng cat?"]
)
def test_of_what_is_refused_nothing_is_said_in_another_spelling(uec, question):
    [found] = index_of(uec, RENTAL).search([question])
    assert found.decision.action == "abstain"
    assert "searched as" not in found.decision.reason
    assert found.decision.searched_as == ""


FLOORS = {
    "in words": ["The archive is on the fourth floor.", "Tea is at three on the first of May."],
    "in digits": ["The archive is on the 4th floor.", "Tea is at three on the first of May."],
    "in both": ["The archive is on the 4th floor.", "Each fourth visitor gets a map for free."],
}


@pytest.mark.parametrize("way", FLOORS)
@pytest.mark.parametrize("asked", ["What is on the 4th floor?", "what is on the fourth floor"])
def test_an_ordinal_is_found_in_digits_and_in_words(way, asked):
    index = index_of(UEC(), [*data_of("shop.json")["texts"], *FLOORS[way]])
    fourth, fifth = index.search([asked, "What is on the 5th floor?"])
    assert (fourth.ids[0], fourth.decision.action) == ("p16", "answer")
    assert fifth.decision.action == "abstain"
