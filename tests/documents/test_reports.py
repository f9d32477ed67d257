"""Files of the kinds that public reports are about, and what people expect to be read of them."""

import datetime
import json

import pytest

from tests.documents.files import paragraph, word_table, write_docx, write_pdf, write_xlsx, written
from uec_rag.documents import passages_of, read_folder

PARCEL = "<h2><button>How do I return a parcel?</button></h2><div><p>Print the label.</p></div>"
TOC = "<ul><li><a href='#a'>A</a><li><a href='#b'>B</a></ul>"
LINKS = "<a href='/'>Home</a> <a href='/a'>All pages</a>"
SPANS = (
    "<table><tr><th>Region<th>Product<th>Price<tr><td rowspan=2>North<td>Cable<td>5"
    "<tr><td>Hub<td>7</table>"
)
QUARTERS = (
    "<table><tr><th rowspan=2>Region<th colspan=2>2023<tr><th>Q1<th>Q2<tr><td>North<td>4<td>5"
    "</table>"
)
PLAN = "<table><tr><th>Plan</th><th>Price</th></tr><tr><td>Basic</td><td>5</td></tr></table>"
CYRILLIC = "Читальный зал закрывается в девять часов вечера. Штраф два евро в неделю."
FOLDED = """\
---
title: >-
  Fees
  and fines
authors: [Ada, Bo]
tags:
  - money
date: 2024-03-01
price: {now: 5}
description: What late books cost.
---
Two euros.
"""
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Bread\n", "\n", "It rests."]},
        {"cell_type": "code", "source": "bake(200)", "outputs": [{"text": "4711"}]},
    ]
}
MAIL = (
    b"From: Ada <ada@example.org>\nSubject: =?utf-8?q?Parking_f=C3=BCr_G=C3=A4ste?=\n"
    b"Content-Type: text/html; charset=utf-8\n\n<p>Use <b>garage B</b>.</p>"
)

TEXTS = {
    "a row that is spanned belongs to each row": (
        "a.html",
        SPANS,
        ["Region: North, Product: Cable, Price: 5\nRegion: North, Product: Hub, Price: 7"],
    ),
    "a column that is spanned is above each": (
        "a.html",
        QUARTERS,
        ["Region: North, 2023 Q1: 4, 2023 Q2: 5"],
    ),
    "cells that a sheet merges": (
        "a.xlsx",
        written(
            write_xlsx,
            [("Region", "Product", "Price"), ("North", "Cable", 5), (None, "Hub", 7)],
            merged=["A2:A3"],
        ),
        ["Region: North, Product: Cable, Price: 5\nRegion: North, Product: Hub, Price: 7"],
    ),
    "names that a sheet merges": (
        "a.xlsx",
        written(
            write_xlsx,
            [("Prices", None, None), ("Region", "2023", None), (None, "Q1", "Q2"), ("North", 4, 5)],
            merged=["A1:C1", "A2:A3", "B2:C2"],
        ),
        ["Prices\nRegion: North, 2023 Q1: 4, 2023 Q2: 5"],
    ),
    "a title above the names": (
        "a.csv",
        "Price list 2024,,\n,,\nProduct,Colour,Price\nDesk,red,200\n",
        ["Price list 2024\nProduct: Desk, Colour: red, Price: 200"],
    ),
    "a title above two names": (
        "a.csv",
        "Opening hours,\n\nDay,Hours\nMonday,9 to 5\n",
        ["Opening hours\nDay: Monday, Hours: 9 to 5"],
    ),
    "a name alone in the header": (
        "a.csv",
        "Item,\nDesk,200\nLamp,30\n",
        ["Item: Desk, 200\nItem: Lamp, 30"],
    ),
    "pairs of Word": (
        "a.docx",
        written(write_docx, word_table(("Name", "Ada Moss"), ("Phone", "555-0100"))),
        ["Name: Ada Moss\nPhone: 555-0100"],
    ),
    "three columns of Word": (
        "a.docx",
        written(write_docx, word_table(("Name", "Phone", "Room"), ("Ada Moss", "555", "9"))),
        ["Name: Ada Moss, Phone: 555, Room: 9"],
    ),
    "pairs of HTML": (
        "a.html",
        "<table><tr><th>Name<td>Ada<tr><th>Phone<td>555</table>",
        ["Name: Ada\nPhone: 555"],
    ),
    "two columns of a sheet have a header": (
        "a.xlsx",
        written(write_xlsx, [("Name", "Phone"), ("Ada", "555")]),
        ["Name: Ada, Phone: 555"],
    ),
    "a separator for Excel": ("a.csv", "sep=;\nname;price\nDesk;200\n", ["name: Desk, price: 200"]),
    "tabs": ("a.tsv", 'name\tprice\n"Desk, red"\t200\n', ["name: Desk, red, price: 200"]),
    "lines of JSON": (
        "a.jsonl",
        '{"q": "Fee?", "a": 5}\n\n{"q": "Late?", "tags": ["x", "y"]}\n',
        ["q: Fee?, a: 5\nq: Late?, tags: x, y"],
    ),
    "numbers, shares, dates and money of a sheet": (
        "a.xlsx",
        written(
            write_xlsx,
            [
                ("rate", "day", "time", "fee", "sum", "is"),
                (
                    0.475,
                    datetime.datetime(2024, 3, 1),
                    datetime.datetime(2024, 3, 1, 9, 30),
                    1234.5,
                    0.1 + 0.2,
                    True,
                ),
            ],
            formats={
                "A2": "0.0%",
                "B2": "dd.mm.yyyy",
                "C2": "d mmm yy h:mm",
                "D2": '#,##0.00\\ "€"',
            },
        ),
        [
            "rate: 47.5%, day: 2024-03-01, time: 2024-03-01 09:30, "
            "fee: 1,234.50 €, sum: 0.3, is: TRUE"
        ],
    ),
    "a hyphen before a digit, a capital, and in no known word": (
        "a.pdf",
        written(
            write_pdf,
            [
                [
                    "follow the price-",
                    "determining part AB-",
                    "1234, the well-",
                    "known docu-",
                    "mentation. More documentation follows.",
                ]
            ],
        ),
        [
            "follow the price-determining part AB-1234, the well-known documentation. "
            "More documentation follows."
        ],
    ),
    "larger lines of a PDF": (
        "a.pdf",
        written(
            write_pdf,
            [
                [
                    (18, "Opening hours"),
                    "We open at nine.",
                    "And close at five.",
                    (18, "Fees"),
                    "Two euros.",
                ]
            ],
        ),
        ["We open at nine.\nAnd close at five.", "Two euros."],
    ),
    "paragraphs of Windows": ("a.txt", "One.\r\n\r\nTwo.\r\n", ["One.\n\nTwo."]),
    "soft hyphens": (
        "a.html",
        "<p>Re&shy;imburse&shy;ment takes a week.</p>",
        ["Reimbursement takes a week."],
    ),
    "soft hyphens of a text": (
        "a.txt",
        "Re\u00adimburse\u00adment of o\ufb03ce\u00a0costs",
        ["Reimbursement of office costs"],
    ),
    "keys": ("a.html", "<p>Press <kbd>Ctrl</kbd><kbd>A</kbd></p>", ["Press `Ctrl` `A`"]),
    "a header of Word": (
        "a.docx",
        written(write_docx, paragraph("It opens at nine."), header="Valid until 31 March 2025"),
        ["Valid until 31 March 2025\n\nIt opens at nine."],
    ),
    "a table of HTML in Markdown": (
        "a.md",
        f"Before.\n\n{PLAN}\n\nAfter.",
        ["Before.\n\nPlan: Basic, Price: 5\n\nAfter."],
    ),
    "the same over several lines": (
        "a.md",
        PLAN.replace("<tr>", "\n\n  <tr>\n"),
        ["Plan: Basic, Price: 5"],
    ),
    "a table of Markdown": (
        "a.md",
        "| Plan | Price |\n|---|---|\n| *Basic* | 5 |\n\nAfter.",
        ["Plan: *Basic*, Price: 5\n\nAfter."],
    ),
    "a notebook": ("a.ipynb", json.dumps(NOTEBOOK), ["It rests.\n\n```python\nbake(200)\n```"]),
    "a message": ("a.eml", MAIL, ["From: Ada <ada@example.org>\n\nUse **garage B**."]),
    "one byte that is not UTF-8": (
        "a.txt",
        "Grüße ".encode() + b"\xff and more",
        ["Grüße \ufffd and more"],
    ),
    "such a byte in ASCII": ("a.txt", b"The fee\xff is five.", ["The fee\ufffd is five."]),
    "Cyrillic": ("a.txt", CYRILLIC.encode("cp1251"), [CYRILLIC]),
    "Russian of Unix": ("a.txt", CYRILLIC.encode("koi8_r"), [CYRILLIC]),
    "Japanese": (
        "a.txt",
        "図書館は午後九時に閉まります。".encode("cp932"),
        ["図書館は午後九時に閉まります。"],
    ),
    "French": (
        "a.txt",
        "L’été, le café ferme à six heures.".encode("cp1252"),
        ["L’été, le café ferme à six heures."],
    ),
    "an encoding that a page names": (
        "a.html",
        f"<meta charset=windows-1251><p>{CYRILLIC[:20]}".encode("cp1251"),
        [CYRILLIC[:20]],
    ),
}


def read(folder, name, data):
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    [document] = read_folder(folder)
    return document


@pytest.mark.filterwarnings("ignore:a.txt is not UTF-8", "ignore:a.txt has 1 bytes")
@pytest.mark.parametrize(("name", "data", "texts"), TEXTS.values(), ids=[*TEXTS])
def test_it_is_read_as_people_expect(tmp_path, name, data, texts):
    assert [section.text for section in read(tmp_path, name, data).sections] == texts


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.txt", CYRILLIC.encode("cp1251"), "a.txt is not UTF-8 and was read as cp1251"),
        ("a.txt", "Grüße ".encode() + b"\xff", "a.txt has 1 bytes that are not UTF-8"),
        ("a.xlsx", written(write_xlsx, [("a", "b"), (2, "=A2*2")]), "a.xlsx has 1 formulas that"),
    ],
)
def test_what_is_uncertain_or_missing_is_told(tmp_path, name, data, said):
    with pytest.warns(UserWarning, match=said):
        read(tmp_path, name, data)


@pytest.mark.parametrize(
    ("page", "headings", "text"),
    [
        (PARCEL * 2, ["How do I return a parcel?"] * 2, "Print the label."),
        ("<body id='top'><h1>Parking</h1><p>Use garage B.</p>", [""], "Use garage B."),
        ("<div class='nav menu toc'><h2>Parking</h2><p>Use B.</p></div>", ["Parking"], "Use B."),
        (f"<div class=navbar>{LINKS}</div><h2>Fees</h2><p>Two euros.</p>", ["Fees"], "Two euros."),
        (
            f"<header>{LINKS}<h1>Fees</h1></header><main><p>Two euros.</p></main>",
            [""],
            "Two euros.",
        ),
        (
            f"<main><h2>Fees</h2><p>Two.<aside>Per day.</aside></main><aside>{LINKS}</aside>",
            ["Fees"],
            "Two.\n\nPer day.",
        ),
        (f"<nav><h1>Fees</h1></nav><p>Two euros.</p><nav>{LINKS}</nav>", [""], "Two euros."),
        ("<h2>Fees</h2>" + TOC + "<p>Two.", ["Fees"], "Two."),
    ],
)
def test_no_name_of_navigation_removes_content(tmp_path, page, headings, text):
    document = read(tmp_path, "a.html", page)
    assert [section.heading for section in document.sections] == headings
    assert {section.text for section in document.sections} == {text}


def test_front_matter_is_in_the_metadata_and_its_description_is_searched(tmp_path):
    document = read(tmp_path, "a.md", FOLDED)
    [passage] = passages_of([document])
    assert passage.text == "Fees and fines\n\nWhat late books cost.\n\nTwo euros."
    known = {"authors": ["Ada", "Bo"], "tags": ["money"], "date": "2024-03-01"}
    assert known.items() <= passage.metadata.items()
    assert "price" not in passage.metadata
    assert passage.metadata["title"] == "Fees and fines"


def test_front_matter_changes_nothing_that_names_a_passage(tmp_path):
    document = read(tmp_path, "a.md", "---\nsource: elsewhere\nh1: x\npage: 7\n---\n# Fees\n\nTwo.")
    [passage] = passages_of([document])
    assert passage.metadata == {
        "source": "a.md", "title": "Fees", "position": 0, "document_title": "Fees"
    }  # fmt: skip


def test_each_part_of_a_long_answer_begins_with_its_question(tmp_path):
    answer = "Print the label and take the parcel to a shop near you. " * 20
    document = read(tmp_path, "a.csv", f'question,answer\nHow do I return it?,"{answer}"\n')
    passages = passages_of([document])
    assert len(passages) > 1
    lines = [line for passage in passages for line in passage.text.split("\n")]
    assert all(line.startswith("question: How do I return it?, answer: ") for line in lines)
    assert sum(line.count("Print the label") for line in lines) == 20


def test_chinese_is_cut_at_the_ends_of_sentences(tmp_path):
    text = "图书馆每天晚上九点关门，逾期图书每周罚款两欧元，读者可以在服务台办理借书证。" * 25
    passages = passages_of([read(tmp_path, "a.txt", text)])
    assert len(passages) > 1
    assert all(passage.text.endswith("。") for passage in passages)
    assert "".join(passage.text for passage in passages) == text


def test_in_word_a_title_is_that_of_the_document_and_chapters_are_not(tmp_path):
    chapters = [paragraph("Scope", "Heading1"), paragraph("All."), paragraph("Fees", "Heading1")]
    data = written(write_docx, *chapters, paragraph("Two euros."))
    document = read(tmp_path, "a.docx", data)
    assert document.title == ""
    assert [section.path for section in document.sections] == [("Scope",), ("Fees",)]
