"""Saving and loading an index, and what is refused of a folder that was damaged or made up."""

import errno
import os
import re
import shutil
import zlib
from contextlib import closing, suppress
from functools import partial

import pytest

from tests.helpers import (
    LinearHead,
    assert_same_result,
    by_name,
    change_setting,
    database_of,
    index_of,
    labelled,
    load_index,
    make_older,
)
from uec_rag import UEC, FingerprintMismatch, IndexCorrupted, Retriever, __version__
from uec_rag.base.errors import OlderIndex
from uec_rag.base.files import DATABASE
from uec_rag.ensemble import ensemble_file
from uec_rag.gates import Gate
from uec_rag.index import save as index_save
from uec_rag.index.save import check_index
from uec_rag.index.updates import MADE_WITH, update_files
from uec_rag.stores import LocalStore
from uec_rag.stores.local import segments
from uec_rag.stores.local.database import Database


@pytest.fixture
def path(small, tmp_path):
    """The folder of `small`, which has ten passages."""
    small.save(tmp_path / "index")
    return tmp_path / "index"


def test_an_index_comes_back_with_the_same_hits(full, queries, tmp_path):
    full.save(tmp_path / "index")
    for loaded in (
        load_index(tmp_path / "index", full.uec),
        Retriever.load(tmp_path / "index", full.uec),
    ):
        assert len(loaded) == len(full)
        assert list(loaded.passages()) == list(full.passages())
        assert_same_result(loaded.search(queries, k=10), full.search(queries, k=10))
        assert_same_result(
            loaded.search(queries, k=3, filter={"even": True}),
            full.search(queries, k=3, filter={"even": True}),
        )


def test_a_loaded_index_can_be_written_to_and_saved_over_itself(small, texts, path):
    loaded = load_index(path, small.uec)
    loaded.delete(["p0"])
    loaded.add(["tavone tavone"], ids=["new"])
    loaded.save(path)
    again = load_index(path, small.uec)
    assert [p.id for p in again.passages()] == [*(f"p{i}" for i in range(1, 10)), "new"]
    assert again.search(["tavone"], k=1).ids == loaded.search(["tavone"], k=1).ids == [["new"]]
    assert small.folder == path
    assert len(small) == 10  # it has that folder since it was saved, and sees what others write
    again.clear()
    assert len(load_index(path, small.uec)) == len(small) == 0


def test_another_ensemble_is_refused(full, encoders, fit_pairs, tmp_path):
    full.save(tmp_path / "index")
    for other in (UEC(encoders), UEC(encoders, seed=1).fit(fit_pairs), UEC(encoders[:2])):
        with pytest.raises(FingerprintMismatch, match=r"uec: expected .* Omit uec= to load"):
            Retriever.load(tmp_path / "index", other)


def test_a_text_without_a_vector_is_named_and_nothing_is_added():
    def static(texts):
        return [[float("a" in text or "i" in text), 0.0] for text in texts]

    index = Retriever(UEC([static]))
    said = r"for texts\[1\] \('---'\); .* Nothing was added; leave out texts\[1\]"
    with pytest.raises(ValueError, match=said):
        index.add(["a lamp", "---", "a fee"])
    assert len(index) == 0


def test_an_ensemble_is_no_index(fitted, tmp_path):
    fitted.save(tmp_path / "uec")
    with pytest.raises(ValueError, match="holds a saved UEC ensemble, expected a saved UEC index"):
        Retriever.load(tmp_path / "uec")
    with pytest.raises(FileExistsError, match="exists and is not a saved index"):
        Retriever(fitted).save(tmp_path / "uec")


def test_what_a_call_returned_is_on_disk_and_seen_by_others(small, path, tmp_path):
    other = load_index(path, small.uec)
    small.add(["tavone golugo"], ids=["new"])
    assert other.search(["tavone golugo"], k=1).ids == [["new"]]
    other.delete(["new"])
    assert small.get(["new"]) == []
    shutil.copytree(path, tmp_path / "copy")
    assert len(load_index(tmp_path / "copy", small.uec)) == 10


def test_several_calls_are_one_transaction(small, path):
    other = load_index(path, small.uec)
    with small.changing():
        small.add(["tavone"], ids=["new"])
        small.delete(["p0", "p1"])
        assert (len(small), len(other)) == (9, 10)
        with pytest.raises(ValueError, match="given twice"):
            small.add(["a", "b"], ids=["x", "x"])
    assert (len(small), len(other)) == (9, 9)
    with suppress(KeyError), small.changing():
        small.clear()
        raise KeyError
    assert (len(small), len(other)) == (9, 9)
    assert len(small.search(["tavone"], k=9).ids[0]) == 9


def test_a_save_replaces_an_index_at_once_for_those_who_have_it_open(full, small, tmp_path):
    full.save(tmp_path / "index")
    reader = load_index(tmp_path / "index", full.uec)
    snapshot = reader.snapshot()
    small.save(tmp_path / "index")
    assert (len(reader), len(snapshot)) == (10, 200)
    assert len([*snapshot.passages()]) == 200
    assert [p.id for p in reader.passages()] == [f"p{i}" for i in range(10)]
    reader.check()


def test_another_ensemble_in_the_folder_is_loaded_by_those_who_loaded_theirs(
    small, encoders, fit_pairs, texts, path
):
    own = load_index(path, small.uec)
    given = Retriever.load(path, small.uec)
    other = UEC(encoders, seed=1).fit(fit_pairs)
    index_of(other, texts[:20]).save(path)
    assert own.search(["tavone"], k=20).scores.shape == (1, 20)
    assert own.uec.fingerprint == other.fingerprint
    with pytest.raises(FingerprintMismatch, match="load it again"):
        given.search(["tavone"])


def save_twice(index, path):
    index.save(path)
    index.save(path)


def save_and_calibrate(index, path):
    index.save(path)
    index.calibrate(*labelled([p.text for p in index.passages()], 30))


def save_and_update(index, path):
    index.save(path)
    folder = path.with_name("documents")
    folder.mkdir(exist_ok=True)
    (folder / "a.md").write_text("tavone golugo")
    update_files(index, folder)


@pytest.mark.parametrize("change", [save_twice, save_and_calibrate, save_and_update])
def test_until_a_transaction_is_on_disk_the_ensemble_of_before_it_is_there(small, path, change):
    def passages_of_another():
        with closing(load_index(path, small.uec)) as other:
            other.check()
            return len(other)

    with suppress(KeyError), small.changing():
        change(small, path)
        small.delete(["p0"])
        assert passages_of_another() == 10
        raise KeyError
    assert passages_of_another() == len(small) == 10
    with small.changing():
        change(small, path)
        small.delete(["p0"])
    assert passages_of_another() == len(small) < 11
    assert len([*(path / "ensemble").iterdir()]) == 1  # none is left of what was undone, either


def test_a_saved_snapshot_has_labels_and_how_it_was_made(small, path, tmp_path):
    small.save(path)
    small.label("Which one?", ["p1"])
    small._core.settings.home.change_settings({MADE_WITH: {"chunk_size": 300}})
    small.snapshot().save(tmp_path / "copy")
    loaded = load_index(tmp_path / "copy", small.uec)
    assert loaded.labels == {"Which one?": {"p1"}}
    assert loaded._core.settings.home.settings[MADE_WITH] == {"chunk_size": 300}


def test_an_index_that_cannot_be_written_over_stays_whole(small, full, path, monkeypatch):
    """As where the disk is full at the commit."""
    with monkeypatch.context() as patch:

        def fail(database, how):
            database_end(database, "ROLLBACK")
            raise OSError(errno.ENOSPC, "the disk is full")

        database_end = Database.end
        patch.setattr(Database, "end", fail)
        with pytest.raises(OSError, match="disk is full"):
            full.snapshot().save(path)
    loaded = load_index(path, small.uec)
    loaded.check()
    assert len(loaded) == 10


@pytest.mark.parametrize(
    "read",
    [
        lambda reader, path: load_index(path, reader.uec),
        lambda reader, path: reader.check(),
        lambda reader, path: check_index(path),
        lambda reader, path: reader.search(["tavone"]),
    ],
    ids=["load", "check", "check_index", "search"],
)
def test_an_ensemble_that_was_replaced_while_it_was_read_is_read_again(
    small, encoders, fit_pairs, texts, path, monkeypatch, read
):
    other, reader, saved = UEC(encoders, seed=1).fit(fit_pairs), load_index(path, small.uec), []
    index_of(other, texts[:20]).save(path)

    def meanwhile(function):
        def replaced_first(*arguments, **options):
            if not saved:
                saved.append(True)
                index_of(small.uec, texts[:30]).save(path)
            return function(*arguments, **options)

        return replaced_first

    monkeypatch.setattr(ensemble_file, "read_ensemble", meanwhile(ensemble_file.read_ensemble))
    monkeypatch.setattr(index_save, "read_fit", meanwhile(index_save.read_fit))
    read(reader, path)
    assert saved
    assert len(reader.search(["tavone"], k=30).ids[0]) == 30
    assert reader.uec.fingerprint == small.uec.fingerprint


def test_a_search_compares_vectors_of_one_ensemble(small, encoders, fit_pairs, texts, path):
    class Replaced(LinearHead):
        """An encoder while whose work another process saves over the index."""

        def encode(self, texts, role):
            while saves:
                saves.pop().save(path)
            return super().encode(texts, role)

    saves = []
    reader = Retriever.load(path, encoders=by_name(small.uec) | {"head": Replaced()})
    assert reader.search(["tavone"], k=3).ids == small.search(["tavone"], k=3).ids
    other = index_of(UEC(encoders, seed=1).fit(fit_pairs), texts[:20])
    expected = other.search(["tavone"], k=3)
    saves.append(other)
    assert_same_result(reader.search(["tavone"], k=3), expected)


def test_a_calibration_is_recorded_and_read_by_others(texts, with_words, tmp_path):
    index = index_of(with_words, texts)
    index.save(tmp_path / "index")
    other = load_index(tmp_path / "index", with_words)
    index.calibrate(*labelled(texts, 30))
    assert other.search(["tavone"]).confidence == index.search(["tavone"]).confidence
    assert (
        other.calibration
        == index.calibration
        == load_index(tmp_path / "index", with_words).calibration
    )


def test_what_is_only_read_is_not_written_to(small, path):
    loaded = load_index(path, small.uec, read_only=True)
    for change in (
        lambda: loaded.add(["x"]),
        lambda: loaded.delete(["p0"]),
        lambda: loaded.clear(),
    ):
        with pytest.raises(PermissionError, match="read_only=True"):
            change()
    small.delete(["p0"])
    assert len(loaded) == 9


def test_a_folder_that_was_deleted_is_searched_and_not_written_to(small, path, tmp_path):
    shutil.rmtree(path)
    assert len(small.search(["tavone"], k=3).ids[0]) == 3
    with pytest.raises(FileNotFoundError, match="was deleted or replaced"):
        small.add(["tavone"])
    small.save(tmp_path / "elsewhere")
    assert len(load_index(tmp_path / "elsewhere", small.uec)) == 10


def remade(path, index):
    """Delete the folder, and make another in its place."""
    shutil.rmtree(path)
    index.save(path)


def renamed(path, index):
    """Make another folder, and rename it into place."""
    index.save(path.with_name("new"))
    path.rename(path.with_name("old"))
    path.with_name("new").rename(path)


@pytest.mark.parametrize("replace", [remade, renamed])
@pytest.mark.parametrize("read_only", [False, True])
def test_an_index_that_takes_the_place_of_another_is_searched_next(
    small, encoders, fit_pairs, path, replace, read_only
):
    reader = load_index(path, small.uec, read_only=read_only)
    given = Retriever.load(path, small.uec, read_only=read_only)
    store, snapshot = LocalStore(path, read_only=read_only), reader.snapshot()
    assert reader.search(["tavone"], k=10).ids[0] != []
    before = reader.store.corpus()
    other = UEC(encoders, seed=1).fit(fit_pairs)
    replace(path, index_of(other, ["golugo nepine"], ["new"]))
    assert reader.search(["golugo"], k=10).ids == [["new"]]
    assert reader.uec.fingerprint == other.fingerprint
    assert reader.store.corpus() != before
    assert [passage.id for passage in store.passages()] == ["new"]
    assert len([*snapshot.passages()]) == 10
    with pytest.raises(FingerprintMismatch, match="load it again"):
        given.search(["golugo"])
    if not read_only:
        reader.add(["tavone"], ids=["more"])
        assert {passage.id for passage in load_index(path, other).passages()} == {"new", "more"}


def test_until_an_index_in_the_place_of_another_was_written_the_first_one_answers(small, path):
    reader = load_index(path, small.uec)
    shutil.rmtree(path)
    path.mkdir()
    (path / DATABASE).touch()
    assert len(reader.search(["tavone"], k=10).ids[0]) == 10
    assert (path / DATABASE).stat().st_size == 0
    (path / DATABASE).unlink()
    LocalStore(path)
    assert len(reader.search(["tavone"], k=10).ids[0]) == 10
    shutil.rmtree(path)
    path.mkdir()
    (path / DATABASE).write_bytes(b"x" * 5000)
    with pytest.raises(IndexCorrupted):
        reader.search(["tavone"])


def test_a_path_may_begin_with_the_users_folder(small, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    small.save("~/index")
    small.uec.save("~/uec")
    Gate(0.75).save("~/index/gate.json")
    assert (small.folder, Gate.load("~/index/gate.json")) == (tmp_path / "index", Gate(0.75))
    assert len(load_index("~/index", small.uec)) == len(LocalStore("~/index")) == 10
    assert UEC.load("~/uec", encoders=by_name(small.uec)).names == small.uec.names


@pytest.mark.parametrize("number", [errno.EFBIG, errno.ENOSPC, errno.EDQUOT])
def test_what_a_disk_cannot_hold_is_told_and_leaves_nothing(small, path, tmp_path, number):
    before, other = [*small.passages()], index_of(small.uec, ["tavone"])

    def fail(_):
        raise OSError(number, os.strerror(number))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "to_disk", fail)
        for change in (lambda: small.add(["tavone"]), lambda: other.save(tmp_path / "a" / "b")):
            with pytest.raises(
                OSError, match=r"Nothing was changed; (raise|make) .*try again"
            ) as e:
                change()
            assert e.value.errno == number
    assert [*small.passages()] == before
    assert not (tmp_path / "a").exists()
    other.save(tmp_path / "a" / "b")


def test_a_failed_save_removes_nothing_that_was_there(small, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for name in ("notes.txt", "index.db"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text("mine")
        with pytest.raises((FileExistsError, IndexCorrupted)):
            small.save(folder)
        assert (folder / name).read_text() == "mine"


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_closed_index_refuses_searches_and_changes(small, path, in_memory):
    index = index_of(small.uec, ["tavone"]) if in_memory else small
    index.close()
    index.close()
    calls = [
        lambda: index.search(["tavone"]),
        lambda: index.search_vector([1.0] * 8),
        lambda: index.add(["tavone"]),
        lambda: index.delete(["p0"]),
        index.snapshot,
    ]
    if not in_memory:
        calls += [lambda: index.label("tavone", ["p0"]), lambda: index.get(["p0"])]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"was closed.* load (it|the index) again"):
            call()
    assert len(load_index(path, small.uec)) == 10


@pytest.mark.parametrize("version", [1, 4])
def test_an_index_of_an_older_format_is_refused_with_the_command(small, path, tmp_path, version):
    small.close()
    make_older(path, version)
    (tmp_path / "old" / "generations").mkdir(parents=True)
    (tmp_path / "old" / "manifest.json").write_text("{}")
    for call in (Retriever.load, index_of(small.uec, ["tavone"]).save):
        with pytest.raises(IndexCorrupted, match=r"format without a number, .* uec-rag index F"):
            call(tmp_path / "old")

    def files():
        return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}

    before = files()
    told = rf"has format {version}, expected 5: an earlier version .* uec-rag index '.*' --out NEW"
    for call in (
        Retriever.load,
        partial(Retriever.load, read_only=True),
        check_index,
        index_of(small.uec, ["tavone"]).save,
    ):
        with pytest.raises(OlderIndex, match=told):
            call(path)
    assert files() == before  # and no log of SQLite's beside it


def changed(column, value):
    return f"UPDATE passages SET {column} = {value} WHERE id = 'p0'"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON dead BEGIN DELETE FROM dead; END", "holds 't'"),
        ("CREATE VIEW v AS SELECT 1", "holds 'v'"),
        ("CREATE TABLE other (x)", "holds 'other'"),
        ("CREATE INDEX value_0123456789abcdef ON passages (abs(row))", "holds 'value_0123"),
        ("DROP INDEX passages_by_id", "lacks 'passages_by_id'"),
        (
            "PRAGMA user_version = 99",
            f"has format 99, expected 5: a newer uec-rag than {__version__} made it; pip",
        ),
        (("schema", "["), "unexpected content"),
        (("schema", '{"widths": [8], "factors": 8, "words": [[1, 0, 9]]}'), "unexpected content"),
        (("ensemble", '"../x"'), "names no ensemble"),
        (("calibration", "[]"), "unexpected content"),
        ("UPDATE settings SET value = '7' WHERE key = 'changes'", "the checksum of 'changes'"),
        ("UPDATE segments SET name = '../../x'", "cannot hold a segment named"),
        ("UPDATE segments SET name = hex(zeroblob(16))", "is missing"),
        ("DELETE FROM segments", "holds 10 passages, and vectors of 0"),
    ],
)
def test_a_database_that_was_made_up_is_said_to_be_corrupted(small, path, sql, message):
    small.close()
    with database_of(path) as database:
        change_setting(database, *sql) if isinstance(sql, tuple) else database.execute(sql)
    with pytest.raises(IndexCorrupted, match=re.escape(message)):
        load_index(path, small.uec).check()


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("id", "'q0'", "its checksum differs"),
        ("text", "'other'", "its checksum differs"),
        ("metadata", "'{'", "row 0"),
        ("metadata", "'[]'", "Expected `object`"),
        ("metadata", """'{"key": -1e999}'""", "row 0"),
        ("metadata", """'{"key": "\\ud800"}'""", "row 0"),
        ("metadata", '\'{"key": ' + "[" * 70_000 + "]" * 70_000 + "}'", "row 0"),
        ("dates", """'{"key": "2024"}'""", "row 0"),
        ("text", "x'61'", "its id or its text is no text"),
    ],
)
def test_a_passage_that_no_addition_makes_is_said_to_be_corrupted(small, path, column, value, said):
    small.close()
    with database_of(path) as database:
        database.execute(changed(column, value))
        if "checksum" not in said:
            names = "id, metadata, dates, text"
            [row] = database.execute(f"SELECT {names} FROM passages WHERE row = 0")
            stored = (one if isinstance(one, bytes) else (one or "").encode() for one in row)
            sum_ = zlib.crc32(b"\0".join(stored))
            database.execute(changed("sum", sum_))
    loaded = load_index(path, small.uec)
    with pytest.raises(IndexCorrupted, match=re.escape(said)):
        [*loaded.passages()]
    with pytest.raises(IndexCorrupted, match=re.escape(said)):
        loaded.check()


def test_a_file_that_is_no_database_is_said_to_be_corrupted(small, path):
    small.close()
    file = path / DATABASE
    whole = file.read_bytes()
    for content in (b"", b"x" * 5000, whole[:100] + b"x" * 16_284, whole[: len(whole) // 2]):
        file.write_bytes(content)
        with pytest.raises(IndexCorrupted, match="again"):
            load_index(path, small.uec).check()
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(IndexCorrupted, match="is no regular file"):
        load_index(path, small.uec)


@pytest.mark.parametrize("damage", ["cut", "bit", "link", "gone"])
def test_a_damaged_segment_is_named(fitted, texts, tmp_path, damage):
    index = index_of(fitted, [f"{text} {i}" for i in range(4) for text in texts])
    index.save(tmp_path / "index")
    [file] = (tmp_path / "index" / "segments").iterdir()
    content = bytearray(file.read_bytes())
    file.unlink()
    if damage == "link":
        file.with_suffix(".kept").write_bytes(content)
        file.symlink_to(file.with_suffix(".kept"))
    elif damage != "gone":
        content[-3000] ^= 1
        file.write_bytes(content[: len(content) - 64 * (damage == "cut")])
    with pytest.raises(IndexCorrupted, match=file.name):
        load_index(tmp_path / "index", fitted).check()


def test_what_is_no_ensemble_is_refused(small, path):
    with pytest.raises(TypeError, match="uec: expected a UEC or None, got str"):
        Retriever.load(path, "uec")


def test_nothing_is_pickled(full, tmp_path):
    full.save(tmp_path / "index")
    for file in (f for f in tmp_path.rglob("*") if f.is_file()):
        assert file.suffix in (".json", ".safetensors") or file.name.startswith(DATABASE)
