"""The hits of each encoder alone."""

import numpy as np
import pytest

from tests.helpers import unit
from uec_rag import UEC, Retriever
from uec_rag.evaluation.simpler import search_by_each_member


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
