"""Sketches: how near a question is to a text and to each of the questions that stand beside it.

The vector of a passage with questions is the mean of that of its text and the mean of theirs. It is
stored as it is. Of each question, its product with the passage's vector is kept, and what it has
beside that in three bits a number: its cosine to anything else is known from both to some
hundredths, and so is that of the text, which is what the mean has besides the questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

import numpy as np

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import cached_property
from uec_rag.encoders.base import Encoded
from uec_rag.ensemble.uec import UEC

_SHARE = np.float32(0.5)  # of the text in the vector of a passage with questions
# Three bits: the levels at which a normal distribution is cut with the least error (Lloyd, Max).
_BITS, _NUMBERS, _TINY = 3, np.dtype("<f2"), np.float32(1e-12)
_CUTS = np.array([-1.748, -1.05, -0.5006, 0, 0.5006, 1.05, 1.748], dtype=np.float32)
_LEVELS = np.array([-2.152, -1.344, -0.756, -0.2451, 0.2451, 0.756, 1.344, 2.152], np.float32)


def encode_with_questions(
    uec: UEC,
    texts: Sequence[str],
    questions: Sequence[Sequence[str]],
    words: Sequence[str],
    *,
    show_progress: bool | None = None,
) -> tuple[list[Encoded], list[bytes]]:
    """Encode n texts, each with the questions beside it; models see all of them in one call.

    Parameters
    ----------
    uec : UEC
    texts : sequence of n str
    questions : sequence of n sequences of str
    words, show_progress
        As in `UEC.encodings`.

    Returns
    -------
    encodings : list of K Encoded
    sketches : list of n bytes
        b"" of a text without questions.
    """
    ends = accumulate(map(len, questions), initial=len(texts))
    spans = [slice(*pair) for pair in pairwise(ends)]
    sketches = [b""] * len(texts)
    flat = [*chain.from_iterable(questions)]
    encodings = uec.encodings(
        texts, "passage", words=words, questions=flat, show_progress=show_progress
    )
    for number, part in enumerate(encodings):
        if part.terms is None:
            encodings[number], drawings = _mix(part, spans)
            sketches = [*map(bytes.__add__, sketches, drawings)]
    return encodings, sketches


def _mix(encoded: Encoded, spans: Sequence[slice]) -> tuple[Encoded, list[bytes]]:
    """Return texts mixed with the questions at some places behind them, and their sketches."""
    whole = encoded[: len(spans)]
    vectors, features, sketches = whole.embedding.copy(), whole.features.copy(), list[bytes]()
    for row, span in enumerate(spans):
        if span.start == span.stop:
            sketches.append(b"")
            continue
        questions, text = encoded.embedding[span], encoded.embedding[row]
        mean = _SHARE * text + (1 - _SHARE) * questions.mean(axis=0)
        length = np.linalg.norm(mean) or np.float32(1)
        vectors[row] = mean / length
        of_questions = encoded.features[span].mean(axis=0)
        features[row] = (_SHARE * features[row] + (1 - _SHARE) * of_questions) / length
        sketches.append(_draw(vectors[row], questions, length))
    is_same = encoded.features is encoded.embedding
    return Encoded(vectors, vectors if is_same else features), sketches


def _draw(vector: FloatArray, questions: FloatArray, length: np.floating) -> bytes:
    """Return the sketch of questions beside a passage, by one encoder."""
    along = questions @ vector
    rest = questions - along[:, None] * vector
    deviations = np.maximum(rest.std(axis=1, keepdims=True), _TINY)
    codes = np.searchsorted(_CUTS, rest / deviations).astype(np.uint8)
    drawn = _LEVELS[codes]
    # Such that the product of what is drawn with its own drawing is right.
    scales = (rest * rest).sum(axis=1) / np.maximum((rest * drawn).sum(axis=1), _TINY)
    bits = np.unpackbits(codes[..., None], axis=2)[..., -_BITS:]
    packed = np.packbits(bits.reshape(len(codes), -1), axis=1)
    return np.array([length, *along, *scales], dtype=_NUMBERS).tobytes() + packed.tobytes()


@dataclass(frozen=True, eq=False)
class Likeness:
    """Likeness of a question to one passage with questions, as a mean over encoders.

    Attributes
    ----------
    text : array, shape (E,)
        The cosine of the text alone, by each encoder that has vectors.
    questions : array, shape (q,)
        Those of the questions beside it, as a mean over these.
    """

    text: FloatArray
    questions: FloatArray

    @cached_property
    def largest(self) -> float:
        """The largest cosine of a question."""
        return float(self.questions.max())

    @cached_property
    def usual(self) -> float:
        """The mean cosine of the questions."""
        return float(self.questions.mean())


def read(
    sketches: Sequence[bytes], vectors: Sequence[FloatArray], cosines: FloatArray
) -> list[Likeness | None]:
    """Return how near a question is to texts and the questions beside them.

    It is None without a sketch, or if that is not one of these encoders.

    Parameters
    ----------
    sketches : sequence of n bytes
    vectors : sequence of E arrays
        The unit vectors of what is asked, by each encoder that has vectors.
    cosines : array, shape (E, n)
        Their cosines to the passages'.
    """
    sizes = [-(-_BITS * len(vector) // 8) for vector in vectors]
    counts = [_count(len(sketch), sizes) for sketch in sketches]
    rows = [row for row, count in enumerate(counts) if count]
    if not rows:
        return [None] * len(sketches)
    ends = np.cumsum([counts[row] for row in rows])[:-1]
    texts, totals = list[FloatArray](), np.zeros(sum(counts), dtype=np.float32)
    starts = dict.fromkeys(rows, 0)
    for vector, of_encoder, size in zip(vectors, cosines, sizes, strict=True):
        numbers, codes = list[FloatArray](), list[bytes]()
        for row in rows:
            sketch, count, start = sketches[row], counts[row], starts[row]
            middle = start + (1 + 2 * count) * _NUMBERS.itemsize
            numbers.append(np.frombuffer(sketch, _NUMBERS, 1 + 2 * count, start).astype(np.float32))
            starts[row] = middle + count * size
            codes.append(sketch[middle : starts[row]])
        packed = np.frombuffer(b"".join(codes), np.uint8).reshape(-1, size)
        bits = np.unpackbits(packed, axis=1, count=_BITS * len(vector))
        levels = bits[:, ::_BITS] << 2 | bits[:, 1::_BITS] << 1 | bits[:, 2::_BITS]
        of_rows = of_encoder[rows]
        along = np.concatenate([of[1 : 1 + len(of) // 2] for of in numbers])
        scales = np.concatenate([of[1 + len(of) // 2 :] for of in numbers])
        of_passages = np.repeat(of_rows, [counts[row] for row in rows])
        questions = along * of_passages + scales * (_LEVELS[levels] @ vector)
        means = np.array([part.mean() for part in np.split(questions, ends)], dtype=np.float32)
        lengths = np.array([of[0] for of in numbers], dtype=np.float32)
        texts.append((lengths * of_rows - (1 - _SHARE) * means) / _SHARE)
        totals += questions / np.float32(len(vectors))
    pairs = zip(np.stack(texts, axis=1), np.split(totals, ends), strict=True)
    likenesses = dict(zip(rows, (Likeness(*pair) for pair in pairs), strict=True))
    return [likenesses.get(row) for row in range(len(sketches))]


def _count(length: int, sizes: Sequence[int]) -> int:
    """Return of how many questions a sketch is, by its length; 0 if it is of other encoders."""
    fixed = _NUMBERS.itemsize * len(sizes)
    each = sum(sizes) + 2 * fixed
    count, surplus = divmod(length - fixed, each)
    return 0 if surplus or not sizes else max(count, 0)
