"""A value is found however it is written: days and months, times, quantities, umlauts."""

import pytest

from tests.helpers import index_of
from uec_rag import UEC

TOWN = [
    "The town hall is open Mon to Wed from 8 to 12.",
    "The archive is open Tues and on Sat.",
    "The ice rink is open on Sunday from 9 to 17.",
    "The rose garden is closed in Feb.",
    "The observatory is closed in December.",
    "The choir rehearses every Thursday.",
    "Glass is collected on Fri.",
    "He sat on a bench in the sun, so did I.",
    "The phone in blue has 128 GB of storage.",
    "The phone in red has 256GB of storage.",
    "The jug holds 750ml.",
    "The carafe holds 300 ml.",
    "The bakery closes at 6pm.",
    "The ferry leaves at 07:45.",
    "The tram leaves at 8.05.",
    "Version 8.05 has a map.",
    "Parking costs two euros an hour.",
    "A library card is free for children.",
]


@pytest.fixture(scope="module")
def town(uec):
    return index_of(uec, TOWN)


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("Is the town hall open on Monday?", 0),
        ("Is the archive open on Tuesday?", 1),
        ("When is the ice rink open on Sun?", 2),
        ("What is closed in February?", 3),
        ("What is closed in Dec?", 4),
        ("What is collected on Friday?", 6),
        ("Who sat on the bench?", 7),
        ("Which phone has 128GB?", 8),
        ("Which phone has 256 GB?", 9),
        ("What holds 750 ml?", 10),
        ("What holds 300ml?", 11),
        ("What closes at 6 p.m.?", 12),
        ("What leaves at 7:45?", 13),
        ("What leaves at 08:05?", 14),
        ("What does version 8.05 have?", 15),
    ],
)
def test_what_is_asked_in_another_form_is_answered(town, question, place):
    result = town.search([question])[0]
    assert result.decision.action == "answer"
    assert TOWN[place] in [passage.text for passage in result.passages[:2]]
    assert result.decision.lacking == ()


@pytest.mark.parametrize(
    ("question", "lacking"),
    [("What leaves at 09:45?", "09:45"), ("What is closed in Nov?", "Nov")],
)
def test_another_value_is_not(town, question, lacking):
    decision = town.search([question])[0].decision
    assert (decision.action, decision.code) == ("abstain", "uncertain")
    assert decision.lacking in ((), (lacking,))


def test_what_is_after_a_time_is_compared_and_not_answered_by_that_time(uec):
    texts = [f"The ferry to {to} leaves at {at}." for to, at in FERRIES]
    for question in ("Which ferry leaves after 17:35?", "Which ferry leaves after 17.35 h?"):
        assert index_of(uec, texts).search([question])[0].decision.action != "answer"


FERRIES = [("Aland", "05:50"), ("Oban", "8:20"), ("Skye", "17:35"), ("Mull", "22:10")]
HOUSE = [
    "Die Gebühr beträgt zwölf Euro.",
    "Die Kaution ist hundert Euro.",
    "Der Schlüssel liegt beim Pförtner.",
    "Die Waschkueche ist im Keller.",
    "Fahrräder stehen im Hof.",
    "Das Treppenhaus wird am Mi gereinigt.",
    "Der Pott steht auf dem Herd.",
]


@pytest.mark.parametrize(
    ("question", "place", "searched_as"),
    [
        ("WIE HOCH IST DIE GEBÜHR?", 0, ""),
        ("Wie hoch ist die Gebuehr?", 0, "Wie hoch ist die Gebühr?"),
        ("Gebuehr", 0, "Gebühr"),
        ("Wie hoch sind die Gebuehren?", 0, "Wie hoch sind die Gebühren?"),
        ("Wo liegt der Schluessel?", 2, "Wo liegt der Schlüssel?"),
        ("Wo ist die Waschküche?", 3, "Wo ist die Waschkueche?"),
        ("Wo stehen die Fahrraeder?", 4, "Wo stehen die Fahrräder?"),
        ("Was wird am Mittwoch gereinigt?", 5, ""),
    ],
)
def test_umlauts_and_their_transcriptions_are_one_word(question, place, searched_as):
    result = index_of(UEC("multilingual"), HOUSE).search([question])[0]
    assert (result.decision.action, result.passages[0].text) == ("answer", HOUSE[place])
    assert result.decision.searched_as == searched_as


@pytest.mark.parametrize("question", ["Who is the poet?", "poet", "Poets?", "cheap poet fuel"])
def test_english_words_have_no_umlauts(uec, question):
    texts = ["The pot is hot.", "A ful meal was soft.", "The garden is green."]
    assert index_of(uec, texts).search([question])[0].decision.searched_as == ""
