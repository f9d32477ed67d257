"""What a passage is about, by its metadata and how it begins."""

import pytest

from uec_rag.base.text import About

NODE = "file_path: loans.md\nheader_path: /Loans/\n\n### Fees\n\nNone: so it is."
HEADING, PLAIN = "[`OCR=<lang>`](#OCR) of **all** ~~old~~ jobs", "OCR=<lang> of all old jobs"


@pytest.mark.parametrize(
    ("metadata", "text", "subject"),
    [
        ({"source": "loans.md", "title": "Laptop", "Header 1": "Loans"}, "", "Laptop"),
        ({"source": "loans.md", "Header 1": "Loans", "Header 2": "Laptop"}, "", "Laptop"),
        ({"source": "loans.html", "h1": "Loans"}, "", "Loans"),
        ({"source": "loans.md", "header 9": "", "Header 1": ""}, "", "loans.md"),
        ({"file_path": "a.md", "title": "Laptop"}, "\n## Fees \n", "Laptop"),
        ({"file_path": "a.md"}, "\n## Fees \n", "Fees"),
        ({"file_path": "a.md"}, "#1\n# x", "a.md"),
        ({"file_path": "loans.md", "header_path": "/Loans/"}, NODE, "Fees"),
        ({"file_path": "loans.md"}, NODE, "loans.md"),
        ({"source": "a.md"}, f"## {HEADING} {{#anchor}}", PLAIN),
        ({"Header 2": HEADING}, "", PLAIN),
        ({}, "", ""),
    ],
)
def test_the_subject_is_the_title_or_the_deepest_heading_before_the_file(metadata, text, subject):
    assert About.of(metadata, text).subject == subject


@pytest.mark.parametrize(
    ("metadata", "document"),
    [
        ({"document_title": "Rye bread", "title": "Recap"}, "Rye bread"),
        ({"Header 1": HEADING, "Header 2": "Recap"}, PLAIN),
        ({"header_path": "/Loans/Fees/"}, "Loans"),
        ({"header_path": "/"}, ""),
        ({"document_title": "git-add(1) Manual Page"}, "git-add"),
    ],
)
def test_the_document_is_what_either_framework_calls_it(metadata, document):
    assert About.of(metadata).document == document


@pytest.mark.parametrize("key", ["source", "file_path", "file_name", "url"])
def test_the_source_is_what_either_framework_calls_it(key):
    about = About.of({key: "docs/loans.md", "page": 3})
    assert about.source == about.subject == "docs/loans.md"
    assert about.is_file
