"""Damaged, mixed and made-up folders: never a silent difference, a crash or a hang."""

import copy
import json
import os
import random
import shutil
import sys
import warnings

import numpy as np
import pytest

from tests.helpers import assert_same_result, files_of, labelled
from tests.survival.in_a_child import in_batches, run
from tests.survival.scale import report, times
from uec_rag import IndexCorrupted, Retriever
from uec_rag.base.generations import writing
from uec_rag.retrieval.save import KIND
from uec_rag.stores.memory import MemoryStore

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="processes are forked"),
    pytest.mark.slow,
]

QUERIES = ["badero fimafi", "golugo"]
STORES = {"exact": {}, "hnsw": {"index": "hnsw"}, "int8": {"dtype": "int8"}}


def load(path, uec, **options):
    encoders = dict(zip(uec.names, uec.encoders, strict=True))
    return Retriever.load(path, encoders=encoders, **options)


@pytest.fixture(params=STORES)
def saved(request, fitted, texts, tmp_path):
    """A saved index, calibrated, and what it finds."""
    index = Retriever(fitted, MemoryStore(**STORES[request.param]))
    ids = [f"p{i}" for i in range(60)]
    index.add(texts[:60], ids=ids, metadatas=[{"number": i} for i in range(60)])
    index.calibrate(*labelled(texts[:60], 60, unanswerable=0.2))
    index.save(tmp_path / "index")
    return tmp_path / "index", load(tmp_path / "index", fitted).search(QUERIES, k=5)


def files(path):
    return sorted(f for f in path.rglob("*") if f.is_file() and not f.name.startswith("."))


def test_flipped_bits_and_cut_or_exchanged_bytes_are_noticed(saved, fitted):
    path, expected = saved
    rng, found = random.Random(0), files(path)

    def experiment(item):
        file, seed, how = item
        content = file.read_bytes()
        changed, at = bytearray(content), random.Random(seed).randrange(len(content))
        if how == "flip":
            changed[at] ^= 1 << seed % 8
        elif how == "cut":
            del changed[at:]
        else:
            changed[at : at + 64] = random.Random(seed).randbytes(len(changed[at : at + 64]))
        file.write_bytes(changed)
        try:
            if bytes(changed) == content:
                return
            try:
                loaded = load(path, fitted)
            except IndexCorrupted:
                return
            assert_same_result(loaded.search(QUERIES, k=5), expected)
        finally:
            file.write_bytes(content)

    ways = ["flip"] * 8 + ["cut", "noise"]
    items = [
        (rng.choice(found), rng.randrange(2**31), rng.choice(ways)) for _ in range(times(150, 3400))
    ]
    wrong = [entry for batch in in_batches(items) for entry in run(experiment, batch)]
    assert not wrong, wrong[:3]
    report(f"{len(items)} flips, cuts and noise in {len(found)} files: none unnoticed, no crash")


def test_files_of_two_indexes_are_never_mixed(saved, fitted, texts, tmp_path):
    path, _ = saved
    other = load(path, fitted)
    other.add(texts[60:120], ids=[f"p{i}" for i in range(60)])
    other.save(tmp_path / "other")
    swapped = 0
    for file in files(files_of(path)):
        name = file.relative_to(files_of(path))
        twin = files_of(tmp_path / "other") / name
        content = file.read_bytes()
        if not twin.exists() or twin.read_bytes() == content:
            continue
        file.write_bytes(twin.read_bytes())
        with pytest.raises(IndexCorrupted):
            load(path, fitted)
        file.write_bytes(content)
        swapped += 1
    assert swapped >= 3


NASTY = [
    *(None, True, -1, 0, 1e9, 10**9, 2**63, 1e308, float("nan"), float("inf"), "", "x", "../../x"),
    *([], {}, [[]], [None], {"x": 1}, "x" * 1000, [0] * 1000, "/dev/zero", "\ud800"),
]


def _places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from _places(value[key], (*path, key))
    elif isinstance(value, list):
        for number in range(min(len(value), 3)):
            yield from _places(value[number], (*path, number))


def _with(value, path, nasty):
    if not path:
        return nasty
    changed = copy.copy(value)
    changed[path[0]] = _with(value[path[0]], path[1:], nasty)
    return changed


def test_made_up_values_are_refused_or_harmless(saved, fitted, tmp_path):
    """Folders whose hashes are right and whose content is not: a stranger's."""
    path, _ = saved
    rng, items = random.Random(1), []
    for file in files(files_of(path)):
        name = str(file.relative_to(files_of(path)))
        if name.endswith(".json"):
            places = list(_places(json.loads(file.read_text())))
            items += [(name, place, nasty) for place in places for nasty in NASTY]
        if name.endswith(".npy"):
            array = np.load(file)
            changes = [array[:-1], array[:, :-1] if array.ndim > 1 else array[:0], array.T.copy()]
            changes += [array.astype("f8"), array.astype("i8"), array * 0, array - 1]
            changes += [np.full(array.shape, v).astype(array.dtype) for v in (2**30, -1)]
            items += [(name, None, change) for change in changes]
        if name.endswith(".jsonl"):
            lines = [
                b"\n",
                b"{}",
                b"[" * 10_000,
                b"\xff",
                b"null",
                b'{"id": 3, "text": [], "x": 1}',
            ]
            items += [(name, None, line) for line in lines]

    def experiment(item):
        name, place, change = item
        made_up = tmp_path / "made up"
        with writing(made_up, KIND) as folder:
            shutil.copytree(files_of(path), folder, dirs_exist_ok=True)
            if place is not None:
                value = json.loads((folder / name).read_text())
                text = json.dumps(_with(value, place, change))
                (folder / name).write_text(text)
            elif isinstance(change, bytes):
                (folder / name).write_bytes((folder / name).read_bytes().replace(b'{"id"', change))
            else:
                np.save(folder / name, change)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                loaded = load(made_up, fitted)
                loaded.search(QUERIES, k=5)
                loaded.get(["p0"])
                loaded.delete(["p1"])
                len(loaded)
            except ValueError:
                return

    rng.shuffle(items)
    items = items[: times(120, 1500)]
    wrong = [entry for batch in in_batches(items) for entry in run(experiment, batch)]
    assert not wrong, "\n".join(f"{entry[0]}: {entry[1][-300:]}" for entry in wrong[:10])
    report(f"{len(items)} made-up folders: all refused or harmless")


def test_odd_files_in_place_of_ours_are_refused_at_once(saved, fitted, tmp_path):
    path, _ = saved
    (tmp_path / "secret").write_text("{}")

    def experiment(item):
        name, kind = item
        file = path / name
        kept = file.rename(tmp_path / "kept")
        try:
            if kind == "pipe":
                os.mkfifo(file)
            elif kind == "folder":
                file.mkdir()
            else:
                file.symlink_to({"zero": "/dev/zero", "itself": kept, "file": "/etc/hosts"}[kind])
            with pytest.raises(IndexCorrupted):
                load(path, fitted, verify=False)
        finally:
            file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()
            kept.rename(file)

    kinds = ["pipe", "folder", "zero", "itself", "file"]
    items = [(str(f.relative_to(path)), kind) for f in files(path) for kind in kinds]
    wrong = [entry for batch in in_batches(items) for entry in run(experiment, batch)]
    assert not wrong, wrong[:3]
    report(f"{len(items)} pipes, devices, links and folders in place of files: all refused")
