import json
import re

import pytest

from uec_rag.base.files import MANIFEST, read_json, reading, write_json, writing

KIND = "test thing"


def save(path, text, kind=KIND):
    with writing(path, kind) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "text.txt").write_text(text)


def contents(path):
    return {
        str(file.relative_to(path)): file.read_text() for file in path.rglob("*") if file.is_file()
    }


def test_a_folder_is_written_with_a_manifest_and_read_back(tmp_path):
    save(tmp_path / "deep" / "saved", "hello")
    folder = reading(tmp_path / "deep" / "saved", KIND)
    assert (folder / "inner" / "text.txt").read_text() == "hello"
    assert read_json(folder / MANIFEST) == {"kind": KIND, "files": {"inner/text.txt": 5}}


def test_saving_again_replaces_the_folder_whole(tmp_path):
    with writing(tmp_path / "saved", KIND) as folder:
        (folder / "old only").write_text("x")
    save(tmp_path / "saved", "new")
    assert set(contents(tmp_path / "saved")) == {"inner/text.txt", MANIFEST}
    assert [entry.name for entry in tmp_path.iterdir()] == ["saved"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_save_that_fails_leaves_the_old_folder_and_nothing_else(tmp_path, error):
    path = tmp_path / "saved"
    save(path, "old")
    before = contents(path)

    def fail():
        with writing(path, KIND) as folder:
            (folder / "half.txt").write_text("half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert contents(reading(path, KIND)) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["saved"]


def test_a_replacement_that_fails_at_the_last_step_puts_the_old_folder_back(tmp_path, monkeypatch):
    path = tmp_path / "saved"
    save(path, "old")
    before = contents(path)
    rename = type(path).rename

    def failing(self, target):
        if target == path and (self / "inner" / "text.txt").read_text() == "new":
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(type(path), "rename", failing)
    with pytest.raises(OSError, match="no"):
        save(path, "new")
    assert contents(reading(path, KIND)) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["saved"]


@pytest.mark.parametrize("taken_by", ["file", "other files", "another kind", "another manifest"])
def test_what_is_not_a_saved_thing_of_this_kind_is_never_replaced(tmp_path, taken_by):
    path = tmp_path / "precious"
    if taken_by == "file":
        path.write_text("mine")
    elif taken_by == "another kind":
        save(path, "mine", kind="another thing")
    else:
        path.mkdir()
        (path / "mine.txt").write_text("mine")
        if taken_by == "another manifest":
            (path / MANIFEST).write_text('{"name": "an app"}')
    before = path.read_text() if path.is_file() else contents(path)
    with pytest.raises(FileExistsError, match=r"path: .*precious' exists and is not a saved test"):
        save(path, "new")
    assert (path.read_text() if path.is_file() else contents(path)) == before


def test_an_empty_folder_may_be_saved_into(tmp_path):
    save(tmp_path, "hello")
    assert contents(tmp_path)["inner/text.txt"] == "hello"


def damage(path, how):
    if how == "truncated":
        (path / "inner" / "text.txt").write_text("hel")
    elif how == "grown":
        (path / "inner" / "text.txt").write_text("hello hello")
    elif how == "missing":
        (path / "inner" / "text.txt").unlink()
    elif how == "no manifest":
        (path / MANIFEST).unlink()
    elif how == "manifest not JSON":
        (path / MANIFEST).write_text('{"kind": "test th')
    elif how == "manifest not whole":
        write_json(path / MANIFEST, {"kind": KIND})
    elif how == "another kind":
        write_json(path / MANIFEST, {"kind": "cake", "files": {}})


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        (
            "truncated",
            ValueError,
            "text.txt' has 3 bytes, expected 5: it is truncated or was changed",
        ),
        ("grown", ValueError, "text.txt' has 11 bytes, expected 5"),
        ("missing", FileNotFoundError, "text.txt' is missing; save the test thing again"),
        ("no manifest", FileNotFoundError, "path: no saved test thing at"),
        ("manifest not JSON", ValueError, "manifest.json' is not JSON"),
        ("manifest not whole", ValueError, "manifest.json' is damaged; save the test thing again"),
        ("another kind", ValueError, "holds a saved cake, expected a saved test thing"),
    ],
)
def test_a_folder_that_is_not_whole_is_not_read(tmp_path, how, error, message):
    save(tmp_path / "saved", "hello")
    damage(tmp_path / "saved", how)
    with pytest.raises(error, match=re.escape(message)):
        reading(tmp_path / "saved", KIND)


def test_what_is_not_there_is_not_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"path: no saved test thing at .*nowhere"):
        reading(tmp_path / "nowhere", KIND)


def test_json_is_written_as_utf8_and_must_be_an_object(tmp_path):
    write_json(tmp_path / "a.json", {"ключ": "中文"})
    assert "中文" in (tmp_path / "a.json").read_text(encoding="utf-8")
    assert read_json(tmp_path / "a.json") == {"ключ": "中文"}
    (tmp_path / "list.json").write_text(json.dumps([1]))
    with pytest.raises(ValueError, match="holds list, expected an object"):
        read_json(tmp_path / "list.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ValueError, match="is not JSON"):
        read_json(tmp_path / "bytes.json")
