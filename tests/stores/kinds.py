"""Every kind of store that the contract is run on."""

import os
import uuid

import pytest

from tests.stores.edge_client import EdgeClient
from uec_rag.stores import LocalStore
from uec_rag.stores.local.store import copy_view
from uec_rag.stores.qdrant import QdrantStore

KINDS = {
    "memory": lambda folder: LocalStore(),
    "folder": lambda folder: LocalStore(folder / "idx"),
    "qdrant in memory": lambda folder: QdrantStore(location=":memory:", collection="passages"),
    "qdrant's engine": lambda folder: QdrantStore(client=EdgeClient(folder)),
    "qdrant in a folder": lambda folder: QdrantStore(path=folder / "qdrant", collection="passages"),
}
if "QDRANT_URL" in os.environ:
    KINDS["qdrant server"] = lambda folder: QdrantStore(
        url=os.environ["QDRANT_URL"],
        api_key=os.environ.get("QDRANT_API_KEY"),
        collection=f"test-{uuid.uuid4().hex}",
    )
# The one in a folder searches as the one in memory does, and waits for the disk at each passage.
DISTINCT = [kind for kind in KINDS if kind != "qdrant in a folder"]
every_store = pytest.mark.parametrize("kind", KINDS)
every_search = pytest.mark.parametrize("kind", DISTINCT)
ENGINES = [kind for kind in DISTINCT if kind.startswith("qdrant")]
SAVED = [kind for kind in KINDS if kind not in ("qdrant in memory", "qdrant's engine")]


def close(store):
    """Let go of an engine's connection or lock; a store in memory has none."""
    if hasattr(store, "close"):
        store.close()


def reopened(store, folder):
    """A store as it is after it was saved to a folder of its own, and opened by another process."""
    if isinstance(store, LocalStore):
        copy_view(store.snapshot(), LocalStore(folder), store.settings)
        close(store)
        return LocalStore(folder)
    close(store)
    if "QDRANT_URL" in os.environ and store.address.startswith("http"):
        return QdrantStore(url=os.environ["QDRANT_URL"], collection=store._name)
    return KINDS["qdrant in a folder"](folder.parent)


def beside(store):
    """What another process has: a store of its own over the same collection."""
    return QdrantStore(client=store._client, collection=store._name)
