"""Tokens shared by the encoders of an ensemble that would make the same of the same texts."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from uec_rag.encoders.revision import tokenizer_state

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Features: TypeAlias = dict[str, Any]
"""What a model's tokenizer returns: tensors of n rows, and settings."""

_Memo: TypeAlias = dict[tuple[str, str, tuple[str, ...]], Features]

_AT_MOST = 2**27  # bytes of tokens that are kept for the next encoder

_memo: ContextVar[_Memo | None] = ContextVar("shared tokens", default=None)


@contextmanager
def shared_tokens() -> Iterator[None]:
    """While this lasts, texts are tokenised once for all models of one tokenizer and prompt."""
    token = _memo.set({})
    try:
        yield
    finally:
        _memo.reset(token)


def tokeniser(
    model: "SentenceTransformer", tokenisation: str, prompt: str
) -> Callable[[Sequence[str]], Features]:
    """How to tokenise texts for a model, from what is shared in the context of the caller.

    Parameters
    ----------
    model
        Of sentence-transformers.
    tokenisation
        What `tokenisation_of` says of it.
    prompt
        Put before each text.

    Returns
    -------
    callable
        Texts -> tensors, which must not be changed. May be called in another thread.
    """
    memo = _memo.get()

    def tokenise(texts: Sequence[str]) -> Features:
        key = (tokenisation, prompt, tuple(texts))
        if memo is not None and key in memo:
            return memo[key]
        features = dict(model.preprocess(list(texts), prompt=prompt))
        if memo is not None and sum(map(_size, memo.values())) < _AT_MOST:
            memo[key] = features
        return features

    return tokenise


def tokenisation_of(model: "SentenceTransformer") -> str:
    """A hash that two models share only if they tokenise any text alike."""
    state = {
        "class": type(model[0]).__qualname__,
        "config": getattr(model[0], "get_config_dict", dict[str, object])(),
        "max_length": model.max_seq_length,
        "tokenizer": tokenizer_state(model),
        "inputs": getattr(model.tokenizer, "model_input_names", None),
        "padding": getattr(model.tokenizer, "padding_side", None),
        "template": getattr(model.tokenizer, "chat_template", None),
    }
    return hashlib.sha256(json.dumps(state, sort_keys=True, default=str).encode()).hexdigest()


def _size(features: Features) -> int:
    return sum(getattr(value, "nbytes", 0) for value in features.values())
