"""Questions in their conversations, parsed and checked before they are encoded.

Of a message, the part that asks is the question, and the rest is a turn before it (`Query.parse`).
A question with turns before it may be searched in several views (`Query.views`). A reply to a
clarifying question is parsed together with the question that was asked back about (`Query.parse`).
Every encoder encodes each turn by itself; what is searched is a convex combination of the question
and the turns before it, a Gaussian in each encoder's space and a bag of words in BM25
(`in_context`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from uec_rag.base.checks import as_list, as_strings, check_k, check_share
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms, together
from uec_rag.base.properties import cached_property
from uec_rag.confidence import wording
from uec_rag.confidence.languages import ENGLISH, language_of
from uec_rag.confidence.replies import (
    Within,
    choose_label,
    chosen_ids,
    extract_clarifying_question,
    extract_labels,
    find_positions,
    is_clarifying_question,
)
from uec_rag.stores.base import Filter, check_stored_text

_MOST_REPLIES = 8  # to one question; each is a search
_ROOM = 1500  # bytes that the turns before a question may take, as UTF-8
_ROOM_OF_REST = 750  # bytes of what else is in a message, its last ones
# Total weight of the turns before a question, and the same if the question refers to them ("Where
# was it built?", "And the price?"). They were not learned; see benchmarks/results/conversation.md.
_SHARE_IF_REFERRED_TO = 1 / 2
_DECAY = 0.7  # weight of a turn relative to the next: subjects change

SHARE = 1 / 3
"""The total weight of the turns before a question that does not refer to them."""

LONGEST_QUERY = 8_000
"""The largest number of characters of a message that are read: half of them are its last ones."""

MOST_TURNS = 64
"""The number of turns before a question that are looked at: the latest."""


@dataclass(frozen=True)
class Diversity:
    """The options of a search for hits that differ from each other (maximal marginal relevance).

    Attributes
    ----------
    fetch_k : int
        Number of hits to choose from: those with the highest s_hat.
    lambda_mult : float
        From 1, relevance only, to 0, diversity only.
    """

    fetch_k: int = 50
    lambda_mult: float = 0.5

    def __post_init__(self) -> None:
        check_k(self.fetch_k, "fetch_k")
        check_share(self.lambda_mult, "lambda_mult", "a number from 0 to 1")


class Options(TypedDict, total=False):
    """The options of a search besides its queries and k; see `Retriever.search`."""

    filter: Filter | None
    history: Sequence[Sequence[str]] | None
    within: Within | None
    diversity: Diversity | None


@dataclass(frozen=True)
class Query:
    """A question of a conversation, from parsing to its result.

    Attributes
    ----------
    text : str
        The question; after a clarifying question, followed by a reply that names no reading.
    turns : sequence of str
        The turns before it that are searched with it, oldest first.
    replies : tuple
        The replies that choose among the readings of the question, one for each time that the user
        was asked back: a label, an ordinal or another form that `find_readings` recognises; or the
        ids of the chosen reading.
    history : sequence of str
        All turns before the question, oldest first.
    said : str
        What the user wrote: the question, or a reply, or the message that the question is part of.
    spelled : str
        The question as its words are written in the index; "" if that is the same.
    likely : float
        The probability that `spelled` is what is meant.
    is_part : bool
        True if the text is the part of a message that asks.
    asks : bool
        False for a message in which nothing asks, whose text is all of it, and for a courtesy.
    """

    text: str
    turns: Sequence[str] = ()
    replies: tuple[str | tuple[str, ...], ...] = ()
    history: Sequence[str] = ()
    said: str = ""
    spelled: str = ""
    likely: float = 1.0
    is_part: bool = False
    asks: bool = True

    @classmethod
    def parse(cls, said: str, history: Sequence[str] = (), within: Within | None = None) -> Query:
        """Parse what the user said, which may be the reply to a clarifying question.

        A reply that says which readings are meant (some, all or none) chooses among those of the
        question asked before. So does `within`, if it is the label of a chosen reading or another
        reply: among the readings of `said` or, if the turns have `said` and end with a clarifying
        question, among those that this one offers. Any other reply that is no question itself, such
        as "2024" to "Which year?", is more text of the question.

        Of a message of over 200 characters, the part that asks is the question, and the rest is the
        turn before it.

        Examples
        --------
        >>> query = Query.parse("rsync", ["How do I force it?", "Do you mean rsync or git add?"])
        >>> query.text, query.replies
        ('How do I force it?', ('rsync',))
        """
        if within is not None and not isinstance(within, str):
            text, before, ids = said, history, chosen_ids(within)
            replies: tuple[str | tuple[str, ...], ...] = (ids,)
        elif within is not None and said in history and is_clarifying_question(history[-1]):
            # The last of the turns asks which reading of the question is meant.
            text, before, replies = _parse_turns(within, history)
        else:
            text, before, replies = _parse_turns(said, history)
            replies = replies if within is None else (*replies, within)
        if text == said and not replies and wording.is_courtesy(text):
            return cls(text, searched_turns(text, before), replies, before, said, asks=False)
        # A reply that is more text of the question was asked for.
        asked, rest = wording.asking_part(text) if text in (said, *history) else (text, "")
        turns = searched_turns(asked or text, before)
        if not rest:
            return cls(text, turns, replies, before, said)
        if not asked:
            return cls(text, turns, replies, before, said, asks=False)
        rest = rest.encode()[-_ROOM_OF_REST:].decode(errors="ignore")
        return cls(asked, [*turns, rest], replies, [*before, rest], said, is_part=True)

    @property
    def lines(self) -> str:
        """The turns, followed by the question, one per line."""
        return "\n".join([*self.turns, self.text])

    @cached_property
    def language(self) -> str:
        """The code of the language to reply in: the question's, else its turns', else English."""
        return language_of(self.text) or language_of("\n".join(self.history)) or ENGLISH

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The two questions that it is; () if it is one."""
        return () if self.replies else wording.parts_of(self._meant) or self.possible_parts

    @cached_property
    def possible_parts(self) -> tuple[str, ...]:
        """The two questions that it may be; see `wording.possible_parts`."""
        return () if self.replies else wording.possible_parts(self._meant)

    @cached_property
    def before(self) -> str:
        """The latest turn that does not refer back; "" if there is none."""
        return next((turn for turn in self.turns[::-1] if not wording.refers_back(turn)), "")

    @cached_property
    def switched(self) -> tuple[str, ...]:
        """The questions before, about what a follow-up goes on to; see `wording.switched`."""
        return wording.switched(self.text, self.before) if self.before else ()

    @property
    def _meant(self) -> str:
        return self.spelled or self.text

    @cached_property
    def views(self) -> dict[int | None, Query]:
        r"""The views in which it is searched, by the number of their turns; None has all.

        There is none of a blank text; -1 has the spelling of the index, and -2 and -3 the parts
        that are questions of their own. If there are turns, the others are 0, and from -4 on what
        is `switched`.

        Examples
        --------
        >>> query = Query.parse("How much is it?", ["My door opener broke.", "Can it be fixed?"])
        >>> [view.lines for view in query.views.values()]
        ['How much is it?', 'My door opener broke.\nCan it be fixed?\nHow much is it?']
        """
        turns = self.turns
        if not self.text.strip():
            return {}
        views: dict[int | None, Query] = {}
        if self.spelled:
            views[-1] = replace(self, text=self.spelled, spelled="")
        for place, part in enumerate(self.parts, 2):
            views[-place] = replace(self, text=part, turns=(), spelled="")
        if not turns:
            return views | {None: self}
        # A complete question is searched without a conjunction before it.
        alone = replace(self, text=wording.complete_question(self.text) or self.text, turns=())
        views[0] = alone
        for place, text in enumerate(self.switched, 4):
            views[-place] = replace(self, text=text, turns=())
        return views | {None: self}


def _parse_turns(said: str, history: Sequence[str]) -> tuple[str, Sequence[str], tuple[str, ...]]:
    """Return the question that was asked, the turns before it, and the replies to it."""
    position, spoken = len(history), [*history, said]

    def names_reading(place: int) -> bool:
        return find_positions(spoken[place], extract_labels(spoken[place - 1])) is not None

    while position >= 2 and len(history) - position < 2 * _MOST_REPLIES:
        is_reply = is_clarifying_question(spoken[position - 1])
        if not is_reply or (wording.is_question(spoken[position]) and not names_reading(position)):
            break
        position -= 2  # to the question that was asked back about, which may be a reply itself
    text, replies = spoken[position], tuple[str, ...]()
    for place in range(position + 2, len(spoken), 2):
        if names_reading(place):
            replies = (*replies, choose_label(spoken[place - 1], spoken[place]))
        else:
            text, replies = f"{text}\n{spoken[place]}", ()
    return text, spoken[:position], replies


def searched_turns(question: str, history: Sequence[str]) -> list[str]:
    """List the turns that a question is searched with: the latest, up to 1,500 bytes in UTF-8.

    A reply that chooses a reading is one turn with the question it was asked about; of a message,
    it is the part that asks. A turn that does not fit is left out together with all earlier ones.
    Blank turns, clarifying questions and the same question are also left out.
    """
    kept: list[str] = []
    room, same, before = _ROOM, question.strip().casefold(), history
    while before:
        turn, earlier, replies = _parse_turns(before[-1], before[:-1])
        if not replies:
            turn, earlier = before[-1], before[:-1]
        turn = wording.asking_part(turn[-LONGEST_QUERY:])[0] or turn
        before, said = earlier, "\n".join([turn, *replies])
        if is_clarifying_question(said) or wording.is_courtesy(said):
            continue
        room -= len(said.encode())
        if room < 0:
            break
        if said.strip().casefold() not in ("", same):
            kept.append(said.strip())
    return kept[::-1]


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


def parse_queries(
    queries: Sequence[str],
    history: Sequence[Sequence[str]] | None = None,
    within: Within | None = None,
) -> list[Query]:
    """Check questions, and parse each with its turns; see `Retriever.search`.

    Of a message of over 8,000 characters, the first and the last half as many are read. Half of a
    surrogate pair, as is left of an emoji that was cut in two, is a question mark.
    """
    given = as_strings(queries, "queries")
    said = [_shortened(text).encode(errors="replace").decode() for text in given]
    before = [()] * len(said) if history is None else _check_history(history, len(said))
    return [Query.parse(*pair, within) for pair in zip(said, before, strict=True)]


def _shortened(message: str) -> str:
    if len(message) <= LONGEST_QUERY:
        return message
    half = LONGEST_QUERY // 2
    return f"{message[: half - 1]}\n{message[-half:]}"


def _check_history(history: Sequence[Sequence[str]], count: int) -> list[list[str]]:
    """Return the latest turns before each question.

    TypeError if they are not lists of strings, ValueError if there are not `count` of them.
    """
    latest = list[list[str]]()
    for row, turns in enumerate(as_list(history, "history")):
        some = turns[-MOST_TURNS:] if isinstance(turns, Sequence) else turns
        latest.append(as_strings(some, f"history[{row}]"))
        for turn in latest[row]:
            check_stored_text(turn, f"history[{row}]")
    if len(latest) != count:
        raise ValueError(
            f"history: expected the turns before each of {count} questions, got {len(latest)} "
            "lists; write [] for a question that begins a conversation."
        )
    return latest


def in_context(
    queries: Sequence[Query], rows: Mapping[str, int], parts: Sequence[Gaussian]
) -> list[Gaussian]:
    """Combine each of n questions with the turns before it, for each encoder, by convolution.

    The Gaussian is ``N(sum_j c_j mu_j, sum_j c_j^2 Sigma_j)`` over a question (j = 0) and the turns
    before it (the j-th one back). The coefficient of the question is 2/3, or 1/2 if it refers back;
    those of the turns are proportional to ``0.7^j`` and sum to the rest. In the bag of words, the
    weight of a term is ``sum_j c_j w_j |w_0| / |w_j|``, where |w| is the number of terms in a bag,
    so that a long turn does not outweigh a short question.

    Parameters
    ----------
    queries : sequence of n Query
    rows : mapping of str to int
        The row of each text, of questions and of their turns, in `parts`.
    parts : sequence of K Gaussian
        Each encoder's Gaussians of the texts.
    """
    firsts = [rows[query.text] for query in queries]
    if not any(query.turns for query in queries):
        same = firsts == [*range(len(parts[0]))]
        return [part if same else part[firsts] for part in parts]
    shares = np.zeros((len(queries), len(parts[0])), dtype=np.float32)
    for of_query, first, query in zip(shares, firsts, queries, strict=True):
        share = 0.0
        if query.turns:
            share = _SHARE_IF_REFERRED_TO if wording.refers_back(query.text) else SHARE
            by_age = _DECAY ** np.arange(len(query.turns))[::-1]
            np.add.at(of_query, [rows[turn] for turn in query.turns], share * by_age / by_age.sum())
        of_query[first] += 1 - share
    mixed = []
    for part in parts:
        mean, scales = shares @ part.mean, shares**2 @ part.scales
        terms = [
            together([_mix_bags(block, *each) for each in zip(firsts, shares, strict=True)])
            for block in part.terms
        ]
        mixed.append(Gaussian.from_factors(mean, scales, part.profile, terms=terms))
    return mixed


def _mix_bags(terms: Terms, first: int, shares: FloatArray) -> Terms:
    """Combine the bags of words with a nonzero share; `first` is the question's."""
    others = np.flatnonzero(shares)
    some = np.array([first, *others[others != first]])
    bags = terms[some]
    sizes = np.diff(bags.starts)
    # A question without words is given the size of the largest turn.
    size = np.float32(sizes[0] or sizes.max())
    factor = len(some) * shares[some] * size / np.maximum(sizes, 1)
    return bags.weigh_terms(np.repeat(factor, sizes).astype(np.float32)).average
