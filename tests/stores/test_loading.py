"""A saved folder may come from a stranger: the engine that it names is not opened unasked."""

import re
import uuid
import warnings

import pytest

from tests.helpers import bag_of_words, index_of, resaved
from tests.stores import qdrant_server
from tests.stores.postgres_server import server_dsn
from uec_rag import UEC, Retriever
from uec_rag.base.saved.files import write_json
from uec_rag.retrieval.save import KIND
from uec_rag.stores import MemoryStore
from uec_rag.stores.pgvector import PgVectorStore
from uec_rag.stores.places import open_store
from uec_rag.stores.qdrant import QdrantStore

pytestmark = pytest.mark.filterwarnings(
    "ignore:This UEC is not fitted", "ignore:Failed to obtain server"
)


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
    small.save(tmp_path / "mine")
    with resaved(tmp_path / "mine", KIND, "gift") as folder:
        write_json(folder / "store" / "store.json", noted)
    with pytest.raises(ValueError, match="not opened just because a saved folder names it"):
        Retriever.load(tmp_path / "gift", small.uec, trust=trust)


@pytest.fixture(params=["postgres", "qdrant", "qdrant in a folder"])
def engine(request, tmp_path):
    """Opens the same collection again."""
    name = f"t{uuid.uuid4().hex}"

    def open_it():
        if request.param == "postgres":
            made.append(PgVectorStore(server_dsn(), collection=name))
        elif request.param == "qdrant":
            made.append(QdrantStore(url=qdrant_server.server_url(), collection=name))
        else:
            made.append(QdrantStore(path=tmp_path / "qdrant", collection=name))
        return made[-1]

    made = []
    yield open_it
    for store in made:
        store.close()


def test_ones_own_index_is_opened_as_the_error_says(engine, uec, tmp_path):
    index = index_of(uec, ["a text", "another text"], ["a", "b"], store=engine())
    index.save(tmp_path / "index")
    index.store.close()
    with pytest.raises(ValueError, match=r"Retriever\.load\(path, store=\.\.\.\)") as said:
        Retriever.load(tmp_path / "index", uec)
    store = open_store(re.search("--store '(.*)'", str(said.value))[1])
    loaded = Retriever.load(tmp_path / "index", uec, store=store)
    assert loaded.search(["a text"], k=1).ids == [["a"]]
    store.close()


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
    with pytest.raises(ValueError, match=r"store: expected none, .* holds its passages itself"):
        Retriever.load(tmp_path / "index", small.uec, store=MemoryStore())
    with pytest.raises(TypeError, match=r"store: expected a store, .* got str") as said:
        Retriever.load(tmp_path / "index", small.uec, store="postgresql://me:secret@host/db")
    assert "secret" not in str(said.value)
