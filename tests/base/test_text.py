"""What a passage is about, by its metadata and how it begins."""

import json

import pytest

from tests.helpers import data_of, rows_of
from uec_rag.base.text import About


@pytest.mark.parametrize("row", rows_of("subjects.csv"), ids=lambda row: row["metadata"])
def test_the_subject_is_the_title_or_the_deepest_heading_before_the_file(row):
    assert About.of(json.loads(row["metadata"]), row["text"]).subject == row["subject"]


@pytest.mark.parametrize(("metadata", "document"), data_of("documents.json"))
def test_the_document_is_what_either_framework_calls_it(metadata, document):
    assert About.of(metadata).document == document


@pytest.mark.parametrize("key", ["source", "file_path", "file_name", "url"])
def test_the_source_is_what_either_framework_calls_it(key):
    about = About.of({key: "docs/loans.md", "page": 3})
    assert about.source == about.subject == "docs/loans.md"
    assert about.is_file
