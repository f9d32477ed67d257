"""A store's files, written an addition at a time."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.stores.test_contract import gaussians, numbered
from tests.stores.test_contract_words import with_words
from uec_rag import FingerprintMismatch, Gaussian
from uec_rag.stores import MemoryStore, Passage
from uec_rag.stores.memory.saved import StreamedStore

PARTS = [range(30), range(30, 31), range(31, 100)]


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def filled(store, stored):
    store.bind("an ensemble")
    for rows in PARTS:
        store.add(numbered(rows, text="ünïcode"), stored[[*rows]])
    assert len(store) == 100
    return store


def streamed(folder, stored, **options):
    folder.mkdir()
    with StreamedStore(folder, **options) as store:
        filled(store, stored).finish()
    return contents(folder)


def saved(folder, stored, **options):
    folder.mkdir()
    filled(MemoryStore(**options), stored).save(folder)
    return contents(folder)


@pytest.mark.parametrize(
    "stored", [gaussians(0, 100), gaussians(0, 100, False), with_words(0, 100)]
)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_its_files_are_those_that_a_store_in_memory_saves(tmp_path, dtype, stored):
    written = streamed(tmp_path / "streamed", stored, dtype=dtype)
    wanted = saved(tmp_path / "saved", stored, dtype=dtype)
    assert written.keys() == wanted.keys()
    assert [name for name in wanted if written[name] != wanted[name]] == []


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_nothing_added_is_an_empty_store(tmp_path, dtype):
    for name in ("streamed", "saved"):
        (tmp_path / name).mkdir()
    with StreamedStore(tmp_path / "streamed", dtype=dtype) as store:
        store.add([], gaussians(0, 0))
        store.finish()
    MemoryStore(dtype=dtype).save(tmp_path / "saved")
    assert contents(tmp_path / "streamed") == contents(tmp_path / "saved")
    assert len(MemoryStore.load(tmp_path / "streamed")) == 0


WRONG = {
    "an id that was there": (numbered([3]), gaussians(1, 1), "'p3' was added before"),
    "one id twice": (numbered([7, 7]), gaussians(1, 2), "'p7' is given twice"),
    "another width": (numbered([7]), Gaussian(np.ones((1, 5)), np.ones((1, 5))), "dimension 8"),
    "another posterior": (numbered([7]), gaussians(1, 1, factored=False), "another profile"),
    "too few": (numbered([7]), gaussians(1, 2), "expected 1, one per passage"),
    "no JSON": ([Passage("p7", "text", {"a": {1, 2}})], gaussians(1, 1), "got set"),
}


@pytest.mark.parametrize(("passages", "given", "message"), WRONG.values(), ids=WRONG)
def test_what_is_refused_leaves_no_trace(tmp_path, passages, given, message):
    stored = gaussians(0, 100)
    for name in "ab":
        (tmp_path / name).mkdir()
    with (
        StreamedStore(tmp_path / "a", dtype="int8") as one,
        StreamedStore(tmp_path / "b", dtype="int8") as other,
    ):
        for rows in PARTS:
            one.add(numbered(rows), stored[[*rows]])
            other.add(numbered(rows), stored[[*rows]])
            with pytest.raises((ValueError, TypeError), match=re.escape(message)):
                one.add(passages, given)
        one.finish()
        other.finish()
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_an_addition_that_ended_half_way_is_neither_finished_nor_followed(tmp_path, monkeypatch):
    with StreamedStore(tmp_path) as store:
        store.add(numbered(range(3)), gaussians(0, 3))
        with monkeypatch.context() as patched:
            patched.setattr(store, "_append", lambda arrays: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                store.add(numbered(range(3, 5)), gaussians(0, 2))
        for go_on in (lambda: store.add(numbered(range(3, 5)), gaussians(0, 2)), store.finish):
            with pytest.raises(RuntimeError, match="an addition to this index failed half-way"):
                go_on()


def test_several_threads_add(tmp_path):
    """Each writes many times: rows of means and passages stay side by side."""

    def fill(writer):
        for number in range(writer, 400, 8):
            mean = np.full((5, 4), number, dtype=np.float32)
            store.add(numbered(range(5 * number, 5 * number + 5)), Gaussian(mean, np.ones((5, 4))))

    with StreamedStore(tmp_path) as store, ThreadPoolExecutor(8) as writers:
        [*writers.map(fill, range(8))]
        store.finish()
    loaded = MemoryStore.load(tmp_path)
    ids = [f"p{row}" for row in range(2000)]
    assert len(loaded) == 2000
    np.testing.assert_array_equal(loaded.vectors(ids).mean[:, 0], np.arange(2000) // 5)


def test_it_is_only_added_to_by_one_ensemble_until_it_is_filled(tmp_path):
    with StreamedStore(tmp_path) as store:
        store.bind("one")
        store.bind("another")
        store.add(numbered(range(3)), gaussians(0, 3))
        with pytest.raises(FingerprintMismatch, match="vectors of another ensemble"):
            store.bind("one")
        for name in ("search", "get", "delete", "passages", "vectors"):
            with pytest.raises(AttributeError, match=f"{name}: this index is being filled"):
                getattr(store, name)
        store.finish()
        with pytest.raises(RuntimeError, match="has been filled; load it"):
            store.add(numbered([3]), gaussians(1, 1))
    with pytest.raises(ValueError, match="dtype: expected one of"):
        StreamedStore(tmp_path, dtype="int4")
