"""The languages in which decisions are told, and which of them a question is in."""

import string
from dataclasses import replace

import pytest

from tests.helpers import data_of, decide_on, rows_of
from uec_rag.confidence.decision import Criteria, decide
from uec_rag.questions.answers import accepts
from uec_rag.questions.languages import (
    SENTENCES,
    TRANSLATIONS,
    check_language,
    is_courtesy,
    language_of,
    languages,
    sentence,
    tables,
    template,
)
from uec_rag.questions.replies import (
    Reading,
    extract_clarifying_question,
    extract_labels,
    find_positions,
)

THREE = tuple(Reading(label, (label,), 0.3) for label in ("git add", "rsync", "tar"))
LONG = tuple(
    Reading(label, (label,), 0.3)
    for label in (
        "git --verbose --patch --interactive",
        "rsync --archive, --compress --delete",
        "tar --xz …",
    )
)
OF_ENGLISH_ALONE = {"writing"}  # others say "in this language"

KINDS = {"courtesies", "ordinals", "all", "none", "accepts", "declines"}
OPTIONAL = {
    "middle",
    "offers",
    "last",
    "articles",
    "before_number",
    "first",
    "and",
    "except",
    "yes_or_no",
}
OPTIONAL |= {"around", "pair"}


def fields(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("row", rows_of("languages.csv"), ids=lambda row: row["text"])
def test_a_question_is_in_the_language_of_its_words(row):
    assert language_of(row["text"]) == row["language"]


@pytest.mark.parametrize("language", languages())
def test_every_sentence_of_a_language_has_the_fields_of_the_english_one(language):
    english, own = tables()["en"]["sentences"], tables()[language]["sentences"]
    assert own.keys() <= english.keys()
    assert {"underspecified", "unclear", "comma"} <= own.keys()  # by which replies are understood
    for key, text in own.items():
        assert fields(text) - OF_ENGLISH_ALONE == fields(english[key]) - OF_ENGLISH_ALONE, key
        assert text.strip(), key


@pytest.mark.parametrize("language", languages())
def test_a_sentence_that_a_language_lacks_is_told_in_english(monkeypatch, language):
    monkeypatch.setitem(SENTENCES, "too_new", "It was {when}.")
    assert sentence("too_new", language, when="today") == "It was today."
    assert sentence("no_answer", language) == tables()[language]["sentences"]["no_answer"]


def test_every_language_has_words_for_every_kind_of_reply():
    for language in languages():
        words = tables()[language]["replies"]
        assert words.keys() - OPTIONAL == KINDS
        assert len(words["ordinals"]) == 5
        assert all(map(accepts, words["accepts"].split(",")))
        assert not any(map(accepts, words["declines"].split(",")))
        assert all(map(is_courtesy, words["courtesies"].split(",")))


@pytest.mark.parametrize("language", languages())
def test_a_decision_stays_in_its_language_whatever_becomes_of_it(language):
    said = TRANSLATIONS[language]
    unsure = decide_on(0.4, in_corpus=0.6, language=language)
    assert unsure.reason == said["uncertain"]
    assert decide(unsure, Criteria(0.3)).reason == said["answered"]
    assert decide(replace(unsure, in_corpus=0.03)).reason == said["no_answer"]
    again = decide(replace(unsure, searched_as="tar"), Criteria(0.3))
    tar = said["quoted"].format(text="tar")
    assert again.reason == said["searched_as"].format(reason=said["answered"], question=tar)
    noted = decide(replace(unsure, unfamiliar="x")).reason
    assert noted == said["note"].format(reason=unsure.reason, note="x")
    assert language_of(noted) == language


@pytest.mark.parametrize(("language", "reason"), data_of("languages.json"))
def test_words_of_the_question_are_in_the_quotation_marks_of_the_language(language, reason):
    lacking = ("tar", "zip")
    assert decide_on(0.4, in_corpus=0.6, lacking=lacking, language=language).reason == reason


def test_no_french_line_begins_with_a_punctuation_mark():
    told = "".join(TRANSLATIONS["fr"].values())
    assert not [sign for sign in "?!:;»" if f" {sign}" in told]


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", " ", ""])
def test_a_french_question_that_a_model_copied_is_understood_by_any_space(space):
    asked = f"Voulez-vous dire tar ou zip{space}?"
    assert extract_labels(asked) == ["tar", "zip"]
    assert extract_clarifying_question(f"D'accord. {asked}") == asked


@pytest.mark.parametrize("space", ["\u00a0", " "])
def test_a_french_list_that_a_model_copied_is_understood_by_either_space(space):
    assert extract_labels(f"Que voulez-vous dire exactement{space}?\n1. tar\n2. zip") == [
        "tar",
        "zip",
    ]


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("readings", [THREE[:2], THREE, LONG], ids=["two", "three", "long"])
def test_a_clarifying_question_of_any_language_is_understood(language, readings):
    asked = decide_on(0.9, 0.9, readings, language=language).clarifying_question
    offered = [reading.title for reading in readings]
    assert ("\n1. " in asked) == (readings is LONG)
    assert asked != sentence("unclear", language)
    assert extract_labels(asked) == offered
    assert find_positions("2.", offered) == find_positions("rsync", offered) == [1]
    assert extract_clarifying_question(asked) == asked
    assert extract_clarifying_question(f"OK. **{asked}**") == asked
    assert language_of(asked) == language


@pytest.mark.parametrize("language", languages())
def test_a_label_that_has_a_comma_or_an_or_of_the_language_is_quoted(language):
    for separator in template(language)[1::2]:
        label = f"rows{separator}tabs"
        readings = (Reading(label, ("1",), 0.5), Reading("tar", ("2",), 0.4))
        asked = decide_on(0.9, 0.9, readings, language=language).clarifying_question
        assert extract_labels(asked) == [label, "tar"]


def test_an_unknown_language_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"language: expected one of en, de, .*, got 'german'"):
        check_language("german")
