"""`uec-rag gate` and `questions`: a threshold from labels, kept in the index; what to label."""

import csv
import shutil
from itertools import combinations

import pytest

from tests.cli.conftest import TOPICS
from tests.helpers import data_of
from tests.server.explore.conftest import QUESTIONS
from uec_rag import Retriever
from uec_rag.gates.gate import Gate


@pytest.fixture
def questions(tmp_path):
    """Questions on every two words, answered by the file of their topic, and two unanswered."""
    path = tmp_path / "questions.csv"
    rows = [f"{question},{id_.partition('-')[0]}.md" for question, id_ in QUESTIONS]
    path.write_text("\n".join(["query,relevant_ids", *rows, "who wrote hamlet?,", "why?,"]))
    return path


@pytest.fixture
def few(questions, tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("\n".join(questions.read_text().splitlines()[:21]))
    return path


def gate_of(index):
    return Gate.load(index / "gate.json")


@pytest.mark.slow
def test_a_gate_is_made_shown_and_decides_unless_told_otherwise(run, index, questions):
    every = [*csv.DictReader(questions.read_text().splitlines())]
    asked = [one["query"] for one in every]
    decisions = Retriever.load(index, fit=False).search(asked, k=3).decisions
    counted = sum(one.action != "clarify" for one in decisions)
    shown = run("gate", index, questions, "--max-risk", "0.2", "-k", "3")
    gate = gate_of(index)
    assert shown.stdout == f"{gate.report}\n"
    known = gate.guarantee
    counts = f"Of {counted} questions, {known.answered} answered: {known.answered - known.wrong}"
    assert gate.report.startswith(f"{counts} right (")
    assert f"%), {known.wrong} wrong. " in gate.report
    assert (gate.k, known.risk, known.queries, known.is_controlled) == (3, 0.2, counted, True)

    def threshold(*options):
        return run("ask", index, "honey", *options, json_output=True)["threshold"]

    assert threshold() == pytest.approx(gate.threshold, rel=1e-5) != 0.5
    assert gate.report in " ".join(run("ask", index, "honey").stderr.split())


def test_a_gate_whose_answers_are_wrong_says_so_and_is_not_recommended(run, index, tmp_path):
    table = tmp_path / "labels.csv"
    rows = [f"Who looks after the {one}?,bees.md" for one in TOPICS["boats"]]
    table.write_text("\n".join(["query,relevant_ids", *rows]))
    result = run("gate", index, table, "--max-wrong", "0.9", "--force")
    said = " ".join(result.stderr.split())
    assert "0 right (0%; 95% interval: 0% to " in result.stdout
    assert "are answered rightly: fewer than half of them." in said
    assert "label more questions" in said
    assert "Use it" not in said


def test_labels_whose_passage_is_gone_are_noted(run, index, documents, tmp_path):
    table, folder = tmp_path / "labels.csv", shutil.copytree(documents, tmp_path / "documents")
    headings = [f"The {one} and the {two}" for one, two in combinations(TOPICS["bees"], 2)]
    rows = [f"{heading}?,bees.md#{heading}" for heading in headings]
    table.write_text("\n".join(["query,relevant_ids", *rows]))
    assert "labels.csv" not in run("gate", index, table, "--max-wrong", "0.5", "--force").stderr
    text = (folder / "bees.md").read_text().replace(headings[3], "Three")
    (folder / "bees.md").write_text(text)
    run("index", folder, "--out", index, "--update")
    for command in (["evaluate"], ["gate", "--force"]):
        said = " ".join(run(*command, index, table).stderr.split())
        assert f"1 label not in the index, first 'bees.md#{headings[3]}'" in said


def test_an_update_moves_labels_with_their_texts_and_tells_of_those_that_are_lost(run, tmp_path):
    folder, table, index = tmp_path / "docs", tmp_path / "labels.csv", tmp_path / "idx"
    folder.mkdir()
    texts = [f"The {word} is {'here or there ' * 40}." for word in ("hive", "mast", "oven", "lens")]
    file = folder / "faq.md"
    file.write_text("\n\n".join(texts))
    made = ("index", folder, "--out", index)
    run(*made, "--model", "bm25")
    retriever = Retriever.load(index, fit=False)
    given = {passage.id: passage.text for passage in retriever.passages()}
    for id_, text in given.items():
        retriever.label(text[:12], [id_])
    retriever.close()
    rows = [f"{text[:12]},{id_}" for id_, text in given.items()]
    table.write_text("\n".join(["query,relevant_ids", *rows]))
    of_labels = ("gate", index, "--max-wrong", "0.5", "--force")
    run(*of_labels)

    def names():
        with_texts = {p.id: p.text for p in Retriever.load(index, fit=False).passages()}
        kept = {id_ for id_, text in given.items() if with_texts.get(id_) == text}
        assert kept == given.keys() & with_texts.keys()
        return len(kept)

    file.write_text("\n\n".join([texts[3].replace("lens", "queen"), *texts]))
    told = " ".join(run(*made, "--update").output.split())
    assert "4 labels" in told
    assert "the gate was made for other passages" in told
    assert names() == 4
    made_of_table = ("gate", index, table, "--max-wrong", "0.5", "--force")
    for command in (of_labels, made_of_table, ("evaluate", index, table)):
        assert "left out" not in run(*command).stderr
    file.write_text("\n\n".join(reversed(texts[:3])))
    lost = "left out 1 label of the index, whose passages are gone or have other texts"
    for command in ((*made, "--update"), of_labels):
        assert lost in " ".join(run(*command).stderr.split())
    assert names() == 3
    for command in (made_of_table, ("evaluate", index, table)):
        assert "labels.csv: 1 label not in the index" in run(*command).stderr


@pytest.mark.slow
def test_an_answer_notes_once_that_the_gate_no_longer_fits(
    run, index, documents, questions, tmp_path
):
    run("gate", index, questions, "--max-risk", "0.2")
    folder = shutil.copytree(documents, tmp_path / "documents")
    (folder / "parking.md").write_text("# Parking\n\nBehind the oven.")
    run("index", folder, "--out", index, "--update")
    assert run("ask", index, "honey").stderr.count("guarantee does not hold") == 1


def test_a_gate_that_would_never_answer_is_not_saved_but_told_what_it_lacks(run, index, few):
    said = " ".join(run("gate", index, few, "--max-risk", "0.05", code=2).stderr.split())
    assert "takes at least 59 labelled questions" in said
    assert "usable (questions that get a clarifying question do not count)" in said
    assert not (index / "gate.json").exists()


def test_a_share_of_all_questions_is_the_promise_if_no_other_is_made(run, index, questions, few):
    assert "at most 10.0% of all questions" in run("gate", index, questions).stdout
    run("gate", index, few, "--max-wrong", "0.05", "--force")
    made = gate_of(index).guarantee
    assert (made.risk, made.delta) == (0.05, None)


@pytest.mark.parametrize(("rows", "options", "message"), data_of("no_gate.json"))
def test_questions_and_options_that_make_no_gate_are_named(
    run, index, tmp_path, rows, options, message
):
    lines = ["query"] if rows is None else ["query,relevant_ids", *rows]
    (tmp_path / "questions.csv").write_text("\n".join(lines))
    result = run("gate", index, tmp_path / "questions.csv", *options, code=2)
    assert message in " ".join(result.stderr.split())
    assert not (index / "gate.json").exists()


def test_the_labels_of_an_index_make_its_gate_without_a_table(run, index):
    told = " ".join(run("gate", index, code=2).stderr.split())
    assert "label with 'uec-rag explore' or pass a table of labels" in told
    retriever = Retriever.load(index, fit=False)
    passages = {passage.metadata["source"]: passage.id for passage in retriever.passages()}
    for question, id_ in QUESTIONS:
        retriever.label(question, [passages[f"{id_.partition('-')[0]}.md"]])
    run("gate", index, "--max-wrong", "0.9", "--force")
    assert gate_of(index).guarantee.queries == len(QUESTIONS)


def test_the_questions_to_label_next_have_no_label(run, index, tmp_path):
    table = tmp_path / "asked.csv"
    table.write_text("query\nhoney in the hive\nanchor and keel\nwho wrote hamlet?\n")
    shown = run("questions", index, table, json_output=True)
    assert {"who wrote hamlet?", "anchor and keel"} <= {one["query"] for one in shown}
    Retriever.load(index).label("anchor and keel", [])
    shown = run("questions", index, table, json_output=True)
    assert "anchor and keel" not in {one["query"] for one in shown}
    assert len(run("questions", index, "--most", "3").stdout.splitlines()) <= 3


def test_a_gate_from_few_labels_is_saved_only_by_force(run, index, few):
    said = " ".join(run("gate", index, few, "--max-wrong", "0.3", code=2).stderr.split())
    assert "labelled questions leave too much to chance" in said
    assert "of others (95% interval). Label 50 or more" in said
    assert not (index / "gate.json").exists()
    run("gate", index, few, "--max-wrong", "0.3", "--force")
    assert gate_of(index).guarantee.queries < 50
