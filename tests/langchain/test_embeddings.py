import numpy as np
import pytest

from uec_rag.langchain import UECEmbeddings

TEXTS = ["bafima degopi", "lumane", "bafima lumane"]


def test_documents_get_the_means_of_passages_and_queries_those_of_queries(fitted):
    embeddings = UECEmbeddings(uec=fitted)
    documents = np.array(embeddings.embed_documents(TEXTS), dtype=np.float32)
    query = np.array(embeddings.embed_query(TEXTS[0]), dtype=np.float32)
    assert (documents == fitted.embed(TEXTS, "passage").mean).all()
    assert (query == fitted.embed(TEXTS[:1], "query").mean[0]).all()
    assert not np.allclose(documents[0], query)


def test_what_is_no_ensemble_no_text_or_no_list_of_texts_is_refused(fitted, plain):
    for call, message in (
        (lambda: UECEmbeddings(uec=plain), "uec: expected a UEC, got DeterministicFakeEmbedding"),
        (lambda: UECEmbeddings(fitted).embed_query(["a"]), "^text: expected a string, got"),
        (lambda: UECEmbeddings(fitted).embed_documents("a"), "texts must be a list of strings"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
