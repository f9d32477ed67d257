import json

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


async def test_asynchronous_vectors_are_the_same(embeddings):
    assert await embeddings.aembed_documents(TEXTS) == embeddings.embed_documents(TEXTS)
    assert await embeddings.aembed_query(TEXTS[0]) == embeddings.embed_query(TEXTS[0])


def test_vectors_are_lists_of_python_floats_that_json_takes(embeddings):
    vectors = [embeddings.embed_query("lumane"), *embeddings.embed_documents(TEXTS)]
    assert all(type(number) is float for vector in vectors for number in vector)
    assert json.loads(json.dumps(vectors)) == vectors


def test_no_documents_give_no_vectors(embeddings):
    assert embeddings.embed_documents([]) == []


def test_anything_but_an_ensemble_is_refused(plain):
    with pytest.raises(TypeError, match=r"uec: expected a UEC, got DeterministicFakeEmbedding"):
        UECEmbeddings(uec=plain)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (None, TypeError, "text: expected a string, got"),
        (["lumane"], TypeError, "text: expected a string, got"),
        (" \n", ValueError, "text: expected a text, got an empty one"),
    ],
)
def test_a_query_that_is_no_text_is_refused(embeddings, text, error, message):
    with pytest.raises(error, match=f"^{message}"):
        embeddings.embed_query(text)
    with pytest.raises(TypeError, match="texts must be a list of strings, got one string"):
        embeddings.embed_documents("lumane")
