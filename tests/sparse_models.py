"""Tiny SPLADE models that know some words: a text's terms are its words, and a few near them."""

from pathlib import Path

import numpy as np

from tests.tiny_bert import SPECIAL, save_bert

_WIDTH = 32


def make_splade(words, folder: Path, **options):
    """A SparseEncoder around a random BERT whose head sees each word as itself.

    Parameters
    ----------
    words : sequence of str
    folder : path
        For the files that transformers loads it from.
    **options
        Of `SparseEncoder`.
    """
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sentence_transformer.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    def see_each_word_as_itself(model):
        table = np.random.default_rng(0).standard_normal((model.config.vocab_size, _WIDTH))
        model.bert.embeddings.word_embeddings.weight.copy_(torch.tensor(table))
        head = model.cls.predictions
        head.transform.dense.weight.copy_(torch.eye(_WIDTH))
        head.bias.fill_(-14.0)
        head.bias[: len(SPECIAL)] = -100.0

    save_bert(
        folder,
        words,
        "BertForMaskedLM",
        see_each_word_as_itself,
        hidden_size=_WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=64,
        hidden_act="linear",
        initializer_range=0.02,
    )
    transformer = Transformer(str(folder), transformer_task="fill-mask")
    return SparseEncoder(modules=[transformer, SpladePooling()], device="cpu", **options)
