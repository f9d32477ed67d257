"""The addresses of stores."""

import re
import warnings

import pytest

from tests.helpers import bag_of_words, index_of
from tests.stores.postgres_server import new_place as in_postgres
from tests.stores.test_contract import gaussians, numbered
from uec_rag import UEC, Retriever
from uec_rag.base.files import write_json
from uec_rag.stores import LocalStore
from uec_rag.stores.pgvector import PgVectorStore
from uec_rag.stores.urls import open_store, store_at


def test_addresses_lead_to_their_stores(tmp_path):
    folder = open_store(f"qdrant://{tmp_path}/passages")
    folder.add(numbered([1]), gaussians(0, 1))
    folder.close()
    again = open_store(f"qdrant://{tmp_path}/passages")
    assert len(again) == 1
    again.close()
    table = open_store(f"{in_postgres()}%20more")
    assert isinstance(table, PgVectorStore)
    assert table._collection.endswith(" more")
    table.close()
    asked = "options=-c%20maintenance_work_mem%3D77MB"
    settled = open_store(f"{in_postgres()}&{asked}")
    with settled._server.transaction() as connection:
        assert connection.execute("SHOW maintenance_work_mem").fetchone() == ("77MB",)
    settled.close()
    odd = open_store(f"{in_postgres()}&{asked}&connect_timeout=7")  # in the middle
    assert odd._collection.startswith("test")
    assert "connect_timeout=7" in odd._server.url
    odd.close()
    for wrong in ("ftp://host/a", "qdrant://host:6333", "qdrant://host:6333/a/b", "qdrant:///"):
        with pytest.raises(ValueError, match="expected"):
            open_store(wrong)


SHELF = """
from uec_rag.stores.urls import open_store

def open_shelf(address, *, existing):
    return open_store(address.replace("shelf://", "qdrant://"), existing=existing)
"""


def test_a_package_brings_a_store_by_an_entry_point(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"shelf://: expected qdrant://"):
        open_store(f"shelf://{tmp_path}/passages")
    known = tmp_path / "shelf-1.0.dist-info"
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1.0\n")
    (known / "entry_points.txt").write_text("[uec_rag.stores]\nshelf = shelf:open_shelf\n")
    (tmp_path / "shelf.py").write_text(SHELF)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_store(f"shelf://{tmp_path}/passages", existing=True)
    store = open_store(f"shelf://{tmp_path}/passages")
    store.add(numbered([1]), gaussians(0, 1))
    assert store.address == f"qdrant://{tmp_path}/passages"
    store.close()


def test_the_former_name_warns_and_opens_the_same(tmp_path):
    with pytest.warns(DeprecationWarning, match="use open_store"):
        store = store_at(f"qdrant://{tmp_path}/passages")
    assert store.address == f"qdrant://{tmp_path}/passages"
    store.close()


# A saved folder may come from a stranger: the engine that it names is not opened unasked.


@pytest.fixture
def uec():
    return UEC([bag_of_words(8, "bag")], coefficients="uniform")


@pytest.mark.parametrize("trust", [True, False])
@pytest.mark.parametrize(
    "noted",
    [
        {"store": "PostgreSQL", "address": "postgresql://me@127.0.0.1:9/db?collection=x"},
        {"store": "Qdrant", "address": "qdrant:///tmp/x"},
        {"store": "qdrant", "collection": "x", "path": "/tmp", "url": None},
        {"store": "cellar", "address": {"a": [None] * 999}},
        {"store": ["memory"]},
    ],
)
def test_a_place_that_a_folder_names_is_not_opened(small, tmp_path, noted, trust):
    small.save(tmp_path / "gift")
    write_json(tmp_path / "gift" / "store.json", noted)
    with pytest.raises(ValueError, match="not opened just because a saved folder names it"):
        Retriever.load(tmp_path / "gift", small.uec, trust=trust)


@pytest.mark.parametrize("kind", ["postgres", "qdrant by http", "qdrant in a folder"])
def test_ones_own_index_is_opened_as_the_error_says(store, uec, tmp_path):
    index_of(uec, ["a text", "another text"], ["a", "b"], store=store).save(tmp_path / "index")
    store.close()
    with pytest.raises(ValueError, match=r"Retriever\.load\(path, store=\.\.\.\)") as said:
        Retriever.load(tmp_path / "index", uec)
    opened = open_store(re.search("--store '(.*)'", str(said.value))[1])
    loaded = Retriever.load(tmp_path / "index", uec, store=opened)
    assert loaded.search(["a text"], k=1).ids == [["a"]]
    opened.close()


def test_another_collection_of_the_same_ensemble_is_told_from_ones_own(uec, tmp_path):
    def at(name):
        return open_store(f"qdrant://{tmp_path}/{name}/passages")

    for name in ("mine", "other"):
        index = index_of(uec, [f"a text of {name}"], ["a"], store=at(name))
        index.save(tmp_path / f"index of {name}")
        index.store.close()
    (tmp_path / "mine").rename(tmp_path / "moved")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Retriever.load(tmp_path / "index of mine", uec, store=at("moved")).store.close()
    with pytest.warns(UserWarning, match="is not the one that this index was saved with, at"):
        Retriever.load(tmp_path / "index of mine", uec, store=at("other")).store.close()


def test_a_store_is_given_where_there_is_one_and_must_be_one(uec, small, tmp_path):
    small.save(tmp_path / "index")
    with pytest.raises(ValueError, match="this index stores its own passages; omit store="):
        Retriever.load(tmp_path / "index", small.uec, store=LocalStore())
    with pytest.raises(TypeError, match=r"store: expected a store, .* got str") as said:
        Retriever.load(tmp_path / "index", small.uec, store="postgresql://me:secret@host/db")
    assert "secret" not in str(said.value)
