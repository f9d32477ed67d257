"""Questions in their conversations, parsed and checked before they are encoded.

Of a message, the part that asks is the question, and the rest is a turn before it (`Query.parse`).
A reply to a clarifying question is parsed together with the question that was asked back about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast, get_args

from uec_rag.base.checks import as_list, as_strings, check_stored_text
from uec_rag.base.records import cached_property
from uec_rag.base.text import SENTENCE_END
from uec_rag.questions import answers, grammar, user_messages
from uec_rag.questions.answers import Speaker, Turn, TurnLike
from uec_rag.questions.languages import ENGLISH, is_courtesy, language_of
from uec_rag.questions.replies import (
    Within,
    chosen_ids,
    extract_clarifying_question,
    extract_labels,
    find_positions,
    gives_up,
    is_clarifying_question,
    names_some,
)

_MOST_REPLIES = 8  # to one question; each is a search
_MOST_MISSED = 2  # replies in turn that choose nothing, behind which nothing is asked back
# Bytes that the turns before a question may take, as UTF-8; half of it, what else its message says.
_ROOM = 1500
LONGEST_QUERY = 8_000
"""The largest number of characters of a message that are read: half of them are its last ones."""

MOST_TURNS = 64
"""The number of turns before a question that are looked at: the latest."""


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
    is_other : bool
        True if the text is another than what was said: what the assistant offered, or the question
        whose answer was asked about.
    is_unsettled : bool
        True if the last two replies to clarifying questions chose nothing, or one does not know
        what to add.
    asks : bool
        False for a message in which nothing asks, whose text is all of it, and for a courtesy.
    answer : str
        The answer to the last turn before it; "" if it is not known.
    """

    text: str
    turns: Sequence[str] = ()
    replies: tuple[str | tuple[str, ...], ...] = ()
    history: Sequence[str] = ()
    said: str = ""
    spelled: str = ""
    likely: float = 1.0
    is_part: bool = False
    is_other: bool = False
    is_unsettled: bool = False
    asks: bool = True
    answer: str = ""

    @classmethod
    def parse(
        cls, turn: str, history: Sequence[str | Turn] = (), within: Within | None = None
    ) -> Query:
        """Parse what the user said, which may be the reply to a clarifying question.

        A reply that says which readings are meant (some, all or none) chooses among those of the
        question asked before. So does `within`, if it is the label of a chosen reading or another
        reply: among the readings of `turn` or, if the turns end with a clarifying question and have
        `turn`, or this chooses nothing, among those that this question offers. A reply that has no
        word of these is asked again, once. Another that is no question itself, such as "2024" to
        "Which year?", or "the work of rsync", is more text of the question.

        Of a message of over 200 characters, the part that asks is the question, and the rest is the
        turn before it.

        A reply that takes up what the assistant offered or listed is that as a question, and what
        asks about the last answer ("Source?") is the question before it.

        Examples
        --------
        >>> query = Query.parse("rsync", ["How do I force it?", "Do you mean rsync or git add?"])
        >>> query.text, query.replies
        ('How do I force it?', ('rsync',))
        """
        written, answer = turn, _answer(history[-1]) if history else ""
        is_wrapped, unwrapped = user_messages.WRAPPING.search, user_messages.unwrapped
        turn = unwrapped(turn) if is_wrapped(turn) else turn
        history = [
            unwrapped(said) if isinstance(said, str) and is_wrapped(said) else said
            for said in history
            if not _answer(said)
        ]
        past, replies = _exchanges(history), tuple[str | tuple[str, ...], ...]()
        before, entry = past, _Exchange(turn, len(history))
        if within is None or isinstance(within, str):
            *before, entry = _with_turn(past, history, turn)
            if (
                within is not None
                and history
                and _asked_back(history)
                and (turn in history or entry.missed or gives_up(turn))
            ):
                *before, entry = _with_turn(past, history, within)
                within = None
            replies = entry.replies
        if within is not None:
            replies = (*replies, within if isinstance(within, str) else chosen_ids(within))
        is_thanks = entry.text == turn and not replies and is_courtesy(turn)
        # A reply that is more text of the question was asked for.
        is_message = entry.text in (turn, *history) and not is_thanks
        question, remainder = (
            user_messages.asking_part(entry.text) if is_message else (entry.text, "")
        )
        before = [exchange for exchange in before if exchange.begin < entry.begin]
        query = cls(
            question or entry.text,
            _searched_turns(question or entry.text, before),
            replies,
            [said if isinstance(said, str) else said.text for said in history[: entry.begin]],
            written,
            is_other=entry.is_other,
            is_unsettled=entry.missed >= _MOST_MISSED,
            asks=not is_thanks and bool(question or not remainder),
            answer=answer,
        )
        if not (question and remainder):
            return query
        remainder = remainder.encode()[-_ROOM // 2 :].decode(errors="ignore")
        turns, lines = [*query.turns, remainder], [*query.history, remainder]
        return replace(query, turns=turns, history=lines, is_part=True)

    @property
    def lines(self) -> str:
        """The turns, followed by the question, one per line."""
        return "\n".join([*self.turns, self.text])

    @cached_property
    def language(self) -> str:
        """The code of the language to reply in: the question's, else its turns', else English."""
        return language_of(self.text) or language_of("\n".join(self.history)) or ENGLISH


@dataclass(frozen=True)
class _Exchange:
    """A question of a conversation, and what the turns behind it make of it.

    Attributes
    ----------
    text : str
        The question, with the replies that say more of it.
    begin : int
        The number of turns before it.
    replies : tuple of str
        The latest replies that choose among its readings, and the last one.
    missed : int
        How many of the last replies in turn choose nothing.
    is_other : bool
        True if it is what an answer offers, or the last turn asks about its answer.
    """

    text: str
    begin: int
    replies: tuple[str, ...] = ()
    missed: int = 0
    is_other: bool = False

    @property
    def lines(self) -> str:
        """The question, followed by the replies, one per line; of a message, what asks."""
        text = user_messages.asking_part(self.text[-LONGEST_QUERY:])[0] or self.text
        return "\n".join([text, *self.replies]).strip()


_LOST = _Exchange("", 0)  # an answer that was asked for, and is not known


def _answer(turn: str | Turn) -> str:
    """Return what a turn states, if it is an answer that offers nothing; else ""."""
    if isinstance(turn, str) or answers.offers(turn.text):
        return ""
    return answers.stated_in(turn.text)


def _asked_back(turns: Sequence[str | Turn]) -> str:
    """Return the clarifying question that turns end with; "" if they do not."""
    turn = turns[-1]
    return turn if isinstance(turn, str) and is_clarifying_question(turn) else ""


def _exchanges(turns: Sequence[str | Turn]) -> list[_Exchange]:
    """Read the turns of a conversation in their order: its questions, and what belongs to them."""
    past = list[_Exchange]()
    for begin, turn in enumerate(turns):
        if isinstance(turn, str) and turn.strip() and not is_clarifying_question(turn):
            now = _with_turn(past, turns[:begin], turn)
            past = past if is_courtesy(now[-1].text) else now
    return past


def _with_turn(
    past: Sequence[_Exchange], turns: Sequence[str | Turn], turn: str
) -> list[_Exchange]:
    """Return the exchanges of some turns with one more, which may belong to the last of them."""
    if turns and (question := _asked_back(turns)):
        if past and (now := _with_reply(past[-1], question, turn)):
            return [*past[:-1], now]
    elif turns and (offer := _take_up(turn, turns[-1])):
        begin = len(turns) - 1  # of the answer, which is no question
        return [*(e for e in past if e.begin < begin), _Exchange(offer, begin, is_other=True)]
    elif past and (place := answers.place_of_answer(turn)) is not None:
        # One of which nothing is known is as blank as a question.
        entries = past[place : place + 1 or None] if -len(past) <= place else []
        return [*past, *(replace(entry, is_other=True) for entry in entries or [_LOST])]
    elif past and answers.asks_about_answer(turn, language_of(past[-1].text)):
        return [*past[:-1], replace(past[-1], is_other=True)]
    return [*past, _Exchange(turn, len(turns))]


def _with_reply(entry: _Exchange, question: str, reply: str) -> _Exchange | None:
    """Return an exchange with a reply to a clarifying question; None if a turn is none."""
    labels = extract_labels(question)
    before = (entry.replies[:-1] if entry.missed else entry.replies)[1 - _MOST_REPLIES :]
    if (places := find_positions(reply, labels)) is not None:
        choice = labels[places[0]] if labels and len(places) == 1 else reply
        missed = 0 if labels else _MOST_MISSED  # who does not know what to add
        return replace(entry, replies=(*before, choice), missed=missed)
    if gives_up(reply) or grammar.is_question(reply):
        return None
    if not labels or names_some(reply, labels):
        return replace(entry, text=f"{entry.text}\n{reply}", replies=(), missed=0)
    return replace(entry, replies=(*before, reply), missed=entry.missed + 1)  # that is asked again


def _take_up(turn: str, before: str | Turn) -> str:
    """Return what a turn takes up of what an answer offers; "" if nothing."""
    answer = before if isinstance(before, str) else before.text
    # A plain string may be a user's, who ends no sentence before an offer.
    is_answer = isinstance(before, Turn) or SENTENCE_END.search(answer) is not None
    offers = answers.offers(answer) if is_answer else []
    if offers and answers.accepts(turn) and answers.offers_to_tell(answer):
        return " and ".join(offers)
    places = find_positions(grammar.without_conjunction(turn), offers) if offers else None
    return " and ".join(offers[place] for place in places or ())


def _searched_turns(question: str, past: Sequence[_Exchange]) -> list[str]:
    """List the turns that a question is searched with: the latest, up to 1,500 bytes in UTF-8.

    An exchange is one turn. One that does not fit is left out together with all earlier ones, and
    so is the same question.
    """
    turns, room = list[str](), _ROOM
    for turn in (entry.lines for entry in reversed(past)):
        room -= len(turn.encode())
        if room < 0:
            break
        if turn.casefold() != question.strip().casefold():
            turns.append(turn)
    return turns[::-1]


def turns_of(messages: Iterable[tuple[str, str]]) -> list[str | Turn]:
    """List the turns of a conversation that are relevant to the next question, oldest first.

    These are the user's turns and the answers that ask back, of this package ("Do you mean A or
    B?") or of a language model ("Which year?"), without which a reply says little, as strings; and
    as a `Turn` each answer that offers or lists something, and the last of the others. System
    prompts and results of tools are left out.

    Parameters
    ----------
    messages : iterable of (str, str)
        Speaker ("user", "assistant" or any other) and text, oldest first.

    Examples
    --------
    >>> turns_of([("system", "Be brief."), ("user", "Who pays?"), ("assistant", "The tenant.")])
    ['Who pays?', Turn(speaker='assistant', text='The tenant.')]
    """
    turns, answer = list[str | Turn](), ""
    for role, text in messages:
        if role == "user":
            turns.append(text)
            answer = ""
        elif role == "assistant":
            if not is_clarifying_question(text) and answers.offers(text):
                turns.append(Turn("assistant", text))
            elif (question := extract_clarifying_question(text)) is not None:
                turns.append(question)
            else:
                answer = answers.stated_in(text) or answer
    return [*turns, Turn("assistant", answer)] if answer else turns


def parse_queries(
    queries: Sequence[str],
    history: Sequence[Sequence[TurnLike]] | None = None,
    within: Within | None = None,
) -> list[Query]:
    """Check questions, and parse each with its turns; see `Retriever.search`.

    Of a message of over 8,000 characters, the first and the last half as many are read. Half of a
    surrogate pair, as is left of an emoji that was cut in two, is a question mark.
    """
    texts = as_strings(queries, "queries")
    questions = [_shortened(text).encode(errors="replace").decode() for text in texts]
    empty = list[list[str | Turn]]([[]]) * len(questions)
    before = empty if history is None else _check_history(history, len(questions))
    return [Query.parse(*pair, within) for pair in zip(questions, before, strict=True)]


def _shortened(message: str) -> str:
    if len(message) <= LONGEST_QUERY:
        return message
    half = LONGEST_QUERY // 2
    return f"{message[: half - 1]}\n{message[-half:]}"


def _check_history(history: Sequence[Sequence[TurnLike]], count: int) -> list[list[str | Turn]]:
    """Return the latest turns before each question.

    TypeError if they are not lists of turns, ValueError if there are not `count` of them.
    """
    latest = list[list[str | Turn]]()
    for row, turns in enumerate(as_list(history, "history")):
        name, is_list = f"history[{row}]", isinstance(turns, Sequence)
        pairs = [*map(_spoken, as_list(turns[-MOST_TURNS:] if is_list else turns, name))]
        texts = as_strings([text for _, text in pairs], name)
        texts = [check_stored_text(text, name) for text in texts]
        spoken = zip((speaker for speaker, _ in pairs), texts, strict=True)
        latest.append(turns_of(spoken) if pairs else [])
    if len(latest) != count:
        raise ValueError(
            f"history: expected the turns before each of {count} questions, got {len(latest)} "
            "lists; write [] for a question that begins a conversation."
        )
    return latest


def _spoken(turn: TurnLike) -> tuple[str, str]:
    """Return who said a turn, and what; of what is no turn, the user and that."""
    if isinstance(turn, Turn):
        return turn.speaker, turn.text
    if isinstance(turn, tuple) and len(turn) == 2 and turn[0] in get_args(Speaker):
        return turn
    return "user", cast(str, turn)  # which is checked
