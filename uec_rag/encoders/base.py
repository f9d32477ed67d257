"""The encoder protocol, the output of encoders, and checks of their input and output."""

import inspect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from uec_rag.base.checks import check_texts
from uec_rag.base.errors import NoDirection
from uec_rag.base.gaussian import Rows, Terms, together
from uec_rag.base.progress import counted, progress_bar
from uec_rag.base.text import undecorated

Role: TypeAlias = Literal["query", "passage"]
"""The role of a text; many models use different prompts for queries and passages."""

LastLayer: TypeAlias = Literal["projection", "ffn"]
"""The linear layer of the network that the Laplace posterior is over."""

Float32Array: TypeAlias = npt.NDArray[np.float32]

_ROLES = ("query", "passage")
_AT_ONCE = 256  # texts of a call


@dataclass(frozen=True, eq=False)
class Encoded:
    """The embeddings of n texts, with the input of the model's last linear layer.

    Attributes
    ----------
    embedding
        (n, d) float32, rows of unit length.
    features
        (n, m) float32: the input h of the last linear layer W (d, m), scaled per text such that a
        change dW of the weights changes the embedding by `gain * (dW @ features)` if the length of
        the vector and the statistics of a LayerNorm are held fixed. If W is the identity,
        `features` is `embedding`.
    terms
        The terms of an encoder without vectors, whose embedding and features have width 0.
    """

    embedding: Float32Array
    features: Float32Array
    terms: Terms | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle features that are the embedding as such, whatever the pickler does to arrays."""
        parts = (self.embedding, self.features, self.terms)
        return (_plain, parts[::2]) if self.features is self.embedding else (Encoded, parts)

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.embedding)

    def __getitem__(self, rows: Rows) -> "Encoded":
        """Return the encodings of some texts (a slice, indices or a mask)."""
        terms = None if self.terms is None else self.terms[rows]
        embedding = self.embedding[rows]
        is_same = self.features is self.embedding
        return Encoded(embedding, embedding if is_same else self.features[rows], terms)

    @property
    def is_plain(self) -> bool:
        """True if the features are the embedding, as of a last layer that is the identity."""
        return self.features is self.embedding or np.array_equal(self.features, self.embedding)

    @property
    def blocks(self) -> tuple[Terms, ...]:
        """The sparse blocks, as a Gaussian has them: the terms, if there are any."""
        return () if self.terms is None else (self.terms,)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the encodings of some texts and others."""
        embedding = features = np.concatenate([part.embedding for part in parts])
        if any(part.features is not part.embedding for part in parts):
            features = np.concatenate([part.features for part in parts])
        terms = [part.terms for part in parts if part.terms is not None]
        return cls(embedding, features, together(terms) if terms else None)

    @classmethod
    def empty(cls, dimension: int, feature_dimension: int) -> Self:
        """Return the encoding of no texts."""
        return cls(
            np.zeros((0, dimension), dtype=np.float32),
            np.zeros((0, feature_dimension), dtype=np.float32),
        )


def _plain(embedding: Float32Array, terms: Terms | None) -> Encoded:
    return Encoded(embedding, embedding, terms)


class Encoder(Protocol):
    """An embedding model that maps texts to unit vectors and last-layer features.

    Attributes
    ----------
    name
        A readable name, used in reports and as the key of the encoder's fit pairs.
    revision
        SHA-256 (hex) of weights, configuration, prompts and last layer; "" if unknown, as for an
        API.
    dimension
        The dimension d of an embedding.
    feature_dimension
        The dimension m of the last layer's input.
    gain
        (d,) float32: the factor of each row of W in the output; ones for the identity.
    spec
        The `spec` from which `load_encoder` rebuilds this encoder; None if it cannot.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def revision(self) -> str: ...  # noqa: D102
    @property
    def dimension(self) -> int: ...  # noqa: D102
    @property
    def feature_dimension(self) -> int: ...  # noqa: D102
    @property
    def gain(self) -> Float32Array: ...  # noqa: D102
    @property
    def spec(self) -> str | None: ...  # noqa: D102

    def encode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Embed texts as queries or as passages."""


class NotCopied:
    """A mixin of what copies share: weights, sessions and locks, and a gate's advisor."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class _Sized(Protocol):
    @property
    def dimension(self) -> int: ...


class IdentityHead(NotCopied):
    """The base of encoders whose last layer is the identity, so `features` is `embedding`.

    Subclasses define `dimension` and `encode`.
    """

    @property
    def feature_dimension(self: _Sized) -> int:
        """The dimension of an embedding."""
        return self.dimension

    @property
    def gain(self: _Sized) -> Float32Array:
        """The gain of each row of W: ones, shape (d,)."""
        return np.ones(self.dimension, dtype=np.float32)


class TermEncoder(IdentityHead):
    """The base of encoders that return `Terms` instead of vectors."""

    dimension = 0


class SilentEncoder(IdentityHead):
    """In place of an encoder that failed: its vectors are zeros, which resemble nothing.

    Parameters
    ----------
    encoder : Encoder
    dimension : int
        That of its vectors, which it may not be able to tell.
    """

    revision, spec = "", None

    def __init__(self, encoder: Encoder, dimension: int) -> None:
        self.name, self.dimension = encoder.name, dimension

    def encode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Return zeros for all texts."""
        zeros = np.zeros((len(texts), self.dimension), dtype=np.float32)
        return Encoded(zeros, zeros)


_MEMBERS = (*("name", "revision", "dimension", "feature_dimension", "gain", "spec", "encode"),)


def is_encoder(value: object) -> TypeGuard[Encoder]:
    """Return whether a value has every member of `Encoder`, without computing any of them."""
    missing = object()
    return not isinstance(value, type) and all(
        inspect.getattr_static(value, member, missing) is not missing for member in _MEMBERS
    )


def encode_texts(
    encoder: Encoder, texts: Sequence[str], role: Role, show_progress: bool | None = None
) -> Encoded:
    """Embed texts, a few hundred at a time, with a progress bar (see `progress_bar`).

    The bar moves with each text of an encoder that calls `advance`, of others with each call.
    """
    checked = prepare_texts(texts, role)
    if len(texts) < 2 and not show_progress:  # a question, or nothing
        return encoder.encode(checked, role)
    with progress_bar("Encoding texts", len(texts), show_progress) as bar, counted(bar, len(texts)):
        return assemble(pieces_of(encoder, checked, role))


Piece: TypeAlias = tuple[Sequence[int], Encoded]
"""The positions of some of many texts, and their encodings."""


def pieces_of(encoder: Encoder, texts: Sequence[str], role: Role) -> Iterator[Piece]:
    """Yield the encodings of texts, prepared before, as they come.

    They are those of a few hundred; of a service, those of each call, also if another one fails.
    """
    if (pieces := getattr(encoder, "pieces", None)) is not None:
        yield from pieces(texts, role)
        return
    for start in range(0, len(texts), _AT_ONCE):
        batch = texts[start : start + _AT_ONCE]
        try:
            with counted(None, len(batch)):
                encoded = encoder.encode(batch, role)
        except NoDirection as error:
            raise error.among(texts) from None
        yield range(start, start + len(batch)), encoded


def assemble(pieces: Iterable[Piece]) -> Encoded:
    """Join the encodings of one text or more, in the order of their positions."""
    rows, parts = zip(*pieces, strict=True)
    order = np.concatenate([np.asarray(places, dtype=np.intp) for places in rows])
    whole = parts[0] if len(parts) == 1 else Encoded.join(parts)
    return whole if (order[1:] > order[:-1]).all() else whole[np.argsort(order)]


def prepare_texts(texts: Sequence[str], role: str) -> list[str]:
    """Return texts that `check_texts` accepts, their letters without decoration.

    ValueError unless role is "query" or "passage".
    """
    if role not in _ROLES:
        raise ValueError(f"role must be one of {_ROLES}, got {role!r}")
    return [*map(undecorated, check_texts(texts))]


def rarity_of(pieces: Sequence[int]) -> float:
    """Compute how rare a word is, from the numbers of its pieces in a tokenizer's vocabulary.

    Vocabularies are ordered by frequency, which is about inverse to rank: minus the log of the
    probability of the pieces, up to a constant.
    """
    return float(np.log1p(pieces).sum())


def check_vectors(
    vectors: object,
    *,
    rows: int,
    encoder: str,
    dimension: int | None = None,
    texts: Sequence[str] = (),
) -> Float32Array:
    """Check what an encoder returned and scale its rows to unit length.

    Parameters
    ----------
    vectors
        An array-like of shape (rows, d): array, list of lists or tensor.
    rows
        Number of texts.
    encoder
        Name of the encoder, for messages.
    dimension
        Dimension of its earlier vectors; None if these are the first.
    texts
        What was embedded, for messages, if it is known.

    Returns
    -------
    (rows, d) float32
        Rows of unit length.

    Raises
    ------
    TypeError
        If the values are not real numbers.
    ValueError
        If the shape is not (rows, dimension).
    NoDirection
        If a value is NaN or infinite, or a row is zero.
    """
    array = _as_floats(vectors, encoder)
    width = array.shape[-1] if array.ndim == 2 else 0
    if len(array) != rows or not width or dimension not in (None, width):
        raise ValueError(
            f"encoder {encoder!r} returned an array of shape {array.shape} for {rows} texts; "
            f"expected ({rows}, {dimension or 'd'}), one vector per text"
        )
    largest = np.maximum(array.max(axis=1, keepdims=True), -array.min(axis=1, keepdims=True))
    directed = np.isfinite(largest) & (largest > 0)  # NaN is the largest where there is one
    if not directed.all():
        bad = np.flatnonzero(~directed)
        is_null = not np.isfinite(largest[bad[0]]).all()
        raise NoDirection(encoder, len(bad), int(bad[0]), texts, is_null=is_null)
    # Dividing by the largest entry first keeps the squares from overflowing or underflowing.
    unit = array / largest
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return np.asarray(unit, dtype=np.float32)


def _as_floats(vectors: object, encoder: str) -> npt.NDArray[np.floating]:
    if hasattr(vectors, "detach"):  # a tensor, on any device and of any precision
        vectors = vectors.detach().cpu().float().numpy()
    array = np.asarray(vectors)
    if array.dtype.kind not in "fiu":
        raise TypeError(
            f"encoder {encoder!r} returned {type(vectors).__name__} of {array.dtype}; "
            "expected an array of real numbers, one row per text"
        )
    kind = np.float32 if array.dtype == np.float16 else np.result_type(array, "f4")
    return array.astype(kind, copy=False)


def unique_names(names: Sequence[str]) -> list[str]:
    """Make names unique by numbering repetitions.

    Examples
    --------
    >>> unique_names(["a", "b", "a"])
    ['a', 'b', 'a-2']
    """
    out: list[str] = []
    for name in names:
        numbered = (f"{name}-{count}" for count in itertools.count(2))
        out.append(name if name not in out else next(n for n in numbered if n not in out))
    return out


PROBES = ("The loan of a laptop lasts two weeks.", "How do I restore a backup?", "Chapter 7")
"""The texts whose vectors tell one model from another."""

_SAME = 0.999  # the least cosine of two vectors of a text by one model, which may be rounded
# Of a model in int8 with dynamic ranges, a text has .9925 to .998 to itself, by its batch; other
# models of the same width are far below the least that is taken for one model.
LEAST_SAME, _MARGIN = 0.98, 3.0


def least_same(encoder: Encoder, texts: Sequence[str]) -> float:
    """Return the least cosine at which two vectors of a text are taken for an encoder's.

    It is learned from texts that are encoded alone and together, and lower if that differs.
    """
    encoder = getattr(encoder, "uncached", encoder)  # a cache would return the same twice
    return _least_same(encoder, texts, encoder.encode(texts, "passage").embedding)


def _least_same(
    encoder: Encoder, texts: Sequence[str], together: Float32Array, role: Role = "passage"
) -> float:
    alone = np.concatenate([encoder.encode([text], role).embedding for text in texts])
    spread = 1 - float((together * alone).sum(axis=1).min())
    return max(LEAST_SAME, min(_SAME, 1 - _MARGIN * spread))


def are_same(
    encoder: Encoder, texts: Sequence[str], vectors: Float32Array, stored: Float32Array
) -> bool:
    """Return whether stored vectors are those that an encoder made of some texts, perhaps rounded.

    `texts`: those to learn from how much its vectors of a text differ, if that is needed.
    """
    lowest = float((vectors * stored).sum(axis=1).min())
    return lowest >= _SAME or (lowest >= LEAST_SAME and lowest >= least_same(encoder, texts))


def probe(encoder: Encoder, role: Role = "passage") -> tuple[float, ...]:
    """Return a model's vectors of `PROBES`, and how alike its vectors of a text are; () for words.

    The latter is what `least_same` returns.
    """
    if isinstance(encoder, TermEncoder):
        return ()
    try:
        encoder = getattr(encoder, "uncached", encoder)
        vectors = encoder.encode(PROBES, role).embedding
        lowest = round(_least_same(encoder, PROBES, vectors, role), 4)
        return *vectors.ravel().round(4).tolist(), lowest
    except NoDirection:  # it does not know the texts
        return ()


def are_of_one_model(probe: Sequence[float], reference: Sequence[float]) -> bool:
    """Return whether two of what `probe` returns are of the same model, or of words."""
    if len(probe) != len(reference) or not probe:
        return len(probe) == len(reference)
    a, b = (np.reshape(values[:-1], (len(PROBES), -1)) for values in (probe, reference))
    return bool(((a * b).sum(axis=1) >= max(LEAST_SAME, min(probe[-1], reference[-1]))).all())
