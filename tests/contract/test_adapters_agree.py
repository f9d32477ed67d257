"""LangChain, LlamaIndex and no framework at all: one index, the same hits with the same numbers."""

import asyncio
from collections import namedtuple
from functools import partial

import numpy as np
import pytest
from langchain_core.documents import Document
from llama_index.core.schema import Document as LlamaIndexDocument
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from tests.helpers import (
    DETAILS,
    METADATA_KEYS,
    LinearHead,
    assert_alike,
    bag_of_words,
    index_of,
    noise,
    pairs,
    passages,
)
from tests.llama_index.conftest import build, nodes_of
from uec_rag import UEC, Retriever, langchain, llama_index
from uec_rag.stores.qdrant import QdrantStore

TEXTS = list(dict.fromkeys(passages(40)))[:30]
IDS = [f"p{i}" for i in range(len(TEXTS))]
METADATAS = [{"lang": "de" if i % 3 else "en", "place": i} for i in range(len(TEXTS))]
QUESTIONS = [
    TEXTS[4],
    " ".join(TEXTS[7].split()[:3]),
    f"{TEXTS[1].split()[0]} {TEXTS[20].split()[1]}",
    "fooba rabaz",
]


Hit = namedtuple("Hit", "id text score metadata")


class Plain:
    """No framework."""

    def __init__(self, uec, texts, ids, metadatas):
        self.index = Retriever(uec)
        self.index.add(texts, ids, metadatas)

    def search(self, question, k=4, lang=None):
        return self._hits(self.index.search([question], k, filter=lang and {"lang": lang}))

    async def asearch(self, question, k=4):
        return self._hits(await self.index.asearch([question], k))

    @staticmethod
    def _hits(result):
        return [
            Hit(p.id, p.text, float(score), p.metadata | result[0].metadata(rank, details=True))
            for rank, (p, score) in enumerate(
                zip(result.passages[0], result.scores[0], strict=True)
            )
        ]

    def put(self, text, id_, metadata):
        self.index.add([text], [id_], [metadata])

    def remove(self, id_):
        self.index.delete([id_])


class LangChain:
    def __init__(self, uec, texts, ids, metadatas):
        self.retriever = langchain.UECRetriever.from_texts(texts, uec, metadatas, ids, details=True)

    def search(self, question, k=4, lang=None):
        where = lang and {"lang": lang}
        return self._hits(self.retriever.invoke(question, k=k, filter=where))

    async def asearch(self, question, k=4):
        return self._hits(await self.retriever.ainvoke(question, k=k))

    @staticmethod
    def _hits(documents):
        return [Hit(d.id, d.page_content, d.metadata["uec_score"], d.metadata) for d in documents]

    def put(self, text, id_, metadata):
        self.retriever.vectorstore.add_texts([text], [metadata], ids=[id_])

    def remove(self, id_):
        self.retriever.vectorstore.delete([id_])


class LlamaIndex:
    def __init__(self, uec, texts, ids, metadatas):
        self.retriever = llama_index.UECRetriever.from_texts(
            texts, uec, metadatas, ids, details=True
        )

    def search(self, question, k=4, lang=None):
        self.retriever.similarity_top_k = k
        self.retriever.filters = lang and self._filters(lang)
        return self._hits(self.retriever.retrieve(question))

    async def asearch(self, question, k=4):
        self.retriever.similarity_top_k, self.retriever.filters = k, None
        return self._hits(await self.retriever.aretrieve(question))

    @staticmethod
    def _filters(lang):
        return MetadataFilters(filters=[MetadataFilter(key="lang", value=lang)])

    @staticmethod
    def _hits(nodes):
        return [Hit(n.node_id, n.text, n.score, n.metadata) for n in nodes]

    def put(self, text, id_, metadata):
        self.retriever.index.add([text], [id_], [metadata])

    def remove(self, id_):
        self.retriever.index.delete([id_])


class LlamaIndexIndex(LlamaIndex):
    """Through LlamaIndex's own index, which embeds first and stores afterwards."""

    def __init__(self, uec, texts, ids, metadatas):
        self.index = build(uec, nodes_of(texts, ids, metadatas))

    def search(self, question, k=4, lang=None):
        filters = lang and self._filters(lang)
        found = self.index.as_retriever(similarity_top_k=k, filters=filters)
        return self._hits(found.retrieve(question))

    async def asearch(self, question, k=4):
        return self._hits(await self.index.as_retriever(similarity_top_k=k).aretrieve(question))

    def put(self, text, id_, metadata):
        self.index.insert_nodes(nodes_of([text], [id_], [metadata]))

    def remove(self, id_):
        self.index.delete_nodes([id_])


ADAPTERS = [LangChain, LlamaIndex, LlamaIndexIndex]


def make_ensemble(kind):
    encoders = [bag_of_words(24, "small"), LinearHead(), noise]
    if kind == "unfitted":
        return UEC(encoders)
    if kind == "paper":
        return UEC.paper([bag_of_words(24, "a"), bag_of_words(24, "b", seed=1)]).fit(pairs(80))
    if kind == "words":
        return UEC([bag_of_words(24, "bag"), "bm25"]).fit(pairs(200))
    return UEC(encoders).fit(pairs(80))


@pytest.fixture(scope="module", params=["fitted", "paper", "unfitted", "words"])
def uec(request):
    return make_ensemble(request.param)


@pytest.fixture(scope="module")
def fitted():
    return make_ensemble("fitted")


@pytest.fixture(params=ADAPTERS, ids=lambda adapter: adapter.__name__)
def adapter(request):
    return request.param


SELDOM = {f"uec_{name}" for name in ("matched_terms", "why", "reading", "readings", "suggestions")}
SELDOM |= {"uec_unfamiliar", "uec_sources"}


def agree(found, expected):
    assert [hit[:2] for hit in found] == [hit[:2] for hit in expected]
    assert [hit.score for hit in found] == pytest.approx([h.score for h in expected], abs=1e-6)
    for ours, theirs in zip(found, expected, strict=True):
        assert {key for key in theirs.metadata if key.startswith("uec_")} - SELDOM == DETAILS
        # The stores' own searches write no details; the retrievers here are asked for them.
        more = DETAILS - METADATA_KEYS | {"uec_matched_terms", "uec_why"}
        left_out = set() if "uec_mu" in ours.metadata else more
        assert ours.metadata.keys() & DETAILS == theirs.metadata.keys() & DETAILS - left_out
        told = {key: value for key, value in theirs.metadata.items() if key not in left_out}
        for key, value in flat(told).items():
            if isinstance(value, float):
                value = pytest.approx(value, rel=1e-4, abs=1e-6)
            if key != "uec_search/basis":  # an equal filter may be put in other words
                assert flat(ours.metadata)[key] == value, key


def flat(values):
    """Values of nested mappings, by the names of the keys on the way."""
    out = {}
    for key, value in values.items():
        if isinstance(value, dict):
            out |= {f"{key}/{name}": inner for name, inner in flat(value).items()}
        else:
            out[key] = value
    return out


ASKED = [(question, 4, None) for question in QUESTIONS]
ASKED += [(QUESTIONS[1], 6, "de"), (QUESTIONS[1], 6, "en"), ("fooba rabaz", 100, None)]


async def test_the_same_is_found_with_the_same_numbers(uec, adapter):
    plain, ours = (kind(uec, TEXTS, IDS, METADATAS) for kind in (Plain, adapter))
    for question, k, lang in ASKED:
        expected = plain.search(question, k, lang)
        assert lang is None or {hit.metadata["lang"] for hit in expected} == {lang}
        assert len(expected) == min(k, len(TEXTS))
        agree(ours.search(question, k, lang), expected)
    found = await asyncio.gather(*(ours.asearch(question) for question in QUESTIONS))
    for question, hits in zip(QUESTIONS, found, strict=True):
        agree(hits, plain.search(question))
    assert adapter(uec, [], [], []).search("lumane") == []


def test_what_was_replaced_and_removed_is_so_for_all(uec, adapter):
    indexes = [kind(uec, TEXTS, IDS, METADATAS) for kind in (Plain, adapter)]
    for index in indexes:
        index.put("lumane bafima degopi", "p4", {"lang": "fr", "place": 4})
        index.remove("p7")
    for question in (*QUESTIONS, "lumane bafima degopi"):
        expected, found = (index.search(question, 30) for index in indexes)
        agree(found, expected)
        assert "p7" not in {hit.id for hit in found}
        assert {hit.text for hit in found if hit.id == "p4"} == {"lumane bafima degopi"}


SAVED = [langchain.UECRetriever, llama_index.UECRetriever]


@pytest.mark.parametrize("kind", SAVED)
def test_what_one_class_saves_all_find_again(uec, tmp_path, kind):
    index = Plain(uec, TEXTS, IDS, METADATAS).index
    index.save(tmp_path / "first")
    kind.load(tmp_path / "first", uec).save(tmp_path / "second")
    for other in SAVED:
        loaded = other.load(tmp_path / "second", uec).index
        assert_alike(loaded.search(QUESTIONS, 4), index.search(QUESTIONS, 4))


def of_texts(kind, uec, store):
    return kind.from_texts(TEXTS, uec, METADATAS, IDS, store=store)


def of_documents(kind, uec, store):
    documents = [LlamaIndexDocument(**dict(node)) for node in nodes_of(TEXTS, IDS, METADATAS)]
    if kind is langchain.UECRetriever:
        documents = [Document(d.text, id=d.id_, metadata=d.metadata) for d in documents]
    return kind.from_documents(documents, uec, store=store)


def of_nodes(uec, store):
    filled = llama_index.UECVectorStore(uec, store=store)
    filled.add(nodes_of(TEXTS, IDS, METADATAS))
    return filled


WAYS = [partial(way, kind) for way in (of_texts, of_documents) for kind in SAVED]


@pytest.mark.parametrize("make", [*WAYS, of_nodes])
def test_in_an_engine_the_same_is_found_by_all(fitted, make):
    store = QdrantStore(location=":memory:")
    found = make(fitted, store).index.search(QUESTIONS[:3])
    assert len(store) == len(TEXTS)
    expected = index_of(fitted, TEXTS, IDS, METADATAS).search(QUESTIONS[:3])
    for one, other in zip(found.passages, expected.passages, strict=True):
        assert [passage.text for passage in one] == [passage.text for passage in other]
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)


@pytest.mark.parametrize("kind", [langchain.UECVectorStore, llama_index.UECVectorStore])
def test_an_index_has_its_store_already(fitted, kind):
    with pytest.raises(ValueError, match="store: a Retriever has a store already"):
        kind(Retriever(fitted), store=QdrantStore(location=":memory:"))
