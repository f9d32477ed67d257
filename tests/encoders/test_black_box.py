import functools
import warnings

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_huggingface import HuggingFaceEmbeddings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.embeddings import MockEmbedding
from llama_index.embeddings.huggingface import HuggingFaceEmbedding

from tests.helpers import unit
from uec_rag.base.errors import UECWarning
from uec_rag.encoders import BlackBoxEncoder


def embed(texts):
    return [[len(text), 1.0] for text in texts]


class Service:
    def __call__(self, texts):
        return embed(texts)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (embed, "embed"),
        (lambda texts: embed(texts), "callable"),
        (functools.partial(embed), "embed"),
        (functools.partial(lambda texts: embed(texts)), "callable"),
        (Service(), "Service"),
        (DeterministicFakeEmbedding(size=4), "DeterministicFakeEmbedding"),
        (MockEmbedding(embed_dim=4), "MockEmbedding"),
        (MockEmbedding(embed_dim=4, model_name="vendor/embed-3"), "embed-3"),
    ],
)
def test_a_black_box_is_named_after_what_it_wraps(source, name):
    assert BlackBoxEncoder(source).name == name
    assert BlackBoxEncoder(source, name="mine").name == "mine"


def test_vectors_of_a_callable_are_their_own_features_and_tell_its_dimension(remote, texts):
    encoder = BlackBoxEncoder(remote)
    encoded = encoder.encode(texts, "passage")
    assert encoded.features is encoded.embedding
    assert (encoder.dimension, encoder.revision, encoder.spec) == (8, "", None)
    assert remote.texts == texts
    assert BlackBoxEncoder(remote).dimension == 8  # by a text of its own


def test_vectors_that_change_their_width_are_refused():
    encoder = BlackBoxEncoder(lambda texts: np.ones((len(texts), len(texts))))
    encoder.encode(["a", "b"], "passage")
    with pytest.raises(ValueError, match=r"shape \(3, 3\) for 3 texts; expected \(3, 2\)"):
        encoder.encode(["a", "b", "c"], "passage")


@pytest.mark.parametrize("source", [3, None, Embeddings, object()])
def test_what_cannot_embed_is_refused(source):
    with pytest.raises(TypeError, match="a LangChain Embeddings"):
        BlackBoxEncoder(source)


WRAPPERS = {
    "HuggingFaceEmbeddings": lambda folder, **options: HuggingFaceEmbeddings(
        model_name=folder, model_kwargs={"device": "cpu"}, **options
    ),
    "HuggingFaceEmbedding": lambda folder, **options: HuggingFaceEmbedding(
        folder, device="cpu", **options
    ),
}


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize(
    ("folder", "prompts", "said"),
    [
        ("own", {"query": "query ", "document": "passage "}, "queries without 'query ' and passa"),
        ("half", {"query": "query "}, "queries without 'query ', prompts that"),
        ("e5-small-v2", None, "queries without 'query: ' and passages without 'passage: ', pro"),
    ],
)
def test_an_embedding_that_leaves_out_its_models_prompts_is_told_of_them(
    saved, name, folder, prompts, said
):
    path = str(saved(folder, prompts=prompts))
    with pytest.warns(UserWarning, match=rf"{name} embeds {said}.* pass the model itself") as told:
        BlackBoxEncoder(WRAPPERS[name](path))
    assert len(told) == 1


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("other", ["query", "passage"])
def test_an_embedding_that_uses_one_of_its_models_two_parts_is_told_of_the_other(
    tiny, tmp_path, name, other
):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Router

    first, second = [*tiny()], [*tiny(dense={"out_features": 16})]
    used = "document" if other == "query" else "query"
    SentenceTransformer(
        modules=[Router.for_query_document(first, second, default_route=used)]
    ).save(str(tmp_path / "parts"))
    lost = "queries" if other == "query" else "passages"
    said = rf"{name} embeds {lost} without the part for {lost}, of two.* pass the model itself"
    with pytest.warns(UserWarning, match=said) as told:
        BlackBoxEncoder(WRAPPERS[name](str(tmp_path / "parts")))
    assert len(told) == 1


def test_an_embedding_that_has_its_models_prompts_is_silent(saved):
    plain = str(saved("plain"))
    own = str(saved("own", prompts={"query": "query ", "document": "passage "}))
    asked = {"encode_kwargs": {"prompt_name": "document"}, "query_encode_kwargs": {"prompt": "a "}}
    instructed = {"query_instruction": "query ", "text_instruction": "passage "}
    with warnings.catch_warnings(action="error", category=UECWarning):
        for made in (
            WRAPPERS["HuggingFaceEmbeddings"](plain),
            WRAPPERS["HuggingFaceEmbedding"](plain),
            WRAPPERS["HuggingFaceEmbeddings"](
                own, **asked | {"query_encode_kwargs": {"prompt_name": "query"}}
            ),
            WRAPPERS["HuggingFaceEmbedding"](own, **instructed),
        ):
            BlackBoxEncoder(made)


class LangChain(Embeddings):
    """Asymmetric."""

    def embed_documents(self, texts):
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text):
        return [float(len(text)), 1.0]


class LlamaIndex(BaseEmbedding):
    """The same for LlamaIndex."""

    def _get_query_embedding(self, query):
        return [float(len(query)), 1.0]

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text):
        return [1.0, float(len(text))]


@pytest.mark.parametrize("framework", [LangChain, LlamaIndex])
def test_framework_embeddings_keep_queries_and_passages_apart_and_in_order(framework):
    encoder = BlackBoxEncoder(framework())
    texts = ["a", "bbb", "cc"]
    lengths = np.array([1.0, 3.0, 2.0])
    queries = unit(np.stack([lengths, np.ones(3)], axis=1))
    passages = unit(np.stack([np.ones(3), lengths], axis=1))
    np.testing.assert_allclose(encoder.encode(texts, "query").embedding, queries, rtol=1e-6)
    np.testing.assert_allclose(encoder.encode(texts, "passage").embedding, passages, rtol=1e-6)
