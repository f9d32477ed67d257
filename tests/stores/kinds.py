"""Every kind of store that the contract is run on."""

import os
import uuid
from concurrent.futures import ThreadPoolExecutor

from tests.stores.edge_client import EdgeClient
from tests.stores.qdrant_server import server_url
from uec_rag.stores import LocalStore
from uec_rag.stores.qdrant import QdrantStore
from uec_rag.stores.urls import STORE, open_store, saved_store

KINDS = {
    "memory": lambda folder: LocalStore(),
    "memory int8": lambda folder: LocalStore(dtype="int8"),
    "folder": lambda folder: LocalStore(folder / "idx"),
    "folder int8": lambda folder: LocalStore(folder / "idx", dtype="int8"),
    "qdrant in memory": lambda folder: QdrantStore(location=":memory:", collection="passages"),
    "qdrant's engine": lambda folder: QdrantStore(client=EdgeClient(folder)),
    "qdrant by http": lambda folder: QdrantStore(
        url=server_url(), collection=f"test-{uuid.uuid4().hex}"
    ),
    "qdrant in a folder": lambda folder: QdrantStore(path=folder / "qdrant", collection="passages"),
}
if "QDRANT_URL" in os.environ:
    KINDS["qdrant server"] = lambda folder: QdrantStore(
        url=os.environ["QDRANT_URL"],
        api_key=os.environ.get("QDRANT_API_KEY"),
        collection=f"test-{uuid.uuid4().hex}",
    )
ENGINES = [kind for kind in KINDS if not kind.startswith(("memory", "folder"))]
# The one in a folder searches as the one in memory does, and waits for the disk at each passage.
DISTINCT = [kind for kind in KINDS if kind != "qdrant in a folder"]
QUICK = [kind for kind in DISTINCT if kind in ENGINES]
SAVED = [kind for kind in KINDS if kind not in ("qdrant in memory", "qdrant's engine")]


def close(store):
    """Let go of an engine's connection or lock; a store in memory has none."""
    if hasattr(store, "close"):
        store.close()


def reopened(store, folder):
    """A store as it is after it was saved to a folder of its own, and opened by another process."""
    if isinstance(store, LocalStore):
        store.save(folder)
        close(store)
        return LocalStore(folder)
    state = store.state()
    close(store)
    return saved_store({STORE: state}, open_store(state["address"]))


def beside(store):
    """What another process has: a store of its own over the same collection."""
    if store._url:
        return type(store)(url=store._url, collection=store._name)
    return type(store)(client=store._client, collection=store._name)


def at_once(write, stores):
    """Have every store written to at the same time; an error of any of them is raised."""
    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(write, range(len(stores)), stores))
