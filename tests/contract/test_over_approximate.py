"""A store that returns fewer than it is asked for has not said that there are no more."""

import uuid

import faiss
import numpy as np
import pytest
from langchain_community.docstore.in_memory import InMemoryDocstore
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_postgres import PGVector
from sqlalchemy import text

from tests.contract.postgres import address
from tests.helpers import bag_of_words
from uec_rag.langchain import UECRetriever

ENCODE = bag_of_words(32, "words")
ANSWER = "How long is the warranty on lamps? Two years."
OTHERS = [f"{'golugo' if n < 20 else ANSWER} {n}" for n in range(1500)]
ASKED = "How long is the warranty on lamps?"
OF_FEW = [{"tenant": 7 if n < 20 else 1} for n in range(len(OTHERS))]


class Words(Embeddings):
    def embed_documents(self, texts):
        return np.asarray(ENCODE(texts)).tolist()

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def postgres(collection=""):
    """A collection whose HNSW index looks at 40 rows, before it filters them."""
    store = PGVector(
        Words(),
        connection=address("psycopg", "approximate"),  # whose column has dimensions
        collection_name=collection or uuid.uuid4().hex,
        engine_args={"connect_args": {"options": "-c enable_seqscan=off"}},
    )
    with store._make_sync_session() as session:
        # Given as `embedding_length`, it would hold for every PGVector of this process.
        session.execute(text("ALTER TABLE langchain_pg_embedding ALTER embedding TYPE vector(32)"))
        session.execute(
            text(
                "CREATE INDEX IF NOT EXISTS near ON langchain_pg_embedding "
                "USING hnsw (embedding vector_cosine_ops)"
            )
        )
        session.commit()
    return store


def faiss_store(kind):
    index = faiss.index_factory(32, kind, faiss.METRIC_INNER_PRODUCT)
    if not index.is_trained:
        index.train(np.float32(Words().embed_documents(OTHERS)))
    return FAISS(Words(), index, InMemoryDocstore(), {})


class Few(VectorStore):
    """A store whose index looks at the 40 nearest, and filters these."""

    def __init__(self):
        self.documents, self.vectors = [], []

    @classmethod
    def from_texts(cls, texts, embedding, metadatas=None, **kwargs):
        raise NotImplementedError

    def add_texts(self, texts, metadatas=None, **kwargs):
        for n, (one, metadata) in enumerate(zip(texts, metadatas, strict=True)):
            id_ = f"{len(self.documents)}-{n}"
            self.documents.append(Document(one, id=id_, metadata=metadata))
        self.vectors += Words().embed_documents(texts)

    def similarity_search(self, query, k=4, **kwargs):
        near = np.array(self.vectors) @ Words().embed_query(query)
        return [self.documents[at] for at in np.argsort(-near)[: min(k, 40)]]


STORES = {
    "PGVector with HNSW": postgres,
    "FAISS with HNSW": lambda: faiss_store("HNSW8"),
    "FAISS with IVF": lambda: faiss_store("IVF64,Flat"),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:filter by", "ignore:50 candidates of FAISS")
@pytest.mark.parametrize("kind", STORES)
def test_a_filter_finds_what_the_index_did_not_look_at(kind):
    store = STORES[kind]()
    store.add_texts(OTHERS, OF_FEW)
    store.add_texts([ANSWER], [{"tenant": 7}])
    over = UECRetriever.over(store, fit=False)
    for where in ({"tenant": 7}, {"tenant": {"$ne": 1}}):
        found = over.invoke(ASKED, filter=where)
        assert found[0].page_content == ANSWER
        assert {one.metadata["tenant"] for one in found} == {7}


def test_a_second_collection_in_the_table_has_all_its_candidates():
    postgres().add_texts([f"{ANSWER} {n}" for n in range(300)])
    second = postgres()
    second.add_texts([*[f"golugo {n}" for n in range(80)], ANSWER])
    over = UECRetriever.over(second, fit=False, k=50)
    assert len(over.invoke(ASKED)) == 50
    assert over.invoke(ASKED)[0].page_content == ANSWER


def test_a_store_that_cannot_be_asked_otherwise_is_not_said_to_have_nothing():
    store = Few()
    store.add_texts([f"{ASKED} {n}" for n in range(60)], [{"tenant": 1}] * 60)
    store.add_texts(["golugo"], [{"tenant": 7}])
    over = UECRetriever.over(store, Words(), fit=False)
    with pytest.warns(UserWarning, match="returns 40 passages of 1000.*look at more"):
        result = over.index.search([ASKED], filter={"tenant": 7})
    assert (result[0].decision.action, result[0].decision.code) == ("abstain", "uncertain")
    assert "no passage" not in result[0].decision.reason
    small = Few()
    small.add_texts([ANSWER], [{"tenant": 1}])
    nothing = UECRetriever.over(small, Words(), fit=False).index
    assert nothing.search([ASKED], filter={"tenant": 7})[0].decision.code == "nothing_found"
