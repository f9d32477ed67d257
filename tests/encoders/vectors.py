"""Small folders of token vectors, as model2vec saves them."""

import json

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

WORDS = ["[UNK]", "the", "cat", "lamp", "dog", "and"]


def save_vectors(folder, vectors=None, words=WORDS, **others):
    """Save a vector for each word, and other arrays; the folder."""
    folder.mkdir(exist_ok=True)
    if vectors is None:
        vectors = np.random.default_rng(0).standard_normal((len(words), 6), dtype=np.float32)
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(words)}, "[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file({"embeddings": vectors, **others}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec"}))
    return folder
