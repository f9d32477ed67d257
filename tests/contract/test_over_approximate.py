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
    for decision in (result[0].decision, result[0].decide(0.9)):
        assert (decision.action, decision.code) == ("abstain", "uncertain")
        assert "no passage" not in decision.reason
    small = Few()
    small.add_texts([ANSWER], [{"tenant": 1}])
    nothing = UECRetriever.over(small, Words(), fit=False).index
    assert nothing.search([ASKED], filter={"tenant": 7})[0].decision.code == "nothing_found"


class Capped(Few):
    """A store that refuses to return more than it has, as scikit-learn's does, or than a limit."""

    def __init__(self, most=1000):
        super().__init__()
        self.most, self.asked = most, []

    def similarity_search(self, query, k=4, **kwargs):
        self.asked.append(k)
        if k > min(self.most, len(self.documents)):
            raise ValueError(f"Expected n_neighbors <= n_samples_fit, but n_neighbors = {k}")
        near = np.array(self.vectors) @ Words().embed_query(query)
        return [self.documents[at] for at in np.argsort(-near, kind="stable")[:k]]


def capped(size, most=1000):
    store = Capped(most)
    store.add_texts(
        [*(f"golugo {n}" for n in range(size - 1)), ANSWER],
        OF_FEW[:1] * (size - 1) + [{"tenant": 9}],
    )
    return store, UECRetriever.over(store, Words(), fit=False).index


@pytest.mark.parametrize("size", [1, 12, 49, 51, 96, 300])
@pytest.mark.parametrize("where", [None, {"tenant": 9}])
def test_a_store_that_refuses_more_than_it_has_is_asked_for_all(size, where, recwarn):
    store, index = capped(size)
    for _ in range(2):
        [one] = index.search([ASKED], filter=where)
        assert one.passages[0].text == ANSWER
    assert not [one for one in recwarn if "filtered here" in str(one.message)]
    store.asked.clear()
    index.search([ASKED], filter=where)
    assert len(store.asked) <= 6  # how many it gives is known


def test_of_a_store_with_a_limit_as_many_are_filtered_which_is_said_once(recwarn):
    _, index = capped(400, most=100)
    for _ in range(2):
        [one] = index.search([ASKED], filter={"tenant": 9})
        assert one.passages[0].text == ANSWER
    [said] = [str(one.message) for one in recwarn if "filtered here" in str(one.message)]
    assert "returns 100 passages of 1000" in said
    assert "100 of its passages were looked at" in said


def test_a_store_that_has_grown_is_asked_for_more():
    store, index = capped(5)
    index.search([ASKED])
    store.add_texts([f"{ANSWER} {n}" for n in range(40)], [{}] * 40)
    assert len(index.search([ASKED], 40)[0].passages) == 40


def test_a_store_that_fails_is_not_asked_time_and_again():
    store, index = capped(5, most=0)
    with pytest.raises(ValueError, match="n_neighbors = 50"):
        index.search([ASKED])
    assert store.asked == [50, 1]


async def test_postgres_in_async_mode_is_awaited():
    store = PGVector(
        Words(), connection=address("psycopg"), collection_name=uuid.uuid4().hex, async_mode=True
    )
    await store.aadd_texts(
        [*(f"golugo {n}" for n in range(60)), ANSWER], ids=[*map(str, range(61))]
    )
    over = UECRetriever.over(store, fit=False)
    found = await over.ainvoke(ASKED)
    assert found[0].page_content == ANSWER
    assert (await over.ainvoke(ASKED, filter={"$id": ["3"]}))[0].id == "3"
    await store._async_engine.dispose()
