"""A small saved index of words, with passages that a server must not be harmed by."""

import logging
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import uvicorn
from starlette.testclient import TestClient

from uec_rag import UEC, Retriever
from uec_rag.confidence.risk import Guarantee
from uec_rag.gates import Gate
from uec_rag.server import create_app
from uec_rag.server.running import LOGGING

HOST = "127.0.0.1:8000"
TOKEN = "a-token-of-more-than-16-letters"
SCRIPT = "<script>alert('zebra')</script>"
ESCAPES = "\x1b[2J\x1b]0;owned\x07 gnu \u202e"

STRICT = Gate(1.0, Guarantee(1.0, 0.1, 0.05, 100, 50, 2, 29), k=3)
"""A gate that abstains on everything, and wants three passages."""

TEXTS = {
    "parking": "Staff may park in the yard behind the mill.",
    "opening": "The mill opens at nine and closes at five.",
    "flour": "Flour is sold in bags of one and of five pounds.",
    "script": SCRIPT,
    "escapes": ESCAPES,
    **{f"n{i}": f"Note {i} is on matter {i} of the archive." for i in range(40)},
}


def make(texts=TEXTS):
    retriever = Retriever(UEC(["bm25"]))
    metadatas = [
        {"source": f"{id_}.md", "title": f"Title of {id_}", "length": len(text)}
        for id_, text in texts.items()
    ]
    retriever.add(list(texts.values()), [*texts], metadatas)
    return retriever


def until(condition):
    """Wait for what must come."""
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.05)


@pytest.fixture(autouse=True)
def logging_stays():
    """What a command in this process sets for logging would be there in every later test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in LOGGING["loggers"]:
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """The folder of a saved index; not to be written to."""
    folder = tmp_path_factory.mktemp("saved") / "idx"
    make().save(folder)
    return folder


@pytest.fixture
def index(saved, tmp_path):
    """The folder of a saved index, to be written to."""
    return shutil.copytree(saved, tmp_path / "idx")


@contextmanager
def running(app, **settings):
    """The address of an application that is served meanwhile."""
    server = uvicorn.Server(uvicorn.Config(app, **{"port": 0, "log_level": "error"} | settings))
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(server.run)
        until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
        finally:
            server.should_exit = True
            done.result(600)


@contextmanager
def serving(index, *, gate=None, raises=True, **options):
    """A client of a running application."""
    opened = Retriever.load(index)
    if gate is not None:
        opened.gate = gate
    app = create_app(opened, **options)
    with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=raises) as client:
        yield client


@pytest.fixture
def client(index):
    with serving(index, write=True) as client:
        yield client
