import hashlib
import json
import os
import re

import numpy as np
import pytest
from safetensors.numpy import save_file

from uec_rag.base.errors import IndexCorrupted
from uec_rag.base.files import (
    open_regular,
    read_json,
    read_tensors,
    replace_file,
    write_json,
)


def test_json_is_written_as_utf8_and_must_be_an_object(tmp_path):
    write_json(tmp_path / "a.json", {"ключ": "中文"})
    assert "中文" in (tmp_path / "a.json").read_text(encoding="utf-8")
    assert read_json(tmp_path / "a.json") == {"ключ": "中文"}
    (tmp_path / "list.json").write_text(json.dumps([1]))
    with pytest.raises(ValueError, match="holds list, expected an object"):
        read_json(tmp_path / "list.json")


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe{}", b"{", b"[" * 200_000, b'{"a": ' + b"9" * 5000 + b"}"],
    ids=["not UTF-8", "cut off", "nested without end", "an endless number"],
)
def test_what_is_no_json_is_said_to_be_corrupted(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(IndexCorrupted, match=r"a\.json' is not JSON"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda file: os.mkfifo(file), "a pipe"),
        (lambda file: file.symlink_to("/dev/zero"), "a link"),
        (lambda file: file.symlink_to(__file__), "a link"),
        (lambda file: file.mkdir(), "a folder"),
    ],
    ids=["pipe", "link to a device", "link to a file", "folder"],
)
def test_only_regular_files_are_opened(tmp_path, make, kind):
    make(tmp_path / "a")
    with pytest.raises(IndexCorrupted, match=rf"a' is no regular file but {kind}"):
        open_regular(tmp_path / "a")


@pytest.mark.parametrize("name", ["a", "a/b"])
def test_a_missing_file_is_named(tmp_path, name):
    (tmp_path / "a").write_text("x") if "/" in name else None
    with pytest.raises(IndexCorrupted, match=re.escape(f"{name}' is missing")):
        open_regular(tmp_path / name)


def test_tensors_come_back_and_what_holds_none_is_said_to_be_corrupted(tmp_path):
    file = tmp_path / "a.safetensors"
    with pytest.raises(IndexCorrupted, match=r"a\.safetensors' is missing"):
        read_tensors(file, "")
    save_file({"a": np.arange(6.0).reshape(2, 3)}, file)
    whole = file.read_bytes()
    read = read_tensors(file, hashlib.sha256(whole).hexdigest())
    np.testing.assert_array_equal(read["a"], np.arange(6.0).reshape(2, 3))
    with pytest.raises(IndexCorrupted, match="has other contents than were saved"):
        read_tensors(file, hashlib.sha256(whole + b"x").hexdigest())
    unknown = whole.replace(b'"F64"', b'"I16"', 1), whole.replace(b'"F64"', b'"F8_E8M0"', 1)
    for content in (b"", whole[:-1], whole + b"x", b"\xff" * 100, *unknown):
        file.write_bytes(content)
        with pytest.raises(IndexCorrupted, match=r"a\.safetensors' cannot be read"):
            read_tensors(file, hashlib.sha256(content).hexdigest())


def test_a_file_is_replaced_in_one_piece_or_stays(tmp_path, monkeypatch):
    file = tmp_path / "a"
    replace_file(file, "old, é")
    assert file.read_text(encoding="utf-8") == "old, é"

    def full(handle):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        replace_file(file, "new")
    assert os.listdir(tmp_path) == ["a"]
    assert file.read_text(encoding="utf-8") == "old, é"


def test_a_link_that_lies_in_wait_is_never_written_through(tmp_path, monkeypatch):
    file, precious = tmp_path / "a", tmp_path / "precious"
    precious.write_text("mine")
    monkeypatch.setattr("secrets.token_hex", lambda size: "guessed")
    (tmp_path / ".a.guessed").symlink_to(precious)
    with pytest.raises(FileExistsError):
        replace_file(file, "new")
    assert (precious.read_text(), file.exists()) == ("mine", False)
    assert (tmp_path / ".a.guessed").is_symlink()
