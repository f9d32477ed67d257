"""`uec-rag index` and `uec-rag ask`: from a folder of files to an answer."""

import json
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tests.stores.postgres_server import new_place
from uec_rag.cli import app


@pytest.fixture
def index(run, documents, words, other_words, tmp_path):
    path = tmp_path / "idx"
    run("index", documents, "--out", path, "--model", words, "--model", other_words)
    return path


def test_a_folder_is_indexed_and_asked(run, index):
    answer = run("ask", index, "honey in the hive", "-k", "3", "--json", json_output=True)
    assert [passage["metadata"]["source"] for passage in answer["passages"]] == ["bees.md"] * 3
    scores = [passage["s_hat"] for passage in answer["passages"]]
    assert scores == sorted(scores, reverse=True)
    assert all(passage["sigma2"] >= 0 for passage in answer["passages"])
    assert answer["decision"] in ("answer", "clarify", "abstain")
    assert len(answer["coefficients"]) == 2
    assert sum(answer["coefficients"].values()) == pytest.approx(1, abs=1e-5)


def test_the_answer_is_printed_within_80_columns(run, index):
    shown = run("ask", index, "honey in the hive")
    assert "bees.md" in shown.stdout
    assert "=> " in shown.stdout
    for column in ("s_hat", "sigma_s^2", "relevant", "weights"):
        assert column in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_status_lines_are_on_stderr_and_come_first(run, index):
    result = run("ask", index, "honey")
    assert result.stderr.startswith("Opening")
    assert "Opening" not in result.stdout


def test_an_index_that_is_there_is_replaced(run, index, few_documents, words):
    report = run(
        "index", few_documents, "--out", index, "--model", words, "--json", json_output=True
    )
    assert report["passages"] == 2
    assert run("ask", index, "anchor", "--json", json_output=True)["passages"][0]["id"] == (
        "boats.txt#0"
    )


def test_passages_may_lie_in_a_store_that_is_empty_and_is_looked_at_before_any_work(
    run, few_documents, words, tmp_path
):
    given = ("index", few_documents, "--model", words, "--store", new_place(), "--out")
    run(*given, tmp_path / "idx")
    assert run("ask", tmp_path / "idx", "anchor", "--json", json_output=True)["passages"]
    again = run(*given, tmp_path / "other", code=2)
    assert "--store holds 2 passages already" in " ".join(again.stderr.split())
    assert "Reading" not in again.stderr
    elsewhere = ("--store", "s3://a/b", "--out", tmp_path / "other")
    assert "Reading" not in run("index", few_documents, *elsewhere, code=2).stderr


def test_too_few_pairs_leave_the_ensemble_unfitted_with_a_note(run, few_documents, words, tmp_path):
    result = run("index", few_documents, "--out", tmp_path / "idx", "--model", words)
    assert result.stderr.count("note:") == 1
    assert "not fitted" in result.stderr
    answer = run("ask", tmp_path / "idx", "anchor", "--json", json_output=True)
    assert all(passage["sigma2"] == 0 for passage in answer["passages"])


@pytest.mark.slow
def test_a_few_documents_get_the_fit_that_comes_with_the_package(
    run, few_documents, tmp_path, monkeypatch
):
    monkeypatch.delenv("UEC_CACHE")  # the models' download
    made = run("index", few_documents, "--out", tmp_path / "idx")
    assert made.stderr.count("note:") == 1
    assert "the fit that comes with uec-rag" in made.stderr
    there = run("ask", tmp_path / "idx", "Where is the anchor?", "--json", json_output=True)
    assert all(passage["sigma2"] > 0 for passage in there["passages"])
    assert there["passages"][0]["id"] == "boats.txt#0"
    elsewhere = run("ask", tmp_path / "idx", "Who wrote Hamlet?", "--json", json_output=True)
    assert elsewhere["decision"] == "abstain"
    assert elsewhere["confidence"] < there["confidence"]


def test_words_are_a_model_like_any_other(run, few_documents, words, tmp_path):
    made = run(
        *("index", few_documents, "--out", tmp_path / "idx", "--model", words, "--model", "bm25"),
        "--json",
        json_output=True,
    )
    assert made["encoders"] == [words.name, "bm25"]


def test_a_fitted_ensemble_serves_another_folder(run, pairs_file, few_documents, words, tmp_path):
    run("fit", pairs_file, "--out", tmp_path / "fitted", "--model", words)
    report = run(
        *("index", few_documents, "--out", tmp_path / "idx", "--uec", tmp_path / "fitted"),
        "--json",
        json_output=True,
    )
    assert report["fitted"]
    assert "not fitted" not in run("ask", tmp_path / "idx", "anchor").stderr


def test_an_ensemble_fitted_elsewhere_is_calibrated_on_the_documents(
    run, pairs_file, documents, few_documents, words, other_words, tmp_path
):
    run("fit", pairs_file, "--out", tmp_path / "fitted", "--model", words, "--model", other_words)
    fitted = ("--uec", tmp_path / "fitted")
    made = run("index", documents, "--out", tmp_path / "idx", *fitted)
    assert "questions made from the corpus itself, without labels" in made.stderr
    assert "note:" not in made.stderr
    asked = run("ask", tmp_path / "idx", "honey in the hive")
    assert "has changed" not in asked.stderr
    few = run("index", few_documents, "--out", tmp_path / "few", *fitted)
    assert "note: self_calibrate: made" in few.stderr
    assert "are those of the pairs the ensemble was fitted on" in few.stderr


def test_files_that_cannot_be_read_are_noted_in_one_line_each(run, few_documents, words, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for path in few_documents.iterdir():
        (folder / path.name).write_text(path.read_text())
    (folder / "bad.pdf").write_bytes(b"no pdf")
    result = run("index", folder, "--out", tmp_path / "idx", "--model", words)
    assert [line for line in result.stderr.splitlines() if "bad.pdf" in line] == [
        line for line in result.stderr.splitlines() if line.startswith("note: left out bad.pdf")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index", "nowhere", "--out", "idx"], "no such folder"),
        (["index", "docs", "--out", "idx", "--uec", "a", "--model", "b"], "got both"),
        (["index", "docs", "--out", "docs"], "was not made by uec-rag"),
        (["index", "empty", "--out", "idx"], "no readable files"),
        (["index", "docs", "--out", "idx", "--model", "pypi:nothing"], "unknown encoder"),
        (["index", "docs", "--out", "idx", "--update"], "there is no index in 'idx'"),
        (["index", "docs", "--out", "idx", "--update", "--uec", "a"], "--update keeps the index's"),
        (["ask", "nowhere", "What?"], "no index in 'nowhere'; make one: uec-rag index"),
        (["ask", "docs", " "], "QUESTION is empty"),
    ],
)
def test_a_mistake_is_one_readable_line(run, tmp_path, monkeypatch, arguments, message):
    (tmp_path / "docs").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Some text.")
    monkeypatch.chdir(tmp_path)
    result = run(*arguments, code=2)
    assert message in result.stderr.splitlines()[-1]
    assert result.stderr.count("error:") == 1
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_questions_are_asked_in_turn_until_an_empty_line(index):
    asked = CliRunner().invoke(
        app, ["ask", str(index), "-k", "1"], input="honey in the hive\nthe anchor\n\nnot asked\n"
    )
    assert asked.exit_code == 0
    assert asked.stdout.count("=> ") == 2
    assert asked.stdout.index("bees.md") < asked.stdout.index("boats.md")
    assert "not asked" not in asked.stdout
    ended = CliRunner().invoke(app, ["ask", str(index), "-k", "1", "--json"], input="honey")
    assert json.loads(ended.stdout)["question"] == "honey"


class TestUpdating:
    @pytest.fixture
    def folder(self, tmp_path, documents):
        return shutil.copytree(documents, tmp_path / "folder")

    @pytest.fixture
    def index(self, run, folder, words, tmp_path):
        run("index", folder, "--out", tmp_path / "idx", "--model", words)
        return tmp_path / "idx"

    def test_only_what_has_changed_is_read_and_what_is_gone_goes(self, run, folder, index):
        before = run("ask", index, "sand in the furnace", "--json", json_output=True)
        (folder / "bees.md").unlink()
        (folder / "boats.md").write_text("## Anchors\n\nThe anchor is heavy and the keel is deep.")
        (folder / "new.txt").write_text("The dough is in the oven, and the crust is brown.")
        told = run("index", folder, "--out", index, "--update", "--json", json_output=True)
        assert (told["new"], told["changed"], told["removed"]) == (1, 1, 1)
        assert (told["passages"], told["encoded"]) == (62, 2)
        for question in ("honey in the hive", "anchor and keel"):
            found = run("ask", index, question, "-k", "62", "--json", json_output=True)
            sources = [passage["metadata"]["source"] for passage in found["passages"]]
            assert "bees.md" not in sources
            assert sources.count("boats.md") == 1
        after = run("ask", index, "sand in the furnace", "--json", json_output=True)
        assert [p["id"] for p in after["passages"]] == [p["id"] for p in before["passages"]]
        assert after["passages"][0]["s_hat"] == pytest.approx(before["passages"][0]["s_hat"], 1e-2)

    def test_where_nothing_has_changed_nothing_is_read(self, run, folder, index):
        (folder / "bees.md").touch()
        told = run("index", folder, "--out", index, "--update")
        assert "0 new, 0 changed, 0 removed" in told.stdout
        assert "Reading" not in told.stderr

    def test_a_file_that_cannot_be_read_any_more_goes_too(self, run, folder, index):
        (folder / "bees.md").write_text("...")
        told = run("index", folder, "--out", index, "--update")
        assert "left out bees.md, which holds no text" in " ".join(told.stderr.split())
        assert "1 changed, 0 removed; 90 passages" in told.stdout

    def test_a_file_that_only_went_leaves_the_rest(self, run, folder, index):
        (folder / "bees.md").unlink()
        told = run("index", folder, "--out", index, "--update", "--json", json_output=True)
        assert (told["removed"], told["passages"], told["encoded"]) == (1, 90, 0)


def test_files_of_other_kinds_are_counted_and_named(run, few_documents, words, tmp_path):
    folder = shutil.copytree(few_documents, tmp_path / "folder")
    for name in ("a.py", "b.py", "c.py", "d.py", "LICENSE", ".hidden.py"):
        (folder / name).write_text("text")
    made = run("index", folder, "--out", tmp_path / "idx", "--model", words)
    assert "5 files of other kinds are left out: 4 .py (a.py, b.py, c.py, ...), 1 without" in (
        " ".join(made.stderr.split())
    )


def test_a_question_without_an_index_is_a_usage_error(run):
    assert "Missing argument" in run("ask", code=2).stderr


@pytest.mark.slow
def test_asking_the_embedded_models_waits_for_no_library_that_it_does_not_use(
    run, documents, tmp_path, monkeypatch
):
    """Torch and what brings it take longer to import than the answer does to find.

    Of scipy the sparse products of words are used.
    """
    monkeypatch.delenv("UEC_CACHE")  # the models' download, and texts encoded before
    run("index", documents, "--out", tmp_path / "idx")
    code = (
        "import sys; from uec_rag.cli import app\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    asked = subprocess.run(
        [sys.executable, "-c", code, "ask", str(tmp_path / "idx"), "honey in the hive"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "bees.md" in asked.stdout
    imported = set(asked.stderr.splitlines()[-1].split())
    assert {"uec_rag", "onnxruntime"} <= imported
    assert imported.isdisjoint(
        {
            *("torch", "torchvision", "transformers", "sentence_transformers", "laplace"),
            *("scipy.optimize", "scipy.stats", "sklearn", "matplotlib", "pandas"),
            *("langchain_core", "llama_index"),
        }
    )
