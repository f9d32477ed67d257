"""Labels that are given in production, for the next gate of an index."""

import pytest

from uec_rag import Retriever

QUESTION = "How long?"


@pytest.fixture
def saved(small, tmp_path):
    small.save(tmp_path / "idx")
    return Retriever.load(tmp_path / "idx", small.uec)


def test_a_label_takes_the_place_of_the_one_before_and_stays_if_the_index_is_saved(
    saved, small, tmp_path
):
    saved.label(QUESTION, ["p1", "p2"])
    saved.label("Who wrote Hamlet?", [])
    assert saved.labels == {QUESTION: {"p1", "p2"}, "Who wrote Hamlet?": set()}
    saved.label(QUESTION, ["p3"])
    saved.label("Who wrote Hamlet?", None)
    saved.add(["another text"], ["new"])
    for folder in ("idx", "copy"):
        saved.save(tmp_path / folder)
        assert Retriever.load(tmp_path / folder, small.uec).labels == {QUESTION: {"p3"}}
    small.save(tmp_path / "idx")  # an index is made again in its place
    assert Retriever.load(tmp_path / "idx", small.uec).labels == {QUESTION: {"p3"}}


def test_a_label_follows_its_text_and_is_left_out_with_a_line_if_that_is_gone(saved):
    saved.label(QUESTION, ["p1", "p2"])
    saved.label("Where?", ["p3"])
    saved.label("Who wrote Hamlet?", [])
    [first, second, third] = saved.get(["p1", "p2", "p3"])
    saved.add([second.text, "another text"], ["moved", "p2"])
    assert saved.labels[QUESTION] == {"p1", "moved"}
    saved.add(["something else"], ["p3"])
    said = "left out 1 label of the index, whose passages are gone or have other texts .p3.;"
    with pytest.warns(UserWarning, match=said):
        assert saved.labels == {QUESTION: {"p1", "moved"}, "Who wrote Hamlet?": set()}
    saved.add([third.text], ["p3"])
    assert saved.labels["Where?"] == {"p3"}
    saved.delete(["p1", "moved"])
    with pytest.warns(UserWarning, match=r"2 labels of the index.*\(p1, p2\)"):
        assert {*saved.labels} == {"Where?", "Who wrote Hamlet?"}
    saved.add([first.text], ["again"])
    with pytest.warns(UserWarning, match="1 label of the index"):
        assert saved.labels[QUESTION] == {"again"}


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ((QUESTION, ["p1", "gone"]), "relevant_ids: expected ids of passages in the index, got"),
        ((QUESTION, "p1"), "relevant_ids"),
        ((" ", []), "question"),
    ],
)
def test_what_is_no_label_is_refused_and_nothing_is_written(saved, label, said):
    with pytest.raises((TypeError, ValueError), match=said):
        saved.label(*label)
    assert not saved.labels


def test_an_index_without_a_folder_has_no_labels(small):
    with pytest.raises(ValueError, match="label: the index has no folder; save it first"):
        small.label(QUESTION, ["p1"])
