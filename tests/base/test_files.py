import json
import os
import re

import numpy as np
import pytest
from safetensors.numpy import save_file

from uec_rag.base.errors import IndexCorrupted
from uec_rag.base.files import (
    GrowingArray,
    open_regular,
    read_array,
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
        read_tensors(file)
    save_file({"a": np.arange(6.0).reshape(2, 3)}, file)
    np.testing.assert_array_equal(read_tensors(file)["a"], np.arange(6.0).reshape(2, 3))
    whole = file.read_bytes()
    unknown = whole.replace(b'"F64"', b'"I16"', 1), whole.replace(b'"F64"', b'"F8_E8M0"', 1)
    for content in (b"", whole[:-1], whole + b"x", b"\xff" * 100, *unknown):
        file.write_bytes(content)
        with pytest.raises(IndexCorrupted, match=r"a\.safetensors' cannot be read"):
            read_tensors(file)


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


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(3, 2), (0, 2), (0, 0)])
def test_an_array_comes_back(tmp_path, mapped, shape, order):
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape, order=order)
    np.save(tmp_path / "a.npy", array)
    read = read_array(tmp_path / "a.npy", np.float32, 2, mapped=mapped)
    np.testing.assert_array_equal(read, array)
    read += 1  # torch takes no array that it could not write to
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), array)


def header(shape, descr="'<f4'"):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header((10**12, 10**9)), "expected 4000000000000000000[0-9]{3} for"),
        (header((2, 2)) + bytes(15), "has 84 bytes, expected 85"),
        (header((2, 2)) + bytes(17), "expected 85 for an array of shape"),
        (header((2, 2), "'<f8'") + bytes(32), "holds <f8 of shape"),
        (header((4,)) + bytes(16), "expected float32 in 2 dimensions"),
        (header((-2, -2)) + bytes(16), "is not an array"),
        (header((2, 2), "'<z9'") + bytes(32), "holds <z9 of shape"),
        (header((2, 2), "'|O'") + bytes(32), "holds [|]O of shape"),
        (header("(2, "), "is not an array"),
        (b"\x93NUMPY\x01\x00\xff\xff{" + b"(" * 65_000, "is not an array"),
        (b"", "is not an array"),
    ],
    ids=["huge", "short", "long", "wide", "flat", "minus", "z9", "object", "text", "((", "empty"],
)
def test_an_array_is_not_read_unless_its_header_and_size_agree(tmp_path, content, message):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(IndexCorrupted, match=message):
        read_array(tmp_path / "a.npy", np.float32, 2)


@pytest.mark.parametrize("dtype", ["<f4", "i1", "<i8"])
@pytest.mark.parametrize("shape", [(1300,), (1300, 3), (1300, 0)])
def test_an_array_that_grows_is_the_file_that_saving_it_whole_writes(tmp_path, dtype, shape):
    whole = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    rows = GrowingArray(tmp_path / "grown.npy", whole[:0])
    for some in (slice(9), slice(9, 10), slice(10, 10), slice(10, None)):
        rows.append(whole[some])
    rows.close()
    np.save(tmp_path / "whole.npy", whole)
    assert (tmp_path / "grown.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
