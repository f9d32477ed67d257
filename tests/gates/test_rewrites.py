"""A rewrite that asks about another thing than the question is not answered."""

import pytest

from tests.helpers import data_of
from uec_rag import UEC, Advice, Gate, Retriever
from uec_rag.gates.rewrites import changes_subject

ROWS = data_of("rewrites.json")


RENTALS = ROWS["rentals"]
RELEASES = [
    "Release 7 runs on Java 17.",
    "Release 8 runs on Java 21.",
    "It is under the MIT licence.",
]
SECTIONS = [
    "# Kayak\n\nBring it back by six. It has a paddle.",
    "# Surfboard\n\nFins are in the bag.",
]
RULES = ["Le prêt d'un vélo dure trois jours.", "Le prêt d'une remorque dure une semaine."]
LOANS = ["帐篷的借期是三天。", "睡袋的借期是两周。"]


@pytest.mark.parametrize(
    ("texts", "question", "others", "same"),
    [
        (RENTALS, "What do I pay for a kayak?", "What is the hourly rent of a surfboard?", "kayak"),
        (RENTALS, "And the surfboards?", "What is a kayak rented out for?", "surfboard"),
        (RELEASES, "Java for release 7?", "Which Java does release 8 run on?", "release 7"),
        (RELEASES, "Does v7 need Java?", "Which Java does release 8 run on?", "release 7"),
        (SECTIONS, "How long may I have the kayak?", "When is a surfboard due?", "kayak"),
        (
            RULES,
            "Je garde le vélo longtemps ?",
            "Combien de temps dure le prêt d'une remorque ?",
            "vélo",
        ),
        (LOANS, "帐篷可以用多久？", "睡袋的借期是多久？", "帐篷"),
    ],
)
def test_another_name_or_number_of_the_documents_is_another_subject(texts, question, others, same):
    assert changes_subject(question, others, texts)
    assert changes_subject(f"What is there?\n{question}", others, texts)
    assert not changes_subject(question, f"How is it with {same}?", texts)


@pytest.mark.parametrize(("question", "rewrite"), ROWS["the same subject"])
def test_other_words_for_the_same_are_no_other_subject(question, rewrite):
    assert not changes_subject(question, rewrite, RENTALS)


def test_what_the_turns_before_speak_of_is_no_other_subject():
    rewrite = "What is the hourly rent of a surfboard?"
    assert not changes_subject("A surfboard, not a kayak?\nIts price?", rewrite, RENTALS)


def test_such_a_rewrite_leaves_the_question_uncertain_with_its_own_hits():
    index = Retriever(UEC(["bm25"]), fit=False)
    index.add(RENTALS, [*"abcd"])
    ways = {"doubt": (0.0, 1.0), "rewritten": 0.0}
    for what, action, code, first in (
        ("surfboard", "abstain", "uncertain", "a"),
        ("kayak", "answer", "answered", "a"),
    ):
        reply = Advice("no", rewrite=f"For how many euros is a {what} rented out?")
        gate = Gate(advisor=lambda question, texts, reply=reply: reply, **ways)
        [one] = gate.search(index, ["what about a kayak, then?"])
        assert (one.decision.action, one.decision.code, one.ids[0]) == (action, code, first)
        assert one.decision.advice.partition(";")[0] == ("no" if code == "uncertain" else "answer")
        assert one.decision.advice_calls == 1
