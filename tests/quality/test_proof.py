"""The proof finds what changed between two records; its manuals are listed as they should be."""

import re
from collections import Counter
from copy import deepcopy

import pytest

from benchmarks.quality import manuals
from benchmarks.quality.first_week import FOLDERS
from benchmarks.quality.proof import figures, flips, print_record, read, reranked, write
from tests.helpers import DATA

BEFORE = read(DATA / "record_of_the_proof.json")


@pytest.fixture
def after():
    changed = deepcopy(BEFORE)
    answers = changed["questions"]
    answers[0] = answers[0]._replace(confidence=0.7)
    answers[1] = answers[1]._replace(action="abstain", right=False, confidence=0.45)
    changed["ranking"]["medline"] = {"ndcg10": 0.48, "hashes": "aaaaddddcccc"}
    return changed


def test_a_question_that_is_decided_otherwise_is_found(after):
    [(before, now)] = flips(BEFORE, after)
    assert (before.question, before.action, now.action) == ("How do I tag?", "answer", "abstain")
    assert flips(BEFORE, deepcopy(BEFORE)) == []


def test_so_is_a_question_whose_answer_has_lost_its_passage(after):
    lost = BEFORE["questions"][0]._replace(found=False, right=False)
    after["questions"] = [lost, *BEFORE["questions"][1:]]
    assert [now for _, now in flips(BEFORE, after)] == [lost]


def test_a_question_with_other_hits_is_counted(after):
    assert reranked(BEFORE, after) == {"medline": 1}
    assert reranked(BEFORE, BEFORE) == {"medline": 0}


def test_shares_are_of_each_kind_and_their_mean_of_the_kinds():
    shares = figures(BEFORE)["Share of correct decisions"]
    assert shares == {"ordinary": 1.0, "ambiguous": 0.0, "mean of the kinds": 0.5}


def test_the_tables_show_both_records_and_each_flip(after, capsys):
    print_record(after, BEFORE)
    printed = capsys.readouterr().out
    assert "| ordinary | 0.5000 | 1.0000 | -0.5000 |" in printed
    assert "The largest difference in nDCG@10 is -0.0200 (medline)." in printed
    assert (
        "| git | ordinary | How do I tag? | answer, right, 0.60 | abstain, wrong, 0.45 |" in printed
    )
    assert "What is a tag?" not in printed


def test_a_record_is_the_same_after_writing_and_reading(tmp_path):
    write(BEFORE, tmp_path / "record.json")
    assert read(tmp_path / "record.json") == BEFORE


def test_each_manual_has_files_with_a_hash_each():
    rows = manuals.frozen()
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for *_, sha256 in rows)
    assert max(Counter((source, path) for source, path, _ in rows).values()) == 1
    assert {source for source, *_ in rows} == {*manuals.sources(), manuals.PYTHON}
    assert {manual for manual, *_ in manuals.sources().values()} > {*FOLDERS}


def test_a_file_that_differs_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(manuals, "hash_of_python", lambda: "")
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv" / "index.md").write_text("Something else.")
    with pytest.raises(
        ValueError, match=r"(?s)files are not as in manuals.csv.*uv/index.md differs"
    ):
        manuals.verify(tmp_path)
