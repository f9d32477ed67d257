"""A question in its conversation: which of the earlier turns it is searched with, and how.

A question with turns before it is searched alone, with those on the latest subject and with all
(`search`), each as a query of `uec_rag.retrieval.pipeline`. The one in which it is best understood
is kept (`clearest_view`), with what is known of the question alone (`with_alone`).

Every encoder encodes each turn by itself, so that turns it has cached need not be encoded again.
What is searched is a convex combination of the question and the turns before it, a Gaussian in each
encoder's space and a bag of words in BM25. The question weighs two thirds, less if it refers back
(`in_context`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian, Terms, together
from uec_rag.base.properties import cached_property
from uec_rag.confidence.readings import ASK
from uec_rag.confidence.replies import (
    Within,
    extract_clarifying_question,
    is_clarifying_question,
    is_unclear,
    label_chosen,
    labels_offered,
    places_named,
)
from uec_rag.confidence.wording import complete_question, is_question, is_small_talk, refers_back
from uec_rag.retrieval.pipeline import Estimate, Method, Query, conclude, judge
from uec_rag.retrieval.result import Result
from uec_rag.stores.base import Store

_Q = TypeVar("_Q")
_T = TypeVar("_T")

# Total weight of the turns before a question, and the same if the question refers to them ("Where
# was it built?", "And the price?"). They were not learned; see benchmarks/results/conversation.md.
_SHARE, _SHARE_IF_REFERRED_TO = 1 / 3, 1 / 2
_DECAY = 0.7  # weight of a turn relative to the next: subjects change
_MOST_REPLIES = 8  # to one question; each is a search
_ROOM = 1500  # bytes that the turns before a question may take, as UTF-8
# Confidence above which a question is searched without its turns, and without earlier subjects.
_NEEDS_NO_TURNS, _NEEDS_LATEST = 0.85, 0.5

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

    def query(self, most: int | None = None) -> Query:
        r"""Return the question to search for, with at most so many of its `context_turns`.

        None means all. Without any, a complete question is searched without a conjunction.

        Examples
        --------
        >>> turn = Turn("How much is it?", ["My door opener broke.", "Can it be fixed?"])
        >>> turn.query(most=1)
        Query(text='How much is it?', turns=['Can it be fixed?'])
        """
        if most == 0:
            return Query(complete_question(self.question) or self.question)
        turns = self.context_turns
        return Query(self.question, turns if most is None else turns[len(turns) - most :])

    @property
    def views(self) -> tuple[int | None, ...]:
        """The numbers of its turns that a question is searched with; None means all.

        They are 0, the number of those since the latest that does not refer back, and None.
        """
        turns = self.context_turns
        if not turns:
            return (None,)
        back = (count for count, turn in enumerate(reversed(turns), 1) if not refers_back(turn))
        since = next(back, len(turns))
        return (0, since, None) if since < len(turns) else (0, None)

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
    """List the different texts to encode for a search: the questions and their turns."""
    turns = (turn for one in asked for turn in one.context_turns)
    alone = (one.query(0).text for one in asked if one.context_turns)
    return [*dict.fromkeys([*(one.question for one in asked), *turns, *alone])]


class EncodedTexts:
    """The Gaussians of texts by each encoder.

    Parameters
    ----------
    texts : sequence of str
    parts : sequence of K Gaussian
        Each encoder's Gaussians of the texts, as `UEC.encode` returns them.

    Raises
    ------
    ValueError
        If there are more or fewer Gaussians than texts.
    """

    def __init__(self, texts: Sequence[str], parts: Sequence[Gaussian]) -> None:
        for part in parts:
            if len(part) != len(texts):
                raise ValueError(
                    f"parts: expected Gaussians of {len(texts)} texts, got {len(part)}."
                )
        self.texts, self.parts = texts, parts
        self._rows = {text: row for row, text in enumerate(texts)}

    def rows(self, texts: Iterable[str]) -> list[int]:
        """Return the rows of some of the texts; ValueError if one was not encoded."""
        try:
            return [self._rows[text] for text in texts]
        except KeyError as error:
            raise ValueError(f"parts: there is no Gaussian of {error}; encode it, too.") from None


def search(
    method: Method, store: Store, asked: Sequence[Turn], encoded: EncodedTexts, k: int
) -> list[Result]:
    """Search a store, or a filtered view of it, for questions in their conversations.

    Parameters
    ----------
    asked : sequence of n Turn
    encoded : EncodedTexts
        The texts of `texts_of(asked)`.
    k : int
        Number of hits of each question.
    """
    size, results = len(store), list[Result]()
    views = [(row, most) for row, turn in enumerate(asked) for most in turn.views]
    queries = [asked[row].query(most) for row, most in views]
    judged = judge(method, store, queries, in_context(queries, encoded), k)
    for row, group in groupby(zip(views, judged, strict=True), key=lambda pair: pair[0][0]):
        of_views = {most: one for (_, most), one in group}
        chosen = of_views[None]
        if len(of_views) > 1:
            question = asked[row].question
            estimates = {most: one.estimate for most, one in of_views.items()}
            most = clearest_view(question, estimates)
            chosen = of_views[most]
            if most != 0:
                known = with_alone(chosen.estimate, estimates[0], question)
                chosen = replace(chosen, estimate=known)
        results.append(conclude(chosen, k, size))
        del of_views, chosen  # and their similarities, before the next are computed
    return results


def clearest_view(question: str, views: Mapping[int | None, Estimate]) -> int | None:
    """Choose with how many of its turns a question is best understood; None means all.

    Alone, it must be complete, and be answered confidently.

    Parameters
    ----------
    question : str
    views : mapping of int or None to Estimate
        The estimate for each of `Turn.views`.
    """
    alone, everything = views[0], views[None]
    clear = alone.confidence > _NEEDS_NO_TURNS and alone.underspecified < ASK
    if clear and complete_question(question):
        return 0
    for most in views.keys() - {0, None}:
        latest = views[most]
        if latest.confidence > _NEEDS_LATEST and latest.clarity > everything.clarity:
            return most
    return None


def with_alone(in_turn: Estimate, alone: Estimate, question: str) -> Estimate:
    """Combine the estimates for a question with its turns and alone.

    A question that refers back to its turns ("Do they expire?") says nothing alone. Of another, the
    probabilities are mixed, and P(underspecified) is that of the question alone, but at least that
    with the turns; it is reduced by a confidence above one half if the turns raise it.
    """
    if in_turn.probabilities is None or alone.probabilities is None or refers_back(question):
        return in_turn
    mixed = in_turn.probabilities.mixed(alone.probabilities.in_corpus, 1 - _SHARE)
    unresolved = alone.underspecified
    # Turns that say what is meant raise the confidence, and those on another subject do not.
    if in_turn.confidence > alone.confidence:
        unresolved *= min(1, 2 * (1 - in_turn.confidence))
    known = in_turn if unresolved <= in_turn.underspecified else alone
    unresolved = max(unresolved, in_turn.underspecified)
    return replace(known, probabilities=mixed, underspecified=unresolved)


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


def in_context(queries: Sequence[Query], encoded: EncodedTexts) -> list[Gaussian]:
    """Combine each of n questions with the turns before it, for each encoder, by convolution.

    The Gaussian is ``N(sum_j c_j mu_j, sum_j c_j^2 Sigma_j)`` over a question (j = 0) and the turns
    before it (the j-th one back). The coefficient of the question is 2/3, or 1/2 if it refers back;
    those of the turns are proportional to ``0.7^j`` and sum to the rest. For a turn that does not
    refer back, j only counts later turns that do not, either: follow-ups keep to their subject. In
    the bag of words, the weight of a term is ``sum_j c_j w_j |w_0| / |w_j|``, where |w| is the
    number of terms in a bag, so that a long turn does not outweigh a short question.

    Raises
    ------
    ValueError
        If a question or a turn was not encoded.
    """
    firsts = encoded.rows(query.text for query in queries)
    if not any(query.turns for query in queries):
        same = firsts == [*range(len(encoded.texts))]
        return [part if same else part[firsts] for part in encoded.parts]
    shares = np.zeros((len(queries), len(encoded.texts)), dtype=np.float32)
    for of_query, first, query in zip(shares, firsts, queries, strict=True):
        share = 0.0
        if query.turns:
            share = _SHARE_IF_REFERRED_TO if refers_back(query.text) else _SHARE
            by_age = _DECAY ** _ages(query.turns)
            np.add.at(of_query, encoded.rows(query.turns), share * by_age / by_age.sum())
        of_query[first] += 1 - share
    mixed = []
    for part in encoded.parts:
        mean, scales = shares @ part.mean, shares**2 @ part.scales
        terms = [
            together([_mix_bags(block, *each) for each in zip(firsts, shares, strict=True)])
            for block in part.terms
        ]
        mixed.append(Gaussian.factored(mean, scales, part.profile, terms=terms))
    return mixed


def _ages(turns: Sequence[str]) -> NDArray[np.intp]:
    """Return how many turns are later; for one that does not refer back, only of its kind."""
    whole = np.array([not refers_back(turn) for turn in turns], dtype=bool)
    later = np.cumsum(whole[::-1])[::-1] - whole
    return np.where(whole, later, np.arange(len(turns))[::-1])


def _mix_bags(terms: Terms, first: int, shares: FloatArray) -> Terms:
    """Combine the bags of words with a nonzero share; `first` is the question's."""
    others = np.flatnonzero(shares)
    some = np.array([first, *others[others != first]])
    bags = terms[some]
    sizes = np.diff(bags.starts)
    # A question without words is given the size of the largest turn.
    size = np.float32(sizes[0] or sizes.max())
    factor = len(some) * shares[some] * size / np.maximum(sizes, 1)
    return bags.weighted(np.repeat(factor, sizes).astype(np.float32)).averaged
