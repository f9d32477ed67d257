"""The addresses of stores."""

import re

import pytest

from tests.helpers import bag_of_words, index_of
from tests.stores.test_contract import gaussians, numbered
from uec_rag import UEC, Retriever
from uec_rag.stores import LocalStore
from uec_rag.stores.urls import open_store


def test_addresses_lead_to_their_stores(tmp_path):
    folder = open_store(f"qdrant://{tmp_path}/passages")
    folder.add(numbered([1]), gaussians(0, 1))
    folder.close()
    again = open_store(f"qdrant://{tmp_path}/passages")
    assert len(again) == 1
    again.close()
    for wrong in (
        "ftp://host/a",
        "postgresql://host/a",
        "qdrant://host:6333",
        "qdrant://host:6333/a/b",
        "qdrant:///",
    ):
        with pytest.raises(ValueError, match="expected"):
            open_store(wrong)


# A saved folder may come from a stranger: the engine that it names is not opened unasked.


@pytest.fixture
def uec():
    return UEC([bag_of_words(8, "bag")], coefficients="uniform")


@pytest.mark.parametrize("trust", [True, False])
@pytest.mark.parametrize(
    "noted",
    [
        {"store": "Qdrant", "address": "qdrant:///tmp/x"},
        {"store": "qdrant", "collection": "x", "path": "/tmp", "url": None},
        {"store": "cellar", "address": {"a": [None] * 999}},
        {"store": ["memory"]},
        ["qdrant:///tmp/x"],
    ],
)
def test_a_place_that_a_folder_names_is_not_opened(small, tmp_path, noted, trust):
    small.save(tmp_path / "gift")
    LocalStore(tmp_path / "gift").change_settings({"store": noted})
    with pytest.raises(ValueError, match=r"not opened just because a saved|names no store"):
        Retriever.load(tmp_path / "gift", small.uec, trust=trust)


@pytest.mark.parametrize("kind", ["qdrant by http", "qdrant in a folder"])
def test_ones_own_index_is_opened_as_the_error_says(store, uec, tmp_path):
    index_of(uec, ["a text", "another text"], ["a", "b"], store=store).save(tmp_path / "index")
    store.close()
    with pytest.raises(ValueError, match=r"Retriever\.load\(path, store=\.\.\.\)") as said:
        Retriever.load(tmp_path / "index", uec)
    opened = open_store(re.search("--store '(.*)'", str(said.value))[1])
    loaded = Retriever.load(tmp_path / "index", uec, store=opened)
    assert loaded.search(["a text"], k=1).ids == [["a"]]
    opened.close()


def test_a_store_is_given_where_there_is_one_and_must_be_one(uec, small, tmp_path):
    small.save(tmp_path / "index")
    with pytest.raises(ValueError, match="this index stores its own passages; omit store="):
        Retriever.load(tmp_path / "index", small.uec, store=LocalStore())
    with pytest.raises(TypeError, match=r"store: expected a store, .* got str") as said:
        Retriever.load(tmp_path / "index", small.uec, store="qdrant://me:secret@host/x")
    assert "secret" not in str(said.value)
