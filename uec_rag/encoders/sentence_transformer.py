"""Encoders made of a SentenceTransformer: from the hub, from a folder, or one already in memory."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from uec_rag.base.checks import check_texts
from uec_rag.encoders.base import (
    Encoded,
    Float32Array,
    InThread,
    LastLayer,
    Role,
    check_role,
    check_vectors,
)
from uec_rag.encoders.batches import can_batch, encode_in_batches
from uec_rag.encoders.hub import (
    Precision,
    check_settings,
    load_model,
    place,
    prompts_of,
    revision_of,
    without_revision,
)
from uec_rag.encoders.last_layer import LastLayerTap, attach

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class SentenceTransformerEncoder(InThread):
    """An encoder around a SentenceTransformer.

    Parameters
    ----------
    model_or_name
        Hub name, optionally with "@revision" (a commit or tag), local folder, or a
        SentenceTransformer. Code shipped with a model is never run: if a model needs it, load it
        yourself with `trust_remote_code`, and pass the SentenceTransformer.
    name
        By default the last part of the hub name or folder.
    last_layer
        "projection": the model's closing linear Dense if it has one, else the identity on the
        pooled output. "ffn": the output layer of the last transformer block (BERT, RoBERTa and
        their kin).
    device
        "cpu", "cuda", "mps"; by default the best there is. Leave None for a model in memory to
        keep it where it is.
    dtype
        By default float16 on an accelerator and float32 on a CPU; a model in memory keeps its own.
    batch_size
        Texts per forward pass at most; batches are formed by length, on a CPU of fewer long ones.
    query_prompt, passage_prompt
        Text to put before each input. By default from the model's configuration, else the prompt of
        a known family (e5, bge, arctic-embed), else none. "" disables a prompt.
    spec
        The `spec` that `load_encoder` rebuilds this encoder from; by default the name or folder.
    fetch
        Whether to use the hub; otherwise only models already downloaded are found.

    Raises
    ------
    FileNotFoundError, OSError
        If there is no such folder, or no such model on the hub, or the hub is out of reach.
    ValueError
        If the model has no last layer of the kind asked for, or an argument is out of range.
    """

    def __init__(
        self,
        model_or_name: "str | Path | SentenceTransformer",
        *,
        name: str | None = None,
        last_layer: LastLayer = "projection",
        device: str | None = None,
        dtype: Precision | None = None,
        batch_size: int = 32,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
        spec: str | None = None,
        fetch: bool = True,
    ) -> None:
        if last_layer not in ("projection", "ffn"):
            raise ValueError(f"last_layer must be 'projection' or 'ffn', got {last_layer!r}")
        check_settings(dtype, batch_size)
        loaded_here = isinstance(model_or_name, (str, Path))
        source, model = load_model("SentenceTransformer", model_or_name, device, fetch)
        own_prompts = query_prompt is None and passage_prompt is None
        found = prompts_of(model, source)
        self.prompts: dict[Role, str] = {
            "query": found["query"] if query_prompt is None else query_prompt,
            "passage": found["passage"] if passage_prompt is None else passage_prompt,
        }
        self.tokenizer = getattr(model, "tokenizer", None)
        self.name = name or without_revision(source) or "sentence-transformer"
        self.spec = spec or (source if own_prompts else "") or None
        self.last_layer: LastLayer = last_layer
        self.batch_size = batch_size
        self.device, self.dtype = device, dtype
        self.model: SentenceTransformer = model
        # Of the weights as they were stored: a cast to half precision must not change it, or an
        # index made on a GPU would be refused on a CPU.
        self.revision = revision_of(model, self.prompts, last_layer)
        place(model, device, dtype, loaded_here=loaded_here)
        self.tap: LastLayerTap = attach(model, last_layer)
        self._lock = threading.Lock()
        self._can_batch = can_batch(model)
        # One short text tells the width, and at once whether the model works in this precision.
        self.dimension: int = self._encode(["dimension"], "passage", False).embedding.shape[1]

    @property
    def feature_dimension(self) -> int:
        """m, length of the last layer's input."""
        return self.tap.feature_dimension or self.dimension

    @property
    def gain(self) -> Float32Array:
        """Ones, or the last LayerNorm's weight for `last_layer="ffn"`, shape (d,)."""
        return np.ones(self.dimension, np.float32) if self.tap.gain is None else self.tap.gain

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Embed texts as queries or as passages; the model truncates long ones.

        Raises
        ------
        TypeError, ValueError
            If texts or role are not what they must be, or the model returns NaN, infinity or zeros.
        """
        check_role(role)
        checked = check_texts(texts)
        if not checked:
            return Encoded.empty(self.dimension, self.feature_dimension)
        return self._encode(checked, role, show_progress)

    def _encode(self, texts: list[str], role: Role, show_progress: bool) -> Encoded:
        # A tokenizer changes its own padding while it works: one thread at a time.
        with self._lock, self.tap.recording():
            if self._can_batch:
                output = encode_in_batches(
                    self.model,
                    texts,
                    self.prompts[role],
                    batch_size=self.batch_size,
                    width=self.tap.output_width or self.model.truncate_dim,
                    show_progress=show_progress,
                )
            else:
                output = self._encode_by_library(texts, role, show_progress)
        vectors, features = self.tap.split(output)
        embedding = check_vectors(vectors, rows=len(texts), encoder=self.name)
        return Encoded(embedding, embedding if features is None else features)

    def _encode_by_library(self, texts: list[str], role: Role, show_progress: bool) -> Float32Array:
        encode = self.model.encode_query if role == "query" else self.model.encode_document
        output = encode(
            texts,
            prompt=self.prompts[role],
            batch_size=self.batch_size,
            show_progress_bar=show_progress,
            truncate_dim=self.tap.output_width,
        )
        return np.asarray(output, dtype=np.float32)
