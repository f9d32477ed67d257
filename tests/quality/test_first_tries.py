"""What people type first, over ten small sets of sentences (benchmarks/quality/questions)."""

from collections import Counter

import pytest

from benchmarks.quality import contexts
from benchmarks.quality.first_week import KINDS
from benchmarks.quality.shared import expected_texts, read_tables
from uec_rag import UEC


@pytest.fixture(scope="module")
def uec():
    return UEC()


def counted(rows):
    """How many questions of each kind are right, wrong, answered and asked back."""
    counts = Counter()
    for row, result in contexts.results(rows):
        action = result.decision.action
        counts[row.kind, "right"] += row.is_right(result)
        counts[row.set, "wrong"] += row.is_wrong(result)
        counts[row.set, row.kind, "answered"] += action == "answer"
        counts[row.set, "in vain"] += action == "clarify" != row.wants
    return counts


@pytest.mark.parametrize(
    ("is_fitted", "most_wrong", "most_in_vain"), [(True, 8, 3), (False, 20, 5)]
)
def test_first_tries_are_answered_asked_back_or_refused(uec, is_fitted, most_wrong, most_in_vain):
    counts = counted([*contexts.first_tries(uec if is_fitted else UEC(uec.encoders))])
    assert counts["words", "right"] >= (54 if is_fitted else 50)
    assert counts["ambiguous", "right"] >= (22 if is_fitted else 17)
    assert counts["thanks", "right"] == 20
    assert counts["tries", "wrong"] <= most_wrong
    assert counts["tries", "in vain"] <= most_in_vain


def test_a_second_turn_is_not_answered_from_the_first(uec):
    alone, counts = (counted(list(of(uec))) for of in (contexts.first_tries, contexts.second_turns))
    for reply in ("none", "short", "sentence", "passage"):
        assert counts["second, far", reply, "answered"] == 0
        near = counts["second, near", reply, "answered"]
        assert near <= alone["tries", "near", "answered"] + 1
    assert counts["follow-up", "right"] >= 33


FAR = ["how far is the moon", "who wrote war and peace", "why is the sky blue", "define entropy"]
FAR += ["what year did the titanic sink", "how do vaccines work", "how do i tie a tie"]


def test_what_no_hit_has_a_word_of_and_none_is_near_to_is_refused(uec):
    indexes = {row.corpus: row.index for row in contexts.first_tries(uec)}
    found = [result for index in indexes.values() for result in index.search(FAR)]
    codes = Counter(result.decision.code for result in found)
    assert codes["no_answer"] + codes["off_topic"] > 0.8 * len(found)
    others = [row for row in contexts.first_tries(uec) if row.kind == "others"]
    handed = [result.decision for row, result in contexts.results(others) if row.has_hits(result)]
    assert sum(decision.code in ("no_answer", "off_topic") for decision in handed) <= 2


def test_short_questions_are_asked_of_the_clones_that_are_there(uec, tmp_path):
    rows = [row for row in read_tables("short") if row["documents"] == "flask"]
    texts = [text for row in rows for text in expected_texts(row)[:1]]
    (tmp_path / "flask/docs").mkdir(parents=True)
    (tmp_path / "flask/docs/api.rst").write_text("\n\n".join(texts), encoding="utf-8")
    (tmp_path / "flask/docs/changes.rst").write_text("Read by nobody.", encoding="utf-8")
    asked = [*contexts.short(uec, tmp_path)]
    assert [(row.question, row.wants) for row in asked] == [
        (row["question"], KINDS[row["kind"]]) for row in rows
    ]
    assert {one.metadata["source"] for one in asked[0].index.passages()} == {"docs/api.rst"}
    assert all(any(row.right[0]) == (row.wants == "answer") for row in asked)


def test_two_facts_of_one_name_steps_and_rows_of_values(uec):
    counts = counted([*contexts.first_tries(uec, "small_facts")])
    assert counts["namesakes", "near", "answered"] == counts["order", "near", "answered"] == 0
    assert counts["ambiguous", "right"] >= 40
    assert counts["words", "right"] >= 80
    assert counts["several", "right"] >= 11


def test_a_chosen_reading_that_has_what_was_asked_is_answered(uec):
    rows = [*contexts.first_tries(uec), *contexts.first_tries(uec, "small_facts")]
    count = 0
    for row in (row for row in rows if row.wants == "clarify"):
        [decision] = row.index.search([row.question]).decisions
        history = [row.question, decision.clarifying_question]
        for reading in decision.readings if decision.action == "clarify" else ():
            if {*reading.ids}.isdisjoint(*row.right):
                continue
            [result] = row.index.search([reading.title], history=[history])
            assert (result.decision.action, result.ids[0] in reading.ids) == ("answer", True)
            count += 1
    assert count > 60
