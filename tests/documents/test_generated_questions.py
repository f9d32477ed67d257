"""Questions made of passages: titles or first sentences, and where these end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import data_of, rows_of
from uec_rag.documents.generated_questions import make_questions, questions_of, split_first_sentence
from uec_rag.stores.passage import Passage


@pytest.mark.parametrize("row", data_of("made_questions.json"), ids=lambda row: row["says"])
def test_titles_and_first_sentences_ask_for_passages(row):
    passages = [Passage(str(i), *given) for i, given in enumerate(row["passages"])]
    assert make_questions(passages, 100) == row["questions"]


@pytest.mark.parametrize("row", rows_of("first_sentences.csv"), ids=lambda row: row["text"])
def test_the_first_sentence_or_paragraph_is_split_off(row):
    assert split_first_sentence(row["text"]) == (row["first"], row["rest"])


@given(st.text(alphabet="ab .!?。\n\"')", max_size=60))
def test_no_word_is_lost_and_none_is_added(text):
    first, rest = split_first_sentence(text)
    assert "".join((first + rest).split()) == "".join(text.split())


def test_code_and_drawings_are_no_questions_to_suggest():
    code = "```sh\npip install it and wait for some minutes until it is there.\n```\n\n"
    drawing = (
        "+----+ -> |Some| <- ^^ | .---. [box] == {}\n\nWhat is drawn above here is a box in a row."
    )
    said = "Bread wants time. Let the dough rise for some hours, or overnight in the cold."
    passages = [Passage(str(n), text) for n, text in enumerate([code + said, drawing, said])]
    assert questions_of(passages, 3) == {"Bread wants time.": ["2"]}
