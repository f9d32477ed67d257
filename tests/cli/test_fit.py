"""`uec-rag fit`: pairs out of a file."""

import json

import pytest

from uec_rag import UEC
from uec_rag.cli import building
from uec_rag.corpora.tables import read_pairs


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
        ("a.jsonl", '{"query": "q"}', "line 1: expected the columns query and passage"),
        ("a.csv", "query,passage\nq\n", "line 2: expected some text as passage, got None"),
        ("a.jsonl", '{"query": 3, "passage": "p"}', "line 1: expected some text as query, got 3"),
        ("a.csv", "query,passage\nq,p\nq, \n", "line 3: expected some text as passage, got ' '"),
        (
            "a.csv",
            "question,passage\nq,p\n",
            "columns query and passage (the text that answers, not its id), got question, passage",
        ),
        ("a.csv", "", "answers, not its id), got none"),
        ("a.csv", "query,relevant_ids\nq,p\n", "not its id), got query, relevant_ids"),
        ("a.jsonl", '{"query": "q", "relevant_ids": "p"}', "not its id), got query, relevant_ids"),
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


def test_ids_in_the_place_of_texts_teach_nothing_and_nothing_is_saved(run, tmp_path, words):
    rows = (f"{word} number {i},{i * 2654435761 % 2**32:08x}" for i in range(60) for word in "ab")
    path = written(tmp_path, "a.csv", "\n".join(["query,passage", *rows]))
    result = run("fit", path, "--out", tmp_path / "fitted", "--model", words, code=2)
    assert "cannot distinguish these passages from others (slope 0)" in result.stderr
    assert not (tmp_path / "fitted").exists()


@pytest.mark.slow
class TestOfTheEmbeddedModels:
    @pytest.fixture(autouse=True)
    def with_the_models(self, monkeypatch):
        monkeypatch.delenv("UEC_CACHE")  # the models' download

    def test_a_fit_that_held_out_questions_do_not_prefer_is_not_taken(
        self, run, pairs_file, tmp_path, monkeypatch
    ):
        def fit_on_wrong_passages(uec, pairs):
            wrong = [passage for _, passage in pairs[7:] + pairs[:7]]
            uec.fit([(query, passage) for (query, _), passage in zip(pairs, wrong, strict=True)])

        monkeypatch.setattr(building, "fit_ensemble", fit_on_wrong_passages)
        told = run("fit", pairs_file, "--out", tmp_path / "fitted")
        assert "On 20 questions held out, 7 of them without an answer" in told.stderr
        assert told.stderr.count("order (MRR)") == 2
        assert "note: the fit on PAIRS is not better" in told.stderr
        assert UEC.load(tmp_path / "fitted").fingerprint == UEC().fingerprint

    def test_few_questions_are_refused_as_nothing_would_be_left_to_compare_by(self, run, tmp_path):
        path = written(tmp_path, "a.jsonl", json.dumps({"query": "q", "passage": "p"}))
        result = run("fit", path, "--out", tmp_path / "fitted", code=2)
        assert "expected at least 80 different questions, got 1" in result.stderr
