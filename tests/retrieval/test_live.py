"""A saved index in use while it is saved anew, by others and by its user."""

import os
import shutil
from threading import Event, Thread, Timer

import pytest
from filelock import FileLock

from tests.helpers import index_of
from uec_rag import UEC, Gate, Retriever
from uec_rag.base.errors import SavedMeanwhile
from uec_rag.confidence.risk import Guarantee
from uec_rag.retrieval.live import IndexLocation, LiveIndex


def saved(folder, *texts):
    made = index_of(UEC(["bm25"]), [*texts], [*texts])
    made.save(folder)


def held(live):
    with live.use() as opened:
        return {passage.id for passage in opened.retriever.passages()}


@pytest.fixture
def index(tmp_path):
    saved(tmp_path / "idx", "mill", "yard")
    return tmp_path / "idx"


@pytest.fixture
def live(index):
    return LiveIndex(IndexLocation(index))


def damage(index):
    """What a save that broke would leave: a manifest that names passages which are not there."""
    saved(index, "mill", "zebra")
    for file in (index / "generations").rglob("passages*"):
        file.write_bytes(b"nothing")


def test_a_new_save_is_taken_up_once_and_who_uses_the_old_one_keeps_it(live, index):
    with live.use() as before:
        saved(index, "zebra")
        assert (live.refresh(), live.refresh()) == (True, False)
        assert {passage.id for passage in before.retriever.passages()} == {"mill", "yard"}
        assert held(live) == {"zebra"}


def test_a_damaged_save_is_told_once_and_neither_taken_up_nor_overwritten(live, index, caplog):
    damage(index)
    left = (index / "manifest.json").read_bytes()
    assert (live.refresh(), live.refresh()) == (False, False)
    assert "cannot be opened" in live.problem
    assert caplog.text.count("the previous one stays in use") == 1
    with pytest.raises(OSError, match=r"Nothing was changed: .* cannot be opened"):
        live.write(lambda retriever: retriever.add(["gnu"], ["gnu"]))
    assert held(live) == {"mill", "yard"}
    assert (index / "manifest.json").read_bytes() == left
    saved(index, "okapi")
    assert live.refresh()
    assert (live.problem, held(live)) == ("", {"okapi"})


def test_a_save_that_is_out_of_reach_for_a_while_is_tried_again(live, index, monkeypatch):
    saved(index, "zebra")

    def away(*_, **__):
        raise ConnectionError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(Retriever, "load", away)
        assert not live.refresh()
    assert live.refresh()
    assert held(live) == {"zebra"}


def test_a_change_is_saved_and_its_own_save_is_not_opened_again(live, index):
    assert live.write(lambda retriever: retriever.add(["gnu"], ["gnu"])) == ["gnu"]
    assert not live.refresh()
    assert held(LiveIndex(IndexLocation(index))) == held(live) == {"mill", "yard", "gnu"}


def test_a_change_that_fails_or_meets_another_save_leaves_what_is_saved(live, index):
    def breaks(retriever):
        retriever.delete(["mill"])
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        live.write(breaks)
    assert held(live) == {"mill", "yard"}
    with pytest.raises(BlockingIOError):
        live.write(lambda retriever: [retriever.delete(["mill"]), saved(index, "zebra")])
    assert held(live) == {"zebra"}


def test_changes_of_two_who_opened_the_same_save_are_both_kept(live, index):
    other = LiveIndex(IndexLocation(index))
    for writer, id_ in ((live, "gnu"), (other, "okapi"), (live, "zebra")):
        writer.write(lambda retriever, id_=id_: retriever.add([id_], [id_]))
    assert (
        held(LiveIndex(IndexLocation(index)))
        == held(live)
        == {"mill", "yard", "gnu", "okapi", "zebra"}
    )


def test_a_save_that_would_undo_another_is_refused_whoever_makes_it(live, index, tmp_path):
    other = Retriever.load(index)
    live.write(lambda retriever: retriever.add(["gnu"], ["gnu"]))
    other.delete(["mill"])
    with pytest.raises(SavedMeanwhile, match="saved by another process since it was loaded"):
        other.save(index)
    assert held(LiveIndex(IndexLocation(index))) == {"mill", "yard", "gnu"}
    other.save(tmp_path / "elsewhere")
    other.save(tmp_path / "elsewhere")
    Retriever(UEC(["bm25"])).save(index)  # one made anew replaces what is there
    assert held(LiveIndex(IndexLocation(index))) == set()


def test_what_changes_nothing_or_is_refused_saves_and_opens_nothing(live, index, monkeypatch):
    manifest = (index / "manifest.json").read_bytes()
    with live.use() as opened, monkeypatch.context() as patched:
        patched.setattr(Retriever, "load", None)
        assert live.write(lambda retriever: retriever.delete(["nowhere"])) == 0
        with pytest.raises(TypeError):
            live.write(lambda retriever: retriever.add(["gnu"], [3]))
    with live.use() as after:
        assert after is opened
    assert (index / "manifest.json").read_bytes() == manifest


def test_a_change_waits_for_who_is_saving_and_is_told_after_a_while(live, index, monkeypatch):
    monkeypatch.setattr("uec_rag.retrieval.live._PATIENCE", 60)
    lock = FileLock(index / ".lock", thread_local=False)
    lock.acquire()
    Timer(0.2, lock.release).start()
    live.write(lambda retriever: retriever.add(["gnu"], ["gnu"]))
    monkeypatch.setattr("uec_rag.retrieval.live._PATIENCE", 0)
    with lock, pytest.raises(BlockingIOError, match="another process or thread is saving"):
        live.write(lambda retriever: retriever.delete(["gnu"]))
    assert held(live) == {"mill", "yard", "gnu"}


def test_an_unfitted_ensemble_warns_once_however_often_it_is_saved_anew(live, index, recwarn):
    other = LiveIndex(IndexLocation(index))
    for number in range(3):
        live.write(lambda retriever, id_=f"a{number}": retriever.add([id_], [id_]))
        other.write(lambda retriever, id_=f"b{number}": retriever.add([id_], [id_]))
    warned = [w for w in recwarn if "not fitted" in str(w.message)]
    assert len(warned) == 2  # of each process that has it open


def test_who_looks_for_a_new_save_does_not_wait_for_who_writes(live):
    begun, go_on = Event(), Event()
    writing = Thread(target=live.write, args=[lambda _: [begun.set(), go_on.wait(60)]])
    writing.start()
    assert begun.wait(60)
    assert not live.refresh()
    assert held(live) == {"mill", "yard"}
    go_on.set()
    writing.join()


def test_an_index_that_is_gone_goes_on_answering_and_is_taken_up_when_it_is_back(live, index):
    os.replace(index, index.with_name("away"))
    assert not live.refresh()
    assert held(live) == {"mill", "yard"}
    shutil.copytree(index.with_name("away"), index)
    assert live.refresh()


@pytest.mark.parametrize("made_for", [{"basis": "a"}, {"size": 10**6}, {"corpus": "a"}])
def test_a_gate_comes_with_the_index_and_one_of_another_is_told(index, tmp_path, caplog, made_for):
    gate = Gate(0.5, Guarantee(0.5, 0.1, 0.05, 100, 50, 2, 29), k=3, **made_for)
    gate.save(tmp_path / "gate.json")
    with LiveIndex(IndexLocation(index, gate=tmp_path / "gate.json")).use() as opened:
        assert opened.gate == gate
    assert "recalibrate it with 'uec-rag gate'" in caplog.text
