"""What is deleted or replaced leaves nothing in the files of an index."""

import subprocess
import sys
import time
from contextlib import closing, suppress

import numpy as np
import pytest

from tests.helpers import index_of, load_index
from uec_rag import Retriever
from uec_rag.stores import LocalStore

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
    vectors = [row.tobytes() for row in index.vectors(ids).mean.astype(np.float32)]
    return [*PRIVATE, *vectors]


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


def test_what_another_process_left_is_removed_by_the_next(index):
    code = "import sys, os; from uec_rag.stores import LocalStore; "
    code += "LocalStore(sys.argv[1]).delete(['s']); os._exit(1)"
    subprocess.run([sys.executable, "-c", code, str(index.folder)], check=False)
    index.search(["badero"])
    assert left_in(index.folder, PRIVATE) == []


def test_a_search_waits_for_no_writer(index):
    with closing(LocalStore(index.folder)) as other:
        index.delete(["s"])
        with other.changing():
            assert index.search(["badero"]).ids[0][0] == "a"
            assert left_in(index.folder, PRIVATE) == PRIVATE
        index.search(["badero"])
    assert left_in(index.folder, PRIVATE) == []


def test_only_who_may_write_compacts(index):
    with pytest.raises(PermissionError):
        Retriever.load(index.folder, index.uec, read_only=True).compact()
    with pytest.raises(RuntimeError):
        index.snapshot().compact()
