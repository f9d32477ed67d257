"""What stands around a question is no part of it, and a name in another style is the same."""

from __future__ import annotations

import pytest

from tests.helpers import data_of, index_of
from uec_rag import UEC
from uec_rag.questions.frames import without_frame

ROWS = data_of("frames.json")
QUESTIONS = [question for question, _ in ROWS["questions"]]


@pytest.fixture(scope="module")
def shop():
    return index_of(UEC(), ROWS["shop"])


@pytest.mark.parametrize("frame", ROWS["frames"])
def test_a_question_within_other_text_is_answered_as_alone(shop, frame):
    forms = [frame.format(q=q, l=q[:1].lower() + q[1:]) for q in QUESTIONS]
    found = [(row.decision.action, row.ids[0]) for row in shop.search(forms)]
    assert found == [("answer", f"p{place}") for _, place in ROWS["questions"]]


@pytest.mark.parametrize(("question", "closing"), ROWS["closings"])
def test_a_closing_is_a_frame_and_a_part_of_a_question_is_none(question, closing):
    assert without_frame(question + closing) == (question, "")


def test_a_pasted_error_is_answered_by_the_line_that_says_what_failed():
    index = index_of(UEC(), ROWS["log"])
    found = index.search([error for error, _ in ROWS["errors"]])
    assert [row.ids[0] for row in found] == [f"p{place}" for _, place in ROWS["errors"]]
    assert {row.decision.action for row in found} == {"answer"}


@pytest.mark.parametrize(("question", "text"), ROWS["otherwise"])
def test_a_name_in_another_style_is_there(question, text):
    result = index_of(UEC(), [text, *ROWS["others"]]).search([question])[0]
    assert (result.decision.action, result.passages[0].text) == ("answer", text)
