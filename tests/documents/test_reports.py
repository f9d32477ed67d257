"""Files of the kinds that public reports are about, and what people expect to be read of them."""

import datetime
import json

import pytest

from tests.documents.files import docx, paragraph, word_table, write_pdf, write_xlsx, written
from tests.helpers import DATA, data_of
from uec_rag.documents import passages_of, read_folder

NUMBERS = [
    ("rate", "day", "time", "fee", "sum", "is"),
    (
        *(0.475, datetime.datetime(2024, 3, 1), datetime.datetime(2024, 3, 1, 9, 30)),
        *(1234.5, 0.1 + 0.2, True),
    ),
]
SHAPES = {"A2": "0.0%", "B2": "dd.mm.yyyy", "C2": "d mmm yy h:mm", "D2": '#,##0.00\\ "€"'}
DATES = "time: 2024-03-01 09:30, fee: 1,234.50 €, sum: 0.3, is: TRUE"


def bytes_of(row):
    """The file that a row of data describes."""
    if "sheet" in row:
        return written(write_xlsx, row["sheet"], merged=row.get("merged", ()))
    if "pages" in row:
        return written(write_pdf, row["pages"])
    if "table" in row:
        return docx(word_table(*row["table"]))
    return row["source"].encode(row.get("encoding", "utf-8"))


FILES = {
    "numbers, shares, dates and money of a sheet": (
        "a.xlsx",
        written(write_xlsx, NUMBERS, formats=SHAPES),
        [f"rate: 47.5%, day: 2024-03-01, {DATES}"],
    ),
    "a header of Word": (
        "a.docx",
        docx(paragraph("It opens at nine."), header="Valid until 31 March 2025"),
        ["Valid until 31 March 2025\n\nIt opens at nine."],
    ),
    "a byte that is not UTF-8": ("a.txt", "Grüße ".encode() + b"\xff", ["Grüße \ufffd"]),
    "such a byte in ASCII": ("a.txt", b"The fee\xff is five.", ["The fee\ufffd is five."]),
    **{
        row["says"]: (row["name"], bytes_of(row), row["texts"])
        for row in data_of("reported_files.json")
    },
}


def read(folder, name, data):
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    [document] = read_folder(folder)
    return document


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """What one process reads of all files, each in its folder, by their titles in `FILES`."""
    folder = tmp_path_factory.mktemp("files")
    for number, (name, data, _) in enumerate(FILES.values()):
        (folder / f"{number}").mkdir()
        (folder / f"{number}" / name).write_bytes(
            data if isinstance(data, bytes) else data.encode()
        )
    documents = {document.source.split("/")[0]: document for document in read_folder(folder)}
    return {title: documents[f"{number}"] for number, title in enumerate(FILES)}


@pytest.mark.filterwarnings("ignore:.*a.txt is not UTF-8", "ignore:.*a.txt has 1 bytes")
@pytest.mark.parametrize("title", FILES)
def test_it_is_read_as_people_expect(documents, title):
    assert [section.text for section in documents[title].sections] == FILES[title][2]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.txt", FILES["Cyrillic"][1], "a.txt is not UTF-8 and was read as cp1251"),
        ("a.txt", "Grüße ".encode() + b"\xff", "a.txt has 1 bytes that are not UTF-8"),
        (
            "a.xlsx",
            written(write_xlsx, [("a", "b"), (2, "=A2*2")]),
            "left out of a.xlsx: 1 formula never",
        ),
    ],
)
def test_what_is_uncertain_or_missing_is_told(tmp_path, name, data, said):
    with pytest.warns(UserWarning, match=said):
        read(tmp_path, name, data)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "headings", "text"), data_of("navigation.json"))
def test_no_name_of_navigation_removes_content(tmp_path, page, headings, text):
    document = read(tmp_path, "a.html", page)
    assert [section.heading for section in document.sections] == headings
    assert {section.text for section in document.sections} == {text}


def test_front_matter_is_in_the_metadata_and_its_description_is_searched(tmp_path):
    document = read(tmp_path, "a.md", (DATA / "front_matter.md").read_text())
    [passage] = passages_of([document])
    assert passage.text == "Fees and fines\n\nWhat late books cost.\n\nTwo euros."
    known = {"authors": ["Ada", "Bo"], "tags": ["money"], "date": "2024-03-01"}
    assert known.items() <= passage.metadata.items()
    assert "price" not in passage.metadata
    assert passage.metadata["title"] == "Fees and fines"


@pytest.mark.parametrize(("kind", "title"), [("md", "Usage"), ("mdx", "Usage"), ("html", "")])
def test_front_matter_may_come_after_empty_lines_and_byte_order_marks(tmp_path, kind, title):
    starts = ["\n", " \t\n\n", "\ufeff", "\n\ufeff", "\ufeff\ufeff\n"]
    for number, start in enumerate(starts):
        text = f"{start}---\ntitle: Usage\nlinkTitle: Use\n---\nTwo euros."
        (tmp_path / f"{number}.{kind}").write_text(text)
    texts = [passage.text for passage in passages_of(read_folder(tmp_path))]
    assert texts == [f"{title}\n\nTwo euros.".strip()] * len(starts)


def test_text_between_rules_stays_text_below_a_text_and_in_later_cells(tmp_path):
    rules = "---\nfee: two\n---\n"
    for begins in ("Fees.\n", "    \nFees.\n", "<!-- fees -->\n"):
        document = read(tmp_path, "a.md", f"{begins}\n{rules}")
        assert "fee: two" in str(document.sections)
    cells = [{"cell_type": "markdown", "source": text} for text in ("Fees.", rules)]
    (tmp_path / "a.md").unlink()
    document = read(tmp_path, "a.ipynb", json.dumps({"cells": cells}))
    assert "Fees." in str(document.sections)
    assert "fee: two" in str(document.sections)


def test_front_matter_changes_nothing_that_names_a_passage(tmp_path):
    document = read(tmp_path, "a.md", "---\nsource: elsewhere\nh1: x\npage: 7\n---\n# Fees\n\nTwo.")
    [passage] = passages_of([document])
    assert passage.metadata == {
        "source": "a.md", "title": "Fees", "document_title": "Fees", "start_index": 48
    }  # fmt: skip


def test_each_part_of_a_long_answer_begins_with_its_question(tmp_path):
    answer = "Print the label and take the parcel to a shop near you. " * 3000
    document = read(tmp_path, "a.csv", f'question,answer\nHow do I return it?,"{answer}"\n')
    passages = passages_of([document])
    assert len(passages) > 1
    lines = [line for passage in passages for line in passage.text.split("\n")]
    assert all(line.startswith("question: How do I return it?, answer: ") for line in lines)
    assert sum(line.count("Print the label") for line in lines) == 3000


def test_chinese_is_cut_at_the_ends_of_sentences(tmp_path):
    text = "图书馆每天晚上九点关门，逾期图书每周罚款两欧元，读者可以在服务台办理借书证。" * 25
    passages = passages_of([read(tmp_path, "a.txt", text)])
    assert len(passages) > 1
    assert all(passage.text.endswith("。") for passage in passages)
    assert "".join(passage.text for passage in passages) == text
