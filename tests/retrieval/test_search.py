"""A question in a conversation: the turns before it count as far as it does not stand alone."""

import re

import numpy as np
import pytest

from examples.chat import PASSAGES
from tests.helpers import assert_same_bits, data_of, index_of
from uec_rag import UEC, Gate
from uec_rag.questions.replies import UnknownReading
from uec_rag.stores import LocalStore
from uec_rag.stores.qdrant import QdrantStore

ROWS = data_of("search.json")


TOWNS = ["Elkins", "Goodrich", "Lisbon", "Troy", "Salem", "Dover"]
TEXTS = [f"{town} was founded in {1800 + place} and has a mill" for place, town in enumerate(TOWNS)]
FOLLOW_UP, BEFORE = "When was it founded?", [["Tell me of Troy.", "Troy is a town."]]


@pytest.fixture(scope="module", params=["memory", "qdrant"])
def index(request, with_words, texts):
    """An index in memory and one elsewhere; not to be written to."""
    elsewhere = request.param == "qdrant"
    return index_of(
        with_words,
        [*texts[:60], *TEXTS],
        [*(f"p{i}" for i in range(60)), *TOWNS],
        store=QdrantStore(location=":memory:") if elsewhere else LocalStore(),
    )


def test_a_follow_up_finds_what_the_turns_before_it_name(index):
    one = index.search([FOLLOW_UP], history=BEFORE)[0]
    assert one.ids[0] == "Troy"
    assert one.query == FOLLOW_UP
    other = index.search([FOLLOW_UP], history=[["Tell me of Salem."]])[0]
    assert other.ids[0] == "Salem"


@pytest.mark.parametrize("history", [[[], []], [(), ()], [[" "], ["", "\n"]]])
def test_no_turns_are_no_history_to_the_last_bit(index, history):
    asked = [FOLLOW_UP, TEXTS[2]]
    assert_same_bits(index.search(asked), index.search(asked, history=history))


def test_a_question_without_turns_is_searched_as_alone_beside_one_with_some(index):
    both = index.search([TEXTS[2], FOLLOW_UP], history=[[], *BEFORE])
    alone = index.search([TEXTS[2]])[0]
    assert both[0].ids == alone.ids
    np.testing.assert_allclose(both[0].scores, alone.scores, rtol=1e-5)
    np.testing.assert_allclose(both[0].decision.confidence, alone.decision.confidence, rtol=1e-5)
    assert both[1].ids == index.search([FOLLOW_UP], history=BEFORE)[0].ids


@pytest.fixture
def chat(chat_index):
    """The passages of the example: tools that share an option, and a house."""
    return chat_index


VAGUE = "What is the force option?"
OTHER_SUBJECT = ["Who repairs the door opener?", "How long does it take?", "Is it repaired today?"]


@pytest.fixture
def asked(chat):
    """The turns up to a question back."""
    return [VAGUE, chat.search([VAGUE])[0].decision.clarifying_question]


def test_what_is_surely_answered_alone_is_searched_alone(chat):
    question = "Who repairs the door opener?"
    alone, behind = (
        chat.search([question], history=turns)[0]
        for turns in (None, [["How does rsync copy files?"]])
    )
    assert alone.decision.confidence > 0.9
    np.testing.assert_allclose(behind.scores, alone.scores, rtol=1e-6)
    assert behind.decision.confidence == pytest.approx(alone.decision.confidence)


@pytest.mark.parametrize("opening", ["And {}", "But {}", "What about this: {}"])
def test_a_complete_question_behind_a_conjunction_is_answered_as_alone(chat, opening):
    question = "how does rsync copy files?"
    alone = chat.search([question])[0]
    behind = chat.search([opening.format(question)], history=[["What does git push overwrite?"]])[0]
    assert alone.decision.confidence > 0.85
    assert behind.ids == alone.ids
    assert behind.decision.confidence == pytest.approx(alone.decision.confidence, abs=1e-6)


def test_an_incomplete_question_is_searched_with_its_turns_even_if_it_is_answered_alone(chat):
    question = "Who repairs it if the door opener breaks?"
    alone = chat.search([question])[0]
    behind = chat.search([question], history=[["How does rsync copy files?"]])[0]
    assert alone.decision.action == "answer"
    assert not np.allclose(behind.scores, alone.scores, rtol=1e-3)
    assert behind.ids[0] == alone.ids[0]


@pytest.mark.parametrize("said", ["Who wrote Hamlet?", "Thanks, bye!"])
def test_a_short_question_is_not_answered_from_a_long_turn_on_another_subject(chat, said):
    turn = "Who repairs the door opener in the stairwell when the door does not close any more?"
    [found] = chat.search([said], history=[[turn]])
    assert found.decision.action == "abstain"


def test_a_question_that_is_asked_back_about_is_answered_behind_what_it_refers_to(chat):
    assert chat.search([VAGUE])[0].decision.action == "clarify"
    [told] = chat.search([VAGUE], history=[["How does rsync copy files?"]])
    assert (told.decision.action, told.ids[0]) == ("answer", "rsync")


def test_turns_on_another_subject_before_the_last_do_not_hide_what_it_says(chat):
    said = "How does rsync copy files?"
    turns = [said], [*OTHER_SUBJECT, said]
    known, found = (chat.search([VAGUE], history=[some])[0] for some in turns)
    assert known.decision.action == found.decision.action == "answer"
    assert known.ids[0] == found.ids[0] == "rsync"


@pytest.mark.parametrize("reply", ["git push", " Git  push.", "The second one."])
async def test_a_reply_that_is_a_label_or_a_place_goes_on_among_its_reading(chat, asked, reply):
    [expected] = chat.search([VAGUE], within="git push")
    [found] = chat.search([reply], history=[asked])
    assert found.ids == expected.ids == ["git push"]
    assert found.decision == expected.decision
    assert found.query == reply
    [earlier, again] = await chat.asearch(["Tell me of tar.", reply], history=[[], asked])
    assert (earlier.ids[0], again.ids) == ("tar", ["git push"])


def test_a_reply_that_chooses_all_readings_is_answered_from_all_of_them(chat, asked):
    [offered] = chat.search([VAGUE])
    [found] = chat.search(["all of them"], history=[asked])
    assert sorted(found.ids) == sorted(id for one in offered.decision.readings for id in one.ids)
    assert (found.decision.action, found.decision.underspecified) == ("answer", 0.0)
    assert chat.search([VAGUE], within="all of them")[0].ids == found.ids


def test_a_reply_that_names_none_is_searched_among_the_other_passages(chat, asked):
    [offered] = chat.search([VAGUE])
    refused = {id_ for one in offered.decision.readings for id_ in one.ids}
    [found] = chat.search(["None of these."], len(PASSAGES), history=[asked])
    assert {*found.ids} == {*PASSAGES} - refused
    assert found.decision.action != "answer"
    [only] = chat.search(["neither"], history=[asked], filter={"$id": [*refused]})
    assert (only.ids, only.decision.action) == ([], "abstain")


@pytest.mark.parametrize("replies", [["the zipped one"] * 2, ["for backups", "a quick one"]])
def test_the_second_reply_that_chooses_nothing_is_not_asked_back(chat, asked, replies):
    turns, [offered] = asked, chat.search([VAGUE])
    [first] = chat.search(replies[:1], history=[turns])
    assert first.decision.clarifying_question == asked[1]
    turns = [*turns, replies[0], asked[1]]
    [second] = chat.search(replies[1:], history=[turns])
    assert (second.decision.action, second.decision.code) == ("abstain", "uncertain")
    assert "did not become clear" in second.decision.reason
    assert {*second.ids} == {id for one in offered.decision.readings for id in one.ids}
    assert Gate(0.01).search(chat, replies[1:], history=[turns]).decisions[0].code == "uncertain"
    [chosen] = chat.search(["rsync"], history=[turns])
    assert (chosen.ids, chosen.decision.action) == (["rsync"], "answer")


@pytest.mark.parametrize("reply", ["No clue, sorry!", "up to you", "Ich weiß es nicht", "neither"])
def test_who_does_not_know_what_to_add_is_not_asked_again(chat, reply):
    [found] = chat.search([reply], history=[[VAGUE, "What exactly do you mean?"]])
    assert (found.decision.action, found.decision.code) == ("abstain", "uncertain")


@pytest.mark.parametrize("said", ["the zipped one", "Hm.", "for backups"])
@pytest.mark.parametrize("within", ["git push", "2"])
def test_within_names_the_reading_whatever_was_replied(chat, asked, said, within):
    [expected] = chat.search([within], history=[asked])
    [found] = chat.search([said], history=[asked], within=within)
    assert (found.ids, found.decision) == (expected.ids, expected.decision)
    with pytest.raises(UnknownReading, match="'tar'"):
        chat.search([said], history=[asked], within="tar")


def test_a_label_that_is_none_any_more_is_asked_back_about_again(chat, asked):
    [found] = chat.search(["tar"], history=[[VAGUE, asked[1].replace("git push", "tar")]])
    assert (found.query, found.decision.clarifying_question) == ("tar", asked[1])


def test_an_error_while_a_reply_is_searched_is_raised(chat, asked):
    errors = [ValueError("the table of the filter is locked")]

    def selected(passage):
        if errors:
            raise errors.pop()
        return True

    with pytest.raises(ValueError, match="locked"):
        chat.search(["git push"], history=[asked], filter=selected)
    assert chat.search(["git push"], history=[asked], filter=selected).ids == [["git push"]]


@pytest.mark.parametrize(("history", "message"), data_of("no_history.json"))
async def test_what_is_no_list_of_turns_for_each_question_is_refused(index, history, message):
    error = ValueError if "of 1 questions" in message else TypeError
    with pytest.raises(error, match=re.escape(message)):
        index.search([FOLLOW_UP], history=history)
    with pytest.raises(error, match=re.escape(message)):
        await index.asearch([FOLLOW_UP], history=history)


@pytest.mark.parametrize("within", ["git push", ["rsync"]])
def test_a_chosen_reading_is_no_surer_to_answer_than_the_index_without_the_others(chat, within):
    [chosen] = chat.search([VAGUE], within=within)
    [alone] = chat.search([VAGUE])
    others = [
        id_ for one in alone.decision.readings if not {*one.ids} & {*chosen.ids} for id_ in one.ids
    ]
    left = [passage for passage in chat.passages() if passage.id not in others]
    without = index_of(UEC(), [p.text for p in left], [p.id for p in left])
    [expected] = without.search([VAGUE])
    assert others
    assert chosen.decision.confidence <= expected.decision.in_corpus + 0.02  # another idf


def test_to_choose_every_reading_makes_nothing_surer(chat):
    [alone], [every] = chat.search([VAGUE]), chat.search([VAGUE], within="both")
    assert every.decision.in_corpus <= alone.decision.in_corpus


FORCED = data_of("forced.json")


@pytest.mark.parametrize("vague", [VAGUE, "What does the force option do?", "How do I force it?"])
def test_after_a_second_clarifying_question_every_reply_chooses_from_the_last_list(vague):
    index = index_of(UEC(), [*FORCED.values()], [*FORCED], [{"title": title} for title in FORCED])
    reply, first = "in git", index.search([vague])[0].decision
    before = [vague, first.clarifying_question]
    second = index.search([reply], history=[before])[0].decision
    turns = [*before, reply, second.clarifying_question]
    offered = [[one.title for one in decision.readings] for decision in (first, second)]
    assert first.action == second.action == "clarify"
    assert offered[0] != offered[1]
    for place, reading in enumerate(second.readings, start=1):
        for said in (reading.title, str(place)):
            [expected] = index.search([said], history=[turns])
            assert expected.ids == [*reading.ids]
            for history in (before, turns):  # with and without the question that is replied to
                [found] = index.search([reply], history=[history], within=said)
                assert (found.ids, found.decision) == (expected.ids, expected.decision)


# Of two tools: what one says of the other, and what only one has.
TOOLS = ROWS["tools"]


@pytest.fixture(scope="module")
def tools():
    """The manuals of two tools, each in a folder of its own."""
    return index_of(UEC(), [*TOOLS.values()], [*TOOLS], [{"source": path} for path in TOOLS])


@pytest.mark.parametrize(("before", "question", "asked"), ROWS["other products"])
def test_what_names_another_product_is_not_answered_from_the_one_before(
    tools, before, question, asked
):
    [found] = tools.search([question], history=[[before]])
    [alone] = tools.search([asked])
    assert found.ids[0] == alone.ids[0]
    assert found.ids[0].split("/")[0] == question.split()[-1].strip("?").lower()
    assert found.decision.searched_as == asked


def test_what_no_passage_has_is_asked_of_the_product_before(tools):
    [found] = tools.search(["and video?"], history=[["How do I record audio in Amber?"]])
    assert found.decision.searched_as == "How do I record video in Amber?"


def test_a_follow_up_keeps_the_other_words_of_the_question_before(tools):
    before = "How do I import notes from Notion into Amber?"
    [found] = tools.search(["and into birch?"], history=[[before]])
    assert found.decision.action == "abstain"  # which imports from a folder only


def test_a_follow_up_to_a_later_question_keeps_to_its_product(tools):
    turns = ["How do I record audio in Amber?", "How do I use WebDAV with Amber?"]
    [found] = tools.search(["And with Birch?"], history=[turns])
    assert found.decision.searched_as == "How do I use WebDAV with Birch?"


LINES = ROWS["lines"]


@pytest.fixture(scope="module")
def lines():
    """Statements on things alike, each with the number of another."""
    return index_of(UEC(), LINES, [str(at) for at in range(len(LINES))])


@pytest.mark.parametrize(("before", "question", "right"), ROWS["things alike"])
def test_a_thing_alike_is_not_answered_from_the_thing_before(lines, before, question, right):
    """That has the number, too: of something else."""
    [result] = lines.search([question], history=[[before]])
    assert (result.decision.action, result.ids[0]) == ("answer", right)


def test_there_is_the_place_of_the_question_before_even_if_parking_is_a_title():
    texts = {
        "Parking": "Parking is free on Sundays in all cities. On other days it costs 2 euros.",
        "Lyon office": "The Lyon office opens at 9 am. Visitors may park behind it for two hours.",
        "Leeds office": "The Leeds office opens at 8 am. Visitors may park behind it for an hour.",
        "Leeds canteen": "The canteen in Leeds serves lunch from 12 to 2 pm, on all days.",
    }
    titles = [{"title": title} for title in texts]
    index = index_of(UEC(), [*texts.values()], [*texts], titles)
    [result] = index.search(["Can I park there?"], history=[["When does the Leeds office open?"]])
    assert (result.decision.action, result.ids[0]) == ("answer", "Leeds office")


def test_a_follow_up_has_the_words_that_a_turn_has_in_another_form():
    texts = ["A boat loan is repaid in nine years.", "A car loan is repaid in five years."]
    asked = index_of(UEC(["bm25"]), texts).search(
        ["And for a boat?"], 1, history=[["How are loans for boats repaid?"]]
    )[0]
    assert asked.hits[0].matched_terms[0] == "boat"
    assert "words: one hit has 100% of the question's: +0.0" in asked.why
