"""What a passage is about, by its metadata and how it begins."""

import json

import pytest

from tests.helpers import data_of, rows_of
from uec_rag.base.text import SOURCE_KEYS, TITLE_KEYS, About, first_value, path_names


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


@pytest.mark.parametrize(("source", "folders", "file"), data_of("paths.json"))
def test_a_path_is_the_names_of_folders_and_of_a_file_without_what_no_reader_knows(
    source, folders, file
):
    assert path_names(source) == (tuple(folders), file)


def test_a_passage_opens_with_the_first_words_of_its_text():
    assert About.from_passage({"title": "Fees"}, f"Über 3\nloans. {'x ' * 20}").opening == (
        " über 3 loans x x x x x x x "
    )
    assert About.from_passage({}, "?!").opening.strip() == ""


@pytest.mark.parametrize(("title", "shown"), data_of("text.json"))
def test_a_title_is_what_a_site_shows(title, shown):
    assert first_value({"title": title}, TITLE_KEYS) == shown


def test_a_number_as_source_is_no_name():
    assert first_value({"source": 7}, SOURCE_KEYS) == ""
    assert first_value({"source": "12", "url": "a.org"}, SOURCE_KEYS) == "a.org"
    assert About.from_passage({"source": 3}, "Text.").subject == ""
