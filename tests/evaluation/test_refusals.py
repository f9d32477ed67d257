"""What was refused, by the words and sections that the documents lack."""

import json
import logging
from dataclasses import replace

import pytest

from tests.helpers import data_of, index_of
from uec_rag import UEC
from uec_rag.confidence.decision import Evidence, decide
from uec_rag.evaluation.evaluate import read_runs
from uec_rag.evaluation.refusals import group_refusals, outcome_of
from uec_rag.questions.languages import languages
from uec_rag.questions.replies import Reading
from uec_rag.retrieval.search import LOG


def read(tmp_path, rows, name="runs.jsonl"):
    path = tmp_path / name
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return group_refusals(read_runs(path))


def test_what_was_refused_is_grouped_by_words_and_sections(tmp_path):
    rows = [
        {"question": "Is Ward 9 open?", "decision": "abstain", "lacking": ["Ward 9"]},
        {"question": "Who is on ward 9?", "decision": "abstain", "lacking": ["ward 9", "who"]},
        {"question": "What of it?", "decision": "abstain", "closest": ["Fees", "Loans"]},
        {"question": "And then?", "decision": "abstain"},
        {"question": "Is Ward 1 open?", "decision": "answer", "lacking": ["Ward 9"]},
        {"question": "Thanks!", "decision": "abstain", "reason_code": "no_question"},
    ]
    told = read(tmp_path, rows)
    assert (told["refused"], told["other"]) == (4, 1)
    words = [(group["word"], group["count"]) for group in told["words"]]
    assert words == [("Ward 9", 2), ("who", 1)]
    assert told["words"][0]["questions"] == ["Is Ward 9 open?", "Who is on ward 9?"]
    assert [(group["section"], group["count"]) for group in told["sections"]] == [("Fees", 1)]


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


@pytest.mark.parametrize("fields", data_of("refusals.json"))
def test_the_fields_of_logs_and_of_metadata_are_read(tmp_path, fields):
    told = read(tmp_path, [{"question": "Is there a pool?", "decision": "abstain"} | fields])
    assert [group["word"] for group in told["words"]] == ["pool"]
    assert [group["section"] for group in told["sections"]] == ["Fees"]


def test_the_log_of_decisions_has_what_is_lacking(tmp_path, caplog):
    texts = ["Cats purr when they are content.", "Dogs bark at strangers they see."]
    index = index_of(UEC(["bm25"]), texts, metadatas=[{"title": "Cats"}, {"title": "Dogs"}])
    level = LOG.level
    LOG.setLevel(logging.INFO)
    try:
        with caplog.at_level(logging.INFO, logger=LOG.name):
            index.search(["Who is Garfield?", "Why do cats purr?"])
    finally:
        LOG.setLevel(level)
    lines = [json.loads(record.message) for record in caplog.records if record.name == LOG.name]
    assert all({"lacking", "closest"} <= {*line} for line in lines)
    told = read(tmp_path, lines)
    assert [group["word"] for group in told["words"]] == ["Garfield"]


def test_a_log_without_these_fields_has_no_groups(tmp_path):
    told = read(tmp_path, [{"question": "Who?", "decision": "abstain"}])
    assert told == {"refused": 1, "words": [], "sections": [], "other": 1}
