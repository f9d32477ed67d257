"""A learned sparse model as a member of an ensemble, by object and by folder.

What holds for every sparse member is in tests/retrieval/test_words.py.
"""

import numpy as np
import pytest

from tests.helpers import WORDS, bag_of_words, of_members, pairs
from tests.retrieval.test_words import QUERIES, TEXTS, indexed
from tests.sparse_models import make_splade
from uec_rag import UEC
from uec_rag.base.similarity import moments


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("splade")
    make_splade(WORDS, place / "bert").save(str(place / "tiny-splade"))
    return place / "tiny-splade"


@pytest.fixture(scope="module")
def uec(folder):
    return UEC([bag_of_words(24, "bag"), str(folder), "bm25"]).fit(pairs(120))


def test_the_member_is_fitted_like_any_other(uec):
    assert uec.names == ["bag", "tiny-splade", "bm25"]
    assert uec.slopes[1] > 1
    assert uec.dimension == 24


def test_pruned_search_finds_what_comparing_with_everything_finds(uec):
    found = indexed(uec).search(QUERIES, k=5)
    assert found.exact
    parts = uec.encode(QUERIES, "query")
    mu, _ = moments(uec.combine(parts, found.coefficients), uec.embed(TEXTS, "passage"))
    np.testing.assert_allclose(found.mu[:, 0], mu.max(axis=1), rtol=1e-4)
    np.testing.assert_allclose(of_members(found, "counted").sum(axis=1), found.mu, atol=1e-5)


def test_alone_it_finds_what_its_own_similarity_finds(folder):
    uec = UEC([str(folder)]).fit(pairs(60))
    model = uec.encoders[0].model
    own = model.similarity(model.encode_query(QUERIES), model.encode_document(TEXTS)).numpy()
    found = indexed(uec).search(QUERIES, k=1)
    best = [own[row, int(ids[0])] for row, ids in enumerate(found.ids)]
    np.testing.assert_allclose(best, own.max(axis=1), rtol=1e-4)


def test_another_model_is_told_apart(folder, tmp_path):
    UEC([str(folder)]).fit(pairs(60)).save(tmp_path / "uec")
    other = make_splade(WORDS[:-1], tmp_path / "bert")
    with pytest.raises(ValueError, match="'tiny-splade' is not the model that was saved"):
        UEC.load(tmp_path / "uec", encoders={"tiny-splade": other})
