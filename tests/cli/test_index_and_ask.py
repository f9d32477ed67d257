"""`uec-rag index` and `uec-rag ask`: from a folder of files to an answer."""

import subprocess
import sys

import pytest


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


def test_too_few_pairs_leave_the_ensemble_unfitted_with_a_note(run, few_documents, words, tmp_path):
    result = run("index", few_documents, "--out", tmp_path / "idx", "--model", words)
    assert result.stderr.count("note:") == 1
    assert "not fitted" in result.stderr
    answer = run("ask", tmp_path / "idx", "anchor", "--json", json_output=True)
    assert all(passage["sigma2"] == 0 for passage in answer["passages"])


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


def test_a_question_without_an_index_is_a_usage_error(run):
    assert "Missing argument" in run("ask", code=2).stderr


@pytest.mark.slow
def test_asking_the_embedded_models_waits_for_no_library_that_it_does_not_use(
    run, documents, tmp_path, monkeypatch
):
    """Torch and what brings it take longer to import than the answer does to find."""
    monkeypatch.delenv("UEC_CACHE")  # the models' download, and texts encoded before
    run("index", documents, "--out", tmp_path / "idx")
    code = (
        "import sys; from uec_rag.cli import app\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
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
            *("scipy", "sklearn", "matplotlib", "pandas", "langchain_core", "llama_index"),
        }
    )
