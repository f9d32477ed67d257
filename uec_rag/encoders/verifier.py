"""Verifiers: what reads a query and a passage together and scores the pair."""

import functools
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard

import numpy as np

from uec_rag.base.retries import retried
from uec_rag.encoders.base import Float32Array, OneInstance
from uec_rag.encoders.hub import (
    Precision,
    check_settings,
    load_model,
    origin,
    place,
    without_revision,
)
from uec_rag.encoders.revision import hash_weights, tokenizer_state

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder
    from torch import Tensor, nn

ScoringFunction: TypeAlias = Callable[[str, list[str]], object]
"""From a query and n passages to n scores."""

VerifierLike: TypeAlias = "str | Path | CrossEncoder | Verifier | ScoringFunction"
"""Whatever `load_verifier` makes a verifier of."""

_ACCEPTED = (
    "a hub name or folder of a CrossEncoder, a CrossEncoder, or a callable(query, passages) -> "
    "scores"
)


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores of n pairs of a query and a passage.

    Attributes
    ----------
    scores
        (n,): the higher, the better; on any scale.
    features
        (n, m): the input of the linear layer whose output the score is; of width 0 where there is
        none to look at.
    """

    scores: Float32Array
    features: Float32Array


class Verifier(Protocol):
    """Scores passages for a query by reading both together.

    Attributes
    ----------
    name
        Readable.
    revision
        sha256 (hex) of what decides its scores; "" where that cannot be known.
    spec
        What `load_verifier` rebuilds it from; None where nothing on disk can.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def revision(self) -> str: ...  # noqa: D102
    @property
    def spec(self) -> str | None: ...  # noqa: D102

    def score(self, queries: Sequence[str], passages: Sequence[Sequence[str]]) -> Scored:
        """Score the passages of each query; all pairs one after the other."""
        ...


class FunctionVerifier(OneInstance):
    """A verifier made of a callable, which is called once per query.

    Where a service is out of reach, or asks for patience, it is asked again a few times.

    Parameters
    ----------
    function
        From a query and a list of n passages to n finite numbers.

    Examples
    --------
    >>> def shared_words(query, passages):
    ...     return [len({*query.split()} & {*passage.split()}) for passage in passages]
    >>> FunctionVerifier(shared_words).score(["a b"], [["b c", "c", "b a"]]).scores
    array([1., 0., 2.], dtype=float32)
    """

    revision = ""
    spec = None

    def __init__(self, function: ScoringFunction) -> None:
        self.name = _name_of(function)
        self._function = function

    def score(self, queries: Sequence[str], passages: Sequence[Sequence[str]]) -> Scored:
        """Score the passages of each query.

        Raises
        ------
        TypeError, ValueError
            If what comes back is not one finite number per passage.
        """
        found = [
            _checked(retried(self._function, query, list(own)), len(own), self.name)
            for query, own in zip(queries, passages, strict=True)
        ]
        scores = np.concatenate([np.zeros(0, np.float32), *found])
        return Scored(scores, np.zeros((len(scores), 0), dtype=np.float32))


class CrossEncoderVerifier(OneInstance):
    """A verifier around a CrossEncoder of sentence-transformers with one score per pair.

    The score is its logit, whatever activation its configuration names; where a linear layer makes
    it, as in every sequence classifier, that layer's input comes along.

    Parameters
    ----------
    model_or_name
        Hub name, at a commit or tag where "@revision" follows it, local folder, or a CrossEncoder.
        Code that comes with a model is never run.
    device, dtype, batch_size
        As in `SentenceTransformerEncoder`.
    fetch
        Whether to ask the hub; otherwise only what was downloaded earlier is found.

    Raises
    ------
    FileNotFoundError, OSError
        If there is no such folder, or no such model on the hub, or the hub is out of reach.
    ValueError
        If it gives more than one score per pair, or an argument is out of range.
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
        check_settings(dtype, batch_size)
        if isinstance(model_or_name, (str, Path)):
            source, model = load_model("CrossEncoder", model_or_name, device, fetch)
        else:
            source, model = origin(model_or_name), model_or_name
        loaded_here = isinstance(model_or_name, (str, Path))
        self.name = without_revision(source) or "cross-encoder"
        if model.num_labels != 1:
            raise ValueError(
                f"verifier {self.name!r} gives {model.num_labels} scores per pair (a classifier of "
                "sentence pairs?); expected a CrossEncoder with one, as for re-ranking"
            )
        # What a model in memory was loaded from may not be what it has been trained to be.
        self.spec = source if loaded_here else None
        self.batch_size = batch_size
        self.device, self.dtype = device, dtype
        self.model = model
        self.revision = _revision(model)
        place(model, device, dtype, loaded_here=loaded_here)
        self._lock = threading.Lock()
        self._head = _head_of(model)
        if self._head is not None and not self._is_linear_in_features():
            self._head = None

    def __reduce__(self) -> tuple[Any, ...]:
        """As pickle stores it: what it is loaded from, and what it must be."""
        if self.spec is None:
            raise TypeError(
                f"verifier {self.name!r} cannot go to another process: it is a model in memory, "
                "and no name brings it back. Save it to a folder, and give that"
            )
        return _unpickled, (self.spec, self.device, self.dtype, self.batch_size, self.revision)

    def score(self, queries: Sequence[str], passages: Sequence[Sequence[str]]) -> Scored:
        """Score the passages of each query, all pairs in one call of the model's `predict`.

        Raises
        ------
        ValueError
            If a score is NaN or infinite.
        """
        pairs = [
            (query, passage)
            for query, own in zip(queries, passages, strict=True)
            for passage in own
        ]
        width = 0 if self._head is None else self._head.in_features
        if not pairs:
            return Scored(np.zeros(0, np.float32), np.zeros((0, width), np.float32))
        # A tokenizer changes its own padding while it works: one thread at a time.
        with self._lock, self._reading() as activation:
            output = self.model.predict(
                pairs,
                batch_size=self.batch_size,
                show_progress_bar=False,
                activation_fn=activation,
            )
        both = np.asarray(output, dtype=np.float32).reshape(len(pairs), 1 + width)
        return Scored(_checked(both[:, 0], len(pairs), self.name), both[:, 1:].copy())

    def _is_linear_in_features(self) -> bool:
        """Whether the score is what the layer makes of its input, tried on two pairs."""
        assert self._head is not None
        tried = self.score(["score"], [["score", "another passage"]])
        weight = self._head.weight.detach().float().cpu().numpy()[0]
        bias = 0.0 if self._head.bias is None else float(self._head.bias.detach())
        return bool(np.allclose(tried.features @ weight + bias, tried.scores, rtol=0.05, atol=0.05))

    @contextmanager
    def _reading(self) -> "Iterator[Callable[[Tensor], Tensor]]":
        """Append the head's input to every score, so that the library's sorting carries both."""
        import torch

        if self._head is None:
            yield torch.nn.Identity()
            return
        read: list[Tensor] = []
        thread = threading.get_ident()

        def record(_: object, inputs: "tuple[Tensor]") -> None:
            if threading.get_ident() == thread:
                read.append(inputs[0].float())

        def append(scores: "Tensor") -> "Tensor":
            return torch.cat([scores.float(), read.pop()], dim=-1)

        handle = self._head.register_forward_pre_hook(record)
        try:
            yield append
        finally:
            handle.remove()


def load_verifier(
    spec: VerifierLike,
    *,
    device: str | Sequence[str] | None = None,
    dtype: Precision | None = None,
    batch_size: int = 32,
    fetch: bool = True,
) -> Verifier:
    """Make a verifier of whatever stands for one.

    Parameters
    ----------
    spec
        A hub name or a folder of a CrossEncoder, a CrossEncoder, a callable(query, passages) that
        returns a score per passage, or a `Verifier`, returned as it is.
    device, dtype, batch_size, fetch
        As in `CrossEncoderVerifier`; of several devices the first.

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
        here = device if isinstance(device, str | None) else next(iter(device), None)
        return CrossEncoderVerifier(
            spec, device=here, dtype=dtype, batch_size=batch_size, fetch=fetch
        )
    if isinstance(spec, type) or not callable(spec):
        raise TypeError(f"verifier: expected {_ACCEPTED}, got {type(spec).__name__} {spec!r:.80}")
    return FunctionVerifier(spec)


def _unpickled(
    spec: str, device: str | None, dtype: Precision | None, batch_size: int, revision: str
) -> Verifier:
    verifier = load_verifier(spec, device=device, dtype=dtype, batch_size=batch_size)
    if verifier.revision != revision:
        raise ValueError(
            f"verifier {spec!r} is not the model that it was in the other process; give both the "
            "same files"
        )
    return verifier


def is_verifier(value: object) -> TypeGuard[Verifier]:
    """Whether a value has every member of `Verifier`."""
    return not isinstance(value, type) and all(
        hasattr(value, member) for member in ("name", "revision", "spec", "score")
    )


def is_cross_encoder(value: object) -> "TypeGuard[CrossEncoder]":
    """Whether a value is a CrossEncoder, by the names of its class's ancestors."""
    return not isinstance(value, type) and any(
        base.__name__ == "CrossEncoder"
        and base.__module__.partition(".")[0] == "sentence_transformers"
        for base in type(value).__mro__
    )


def _name_of(function: object) -> str:
    if isinstance(function, functools.partial):
        return _name_of(function.func)
    name = getattr(function, "__name__", type(function).__name__)
    return "verifier" if name == "<lambda>" else str(name)


def _checked(scores: object, rows: int, name: str) -> Float32Array:
    """One finite number per passage, from whatever a verifier returned."""
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


def _head_of(model: "CrossEncoder") -> "nn.Linear | None":
    """The linear layer whose only output is the score: the last that a forward pass goes through.

    None for models that score otherwise, as language models do by a word of their vocabulary.
    """
    from torch import nn

    last = None
    for module in model.modules():
        if isinstance(module, nn.Linear):
            last = module
    return last if last is not None and last.out_features == 1 else None


def _revision(model: "CrossEncoder") -> str:
    """sha256 (hex) over weights, architecture and tokenizer; see `revision.revision_of`."""
    config = getattr(model.model, "config", None)
    description: dict[str, Any] = {
        "modules": [type(module).__name__ for module in model],
        "model_type": getattr(config, "model_type", None),
        "max_length": str(model.max_seq_length),
        "tokenizer": tokenizer_state(model),
    }
    digest = hashlib.sha256(json.dumps(description, sort_keys=True, default=str).encode())
    hash_weights(digest, model)
    return digest.hexdigest()
