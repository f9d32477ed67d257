"""Files of data: what is no value is none, lines stay, and saved documents are documents."""

import json

import pytest
from langchain_core.documents import Document
from langchain_core.load import dumps
from llama_index.core.schema import NodeWithScore, TextNode

from tests.documents.files import write_xlsx
from uec_rag.documents import passages_of, read_folder

ROWS = [["Part", "Stock", "Code"], ["Bolt", "{}", "x"], ["Nut", "7", "y"]]
NO_VALUES = ["NULL", "nan", "NaN", r"\N", "None", "#N/A", "#REF!", "#DIV/0!", "<NA>", "null"]


def texts_in(folder):
    return [passage.text for passage in passages_of(read_folder(folder))]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "xlsx"])
def test_what_a_program_writes_for_no_value_is_none(kind, tmp_path):
    for number, value in enumerate(NO_VALUES):
        path = tmp_path / f"{number}.{kind}"
        rows = [[cell.format(value) for cell in row] for row in ROWS]
        objects = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
        if kind == "xlsx":
            write_xlsx(path, rows)
            continue
        joint = "," if kind == "csv" else "\t"
        lines = map(json.dumps, objects) if kind == "jsonl" else map(joint.join, rows)
        path.write_text("\n".join(lines), encoding="utf-8")
    for value, text in zip(NO_VALUES, texts_in(tmp_path), strict=True):
        assert text.endswith("Part: Bolt, Code: x\nPart: Nut, Stock: 7, Code: y"), value


@pytest.mark.parametrize("kind", ["csv", "jsonl", "xlsx"])
def test_a_cell_of_several_lines_keeps_them(kind, tmp_path):
    code = "while on:\n    step()\nstop()"
    rows = [["Way", "Code"], ["slow", code], ["fast", "run()"]]
    if kind == "xlsx":
        write_xlsx(tmp_path / "a.xlsx", rows)
    elif kind == "csv":
        (tmp_path / "a.csv").write_text(f'Way,Code\nslow,"{code}"\nfast,run()\n')
    else:
        lines = (json.dumps(dict(zip(rows[0], row, strict=True))) for row in rows[1:])
        (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert code in texts_in(tmp_path)[0]


FACTS = [{"team": "north", "tags": ["a"], "title": f"Rule {n}", "_node_content": "x"} for n in "12"]


@pytest.mark.parametrize(
    "write",
    [
        lambda text, facts: json.dumps({"page_content": text, "metadata": facts}),
        lambda text, facts: dumps(Document(text, metadata=facts)),
        lambda text, facts: TextNode(text=text, metadata=facts).to_json(),
        lambda text, facts: NodeWithScore(node=TextNode(text=text, metadata=facts)).to_json(),
    ],
    ids=["plain", "LangChain", "LlamaIndex", "a hit"],
)
def test_saved_documents_are_passages_with_their_metadata(write, tmp_path):
    said = ["Dogs stay outside.", "Cats may come in."]
    lines = [write(text, facts) for text, facts in zip(said, FACTS, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    passages = passages_of(read_folder(tmp_path))
    assert [passage.text for passage in passages] == said
    for passage, facts in zip(passages, FACTS, strict=True):
        assert {key: passage.metadata[key] for key in ("team", "tags", "title")} == {
            key: facts[key] for key in ("team", "tags", "title")
        }
        assert "_node_content" not in passage.metadata
