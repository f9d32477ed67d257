"""Tiny SPLADE models that know some words: a text's terms are its words, and a few near them."""

from pathlib import Path

import numpy as np

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
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
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join([*_SPECIAL, *words]))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(_SPECIAL) + len(words),
        hidden_size=_WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=64,
        hidden_act="linear",
        initializer_range=0.02,
    )
    model = BertForMaskedLM(config)
    with torch.no_grad():
        table = np.random.default_rng(0).standard_normal((config.vocab_size, _WIDTH))
        model.bert.embeddings.word_embeddings.weight.copy_(torch.tensor(table))
        head = model.cls.predictions
        head.transform.dense.weight.copy_(torch.eye(_WIDTH))
        head.bias.fill_(-14.0)
        head.bias[: len(_SPECIAL)] = -100.0
    model.save_pretrained(folder)
    BertTokenizerFast(str(vocabulary)).save_pretrained(folder)
    transformer = Transformer(str(folder), transformer_task="fill-mask")
    return SparseEncoder(modules=[transformer, SpladePooling()], device="cpu", **options)
