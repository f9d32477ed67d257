"""A question in its conversation: which of the earlier turns it is searched with, and how.

Every encoder encodes each turn by itself, so that turns it has cached need not be encoded again.
What is searched is a convex combination of the question and the turns before it, a Gaussian in each
encoder's space and a bag of words in BM25. The question weighs two thirds, less if it refers back
(`Turn.history_share`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian, Terms, together
from uec_rag.confidence.replies import (
    Within,
    extract_clarifying_question,
    is_clarifying_question,
    is_unclear,
    label_chosen,
    labels_offered,
    places_named,
)
from uec_rag.confidence.wording import is_question, is_small_talk, refers_back

_Q = TypeVar("_Q")
_T = TypeVar("_T")

# Total weight of the turns before a question, and the same if the question refers to them ("Where
# was it built?", "And the price?"). They were not learned; see benchmarks/results/conversation.md.
_SHARE, _SHARE_IF_REFERRED_TO = 1 / 3, 1 / 2
_DECAY = 0.7  # weight of a turn relative to the next: subjects change
_MOST_REPLIES = 8  # to one question; each is a search
_ROOM = 1500  # bytes that the turns before a question may take, as UTF-8

MOST_TURNS = 64
"""The number of turns before a question that are looked at: the latest."""


@dataclass(frozen=True)
class Turn:
    """A question of a conversation, with the turns before it.

    Attributes
    ----------
    question : str
    history : sequence of str
        The turns before the question, oldest first.
    replies : tuple of str
        The replies that choose among the readings of the question, one for each time that the user
        was asked back: a label, an ordinal or another form that `readings_named` recognises.
    """

    question: str
    history: Sequence[str] = ()
    replies: tuple[str, ...] = ()

    @cached_property
    def context_turns(self) -> list[str]:
        """The turns that the question is searched with: the latest, up to 1,500 bytes in UTF-8.

        A reply that chooses a reading is one turn with the question it was asked about. A turn that
        does not fit is left out together with all earlier ones. Blank turns, clarifying
        questions, small talk ("Thanks!") and the same question are left out, too; small talk is
        searched alone.
        """
        if is_small_talk(self.question):
            return []
        kept: list[str] = []
        room, question, before = _ROOM, self.question.strip().casefold(), self.history
        while before:
            turn = Turn.of(before[-1], before[:-1])
            if not turn.replies:
                turn = Turn(before[-1], before[:-1])
            before, said = turn.history, "\n".join([turn.question, *turn.replies])
            if is_clarifying_question(said) or is_small_talk(turn.question) or is_small_talk(said):
                continue
            room -= len(said.encode())
            if room < 0:
                break
            if said.strip().casefold() not in ("", question):
                kept.append(said.strip())
        return kept[::-1]

    @property
    def context(self) -> str:
        r"""The turns that the question is searched with, followed by the question, one per line.

        Examples
        --------
        >>> Turn("How much is it?", ["My door opener broke.", "Can it be fixed?"]).context
        'My door opener broke.\nCan it be fixed?\nHow much is it?'
        """
        return "\n".join([*self.context_turns, self.question])

    def with_latest(self, most: int | None) -> Turn:
        """Return the same turn with at most so many of its `context_turns`; None means all."""
        if most is None:
            return self
        return replace(self, history=self.context_turns[-most:] if most else [])

    @property
    def views(self) -> tuple[int | None, ...]:
        """The numbers of its turns that a question is searched with; () if it has none.

        None, those since the latest that does not refer back, and all.
        """
        turns = self.context_turns
        if not turns:
            return ()
        back = (count for count, turn in enumerate(reversed(turns), 1) if not refers_back(turn))
        since = next(back, len(turns))
        return (0, since, None) if since < len(turns) else (0, None)

    @property
    def history_share(self) -> float:
        """The total weight of the turns before the question, from 0 to 1."""
        if not self.context_turns:
            return 0
        return _SHARE_IF_REFERRED_TO if refers_back(self.question) else _SHARE

    @classmethod
    def of(cls, said: str, turns: Sequence[str] = (), within: Within | None = None) -> Turn:
        """Create a turn from what the user said, which may be the reply to a clarifying question.

        A reply that says which readings are meant (some, all or none) chooses among those of the
        question asked before. So does `within`, if it is the label of a chosen reading or another
        reply: among the readings of `said` or, if the turns have `said` and end with a clarifying
        question, among those that this one offers. After an unclear reply, such as a place that it
        does not have, that question is asked again. A reply that is neither a question nor small
        talk is searched together with that question.

        Examples
        --------
        >>> Turn.of("rsync", ["How do I force it?", "Do you mean rsync or git add?"])
        Turn(question='How do I force it?', history=[], replies=('rsync',))
        """
        if within is not None and not isinstance(within, str):
            return cls(said, turns)
        if within is not None:
            if not turns or not is_clarifying_question(turns[-1]) or said not in turns:
                turn = cls.of(said, turns)
                return replace(turn, replies=(*turn.replies, within))
            said = within  # the last of the turns asks which reading of the question is meant
        place, spoken, replies = len(turns), [*turns, said], list[str]()
        while place >= 2 and is_clarifying_question(spoken[place - 1]):
            asked, reply = spoken[place - 1], spoken[place]
            named = places_named(reply, labels_offered(asked)) is not None
            other = is_question(reply) or is_small_talk(reply)
            if not named and other and not is_unclear(reply):
                break
            replies.append(label_chosen(asked, reply) if named else reply)
            place -= 2  # to the question that was asked back about, which may be a reply, too
            if len(replies) == _MOST_REPLIES:
                break
        turn = cls(spoken[place], spoken[:place])
        for asked, reply in zip(spoken[place + 1 :: 2], reversed(replies), strict=True):
            if places_named(reply, labels_offered(asked)) is not None:
                turn = replace(turn, replies=(*turn.replies, reply))
            elif not is_unclear(reply):
                turn = cls(f"{turn.question}\n{reply}", turn.history)
        return turn


def texts_of(asked: Sequence[Turn]) -> list[str]:
    """List the texts to encode for a search: all questions, then the turns of each."""
    texts = [one.question for one in asked]
    for one in asked:
        texts += one.context_turns
    return texts


View: TypeAlias = tuple[int, int | None]
"""A question, by its number, and how many of its latest turns it is searched with; None means all.
"""


def part_rows(asked: Sequence[Turn], views: Sequence[View]) -> list[int]:
    """List the rows of `texts_of` that views need: the questions, then the turns of each."""
    ends = _ends_of_turns(asked)
    turns = list[int]()
    for row, most in views:
        start = ends[row] if most is None else max(ends[row], ends[row + 1] - most)
        turns += range(start, ends[row + 1])
    return [*(row for row, _ in views), *turns]


def _ends_of_turns(asked: Sequence[Turn]) -> list[int]:
    """Compute the n + 1 boundaries of the turns of n questions in `texts_of`."""
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
    """List the turns of a conversation that are relevant to the next question, oldest first.

    These are the user's turns and the answers that ask back, of this package ("Do you mean A or
    B?") or of a language model ("Which year?"), without which a reply says little. Other answers,
    system prompts and results of tools are left out.

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
        if who == "user":
            turns.append(text)
        elif who == "assistant" and (asked := extract_clarifying_question(text)) is not None:
            turns.append(asked)
    return turns


def in_context(asked: Sequence[Turn], said: Gaussian) -> Gaussian:
    """Combine each of n questions with the turns before it, for one encoder, by convolution.

    The Gaussian is ``N(sum_j c_j mu_j, sum_j c_j^2 Sigma_j)`` over a question (j = 0) and the turns
    before it (the j-th one back). The coefficient of the question is ``1 - s``, where s is its
    `Turn.history_share`; those of the turns are proportional to ``0.7^j`` and sum to s. For a turn
    that does not refer back, j only counts later turns that do not, either: follow-ups keep to
    their subject. In the bag
    of words, the weight of a term is ``sum_j c_j w_j |w_0| / |w_j|``, where |w| is the number of
    terms in a bag, so that a long turn does not outweigh a short question.

    Parameters
    ----------
    asked : sequence of n >= 1 Turn
    said : Gaussian
        An encoder's Gaussians of the texts that `texts_of` returns for `asked`.

    Raises
    ------
    ValueError
        If `said` has another number of texts.
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
        by_age = _DECAY ** _ages(asked[row].context_turns)
        shares[row, start:stop] = asked[row].history_share * by_age / max(by_age.sum(), 1)
    mean, scales = shares @ said.mean, shares**2 @ said.scales
    terms = [together([_mix_bags(block, of_one) for of_one in shares]) for block in said.terms]
    return Gaussian.factored(mean, scales, said.profile, terms=terms)


def _ages(turns: Sequence[str]) -> NDArray[np.intp]:
    """Return how many turns are later; for one that does not refer back, only of its kind."""
    whole = np.array([not refers_back(turn) for turn in turns], dtype=bool)
    later = np.cumsum(whole[::-1])[::-1] - whole
    return np.where(whole, later, np.arange(len(turns))[::-1])


def _mix_bags(terms: Terms, shares: FloatArray) -> Terms:
    """Combine the bags of words with a nonzero share, the first of which is the question's."""
    some = np.flatnonzero(shares)
    bags = terms[some]
    sizes = np.diff(bags.starts)
    # A question without words is given the size of the largest turn.
    size = np.float32(sizes[0] or sizes.max())
    factor = len(some) * shares[some] * size / np.maximum(sizes, 1)
    return bags.weighted(np.repeat(factor, sizes).astype(np.float32)).averaged
