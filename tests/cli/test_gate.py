"""`uec-rag gate` and `ask --gate`: a threshold from labelled questions, kept in a file."""

import json

import pytest

from tests.cli.conftest import TOPICS
from uec_rag.retrieval.gate import Gate


@pytest.fixture
def index(run, documents, words, tmp_path):
    path = tmp_path / "idx"
    run("index", documents, "--out", path, "--model", words)
    return path


@pytest.fixture
def questions(tmp_path):
    """Questions on every two words, answered by the file of their topic, and two unanswered."""
    path = tmp_path / "questions.csv"
    rows = [
        f"{start} {word} {other}?,{topic}.md"
        for topic, inner in TOPICS.items()
        for word in inner
        for other in inner
        for start in ("what of", "where is")
        if word != other
    ]
    path.write_text("\n".join(["query,passage", *rows, "who wrote hamlet?,", "why?,"]))
    return path


def test_a_gate_is_made_shown_and_asked(run, index, questions, tmp_path):
    to = tmp_path / "gate.json"
    shown = run("gate", index, questions, "--out", to, "--risk", "0.2", "-k", "3")
    gate = Gate.load(to)
    assert gate.report in shown.stdout
    assert (gate.k, gate.threshold.risk, gate.threshold.queries) == (3, 0.2, 162)
    assert gate.threshold.is_controlled
    asked = run("ask", index, "honey in the hive", "--gate", to, "--json", json_output=True)
    assert f"{gate.threshold.threshold:.2f}" in asked["reason"]
    assert "the gate was made" not in run("ask", index, "honey", "--gate", to).stderr


def test_without_labels_it_is_a_budget(run, index, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps({"query": f"honey {n}"}) for n in range(20)))
    to = tmp_path / "gate.json"
    options = ("--out", to, "--abstain", "0.25", "--json")
    told = run("gate", index, path, *options, json_output=True)
    assert told["abstain"] == 0.25
    assert told["path"] == str(to)
    assert Gate.load(to).threshold.queries == 20


@pytest.mark.parametrize("told", ["--risk", "--certainty"])
def test_a_budget_and_a_promise_are_not_made_at_once(run, questions, tmp_path, told):
    options = ("--out", tmp_path / "gate.json", "--abstain", "0.25", told, "0.1")
    refused = run("gate", tmp_path / "no index", questions, *options, code=2)
    assert f"--abstain and {told}: expected one of them, got both" in " ".join(
        refused.stderr.split()
    )


def test_a_gate_of_another_index_is_noted(run, index, questions, few_documents, words, tmp_path):
    to, other = tmp_path / "gate.json", tmp_path / "other"
    run("gate", index, questions, "--out", to, "--risk", "0.2")
    run("index", few_documents, "--out", other, "--model", words)
    assert (
        "note: the gate was made with another index"
        in run("ask", other, "the oven", "--gate", to).stderr
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            "query,passage\nwhat?,nothing.md\n",
            "1 passages are not in the index, first 'nothing.md'",
        ),
        ("query,passage\n ,bees.md\n", "line 2: expected some text as query, got ' '"),
        ("query\nwhat?\n", "expected a first line with the columns query and passage"),
        ("query,passage\nwhat?,\n", "no query has a relevant passage"),
    ],
)
def test_bad_questions_are_named(run, index, tmp_path, rows, message):
    path = tmp_path / "questions.csv"
    path.write_text(rows)
    result = run("gate", index, path, "--out", tmp_path / "gate.json", code=2)
    assert message in result.stderr
    assert not (tmp_path / "gate.json").exists()


def test_where_the_gate_goes_is_checked_before_any_work(run, questions, tmp_path):
    for to in (tmp_path, tmp_path / "no" / "gate.json"):
        result = run("gate", tmp_path / "no index", questions, "--out", to, code=2)
        assert "--out: expected a file in a folder that is there" in result.stderr


def test_a_gate_that_is_none_or_for_more_passages_is_refused(run, index, questions, tmp_path):
    assert "there is no gate" in run("ask", index, "x", "--gate", tmp_path / "no", code=2).stderr
    (tmp_path / "gate.json").write_text('{"k": 4}')
    bad = run("ask", index, "x", "--gate", tmp_path / "gate.json", code=2)
    assert "Gate: no saved one looks like" in bad.stderr
    run("gate", index, questions, "--out", tmp_path / "gate.json", "-k", "9")
    few = run("ask", index, "x", "--gate", tmp_path / "gate.json", code=2)
    assert "-k: expected at least 9" in few.stderr
