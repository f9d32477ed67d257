"""The addresses of stores."""

import pytest

from tests.stores.postgres_server import new_place as in_postgres
from tests.stores.test_contract import gaussians, numbered
from uec_rag.stores.pgvector import PgVectorStore
from uec_rag.stores.places import open_store, store_at


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
    assert "connect_timeout=7" in odd._server.place
    odd.close()
    for wrong in ("ftp://host/a", "qdrant://host:6333", "qdrant://host:6333/a/b", "qdrant:///"):
        with pytest.raises(ValueError, match="expected"):
            open_store(wrong)


def test_the_former_name_warns_and_opens_the_same(tmp_path):
    with pytest.warns(DeprecationWarning, match="use open_store"):
        store = store_at(f"qdrant://{tmp_path}/passages")
    assert store.address == f"qdrant://{tmp_path}/passages"
    store.close()
