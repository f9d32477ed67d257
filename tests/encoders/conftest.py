"""Tiny random models: real transformers and tokenizers, a few thousand weights each."""

import string

import pytest

from tests.helpers import Remembering, data_of
from tests.tiny_bert import save_bert


@pytest.fixture(scope="session")
def texts():
    return data_of("encoded.json")


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory):
    """A random 2-layer BERT and its WordPiece tokenizer, as transformers saves them."""
    import torch

    letters = string.ascii_lowercase + string.digits + string.punctuation
    words = ["the", "cat", "dog", "query", "passage", *letters, *(f"##{one}" for one in letters)]

    def as_trained(model):
        """LayerNorms of weights that they might have, rather than ones and zeros."""
        for name, weight in model.named_parameters():
            if "LayerNorm" in name:
                weight.add_(0.3 * torch.randn_like(weight))

    return save_bert(
        tmp_path_factory.mktemp("bert"),
        words,
        change=as_trained,
        hidden_size=16,
        intermediate_size=24,
        max_position_embeddings=64,
    )


@pytest.fixture(scope="session")
def tiny(bert_folder):
    """Factory: a SentenceTransformer around the tiny BERT, with the closing modules asked for."""

    def build(pooling="mean", dense=None, normalize=True, **options):
        import torch
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import (
            Dense,
            Normalize,
            Pooling,
            Transformer,
        )

        torch.manual_seed(1)
        modules = [Transformer(str(bert_folder)), Pooling(16, pooling)]
        if dense is not None:
            activation = dense.pop("activation_function", None)
            modules.append(Dense(16, activation_function=activation, **dense))
        if normalize:
            modules.append(Normalize())
        return SentenceTransformer(modules=modules, device="cpu", **options)

    return build


@pytest.fixture
def saved(tiny, tmp_path):
    """Factory: the folder of a saved tiny model."""

    def save(name, **options):
        folder = tmp_path / name
        tiny(**options).save(str(folder))
        return folder

    return save


@pytest.fixture
def remote():
    """A callable that embeds, and remembers what it was asked."""
    return Remembering(8, "remote")
