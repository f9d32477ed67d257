"""Damaged and made-up folders: never a silent difference, a crash or a hang."""

import copy
import json
import os
import random
import shutil
import warnings

import pytest

from tests.helpers import (
    assert_same_bits,
    change_setting,
    database_of,
    labelled,
    load_index,
    made_up,
)
from tests.survival.in_a_child import FORKED, run_all
from tests.survival.scale import report, times
from uec_rag import IndexCorrupted, Retriever
from uec_rag.ensemble.ensemble_file import unpack as unpack_ensemble

pytestmark = FORKED

QUERIES = ["badero fimafi", "golugo"]


@pytest.fixture
def saved(fitted, texts, tmp_path):
    """A saved index, calibrated, with a segment in a file, and what it finds."""
    index = Retriever(fitted)
    many = [f"{text} {i}" for i in range(3) for text in texts]
    index.add(
        many, ids=[f"p{i}" for i in range(600)], metadatas=[{"number": i} for i in range(600)]
    )
    index.calibrate(*labelled(many[:60], 60, unanswerable_rate=0.2))
    index.save(tmp_path / "index")
    index.close()
    return tmp_path / "index", load_index(tmp_path / "index", fitted).search(QUERIES, k=5)


def files(path):
    """The files of an index, without the log of the database."""
    there = (f for f in path.rglob("*") if f.is_file() and "-" not in f.suffix)
    return sorted(f for f in there if not f.name.startswith("."))


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
            for log in path.glob("index.db-*"):
                log.unlink()
            try:
                loaded = load_index(path, fitted, read_only=True)
                loaded.check()
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


def _settings(path):
    with database_of(path) as database:
        return dict(
            database.execute("SELECT key, value FROM settings WHERE typeof(value) = 'text'")
        )


def test_made_up_values_are_refused_or_harmless(saved, fitted, tmp_path):
    """Folders whose hashes are right and whose content is not: a stranger's."""
    path, _ = saved
    rng, items = random.Random(1), []
    for key, text in _settings(path).items():
        places = list(_places(json.loads(text)))
        items += [("settings", key, place, nasty) for place in places for nasty in NASTY]
    [ensemble] = (path / "ensemble").iterdir()
    state, _ = unpack_ensemble((ensemble / "uec.safetensors").read_bytes())
    places = list(_places(state))
    items += [("ensemble", "", place, nasty) for place in places[1:] for nasty in NASTY]
    for table, columns in {
        "passages": ("row", "id", "sum", "metadata", "dates", "text"),
        "segments": ("first", "name", "sha256"),
        "settings": ("key", "value"),
    }.items():
        values = [None, -1, 2**62, 0.5, "", "x", "[" * 10_000, "{}", b"", b"\xff" * 100]
        items += [(table, column, None, value) for column in columns for value in values]

    def change(folder, table, name, place, value):
        if table == "ensemble":
            with made_up(ensemble, str(folder / "ensemble" / ensemble.name)) as state:
                changed = _with(copy.deepcopy(state), place, value)
                state.clear()
                state.update(changed if isinstance(changed, dict) else {})
            return
        with database_of(folder) as database:
            if place is None:
                first = f"rowid = (SELECT rowid FROM {table} LIMIT 1)"
                where = "key = 'schema'" if table == "settings" else first
                database.execute(f"UPDATE OR IGNORE {table} SET {name} = ? WHERE {where}", [value])
            else:
                text = json.dumps(_with(json.loads(_settings(path)[name]), place, value))
                change_setting(database, name, text)

    def experiment(item):
        folder = tmp_path / "made up"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(path, folder)
        try:
            change(folder, *item)
        except Exception:  # what the database itself refuses, or JSON cannot hold
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                loaded = load_index(folder, fitted)
                loaded.search(QUERIES, k=5)
                loaded.search(QUERIES, k=5, filter={"number": {"$gte": 3}})
                loaded.get(["p0"])
                loaded.delete(["p1"])
                loaded.add(["badero"])
                loaded.check()
            except (ValueError, OSError):
                return

    rng.shuffle(items)
    items = items[: times(120, 1500)]
    wrong = run_all(experiment, items)
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
                load_index(path, fitted).check()
        finally:
            file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()
            kept.rename(file)

    kinds = ["pipe", "folder", "zero", "itself", "file"]
    items = [(str(f.relative_to(path)), kind) for f in files(path) for kind in kinds]
    wrong = run_all(experiment, items)
    assert not wrong, wrong[:3]
    report(f"{len(items)} pipes, devices, links and folders in place of files: all refused")
