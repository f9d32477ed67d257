"""`uec-rag copy`: an index moves house."""

import pytest

from tests.stores.postgres_server import new_place
from uec_rag import Retriever


def hits(run, index, *opening):
    asked = ("ask", index, "honey in the hive", "-k", "3", "--json", *opening)
    found = run(*asked, json_output=True)
    return {passage["id"]: passage["score"] for passage in found["passages"]}


def test_there_and_back_again_it_answers_alike(run, index, tmp_path):
    expected = hits(run, index)
    previous, opening = index, ()
    places = [new_place(), new_place()]
    for number, place in enumerate(places):
        to = tmp_path / str(number)
        told = run("copy", previous, place, "--out", to, "--json", *opening, json_output=True)
        assert told["passages"] == len(Retriever.load(index))
        opening = ("--store", place)
        assert hits(run, to, *opening) == pytest.approx(expected, abs=1e-4)
        previous = to
    again = run("copy", index, places[1], "--out", previous, code=2)
    assert "expected an empty store" in " ".join(again.stderr.split())
    shown = run("copy", previous, tmp_path / "back", *opening)
    assert "passages in" in shown.stdout
    assert hits(run, tmp_path / "back") == pytest.approx(expected, abs=1e-4)


def test_a_wrong_place_is_named_before_anything_is_read(run, index, tmp_path):
    for wrong in (("qdrant://a/b",), (tmp_path / "a", "--out", tmp_path / "b")):
        told = run("copy", index, *wrong, code=2).stderr
        assert "--out: expected a folder for the index" in told
    assert "postgresql://" in run("copy", index, "s3://a/b", "--out", tmp_path / "c", code=2).stderr


def test_a_place_that_an_index_names_is_opened_for_those_who_repeat_it(
    run, index, tmp_path, documents
):
    made = run("copy", index, new_place(), "--out", tmp_path / "there")
    assert f'uec-rag ask {tmp_path / "there"} "your question" --store postgresql://' in made.stderr
    for command in (
        ("ask", tmp_path / "there", "honey in the hive"),
        ("copy", tmp_path / "there", tmp_path / "back"),
        ("index", documents, "--update", "--out", tmp_path / "there"),
    ):
        told = run(*command, code=2).stderr
        assert "not opened just because a saved folder names it" in told
        run(*command, "--store", told.partition("--store '")[2].partition("'")[0])


def test_a_mistyped_folder_is_no_new_database(run, index, documents, tmp_path):
    there, wrong = (f"qdrant://{tmp_path}/{name}/passages" for name in ("there", "wrong"))
    run("copy", index, there, "--out", tmp_path / "idx")
    update = ("index", documents, "--update", "--out", tmp_path / "idx")
    for command in (("ask", tmp_path / "idx", "honey"), update):
        told = run(*command, "--store", wrong, code=2).stderr
        assert f"there is no Qdrant database in '{tmp_path / 'wrong'}'" in told
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize(
    "place", ["postgresql://me:s3cret@host/db", "qdrant://me:s3cret@host/x", "s3://me:s3cret@a/b"]
)
def test_a_place_is_not_repeated_with_its_password(run, index, tmp_path, place):
    for wrong in ((place, tmp_path / "to"), (index, place, "--out", tmp_path / "to")):
        if wrong[0] == place or not place.startswith("postgres"):
            assert "s3cret" not in run("copy", *wrong, code=2).output
