"""The decisions of any pipeline, read from its log and measured."""

import csv
import json

import pytest

from tests.helpers import data_of
from uec_rag.evaluation.evaluate import Run, measure_runs, read_runs

LOGS = data_of("logs.json")
OURS, ANSWER = LOGS["ours"], {"question": "a", "answer": "b"}


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


@pytest.mark.parametrize("order", ["111111000000", "000000111111", "101010101010"])
def test_equal_confidences_are_one_step_whatever_their_order(order):
    runs = [Run("a", "answer", 0.5, sign == "1", True) for sign in order]
    told = measure_runs(runs)
    assert (told["aurc"], told["curve"]) == (0.5, [(1.0, 0.5)])
    assert [(one["count"], one["right"]) for one in told["bins"]] == [(12, 0.5)]


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl"])
def test_exports_of_ragas_are_read_in_every_form(tmp_path, suffix):
    path = written(tmp_path / f"ragas.{suffix}", LOGS["ragas"])
    runs = read_runs(path, confidence="faithfulness")
    assert [run.decision for run in runs] == ["answer", "abstain", "abstain"]
    assert [run.right for run in runs] == [True, False, None]
    assert [run.confidence for run in runs] == [0.9, None, None]
    assert [run.answerable for run in runs] == [True, True, None]


def test_nested_fields_of_langsmith_are_read(tmp_path):
    runs = read_runs(written(tmp_path / "langsmith.jsonl", LOGS["langsmith"]))
    assert [(run.question, run.decision, run.right) for run in runs] == [
        ("a", "answer", True),
        ("b", "abstain", False),
    ]
    assert runs[0].confidence == 0.7


@pytest.mark.parametrize(
    ("name", "log"),
    [*LOGS["alike"], ("r.csv", "question,answer,correct\na,b,true\n".encode("utf-16"))],
)
def test_exports_of_other_tools_are_read_as_they_come(tmp_path, name, log):
    path, log = tmp_path / name, log if isinstance(log, str | bytes) else json.dumps(log)
    path.write_bytes(log if isinstance(log, bytes) else log.encode())
    [run] = read_runs(path)
    assert (run.question, run.decision, run.right) == ("a", "answer", True)
    assert run.confidence in (None, 0.87)


def read_one(path, log):
    """The last run of a log: of lines of JSON, or of a table."""
    log = log if isinstance(log, str) else json.dumps(log)
    path = path / ("r.csv" if log[0] not in "{[" else "r.json")
    path.write_text(log)
    return read_runs(path)[-1]


@pytest.mark.parametrize(("log", "decision"), LOGS["nulls"])
def test_what_is_no_number_and_null_are_the_same(tmp_path, log, decision):
    run = read_one(tmp_path, log)
    assert (run.decision, run.confidence, run.right) == (decision, None, None)


@pytest.mark.parametrize("confidence", [*map(float, ("nan", "inf", "-inf")), None, "nan", "N/A"])
def test_a_confidence_that_is_none_takes_no_others_away(tmp_path, confidence):
    rows = [*OURS, OURS[0] | {"confidence": confidence}]
    told, before = (
        measure_runs(read_runs(written(tmp_path / f"{len(some)}.jsonl", some)))
        for some in (rows, OURS)
    )
    assert (told["brier"], told["bins"]) == (before["brier"], before["bins"])


@pytest.mark.parametrize(("field", "right"), LOGS["metrics"])
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


@pytest.mark.parametrize("log", LOGS["tools"].values(), ids=LOGS["tools"])
def test_logs_are_read_as_tools_export_them_today(tmp_path, log):
    read_one(tmp_path, log)
    runs = read_runs(next(tmp_path.iterdir()))
    assert [(run.question, run.decision, run.right) for run in runs] == [
        ("How long?", "answer", True),
        ("Who?", "answer", False),
    ]


def test_a_table_that_ragas_made_by_pandas_is_read(tmp_path):
    (tmp_path / "r.csv").write_text(LOGS["ragas of pandas"])
    runs = read_runs(tmp_path / "r.csv", confidence="faithfulness")
    assert [(run.decision, run.right, run.confidence) for run in runs] == [
        ("answer", True, 0.9),
        ("abstain", None, None),
        ("answer", False, 0.5),
    ]


def test_a_metric_of_deepeval_is_named_as_it_names_it(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(LOGS["tools"]["DeepEval"]))
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


@pytest.mark.parametrize(("text", "message"), LOGS["wrong"])
def test_what_is_wrong_with_a_log_is_said(tmp_path, text, message):
    path = tmp_path / "runs.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_runs(path)
    with pytest.raises(ValueError, match="has a field 'sure'"):
        read_runs(written(path, OURS), confidence="sure")


@pytest.mark.parametrize("failed", data_of("runs.json"))
def test_runs_that_failed_are_counted_and_left_out(tmp_path, failed):
    rows = [ANSWER, ANSWER | {"question": "d", "error": ""}, failed, failed]
    told = measure_runs(read_runs(written(tmp_path / "runs.jsonl", rows)))
    assert (told["questions"], told["failed"], told["shares"]["answered"]["share"]) == (2, 2, 1)


@pytest.mark.parametrize(
    "verdicts",
    [
        {"scores": [{"name": "toxicity", "value": 0}, {"name": "correctness", "value": 1}]},
        {"scores": [{"name": "correctness", "stringValue": "correct", "dataType": "CATEGORICAL"}]},
        {"evaluation_results": {"results": [{"key": "correctness", "score": 1, "value": None}]}},
        {
            "evaluation_results": {
                "results": [{"key": "correctness", "score": s} for s in (1, 1, 0)]
            }
        },
        {"evaluations": [{"metric": "answer_correctness", "score": 0.9}]},
    ],
)
def test_lists_of_scores_are_verdicts(tmp_path, verdicts):
    [run] = read_runs(written(tmp_path / "runs.jsonl", [ANSWER | verdicts]))
    assert run.right is True


def test_a_question_that_is_repeated_counts_once_in_an_interval(tmp_path):
    rows = [ANSWER | {"question": name, "correct": name != "c"} for name in "abc"]
    once, ten = (
        measure_runs(read_runs(written(tmp_path / "runs.jsonl", rows * times))) for times in (1, 10)
    )
    assert (ten["questions"], ten["different"]) == (30, 3)
    assert ten["shares"]["wrong"] == pytest.approx(once["shares"]["wrong"] | {"of": 30})
