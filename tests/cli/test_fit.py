"""`uec-rag fit`: pairs out of a file."""

import json

import pytest

from uec_rag import UEC
from uec_rag.cli import building


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


def test_a_row_that_is_not_a_pair_or_a_file_that_is_not_there_is_named(run, tmp_path):
    path, out = written(tmp_path, "a.csv", "query,passage\nq,p\nq, \n"), tmp_path / "fitted"
    told = run("fit", path, "--out", out, code=2).stderr
    assert "line 3: expected some text as passage" in told
    assert "no such file" in run("fit", tmp_path / "no.csv", "--out", out, code=2).stderr
    assert not out.exists()


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
