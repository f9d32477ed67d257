"""The decisions of any pipeline, read from its log and measured."""

import csv
import json

import pytest

from uec_rag.evaluation.runs import draw_curve, measure_runs, read_runs

OURS = [
    {"question": "a", "decision": "answer", "confidence": 0.9, "correct": True},
    {"question": "b", "decision": "answer", "confidence": 0.8, "correct": True},
    {"question": "c", "decision": "answer", "confidence": 0.6, "correct": False},
    {"question": "d", "decision": "clarify", "confidence": 0.5, "correct": True},
    {"question": "e", "decision": "abstain", "confidence": 0.1, "correct": True},
    {"question": "f", "decision": "uncertain", "confidence": 0.3, "correct": False},
]
RAGAS = [
    {"user_input": "a", "response": "Two years.", "faithfulness": 0.9, "answer_correctness": 0.8},
    {
        "user_input": "b",
        "response": "Empty Response",
        "faithfulness": "",
        "answer_correctness": 0.0,
    },
    {"user_input": "c", "response": "", "faithfulness": "", "answer_correctness": ""},
]
LANGSMITH = [
    {
        "inputs": {"question": "a"},
        "outputs": {"answer": "Two years.", "confidence": 0.7},
        "feedback": {"correctness": 1},
    },
    {
        "inputs": {"question": "b"},
        "outputs": {"answer": "I don't know."},
        "feedback": {"correctness": 0},
    },
]


def written(path, rows):
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_shares_are_of_what_they_are_about(tmp_path):
    told = measure_runs(read_runs(written(tmp_path / "runs.jsonl", OURS)))
    shares = {key: (round(one["share"], 3), one["of"]) for key, one in told["shares"].items()}
    assert shares == {
        "answered": (0.5, 6),
        "asked_back": (round(1 / 6, 3), 6),
        "wrong": (round(1 / 3, 3), 3),
        "over_refused": (round(1 / 3, 3), 3),  # f, of a, b and f
    }
    assert all(one["low"] <= one["share"] <= one["high"] for one in told["shares"].values())


def test_the_curve_answers_the_surest_first(tmp_path):
    told = measure_runs(read_runs(written(tmp_path / "runs.jsonl", OURS)))
    assert told["curve"] == [(1 / 6, 0.0), (2 / 6, 0.0), (3 / 6, 1 / 3)]
    assert told["aurc"] == pytest.approx(1 / 9)
    assert told["brier"] == pytest.approx((0.1**2 + 0.2**2 + 0.6**2) / 3)
    assert sum(one["count"] for one in told["bins"]) == 3
    assert "polyline" in draw_curve(told["curve"])


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl"])
def test_exports_of_ragas_are_read_in_every_form(tmp_path, suffix):
    path = written(tmp_path / f"ragas.{suffix}", RAGAS)
    runs = read_runs(path, confidence="faithfulness")
    assert [run.decision for run in runs] == ["answer", "abstain", "abstain"]
    assert [run.right for run in runs] == [True, False, None]
    assert [run.confidence for run in runs] == [0.9, None, None]
    assert [run.answerable for run in runs] == [True, True, None]


def test_nested_fields_of_langsmith_are_read(tmp_path):
    runs = read_runs(written(tmp_path / "langsmith.jsonl", LANGSMITH))
    assert [(run.question, run.decision, run.right) for run in runs] == [
        ("a", "answer", True),
        ("b", "abstain", False),
    ]
    assert runs[0].confidence == 0.7


CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"}]
RIGHT = {"question": "a", "answer": "b", "correct": True}


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("r.csv", "Question;Answer;Correct;Confidence\na;b;y;0,87\n"),
        ("r.tsv", "question\tanswer\tcorrect\tconfidence\na\tb\tpassed\t87 %\n"),
        ("r.csv", "question,answer,correct\na,b,true\n".encode("utf-16")),
        ("r.json", json.dumps({"data": [RIGHT]}, indent=2)),
        ("r.json", json.dumps(RIGHT | {"confidence": 0.87}, indent=2)),
        ("r.jsonl", json.dumps({"input": {"question": "a"}, "output": {"answer": "b"}})[:-1]
         + ', "scores": {"correctness": 1}}'),
        ("r.jsonl", json.dumps({"inputs": {"messages": CHAT}, "outputs": {"answer": "b"},
                                "feedback": {"correctness": {"score": 1, "comment": "ok"}}})),
        ("r.jsonl", json.dumps({"inputs": {"question": "a"}, "outputs": {"output": "b"},
                                "feedback_stats": {"correctness": {"n": 1, "avg": 1.0}}})),
        ("r.json", json.dumps([{"input": "a", "actual_output": "b", "success": True}])),
    ],
)  # fmt: skip
def test_exports_of_other_tools_are_read_as_they_come(tmp_path, name, log):
    path = tmp_path / name
    path.write_bytes(log if isinstance(log, bytes) else log.encode())
    [run] = read_runs(path)
    assert (run.question, run.decision, run.right) == ("a", "answer", True)
    assert run.confidence in (None, 0.87)


def test_scores_that_are_no_probabilities_are_not_calibrated(tmp_path):
    rows = [row | {"confidence": 10 * row["confidence"]} for row in OURS]
    told = measure_runs(read_runs(written(tmp_path / "runs.jsonl", rows)))
    assert (told["brier"], told["bins"]) == (None, [])
    assert len(told["curve"]) == 3


def test_a_log_without_verdicts_tells_what_it_can(tmp_path):
    rows = [{"question": row["question"], "decision": row["decision"]} for row in OURS]
    told = measure_runs(read_runs(written(tmp_path / "runs.jsonl", rows)))
    assert told["shares"]["answered"]["share"] == 0.5
    assert (told["shares"]["wrong"], told["aurc"], told["curve"]) == (None, None, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected at least one row"),
        ("no json", "expected lines of JSON"),
        ('{"text": "a"}', "row 1: expected a question, and a decision or an answer"),
        ('{"question": "a"}', "got the fields 'question'"),
        (
            '{"question": "a", "decision": "answer", "confidence": "high"}',
            "expected a number, got 'high'",
        ),
        ('{"question": "a", "decision": "answer", "correct": "perhaps"}', "expected a Boolean"),
    ],
)
def test_what_is_wrong_with_a_log_is_said(tmp_path, text, message):
    path = tmp_path / "runs.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_runs(path)
    with pytest.raises(ValueError, match="has a field 'sure'"):
        read_runs(written(path, OURS), confidence="sure")
