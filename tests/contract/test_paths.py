"""The same passages and models say the same in a store of ours and over a store of others."""

import json

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings

from tests.contract import test_over
from tests.contract.test_over import IDS, LONG, METADATAS, TEXTS
from tests.helpers import Remembering, bag_of_words, index_of, pairs
from uec_rag import UEC, langchain, llama_index
from uec_rag.encoders.base import PROBES
from uec_rag.encoders.packages import PRESETS
from uec_rag.ensemble.ensemble_file import PROBED, SHIPPED_FITS, fit_of_twin, read_fit

LISTED = [
    test_over.LangChain,
    test_over.LangChainInChroma,
    test_over.LangChainInFaiss,
    test_over.LangChainInQdrant,
    test_over.LlamaIndex,
    test_over.LlamaIndexInChroma,
]
MEMBERS = [[(16, "small")], [(16, "small"), (24, "large")]]
QUESTIONS = [" ".join(text.split()[3:7]) for text in TEXTS[::8]]


@pytest.fixture(params=LISTED, ids=lambda kind: kind.__name__)
def theirs(request):
    return request.param()


@pytest.fixture(params=MEMBERS, ids=["a model", "two models"], scope="module")
def fit(request):
    members = [bag_of_words(*member) for member in request.param]
    return request.param, UEC([*members, "bm25"]).fit(pairs(120)).fitted


@pytest.fixture
def ensemble(fit):
    """Makes a fitted ensemble that has seen no text, and its models."""

    def make():
        models = [Remembering(*member) for member in fit[0]]
        uec = UEC([*models, "bm25"])
        uec.fitted = fit[1]
        return uec, models

    return make


def embedding_of(theirs, uec):
    if isinstance(theirs, test_over.LangChain):
        return langchain.UECEmbeddings(uec)
    return llama_index.UECEmbedding(uec=uec)


@pytest.mark.parametrize(
    "theirs", [*LISTED, test_over.LlamaIndexInQdrant], indirect=True, ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("is_given", [False, True])
def test_the_vectors_of_an_ensemble_are_read_and_no_passage_is_embedded(theirs, ensemble, is_given):
    uec, models = ensemble()
    store = theirs.store(embedding_of(theirs, uec))
    if is_given:
        uec, models = ensemble()
    over = theirs.over(store, embedding_of(theirs, uec) if is_given else None).index
    over.search(QUESTIONS[:1])  # which compares a vector with what the models make of its text
    for model in models:
        model.texts.clear()
    over.search(QUESTIONS[1:])
    assert all({*model.texts} == {*QUESTIONS[1:]} for model in models)


def test_vectors_of_another_model_are_not_those_of_an_ensemble_that_is_given(ensemble):
    theirs = test_over.LangChain()
    others = UEC([bag_of_words(16, "other", seed=5), "bm25"])
    for embedding in (theirs.Member(), langchain.UECEmbeddings(others)):
        uec, _ = ensemble()
        over = theirs.over(theirs.store(embedding), uec).index
        found, expected = over.search(QUESTIONS), index_of(uec, TEXTS, IDS).search(QUESTIONS)
        assert [one.action for one in found.decisions] == [one.action for one in expected.decisions]


def test_few_candidates_say_what_a_store_of_ours_says(theirs, ensemble):
    uec, _ = ensemble()
    ours = index_of(uec, TEXTS, IDS, METADATAS).search(QUESTIONS)
    store = theirs.store(embedding_of(theirs, uec))
    found = theirs.over(store, candidates=30).index.search(QUESTIONS)
    assert [one.action for one in found.decisions] == [one.action for one in ours.decisions]
    np.testing.assert_allclose(found.confidence, ours.confidence, atol=0.02)


def test_words_find_what_no_vector_does(theirs):
    named = [f"{text} zq{place:03}x" for place, text in enumerate(LONG)]
    over = theirs.over(theirs.store(theirs.Member(), named), candidates=3)
    wanted = [7, 31, 64]
    found = over.index.search([f"What is zq{place:03}x?" for place in wanted], 4)
    assert all(IDS[place] in ids for place, ids in zip(wanted, found.ids, strict=True))


def test_words_are_looked_for_where_a_filter_looks(theirs):
    named = [f"{text} zqx" for text in LONG]
    index = theirs.over(theirs.store(theirs.Member(), named), candidates=4).index
    found = index.search(["What is zqx?"], 4, filter={"place": {"$gte": 70}})
    assert {*found.ids[0]} <= {*IDS[70:]}
    assert len(found.ids[0]) == 4


def test_words_of_passages_that_a_store_gets_later_are_found():
    theirs = test_over.LangChainInChroma()
    named = [f"{text} zq{place:03}x" for place, text in enumerate(LONG)]
    store = theirs.store(theirs.Member(), [])
    index = theirs.over(store, candidates=3, fit=False).index
    for start, end in ((0, 0), (0, 4), (4, len(named))):
        if end:
            store.add_texts(named[start:end], ids=IDS[start:end])
        wanted = [place for place in (2, 31, 64) if place < end]
        found = [index.search([f"What is zq{place:03}x?"], 10).ids[0] for place in wanted]
        assert all(IDS[place] in ids for place, ids in zip(wanted, found, strict=True))


def test_a_later_retriever_over_a_store_does_not_list_it_again(monkeypatch):
    theirs = test_over.LangChainInChroma()
    store = theirs.store(theirs.Member())
    index = theirs.over(store, fit=False).index
    expected = index.search(QUESTIONS).confidence
    monkeypatch.setattr(store, "get", lambda **options: _get(store, **options))
    found = theirs.over(store, fit=False).index.search(QUESTIONS)
    np.testing.assert_allclose(found.confidence, expected)


def _get(store, **options):
    assert "limit" not in options, "it is listed"
    return type(store).get(store, **options)


class Twin(Embeddings):
    """A model that makes of the probes what a shipped model does, and of other texts anything."""

    def __init__(self, preset, noise=0.0, roles=("passage", "query")):
        known = json.loads((SHIPPED_FITS / preset / PROBED).read_text())
        self.known = {role: np.reshape(known[role][:-1], (len(PROBES), -1)) for role in roles}
        self.noise, self.width = noise, (len(known["query"]) - 1) // len(PROBES)

    def vector(self, text, role):
        seed = np.random.default_rng([ord(letter) for letter in text])
        other = seed.standard_normal(self.width) / np.sqrt(self.width)
        if text not in PROBES or role not in self.known:
            return other.tolist()
        return (self.known[role][PROBES.index(text)] + self.noise * other).tolist()

    def embed_documents(self, texts):
        return [self.vector(text, "passage") for text in texts]

    def embed_query(self, text):
        return self.vector(text, "query")


@pytest.mark.parametrize("preset", [*PRESETS])
@pytest.mark.parametrize("count", [8, len(LONG)])
def test_a_model_that_comes_with_a_fit_has_it_under_any_name(preset, count):
    theirs = test_over.LangChain()
    over = theirs.over(theirs.store(Twin(preset, noise=0.1), LONG[:count]))
    theirs.hits(over, QUESTIONS[0])
    assert "as it comes with uec-rag" in over.report
    saved, known = read_fit(SHIPPED_FITS / preset)
    fitted = over.index.uec.fitted
    assert fitted.slopes == known.slopes
    assert fitted.names == ("Twin", "bm25") != tuple(one.name for one in saved.encoders)
    assert [*fitted.report.encoders] == ["Twin", "bm25"]


@pytest.mark.parametrize("options", [{"noise": 0.5}, {"roles": ["passage"]}, {"roles": ["query"]}])
def test_one_that_embeds_otherwise_is_fitted_on_the_passages(options):
    uec = UEC([Twin("english", **options), "bm25"])
    assert fit_of_twin(uec.encoders, uec.fitted) is None


def test_a_fit_that_is_asked_for_is_made():
    theirs = test_over.LangChain()
    over = theirs.over(theirs.store(Twin("english"), LONG))
    over.fit_from()
    assert "questions made of" in over.report
