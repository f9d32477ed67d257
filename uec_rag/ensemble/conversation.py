"""A question in its conversation: which of the earlier turns it is searched with, and how.

Every encoder encodes each turn by itself, so that turns it has cached need not be encoded again.
What is searched is a convex combination of the question and the turns before it, in which the
question weighs the most: a Gaussian in each encoder's space, a bag of words in BM25.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian, Terms, together
from uec_rag.confidence.replies import Within, asked_back, asks_back, names_reading
from uec_rag.confidence.wording import is_question, refers_back

_Q = TypeVar("_Q")
_T = TypeVar("_T")

# The weight of all turns before a question together; and if the question refers to something in
# them ("How long does it take?"). Not learned, see docs/measurements/conversation.md.
_SHARE, _SHARE_IF_REFERRED_TO = 1 / 3, 1 / 2
_ROOM = 1500  # bytes that the turns before a question may take, as UTF-8


@dataclass(frozen=True)
class Turn:
    """A question of a conversation, with the turns before it.

    Attributes
    ----------
    question : str
    history : sequence of str
        The turns before the question, oldest first.
    replies : tuple of str
        The replies that choose among the readings of the question, one for each time that the
        user was asked back: a label, a place or whatever else `readings_named` knows.
    """

    question: str
    history: Sequence[str] = ()
    replies: tuple[str, ...] = ()

    @cached_property
    def context_turns(self) -> list[str]:
        """The turns that the question is searched with: the latest, up to 1,500 bytes in UTF-8.

        A turn that does not fit is left out with all before it. Blank turns and questions back are
        left out.
        """
        kept: list[str] = []
        room = _ROOM
        for turn in reversed(self.history):
            if asks_back(turn):
                continue
            room -= len(turn.encode())
            if room < 0:
                break
            if turn.strip():
                kept.append(turn.strip())
        return kept[::-1]

    @property
    def context(self) -> str:
        r"""The question behind the turns that it is searched with, one on each line.

        Examples
        --------
        >>> Turn("How much is it?", ["My door opener broke.", "Can it be fixed?"]).context
        'My door opener broke.\nCan it be fixed?\nHow much is it?'
        """
        return "\n".join([*self.context_turns, self.question])

    @property
    def has_context(self) -> bool:
        """True if the question is searched with turns before it."""
        return bool(self.context_turns)

    @property
    def history_share(self) -> float:
        """The weight of the turns before the question together, from 0 to 1."""
        if not self.has_context:
            return 0
        return _SHARE_IF_REFERRED_TO if refers_back(self.question) else _SHARE

    @classmethod
    def of(cls, said: str, turns: Sequence[str] = (), within: Within | None = None) -> Turn:
        """Make a turn of what the user said, which may be a reply to a question back.

        A reply that says which readings are meant (some, all or none) chooses among those of the
        question that was asked back about. A reply that has a label among other words, or is no
        question itself, is searched together with that question. If `within`, the chosen reading,
        is given, nothing is taken for a reply.

        Examples
        --------
        >>> Turn.of("rsync", ["How do I force it?", "Do you mean rsync or git add?"])
        Turn(question='How do I force it?', history=[], replies=('rsync',))
        """
        if within is not None:
            return cls(said, turns, (within,) if isinstance(within, str) else ())
        if len(turns) < 2 or not asks_back(turns[-1]):
            return cls(said, turns)
        named = names_reading(turns[-1], said)
        if named is None and is_question(said):
            return cls(said, turns)
        asked = cls.of(turns[-2], turns[:-2])  # which may be a reply, too
        if named:
            return cls(asked.question, asked.history, (*asked.replies, said))
        return cls(f"{asked.question}\n{said}", asked.history)


def texts_of(asked: Sequence[Turn]) -> list[str]:
    """List the texts to encode for a search: the questions, and behind them the turns of each."""
    turns = (turn for one in asked for turn in one.context_turns)
    return [*(one.question for one in asked), *turns]


def part_rows(asked: Sequence[Turn], rows: Sequence[int]) -> list[int]:
    """List the rows of `texts_of` that some questions need: theirs, then those of their turns."""
    ends = _ends_of_turns(asked)
    return [*rows, *(place for row in rows for place in range(ends[row], ends[row + 1]))]


def _ends_of_turns(asked: Sequence[Turn]) -> list[int]:
    """Find where the turns of each of n questions begin and end in `texts_of`: n + 1 places."""
    return [*accumulate((len(one.context_turns) for one in asked), initial=len(asked))]


def with_turns(questions: Sequence[_Q], history: Sequence[_T]) -> list[tuple[_Q, _T]]:
    """Pair each question with the turns before it; ValueError unless there are as many of each."""
    if len(history) != len(questions):
        raise ValueError(
            f"history: expected the turns before each of {len(questions)} questions, got "
            f"{len(history)} lists; write [] for a question that begins a conversation."
        )
    return [*zip(questions, history, strict=True)]


def turns_of(messages: Iterable[tuple[str, str]]) -> list[str]:
    """List the turns of a conversation that matter to the next question, oldest first.

    These are the user's, and the answers that asked back, ours ("Do you mean A or B?") and others
    ("Which year?"), since the reply says little without them. Other answers, system prompts and
    results of tools are left out.

    Parameters
    ----------
    messages : iterable of (str, str)
        Speaker ("user", "assistant" or any other) and text, oldest first.

    Examples
    --------
    >>> turns_of([("system", "Be brief."), ("user", "Who pays?"), ("assistant", "The tenant.")])
    ['Who pays?']
    """
    turns = []
    for who, text in messages:
        said = text if who == "user" else asked_back(text) if who == "assistant" else None
        if said is not None:
            turns.append(said)
    return turns


def in_context(asked: Sequence[Turn], said: Gaussian) -> Gaussian:
    """Mix each of n questions with the turns before it: their Gaussian convolution, in one encoder.

    ``N(sum_j c_j mu_j, sum_j c_j^2 Sigma_j)`` over a question and the m turns before it, with
    ``c_j = s / m`` of each turn and ``1 - s`` of the question, s its `Turn.history_share`; and of
    words the bag in which a term weighs ``sum_j c_j w_j |w_0| / |w_j|``, with |w| the sum of a
    bag's weights, so that a long turn does not drown a short question.

    Parameters
    ----------
    asked : sequence of n >= 1 Turn
    said : Gaussian
        An encoder's of `texts_of` these.

    Raises
    ------
    ValueError
        If there are not as many texts.
    """
    ends = _ends_of_turns(asked)
    if len(said) != ends[-1]:
        raise ValueError(
            f"said: expected {len(asked)} questions and the {ends[-1] - len(asked)} turns before "
            f"them, got {len(said)} texts."
        )
    shares = np.zeros((len(asked), len(said)), dtype=np.float32)
    for row, (start, stop) in enumerate(pairwise(ends)):
        shares[row, row] = 1 - asked[row].history_share
        shares[row, start:stop] = asked[row].history_share / max(stop - start, 1)
    mean, scales = shares @ said.mean, shares**2 @ said.scales
    terms = [together([_mix_bags(block, of_one) for of_one in shares]) for block in said.terms]
    if said.profile is None:
        return Gaussian(mean, scales, terms=terms)
    return Gaussian.factored(mean, scales, said.profile, terms=terms)


def _mix_bags(terms: Terms, shares: FloatArray) -> Terms:
    """One bag of words of those with a share, of which the first is the question's."""
    some = np.flatnonzero(shares)
    bags = terms[some]
    # A question without a word weighs as much as what was said before it.
    size = bags.lengths[0] or bags.lengths.max()
    factor = len(some) * shares[some] * size / np.maximum(bags.lengths, np.float32(1e-9))
    return bags.weighted(np.repeat(factor, np.diff(bags.starts))).averaged
