import numpy as np
import pytest

from uec_rag.langchain import UECEmbeddings

TEXTS = ["bafima degopi", "lumane", "bafima lumane"]


@pytest.fixture
def embeddings(fitted):
    return UECEmbeddings(uec=fitted)


def test_documents_get_the_means_of_passages_and_queries_those_of_queries(embeddings, fitted):
    documents = np.array(embeddings.embed_documents(TEXTS), dtype=np.float32)
    query = np.array(embeddings.embed_query(TEXTS[0]), dtype=np.float32)
    assert (documents == fitted.embed(TEXTS, "passage").mean).all()
    assert (query == fitted.embed(TEXTS[:1], "query").mean[0]).all()
    assert not np.allclose(documents[0], query)


def test_anything_but_an_ensemble_is_refused(plain):
    with pytest.raises(TypeError, match=r"uec: expected a UEC, got DeterministicFakeEmbedding"):
        UECEmbeddings(uec=plain)


def test_what_is_no_text_or_no_list_of_texts_is_refused(embeddings):
    with pytest.raises(TypeError, match=r"^text: expected a string, got"):
        embeddings.embed_query(["lumane"])
    with pytest.raises(TypeError, match="texts must be a list of strings, got one string"):
        embeddings.embed_documents("lumane")
