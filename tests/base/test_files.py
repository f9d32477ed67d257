import json
import os
import re

import pytest

from uec_rag.base import files
from uec_rag.base.errors import IndexCorrupted, NotRegularError


def test_json_is_utf8_and_must_be_an_object(tmp_path):
    (tmp_path / "a.json").write_text('{"ключ": "中文"}', encoding="utf-8")
    assert files.read_json(tmp_path / "a.json") == {"ключ": "中文"}
    (tmp_path / "list.json").write_text(json.dumps([1]))
    with pytest.raises(ValueError, match="holds list, expected an object"):
        files.read_json(tmp_path / "list.json")


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe{}", b"{", b"[" * 200_000, b'{"a": ' + b"9" * 5000 + b"}"],
    ids=["not UTF-8", "cut off", "nested without end", "an endless number"],
)
def test_what_is_no_json_is_said_to_be_corrupted(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(IndexCorrupted, match=r"a\.json' is not JSON"):
        files.read_json(tmp_path / "a.json")


@pytest.mark.parametrize("name", ["a", "a/b"])
def test_a_missing_file_is_named(tmp_path, name):
    (tmp_path / "a").write_text("x") if "/" in name else None
    with pytest.raises(IndexCorrupted, match=re.escape(f"{name}' is missing")):
        files.read_bytes(tmp_path / name)


def test_a_file_is_replaced_in_one_piece_or_stays(tmp_path, monkeypatch):
    file = tmp_path / "a"
    files.replace_file(file, "old, é")
    assert file.read_text(encoding="utf-8") == "old, é"

    def full(handle):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        files.replace_file(file, "new")
    assert os.listdir(tmp_path) == ["a"]
    assert file.read_text(encoding="utf-8") == "old, é"


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(NotRegularError, match="no regular file but"):
        files.open_regular(tmp_path / "link")


def test_what_takes_a_files_place_between_looking_and_opening_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("x")
    opened = os.open

    def swap(*given, **options):
        path.unlink()
        os.mkfifo(path)
        return opened(*given, **options)

    monkeypatch.setattr(os, "open", swap)
    with pytest.raises(NotRegularError, match="no regular file but"):
        files.open_regular(path)
