"""Damaged, mixed and made-up folders: never a silent difference, a crash or a hang."""

import copy
import json
import os
import random
import warnings

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.helpers import (
    NUMERIC,
    assert_same_bits,
    bag_of_words,
    files_of,
    labelled,
    load_index,
    pairs,
    resaved,
)
from tests.survival.in_a_child import FORKED, run_all
from tests.survival.scale import report, times
from uec_rag import UEC, FingerprintMismatch, IndexCorrupted, Retriever
from uec_rag.base.files import read_tensors
from uec_rag.retrieval.save import KIND
from uec_rag.stores.local import LocalStore

pytestmark = FORKED

QUERIES = ["badero fimafi", "golugo"]
STORES = {"exact": {}, "int8": {"dtype": "int8"}}


@pytest.fixture(params=STORES)
def saved(request, fitted, texts, tmp_path):
    """A saved index, calibrated, and what it finds."""
    index = Retriever(fitted, LocalStore(**STORES[request.param]))
    ids = [f"p{i}" for i in range(60)]
    index.add(texts[:60], ids=ids, metadatas=[{"number": i} for i in range(60)])
    index.calibrate(*labelled(texts[:60], 60, unanswerable_rate=0.2))
    index.save(tmp_path / "index")
    return tmp_path / "index", load_index(tmp_path / "index", fitted).search(QUERIES, k=5)


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
                loaded = load_index(path, fitted)
            except IndexCorrupted:
                return
            assert_same_bits(loaded.search(QUERIES, k=5), expected)
        finally:
            file.write_bytes(content)

    ways = ["flip"] * 8 + ["cut", "noise"]
    items = [
        (rng.choice(found), rng.randrange(2**31), rng.choice(ways)) for _ in range(times(150, 3400))
    ]
    wrong = run_all(experiment, items)
    assert not wrong, wrong[:3]
    report(f"{len(items)} flips, cuts and noise in {len(found)} files: none unnoticed, no crash")


def test_files_of_two_indexes_are_never_mixed(saved, fitted, texts, tmp_path):
    path, _ = saved
    other = load_index(path, fitted)
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
            load_index(path, fitted)
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
            lines = [b"\n", b"{}", b"[" * 10_000, b"\xff", b"null"]
            items += [(name, None, line) for line in (*lines, b'{"id": 3, "text": [], "x": 1}')]

    def experiment(item):
        name, place, change = item
        with resaved(path, KIND) as folder:
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
                loaded = load_index(tmp_path / "made up", fitted)
                loaded.search(QUERIES, k=5)
                loaded.get(["p0"])
                loaded.delete(["p1"])
                len(loaded)
            except ValueError:
                return

    rng.shuffle(items)
    items = items[: times(120, 1500)]
    wrong = run_all(experiment, items)
    assert not wrong, "\n".join(f"{entry[0]}: {entry[1][-300:]}" for entry in wrong[:10])
    report(f"{len(items)} made-up folders: all refused or harmless")


SEALED = {**STORES, "words": {}, "diagonal": {}}
# Where no two may change places.
ORDERED = ("keys", "starts", "rows", "offsets", "contents")


@pytest.fixture(params=SEALED)
def sealed(request, fitted, texts, tmp_path):
    """A saved index of every kind, the ensemble, and what it finds."""
    uec = fitted
    if request.param == "words":
        uec = UEC([bag_of_words(24, "first"), "bm25"]).fit(pairs(100))
    if request.param == "diagonal":
        uec = UEC([bag_of_words(24, "first")], structure="diag").fit(pairs(100))
    index = Retriever(uec, LocalStore(**SEALED[request.param]))
    index.add(texts[:60], ids=[f"p{i}" for i in range(60)])
    index.save(tmp_path / "index")
    return tmp_path / "index", uec, load_index(tmp_path / "index", uec).search(QUERIES, k=5)


def with_one_wrong_number(array, name):
    """Arrays with one number that cannot be, or of another type or length, and what is wrong."""
    odd = [-1, array.size, 2**31 - 1, 2**62] if array.dtype.kind in "iu" else []
    if array.dtype.kind == "f" or name.startswith("scan."):
        odd = [float("nan"), float("inf"), -float("inf")]
    if array.dtype == np.int8:
        odd = [-128]
    if "scale" in name or "lengths" in name or "profile" in name:
        odd.append(-1.0)
    places = {0, array.size // 2, array.size - 1}
    rng = random.Random(name)
    places |= {rng.randrange(array.size) for _ in range(times(0, 50))}
    for value in odd:
        for place in sorted(places):
            changed, bits = array.copy(), array.dtype
            if array.dtype.kind == "f" or np.iinfo(bits).min <= value <= np.iinfo(bits).max:
                changed.flat[place] = value
            else:
                continue
            yield changed, f"{value} at {place}"
    yield array[:-1], "one less"
    yield array.astype(np.float64 if array.dtype.kind == "f" else np.int16), "another type"
    if array.ndim == 1 and name.split(".")[-2].endswith(ORDERED):
        for place in range(0, len(array) - 1, max(1, len(array) // 8)):
            changed = array.copy()
            changed[[place, place + 1]] = array[[place + 1, place]]
            yield changed, f"{place} and the next exchanged"


def test_one_wrong_number_under_right_hashes_is_refused_or_harmless(sealed, tmp_path):
    path, uec, expected = sealed
    items = []
    for file in files(files_of(path)):
        name = str(file.relative_to(files_of(path)))
        if name.endswith(".npy") and (array := np.load(file)).size:
            items += [(name, "", *wrong) for wrong in with_one_wrong_number(array, file.name)]
        if name.endswith(".safetensors"):
            held = {key: array for key, array in read_tensors(file).items() if array.size}
            for key, array in held.items():
                items += [(name, key, *wrong) for wrong in with_one_wrong_number(array, file.name)]

    def experiment(item):
        name, key, changed, _ = item
        with resaved(path, KIND) as folder:
            if key:
                save_file(read_tensors(folder / name) | {key: changed}, folder / name)
            else:
                np.save(folder / name, changed)
        try:
            found = load_index(tmp_path / "made up", uec, verify=False).search(QUERIES, k=5)
        except (IndexCorrupted, FingerprintMismatch):
            return
        for of_hits in NUMERIC:
            assert np.isfinite(getattr(found, of_hits)).all(), of_hits
        assert found.ids == expected.ids

    wrong = run_all(experiment, items)
    assert not wrong, "\n".join(f"{e[0][0]} {e[0][3]}: {e[1][-400:]}" for e in wrong[:10])
    assert len(items) > 20
    report(f"{len(items)} sealed folders with one wrong number: all refused or harmless")


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
                load_index(path, fitted, verify=False)
        finally:
            file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()
            kept.rename(file)

    kinds = ["pipe", "folder", "zero", "itself", "file"]
    items = [(str(f.relative_to(path)), kind) for f in files(path) for kind in kinds]
    wrong = run_all(experiment, items)
    assert not wrong, wrong[:3]
    report(f"{len(items)} pipes, devices, links and folders in place of files: all refused")
