"""The outline of hits, and whether a question says which part of it is meant."""

import pytest

from tests.clarify.outlines import (
    IDF,
    PLACES,
    QUESTION,
    SAID,
    below_headings,
    labels_of,
    named,
    outline,
    probability,
)
from tests.helpers import data_of
from uec_rag.clarify.outline import FEATURES, shipped_underspecified
from uec_rag.confidence.decision import CLARIFY_FROM
from uec_rag.questions.languages import function_words


def test_the_heaviest_part_is_followed_while_it_has_nearly_all_of_the_mass():
    titles, sources = ["Mute", "Record", "Fees"], ["calls.md", "calls.md", "loans.md"]
    documents = ["Make calls", "Make calls", "Your loans"]
    apart = outline(titles, None, [2, -2, 1], IDF, sources, documents)
    assert labels_of(apart) == ["Make calls: Mute", "Your loans: Fees"]
    assert labels_of(outline(titles, None, [2, 2, -2], IDF, sources, documents)) == [
        "Mute",
        "Record",
    ]
    sources = ["docs/restic/u/a.md", *["docs/restic/v/b.md"] * 2, "docs/caddy/c.md"]
    texts = ["restic goes u.", "restic waits v.", "restic v.", "caddy goes."]
    deep = outline(
        ["Pumps", "Valves", "Keys", "Doors"], None, [5, 5, 5, 0], IDF, sources, texts=texts
    )
    assert (deep.split().depth, labels_of(deep)) == (2, ["v: b", "u: Pumps"])


def test_what_shares_a_name_that_the_question_is_are_its_readings():
    headings = [("Installation", "Steps"), ("Upgrade", "Steps"), ("Roles", "")]
    headings = [("Tidemill", *above) for above in headings]
    texts = ["Add it.", "Stop it.", "There are three."]
    found = below_headings(headings, texts, {"What": 0.5, "steps": 3.0})
    assert named("What are the steps?", found)["shared"] > 0.9
    assert labels_of(found) == ["Installation: Steps", "Upgrade: Steps"]


def test_a_name_of_several_is_shared_however_much_is_said_unless_one_has_the_rest():
    idf = {"Elkins": 9.0, "founded": 2.0, "who": 1.0, "when": 1.0, "where": 1.0, "why": 1.0}
    several = outline(PLACES, [SAID, SAID], [1, 0], idf)
    one = outline([PLACES[0], "Dunville"], [SAID, ("founded",)], [9, 1], idf)
    question = "Who founded Elkins when, where and why?"
    assert named(question, several)["shared"] > 0.9
    assert named(question, one)["shared"] == 0
    assert probability(question, several) > CLARIFY_FROM > 0.3 > probability(question, one)
    less = outline(PLACES[::-1], [("Elkins", "Arkansas"), SAID], idf=dict.fromkeys(IDF, 5.0))
    assert named("Elkins, Arkansas", less)["shared"] == 0


@pytest.mark.parametrize(
    ("titles", "sources", "logits", "is_named"), data_of("named_subjects.json")
)
def test_a_question_that_says_a_title_or_the_name_of_a_file_says_which_is_meant(
    titles, sources, logits, is_named
):
    idf = {"when": 0.5, "Elkins": 4.0, "founded": 1.5}
    found = outline(titles, [SAID] * 2, logits, idf, sources)
    assert named(QUESTION, found)["named"] == pytest.approx(is_named)
    assert (probability(QUESTION, found) < 1e-6) == is_named


def test_concepts_are_named_by_several_titles_and_pronouns_by_none():
    both = outline(["Move"] * 2, [{"move"}] * 2, idf={"move": 3.0}, sources=["a.md", "b.md"])
    one = outline(["Move"] * 2, [{"move"}] * 2, idf={"move": 3.0}, sources=["move.md", "b.md"])
    questions = ("What is a move?", "What does move do?", "How do I move it?")
    assert [named(question, both)["named"] for question in questions] == [1, 0, 0]
    assert [named(question, one)["named"] for question in questions] == [1, 1, 0]


def test_a_title_that_says_half_of_a_question_is_hardly_what_it_names():
    asked = {"what": 0.5, "name": 2.15, "variable": 2.3}
    found = outline(["Variables", "Posts"], [("name", "variable")] * 2, [1, 0], asked)
    assert 0 < named("What is the name variable?", found)["named"] < 0.2
    found = outline(["Variables", "Posts"], [("variable",)] * 2, [1, 0], {"variable": 2.3})
    assert named("How do I set a variable?", found)["named"] == 1


def test_a_question_is_brief_if_it_has_few_words_besides_function_words_and_options_count_once():
    def brief(*words):
        found = outline(PLACES, [words] * 2, idf=dict.fromkeys(words, 1.0))
        return named("What does it do?", found)["brief"]

    assert brief("when", "founded") > brief("when", "founded", "Elkins")
    assert brief("how", "can", "I", "repay") == brief("repay")
    assert brief("n", "-n") == brief("n")


def test_how_brief_a_question_is_does_not_depend_on_its_language():
    def brief(language, *words):
        known = function_words(language)
        found = outline(PLACES, [words] * 2, idf=dict.fromkeys(words, 1.0), function_words=known)
        return named("", found)["brief"]

    english = brief("en", "How", "do", "I", "delete", "the", "old", "files")
    assert brief("de", "Wie", "lösche", "ich", "die", "alten", "Dateien") == english
    assert brief("ru", "Как", "мне", "удалить", "старые", "файлы") == english
    pairs = ("如何", "何删", "删除", "除旧", "旧的", "的文", "文件", "件吗")
    assert brief("zh", *pairs) == pytest.approx(english, abs=0.02)


def test_a_name_that_several_share_or_too_little_says_leaves_open_which_is_meant():
    titles = ["Home loan", "Car loan"]
    vague = outline(titles, [("loan",)] * 2, idf={"loan": 1.0, "repay": 1.0})
    unsaid = probability("loan repay", vague)
    assert unsaid > named("loan repay", vague)["shared"]
    assert probability("repay the loan?", vague) > unsaid


def test_every_feature_is_evidence_for_a_clarifying_question():
    assert all(weight > 0 for weight in shipped_underspecified().weights)
    assert len(shipped_underspecified().weights) == len(FEATURES[:-2])
