"""What is deleted or replaced leaves nothing in the files of an index."""

import subprocess
import sys
import threading
import time
from contextlib import closing, suppress

import numpy as np
import pytest

from tests.helpers import index_of, load_index
from uec_rag import UEC, Gaussian, Retriever
from uec_rag.stores import LocalStore
from uec_rag.stores.local import cleaning
from uec_rag.stores.local.database import Database
from uec_rag.stores.passage import Passage

SECRET = "the account of Quirinus Zwolle is overdrawn"
OTHERS = [f"golugo {word} nepine" for word in ("badero", "tavone", "sirapu", "zumeki")]
METADATA = {"source": "zwolle.md", "owner": "Xaverius"}
PRIVATE = [b"Quirinus", b"overdrawn", b"zwolle.md", b"Xaverius"]


@pytest.fixture
def index(with_words, tmp_path):
    """A saved index of a secret and four other passages."""
    index = index_of(with_words, [*OTHERS, SECRET], [*"abcd", "s"], [{}] * 4 + [METADATA])
    index.save(tmp_path / "index")
    yield index
    index.close()


def left_in(folder, private):
    """What of some bytes the files of a folder have."""
    content = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    return [one for one in private if one in content]


def private_bytes(index, ids):
    """The bytes of passages: texts, metadata and each encoder's vector."""
    blocks = [part.embedding for part in index.store.vectors(ids) if part.embedding.size]
    return [*PRIVATE, *(row.tobytes() for block in blocks for row in block)]


REMOVALS = {
    "deleted": lambda index: index.delete(["s"]),
    "replaced": lambda index: index.add(["sirapu"], ids=["s"]),
    "replaced twice": lambda index: [
        index.add([text], ids=["s"]) for text in ("Quirinus is overdrawn", "sirapu")
    ],
    "cleared": lambda index: index.clear(),
    "deleted, and others added": lambda index: (index.delete(["s"]), index.add(OTHERS)),
    "undone at first": lambda index: (undo(index), index.delete(["s"])),
    "saved over": lambda index: index_of(index.uec, OTHERS).save(index.folder),
}
NEXT = {
    "search": lambda index: index.search(["badero"]),
    "search by a vector": lambda index: index.search_vector(np.ones(index.uec.dimension)),
    "check": lambda index: index.check(),
    "close": lambda index: index.close(),
    "compact": lambda index: index.compact(),
    "load and search": lambda index: reopened(index).search(["badero"]),
}


def undo(index):
    with suppress(KeyError), index.changing():
        index.delete(["s"])
        raise KeyError


def reopened(index):
    return load_index(index.folder, index.uec)


@pytest.mark.parametrize("next_", NEXT)
@pytest.mark.parametrize("how", REMOVALS)
def test_what_was_removed_is_in_no_file_after_the_next_search_check_or_close(index, how, next_):
    folder, private = index.folder, private_bytes(index, ["s"])
    assert left_in(folder, PRIVATE) == PRIVATE
    REMOVALS[how](index)
    held = [(passage.id, passage.text) for passage in index.passages()]
    before = index.search(["badero"], k=3) if next_ == "check" else None
    NEXT[next_](index)
    assert left_in(folder, private) == []
    with closing(load_index(folder, index.uec, read_only=True)) as again:
        assert [(passage.id, passage.text) for passage in again.passages()] == held
        again.check()
        if before is not None:
            assert again.search(["badero"], k=3).ids == before.ids


def test_snapshots_of_this_process_stay_as_they_were(index):
    views = [index.snapshot(), reopened(index).snapshot()]
    index.delete(["a", "s"])
    index.compact()
    for view in views:
        assert [passage.text for passage in view.passages()] == [*OTHERS, SECRET]
        assert view.search(["account of Quirinus"]).ids[0][0] == "s"
    assert len(index) == 3


def test_other_processes_may_read_it_for_a_minute_unless_it_is_removed_at_once(index, monkeypatch):
    code = "import sys; from uec_rag.stores import LocalStore; s = LocalStore(sys.argv[1]); "
    code += "print(len(s), flush=True); sys.stdin.read()"
    arguments = [sys.executable, "-c", code, str(index.folder)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert int(other.stdout.readline()) == 5
        index.delete(["s"])
        index.search(["badero"])
        assert left_in(index.folder, PRIVATE) == PRIVATE
        later = time.time() + 61
        monkeypatch.setattr(time, "time", lambda: later)
        index.search(["badero"])
        assert left_in(index.folder, PRIVATE) == []
        index.add([SECRET], ids=["s"], metadatas=[METADATA])
        index.delete(["s"])
        index.compact()
        assert left_in(index.folder, PRIVATE) == []
        other.communicate()


def delete_elsewhere(folder, ids):
    """Delete passages in another process, which ends before it has removed them from files."""
    code = "import sys, os; from uec_rag.stores import LocalStore; "
    code += "LocalStore(sys.argv[1]).delete(sys.argv[2:]); os._exit(1)"
    subprocess.run([sys.executable, "-c", code, str(folder), *ids], check=False)


def test_what_another_process_left_is_removed_by_the_next_search_which_waits_for_no_writer(index):
    delete_elsewhere(index.folder, ["s"])
    with closing(LocalStore(index.folder)) as other:
        with other.changing():
            assert index.search(["badero"]).ids[0][0] == "a"
            assert left_in(index.folder, PRIVATE) == PRIVATE
        index.search(["badero"])
    assert left_in(index.folder, PRIVATE) == []


MANY = 6000  # in one segment, which no search writes again


@pytest.fixture
def large(tmp_path):
    """A store with a secret among many passages."""
    store = LocalStore(tmp_path / "large")
    numbers = np.random.default_rng(0).standard_normal((MANY, 8)).astype(np.float32)
    held = [Passage(f"p{n}", f"text {n}", {"n": n}) for n in range(MANY - 1)]
    store.add([Passage("s", SECRET, METADATA), *held], Gaussian(numbers, np.zeros((MANY, 8))))
    yield store
    store.close()


def segments_of(store):
    return {part.name for part in store.snapshot().state.parts}


def vector_of(store, id_):
    return [part.embedding.tobytes() for part in store.vectors([id_])]


def test_few_of_many_leave_no_text_at_once_and_no_vector_soon_after(large, monkeypatch):
    calm, run = threading.Event(), cleaning.Cleaning._run
    monkeypatch.setattr(cleaning, "_CALM", 0.0)
    monkeypatch.setattr(cleaning.Cleaning, "_run", lambda self: calm.wait(60) and run(self))
    vector, before = vector_of(large, "s"), segments_of(large)
    large.delete(["s"])
    assert left_in(large.folder, PRIVATE) == []
    asked = Gaussian(np.ones((1, 8)), np.zeros((1, 8)))
    large.remove_deleted()
    assert large.snapshot().search(asked, 3, beta=1.0).passages
    assert segments_of(large) == before  # nothing that grows with them was done for a question
    calm.set()
    end = time.time() + 60
    while segments_of(large) == before and time.time() < end:
        time.sleep(0.05)
    assert left_in(large.folder, vector) == []
    large.check()


@pytest.mark.parametrize("share", [100, 10, 2])
def test_many_are_removed_where_they_are_deleted(large, share):
    vector, before = vector_of(large, "s"), segments_of(large)
    large.delete(["s", *(f"p{n}" for n in range(0, MANY, share))])
    assert left_in(large.folder, [*PRIVATE, *vector]) == []
    assert not segments_of(large) & before
    large.check()


@pytest.mark.parametrize("next_", ["compact", "check", "close"])
def test_what_was_deleted_is_gone_without_waiting_where_that_is_asked(large, next_):
    vector = vector_of(large, "s")
    large.delete(["s"])
    getattr(large, next_)()
    assert left_in(large.folder, [*PRIVATE, *vector]) == []


def test_what_a_killed_process_left_of_many_is_removed_beside(large, monkeypatch):
    monkeypatch.setattr(cleaning, "_CALM", 0.0)
    private = [*PRIVATE, *vector_of(large, "s")]
    delete_elsewhere(large.folder, ["s", *(f"p{n}" for n in range(0, MANY, 10))])
    large.remove_deleted()
    end = time.time() + 60
    while left_in(large.folder, private) and time.time() < end:
        time.sleep(0.05)
    assert left_in(large.folder, private) == []


def test_views_still_find_what_was_deleted(large):
    view, filled = large.snapshot(), {"owner": "Xaverius"}
    large.delete(["s"])
    large.compact()
    assert [one.text for one in view.get(["s", "p1"])] == [SECRET, "text 1"]
    assert [one.id for one in view.snapshot(filled).passages()] == ["s"]
    assert large.get(["s"]) == [*large.snapshot(filled).passages()] == []


def test_the_scan_of_what_is_left_is_that_of_what_there_was(large):
    [part] = large.snapshot().state.parts
    _ = part.segment.scans
    large.delete([f"p{n}" for n in range(0, MANY, 3)])
    [left] = large.snapshot().state.parts
    [scan], [block] = left.segment.__dict__["scans"], left.segment.vectors
    assert scan.means is (means := block.embedding)
    asked = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    found, errors = scan.by_bytes(asked)
    assert (np.abs(found - asked @ means.T) <= errors[:, None]).all()


def test_only_who_may_write_compacts(index):
    with pytest.raises(PermissionError):
        Retriever.load(index.folder, index.uec, read_only=True).compact()
    with pytest.raises(RuntimeError):
        index.snapshot().compact()


READS = {
    "by a filter": lambda view: [*view.passages({"t": "a"})],
    "by its id": lambda view: view.get(["a"]),
    "all": lambda view: [*view.passages()][:1],
}


@pytest.mark.parametrize("way", READS)
def test_what_is_removed_just_before_a_view_reads_it_is_still_read(way, monkeypatch):
    index = Retriever(UEC(["bm25"]), fit=False)
    index.add(["camera of a", "camera of b"], ["a", "b"], [{"t": "a"}, {"t": "b"}])
    view, ask = index.store.snapshot(), Database.ask

    def remove_before(self, sql, parameters=()):
        monkeypatch.setattr(Database, "ask", ask)
        index.delete(["a"])
        index.compact()
        return ask(self, sql, parameters)

    monkeypatch.setattr(Database, "ask", remove_before)
    assert [passage.id for passage in READS[way](view)] == ["a"]
    assert [passage.id for passage in index.passages()] == ["b"]
