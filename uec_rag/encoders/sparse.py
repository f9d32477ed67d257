"""Learned sparse members: SparseEncoders of sentence-transformers, such as SPLADE."""

import hashlib
import json
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uec_rag.base.checks import check_texts
from uec_rag.base.gaussian import Terms
from uec_rag.encoders.base import Encoded, Role, WithoutVectors, check_role
from uec_rag.encoders.hub import (
    SPARSE,
    Precision,
    check_settings,
    load_model,
    place,
    prompts_of,
    revision_of,
    without_revision,
)

if TYPE_CHECKING:
    from sentence_transformers import SparseEncoder

# Of the length that passages usually have.
_USUAL_PASSAGE = (
    "The library opens at nine in the morning and closes at six. Books may be kept for four weeks "
    "and are returned at the desk beside the entrance; whoever is late pays a small fee."
)


class LearnedSparse(WithoutVectors):
    """An encoder around a SparseEncoder, which gives each term of a text a weight.

    The similarity is the inner product that such models are trained for, in units in which it is
    about that of a cosine: a query is divided by its own length, which leaves the order of its hits
    as the model has it and makes queries comparable; passages by one number, how long the model's
    vector of a usual passage is, for the length of each counts in that order. A model that says it
    compares by cosine has passages of length 1.

    Parameters
    ----------
    model_or_name
        Hub name, at a commit or tag if "@revision" follows it, local folder, or a
        SparseEncoder. Code that comes with a model is never run.
    name
        By default the last part of the hub name or folder.
    device, dtype, batch_size, fetch
        As in `SentenceTransformerEncoder`.

    Raises
    ------
    FileNotFoundError, OSError
        If there is no such folder, or no such model on the hub, or the hub is out of reach.
    ValueError
        If the model compares by neither inner product nor cosine, or an argument is out of range.
    """

    def __init__(
        self,
        model_or_name: "str | Path | SparseEncoder",
        *,
        name: str | None = None,
        device: str | None = None,
        dtype: Precision | None = None,
        batch_size: int = 32,
        fetch: bool = True,
    ) -> None:
        check_settings(dtype, batch_size)
        loaded_here = isinstance(model_or_name, (str, Path))
        source, model = load_model("SparseEncoder", model_or_name, device, fetch)
        if model.similarity_fn_name not in ("dot", "cosine"):
            raise ValueError(
                f"encoder {source!r} compares by {model.similarity_fn_name!r}; terms are compared "
                "by 'dot' or 'cosine'"
            )
        self.prompts = prompts_of(model, source)
        self.name = name or without_revision(source) or "sparse-encoder"
        self.spec = f"{SPARSE}{source}" if source else None
        self.device, self.dtype, self.batch_size = device, dtype, batch_size
        self.model: SparseEncoder = model
        self.revision = self._revision()  # of the weights as they were stored
        place(model, device, dtype, loaded_here=loaded_here)
        # Of an autoencoder's features none has a name.
        self._readable = all(type(m).__name__ != "SparseAutoEncoder" for m in model.modules())
        self._lock = threading.Lock()
        self._unit = 1.0
        usual = self.encode([_USUAL_PASSAGE], "passage").terms
        assert usual is not None
        if model.similarity_fn_name == "dot":
            self._unit = float(usual.norms[0]) or 1.0

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Weigh the terms of queries or passages; the model cuts off what is too long for it.

        Raises TypeError, ValueError if texts or role are not what they must be, or the model
        returns NaN or infinity.
        """
        check_role(role)
        checked = check_texts(texts)
        terms = self._terms(checked, role, show_progress) if checked else Terms.of([], None)
        if role == "query" or self.model.similarity_fn_name == "cosine":
            lengths = np.repeat(np.maximum(terms.norms, 1e-30), np.diff(terms.starts))
        else:
            lengths = np.full(len(terms.keys), self._unit)
        terms = terms.weighted((1 / lengths).astype(np.float32))
        nothing = np.zeros((len(checked), 0), dtype=np.float32)
        return Encoded(nothing, nothing, terms)

    def _terms(self, texts: list[str], role: Role, show_progress: bool) -> Terms:
        encode = self.model.encode_query if role == "query" else self.model.encode_document
        # A tokenizer changes its own padding while it works: one thread at a time.
        with self._lock:
            output: Any = encode(
                texts,
                prompt=self.prompts[role],
                batch_size=self.batch_size,
                show_progress_bar=show_progress,
                save_to_cpu=True,
            )
            matrix = output.coalesce()  # which sorts by text
            rows, columns = matrix.indices().numpy()
            weights = matrix.values().float().numpy()
            keep = weights != 0
            rows, columns, weights = rows[keep], columns[keep], weights[keep]
            if not np.isfinite(weights).all():
                raise ValueError(
                    f"encoder {self.name!r} returned NaN or infinity for texts[{rows[0]}] or a "
                    "later one; expected finite numbers"
                )
            starts = np.searchsorted(rows, np.arange(len(texts) + 1))
            labels = None
            if role == "query":
                labels = [self._named(columns[a:b]) for a, b in pairwise(starts)]
        return Terms(
            starts.astype(np.int64),
            columns.astype(np.uint64),
            weights,
            np.ones(len(texts), dtype=np.float32),
            None,
            labels,
        )

    def _named(self, columns: np.ndarray[Any, np.dtype[np.int64]]) -> dict[int, str]:
        """Return the tokens by their index in the vocabulary."""
        if not self._readable:
            return {}
        places = columns.tolist()
        tokens = self.model.tokenizer.convert_ids_to_tokens(places)
        return dict(zip(places, tokens, strict=True))

    def _revision(self) -> str:
        state = [self.model.similarity_fn_name, self.model.max_active_dims]
        weights = revision_of(self.model, self.prompts, "projection")
        return hashlib.sha256(json.dumps([weights, *state]).encode()).hexdigest()
