"""Probabilities are of the question and the corpus, not of how either was looked at."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import bag_of_words
from uec_rag import UEC, Retriever
from uec_rag.confidence.model import NEAREST
from uec_rag.ensemble.conversation import Turn
from uec_rag.retrieval.pipeline import Method, find
from uec_rag.stores import MemoryStore
from uec_rag.stores.qdrant import QdrantStore

NUMBERS = ("in_corpus", "found", "relevance")
STORES = {
    "memory": MemoryStore,
    "int8": lambda: MemoryStore(dtype="int8"),
    "engine": lambda: QdrantStore(location=":memory:", collection="passages"),
}


@pytest.fixture(scope="module")
def indexes(fit_pairs):
    """The same corpus, of more passages than are looked at, in each store."""
    uec = UEC([bag_of_words(16, "one"), bag_of_words(12, "two"), "bm25"]).fit(fit_pairs)
    texts = [f"{text} number {i}" for i, (_, text) in enumerate(fit_pairs)]
    assert len(texts) > 2 * NEAREST
    found = {}
    for name, store in STORES.items():
        found[name] = Retriever(uec, store())
        found[name].add(texts, ids=[str(i) for i in range(len(texts))])
    return found


def features_of(retriever, questions, k):
    """Of whole searches, joined over the views that the questions are compared with."""
    fitted, uec = retriever.uec.fitted, retriever.uec
    method = Method(fitted, fitted.evidence_weights, uec.confidence_model)
    parts = uec.encode(questions, "query")
    found = [
        one.features for one in find(method, retriever.store, [*map(Turn, questions)], parts, k)
    ]
    return {name: np.concatenate([getattr(one, name) for one in found]) for name in NUMBERS}


# int8 finds and scores hits exactly, but what each member says of them is off by its rounding.
@pytest.mark.parametrize(("name", "off"), [("engine", 1e-4), ("int8", 0.02)])
def test_features_and_probabilities_are_those_of_exact_search_in_every_store(
    indexes, queries, name, off
):
    asked = queries[:12]
    exact, other = (features_of(indexes[store], asked, 4) for store in ("memory", name))
    for part in NUMBERS:
        np.testing.assert_allclose(other[part], exact[part], atol=off, err_msg=part)
    exact, other = (indexes[store].search(asked, 4) for store in ("memory", name))
    assert other.ids == exact.ids
    for part in ("in_corpus", "confidence", "by_cutoff", "relevance"):
        np.testing.assert_allclose(getattr(other, part), getattr(exact, part), atol=off)


@settings(max_examples=5, deadline=None)
@given(
    name=st.sampled_from([*STORES]),
    row=st.integers(0, 30),
    cutoffs=st.lists(st.integers(1, 60), min_size=2, max_size=4),
)
def test_features_and_probabilities_do_not_depend_on_how_many_hits_are_asked_for(
    indexes, queries, name, row, cutoffs
):
    asked = [queries[row % len(queries)]]
    for few, many in pairwise(sorted(cutoffs)):
        seen, more = (features_of(indexes[name], asked, k) for k in (few, many))
        for part in NUMBERS:
            shared = seen[part] if part == "in_corpus" else seen[part][:, :few]
            np.testing.assert_allclose(more[part][:, : shared.shape[1]], shared, atol=1e-4)
        first, wider = (indexes[name].search(asked, k) for k in (few, many))
        np.testing.assert_allclose(wider.confidence, first.confidence, atol=1e-5)
        np.testing.assert_allclose(wider.in_corpus, first.in_corpus, atol=1e-5)
        np.testing.assert_allclose(wider.relevance[:, :few], first.relevance, atol=1e-5)
