"""Labels that are given in production: to the table of the index, for its next gate."""

import pytest

from uec_rag import Retriever
from uec_rag.documents.labels import read_questions


@pytest.fixture
def saved(small, tmp_path):
    small.save(tmp_path / "idx")
    return Retriever.load(tmp_path / "idx", small.uec)


def table(folder):
    return read_questions(folder / "questions.csv", labelled=True)


def test_a_label_takes_the_place_of_the_one_before_and_stays_if_the_index_is_saved(saved, tmp_path):
    saved.label("How long?", ["p1", "p2"])
    saved.label("Who wrote Hamlet?", [])
    assert table(tmp_path / "idx") == {"How long?": {"p1", "p2"}, "Who wrote Hamlet?": set()}
    saved.label("How long?", ["p3"])
    saved.add(["another text"], ["new"])
    saved.save(tmp_path / "idx")
    assert table(tmp_path / "idx") == {"How long?": {"p3"}, "Who wrote Hamlet?": set()}


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (("How long?", ["p1", "gone"]), "relevant_ids: expected ids of passages in the index, got"),
        (("How long?", "p1"), "relevant_ids"),
        ((" ", []), "question"),
    ],
)
def test_what_is_no_label_is_refused_and_nothing_is_written(saved, tmp_path, label, said):
    with pytest.raises((TypeError, ValueError), match=said):
        saved.label(*label)
    assert not (tmp_path / "idx" / "questions.csv").exists()


def test_an_index_without_a_folder_has_no_labels(small):
    with pytest.raises(ValueError, match="label: the index has no folder; save it first"):
        small.label("How long?", ["p1"])
