"""A verifier reaches both frameworks with the ensemble it belongs to."""

import pytest
from langchain_core.cross_encoders import BaseCrossEncoder
from llama_index.core.postprocessor import SentenceTransformerRerank
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from sentence_transformers import CrossEncoder

from tests.cross_encoders import WORDS, folder_of
from tests.cross_encoders import passages as passages_of_words
from tests.helpers import bag_of_words, index_of, shared_words
from uec_rag import UEC
from uec_rag.encoders.verifier import load_verifier
from uec_rag.langchain import UECRetriever, UECVectorStore
from uec_rag.llama_index import UECRetriever as LlamaIndexRetriever
from uec_rag.llama_index import UECVectorStore as LlamaIndexStore
from uec_rag.llama_index.nodes import as_verifier


@pytest.fixture(scope="module")
def members():
    return {"coarse": bag_of_words(16, "coarse"), "coarser": bag_of_words(8, "coarser", seed=1)}


@pytest.fixture(scope="module")
def uec(members, fit_pairs):
    return UEC(list(members.values()), verifier=shared_words, verify_k=8).fit(fit_pairs)


def test_both_order_by_it_and_show_what_it_said(uec, texts, queries):
    ids = [str(place) for place in range(len(texts))]
    index = index_of(uec, texts, ids)
    of_langchain = UECRetriever.from_texts(texts, uec, ids=ids, k=5, details=True)
    of_llama_index = LlamaIndexRetriever.from_texts(
        texts, uec, ids=ids, similarity_top_k=5, details=True
    )
    for query in queries[:5]:
        expected = index.search([query], 5)
        documents, nodes = of_langchain.invoke(query), of_llama_index.retrieve(query)
        assert [document.id for document in documents] == expected.ids[0]
        assert [node.node.node_id for node in nodes] == expected.ids[0]
        for rank, (document, node) in enumerate(zip(documents, nodes, strict=True)):
            told = expected[0].metadata(rank, details=True)
            assert told["uec_members"]["shared_words"]["rank"]
            for key in ("uec_members", "uec_relevance", "uec_confidence", "uec_decision"):
                assert document.metadata[key] == node.metadata[key] == told[key]


def test_both_ask_for_a_callable_again_when_they_load(uec, members, texts, queries, tmp_path):
    store = UECVectorStore.from_texts(texts, uec)
    store.dump(tmp_path / "index")
    given = members | {"shared_words": shared_words}
    for load in (UECVectorStore.load, LlamaIndexStore.from_persist_path):
        with pytest.raises(ValueError, match=r"'shared_words'.* cannot be loaded"):
            load(str(tmp_path / "index"), encoders=members)
    loaded = UECVectorStore.load(tmp_path / "index", encoders=given).retriever
    other = LlamaIndexStore.from_persist_path(str(tmp_path / "index"), encoders=given).retriever
    expected = store.retriever.search(queries, 5).ids
    assert loaded.search(queries, 5).ids == other.search(queries, 5).ids == expected


class SharedWords(BaseCrossEncoder):
    def score(self, text_pairs):
        return [shared_words(query, [passage])[0] for query, passage in text_pairs]


class MostWords(BaseNodePostprocessor):
    """Like most rerankers, it leaves out what it thinks little of."""

    top_n: int = 2
    scored: bool = True

    def _postprocess_nodes(self, nodes, query_bundle=None):
        texts = [hit.get_content() for hit in nodes]
        found = zip(shared_words(query_bundle.query_str, texts), nodes, strict=True)
        best = sorted(found, key=lambda pair: -pair[0])[: self.top_n]
        for said, hit in best:
            hit.score = float(said) if self.scored else None
        return [hit for said, hit in best if said]


class TestTheFrameworksOwnRerankers:
    QUERY, PASSAGES = "a b c", ["c d", "e", "c b a", "b a"]

    def score(self, verifier):
        return verifier.score([self.QUERY], [self.PASSAGES]).tolist()

    def test_a_cross_encoder_of_langchain(self, uec, members, fit_pairs, texts, queries):
        same = UEC(list(members.values()), verifier=SharedWords(), verify_k=8).fit(fit_pairs)
        assert same.verifier.name == "SharedWords"
        one = UECRetriever.from_texts(texts, same, ids=[*map(str, range(len(texts)))], k=5)
        other = UECRetriever.from_texts(texts, uec, ids=[*map(str, range(len(texts)))], k=5)
        assert one.batch(queries[:5]) == other.batch(queries[:5])

    def test_a_postprocessor_of_llama_index_scores_all_of_them(self):
        reranker = MostWords()
        verifier = load_verifier(as_verifier(reranker))
        assert (verifier.name, reranker.top_n) == ("BaseNodePostprocessor", 2)
        assert self.score(verifier) == [1, 1, 3, 2]  # the second, left out, like the last of them
        by_place = load_verifier(as_verifier(MostWords(scored=False)))
        assert self.score(by_place) == [-2, -2, 0, -1]

    def test_llama_index_own_reranker_says_what_the_model_says(self, tmp_path):
        folder = str(folder_of(tmp_path / "model"))
        reranker = SentenceTransformerRerank(model=folder, top_n=1, device="cpu")
        passages, query = passages_of_words(4), " ".join(WORDS[:2])
        expected = CrossEncoder(folder, device="cpu").predict([(query, p) for p in passages])
        verifier = load_verifier(as_verifier(reranker))
        assert verifier.score([query], [passages]) == pytest.approx(expected, abs=1e-6)

    def test_a_postprocessor_as_it_is_says_what_to_write(self):
        with pytest.raises(TypeError, match=r"uec_rag\.llama_index\.nodes\.as_verifier"):
            load_verifier(MostWords())
        with pytest.raises(TypeError, match="postprocessor: expected a LlamaIndex"):
            as_verifier(shared_words)
