import warnings

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core.embeddings import MockEmbedding

from tests.helpers import bag_of_words
from uec_rag import UEC
from uec_rag.adapters.indexes import as_ensemble
from uec_rag.langchain import UECEmbeddings
from uec_rag.llama_index import UECEmbedding


def test_an_ensemble_and_what_wraps_one_stand_for_it():
    uec = UEC([bag_of_words(8, "words")])
    for value in (uec, UECEmbeddings(uec), UECEmbedding(uec)):
        assert as_ensemble(value) is uec


@pytest.mark.parametrize("embedding", [DeterministicFakeEmbedding(size=8), MockEmbedding(8)])
def test_an_embedding_has_words_beside_it_and_does_not_warn(embedding):
    with warnings.catch_warnings(action="error"):
        plain = as_ensemble(embedding).embed(["a"])
    assert plain.variance.tolist() == [[0.0] * 8]
    assert as_ensemble(embedding).fingerprint == UEC([embedding, "bm25"]).fingerprint
    assert as_ensemble(embedding, words=False).fingerprint == UEC([embedding]).fingerprint


@pytest.mark.parametrize("wrong", [7, "pypi:bot-brain", ["a"], UECEmbeddings])
def test_anything_else_is_refused(wrong):
    with pytest.raises(TypeError, match=r"^uec, embedding: expected a UEC, or an embedding of La"):
        as_ensemble(wrong)
