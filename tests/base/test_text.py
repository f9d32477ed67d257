"""What a passage is about, by its metadata and how it begins."""

import json

import pytest

from tests.helpers import data_of, rows_of
from uec_rag.base.text import About


@pytest.mark.parametrize("row", rows_of("subjects.csv"), ids=lambda row: row["metadata"])
def test_the_subject_is_the_title_or_the_deepest_heading_before_the_file(row):
    assert About.from_passage(json.loads(row["metadata"]), row["text"]).subject == row["subject"]


@pytest.mark.parametrize(("metadata", "document"), data_of("documents.json"))
def test_the_document_is_what_either_framework_calls_it(metadata, document):
    assert About.from_passage(metadata).document == document


@pytest.mark.parametrize("key", ["source", "file_path", "file_name", "url"])
def test_the_source_is_what_either_framework_calls_it(key):
    about = About.from_passage({key: "docs/loans.md", "page": 3})
    assert about.source == about.subject == "docs/loans.md"
    assert about.is_file


def test_words_have_a_space_before_and_after_and_stems_have_no_function_words():
    about = About.from_passage(
        {"title": "The Fees for Loans", "source": "b/loans/index.md"}, "Über 3 loans."
    )
    assert about.subject_words == " the fees for loans "
    assert (about.subject_stems, about.source_stems) == ("fee loan", "loan")
    assert about.opening_words == " über 3 loans "
    assert About.from_passage({}, "?!").opening_words == ""
