import string

import pytest

from benchmarks.paper import tiny
from tests.paper.bags import BAGS, Bag
from tests.tiny_bert import save_bert

LETTERS = [*string.ascii_lowercase, "?", *(f"##{letter}" for letter in string.ascii_lowercase)]


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    tiny.write_tiny(folder)
    return folder


@pytest.fixture
def bags():
    return [Bag(name, noise) for name, noise in BAGS.items()]


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    """Factory: a SentenceTransformer around a random BERT of one tokenizer, per seed and size."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    def build(seed, width=8):
        folder = save_bert(
            tmp_path_factory.mktemp("bert"),
            ["the", "cat", "dog", *LETTERS],
            seed=seed,
            hidden_size=width,
            intermediate_size=12,
            max_position_embeddings=32,
        )
        modules = [Transformer(str(folder)), Pooling(width, "mean")]
        return SentenceTransformer(modules=modules, device="cpu")

    return build
