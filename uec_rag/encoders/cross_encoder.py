"""A cross-encoder as an advisor: it reads a question and a passage together."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.encoders.base import NotCopied
from uec_rag.encoders.hub import is_model, load_model

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


@dataclass(frozen=True)
class CrossEncoderAdvisor(NotCopied):
    """An advisor that says "answer" if its best score of a passage is at least a threshold.

    Attributes
    ----------
    model : CrossEncoder
        Gives one score per pair.
    threshold : float
        The least score, before any activation function, of a passage that answers.
    """

    model: CrossEncoder
    threshold: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def __call__(self, question: str, texts: Sequence[str]) -> bool:
        """Return whether one of the texts answers the question."""
        return bool(self.scores(question, texts).max(initial=-np.inf) >= self.threshold)

    def scores(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Score texts for a question, before any activation function, shape (n,)."""
        from torch.nn import Identity

        pairs = [(question, text) for text in texts]
        if not pairs:
            return np.zeros(0, dtype=np.float32)
        # Tokenizers modify their padding while they work, and are not thread-safe.
        with self._lock:
            scores = self.model.predict(pairs, show_progress_bar=False, activation_fn=Identity())
        return np.asarray(scores, dtype=np.float32).reshape(len(pairs))

    def fit(
        self, questions: Sequence[str], texts: Sequence[Sequence[str]], right: Sequence[bool]
    ) -> Self:
        """Return the advisor with the threshold that separates right hits from wrong ones best.

        It has the largest sum of the shares of right hits above it and of wrong hits below it.

        Parameters
        ----------
        questions : sequence of n str
        texts : sequence of n sequences of str
            The texts of the hits of each.
        right : sequence of n bool
            Whether they answer it.

        Raises
        ------
        ValueError
            If the arguments differ in length, or all hits are right, or all are wrong.
        """
        labels = np.asarray(right, dtype=bool)
        if not len(questions) == len(texts) == len(labels):
            raise ValueError(
                f"questions, texts, right: expected as many of each, got {len(questions)}, "
                f"{len(texts)} and {len(labels)}."
            )
        if labels.all() or not labels.any():
            raise ValueError("right: expected hits that answer and hits that do not.")
        best = np.array(
            [self.scores(*pair).max(initial=-np.inf) for pair in zip(questions, texts, strict=True)]
        )
        levels = np.unique(best[np.isfinite(best)])
        gain = [(best[labels] >= t).mean() + (best[~labels] < t).mean() for t in levels]
        return replace(self, threshold=float(levels[int(np.argmax(gain))]))


def cross_encoder_advisor(
    model: str | Path | CrossEncoder, threshold: float = 0.0, *, device: str | None = None
) -> CrossEncoderAdvisor:
    """Create an advisor from a cross-encoder, for `uec_rag.Gate` and the frameworks' gates.

    Parameters
    ----------
    model : str, path or CrossEncoder
        Hub name, folder, or a CrossEncoder of sentence-transformers. Code shipped with a model is
        never run.
    threshold : float
        See `CrossEncoderAdvisor`; `CrossEncoderAdvisor.fit` finds it with labels.
    device : str, optional
        As in `UEC`.

    Raises
    ------
    ImportError
        If sentence-transformers is not installed.
    OSError
        If there is no such model, or the hub is unreachable.
    TypeError
        If the model is of another kind.
    ValueError
        If the model gives more than one score per pair.
    """
    reader: Any = model
    if isinstance(model, str | Path):
        _, reader = load_model(model, device, fetch=True, kind="CrossEncoder")
    if not is_model(reader, "CrossEncoder"):
        raise TypeError(
            f"model: expected a hub name, a folder or a CrossEncoder, got {type(model).__name__}."
        )
    if reader.num_labels != 1:
        raise ValueError(
            f"model: expected a CrossEncoder with one score per pair, as for re-ranking, got one "
            f"with {reader.num_labels}."
        )
    return CrossEncoderAdvisor(reader, threshold)
