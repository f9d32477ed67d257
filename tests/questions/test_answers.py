"""Turns about the answer before them: what it offers, and what takes that up."""

from dataclasses import replace

import pytest

from tests.helpers import rows_of
from uec_rag.confidence.decision import Evidence, decide
from uec_rag.questions import answers, languages
from uec_rag.questions.replies import Reading


@pytest.mark.parametrize("row", rows_of("about_answers.csv"), ids=lambda row: row["text"])
def test_a_turn_asks_about_the_answer_if_it_has_nothing_but_a_form_or_a_source(row):
    assert answers.asks_about_answer(row["text"]) is (row["expected"] == "yes")


@pytest.mark.parametrize(
    ("turn", "language", "asks"),
    [
        ("Sage?", "en", False),
        ("what about sage", "en", False),
        ("sage", "de", True),
        ("and explain", "en", True),
        ("Explain?", "en", True),
        ("explain", "de", False),
        ("Sag das auf Englisch", "en", True),
    ],
)
def test_a_request_of_one_word_is_in_the_language_of_the_question_before(turn, language, asks):
    assert answers.asks_about_answer(turn, language) is asks


@pytest.mark.parametrize(
    ("turn", "place"),
    [
        ("Say the second answer again", 1),
        ("Let's return to my third question, please", 2),
        ("And the reply before?", -2),
        ("the second to last answer", -2),
        ("Nochmal die zweite Antwort", 1),
        ("La deuxième réponse encore", 1),
        ("Volvamos a mi segunda pregunta", 1),
        ("Once more question 2, please", 1),
        ("Let's see answer number 3 again", 2),
        ("Et la réponse d'avant ?", -2),
        ("Zurück zu Frage Nummer 1", 0),
        ("Encore la question 3", 2),
        ("Ritorna alla seconda risposta", 1),
        ("Ripeti la terza risposta per favore", 2),
        ("Volte à segunda pergunta", 1),
        ("Repita a terceira resposta, por favor", 2),
        ("Answer in 2 sentences", None),
        ("What is question 2 of the exam about?", None),
        ("Qual è la seconda fermata?", None),
        ("Repeat the second step", None),
        ("Who answers the first question of the exam?", None),
        ("Repeat that", None),
    ],
)
def test_an_earlier_answer_is_asked_for_by_its_place(turn, place):
    assert answers.place_of_answer(turn) == place


@pytest.mark.parametrize(
    ("answer", "offered"),
    [
        ("Choose one:\n1. the kiln\n2. the lathe", ["the kiln", "the lathe"]),
        ("There are two: (1) refunds (2) repairs", ["refunds", "repairs"]),
        ("You can read about: a) tides b) moons", ["tides", "moons"]),
        ("I can explain a) our leases, b) keys and c) rents.", ["our leases", "keys", "rents"]),
        ("Do you go (a) by bus or (b) by boat?", ["by bus", "by boat"]),
        ("The ways are i) clay; ii) glass.", ["clay", "glass"]),
        ("Ask about [1] keys or [2] locks.", ["keys", "locks"]),
        ("I can tell you about our classes: 1. yoga 2. golf", ["yoga", "golf"]),
        ("Version 2. is out, version 3. comes.", []),
        ("We have lamps, chairs and tables.", ["lamps", "chairs", "tables"]),
        ("It is two years, or three.", []),
        ("Closed.\n- Mondays", []),
        ("Should I tell you anything else?", []),
    ],
)
def test_what_an_answer_lists_is_offered_and_what_has_no_name_is_not(answer, offered):
    assert answers.offers(answer) == offered


@pytest.mark.parametrize("language", languages.languages())
def test_the_sections_that_a_reason_names_as_the_closest_are_offered_as_they_are(language):
    titles = ["Dogs: leads", "“Tea, 2 euros…”", "Sand and gravel", "St. Paul", "1. Harbor 4.3"]
    closest = [Reading(title, ("a",), 0.2) for title in titles]
    evidence = Evidence(confidence=0.2, in_corpus=0.6, closest=tuple(closest), language=language)
    offered = ["Dogs: leads", "Tea, 2 euros", *titles[2:]]
    for change in (
        {},
        {"lacking": ("oak.", "elm")},
        {"searched_as": "Who? “a, b”"},
        {"searched_as": "x.", "unfamiliar": "a, b."},
    ):
        reason = decide(replace(evidence, **change)).reason
        assert answers.offers(reason) == offered
    assert answers.offers(f"{reason}\n- lamps\n- chairs") == ["lamps", "chairs"]


@pytest.mark.parametrize(
    ("reply", "accepted"),
    [("yes please", True), ("oui, merci", True), ("no", False), ("yes, but who pays?", False)],
)
def test_a_reply_takes_up_an_offer_if_it_says_nothing_else(reply, accepted):
    assert answers.accepts(reply) is accepted
