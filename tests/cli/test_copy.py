"""`uec-rag copy`: an index moves house."""

import pytest

from tests.stores.postgres_server import new_place
from uec_rag import Retriever
from uec_rag.stores.pgvector import PgVectorStore


@pytest.fixture
def index(run, documents, words, tmp_path):
    run("index", documents, "--out", tmp_path / "idx", "--model", words)
    return tmp_path / "idx"


def hits(run, index):
    found = run("ask", index, "honey in the hive", "-k", "3", "--json", json_output=True)
    return {passage["id"]: passage["s_hat"] for passage in found["passages"]}


def test_there_and_back_again_it_answers_alike(run, index, tmp_path):
    expected = hits(run, index)
    previous, checksums = index, set()
    places = [new_place(), new_place()]
    for number, place in enumerate(places):
        to = tmp_path / str(number)
        told = run("copy", previous, place, "--out", to, "--json", json_output=True)
        assert told["passages"] == told["written"] == len(Retriever.load(index))
        checksums.add(told["checksum"])
        assert hits(run, to) == pytest.approx(expected, abs=1e-4)
        previous = to
    assert isinstance(Retriever.load(previous).store, PgVectorStore)
    again = run("copy", index, places[1], "--out", previous, "--json", json_output=True)
    assert again["written"] == 0
    shown = run("copy", f"memory://{previous}", f"memory://{tmp_path / 'back'}")
    assert "passages in" in shown.stdout
    assert hits(run, tmp_path / "back") == pytest.approx(expected, abs=1e-4)
    assert len(checksums) == 1


def test_a_wrong_place_is_named_before_anything_is_read(run, index, tmp_path):
    assert "expected a folder for the index" in run("copy", index, "qdrant://a/b", code=2).stderr
    wrong = run("copy", index, tmp_path / "a", "--out", tmp_path / "b", code=2)
    assert "expected none where TO is a folder" in wrong.stderr
    assert "postgresql://" in run("copy", index, "s3://a/b", "--out", tmp_path / "c", code=2).stderr
