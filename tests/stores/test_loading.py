"""A saved folder may come from a stranger: the engine that it names is not opened unasked."""

import json
import os
import pickle
import random
import re
import shutil
import socket
import sqlite3
import struct
import threading
import uuid
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tests.helpers import bag_of_words, files_of, index_of, resaved
from tests.stores import qdrant_server
from tests.stores.postgres_server import server_dsn
from tests.stores.test_contract import gaussians, numbered
from tests.survival.scale import report, times
from uec_rag import UEC, Retriever
from uec_rag.base import retries
from uec_rag.base.environment import TRUSTED
from uec_rag.base.saved.files import write_json
from uec_rag.base.saved.generations import writing
from uec_rag.retrieval.save import KIND
from uec_rag.stores import MemoryStore, places
from uec_rag.stores.pgvector import PgVectorStore
from uec_rag.stores.qdrant import QdrantStore

pytestmark = pytest.mark.filterwarnings(
    "ignore:This UEC is not fitted", "ignore:Api key is used", "ignore:Failed to obtain server"
)
KEY, PASSWORD, TOKEN = (f"{what}-of-the-environment" for what in ("key", "password", "token"))


@pytest.fixture(autouse=True)
def secrets(monkeypatch, tmp_path):
    """What a user has in the environment, and a home in which libpq looks."""
    monkeypatch.setattr(retries, "_wait", lambda state: 0.0)
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    (tmp_path / "pgpass").write_text(f"*:*:*:*:{PASSWORD}\n")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.delenv(TRUSTED, raising=False)


@pytest.fixture(params=["PGPASSWORD", "PGPASSFILE", "PGSERVICE"])
def password(request, monkeypatch, tmp_path):
    """Each way in which libpq comes by a password of the environment."""
    if request.param == "PGPASSWORD":
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
    elif request.param == "PGPASSFILE":
        monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    else:
        (tmp_path / "services").write_text(f"[mine]\npassword={PASSWORD}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
        monkeypatch.setenv("PGSERVICE", "mine")
    monkeypatch.setenv("PGOPTIONS", f"-c a.token={TOKEN}")


@pytest.fixture
def uec():
    return UEC([bag_of_words(8, "bag")], coefficients="uniform")


@pytest.fixture
def gift(uec, tmp_path):
    """Make a whole saved index whose ``store.json`` says what it is told to."""

    def make(noted, name="gift"):
        index = index_of(uec, ["one", "two"])
        index.save(tmp_path / "mine")
        with resaved(tmp_path / "mine", KIND, name) as folder:
            if not (isinstance(noted, dict) and noted.get("store") == "memory"):
                shutil.rmtree(folder / "store")
                (folder / "store").mkdir()
            (folder / "store" / "store.json").write_text(json.dumps(noted))
            if isinstance(noted, dict) and noted.get("path") == "inside":
                noted["path"] = str(folder / "qdrant")
                shutil.copytree(tmp_path / "qdrant", folder / "qdrant")
                (folder / "store" / "store.json").write_text(json.dumps(noted))
        return tmp_path / name

    return make


class Bomb:
    """What makes a file when it is unpickled."""

    def __init__(self, file):
        self.file = str(file)

    def __reduce__(self):
        return open, (self.file, "w")


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("trust", [True, False])
def test_a_local_database_that_a_folder_names_is_never_opened(
    gift, uec, tmp_path, trust, inside, monkeypatch
):
    """Its points are pickles."""
    theirs = QdrantStore(path=tmp_path / "qdrant", collection="x")
    theirs.add(numbered(range(3)), gaussians(0, 3))
    theirs.close()
    [file] = (tmp_path / "qdrant").glob("collection/x/*.sqlite")
    with sqlite3.connect(file) as database:
        bomb = pickle.dumps(Bomb(tmp_path / "ran"))
        database.execute("UPDATE points SET point = ?", [bomb])
    path = "inside" if inside else str(tmp_path / "qdrant")
    index = gift({"store": "qdrant", "collection": "x", "path": path, "url": None})
    monkeypatch.setenv(TRUSTED, f"*, {path}, {tmp_path}/qdrant")
    with pytest.raises(ValueError, match=r"in a local database, .* never opened .*store=\.\.\."):
        Retriever.load(index, uec, trust=trust)
    assert not (tmp_path / "ran").exists()
    with pytest.raises(ValueError, match="never opened"):
        QdrantStore.load(files_of(index) / "store", trust=trust)
    with pytest.raises(AttributeError):  # what the bomb leaves is no point
        QdrantStore(path=tmp_path / "qdrant", collection="x")
    assert (tmp_path / "ran").exists()


@contextmanager
def a_stranger():
    """A server that takes down all it is sent; as PostgreSQL it asks for a password in clear."""
    sent = []

    def answer(line):
        with line:
            line.settimeout(1)
            try:
                first = line.recv(2**16)
                sent.append(first)
                if first[4:8] == struct.pack(">I", 80877103):  # whether the line may be encrypted
                    line.sendall(b"N")
                    sent.append(line.recv(2**16))
                if b"user" in b"".join(sent):
                    line.sendall(b"R" + struct.pack(">II", 8, 3))
                    sent.append(line.recv(2**16))
            except OSError:
                pass

    def accept():
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            answer(line)

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listener.getsockname()[1], sent
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


def test_passwords_go_to_no_server_of_postgres_that_the_user_did_not_name(
    gift, uec, password, monkeypatch
):
    with a_stranger() as (port, sent):
        place = f"postgresql://me@127.0.0.1:{port}/db"
        index = gift({"store": "pgvector", "dsn": place, "collection": "x", "candidates": 256})
        monkeypatch.setenv(TRUSTED, "*, postgresql://me@127.0.0.1/db")
        said = rf"is stored at '{place}', .*{TRUSTED}='{place}'; or .*"
        with pytest.raises(ValueError, match=said):
            Retriever.load(index, uec)
        assert not sent
        with pytest.raises(ConnectionError, match="does not answer, or refuses"):
            Retriever.load(index, uec, trust=True)
        assert sent
        assert not any(secret.encode() in b"".join(sent) for secret in (PASSWORD, TOKEN))
        monkeypatch.setenv(TRUSTED, f"intfloat/*, {place}")
        with pytest.raises(ConnectionError, match="does not answer, or refuses"):
            Retriever.load(index, uec)
        assert PASSWORD.encode() in b"".join(sent)


def test_what_else_a_stranger_may_write_into_an_address_is_part_of_it(gift, uec, monkeypatch):
    with a_stranger() as (port, sent):
        for more in ("hostaddr=127.0.0.1", "service=mine"):
            dsn = f"host=localhost {more} port={port} passfile=/x"
            monkeypatch.setenv(TRUSTED, f"postgresql://localhost:{port}/")
            place = re.escape(f"'postgresql://localhost:{port}/?{more}'")
            with pytest.raises(ValueError, match=f"is stored at {place}"):
                Retriever.load(gift({"store": "pgvector", "dsn": dsn}), uec)
    assert not sent


def test_a_key_goes_to_no_server_of_qdrant_that_the_user_did_not_name(gift, uec, monkeypatch):
    with a_stranger() as (port, sent):
        url = f"http://127.0.0.1:{port}"
        index = gift({"store": "qdrant", "collection": "x", "path": None, "url": url})
        monkeypatch.setenv(TRUSTED, f"*, https://127.0.0.1:{port}, {url}0")
        with pytest.raises(ValueError, match=rf"is stored at '{url}', .*{TRUSTED}='{url}'; or .*"):
            Retriever.load(index, uec)
        assert not sent
        with pytest.raises(ConnectionError, match="does not answer"):
            Retriever.load(index, uec, trust=True)
        assert sent
        assert KEY.encode() not in b"".join(sent)
        monkeypatch.setenv(TRUSTED, url)
        with pytest.raises(ConnectionError, match="does not answer"):
            Retriever.load(index, uec)
        assert KEY.encode() in b"".join(sent)


@pytest.mark.parametrize(
    "url", ["http://good@evil", "http://good?@evil", "http://h/#", None, 3, ["http://h"]]
)
@pytest.mark.parametrize("trust", [True, False])
def test_an_odd_address_is_refused(gift, uec, url, trust):
    noted = {"store": "qdrant", "collection": "x", "path": None, "url": url}
    with pytest.raises(ValueError, match=r"url: expected|never opened"):
        Retriever.load(gift(noted), uec, trust=trust)


NASTY = [
    *(
        None,
        True,
        -1,
        0,
        2**63,
        10**400,
        1e308,
        float("nan"),
        "",
        "x",
        "memory",
        "pgvector",
        "qdrant",
    ),
    *([], {}, [[]], {"store": "qdrant"}, "../../store", "/dev/zero", "x" * 10_000, "\0", "\ud800"),
    *("file:///etc/passwd", "os:system", "uec_rag.stores.qdrant.store:QdrantStore", ":memory:"),
]


@pytest.mark.slow
def test_whatever_a_folder_says_of_its_store_nothing_is_opened_unasked(gift, uec, tmp_path):
    """A pickle that runs, and a server that hears whoever comes, at every place and key."""
    theirs = QdrantStore(path=tmp_path / "qdrant", collection="x")
    theirs.add(numbered(range(3)), gaussians(0, 3))
    theirs.close()
    [file] = (tmp_path / "qdrant").glob("collection/x/*.sqlite")
    with sqlite3.connect(file) as database:
        bomb = pickle.dumps(Bomb(tmp_path / "ran"))
        database.execute("UPDATE points SET point = ?", [bomb])
    rng, tried, loaded = random.Random(0), times(200, 5000), 0
    with a_stranger() as (port, sent):
        address = f"127.0.0.1:{port}"
        places = [f"http://{address}", f"postgresql://{address}/db", str(tmp_path / "qdrant")]
        places += ["inside", f"../{tmp_path.name}/qdrant", f"host=127.0.0.1 port={port}", address]
        keys = ["store", "collection", "path", "url", "dsn", "location", "host", "client", "dtype"]
        keys += ["candidates", "api_key", "index", "count", "dimension", "segments", "trust"]
        seeds = [
            json.loads((files_of(index) / "store" / "store.json").read_text())
            for index in [gift({"store": "memory"}).with_name("mine")]
        ]
        seeds += [{"store": "qdrant", "collection": "x", "path": place} for place in places]
        seeds += [{"store": "qdrant", "collection": "x", "url": place} for place in places]
        seeds += [{"store": "pgvector", "collection": "x", "dsn": place} for place in places]
        for _ in range(tried):
            noted = dict(rng.choice(seeds))
            for _ in range(rng.randrange(3)):
                noted[rng.choice([*keys, *noted])] = rng.choice([*NASTY, *places])
            if rng.random() < 0.1:
                noted = rng.choice([noted, *NASTY])
            for trust in (False, True):
                if trust and str(port) in str(noted):
                    continue  # who trusts a folder has its server opened
                try:
                    Retriever.load(gift(noted), uec, trust=trust)
                except ValueError:  # IndexCorrupted, FingerprintMismatch
                    continue
                except ConnectionError:
                    assert trust
                    continue
                loaded += 1
    assert not sent
    assert not (tmp_path / "ran").exists()
    report(f"{tried:,} descriptions of a store: {loaded} loaded, nothing opened, nobody asked")


def test_a_store_of_another_package_is_opened_for_those_who_say_so(gift, uec, monkeypatch):
    opened = []

    class Cellar(MemoryStore):
        @classmethod
        def load(cls, folder, *, device=None):
            opened.append(folder)
            return cls()

    point = SimpleNamespace(name="cellar", value="cellars:Cellar", load=lambda: Cellar)
    monkeypatch.setattr(places, "entry_points", lambda group: [point])
    monkeypatch.setenv(TRUSTED, "*, cellar, cellars:Cellar")
    index = gift({"store": "cellar"})
    with pytest.raises(ValueError, match=r"kept by 'cellars:Cellar', .*store=.*trust=True"):
        Retriever.load(index, uec)
    assert not opened
    assert isinstance(Retriever.load(index, uec, trust=True).store, Cellar)
    assert len(opened) == 1


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


def test_ones_own_index_is_opened_as_the_error_says(engine, uec, tmp_path, monkeypatch):
    index = index_of(uec, ["a text", "another text"], ["a", "b"], store=engine())
    index.save(tmp_path / "index")
    index.store.close()
    with pytest.raises(ValueError, match=r"Retriever\.load\(path, store=\.\.\.\)") as said:
        Retriever.load(tmp_path / "index", uec)
    ways = [lambda: Retriever.load(tmp_path / "index", uec, store=engine())]
    if "never" not in str(said.value):
        ways.append(lambda: Retriever.load(tmp_path / "index", uec, trust=True))

        def listed():
            named = str(said.value).partition(f"{TRUSTED}='")[2].partition("'")[0]
            monkeypatch.setenv(TRUSTED, named)
            return Retriever.load(tmp_path / "index", uec)

        ways.append(listed)
    for way in ways:
        loaded = way()
        assert loaded.search(["a text"], k=1).ids == [["a"]]
        loaded.store.close()


def test_both_frameworks_hand_the_store_on(engine, uec, tmp_path):
    from uec_rag.langchain import UECVectorStore
    from uec_rag.llama_index import UECVectorStore as LlamaIndexStore

    index = index_of(uec, ["a text", "another text"], ["a", "b"], store=engine())
    index.save(tmp_path / "index")
    data, path = LlamaIndexStore(index).to_dict(), str(tmp_path / "index")
    index.store.close()
    for load in (
        lambda **options: UECVectorStore.load(path, uec, **options),
        lambda **options: LlamaIndexStore.from_persist_path(path, uec=uec, **options),
        lambda **options: LlamaIndexStore.from_dict(data, uec=uec, **options),
    ):
        with pytest.raises(ValueError, match=r"store=\.\.\."):
            load()
        ways = [{"trust": True}, {"store": engine}]
        for options in ways[isinstance(index.store, QdrantStore) and not index.store._place.url :]:
            given = {name: value if value is True else value() for name, value in options.items()}
            loaded = load(**given).retriever
            assert loaded.search(["a text"], k=1).ids == [["a"]]
            loaded.store.close()


def test_a_store_is_given_where_there_is_one_and_must_be_one(uec, small, tmp_path):
    small.save(tmp_path / "index")
    with pytest.raises(ValueError, match=r"store: expected none, .* holds its passages itself"):
        Retriever.load(tmp_path / "index", small.uec, store=MemoryStore())
    with pytest.raises(TypeError, match=r"store: expected a store, .* got str") as said:
        Retriever.load(tmp_path / "index", small.uec, store="postgresql://me:secret@host/db")
    assert "secret" not in str(said.value)


def test_the_code_of_a_model_that_a_folder_names_does_not_run(tmp_path):
    """sentence-transformers would run it, if it were told to trust the folder."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass It: pass\n")
    write_json(model / "modules.json", {})
    modules = '[{"idx": 0, "name": "0", "path": "", "type": "theirs.It"}]'
    (model / "modules.json").write_text(modules)
    UEC([bag_of_words(8, "bag")]).save(tmp_path / "saved")
    with writing(tmp_path / "naming", "UEC ensemble") as folder:
        text = (files_of(tmp_path / "saved") / "uec.json").read_text()
        (folder / "uec.json").write_text(text.replace('"spec": null', f'"spec": "{model}"'))
    for trust in (True, False):
        with pytest.raises((OSError, ValueError), match="no model's code is run"):
            UEC.load(tmp_path / "naming", trust=trust)
    assert not (tmp_path / "ran").exists()
    assert os.fspath(model) in (files_of(tmp_path / "naming") / "uec.json").read_text()
