"""Verifiers: models that score a pair of query and passage by reading both together."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard

import numpy as np

from uec_rag.base.retries import retried
from uec_rag.encoders import hub
from uec_rag.encoders.base import Float32Array, OneInstance, function_name
from uec_rag.encoders.hub import Precision

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

ScoringFunction: TypeAlias = Callable[[str, list[str]], object]
"""A function that maps a query and n passages to n scores."""


class LangChainCrossEncoder(Protocol):
    """The method that makes an object a LangChain `BaseCrossEncoder`."""

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """Score pairs of texts."""


VerifierLike: TypeAlias = (
    "str | Path | CrossEncoder | LangChainCrossEncoder | Verifier | ScoringFunction"
)
"""The values that `load_verifier` accepts."""

_ACCEPTED = (
    "a hub name or folder of a CrossEncoder, a CrossEncoder, a LangChain BaseCrossEncoder, or a "
    "callable(query, passages) -> scores (uec_rag.llama_index.nodes.as_verifier makes one from a "
    "LlamaIndex postprocessor)"
)

LARGEST_SCORE = np.float32(1e6)
"""The largest score allowed: larger ones could overflow single precision when squared or scaled."""


def bounded(scores: Float32Array) -> Float32Array:
    """Clip a verifier's scores to +-`LARGEST_SCORE`.

    Raises ValueError if a score is NaN or infinite.
    """
    if not np.isfinite(scores).all():
        raise ValueError("scores: expected finite numbers, got NaN or infinity.")
    return np.clip(scores, -LARGEST_SCORE, LARGEST_SCORE)


class Verifier(Protocol):
    """A model that scores passages for a query by reading both together.

    Attributes
    ----------
    name
        A readable name.
    revision
        SHA-256 (hex) of everything that determines its scores; "" if unknown.
    spec
        The `spec` from which `load_verifier` rebuilds this verifier; None if it cannot.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def revision(self) -> str: ...  # noqa: D102
    @property
    def spec(self) -> str | None: ...  # noqa: D102

    def score(self, queries: Sequence[str], passages: Sequence[Sequence[str]]) -> Float32Array:
        """Score the passages of each query: all pairs, query by query, shape (n,), on any scale."""


class FunctionVerifier(OneInstance):
    """A verifier around a callable, which is called once per query.

    If a service is unreachable or rate-limited, calls are retried a few times.

    Parameters
    ----------
    function
        Maps a query and a list of n passages to n finite numbers.

    Examples
    --------
    >>> def shared_words(query, passages):
    ...     return [len({*query.split()} & {*passage.split()}) for passage in passages]
    >>> FunctionVerifier(shared_words).score(["a b"], [["b c", "c", "b a"]])
    array([1., 0., 2.], dtype=float32)
    """

    revision = ""
    spec = None

    def __init__(self, function: ScoringFunction) -> None:
        self.name = function_name(function, "verifier")
        self._function = function

    def score(self, queries: Sequence[str], passages: Sequence[Sequence[str]]) -> Float32Array:
        """Score the passages of each query.

        Raises TypeError or ValueError if the callable does not return one finite number per
        passage.
        """
        scores = [
            _checked(retried(self._function, query, list(texts)), len(texts), self.name)
            for query, texts in zip(queries, passages, strict=True)
        ]
        return np.concatenate([np.zeros(0, np.float32), *scores])


class CrossEncoderVerifier(OneInstance):
    """A verifier around a CrossEncoder of sentence-transformers with one score per pair.

    The score is the model's logit; the activation function that its configuration names is ignored.

    Parameters
    ----------
    model_or_name
        Hub name, optionally with "@revision" (a commit or tag), local folder, or a CrossEncoder.
        Code shipped with a model is never run.
    device, dtype, batch_size
        As in `SentenceTransformerEncoder`.
    fetch
        Whether to use the hub; otherwise only models already downloaded are found.

    Raises
    ------
    FileNotFoundError, OSError
        If there is no such folder, or no such model on the hub, or the hub is unreachable.
    ValueError
        If the model returns more than one score per pair, or an argument is out of range.
    """

    def __init__(
        self,
        model_or_name: "str | Path | CrossEncoder",
        *,
        device: str | None = None,
        dtype: Precision | None = None,
        batch_size: int = 32,
        fetch: bool = True,
    ) -> None:
        hub.check_settings(dtype, batch_size)
        source, model = hub.load_model("CrossEncoder", model_or_name, device, fetch)
        loaded_here = isinstance(model_or_name, (str, Path))
        self.name = hub.without_revision(source) or "cross-encoder"
        if model.num_labels != 1:
            raise ValueError(
                f"verifier {self.name!r} gives {model.num_labels} scores per pair (a classifier of "
                "sentence pairs?); expected a CrossEncoder with one, as for re-ranking"
            )
        # A model in memory may have been trained further since it was loaded.
        self.spec = source if loaded_here else None
        self.batch_size = batch_size
        self.device, self.dtype = device, dtype
        self.model: CrossEncoder = model
        self.revision = _revision(model)
        hub.place(model, device, dtype, loaded_here=loaded_here)
        self._lock = threading.Lock()

    def score(self, queries: Sequence[str], passages: Sequence[Sequence[str]]) -> Float32Array:
        """Score the passages of each query, all pairs in one call of the model's `predict`.

        Raises ValueError if a score is NaN or infinite.
        """
        pairs = [
            (query, passage)
            for query, texts in zip(queries, passages, strict=True)
            for passage in texts
        ]
        if not pairs:
            return np.zeros(0, np.float32)
        from torch.nn import Identity

        # Tokenizers modify their padding while they work, and are not thread-safe.
        with self._lock:
            scores = self.model.predict(
                pairs, batch_size=self.batch_size, show_progress_bar=False, activation_fn=Identity()
            )
        return _checked(scores, len(pairs), self.name)


def load_verifier(
    spec: VerifierLike,
    *,
    device: str | None = None,
    dtype: Precision | None = None,
    batch_size: int = 32,
    fetch: bool = True,
) -> Verifier:
    """Load a verifier from a name, a folder, an object or a callable.

    Parameters
    ----------
    spec
        A hub name or a folder of a CrossEncoder, a CrossEncoder, a LangChain `BaseCrossEncoder`, a
        callable(query, passages) that returns a score per passage, or a `Verifier`, which is
        returned unchanged.
    device, dtype, batch_size, fetch
        As in `CrossEncoderVerifier`; other verifiers ignore them.

    Raises
    ------
    TypeError
        If spec is none of these.
    ValueError, OSError, ImportError
        As `CrossEncoderVerifier`.
    """
    if is_verifier(spec):
        return spec
    if isinstance(spec, (str, Path)) or is_cross_encoder(spec):
        if isinstance(spec, str) and not spec.strip():
            raise ValueError(f"verifier: its name must not be empty; expected {_ACCEPTED}")
        return CrossEncoderVerifier(
            spec, device=device, dtype=dtype, batch_size=batch_size, fetch=fetch
        )
    if not isinstance(spec, type) and callable(pairwise := getattr(spec, "score", None)):

        def score(query: str, passages: list[str]) -> object:
            return pairwise([(query, passage) for passage in passages])

        score.__name__ = function_name(spec, "verifier")
        return FunctionVerifier(score)
    if isinstance(spec, type) or not callable(spec):
        raise TypeError(f"verifier: expected {_ACCEPTED}, got {type(spec).__name__} {spec!r:.80}")
    return FunctionVerifier(spec)


def is_verifier(value: object) -> TypeGuard[Verifier]:
    """Return whether a value has every member of `Verifier`."""
    return not isinstance(value, type) and all(
        hasattr(value, member) for member in ("name", "revision", "spec", "score")
    )


def is_cross_encoder(value: object) -> "TypeGuard[CrossEncoder]":
    """Return whether a value is a CrossEncoder."""
    return hub.is_model(value, "CrossEncoder")


def _checked(scores: object, rows: int, name: str) -> Float32Array:
    """Check that a verifier returned one finite number per passage."""
    if hasattr(scores, "detach"):
        scores = scores.detach().cpu().float().numpy()
    array = np.asarray(scores)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"verifier {name!r} returned {type(scores).__name__} of {array.dtype}; expected one "
            "number per passage"
        )
    if array.size != rows:
        raise ValueError(
            f"verifier {name!r} returned scores of shape {array.shape} for {rows} passages; "
            "expected one number per passage"
        )
    flat = array.reshape(rows).astype(np.float32)
    if not np.isfinite(flat).all():
        raise ValueError(
            f"verifier {name!r} returned NaN or infinity for {int((~np.isfinite(flat)).sum())} of "
            f"{rows} passages; expected finite numbers"
        )
    return flat


def _revision(model: "CrossEncoder") -> str:
    """Compute the SHA-256 (hex) of weights, architecture and tokenizer; see `hub.revision_of`."""
    config = getattr(model.model, "config", None)
    description = {
        "modules": [type(module).__name__ for module in model],
        "model_type": getattr(config, "model_type", None),
        "max_length": str(model.max_seq_length),
        "tokenizer": hub.tokenizer_state(model),
    }
    return hub.hash_of(description, model)
