"""A tenant's own passages are found, however many nearer ones others have, or an error says no."""

import numpy as np
import pytest
from langchain_classic.retrievers import EnsembleRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from llama_index.core.retrievers import BaseRetriever as NodeRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from tests.helpers import index_of
from tests.stores.kinds import KINDS
from uec_rag import UEC, Retriever, langchain, llama_index
from uec_rag.stores.passage import Passage
from uec_rag.stores.source import Source, SourceStore

QUESTION = "How is the canal lock opened?"
OWN = [f"The canal lock of pier {number} is opened by a crank." for number in range(30)]
THEIRS = [
    "How is the canal lock opened?",
    *(f"The canal lock is opened, {n}." for n in range(1500)),
]


def near(texts):
    """Vectors by which the shorter texts of two are nearer to a question."""
    return np.array([[1.0, len(text) / 50, "pier" in text] for text in texts]).tolist()


near.tokenizer = None
UECS = UEC([near, "bm25"])


class Near(Embeddings):
    def embed_documents(self, texts):
        return near(texts)

    def embed_query(self, text):
        return near([text])[0]


class NoFilter(VectorStore):
    """A store that knows no filter and cannot look documents up."""

    def __init__(self, documents, most=10**9):
        self.documents, self.most, self.embeddings_ = documents, most, Near()

    @property
    def embeddings(self):
        return self.embeddings_

    def similarity_search(self, query, k=4, **kwargs):
        assert not kwargs
        size = 30 if query == QUESTION else 60
        near_first = sorted(self.documents, key=lambda d: abs(len(d.page_content) - size))
        return near_first[: min(k, self.most)]

    @classmethod
    def from_texts(cls, *_, **__):
        raise NotImplementedError


def documents(theirs):
    return [
        Document(id=f"{letter}{at}", page_content=text, metadata={"t": letter, "of": [letter]})
        for letter, texts in (("b", theirs), ("a", OWN))
        for at, text in enumerate(texts)
    ]


TENANTS = {
    "equal": {"t": "a"},
    "not equal": {"t": {"$ne": "b"}},
    "not in": {"t": {"$nin": ["b", "c"]}},
    "contains": {"of": {"$contains": "a"}},
    "function": lambda passage: passage.metadata["t"] == "a",
    "not any": {"$not": {"$or": [{"t": "b"}, {"t": {"$exists": False}}]}},
}


def in_qdrant(theirs, kind, folder):
    rows = documents(theirs)
    texts, ids, metadatas = zip(*((d.page_content, d.id, d.metadata) for d in rows), strict=True)
    return index_of(UECS, texts, ids, metadatas, store=KINDS[kind](folder), fit=False)


def told(result):
    """What a tenant is told, to six digits."""
    [one] = result
    numbers = np.round([one.decision.confidence, one.decision.in_corpus, *result.scores[0]], 6)
    return [p.text for p in one.passages], one.decision.code, numbers.tolist()


@pytest.mark.parametrize("tenant", TENANTS.values(), ids=TENANTS)
@pytest.mark.parametrize("kind", ["qdrant in memory", "qdrant's engine"])
def test_qdrant_finds_them_behind_nearer_ones(kind, tenant, tmp_path):
    (tmp_path / "few").mkdir()
    answers = [
        told(in_qdrant(theirs, kind, folder).search([QUESTION], tenant=tenant))
        for theirs, folder in ((THEIRS[:600], tmp_path), (THEIRS[:3], tmp_path / "few"))
    ]
    assert {*answers[0][0]} <= {*OWN}
    assert len(answers[0][0]) == 4
    assert answers[0] == answers[1]


@pytest.mark.filterwarnings("ignore:filter by:UserWarning")
@pytest.mark.parametrize("tenant", TENANTS.values(), ids=TENANTS)
def test_a_store_without_filters_is_asked_for_more(tenant):
    answers = []
    for count in (3, 900, 980, 1500):
        made = langchain.UECRetriever.over(NoFilter(documents(THEIRS[:count])), UECS, fit=False)
        answers.append(told(made.index.search([QUESTION], tenant=tenant)))
    assert {*answers[0][0]} <= {*OWN}
    assert answers == [answers[0]] * 4


@pytest.mark.filterwarnings("ignore:filter by:UserWarning", "ignore:NoFilter returns:UserWarning")
def test_a_tenant_without_passages_is_told_the_same_however_many_others_have():
    decisions = set()
    for count in (3, 900, 1500):
        made = langchain.UECRetriever.over(NoFilter(documents(THEIRS[:count])), UECS, fit=False)
        [result] = made.index.search([QUESTION], tenant={"t": "nobody"})
        decisions.add((result.decision.code, result.decision.confidence))
    assert decisions == {("nothing_found", 0.0)}


@pytest.mark.filterwarnings("ignore:filter by:UserWarning", "ignore:NoFilter returns:UserWarning")
def test_a_store_that_gives_no_more_says_that_it_cannot():
    made = langchain.UECRetriever.over(NoFilter(documents(THEIRS), most=200), UECS, fit=False)
    with pytest.raises(ValueError, match="tenant: 50 candidates of NoFilter cannot be searched"):
        made.index.search([QUESTION], tenant={"t": "a"})
    assert made.index.search([QUESTION], filter={"t": "b"}).ids[0]


class Shelf(BaseRetriever):
    documents: list[Document]

    def _get_relevant_documents(self, query, *, run_manager):
        return self.documents


class Nodes(NodeRetriever):
    def __init__(self, nodes):
        self.nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=node, score=1.0) for node in self.nodes]


def of_langchain(rows):
    shelf = Shelf(
        documents=[
            Document(id=id_, page_content=text, metadata={"t": letter})
            for id_, text, letter in rows
        ]
    )
    return langchain.UECRetriever.over(shelf, UECS, fit=False).index


def by_metadata(rows):
    shelf = Shelf(
        documents=[
            Document(page_content=text, metadata={"t": letter, "_id": id_})
            for id_, text, letter in rows
        ]
    )
    return langchain.UECRetriever.over(shelf, UECS, fit=False).index


def of_ensemble(rows):
    stores = []
    for wanted in "ab":
        store = InMemoryVectorStore(Near())
        store.add_documents(
            [
                Document(id=id_, page_content=text, metadata={"t": letter})
                for id_, text, letter in rows
                if letter == wanted
            ]
        )
        stores.append(store.as_retriever(search_kwargs={"k": 40}))
    both = EnsembleRetriever(retrievers=stores, weights=[0.5, 0.5], id_key=None)
    return langchain.UECRetriever.over(both, UECS, fit=False).index


def of_nodes(rows):
    hidden = {"excluded_embed_metadata_keys": ["t"], "excluded_llm_metadata_keys": ["t"]}
    nodes = [
        TextNode(id_=id_, text=text, metadata={"t": letter}, **hidden) for id_, text, letter in rows
    ]
    return llama_index.UECRetriever.over(Nodes(nodes), UECS, fit=False).index


def of_functions(rows):
    passages = [Passage(id_, text, {"t": letter}) for id_, text, letter in rows]
    source = Source("shelf", lambda *_: passages, is_retriever=True)
    return Retriever(UECS, SourceStore(UECS.encoders, source), fit=False)


OVER = {
    "LangChain's": of_langchain,
    "ids in metadata": by_metadata,
    "ensemble": of_ensemble,
    "LlamaIndex's": of_nodes,
    "functions": of_functions,
}


@pytest.mark.parametrize("make", OVER.values(), ids=OVER)
def test_an_id_counts_within_what_the_tenant_may_see(make):
    own = [(f"{at}", text, "a") for at, text in enumerate(OWN)]
    others = [(f"{at}", f"Nothing of note, {at}.", "b") for at in range(40)]
    copies = [(f"{at}", text, "b") for at, text in enumerate(OWN)]
    alone = told(make(own).search([QUESTION], 30, tenant={"t": "a"}))
    assert {*alone[0]} == {*OWN}
    for rows in (own + others, others + own, copies + own, own[:3] + copies + own[3:]):
        index = make(rows)
        assert told(index.search([QUESTION], 30, tenant={"t": "a"})) == alone
        found = index.search([QUESTION], 30, filter={"t": "a"})
        assert {p.text for p in found[0].passages} == {*OWN}


@pytest.mark.filterwarnings("ignore:Fewer than 30:UserWarning")
@pytest.mark.parametrize("make", OVER.values(), ids=OVER)
def test_two_texts_under_an_id_are_two_passages(make):
    rows = [(str(at % 16), text, "ab"[at // 16]) for at, text in enumerate(OWN)]
    [result] = make(rows).search([QUESTION], 30)
    assert {p.text for p in result.passages} == {*OWN}
    assert len({*result.ids}) == 30


@pytest.mark.filterwarnings("ignore:Fewer than 30:UserWarning")
@pytest.mark.parametrize("rows", [[], [("1", "The weir.", "b")]], ids=["nothing", "others"])
def test_a_retriever_that_finds_none_of_a_tenants_says_that_it_runs_no_filter(rows):
    with pytest.raises(ValueError, match=r"tenant: the documents of Shelf cannot be searched"):
        of_langchain(rows).search([QUESTION], tenant={"t": "a"})
