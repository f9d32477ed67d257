"""A look into an index."""

import numpy as np
import pytest

from tests.helpers import unit
from uec_rag import UEC, Retriever
from uec_rag.evaluation.inspection import (
    describe_languages,
    search_by_each_member,
)


@pytest.fixture(scope="module")
def index(fitted, texts):
    """An index of passages that questions can be made of."""
    retriever = Retriever(fitted)
    pairs = zip(texts[::2], texts[1::2], strict=False)
    made = [f"{one.capitalize()}. {other.capitalize()}." for one, other in pairs]
    retriever.add(made, [f"p{i}" for i in range(len(made))])
    return retriever


def test_in_what_passages_are_written_is_told_beside_what_the_fit_knew(index):
    found = describe_languages(index)
    assert found["languages"] == found["fitted_on"] == ("Latin letters",)
    assert found["strange"] is None


@pytest.fixture(scope="module")
def parts(full, queries):
    return full.uec.encode(queries, "query")


def ids(ranking):
    return [[passage.id for passage in row] for row in ranking]


def test_a_member_alone_orders_by_its_own_cosine_whatever_the_variance(full, queries, parts, texts):
    found, stored = (
        search_by_each_member(full, queries, 5),
        full.uec.encode(texts, "passage"),
    )
    assert [*found] == full.uec.names
    for ranking, asked, own in zip(found.values(), parts, stored, strict=True):
        order = np.argsort(-(unit(asked.mean) @ unit(own.mean).T), axis=1, kind="stable")
        assert ids(ranking.passages) == [[f"p{i}" for i in row] for row in order[:, :5]]


def test_one_encoder_has_no_others(queries):
    words = Retriever(UEC(["bm25"], coefficients="uniform"))
    words.add(["ba de", "fi go"])
    assert search_by_each_member(words, queries, 1) == {}
