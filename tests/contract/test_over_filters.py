"""Filters over the stores of others: what a store of ours finds, over every one that is installed.

The table is stores times filters; of a filter that a store cannot run, it is said once.
"""

import warnings
from uuid import uuid4

import faiss
import numpy as np
import pytest
from langchain_chroma import Chroma
from langchain_community.docstore.in_memory import InMemoryDocstore
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_lancedb import LanceDB
from langchain_postgres import PGVector
from langchain_qdrant import QdrantVectorStore
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn, node_to_metadata_dict
from llama_index.vector_stores.chroma import ChromaVectorStore
from llama_index.vector_stores.faiss import FaissVectorStore
from llama_index.vector_stores.lancedb import LanceDBVectorStore
from llama_index.vector_stores.postgres import PGVectorStore
from llama_index.vector_stores.qdrant import QdrantVectorStore as LlamaIndexQdrant
from qdrant_client import QdrantClient, models
from sqlalchemy.engine import make_url

from tests.contract.postgres import address
from tests.contract.test_over import LangChain, LlamaIndex
from tests.helpers import bag_of_words, data_of, empty_chroma, index_of, passages
from tests.llama_index.conftest import nodes_of
from uec_rag import UEC, langchain, llama_index

ROWS = data_of("over_filters.json")


TEXTS = list(dict.fromkeys(passages(90)))[:80]
IDS = [f"00000000-0000-0000-0000-{i:012}" for i in range(len(TEXTS))]
Member, Node = LangChain.Member, LlamaIndex.Member
small = bag_of_words(16, "small")  # as these
QUERY = " ".join(TEXTS[3].split()[2:6])
CANDIDATES = 20
WORDS = ("ab", "abc", "O'Brien", "b", "")


def flat(i):
    """Metadata of one level, of which some passages have less."""
    known = {"word": WORDS[i % 5], "whole": i - 40, "part": i / 2 - 20, "flag": i % 3 == 0}
    return known | {"Header 1": f"part {i % 4}"} if i % 7 else {"word": "none"}


def deep(i):
    """Metadata with lists, too."""
    return flat(i) | {"tags": [f"t{i % 6}", f"u{i % 4}"], "sizes": [i / 2, i + 0.25]}


def nested(i):
    """Metadata with dicts, too, and values of several kinds under a key."""
    mixed = (i, str(i), i % 2 == 0, None, i / 2)[i % 5]
    return deep(i) | {"loc": {"page": i, "at": ["x"]}, "mixed": mixed}


def word_filters():
    for key, values in (
        ("word", ["ab", "O'Brien", "", "x' OR '1'='1"]),
        ("Header 1", ["part 2"]),
        ("absent", ["a"]),
    ):
        for value in values:
            yield {key: value}
            yield from ({key: {op: value}} for op in ("$ne", "$contains"))
        yield from ({key: {op: values}} for op in ("$in", "$nin"))
        yield from ({key: {"$exists": there}} for there in (True, False))
    yield from ({"word": {op: "abc"}} for op in ("$gt", "$gte", "$lt", "$lte"))


def number_filters():
    for key, values in (
        ("whole", [5, -3, 5.0, 4.5, -4.5, True]),
        ("part", [3, 3.0, 4.5, -4.5, 4.25, -0.3]),
        ("flag", [True, False, 1]),
    ):
        for value in values:
            yield {key: value}
            yield from ({key: {op: value}} for op in ("$ne", "$gt", "$gte", "$lt", "$lte"))
        yield from ({key: {op: values}} for op in ("$in", "$nin"))
    yield {"whole": {"$in": [5.0]}}
    yield {"whole": {"$gt": 4.5, "$lt": 5.5}}
    yield {"whole": {"$in": [5, "6", True]}}
    yield {"whole": "5"}
    yield {"word": {"$in": ["ab", 5]}}


def joined_filters():
    low, word = {"whole": {"$lt": -30.5}}, {"word": {"$in": ["ab", "b"]}}
    yield {"$and": [low, {"$or": [word, {"flag": True}]}]}
    yield {"$or": [low, {"$and": [word, {"$not": {"flag": True}}]}]}
    yield {"$not": {"$or": [low, word]}}
    yield {"whole": {"$not": {"$gte": -30}}, "flag": {"$exists": True}}
    yield {"$id": IDS[5:9]}


FLAT = [*word_filters(), *number_filters(), *joined_filters()]
DEEP = ROWS["deep"]
NESTED = ROWS["nested"]


def in_faiss(index):
    index.train(np.float32(small(TEXTS)))
    return FAISS(Member(), index, InMemoryDocstore(), {})


def qdrant(size=16):
    client = QdrantClient(":memory:")
    client.create_collection("texts", models.VectorParams(size=size, distance="Cosine"))
    return client


def with_whole_ids(metadatas):
    """A collection that another program filled, with numbers as ids."""
    client = qdrant()
    payloads = [
        {"page_content": text, "metadata": known}
        for text, known in zip(TEXTS, metadatas, strict=True)
    ]
    client.upload_collection("texts", small(TEXTS), payloads, [*range(len(TEXTS))])
    return QdrantVectorStore(client, "texts", Member())


def ivf():
    return faiss.IndexIVFFlat(faiss.IndexFlatL2(16), 16, 4)


LANGCHAIN = {
    "InMemory": (nested, lambda: InMemoryVectorStore(Member())),
    # Its graph is searched whole: else it now and then misses one of a tenant's few passages.
    "Chroma": (
        deep,
        lambda: Chroma(
            "texts",
            Member(),
            client=empty_chroma(),
            collection_metadata={"hnsw:search_ef": 2000, "hnsw:construction_ef": 2000},
        ),
    ),
    "Qdrant": (nested, lambda: QdrantVectorStore(qdrant(), "texts", Member())),
    "Qdrant with whole ids": (nested, with_whole_ids),
    "FAISS": (nested, lambda: in_faiss(faiss.IndexFlatL2(16))),
    "FAISS with an IVF index": (nested, lambda: in_faiss(ivf())),
    "FAISS with an HNSW index": (nested, lambda: in_faiss(faiss.IndexHNSWFlat(16, 8))),
    "PGVector": (
        nested,
        lambda: PGVector(Member(), connection=address("psycopg"), pre_delete_collection=True),
    ),
    "LanceDB": (nested, lambda folder: LanceDB(Member(), folder)),
}


def llama_postgres():
    url = make_url(address())
    options = {"host": "localhost", "port": "5432", "embed_dim": 16, "use_jsonb": True}
    where = {
        "connection_string": address("psycopg2"),
        "async_connection_string": address("asyncpg"),
    }
    return PGVectorStore.from_params(
        **where, **options, database=url.database, table_name=f"n{uuid4().hex}", perform_setup=True
    )


LLAMA_INDEX = {
    "SimpleVectorStore": (nested, lambda: None),
    "ChromaVectorStore": (
        flat,
        lambda: ChromaVectorStore(chroma_collection=empty_chroma().create_collection("texts")),
    ),
    "QdrantVectorStore": (nested, lambda: LlamaIndexQdrant("n", client=QdrantClient(":memory:"))),
    "LanceDBVectorStore": (flat, lambda folder: LanceDBVectorStore(str(folder), mode="overwrite")),
    "FaissVectorStore": (nested, lambda: FaissVectorStore(faiss.IndexFlatL2(16))),
    "PGVectorStore": (nested, llama_postgres),
}


def over_filled(name, folder, texts, ids, metadatas, uec=None, **options):
    """A retriever over a store of LangChain or LlamaIndex, which has passages."""
    make = (LANGCHAIN | LLAMA_INDEX)[name][1]
    names = make.__code__.co_varnames[: make.__code__.co_argcount]
    store = make(*({"folder": folder, "metadatas": metadatas}[one] for one in names))
    if name in LANGCHAIN:
        if "metadatas" not in names:
            store.add_texts(texts, metadatas, ids=ids)
        embedding = uec or store.embeddings or Member()
        return langchain.UECRetriever.over(store, embedding, fit=False, **options)
    nodes = nodes_of(texts, ids, metadatas)
    storage = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex(nodes, embed_model=Node(), storage_context=storage)
    return llama_index.UECRetriever.over(index, uec, fit=False, **options)


def filled(name, folder):
    """A store with passages, and the metadata of these."""
    metadatas = [*map((LANGCHAIN | LLAMA_INDEX)[name][0], range(len(TEXTS)))]
    return over_filled(name, folder, TEXTS, IDS, metadatas, candidates=CANDIDATES), metadatas


def found(index, filter_):
    """The places of the passages that are found, and what was said."""
    with warnings.catch_warnings(record=True, action="always") as said:
        view = index.store.snapshot(filter_).fetch([QUERY], index.uec.embed([QUERY], "query"), 1)
    texts = [passage.text for passage in view.passages()]
    assert len(texts) == len({*texts})
    return {TEXTS.index(text) for text in texts}, [str(one.message) for one in said]


SLOW = ("LanceDBVectorStore", "PGVectorStore")
STORES = [
    pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name
    for name in (*LANGCHAIN, *LLAMA_INDEX)
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:filter. '.*' is compared:UserWarning")
@pytest.mark.parametrize("name", STORES)
def test_a_filter_finds_over_any_store_what_it_finds_in_ours(name, tmp_path):
    over, metadatas = filled(name, tmp_path / "lance")
    ours = index_of(UEC([small, "bm25"]), TEXTS, IDS, metadatas)
    cases = [*FLAT, *(DEEP if "tags" in metadatas[1] else ())]
    cases += NESTED if "loc" in metadatas[1] else []
    failed = []
    for filter_ in cases:
        if "$id" in filter_ and name in ("Qdrant with whole ids", "LanceDB"):
            continue  # theirs are others
        allowed = {IDS.index(passage.id) for passage in ours.store.passages(filter_)}
        places, said = found(over.index, filter_)
        # FAISS, whose passages are in this process, may give all that match.
        if not places <= allowed or len(places) < min(len(allowed), CANDIDATES):
            failed.append((filter_, sorted(allowed), sorted(places), said))
    assert not failed


REFUSED = ROWS["refused"]


@pytest.mark.parametrize("name", REFUSED)
def test_that_a_store_refuses_a_filter_is_said_once_with_the_numbers(name, tmp_path):
    over, metadatas = filled(name, tmp_path)
    ours = index_of(UEC([small, "bm25"]), TEXTS, IDS, metadatas)
    allowed = {IDS.index(passage.id) for passage in ours.store.passages(REFUSED[name])}
    said = [found(over.index, REFUSED[name])[1] for _ in range(2)]
    told = [one for one in said[0] if one.startswith("filter by ")]
    assert len(told) == 1
    assert "refuses it" in told[0]
    assert f"{len(TEXTS)} of its passages were looked at" in told[0]
    assert f"{len(allowed)} match" in told[0]
    assert not [one for one in said[1] if one.startswith("filter by ")]


@pytest.mark.parametrize(("name", "missing"), ROWS["missing vectors"])
def test_texts_whose_vector_a_store_does_not_give_are_encoded_and_this_is_said_once(
    name, missing, tmp_path
):
    over, _ = filled(name, tmp_path)
    with warnings.catch_warnings(record=True, action="always") as said:
        results = [over.index.search([text], 1) for text in (TEXTS[3], TEXTS[9])]
    assert [one.passages[0][0].text for one in results] == [TEXTS[3], TEXTS[9]]
    told = [str(one.message) for one in said if "vectors are missing" in str(one.message)]
    assert len(told) == (missing is not None)
    assert all(missing in one and "Their texts are encoded" in one for one in told)


@pytest.mark.parametrize("name", ["Qdrant", "Qdrant with whole ids", "ChromaVectorStore"])
def test_passages_are_looked_up_by_the_ids_that_are_found(name, tmp_path):
    over, _ = filled(name, tmp_path)
    with warnings.catch_warnings(action="ignore"):
        ids = over.index.search([QUERY], 3).ids[0]
    assert [passage.id for passage in over.index.get(ids)] == ids


def test_chroma_finds_between_two_fractions_however_far_the_passage_is():
    store = Chroma("texts", Member(), client=empty_chroma())
    texts = [f"{TEXTS[0]} {i}" for i in range(1100)]
    store.add_texts([*texts, TEXTS[-1]], [{"price": i} for i in range(1101)])
    over = langchain.UECRetriever.over(store, fit=False).index
    for low, high, price in ((1099.5, 1100.5, 1100), (-0.5, 0.5, 0)):
        [hits] = over.search([TEXTS[0]], filter={"price": {"$gt": low, "$lt": high}}).passages
        assert [hit.metadata["price"] for hit in hits] == [price]


class Other(VectorStore):
    """A store that is not known, which takes no filter."""

    def __init__(self, count):
        self.documents = [Document(f"{TEXTS[0]} {i}", metadata={"n": i}) for i in range(count)]

    def similarity_search(self, query, k=4):
        return self.documents[:k]

    @classmethod
    def from_texts(cls, texts, embedding, metadatas=None, *, ids=None, **options):
        raise NotImplementedError


@pytest.mark.parametrize(("count", "said"), [(999, 0), (1001, 1)])
def test_that_farther_passages_of_a_filter_are_not_looked_at_is_said(count, said):
    over = langchain.UECRetriever.over(Other(count), Member(), fit=False).index
    with warnings.catch_warnings(record=True, action="always") as told:
        results = [over.search([TEXTS[0]], filter={"n": {"$gte": low}}) for low in (997, 998)]
    assert [len(one.ids[0]) for one in results] == ([2, 1] if said == 0 else [3, 2])
    told = [str(one.message) for one in told if "cannot run all of it, so 1000" in str(one.message)]
    assert len(told) == said


def test_a_filter_here_that_leaves_enough_of_the_nearest_passages_is_not_told(recwarn):
    over = langchain.UECRetriever.over(Other(1001), Member(), fit=False).index
    assert over.search([TEXTS[0]], filter={"$not": {"$id": ["1"]}})[0].ids
    assert not [one for one in recwarn if "cannot run all of it" in str(one.message)]


def test_an_engine_whose_texts_are_under_another_key_is_an_error_that_names_it():
    client = qdrant()
    payloads = [{"text": text, "metadata": {}} for text in TEXTS]
    client.upload_collection("texts", small(TEXTS), payloads, IDS)
    over = langchain.UECRetriever.over(QdrantVectorStore(client, "texts", Member()), fit=False)
    message = r"content_payload_key='page_content', of the keys \['text', 'metadata'\]"
    for filter_ in (None, {"word": "a"}):
        with pytest.raises(
            ValueError,
            match=f"no candidate of QdrantVectorStore has a text, which is read from {message}",
        ):
            over.index.search([QUERY], filter=filter_)
    client.set_payload("texts", {"_node_content": "{}"}, points=IDS)
    with pytest.raises(ValueError, match="LlamaIndex made the collection 'texts'"):
        over.index.search([QUERY])
    client.delete_payload("texts", ["_node_content"], points=IDS)
    retriever = QdrantVectorStore(client, "texts", Member()).as_retriever()
    with pytest.raises(ValueError, match="no candidate of the documents of VectorStoreRetriever"):
        langchain.UECRetriever.over(retriever, Member(), fit=False).index.search([QUERY])
    theirs = LlamaIndexQdrant("texts", client=client, text_key="body")
    nodes = VectorStoreIndex.from_vector_store(theirs, embed_model=Node())
    with pytest.raises(ValueError, match=r"no candidate .* has a text, .* text_key='body'"):
        llama_index.UECRetriever.over(nodes, fit=False).index.search([QUERY])


def test_a_vector_of_zeros_is_left_out_and_this_is_said_once():
    store = InMemoryVectorStore(Member())
    store.add_texts(TEXTS, [flat(i) for i in range(len(TEXTS))], ids=IDS)
    for place in (3, 40):
        store.store[IDS[place]]["vector"] = [0.0] * 16
    over = langchain.UECRetriever.over(store, fit=False, candidates=len(TEXTS)).index
    with warnings.catch_warnings(record=True, action="always") as said:
        results = over.search([TEXTS[3], TEXTS[9], TEXTS[40]], len(TEXTS))
        assert over.search([TEXTS[3]], filter={"$id": [IDS[3]]}).ids == [[]]
    assert len([one for one in said if "whose vector is zeros" in str(one.message)]) == 1
    for ids in results.ids:
        assert {*IDS} - {*ids} == {IDS[3], IDS[40]}
    store.store[IDS[3]]["vector"] = Member().embed_query(TEXTS[3])  # mended meanwhile
    assert {*IDS} - {*over.search([TEXTS[3]], len(TEXTS)).ids[0]} == {IDS[40]}


def test_of_a_store_whose_vectors_are_all_zeros_the_error_names_the_store():
    index = faiss.IndexScalarQuantizer(16, faiss.ScalarQuantizer.QT_8bit_direct)  # 0 to 255
    store = in_faiss(index)
    store.add_embeddings([(text, [0.25] * 16) for text in TEXTS], ids=IDS)
    over = langchain.UECRetriever.over(store, fit=False).index
    with pytest.raises(ValueError, match=r"candidates of FAISS: \d+ vectors are zeros") as error:
        over.search([TEXTS[3]])
    assert "encoder" not in str(error.value)
    over = langchain.UECRetriever.over(store, fit=False, vectors=lambda ids: {}).index
    with warnings.catch_warnings(action="ignore"):
        assert over.search([TEXTS[3]], 1).passages[0]


class MaskedRetriever(BaseRetriever):
    """LlamaIndex's BM25Retriever, which wants another PyStemmer, as far as its filters go.

    Scores of nodes that the filter excludes are multiplied by 0; the first k are returned all the
    same.
    """

    def __init__(self, nodes, similarity_top_k, filters):
        self.corpus = [node_to_metadata_dict(n) | {"node_id": n.node_id} for n in nodes]
        known = {row["node_id"]: row for row in self.corpus}
        is_kept = build_metadata_filter_fn(lambda id_: known[id_], filters)
        self.corpus_weight_mask = [int(is_kept(row["node_id"])) for row in self.corpus]
        self.nodes, self.similarity_top_k = nodes, similarity_top_k
        super().__init__()

    def _retrieve(self, query_bundle):
        words = {*query_bundle.query_str.split()}
        common = np.array([len(words & {*node.text.split()}) for node in self.nodes])
        scores = common * np.array(self.corpus_weight_mask)
        order = np.argsort(-scores, kind="stable")[: self.similarity_top_k]
        return [NodeWithScore(node=self.nodes[at], score=float(scores[at])) for at in order]


def test_nodes_that_the_filter_of_a_bm25_retriever_excludes_are_left_out():
    nodes = [
        TextNode(text=text, id_=id_, metadata=flat(i))
        for i, (text, id_) in enumerate(zip(TEXTS, IDS, strict=True))
    ]
    word = MetadataFilters(filters=[MetadataFilter(key="word", value="abc")])
    theirs = MaskedRetriever(nodes, similarity_top_k=40, filters=word)
    found = {hit.node_id: hit.metadata["word"] for hit in theirs.retrieve(QUERY)}
    assert {"ab", "abc"} <= {*found.values()}
    over = llama_index.UECRetriever.over(theirs, UEC([small, "bm25"]), 40)
    with pytest.warns(UserWarning, match="Fewer than 30"):
        hits = over.retrieve(QUERY)
    assert {hit.node_id for hit in hits} == {id_ for id_, word in found.items() if word == "abc"}
