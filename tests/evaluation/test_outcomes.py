"""What an answer in a log does, by what it says."""

import json
from dataclasses import replace

import pytest

from tests.helpers import data_of
from uec_rag.confidence.decision import Evidence, decide
from uec_rag.evaluation.evaluate import read_runs
from uec_rag.evaluation.outcomes import outcome_of
from uec_rag.questions.languages import languages
from uec_rag.questions.replies import Reading

OUTCOMES = [
    (row, kind) for kind, rows in data_of("outcomes_of_answers.json").items() for row in rows
]


@pytest.mark.parametrize(("answer", "outcome"), OUTCOMES)
def test_an_answer_that_refuses_or_asks_back_counts_as_that(answer, outcome):
    assert outcome_of(answer) == outcome


READINGS = tuple(Reading(title, (title,), 0.45) for title in ("the laptop", "the camera"))
LONG = tuple(Reading(f"How a card is replaced {place}" * 4, (place,), 0.4) for place in "ab")


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(confidence=0.2, in_corpus=0.4, closest=READINGS, searched_as="loan"),
        Evidence(confidence=0.2, in_corpus=0.4, lacking=("Hamlet",), unfamiliar="it is in Greek"),
        Evidence(confidence=0.2, underspecified=0.96, readings=READINGS[:1]),
        Evidence(in_corpus=0.05),
        Evidence(in_corpus=0.0),
        Evidence(code="nothing_found"),
        Evidence(code="no_question"),
        Evidence(underspecified=0.9),
        Evidence(underspecified=0.9, readings=READINGS),
        Evidence(underspecified=0.9, readings=LONG),
    ],
)
def test_what_a_chain_says_by_default_counts_as_what_was_decided(evidence, language):
    decision = decide(replace(evidence, language=language))
    assert decision.action != "answer"
    assert outcome_of(decision.clarifying_question or decision.reason) == decision.action


def test_an_answer_counts_as_it_says_only_where_the_log_has_no_decision(tmp_path):
    rows = [{"question": "Who?", "answer": "I don't know."}]
    rows += [rows[0] | {"decision": "answer"}]
    (tmp_path / "runs.json").write_text(json.dumps(rows))
    assert [run.decision for run in read_runs(tmp_path / "runs.json")] == ["abstain", "answer"]
