"""`uec-rag gate` and `ask --gate`: a threshold from labelled questions, kept in a file."""

import csv
import re
import shutil

import pytest

from tests.helpers import data_of
from tests.server.conftest import make
from tests.server.explore.conftest import QUESTIONS
from tests.stores.qdrant_server import new_place
from uec_rag import Retriever
from uec_rag.retrieval.gate import Gate


@pytest.fixture
def questions(tmp_path):
    """Questions on every two words, answered by the file of their topic, and two unanswered."""
    path = tmp_path / "questions.csv"
    rows = [f"{question},{id_.partition('-')[0]}.md" for question, id_ in QUESTIONS]
    path.write_text("\n".join(["query,relevant_ids", *rows, "who wrote hamlet?,", "why?,"]))
    return path


def test_a_gate_is_made_shown_and_asked(run, index, questions, tmp_path):
    to = tmp_path / "gate.json"
    shown = run("gate", index, questions, "--out", to, "--max-risk", "0.2", "-k", "3")
    assert "162 questions share an answer" in " ".join(shown.stderr.split())
    gate = Gate.load(to)
    assert shown.stdout == f"{gate.report}\n"
    known = gate.guarantee
    every = [*csv.DictReader(questions.read_text().splitlines())]
    decisions = (
        Retriever.load(index, fit=False).search([one["query"] for one in every], k=3).decisions
    )
    counted = sum(one.action != "clarify" for one in decisions)
    right = known.answered - known.wrong
    counts = f"Of {counted} questions, {known.answered} answered: {right} right, "
    assert gate.report.startswith(f"{counts}{known.wrong} wrong. ")
    assert (gate.k, gate.guarantee.risk, gate.guarantee.queries) == (3, 0.2, counted)
    assert gate.guarantee.is_controlled
    asked = run("ask", index, "honey in the hive", "--gate", to, "--json", json_output=True)
    assert asked["threshold"] == pytest.approx(gate.threshold, rel=1e-5)
    assert "the gate was made" not in run("ask", index, "honey", "--gate", to).stderr


def test_the_gate_of_an_index_decides_unless_told_otherwise(run, index, questions):
    assert "--gate" not in run("gate", index, questions, "--max-risk", "0.2").stderr
    own = Gate.load(index / "gate.json")

    def threshold(*options):
        return run("ask", index, "honey", "--json", *options, json_output=True)["threshold"]

    assert threshold() == pytest.approx(own.threshold, rel=1e-5) != 0.5
    assert own.report in " ".join(run("ask", index, "honey").stderr.split())
    assert threshold("--threshold", "0.7", "-k", "1") == 0.7


def test_labels_whose_passage_is_gone_are_noted(run, index, documents, tmp_path):
    table, folder = tmp_path / "labels.csv", shutil.copytree(documents, tmp_path / "documents")
    heading = "All that number {} says on bees"
    rows = [f"hive of matter {n}?,bees.md#{heading.format(n)}" for n in range(25)]
    table.write_text("\n".join(["query,relevant_ids", *rows]))
    assert "labels.csv" not in run("gate", index, table, "--max-wrong", "0.5").stderr
    text = (folder / "bees.md").read_text().replace(heading.format(3), "Three")
    (folder / "bees.md").write_text(text)
    run("index", folder, "--out", index, "--update")
    for command in ("evaluate", "gate"):
        said = " ".join(run(command, index, table).stderr.split())
        assert f"1 label not in the index, first 'bees.md#{heading.format(3)}'" in said


def test_an_index_made_anew_over_another_notes_that_its_gate_does_not_fit(
    run, index, questions, few_documents, words
):
    run("gate", index, questions, "--max-risk", "0.2")
    told = run("index", few_documents, "--out", index, "--model", words).stderr
    assert "the gate was made for other" in " ".join(told.split())


def test_an_update_notes_that_the_gate_no_longer_fits_and_an_answer_notes_it_once(
    run, index, documents, questions, tmp_path
):
    run("gate", index, questions, "--max-risk", "0.2")
    folder = shutil.copytree(documents, tmp_path / "documents")
    (folder / "parking.md").write_text("# Parking\n\nBehind the oven.")
    updated = run("index", folder, "--out", index, "--update")
    for text in (updated.stderr, run("ask", index, "honey").stderr):
        assert text.count("guarantee does not hold") == 1


def test_the_command_to_ask_names_the_store_and_the_file_of_the_gate(
    run, few_documents, words, tmp_path
):
    asked = tmp_path / "questions.csv"
    rows = [f"{word} {number}?,boats.txt" for word in ("sail", "anchor") for number in range(20)]
    asked.write_text("\n".join(["query,relevant_ids", *rows]))
    store = ("--store", new_place())
    run("index", few_documents, "--model", words, "--out", tmp_path / "idx", *store)
    told = run("gate", tmp_path / "idx", asked, "--out", tmp_path / "gate.json", *store).stderr
    assert told.rstrip().endswith(f"--gate {tmp_path / 'gate.json'} --store {store[1]}")


def test_a_gate_that_would_never_answer_is_not_saved_but_told_what_it_lacks(
    run, index, questions, tmp_path
):
    few, to = tmp_path / "few.csv", tmp_path / "gate.json"
    few.write_text("\n".join(questions.read_text().splitlines()[:21]))
    strict = ("--max-risk", "0.05")
    said = " ".join(run("gate", index, few, "--out", to, *strict, code=2).stderr.split())
    assert "takes at least 59 labelled questions" in said
    usable = re.search(r"(\d+) were usable \(questions that get a clarifying question do not", said)
    assert "found an answer to 20 of them" in said
    assert not to.exists()
    allowed = re.search(r"They allow max_risk=(\S+), which answers (\d+) of them", said)
    run("gate", index, few, "--out", to, "--max-risk", allowed[1])
    assert int(usable[1]) >= Gate.load(to).guarantee.answered == int(allowed[2]) > 0
    less = f"{float(allowed[1]) - 0.01:.2f}"
    assert run("gate", index, few, "--out", tmp_path / "no", "--max-risk", less, code=2)


def test_a_gate_that_answers_nothing_is_not_saved_unforced(run, tmp_path):
    """It was saved, and the whole index abstained from then on."""
    index, table = tmp_path / "idx", tmp_path / "questions.csv"
    make().save(index)
    rows = [f"What is note {n} about?,{f'n{n}.md' if n < 12 else ''}" for n in range(16)]
    table.write_text("\n".join(["query,relevant_ids", *rows, "How is flour sold?,n30.md"]))
    said = " ".join(run("gate", index, table, code=2).stderr.split())
    assert "no gate was saved, since it would abstain on every question" in said
    assert "They allow max_wrong=0.34, which answers 17 of them. Check the labels" in said
    assert not (index / "gate.json").exists()
    forced = run("gate", index, table, "--force")
    assert "Of 17 questions, 0 answered" in forced.stdout
    assert Gate.load(index / "gate.json").guarantee.answered == 0


def test_a_share_of_all_questions_is_the_promise_if_no_other_is_made(
    run, index, questions, tmp_path
):
    to, few = tmp_path / "gate.json", tmp_path / "few.csv"
    assert "at most 10.0% of all questions" in run("gate", index, questions, "--out", to).stdout
    few.write_text("\n".join(questions.read_text().splitlines()[:21]))
    run("gate", index, few, "--out", to, "--max-wrong", "0.05")
    made = Gate.load(to).guarantee
    assert (made.risk, made.delta) == (0.05, None)
    said = run("gate", index, few, "--out", to, "--max-wrong", "0.02", code=2).stderr
    assert "takes at least 49 labelled questions" in " ".join(said.split())
    assert "They allow max_wrong=0.05" in " ".join(said.split())


def test_a_gate_that_is_none_is_refused(run, index, tmp_path):
    none = run("ask", index, "x", "--gate", tmp_path / "no", code=2)
    assert f"--gate {tmp_path / 'no'}: path: there is no gate" in none.stderr
    for text in ('{"k": "4"}', "query,relevant_ids"):
        (tmp_path / "gate.json").write_text(text)
        bad = run("ask", index, "x", "--gate", tmp_path / "gate.json", code=2)
        assert f"error: --gate {tmp_path / 'gate.json'}: " in bad.stderr


@pytest.mark.parametrize(("rows", "options", "message"), data_of("no_gate.json"))
def test_questions_and_options_that_make_no_gate_are_named(
    run, index, tmp_path, monkeypatch, rows, options, message
):
    monkeypatch.chdir(tmp_path)
    lines = ["query"] if rows is None else ["query,relevant_ids", *rows]
    (tmp_path / "questions.csv").write_text("\n".join(lines))
    where = () if "--out" in options else ("--out", "gate.json")
    result = run("gate", index, "questions.csv", *where, *options, code=2)
    assert message in " ".join(result.stderr.split())
    assert "Opening" not in result.stderr or options[:1] != ["--out"]
    assert not (tmp_path / "gate.json").exists()


def test_the_labels_of_an_index_make_its_gate_without_a_table(run, index):
    told = " ".join(run("gate", index, code=2).stderr.split())
    assert "questions.csv" in told
    retriever = Retriever.load(index)
    passages = {passage.metadata["source"]: passage.id for passage in retriever.passages()}
    for question, id_ in QUESTIONS:
        retriever.label(question, [passages[f"{id_.partition('-')[0]}.md"]])
    run("gate", index, "--max-wrong", "0.4", "--force")
    assert Gate.load(index / "gate.json").guarantee.queries == len(QUESTIONS)
