"""Tiny random models: real transformers, a few thousand weights each."""

import string

import pytest

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog"]
LETTERS = [*string.ascii_lowercase, "?", *(f"##{letter}" for letter in string.ascii_lowercase)]


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    """Factory: a SentenceTransformer around a random BERT of one tokenizer, per seed and size."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    def build(seed, width=8, layers=2):
        folder = tmp_path_factory.mktemp("bert")
        (folder / "vocab.txt").write_text("\n".join([*WORDS, *LETTERS]))
        torch.manual_seed(seed)
        config = BertConfig(
            vocab_size=len(WORDS) + len(LETTERS),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=12,
            max_position_embeddings=32,
            initializer_range=0.5,
        )
        BertModel(config).save_pretrained(folder)
        BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
        modules = [Transformer(str(folder)), Pooling(width, "mean")]
        return SentenceTransformer(modules=modules, device="cpu")

    return build
