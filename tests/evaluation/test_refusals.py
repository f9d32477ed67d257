"""What was refused, by the words and sections that the documents lack."""

import json
import logging

import pytest

from tests.helpers import data_of, index_of
from uec_rag import UEC
from uec_rag.evaluation.evaluate import read_runs
from uec_rag.evaluation.refusals import group_refusals
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
