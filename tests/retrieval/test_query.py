"""Questions in a conversation: how they are asked, their weights and mixture, and replies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import VAGUE, data_of, index_of, namesakes
from uec_rag import UEC
from uec_rag.base.counts import Words
from uec_rag.base.gaussian import Gaussian
from uec_rag.encoders import Lexical
from uec_rag.ensemble.convolution import in_context
from uec_rag.questions.answers import Turn
from uec_rag.questions.phrasing import Phrasing, phrasings
from uec_rag.questions.query import Query, turns_of

ROWS = data_of("query.json")


PASSAGES = [
    "A garage door opener costs 200 dollars.",
    "Repairing a fence costs 90 dollars.",
    "Openers have a motor.",
]


def words(*texts: str) -> Gaussian:
    encoded = Lexical().encode(texts, "query")
    return Gaussian.certain(encoded.embedding, encoded.blocks)


def bm25(part: Gaussian) -> np.ndarray:
    held = Lexical().encode(PASSAGES, "passage").terms
    assert held is not None
    words = Words.from_terms(held)
    return words.similarities(words.look_up(part.terms[0]))


@given(st.lists(st.text("ab 门\n", max_size=900), max_size=6))
def test_a_context_ends_with_the_question_and_is_not_long(turns):
    text = Query.parse("Why?", turns).lines
    assert text.endswith("Why?")
    assert len(text.encode()) <= 1500 + len(turns) + len("Why?")


def test_the_latest_turns_stay_if_there_is_no_room_for_all():
    assert Query.parse("Why?", ["first", "x" * 800, " ", "y" * 800]).turns == ["y" * 800]
    assert [len(Query.parse("Why?", ["x" * n, "y" * 800]).turns) for n in (700, 701)] == [2, 1]


def rows_of(texts):
    return {text: row for row, text in enumerate(texts)}


def mixed(*asked: Query) -> Gaussian:
    texts = dict.fromkeys(text for query in asked for text in (query.text, *query.turns))
    return mixture(words(*texts), *asked)


def mixture(said: Gaussian, *queries: Query) -> Gaussian:
    """The queries, whose different texts are the Gaussians of `said`."""
    texts = [*dict.fromkeys(text for query in queries for text in (query.text, *query.turns))]
    asked = [Phrasing(query.text, query.turns) for query in queries]
    [part] = in_context(asked, rows_of(texts), [said])
    return part


def test_a_question_without_turns_stays_as_it_is_among_others():
    both = bm25(mixed(Query.parse("A motor"), Query.parse("How much?", ["A fence"])))
    assert np.array_equal(both[:1], bm25(words("A motor")))
    assert np.allclose(both[1:], bm25(mixed(Query.parse("How much?", ["A fence"]))), atol=1e-6)


def test_what_was_said_before_finds_its_passage_and_the_question_tells_which():
    assert bm25(words("How much is it?")).argmax() != 1
    assert bm25(mixed(Query.parse("How much does it cost?", ["My fence"]))).argmax() == 1
    assert bm25(mixed(Query.parse("Does it have a motor?", ["My door opener"]))).argmax() == 2


def test_a_long_turn_does_not_drown_a_short_question():
    long = "A garage door opener that does not open the garage door"
    assert bm25(mixed(Query.parse("My fence", [long]))).argmax() == 1
    [terms] = mixed(Query("?!", ["My fence"])).terms
    assert terms.weights.max() > 0  # a question without words leaves it all to the turn


@given(st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_means_are_convex_combinations_and_variances_those_of_a_convolution(counts):
    rng, size = np.random.default_rng(0), len(counts) + sum(counts)
    said = Gaussian.from_factors(
        rng.normal(size=(size, 5)), rng.random((size, 1)), rng.random((1, 5))
    )
    queries = [
        Query(f"The price {row}?", [f"Rye {row} {place}" for place in range(count)])
        for row, count in enumerate(counts)
    ]
    found, first = mixture(said, *queries), 0
    for row, count in enumerate(counts):
        some = slice(first, first + count + 1)
        by_age = 0.7 ** np.arange(count)[::-1]  # the latest turn is the last
        share = np.array([2 / 3, *by_age / by_age.sum() / 3]) if count else np.ones(1)
        assert np.allclose(found.mean[row], share @ said.mean[some], atol=1e-6)
        assert np.allclose(found.variance[row], share**2 @ said.variance[some], atol=1e-6)
        first += count + 1


def test_a_subject_fades_by_the_turns_after_it():
    turns = ["My fence", "My door", "How high is it?", "Why?"]
    said = Gaussian(np.eye(5, dtype=np.float32), np.zeros((5, 5), dtype=np.float32))
    share = mixture(said, Query("The price?", turns)).mean[0, 1:] * 3
    assert np.allclose(share, 0.7 ** np.arange(4)[::-1] / sum(0.7 ** np.arange(4)))
    ways = [(one.role, one.prior) for one in phrasings(Query.parse("The price?", turns))]
    assert ways == [("alone", 1), ("latest", 1), ("written", 1)]


def test_variances_that_are_not_factored_mix_alike():
    said = Gaussian([[1.0, 0], [0, 1.0]], [[0.9, 0], [0, 0.9]])
    assert np.allclose(mixture(said, Query("cost", ["fence"])).variance, [[0.4, 0.1]])


def test_words_of_all_turns_stay_readable():
    [labels] = mixed(Query.parse("cost", ["door"])).terms[0].labels or []
    assert sorted(labels.values()) == ["cost", "door"]


def test_a_word_is_written_as_in_the_question_or_else_the_latest_turn_whatever_is_asked_beside_it():
    asked = Query("And a boat?", ["Do docks cost?", "May a dock hold boats?"])
    beside = Query("Which?", ["Do docks hold boats?", "May a dock hold boats?", "Do docks cost?"])
    for labels in (mixed(asked).terms[0].labels, mixed(beside, asked).terms[0].labels):
        assert {"boat", "dock"} <= {*labels[-1].values()}


def test_questions_back_are_not_searched_with():
    turns = ["When?", "Who?", BACK, "tar", BACK]
    assert Query.parse("And how?", turns).turns == ["When?", "Who?\ntar"]


def test_a_reply_that_says_more_is_one_turn_with_the_question():
    turns = ["How do I force it?", "What exactly do you mean? Which one?", "in winter"]
    assert Query.parse("Who pays?", turns).turns == ["How do I force it?\nin winter"]


def test_what_an_answer_lists_is_no_reply_to_what_was_asked_back():
    turns = ["How do I force it?", BACK, Turn("assistant", "- refunds\n- repairs")]
    assert Query.parse("Who pays?", turns).turns == ["How do I force it?"]


@pytest.mark.parametrize("reply", ["the second", "Git add.", "2"])
def test_a_reply_that_chooses_is_one_turn_with_the_question_and_the_label(reply):
    turns = ["How do I force it?", BACK, reply]
    context = Query.parse("Who?", [*turns, "And why?"]).turns
    assert context == ["How do I force it?\ngit add", "And why?"]


def test_the_turns_weigh_more_if_the_question_refers_to_them():
    said = Gaussian([[1.0, 0], [0, 1.0]], [[0, 0], [0, 0]])
    turns = ["My door opener broke."]
    for question, ratio in (("How much does it cost?", 1), ("How much does a fence cost?", 2)):
        [mean] = mixture(said, Query(question, turns)).mean
        assert np.allclose(mean[0] / mean[1], ratio)


BACK = "Do you mean rsync, git add or git push?"


@pytest.mark.parametrize("row", data_of("replies_in_turn.json"), ids=lambda row: row["said"])
def test_a_reply_belongs_to_the_question_that_was_asked_back_about(row):
    """What is searched: a question, the turns before it, and the replies that choose."""
    turns = [turn if isinstance(turn, str) else Turn(*turn) for turn in row["turns"]]
    query = Query.parse(row["said"], turns)
    assert [query.text, [*query.history], [*query.replies]] == row["searched"]


def test_of_thousands_of_replies_only_the_latest_count():
    turn = Query.parse("1", ["How?", *[BACK, "2"] * 5000, BACK])
    assert turn.replies == ("git add",) * 7 + ("rsync",)


def test_of_the_answers_those_count_that_ask_one_question_and_what_the_last_one_states():
    said = ["Who pays?", "Of which flat?", "The first.", "The tenant. Is that clear?"]
    messages = zip(["user", "assistant"] * 2, said, strict=True)
    turns = turns_of([*messages, ("assistant", "Can I help with anything else?")])
    asked = ["Who pays?", "What exactly do you mean? Of which flat?", "The first."]
    assert turns == [*asked, Turn("assistant", "The tenant.")]
    assert turns_of([("user", "Who pays?"), ("assistant", turns[1])]) == turns[:2]
    assert turns_of([("user", "Who pays?"), ("assistant", "He."), ("user", "Why?")])[1:] == ["Why?"]
    query = Query.parse("When?", turns)
    assert (query.history, query.answer) == (asked, "The tenant.")


DOORS = ROWS["doors"]


def test_what_the_last_answer_says_leads_to_what_a_follow_up_means():
    index, asked = index_of(UEC(), DOORS), ("user", "How do I get into the garage?")
    answer = ("assistant", "Hold your key card to the reader on the left of the door.")
    hits = [
        index.search(["And what if I lose it?"], history=[said])[0].ids
        for said in ([asked], [asked, answer], turns_of([asked, answer]))
    ]
    assert ["p2" in ids for ids in hits] == [False, True, True]


@pytest.mark.parametrize("answer", [Turn("assistant", "It is open."), ""])
def test_the_answer_says_nothing_of_a_question_that_begins_a_conversation(answer):
    [phrasing] = phrasings(Query.parse("Who pays?", [answer]))
    assert phrasing.searched == ["Who pays?"]


@pytest.mark.parametrize("said", ['"{}"', "**{}**", "Sure! {} Let me know."])
def test_a_language_model_may_put_a_question_back_into_its_own_words(said):
    turns = turns_of([("user", "How?"), ("assistant", said.format(BACK))])
    assert Query.parse("the second", turns) == Query("How?", [], ("git add",), [], "the second")


@pytest.mark.parametrize(("answer", "reply", "meant"), data_of("offers.json"))
def test_a_reply_takes_up_what_the_answer_offers_or_lists(answer, reply, meant):
    history = turns_of([("user", "How long is the warranty?"), ("assistant", answer)])
    query = Query.parse(reply, history)
    assert (query.text, query.is_other) == (meant or reply, meant is not None)
    if meant is not None:
        again = Query.parse("And why?", [*history, reply])
        assert again.turns == ["How long is the warranty?", meant]


def test_an_answer_whose_offer_is_taken_up_is_no_turn_to_search_with():
    said = ["How do I get in?", "You can do this:\n1. Reset the password.\n2. Call support."]
    query = Query.parse("the second one", said)
    assert (query.text, query.turns, query.history) == ("Call support", said[:1], said[:1])
    assert Query.parse("And why?", [*said, "the second one"]).turns == [said[0], "Call support"]


def test_what_asks_about_the_answer_finds_and_decides_as_the_question_before():
    index = index_of(UEC(), data_of("shop.json")["texts"])
    asked = "How long is the warranty on lamps?"
    [first] = index.search([asked])
    said = ["Say that in German", "Source?", "Are you sure?"]
    for number, one in enumerate(said):
        [found] = index.search([one], history=[[asked, *said[:number]]])
        assert found.ids == first.ids
        assert found.decision.action == "answer"
        assert (found.query, found.decision.searched_as) == (one, asked)
    [found] = index.search(["How much are they?"], history=[["What are chairs?", "Source?"]])
    assert "Repairs of chairs" in found.passages[0].text


def test_what_asks_about_the_answer_to_an_offer_is_what_was_offered():
    said = ["How long is the warranty?", "Two years. Shall I explain refunds?", "yes", "14 days."]
    history = turns_of(zip(["user", "assistant"] * 2, said, strict=True))
    for turns in (history, [*history, "Source?"], [*history, "Source?", "thanks"]):
        assert Query.parse("Are you sure?", turns).text == "refunds"
    assert not Query.parse("Are you sure?", ["thanks"]).is_other


def test_what_asks_for_an_earlier_answer_finds_what_its_question_does_or_nothing():
    index = index_of(UEC(), data_of("shop.json")["texts"])
    said = ["On which day is the workshop closed?", "When is shipping free?", "What are lamps?"]
    history = turns_of(
        zip(
            ["user", "assistant"] * 3,
            [*said[:1], "Mondays.", *said[1:2], "Above 60.", *said[2:], "?"],
            strict=True,
        )
    )
    turns = ["The first answer again", "And the answer before that?", "Say the ninth answer again"]
    first, second, ninth = index.search(turns, history=[history] * 3)
    assert [first.decision.searched_as, second.decision.searched_as] == said[:2]
    assert first.ids == index.search(said[:1])[0].ids
    assert (ninth.ids, ninth.decision.action) != (index.search(said[2:])[0].ids, "answer")
    assert Query.parse("Repeat the fifth answer", history).text == ""
    later = Query.parse("And on Sundays?", [*history, "Repeat the first answer"])
    assert later.turns == [*said, said[0]]


@pytest.mark.parametrize("thanks", ["👌", ";-)", "thank u", "hihi okay"])
def test_thanks_in_signs_get_no_answer(thanks):
    index = index_of(UEC(["bm25"]), data_of("shop.json")["texts"])
    before = ["How long is the warranty on lamps?"]
    [result] = index.search([thanks], history=[before])
    assert (result.decision.action, result.decision.code) == ("abstain", "no_question")
    asked = ["Do you mean refunds or repairs?"]
    assert Query.parse(thanks, [*before, "Which?", *asked]).text != thanks or thanks[0].isalpha()


def test_a_question_that_is_repeated_is_not_its_own_context():
    assert Query.parse("How long?", ["Who repairs it?", "how long? "]).turns == ["Who repairs it?"]


@pytest.mark.parametrize(("reply", "code", "found"), ROWS["replies"])
def test_a_reply_chooses_excludes_asks_again_or_gives_up(reply, code, found):
    texts, about = namesakes()
    index = index_of(UEC(["bm25"]), texts, metadatas=about)
    asked = index.search([VAGUE])[0].decision.clarifying_question
    assert asked == "Do you mean Home loan, Car loan or Boat loan?"
    [one] = index.search([reply], history=[[VAGUE, asked]])
    assert one.decision.code == code
    if found is not None:
        assert [passage.metadata["title"] for passage in one.passages] == found
    if code == "underspecified":
        assert one.decision.clarifying_question == asked
