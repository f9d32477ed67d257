"""Passages that come to another's store, or go, after its words were counted."""

import zlib

import numpy as np
import pytest
from langchain_chroma import Chroma
from langchain_community.docstore.in_memory import InMemoryDocstore
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from tests.helpers import empty_chroma
from uec_rag import UEC
from uec_rag.langchain import UECRetriever
from uec_rag.stores.passage import Passage
from uec_rag.stores.source import Source, SourceStore
from uec_rag.stores.stored import Listed

pytestmark = pytest.mark.filterwarnings("ignore:This UEC is not fitted", "ignore:Fewer than 30")
IDS = [f"{number:032x}" for number in range(90)]
TEXTS = [f"Item {number} stands on shelf {number % 7} of the store room." for number in range(90)]
LATER, WORD = "The zanzibar lamp is kept in the cellar.", "Where is the zanzibar lamp?"


class Blind(Embeddings):
    """An embedding to which what is about the lamp is farther from every question than all else."""

    def embed_documents(self, texts):
        return [*map(self._embed, texts)]

    def embed_query(self, text):
        return [1.0] * 8

    def _embed(self, text):
        noise = np.random.default_rng(zlib.crc32(text.encode())).uniform(0.9, 1.0, 8)
        return (noise * np.arange(1, 9) if "zanzibar" in text else noise).tolist()


def faiss():
    import faiss

    return FAISS(Blind(), faiss.IndexFlatL2(8), InMemoryDocstore(), {})


def qdrant():
    client, parameters = QdrantClient(":memory:"), {"size": 8, "distance": models.Distance.COSINE}
    client.create_collection("later", vectors_config=models.VectorParams(**parameters))
    return QdrantVectorStore(client, "later", Blind())


STORES = {
    "in memory": lambda: InMemoryVectorStore(Blind()),
    "FAISS": faiss,
    "Chroma": lambda: Chroma("later", Blind(), client=empty_chroma()),
    "Qdrant": qdrant,
}


@pytest.fixture(params=STORES)
def store(request):
    store = STORES[request.param]()
    store.add_documents([Document(t, id=i) for t, i in zip(TEXTS, IDS, strict=True)], ids=IDS)
    return store


def over(store):
    retriever = UECRetriever.over(store, fit=False, candidates=30, k=3)
    retriever.invoke("Where is item 7?")  # which counts the words
    return retriever


def added(store, text=LATER, id_="f" * 32):
    store.add_documents([Document(text, id=id_)], ids=[id_])


def test_a_later_passage_is_found_by_its_words_at_once(store):
    retriever = over(store)
    assert not any("zanzibar" in hit.page_content for hit in retriever.invoke(WORD))
    added(store)
    assert retriever.invoke(WORD)[0].page_content == LATER
    assert over(store).invoke(WORD)[0].page_content == LATER


def test_a_passage_that_is_gone_is_found_no_more(store):
    added(store)
    retriever = over(store)
    assert retriever.invoke(WORD)[0].page_content == LATER
    store.delete(ids=["f" * 32])
    assert not any("zanzibar" in hit.page_content for hit in retriever.invoke(WORD))
    frequencies = retriever.index.store._mirror.words.frequencies
    assert [block.passages for block in frequencies] == [len(TEXTS)]


def test_another_text_of_an_id_counts_once_it_is_found():
    store = InMemoryVectorStore(Blind())
    store.add_documents([Document(t, id=i) for t, i in zip(TEXTS[:20], IDS, strict=False)])
    retriever = over(store)
    added(store, "The quokka cage is empty.", IDS[0])
    retriever.invoke("Where is item 3?")  # all passages are candidates
    assert retriever.invoke("Is the quokka cage empty?")[0].page_content.startswith("The quokka")
    rows = retriever.index.store._mirror.words.rows
    assert rows[IDS[0]][1].text == "The quokka cage is empty."


def test_only_new_passages_are_counted(store, monkeypatch):
    retriever, counted = over(store), []
    encode = Listed.encode

    def encoded(self, encoders, passages):
        counted.append(len([p for p in passages if p.id not in self.rows]))
        return encode(self, encoders, passages)

    monkeypatch.setattr(Listed, "encode", encoded)
    added(store)
    retriever.invoke(WORD)
    retriever.invoke(WORD)
    assert sum(counted) == 1


def test_what_cannot_be_listed_as_it_is_found_is_not_counted_each_time():
    listings = []
    passages = [Passage(id_, text) for id_, text in zip(IDS, TEXTS, strict=True)]

    def sample(count):
        listings.append(count)
        return passages[:count]

    def find(question, filter):
        return [Passage(f"other {id_}", text) for id_, text in zip(IDS[:40], TEXTS, strict=False)]

    uec = UEC([Blind(), "bm25"])
    by_id = {passage.id: passage for passage in passages}
    source = Source("theirs", find, get=lambda ids: [by_id[i] for i in ids], sample=sample)
    from uec_rag import Retriever

    index = Retriever(uec, SourceStore(uec.encoders, source), fit=False)
    for _ in range(3):
        index.search(["Where is item 7?"])
    assert len(listings) <= 2
