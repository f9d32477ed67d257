"""Passages out of files that are read a little at a time."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from uec_rag.distributed import read_passages
from uec_rag.stores import Passage

ROWS = [{"text": f"text {i}", "year": 2000 + i, "tags": ["a"]} for i in range(5)]


def test_the_same_rows_are_the_same_passages_in_every_kind_of_file(tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet", row_group_size=2)
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    one, other = ([*read_passages(tmp_path / name)] for name in ("a.parquet", "b.jsonl"))
    assert one == other
    assert [p.text for p in one] == [row["text"] for row in ROWS]
    assert one[2].metadata == {"year": 2002, "tags": ["a"]}
    assert len({p.id for p in one}) == 5


def test_a_folder_is_all_its_files_in_order_and_lines_are_passages(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.txt").write_text("first\n\n  second  \n")
    (tmp_path / "a.jsonl").write_text('{"id": 7, "body": "third"}\n{"body": " "}\n')
    (tmp_path / "notes.md").write_text("not read")
    found = [*read_passages(tmp_path / "in")]
    assert [p.text for p in found] == ["first", "second"]
    assert [*read_passages(tmp_path / "a.jsonl", text="body")] == [Passage("7", "third")]


def test_a_folder_named_as_a_file_is_a_folder(tmp_path):
    (tmp_path / "data.parquet").mkdir()
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "data.parquet" / "part-0.parquet")
    for path in (tmp_path, tmp_path / "data.parquet"):
        assert [p.text for p in read_passages(path)] == [row["text"] for row in ROWS]


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected files that end in"):
        [*read_passages(tmp_path)]
    with pytest.raises(FileNotFoundError, match="expected files that end in"):
        [*read_passages(tmp_path / "gone.txt")]
    (tmp_path / "a.csv").touch()
    with pytest.raises(ValueError, match="expected a file that ends in"):
        [*read_passages(tmp_path / "a.csv")]
    (tmp_path / "a.jsonl").write_text('{"text": "good"}\n{"texts": "wrong"}\n')
    with pytest.raises(ValueError, match=r"a\.jsonl, about row 2: expected a row with"):
        [*read_passages(tmp_path / "a.jsonl")]
    (tmp_path / "b.jsonl").write_text('{"text": "good"}\n{"text": \n')
    with pytest.raises(ValueError, match=r"b\.jsonl, about row 1: Expecting value"):
        [*read_passages(tmp_path / "b.jsonl")]
    (tmp_path / "c.txt").write_bytes(b"good\n\xff\n")
    with pytest.raises(ValueError, match=r"c\.txt, about row 0: .* can't decode byte 0xff"):
        [*read_passages(tmp_path / "c.txt")]
    pq.write_table(pa.table({"text": ["good"]}), tmp_path / "d.parquet")
    (tmp_path / "d.parquet").write_bytes((tmp_path / "d.parquet").read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"d\.parquet, about row 0"):
        [*read_passages(tmp_path / "d.parquet")]
