"""Views of a question in a conversation: the last turn alone, and with the turns before it.

Each view is a text that every encoder encodes. The question that is searched is their convex
combination: a Gaussian in each encoder's space, a bag of words in BM25. How much the turns before
count is decided anew for each question, by what the corpus says of the last turn alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.records import Record
from uec_rag.confidence.readings import asks_back, reading_meant
from uec_rag.ensemble.evidence import NEXT, gap

_Q = TypeVar("_Q")
_T = TypeVar("_T")

LEADERS = NEXT
"""The number of best passages of the last turn that tell whether one stands out."""

# An encoder reads the beginning of a text, about 512 tokens. A token is four bytes of English or
# one character of Chinese, which is three.
_ROOM = 1500


def in_context(question: str, turns: Sequence[str]) -> str:
    r"""The question behind the turns before it, oldest first, one on each line.

    Of the turns the latest stay, as many as take 1,500 bytes (UTF-8) together, so that an encoder
    reads up to the question. One that is too long alone is left out with those before it.

    Examples
    --------
    >>> in_context("How much is it?", ["My door opener broke.", "Can it be fixed?"])
    'My door opener broke.\nCan it be fixed?\nHow much is it?'
    """
    kept: list[str] = []
    room = _ROOM
    for turn in reversed(turns):
        room -= len(turn.encode())
        if room < 0:
            break
        if turn.strip():
            kept.append(turn.strip())
    return "\n".join([*reversed(kept), question])


@dataclass(frozen=True)
class Spoken:
    """A question as it is searched, in the light of what was said before it.

    Attributes
    ----------
    question : str
    turns : sequence of str
        Before it, oldest first.
    label : str or None
        Of the reading of the question that was chosen, if one was.
    """

    question: str
    turns: Sequence[str] = ()
    label: str | None = None

    @property
    def context(self) -> str:
        """The question behind the turns before it."""
        return in_context(self.question, self.turns)

    @property
    def follows(self) -> bool:
        """Whether there are turns before the question that it is searched with."""
        return self.context != self.question

    @classmethod
    def of(cls, said: str, turns: Sequence[str] = ()) -> Spoken:
        """A question, or the one that is completed by a reply to a question back.

        A reply that is the label of a reading chooses it; one that has a label among other words
        is searched with the question, and not with the other labels.

        Examples
        --------
        >>> Spoken.of("rsync", ["How do I force it?", "Do you mean rsync or git add?"])
        Spoken(question='How do I force it?', turns=[], label='rsync')
        """
        meant = reading_meant(turns[-1], said) if len(turns) > 1 else None
        if meant is None:
            return cls(said, turns)
        asked = cls.of(turns[-2], turns[:-2])  # which may be a reply, too
        label, nothing_else = meant
        if nothing_else:
            return cls(asked.question, asked.turns, label)
        return cls(f"{asked.question}\n{said}", asked.turns)


def texts_of(spoken: Sequence[Spoken]) -> list[str]:
    """The texts that are encoded for a search: the questions, and behind them their contexts."""
    behind = [one.context for one in spoken if one.follows]
    return [*(one.question for one in spoken), *behind]


def part_rows(spoken: Sequence[Spoken], rows: Sequence[int]) -> list[int]:
    """The rows of some questions' Gaussians: theirs, and behind all those of their contexts."""
    follows = [one.follows for one in spoken]
    behind = len(spoken) + np.cumsum(follows) - 1
    return [*rows, *(int(behind[row]) for row in rows if follows[row])]


def with_turns(questions: Sequence[_Q], history: Sequence[_T]) -> list[tuple[_Q, _T]]:
    """Pair each question with the turns before it; ValueError unless there are as many of each."""
    if len(history) != len(questions):
        raise ValueError(
            f"history: expected the turns before each of {len(questions)} questions, got "
            f"{len(history)} lists; write [] for a question that begins a conversation."
        )
    return [*zip(questions, history, strict=True)]


def turns_of(messages: Iterable[tuple[str, str]]) -> list[str]:
    """The turns of a conversation that the next question is searched with, oldest first.

    The user's; and the last answer if it asked back: the reply to "Do you mean A or B?" says little
    without it. Other answers, system prompts and results of tools are left out.

    Parameters
    ----------
    messages : iterable of (str, str)
        Speaker ("user", "assistant" or any other) and text, oldest first.

    Examples
    --------
    >>> turns_of([("system", "Be brief."), ("user", "Who pays?"), ("assistant", "The tenant.")])
    ['Who pays?']
    """
    said = [(who, text) for who, text in messages if who in ("user", "assistant")]
    last = len(said) - 1
    return [
        text
        for place, (who, text) in enumerate(said)
        if who == "user" or (place == last and asks_back(text))
    ]


def prominence(logits: FloatArray) -> FloatArray:
    """How far the best passage stands out, shape (n,): ``log(1 + l_1 - mean(l_2, ..., l_10))``.

    The "gap" of `uec_rag.ensemble.evidence`, of the ensemble's logits.

    Parameters
    ----------
    logits : array, shape (n, m)
        Of the m >= 1 passages that are most similar to the last turn alone, in any order;
        ``sum_k pi_k a_k s_k``, intercepts make no difference. 0 where m is 1.

    Raises
    ------
    ValueError
        If there is no passage.
    """
    if logits.ndim != 2 or not logits.shape[1]:
        raise ValueError(
            f"logits: expected shape (n, m) with m >= 1 passages, got {logits.shape}; a question "
            "without passages has no evidence."
        )
    return gap(-np.sort(-logits, axis=1)).astype(np.float32)


@dataclass(frozen=True)
class ViewWeights(Record):
    """The weights of the turns before: a logistic function of what the last turn finds alone.

    Attributes
    ----------
    prominence : float
        Weight of `prominence`: of what finds its passage alone, the turns before say little.
    offset : float
    """

    prominence: float
    offset: float

    def shares(
        self, prominence: FloatArray, history: Sequence[bool] | NDArray[np.bool_]
    ) -> FloatArray:
        """Share of the view with the turns before, shape (n,); 0 for a question without any.

        Parameters
        ----------
        prominence : array, shape (n,)
        history : sequence of n bool
            Whether there are turns before.

        Raises
        ------
        ValueError
            If they differ in length.
        """
        if len(prominence) != len(history):
            raise ValueError(
                "prominence, history: expected one of each per question, got "
                f"{len(prominence)} and {len(history)}."
            )
        scores = np.float32(self.prominence) * prominence + np.float32(self.offset)
        shares: FloatArray = np.where(history, 1 / (1 + np.exp(-scores)), np.float32(0))
        return shares.astype(np.float32)


SHIPPED = ViewWeights(prominence=-1.46, offset=1.45)
"""Learned by `benchmarks/quality/view_weights.py`; see docs/measurements/conversation.md."""


def mix_views(alone: Gaussian, together: Gaussian, shares: FloatArray) -> Gaussian:
    """Gaussian convolution of an encoder's two views of n questions.

    ``N((1 - p) mu_0 + p mu_1, (1 - p)^2 Sigma_0 + p^2 Sigma_1)``, and of words the bag in which a
    term weighs ``(1 - p) w_0 + p w_1 |w_0| / |w_1|``, with |w| the sum of a bag's weights. A
    question of share 0 stays to the bit what it is alone.

    Parameters
    ----------
    alone, together : Gaussian
        An encoder's, of the last turns and of these in their context.
    shares : array, shape (n,)
        Of the second view, from 0 to 1.

    Raises
    ------
    ValueError
        If the views are not of n questions each, or not by one encoder.
    """
    if not len(alone) == len(together) == len(shares):
        raise ValueError(
            "alone, together, shares: expected as many questions in each, got "
            f"{[len(alone), len(together), len(shares)]}."
        )
    if alone.dimension != together.dimension or len(alone.terms) != len(together.terms):
        raise ValueError(
            "alone, together: expected Gaussians of one encoder, got dimensions "
            f"{[alone.dimension, together.dimension]}; mix each encoder's views on their own."
        )
    p = np.asarray(shares, dtype=np.float32)[:, None]
    mean = (1 - p) * alone.mean + p * together.mean
    terms = [
        _mix_terms(one, other, shares)
        for one, other in zip(alone.terms, together.terms, strict=True)
    ]
    if alone.profile is None or together.profile is None:
        variance = (1 - p) ** 2 * alone.variance + p**2 * together.variance
        return Gaussian(mean, variance, terms=terms)
    scales = (1 - p) ** 2 * alone.scales + p**2 * together.scales
    return Gaussian.factored(mean, scales, alone.profile, terms=terms)


def _mix_terms(alone: Terms, together: Terms, shares: FloatArray) -> Terms:
    """Bags of words as `mix_views` says, terms of weight 0 left out."""
    starts, keys, weights = [0], [], []
    for row, share in enumerate(np.asarray(shares, dtype=np.float32).tolist()):
        bags = [bag[row : row + 1] for bag in (alone, together)]
        distinct, place = np.unique(np.concatenate([bag.keys for bag in bags]), return_inverse=True)
        # Both bags weigh what the first does, so that a long context does not drown a short turn.
        own, others = (float(bag.weights.sum()) for bag in bags)
        counted = np.concatenate(
            [
                np.float32(1 - share) * bags[0].weights,
                np.float32(share * own / max(others, 1e-9)) * bags[1].weights,
            ]
        )
        total = np.bincount(place, weights=counted, minlength=len(distinct)).astype(np.float32)
        keys.append(distinct[total > 0])
        weights.append(total[total > 0])
        starts.append(starts[-1] + len(keys[-1]))
    labels = None
    if alone.labels is not None and together.labels is not None:
        labels = [
            {**of_context, **of_last}
            for of_last, of_context in zip(alone.labels, together.labels, strict=True)
        ]
    return replace(
        alone,
        starts=np.array(starts, dtype=np.int64),
        keys=np.concatenate([np.zeros(0, np.uint64), *keys]),
        weights=np.concatenate([np.zeros(0, np.float32), *weights]),
        labels=labels,
    )
