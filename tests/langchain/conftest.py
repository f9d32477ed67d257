"""Two small ensembles, one fitted, and an embedding that is only seen from outside."""

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from tests.helpers import bag_of_words, index_of, namesakes, pairs, passages
from uec_rag import UEC


def encoders():
    return [bag_of_words(16, "small"), bag_of_words(24, "large", seed=1)]


@pytest.fixture(scope="session")
def fitted():
    """Fitted, and query coefficients that depend on the query."""
    return UEC(encoders(), coefficients="trace", temperature=0.1).fit(pairs(64))


@pytest.fixture(scope="session")
def ambiguous():
    """An index of p0, p1 and so on, of which `VAGUE` is to be asked back."""
    metadatas = [{"source": f"{i}.txt", "even": i % 2 == 0} for i in range(120)]
    others, titled = namesakes()
    uec = UEC([*encoders(), "bm25"])
    metadatas += [{"even": False} | metadata for metadata in titled]
    return index_of(uec.fit(pairs(64)), [*passages(120), *others], metadatas=metadatas)


@pytest.fixture
def plain():
    """An embedding as others make them: vectors of any length, nothing known about them."""
    return DeterministicFakeEmbedding(size=12)
