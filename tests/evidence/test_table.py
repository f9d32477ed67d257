"""The rows of evidence: what each computes, what they add up to, and what is told of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clarify.outlines import outline
from tests.helpers import data_of
from uec_rag.evidence import EVIDENCE, Comparison, Explanation, QuestionWords
from uec_rag.evidence.table import (
    AGAINST,
    OF_HITS,
    OPEN,
    Openness,
    log_likelihood_ratio,
    weigh,
    weigh_open,
    weights,
)
from uec_rag.questions.phrasing import Goal, Phrasing
from uec_rag.stores.passage import Passage

ROWS = data_of("table.json")


NAMES = [row.name for row in EVIDENCE]


def compare(phrasing, *texts, logits=None, sources=(), common=(), **options):
    """A question compared with hits, in which words are counted."""
    phrasing = Phrasing.of(phrasing) if isinstance(phrasing, str) else phrasing
    hits = [Passage(str(number), text) for number, text in enumerate(texts)]
    for at, source in enumerate(sources):
        hits[at] = Passage(str(at), texts[at], {"source": source})
    words = replace(QuestionWords.match(phrasing, hits, 100), are_counted=True)
    words.idf.update(dict.fromkeys(common, 0.5))  # which half of the passages have
    logits = np.zeros(len(hits), np.float32) if logits is None else np.float32(logits)
    return Comparison(words, logits, **options)


def value(name, comparison):
    """The value of a row."""
    return EVIDENCE[NAMES.index(name)].value(comparison)


def left_open(comparison, node, chance=0.5):
    """P that a question leaves open which reading is meant, and the rows that say something."""
    lowered, values = weigh_open(chance, Openness(comparison, node, is_meant=True))
    return lowered, {row.name for row, value in zip(OPEN, values, strict=True) if value}


def test_of_statements_without_titles_several_are_meant_more_often():
    texts = ["Repay it monthly.", "Repay it in March."]
    for title, length, names in (("", 1, {"statements"}), ("", 80, set()), ("Loans", 1, set())):
        node = outline([title] * 2, texts=[text * length for text in texts]).split()
        comparison = compare("repay the loan?", *[text * length for text in texts])
        assert left_open(comparison, node) == (
            pytest.approx(0.701 if names else 0.5, abs=1e-3),
            names,
        )


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["Ada opens the mill.", "Bert opens the shop."], (0, 0)),
        (["Ada opens the shop.", "Ada opens the yard."], (1, 0)),
        (["Ada opens the shop.", "Bert opens the mill."], (1, 1)),
        (["Ada opens the shop. " * 40], (0, 0)),  # no statement
        (["小明打开磨坊。" * 30], (0, 0)),  # nor is this, of as many words
    ],
)
def test_a_statement_lacks_a_word_that_another_may_have(texts, values):
    comparison = compare("When does Ada open the mill?", *texts)
    rows = ("lacks_word", "replaces")
    assert tuple(value(row, comparison) > 0 for row in rows) == values


@pytest.mark.parametrize(
    "change", [{"role": "spelled"}, {"turns": ("Who opens the shop?",)}], ids=["spelled", "turns"]
)
def test_what_is_spelled_or_carried_is_not_lacking(change):
    phrasing = replace(Phrasing.of("When does Ada open the mill?"), **change)
    assert value("lacks_word", compare(phrasing, "Ada opens the shop.")) == 0


@pytest.mark.parametrize(("question", "lacks"), ROWS["folders"])
def test_a_hit_is_outside_of_the_folder_that_a_question_says_whole(question, lacks):
    sources = [f"guide/{name}/start.md" for name in ("restic", "borg", "Web clipper")]
    comparison = compare(question, *["It starts."] * 3, sources=sources, logits=[9, 0, 0])
    assert (value("outside", comparison) > 0.1) == lacks
    assert value("unnamed", comparison) == 0


def test_another_hit_may_stand_in_at_the_cost_of_its_similarity():
    texts = ["It opens.", "Borg opens."]
    values = [
        value(
            "unnamed",
            compare("When does Borg open?", *texts, logits=[1, 1 - behind], common=["Borg"]),
        )
        for behind in (0.0, 0.1, 0.2, 9.0)
    ]
    assert values[0] == 0
    assert values[1:3] == pytest.approx([0.1 / weights()["unnamed"], 0.2 / weights()["unnamed"]])
    assert values[3] <= 1


@pytest.mark.parametrize(("question", "text", "has"), ROWS["capitals inside"])
def test_a_small_word_with_a_capital_inside_is_a_name_on_both_sides(question, text, has):
    comparison = compare(question, text)
    assert value("names", comparison) == has
    assert (value("lacks_word", comparison) == 0) == has


@pytest.mark.parametrize("kind", ["unnamed", "outside"])
def test_a_name_that_most_of_a_corpus_lacks_is_little_evidence(kind):
    most, many, few = (log_likelihood_ratio(kind, share) for share in (0.99, 0.6, 0.1))
    assert few < many < most < 0
    assert most > -0.3 or kind == "outside"


@pytest.mark.parametrize(
    ("goal", "lacks"),
    [
        (Goal("How long is the loan of a van?", "How long is the loan of a bus?"), True),
        (Goal("How long is the loan of a bus?", "How long is the loan of a van?"), False),
        (Goal("When is ward 5 open?", "When is ward 3 open?"), True),
        (None, False),
    ],
)
def test_a_first_hit_may_lack_what_a_follow_up_goes_on_to(goal, lacks):
    phrasing = Phrasing("And that?", goal=goal)
    assert value("goal", compare(phrasing, "The loan of a van is 3 weeks.")) == lacks


def test_half_of_the_words_are_asked_for_where_nothing_was_learned():
    texts = "When does Ada open the blue mill?", "Ada sleeps."
    assert [value("half", compare(*texts, is_learned=known)) for known in (True, False)] == [0, 1]


@given(
    st.lists(st.floats(0, 1), min_size=len(AGAINST), max_size=len(AGAINST)),
    st.integers(0, len(AGAINST) - 1),
)
def test_more_of_what_speaks_against_an_answer_makes_it_no_likelier(values, place):
    more = [*values]
    more[place] = 1.0
    (odds, meant), (other, less) = weigh(values), weigh(more)
    assert (odds - other) * AGAINST[place].sign <= 0
    assert less <= meant <= 1


def test_what_says_nothing_changes_nothing():
    assert weigh([0.0] * len(AGAINST)) == (0.0, 1.0)


def explain(values, *parts, rest=0.0, missing=()):
    """The lines of an explanation behind those of nearness, whose log odds are 1 all in all."""
    values = dict.fromkeys(NAMES, 0.0) | values
    parts = [-1.0, 0.0, 0.0, 2.0 - sum(parts), *parts]
    total = 1 + weigh([*values.values()][2 : len(OF_HITS)])[0] + rest
    first, *lines = Explanation(parts, [*values.values()], 1.0, total, missing).lines
    assert first == "usual question: -1.0"
    return lines[3:]


def test_what_makes_a_far_question_less_likely_is_told():
    lines = explain({}, 0.0, 0.0, rest=-0.5)
    assert lines[-1] == "far: no hit has a word of it or is near: -0.5"


def test_each_row_that_says_something_is_told():
    values = {"coverage": 0.5, "unnamed": 1.0, "family": 1.0}
    assert explain(values, 0.2, -2.0, rest=0.7, missing=["Ada", "12"]) == [
        "words: one hit has 50% of the question's: +0.2",
        "names: Ada and 12 are in no hit: -2.0",
        "against it: the first hit lacks a name that the question has: "
        f"-{weights()['unnamed']:.1f}",
        "against it: nothing tells which of several hits alike is meant: times 0.43",
        "near all the same: words say no more against it: +0.7",
    ]
    assert explain({"coverage": np.nan, "names": np.nan}, 0.0, 0.0) == []


def test_rows_and_weights_belong_together():
    assert {row.name for row in AGAINST} <= weights().keys()
    assert len({*NAMES}) == len(NAMES)
