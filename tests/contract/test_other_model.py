"""A gate and a fit know the embedding that they were made with, whatever its name."""

import zlib

import numpy as np
import pytest
from langchain_chroma import Chroma
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode

from tests.contract.test_over import IDS, LONG, METADATAS, LangChain, LlamaIndex
from tests.helpers import empty_chroma, index_of
from uec_rag import UEC, FingerprintMismatch, Gate, Retriever, langchain, llama_index

ASKED = [text.split(".")[0] for text in LONG[:24]]
ANSWERS = [[id_] for id_ in IDS[:24]]
EMBEDDED = []
OTHER = "made with another embedding model"


def vector(model, text):
    """The sum of directions that a model has for words."""
    seeds = [zlib.crc32(f"{model} {word}".encode()) for word in text.split()]
    return sum(np.random.default_rng(seed).normal(size=16) for seed in seeds).tolist()


class Hosted(LangChain.Member):
    """An embedding whose name and dimension tell nothing of its model."""

    def __init__(self, model):
        self.model_version = model

    def embed_documents(self, texts):
        EMBEDDED.extend(texts)
        return [vector(self.model_version, text) for text in texts]


class Named(Hosted):
    """One with a name."""

    @property
    def model_name(self):
        return self.model_version


class HostedNodes(LlamaIndex.Member):
    """The same, of LlamaIndex."""

    model_name: str = "hosted"
    version: str

    def _get_text_embedding(self, text):
        return vector(self.version, text)


def chroma(model, texts=LONG):
    """A store of one name, which is filled again with the vectors of a model."""
    store = Chroma("manual", Hosted(model), client=empty_chroma())
    store.add_texts(texts, [dict(one) for one in METADATAS], ids=IDS)
    return store


def nodes(model):
    """An index of one name, with the vectors of a model."""
    given = [TextNode(text=text, id_=id_) for text, id_ in zip(LONG, IDS, strict=True)]
    return VectorStoreIndex(given, embed_model=HostedNodes(version=model))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The gate was made with another calibration")
@pytest.mark.parametrize("words", [True, False])
def test_a_gate_over_a_store_of_another_model_does_not_fit_and_says_so(words, tmp_path):
    over = langchain.UECRetriever.over(chroma("MiniLM"), words=words, candidates=80)
    gate = Gate.from_labels(over.index, ASKED, ANSWERS, max_wrong=0.2)
    assert gate.fits(over.index)
    gated = langchain.UECGate(retriever=over, gate=gate)
    gated.invoke(ASKED[0])
    EMBEDDED.clear()
    gated.invoke(ASKED[1])
    assert len(EMBEDDED) <= 1  # the models are compared once
    gate.save(tmp_path / "gate.json")
    gate = Gate.load(tmp_path / "gate.json")
    same = (
        langchain.UECRetriever.over(chroma("MiniLM"), words=words, candidates=80).fit_from().index
    )
    assert gate.fits(same)
    new = (
        langchain.UECRetriever.over(chroma("gte", LONG[::-1]), words=words, candidates=80)
        .fit_from()
        .index
    )
    assert not gate.fits(new)
    with pytest.warns(UserWarning, match=OTHER):
        new.with_gate(gate).search(ASKED[:1])


@pytest.mark.slow
def test_vectors_of_a_store_that_another_model_made_are_noticed_below_any_ensemble():
    fitted = UEC([lambda texts: [vector("ours", text) for text in texts], "bm25"])
    fitted.fit([(text.split(".")[0], text) for text in LONG])
    store = chroma("MiniLM")
    gate = Gate.from_labels(
        langchain.UECRetriever.over(store, fitted, candidates=80).index,
        ASKED,
        ANSWERS,
        max_wrong=0.2,
    )
    assert gate.fits(langchain.UECRetriever.over(chroma("MiniLM"), fitted, candidates=80).index)
    assert not gate.fits(langchain.UECRetriever.over(chroma("gte"), fitted, candidates=80).index)
    filled = chroma("gte")  # by another process
    filled._embedding_function = Hosted("MiniLM")
    assert not gate.fits(langchain.UECRetriever.over(filled, fitted, candidates=80).index)


@pytest.mark.parametrize("over", [langchain.UECRetriever.over, llama_index.UECRetriever.over])
def test_a_fit_of_another_model_is_not_loaded(over, tmp_path):
    store = chroma if over.__self__ is langchain.UECRetriever else nodes
    over(store("MiniLM")).fit_from().save(tmp_path)
    load = over.__self__.load
    assert load(tmp_path, over=store("MiniLM")).index.uec.is_fitted
    with pytest.raises(FingerprintMismatch, match="makes other vectors than the model that was"):
        load(tmp_path, over=store("gte"))


@pytest.mark.parametrize("over", [langchain.UECRetriever.over, llama_index.UECRetriever.over])
def test_a_fit_of_a_model_of_another_name_says_what_it_was_made_of(over, tmp_path):
    store = chroma if over.__self__ is langchain.UECRetriever else nodes
    over(store("MiniLM"), UEC([Named("MiniLM"), "bm25"])).fit_from().save(tmp_path)
    with pytest.raises(ValueError, match=r"'MiniLM', 'bm25'\], of which .* \['gte'\]. Pass those"):
        over.__self__.load(tmp_path, UEC([Named("gte"), "bm25"]), over=store("gte"))


@pytest.mark.parametrize("over", [langchain.UECRetriever.over, llama_index.UECRetriever.over])
def test_vectors_of_another_model_are_refused_and_texts_encoded_as_the_error_says(over):
    theirs = chroma("gte") if over.__self__ is langchain.UECRetriever else nodes("gte")
    if isinstance(theirs, VectorStoreIndex):
        theirs._embed_model = HostedNodes(version="MiniLM")
    else:
        theirs._embedding_function = Hosted("MiniLM")
    index = over(theirs).index
    with pytest.raises(ValueError, match=r"vectors=lambda ids: \{\} to encode its texts"):
        index.search(ASKED[:1])
    assert not index.uec.is_fitted
    index = over(theirs, vectors=lambda ids: {}, candidates=len(LONG)).index
    with pytest.warns(UserWarning, match="Their texts are encoded"):
        found = index.search(ASKED)
    assert [row[0].text for row in found.passages] == LONG[: len(ASKED)]


def test_an_index_of_ours_knows_the_function_that_filled_it(tmp_path):
    index = index_of(UEC([Hosted("MiniLM"), "bm25"]), LONG[:4], fit=False)
    index.save(tmp_path)
    with pytest.raises(FingerprintMismatch, match="pass that model"):
        Retriever.load(tmp_path, encoders={"Hosted": Hosted("gte")})


class Quantised(Hosted):
    """A model in int8 whose ranges are those of a batch: a text has .993 to .998 to itself."""

    def embed_documents(self, texts):
        made = np.array(super().embed_documents(texts))
        seed = zlib.crc32(" ".join(texts).encode())
        noise = np.random.default_rng(seed).normal(size=made.shape)
        noise *= (
            0.06
            * np.linalg.norm(made, axis=1, keepdims=True)
            / np.linalg.norm(noise, axis=1, keepdims=True)
        )
        return (made + noise).tolist()


@pytest.mark.slow
def test_a_model_whose_vectors_of_a_text_differ_by_batch_is_known_again(tmp_path):
    def store(model):
        made = chroma(model)
        made.reset_collection()
        made._embedding_function = Quantised(model)
        made.add_texts(LONG, [dict(one) for one in METADATAS], ids=IDS)
        return made

    over = langchain.UECRetriever.over(store("MiniLM"), candidates=80).fit_from()
    assert over.invoke(ASKED[3])[0].id == IDS[3]
    gate = Gate.from_labels(over.index, ASKED, ANSWERS, max_wrong=0.2)
    over.save(tmp_path)
    again = langchain.UECRetriever.load(tmp_path, over=store("MiniLM"), candidates=80)
    assert gate.fits(again.index)
    with pytest.raises(FingerprintMismatch, match="makes other vectors than the model that was"):
        langchain.UECRetriever.load(tmp_path, over=store("gte"), candidates=80)
    other = store("gte")
    other._embedding_function = Quantised("MiniLM")
    with pytest.raises(ValueError, match="got those of another model in the store"):
        langchain.UECRetriever.over(other, fit=False).invoke(ASKED[0])
    assert not gate.fits(langchain.UECRetriever.over(other, fit=False).index)
