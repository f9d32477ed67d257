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


NAN = float("nan")
ANSWER = {"question": "a", "answer": "b"}


def read_one(path, log):
    """The last run of a log: of lines of JSON, or of a table."""
    if isinstance(log, dict):
        log = json.dumps(log)
    path = path / ("r.csv" if log[0] not in "{[" else "r.json")
    path.write_text(log)
    return read_runs(path)[-1]


@pytest.mark.parametrize(
    ("log", "decision", "confidence", "right"),
    [
        (ANSWER | {"confidence": NAN}, "answer", None, None),
        (ANSWER | {"confidence": float("inf"), "correct": NAN}, "answer", None, None),
        ("question,answer,confidence,correct\na,b,nan,NaN\n", "answer", None, None),
        ("question,answer,confidence,correct\na,b,null,None\n", "answer", None, None),
        ("question,response\na,nan\n", "abstain", None, None),
        ("question,response\na,<NA>\n", "abstain", None, None),
        ({"question": "a", "outputs": {"answer": NAN}}, "abstain", None, None),
        ({"question": "a", "decision": NAN}, "abstain", None, None),
        ({"question": "a", "decision": NAN, "answer": "b"}, "answer", None, None),
        ({"question": "a", "decision": None, "answer": NAN}, "abstain", None, None),
        ({"question": "a", "decision": False}, "abstain", None, None),
        ({"question": "a", "decision": " Abstain "}, "abstain", None, None),
    ],
)
def test_what_is_no_number_and_null_are_the_same(tmp_path, log, decision, confidence, right):
    run = read_one(tmp_path, log)
    assert (run.decision, run.confidence, run.right) == (decision, confidence, right)


@pytest.mark.parametrize("confidence", [NAN, float("inf"), -float("inf"), None, "nan", "N/A"])
def test_a_confidence_that_is_none_takes_no_others_away(tmp_path, confidence):
    rows = [*OURS, OURS[0] | {"confidence": confidence}]
    told, before = (
        measure_runs(read_runs(written(tmp_path / f"{len(some)}.jsonl", some)))
        for some in (rows, OURS)
    )
    assert (told["brier"], told["bins"]) == (before["brier"], before["bins"])


@pytest.mark.parametrize(
    ("field", "right"),
    [
        ({"factual_correctness(mode=f1)": 1.0}, True),
        ({"Factual_Correctness (mode=recall)": 0.3}, False),
        ({"feedback": {"correctness(mode=strict)": {"score": 1}}}, True),
        ({"Correctness [GEval]": 0.9}, True),
    ],
)
def test_a_metric_is_known_without_its_mode(tmp_path, field, right):
    assert read_one(tmp_path, ANSWER | field).right is right


def test_a_field_may_be_named_with_or_without_its_mode(tmp_path):
    field = "noise(mode=relevant)"
    path = written(tmp_path / "r.jsonl", [ANSWER | {field: 0.1, "correct": 1}])
    for name in (field, "noise", "Noise"):
        assert read_runs(path, verdict=name)[0].right is False
        assert read_runs(path, confidence=name)[0].confidence == 0.1


@pytest.mark.parametrize("key", ["correct", "answerable"])
@pytest.mark.parametrize("value", [2, 5, -1, 1.5, "120 %", "3", "-0.5", [4]])
def test_a_verdict_outside_0_to_1_is_an_error_that_says_so(tmp_path, key, value):
    name = {"correct": "verdict"}.get(key, key)
    with pytest.raises(ValueError, match=f"row 1: {name}: expected .* from 0 to 1, got"):
        read_one(tmp_path, ANSWER | {key: value})


RAGAS_OF_PANDAS = """\
user_input,retrieved_contexts,response,reference,faithfulness,factual_correctness(mode=f1)
How long is the warranty?,['...'],Two years.,Two years.,0.9,1.0
Who is the owner?,[],,,,
What is the price?,['x'],80 euros.,,0.5,0.0
"""
DEEPEVAL = {
    "testCases": [
        {"name": "case_0", "input": "How long?", "actualOutput": "Two years.", "success": True,
         "metricsData": [{"name": "Faithfulness", "success": True, "score": 0.9}]},
        {"name": "case_1", "input": "Who?", "actualOutput": "Bob.", "success": False,
         "metricsData": [{"name": "Faithfulness", "error": "No.", "success": False}]},
    ],
    "conversationalTestCases": [], "metricsScores": [], "testPassed": 1, "testFailed": 1,
}  # fmt: skip
DEEPEVAL_IN_PYTHON = {
    "test_results": [
        {"name": "0", "success": True, "metrics_data": [], "input": "How long?", "index": 0,
         "actual_output": "Two years.", "expected_output": None},
        {"name": "1", "success": False, "metrics_data": None, "input": "Who?", "index": 1,
         "actual_output": "Bob."},
    ],
    "confident_link": None,
}  # fmt: skip
LANGFUSE = [
    {"id": "1", "name": "qa", "input": {"question": "How long?"}, "output": {"answer": "2 years"},
     "metadata": {"k": 4}, "latency": 1.5, "comments": [], "correctness": [1]},
    {"id": "2", "name": "qa", "input": [{"role": "user", "name": "Ana", "content": "Who?"}],
     "output": {"role": "assistant", "content": "Bob."}, "correctness": [0, 1, 0]},
]  # fmt: skip
LANGFUSE_TABLE = (
    '"id","name","input","output","comments","correctness"\n'
    '"1","qa","{""question"":""How long?""}","{""answer"":""2 years""}","[]","[1]"\n'
    '"2","qa","Who?","[Bob] is it.","[]","[0.2]"\n'
)


@pytest.mark.parametrize(
    "log",
    [json.dumps(DEEPEVAL), json.dumps(DEEPEVAL_IN_PYTHON), json.dumps(LANGFUSE), LANGFUSE_TABLE],
    ids=["DeepEval", "DeepEval in Python", "Langfuse", "Langfuse as a table"],
)
def test_logs_are_read_as_tools_export_them_today(tmp_path, log):
    read_one(tmp_path, log)
    runs = read_runs(next(tmp_path.iterdir()))
    assert [(run.question, run.decision, run.right) for run in runs] == [
        ("How long?", "answer", True),
        ("Who?", "answer", False),
    ]


def test_a_table_that_ragas_made_by_pandas_is_read(tmp_path):
    (tmp_path / "r.csv").write_text(RAGAS_OF_PANDAS)
    runs = read_runs(tmp_path / "r.csv", confidence="faithfulness")
    assert [(run.decision, run.right, run.confidence) for run in runs] == [
        ("answer", True, 0.9),
        ("abstain", None, None),
        ("answer", False, 0.5),
    ]


def test_a_metric_of_deepeval_is_named_as_it_names_it(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(DEEPEVAL))
    assert [run.confidence for run in read_runs(path, confidence="Faithfulness")] == [0.9, None]


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
        ('{"question": "a", "decision": "escalate"}', "expected one of .*, got 'escalate'"),
        ('{"question": "a", "decision": 0.7}', "decision: expected one of"),
        ('{"question": NaN, "answer": "b"}', "expected a question"),
    ],
)
def test_what_is_wrong_with_a_log_is_said(tmp_path, text, message):
    path = tmp_path / "runs.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_runs(path)
    with pytest.raises(ValueError, match="has a field 'sure'"):
        read_runs(written(path, OURS), confidence="sure")
