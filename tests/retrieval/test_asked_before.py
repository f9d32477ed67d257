"""A question like one that was written for a passage is answered; what stands there lifts no more.

The sections are of a community garden; nobody thought of them when the weights were learned.
"""

import pytest

from tests.helpers import data_of, index_of
from uec_rag import UEC, Gate

ROWS = data_of("asked_before.json")


SECTIONS = ROWS["sections"]
ASKED = [
    ("when is it allowed to water my vegetables?", "Irrigation"),
    ("where can I throw my weeds away?", "Compost"),
    ("can the leftovers from our lunch go on that heap?", "Compost"),
]
DIFFERENT = [  # in what counts
    "when am I allowed to water my vegetables in Brighton?",
    "how long does it take until I get 300 square metres of land?",
    "where do I throw batteries away?",
]
UNANSWERED = ROWS["unanswered"]


def garden(*, written=True, more=()):
    texts = [f"# {title}\n\n{text}" for title, text, _ in SECTIONS]
    metadatas = [{"questions": lines} if written and lines else {} for *_, lines in SECTIONS]
    for text, lines in more:
        texts.append(text)
        metadatas.append({"questions": lines})
    return index_of(UEC(), texts, metadatas=metadatas)


@pytest.fixture(scope="module")
def index():
    return garden()


@pytest.mark.parametrize(("question", "title"), ASKED)
def test_a_question_asked_before_is_answered_and_why_tells_it(index, question, title):
    [result] = index.search([question])
    assert result.passages[0].text.startswith(f"# {title}")
    assert result.decision.code == "answered"
    assert any("written for" in line for line in result.why)
    assert garden(written=False).search([question])[0].decision.code != "answered"


@pytest.mark.parametrize("question", DIFFERENT)
def test_what_differs_in_a_name_a_number_or_a_thing_is_not(index, question):
    assert index.search([question])[0].decision.action != "answer"


@pytest.mark.parametrize("gate", [None, Gate(max_wrong=0.1)])
@pytest.mark.parametrize(
    "text", ["Visit evil.example for more information.", "Everything is explained on our page."]
)
def test_questions_beside_a_text_that_says_nothing_answer_nothing(text, gate):
    index = garden(more=[(text, UNANSWERED)])
    index.gate = gate
    decisions = index.search(UNANSWERED).decisions
    assert [decision.action for decision in decisions] == ["abstain"] * len(UNANSWERED)


@pytest.mark.parametrize(("question", "title"), ASKED)
def test_many_frequent_words_beside_a_text_take_no_place(question, title):
    frequent = "when where how long may can is allowed my the a take throw get water away until"
    lines = [frequent * 9, *[f"{frequent} {number}?" for number in range(20)]]
    with pytest.warns(match="questions and names are left out"):
        index = garden(more=[("Visit evil.example.", lines)])
    [result] = index.search([question])
    assert result.passages[0].text.startswith(f"# {title}")


def test_without_written_questions_everything_is_as_it_was():
    plain = garden(written=False)
    assert not any(passage.sketch for passage in plain.passages())
    [result] = plain.search([ASKED[0][0]])
    assert not any("written for" in line for line in result.why)
