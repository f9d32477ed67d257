"""An index on another file system: the old one or the new one, and nothing of others' touched."""

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from uec_rag import IndexCorrupted
from uec_rag.base.saved.generations import reading, writing
from uec_rag.llama_index.saving import download, upload

KIND = "test thing"


@pytest.fixture
def fs():
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    return fsspec.filesystem("memory")


def persist(tmp_path, fs, text, path="/bucket/index"):
    folder = tmp_path / f"of {text}"
    with writing(folder, KIND) as files:
        (files / "inner").mkdir()
        (files / "inner" / "text.txt").write_text(text)
    upload(folder, fs, path)


def fetch(tmp_path, fs, path="/bucket/index"):
    folder = tmp_path / f"fetched {len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    download(fs, path, folder)
    with reading(folder, KIND) as files:
        return (files / "inner" / "text.txt").read_text()


def test_what_is_persisted_again_replaces_the_old_one(tmp_path, fs):
    persist(tmp_path, fs, "old")
    assert fetch(tmp_path, fs) == "old"
    persist(tmp_path, fs, "new")
    assert fetch(tmp_path, fs) == "new"
    assert len(fs.find("/bucket/index")) == 2


class Failing(MemoryFileSystem):
    """Fails at the copy of a file, or of the manifest."""

    cachable = False
    at = "text.txt"

    def put_file(self, lpath, rpath, **options):
        if rpath.endswith(self.at):
            raise OSError("connection lost")
        super().put_file(lpath, rpath, **options)

    def pipe_file(self, path, value, **options):
        if path.endswith(self.at):
            raise OSError("connection lost")
        super().pipe_file(path, value, **options)


@pytest.mark.parametrize("at", ["text.txt", "manifest.json"])
def test_an_upload_that_fails_leaves_the_old_one(tmp_path, fs, at):
    persist(tmp_path, fs, "old")
    before = fs.find("/bucket/index")
    failing = Failing()
    failing.at = at
    with pytest.raises(OSError, match="connection lost"):
        persist(tmp_path, failing, "new")
    assert fetch(tmp_path, fs) == "old"
    assert fs.find("/bucket/index") == before


def test_what_is_not_ours_is_neither_replaced_nor_removed(tmp_path, fs):
    fs.pipe_file("/bucket/index/precious.txt", b"mine")
    with pytest.raises(FileExistsError, match="exists and is not a saved test thing"):
        persist(tmp_path, fs, "new")
    persist(tmp_path, fs, "old", "/bucket/other")
    fs.pipe_file("/bucket/other/notes.txt", b"mine")
    fs.pipe_file("/bucket/other/generations/mine.txt", b"mine")
    persist(tmp_path, fs, "new", "/bucket/other")
    assert fetch(tmp_path, fs, "/bucket/other") == "new"
    for mine in ("index/precious.txt", "other/notes.txt", "other/generations/mine.txt"):
        assert fs.cat_file(f"/bucket/{mine}") == b"mine"


def test_a_reader_goes_on_to_what_was_saved_meanwhile(tmp_path, fs, monkeypatch):
    persist(tmp_path, fs, "old")
    get_file = MemoryFileSystem.get_file

    def slowly(self, rpath, lpath, **options):
        monkeypatch.undo()
        persist(tmp_path, fs, "new")
        get_file(self, rpath, lpath, **options)

    monkeypatch.setattr(MemoryFileSystem, "get_file", slowly)
    assert fetch(tmp_path, fs) == "new"


def test_a_lost_file_and_a_missing_index_are_named(tmp_path, fs):
    with pytest.raises(FileNotFoundError, match="no saved index at '/bucket/index'"):
        fetch(tmp_path, fs)
    persist(tmp_path, fs, "old")
    fs.rm_file(next(file for file in fs.find("/bucket/index") if file.endswith("text.txt")))
    with pytest.raises(IndexCorrupted, match="is missing"):
        fetch(tmp_path, fs)
