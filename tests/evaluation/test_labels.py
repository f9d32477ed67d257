"""Labels that a confident search contradicts are named, to be checked."""

import pytest

from tests.server.conftest import make
from uec_rag.evaluation.labels import doubtful_labels


@pytest.fixture(scope="module")
def index():
    return make()


NOTES = [f"What is note {n} about?" for n in range(5)]


@pytest.mark.parametrize(
    ("questions", "relevant", "told"),
    [
        (["Where may staff park?", "Who wrote Hamlet?"], [["parking"], []], []),
        (["Who wrote Hamlet?"], [["parking"]], []),  # the search is in doubt itself
        (
            ["Where may staff park?"],
            [[]],
            ["1 question labelled as without an answer has a confidence above 0.9: "],
        ),
        (
            NOTES,
            [[]] * 5,
            [
                "5 questions labelled as without an answer have a confidence above 0.9: "
                '"What is note 0 about?", "What is note 1 about?", "What is note 2 about?", ...; '
                "look whether a passage answers."
            ],
        ),
        (
            [*NOTES[:2], "Where may\nstaff park\x1b[2J?"],
            [["n0"], ["n30"], []],
            [
                '0.9: "Where may staff park\\x1b[2J?"; look',
                "1 question labelled with passages that are not found has a confidence above 0.9: "
                '"What is note 1 about?"; look whether what is found also answers.',
            ],
        ),
    ],
)
def test_what_is_named(index, questions, relevant, told):
    said = doubtful_labels(index.search(questions), relevant)
    assert len(said) == len(told)
    assert all(part in one for part, one in zip(told, said, strict=True))


def test_a_clarifying_question_contradicts_no_label(chat_index):
    found = chat_index.search(["What is the force option?"])
    assert found.decisions[0].action == "clarify"
    assert doubtful_labels(found, [[]]) == []
