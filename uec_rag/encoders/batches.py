"""Texts through a SentenceTransformer: tokenised ahead of the model, batched by their true length.

sentence-transformers sorts texts by characters and pads batches of a fixed number. Here windows of
them are tokenised while the model works on the one before, then sorted by tokens; on a CPU, where
a batch beyond its caches is slower, batches are also bounded in tokens (benchmarks/encode.py).
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from uec_rag.encoders.base import Float32Array

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Features: TypeAlias = dict[str, Any]
"""The output of a model's tokenizer: tensors of n rows, and settings."""

_WINDOW = 512  # texts tokenised together; two windows are in memory
_CPU_TOKENS = 2048  # in a forward pass on a CPU

_In = TypeVar("_In")
_Out = TypeVar("_Out")


def can_batch(model: "SentenceTransformer") -> bool:
    """Tell if a model takes tokens as padded rows with a mask, so that batches can be cut of them.

    Static embeddings, routers between several networks and unpadded attention do not.
    """
    if not hasattr(model, "preprocess") or type(model[0]).__name__ != "Transformer":
        return False
    if model.device.type == "hpu":  # sentence-transformers pads for it in a way of its own
        return False
    mask = model.preprocess(["one", "one and two"]).get("attention_mask")
    shape: tuple[int, ...] = getattr(mask, "shape", ())
    return len(shape) == 2 and shape[0] == 2


def encode_in_batches(
    model: "SentenceTransformer",
    texts: Sequence[str],
    prompt: str,
    *,
    batch_size: int,
    width: int | None,
    show_progress: bool,
) -> Float32Array:
    """Embed at least one text with a model for which `can_batch` holds, in the calling thread.

    Returns the first `width` numbers of the output, all if it is None, in the order of `texts`.
    """
    import torch
    from tqdm.auto import tqdm  # type: ignore[import-untyped]

    model.eval()
    tokens = _CPU_TOKENS if model.device.type == "cpu" else None
    left = getattr(model.tokenizer, "padding_side", "right") == "left"
    order = np.argsort([-len(text) for text in texts], kind="stable")
    windows = [
        [texts[row] for row in order[start : start + _WINDOW]]
        for start in range(0, len(order), _WINDOW)
    ]

    def tokenise(window: Sequence[str]) -> Features:
        return dict(model.preprocess(list(window), prompt=prompt))

    def embed(features: Features) -> Float32Array:
        lengths = features["attention_mask"].sum(dim=1).numpy()
        by_length = np.argsort(-lengths, kind="stable")
        outputs = []
        for some in cut(lengths[by_length], batch_size, tokens):
            batch = rows_of(features, by_length[some], left=left)
            batch = {k: v.to(model.device) if _is_tensor(v) else v for k, v in batch.items()}
            outputs.append(model(batch)["sentence_embedding"][..., :width].float())
            bar.update(len(outputs[-1]))
        # Off the device once per window: a GPU need not wait for Python after every batch.
        together = torch.cat(outputs).cpu().numpy()
        unsorted: Float32Array = together[np.argsort(by_length)]
        return unsorted

    with torch.inference_mode(), tqdm(None, "Texts", len(texts), disable=not show_progress) as bar:
        parts = [embed(features) for features in one_ahead(tokenise, windows)]
    vectors: Float32Array = np.concatenate(parts)[np.argsort(order)]
    return vectors


def cut(lengths: npt.NDArray[np.integer], batch_size: int, tokens: int | None) -> Iterator[slice]:
    """Cut texts that are sorted by length, longest first, into batches.

    None has more than so many texts or, padding included, tokens; one text may be longer.

    Examples
    --------
    >>> [(some.start, some.stop) for some in cut(np.array([9, 5, 4, 1, 1]), 3, 10)]
    [(0, 1), (1, 3), (3, 5)]
    """
    start = 0
    while start < len(lengths):
        bound = batch_size if tokens is None else tokens // max(int(lengths[start]), 1)
        stop = min(start + max(1, min(batch_size, bound)), len(lengths))
        yield slice(start, stop)
        start = stop


def one_ahead(function: Callable[[_In], _Out], items: Sequence[_In]) -> Iterator[_Out]:
    """Apply a function to items in order, computing the next in a thread while one is in use.

    Examples
    --------
    >>> list(one_ahead(len, ["a", "bcd"]))
    [1, 3]
    """
    if len(items) == 1:  # as most queries: nothing to gain from a thread
        yield function(items[0])
        return
    with ThreadPoolExecutor(1) as thread:
        ahead = None
        for item in items:
            ready, ahead = ahead, thread.submit(function, item)
            if ready is not None:
                yield ready.result()
        if ahead is not None:
            yield ahead.result()


def rows_of(features: Features, rows: npt.NDArray[np.intp], *, left: bool) -> Features:
    """Select rows of a model's input, without the columns that are padding in all of them."""
    mask = features["attention_mask"]
    longest = int(mask[rows].sum(dim=1).max())
    columns = slice(mask.shape[1] - longest, None) if left else slice(longest)
    return {
        key: (value[rows, columns] if value.shape[:2] == mask.shape else value[rows])
        if _is_tensor(value) and value.ndim and len(value) == len(mask)
        else value
        for key, value in features.items()
    }


def _is_tensor(value: object) -> bool:
    return hasattr(value, "detach")
