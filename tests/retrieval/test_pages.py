"""A page is found by its number, of those that the question may see."""

import warnings

import pytest

from tests.helpers import data_of, index_of
from uec_rag import UEC

TEXTS = data_of("shop.json")["texts"][:8]


@pytest.fixture(scope="module")
def index():
    """Of a document of ours with pages from 1, and one of LangChain's with pages from 0."""
    ours = [{"source": "a.pdf", "page": n} for n in range(1, 5)]
    theirs = [{"source": "b.pdf", "page": n, "page_label": f"{n + 3}"} for n in range(4)]
    return index_of(UEC(), TEXTS, metadatas=[*ours, *theirs])


@pytest.mark.parametrize(("asked", "first"), data_of("pages.json"))
def test_the_page_that_a_question_names_is_first(index, asked, first):
    [result] = index.search([asked], 4)
    assert {*result.ids[: len(first)]} == {*first}
    assert result.decision.code == "uncertain"
    assert len(result.ids) == len({*result.ids}) == 4


def test_a_page_is_one_that_the_question_may_see(index):
    [result] = index.search(["What does page 4 say?"], tenant={"source": "b.pdf"})
    assert result.ids[0] == "p5"
    assert "p3" not in result.ids
    [result] = index.search(["What does page 4 say?"], filter={"source": "a.pdf"})
    assert result.ids[0] == "p3"


def test_what_has_no_such_page_is_searched_as_it_was(index):
    plain = index_of(UEC(), TEXTS)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="filter")
        for searched, asked in ((plain, "What does page 2 say?"), (index, "What is on page 90?")):
            [result] = searched.search([asked])
            assert result.decision.action == "abstain"
            assert len(result.ids) == 4
