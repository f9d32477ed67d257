"""`uec-rag fit`: pairs out of a file."""

import json
import sys

import pytest

from uec_rag import UEC
from uec_rag.cli.fit import read_pairs


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_fitted_ensemble_is_saved_and_reported(run, pairs_file, words, tmp_path):
    out = tmp_path / "fitted"
    report = run("fit", pairs_file, "--out", out, "--model", words, "--json", json_output=True)
    assert report["pairs"] == 80
    assert list(report["report"]["encoders"]) == [words.name]
    assert UEC.load(out).is_fitted


def test_the_report_is_printed_as_a_table(run, pairs_file, words, tmp_path):
    shown = run("fit", pairs_file, "--out", tmp_path / "fitted", "--model", words)
    assert words.name in shown.stdout
    assert "slope" in shown.stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"query": "q", "passage": "p, p"}\n\n{"query":"q2","passage":"x","label":0}'),
        ("a.csv", 'query,passage,label\nq,"p, p",\nq2,x,0\n'),
        ("a.tsv", "passage\tlabel\tquery\np, p\t\tq\nx\t0\tq2\n"),
        ("a.CSV", '\ufeffquery,passage,label\r\nq,"p, p",\r\nq2,x,False\r\n'),
    ],
)
def test_the_formats_say_the_same(tmp_path, name, text):
    assert read_pairs(written(tmp_path, name, text)) == [("q", "p, p"), ("q2", "x", 0)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"query": "q", "passage": "p"}\n{"query"', "line 2: not JSON"),
        ("a.jsonl", '["q", "p"]', 'line 1: expected {"query"'),
        ("a.jsonl", '{"query": "q"}', "line 1: expected some text as passage, got None"),
        ("a.jsonl", '{"query": 3, "passage": "p"}', "line 1: expected some text as query, got 3"),
        ("a.csv", "query,passage\nq,p\nq, \n", "line 3: expected some text as passage, got ' '"),
        ("a.csv", "question,passage\nq,p\n", "columns query and passage, got"),
        ("a.csv", "", "an empty file"),
        ("a.csv", "query,passage,label\nq,p,5\n", "expected 0 or 1 as label, got '5'"),
        ("a.parquet", "", "expected a .jsonl, .csv, .tsv file"),
    ],
)
def test_a_row_that_is_not_a_pair_is_named(run, tmp_path, name, text, message):
    path = written(tmp_path, name, text)
    result = run("fit", path, "--out", tmp_path / "fitted", code=2)
    assert message in result.stderr
    assert not (tmp_path / "fitted").exists()


def test_a_text_may_be_of_any_length(tmp_path):
    path = written(tmp_path, "a.csv", f"query,passage\nq,{'p' * 200_000}\n")
    assert read_pairs(path) == [("q", "p" * 200_000)]


def test_a_missing_file_is_refused(run, tmp_path):
    result = run("fit", tmp_path / "no.csv", "--out", tmp_path / "fitted", code=2)
    assert "no such file" in result.stderr


def test_too_few_pairs_are_refused(run, tmp_path, words):
    path = written(tmp_path, "a.jsonl", json.dumps({"query": "q", "passage": "p"}))
    result = run("fit", path, "--out", tmp_path / "fitted", "--model", words, code=2)
    assert "32" in result.stderr.splitlines()[-1]


def test_laplace_is_asked_for_before_anything_is_encoded(
    run, pairs_file, words, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "laplace", None)
    result = run("fit", pairs_file, "--out", tmp_path / "fitted", "--model", words, code=2)
    assert 'pip install "uec-rag[fit]"' in result.stderr
    assert "Fitting the ensemble" not in result.stderr
