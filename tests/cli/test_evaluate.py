"""`uec-rag evaluate`: measures of an index, printed and as JSON."""

import logging
from contextlib import contextmanager

import pytest

from uec_rag import Gate, Retriever


@contextmanager
def decisions_in(path):
    """Have decisions logged to a file."""
    log, handler = logging.getLogger("uec_rag.decisions"), logging.FileHandler(path)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(logging.NOTSET)
        log.removeHandler(handler)
        handler.close()


def test_the_command_prints_and_refuses(run, index, tmp_path):
    table = tmp_path / "questions.csv"
    table.write_text("query,relevant_ids\nyeast and flour,bread.md\nthe anchor,boats.md\nwho?,\n")
    shown = run("evaluate", index, table, "-k", "3").stdout
    assert "3 questions, 2 with an answer" in shown
    assert "nDCG@3" in shown
    told = run("evaluate", index, table, json_output=True)
    assert told["facts"]["questions"] == 3
    assert "no such file" in run("evaluate", index, tmp_path / "none.csv", code=2).stderr
    table.write_text("query,relevant_ids\nyeast,nowhere.md\n")
    assert "not in the index" in run("evaluate", index, table, code=2).stderr


def test_advisors_are_compared_by_their_logs(run, index, tmp_path):
    table, asked = tmp_path / "questions.csv", ["yeast and flour", "the anchor", "who?", "why?"]
    table.write_text(
        "query,relevant_ids\n" + "yeast and flour,bread.md\nthe anchor,boats.md\n" + "who?,\n"
    )
    logs = []
    for name, share in {"knows": 0.99, "guesses": 0.5}.items():
        logs += ["--log", tmp_path / f"{name}.jsonl"]
        gate = Gate(
            advisor=lambda question, texts, share=share: 1 - share if "?" in question else share,
            doubt=(0.0, 1.0),
        )
        with decisions_in(logs[-1]):
            for _ in range(2):
                gate.search(Retriever.load(index, fit=False), asked)
    told = run("evaluate", index, table, *logs, json_output=True)["advisors"]
    assert [*told] == ["knows.jsonl", "guesses.jsonl"]
    known = told["knows.jsonl"]
    assert (known["calls"], known["answerable"] > 0, known["after"]) == (1.0, True, 1.0)
    shown = run("evaluate", index, table, *logs).stdout
    assert "knows.jsonl" in shown
    assert "after" in shown
    (tmp_path / "empty.jsonl").touch()
    assert (
        "has no line of an advisor"
        in run("evaluate", index, table, "--log", tmp_path / "empty.jsonl", code=2).stderr
    )
    gate_told = run("gate", index, table, "--max-wrong", "0.6", "--force", *logs, json_output=True)
    assert gate_told["advisors"]["guesses.jsonl"]["after"] == pytest.approx(
        told["guesses.jsonl"]["after"]
    )


def test_decisions_of_any_log_are_measured_without_an_index(run, tmp_path):
    log = tmp_path / "runs.jsonl"
    log.write_text(
        '{"question": "a", "decision": "answer", "confidence": 0.9, "correct": true}\n'
        '{"question": "b", "decision": "answer", "confidence": 0.4, "correct": false}\n'
        '{"question": "c", "decision": "abstain", "correct": false}\n'
    )
    shown = run("evaluate", "--log", log).stdout
    assert "runs.jsonl: 3 questions" in shown
    assert "answerable questions" in shown
    assert "(AURC): 0.250" in shown
    told = run("evaluate", "--log", log, json_output=True)
    assert told["runs.jsonl"]["shares"]["wrong"]["share"] == 0.5
    assert "--log" in run("evaluate", code=2).stderr
    assert "--log" in run("evaluate", tmp_path, "--log", log, code=2).stderr
    assert "No such file" in run("evaluate", "--log", tmp_path / "none", code=2).stderr


def test_an_index_alone_is_asked_questions_made_of_its_passages(run, index):
    shown = " ".join(run("evaluate", index, "--max-wrong", "0.2", "--most", "20").stdout.split())
    for told in ("20 questions made of 40 passages", "bees.md", "left out"):
        assert told in shown
    assert "Answered though nothing answers:" in shown
    assert "At most 20.0% of what nothing answers" in shown
    told = run("evaluate", index, "--most", "20", json_output=True)
    assert told["facts"]["questions"] == 20
    assert sorted(told["files"]) == ["bees.md", "boats.md", "bread.md", "glass.md"]
    assert told["threshold"]["max_wrong"] == 0.1
    few = run("evaluate", index, "--max-wrong", "0.001", "--most", "3").stdout
    assert "takes 999 questions or more" in few
    assert "max_wrong" in run("evaluate", index, "--max-wrong", "2", code=2).stderr


def test_what_a_log_refuses_is_grouped(run, tmp_path):
    log = tmp_path / "runs.jsonl"
    log.write_text(
        '{"question": "Is there a pool?", "decision": "abstain", "lacking": ["pool"]}\n'
        '{"question": "When is the pool open?", "decision": "abstain", "lacking": ["Pool"]}\n'
        '{"question": "How much?", "decision": "abstain", "closest": ["Fees"]}\n'
    )
    shown = run("evaluate", "--log", log).stdout
    assert "of 3 questions without an answer" in shown
    assert "  2  pool, as in: Is there a pool?" in shown
    assert "  1  Fees, as in: How much?" in shown
    told = run("evaluate", "--log", log, json_output=True)["runs.jsonl"]["refusals"]
    assert (told["refused"], told["words"][0]["count"], told["other"]) == (3, 2, 0)
