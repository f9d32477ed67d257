"""Learned sparse encoders: SparseEncoders of sentence-transformers, such as SPLADE."""

import hashlib
import json
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uec_rag.base.gaussian import Terms
from uec_rag.encoders import hub
from uec_rag.encoders.base import Encoded, Role, TermEncoder, checked_texts
from uec_rag.encoders.hub import Precision

if TYPE_CHECKING:
    from sentence_transformers import SparseEncoder

# A passage of typical length.
_TYPICAL_PASSAGE = (
    "The library opens at nine in the morning and closes at six. Books may be kept for four weeks "
    "and are returned at the desk beside the entrance; whoever is late pays a small fee."
)


class LearnedSparse(TermEncoder):
    """An encoder around a SparseEncoder, which gives each term of a text a weight.

    The similarity is the inner product that such models are trained for, scaled to about the range
    of a cosine. A query vector is divided by its own length, which keeps the order of its hits and
    makes queries comparable. Passage vectors are all divided by the length of the vector of a
    typical passage, since their own lengths affect the order. If the model's similarity function is
    the cosine, passage vectors are scaled to length 1.

    Parameters
    ----------
    model_or_name
        Hub name, optionally with "@revision" (a commit or tag), local folder, or a
        SparseEncoder. Code shipped with a model is never run.
    device, dtype, batch_size, fetch
        As in `SentenceTransformerEncoder`.

    Raises
    ------
    FileNotFoundError, OSError
        If there is no such folder, or no such model on the hub, or the hub is unreachable.
    ValueError
        If the model's similarity function is neither the inner product nor the cosine, or an
        argument is out of range.
    """

    def __init__(
        self,
        model_or_name: "str | Path | SparseEncoder",
        *,
        device: str | None = None,
        dtype: Precision | None = None,
        batch_size: int = 32,
        fetch: bool = True,
    ) -> None:
        hub.check_settings(dtype, batch_size)
        loaded_here = isinstance(model_or_name, (str, Path))
        source, model = hub.load_model("SparseEncoder", model_or_name, device, fetch)
        if model.similarity_fn_name not in ("dot", "cosine"):
            raise ValueError(
                f"encoder {source!r} has the similarity function {model.similarity_fn_name!r}; "
                "expected 'dot' or 'cosine'"
            )
        self.prompts = hub.prompts_of(model, source)
        self.name = hub.without_revision(source) or "sparse-encoder"
        self.spec = f"{hub.SPARSE}{source}" if source else None
        self.device, self.dtype, self.batch_size = device, dtype, batch_size
        self.model: SparseEncoder = model
        self.revision = self._revision()  # before `place` casts the weights
        hub.place(model, device, dtype, loaded_here=loaded_here)
        # The features of an autoencoder have no names.
        self._readable = all(type(m).__name__ != "SparseAutoEncoder" for m in model.modules())
        self._lock = threading.Lock()
        self._unit = 1.0
        typical = self.encode([_TYPICAL_PASSAGE], "passage").terms
        assert typical is not None
        if model.similarity_fn_name == "dot":
            self._unit = float(typical.norms[0]) or 1.0

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Compute the term weights of queries or passages; the model truncates long ones.

        Raises TypeError or ValueError if texts or role are invalid, or the model returns NaN or
        infinity.
        """
        checked = checked_texts(texts, role)
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
        # Tokenizers modify their padding while they work, and are not thread-safe.
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
        """Map indices of the vocabulary to their tokens."""
        if not self._readable:
            return {}
        places = columns.tolist()
        tokens = self.model.tokenizer.convert_ids_to_tokens(places)
        return dict(zip(places, tokens, strict=True))

    def _revision(self) -> str:
        state = [self.model.similarity_fn_name, self.model.max_active_dims]
        weights = hub.revision_of(self.model, self.prompts, "projection")
        return hashlib.sha256(json.dumps([weights, *state]).encode()).hexdigest()
