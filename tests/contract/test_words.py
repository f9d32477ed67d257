"""What only words as a member can do, in both frameworks; `test_adapters_agree` has the rest."""

import numpy as np
import pytest

from tests.helpers import bag_of_words, index_of, pairs, passages
from uec_rag import UEC
from uec_rag.stores import MemoryStore

QUERIES = [query for query, _ in pairs(8, seed=3)]
TEXTS = [*(passage for _, passage in pairs(8, seed=3)), *passages(60, seed=4)]
IDS = [f"p{number}" for number in range(len(TEXTS))]


@pytest.fixture(scope="module")
def uec():
    return UEC([bag_of_words(24, "bag"), "bm25"]).fit(pairs(200))


@pytest.mark.parametrize("options", [{}, {"dtype": "int8"}])
def test_a_vector_alone_is_compared_with_vectors(uec, options):
    retriever = index_of(uec, TEXTS, IDS, store=MemoryStore(**options))
    mean = uec.embed([TEXTS[5]], "query").mean[0]
    found = retriever.search_vector(mean.tolist(), 3)
    assert found.ids[0][0] == IDS[5]
    assert np.isfinite(found.scores).all()
