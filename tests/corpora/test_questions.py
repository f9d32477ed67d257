"""Questions made of passages: titles or first sentences, and where these end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import rows_of
from uec_rag.corpora.questions import make_questions, split_first_sentence
from uec_rag.stores.base import Passage

BODY = "Let the dough rest in a cool place until it has doubled in size."


def make(*given):
    passages = [Passage(str(i), text, metadata) for i, (text, metadata) in enumerate(given)]
    made = make_questions(passages, 100)
    return dict(zip(made.questions, made.relevant, strict=True)), made.answers


@pytest.mark.parametrize("key", ["title", "heading", "header"])
def test_a_title_asks_for_its_passage(key):
    questions, answers = make((BODY, {key: " Baking a loaf at home "}))
    assert questions == {"Baking a loaf at home": [0]}
    assert answers == {0: BODY}


@pytest.mark.parametrize(
    "title", ["Baking", "page 3", "a" * 301 + " b", "the dough rest in", 7, None, ["Baking a loaf"]]
)
def test_a_title_that_asks_for_nothing_leaves_it_to_the_first_sentence(title):
    questions, answers = make((f"Bread wants time. {BODY}", {"title": title}))
    assert questions == {"Bread wants time.": [0]}
    assert answers == {0: BODY}


@pytest.mark.parametrize("text", ["Too short. " + BODY, BODY, "Bread wants time. And rest."])
def test_a_passage_may_give_no_question(text):
    assert make((text, {})) == ({}, {})


def test_passages_of_one_title_all_answer_it():
    questions, _ = make(*[(f"{BODY} {i}", {"title": "Baking a loaf at home"}) for i in range(3)])
    assert questions == {"Baking a loaf at home": [0, 1, 2]}


def test_what_many_share_asks_for_none_of_them():
    same = {"title": "Baking a loaf at home"}
    own = [(f"This is step number {i}. {BODY}", same) for i in range(6)]
    assert list(make(*own)[0]) == [f"This is step number {i}." for i in range(6)]
    assert make(*[(f"All rights are reserved. {BODY}", {})] * 6) == ({}, {})


def test_a_heading_at_the_top_of_the_text_asks_like_the_one_in_the_metadata():
    heading = "Baking a loaf at home"
    questions, answers = make(
        (f"{heading}\n\n{BODY}", {"title": heading}), (BODY, {"title": heading})
    )
    assert questions == {heading: [0, 1]}
    assert answers == {0: BODY, 1: BODY}


@pytest.mark.parametrize(
    ("heading", "question"),
    [
        ("4.1. Baking a loaf at home", "Baking a loaf at home"),
        ("Baking in 3 steps", "Baking in 3 steps"),
    ],
)
def test_a_headings_number_is_no_sentence_and_another_number_stays(heading, question):
    assert make((f"{heading}\n\n{BODY}", {"title": heading}))[0] == {question: [0]}


def test_under_a_heading_that_asks_for_nothing_the_first_sentence_asks_for_the_rest():
    given = [(f"Synopsis\n\nThis is step {i}. {BODY}", {"title": "Synopsis"}) for i in range(9)]
    questions, answers = make(*given, (f"Synopsis\n\nand so on. {BODY}", {"title": "Synopsis"}))
    assert list(questions) == [f"This is step {i}." for i in range(9)]
    assert set(answers.values()) == {BODY}


@pytest.mark.parametrize("row", rows_of("first_sentences.csv"), ids=lambda row: row["text"])
def test_the_first_sentence_or_paragraph_is_split_off(row):
    assert split_first_sentence(row["text"]) == (row["first"], row["rest"])


@given(st.text(alphabet="ab .!?。\n\"')", max_size=60))
def test_no_word_is_lost_and_none_is_added(text):
    first, rest = split_first_sentence(text)
    assert "".join((first + rest).split()) == "".join(text.split())
