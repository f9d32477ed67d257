"""A message: which part of it asks, and what is only said beside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import unescape
from itertools import dropwhile, pairwise
from urllib.parse import unquote

import regex

from uec_rag.base.text import SENTENCE_END
from uec_rag.questions.frames import FAILURE, LABEL, SPEAKER, asks, without_frame, without_values
from uec_rag.questions.grammar import (
    LONGEST_QUESTION,
    WORDS,
    is_question,
    lower,
    refers_back,
    without_noise,
)
from uec_rag.questions.languages import ENGLISH, is_courtesy, language_of, matcher, tables

_OWN = [table["own_number"] for table in tables().values() if "own_number" in table]
_INDIRECT = tables()[ENGLISH]["indirect"]
# A line that goes on in lower case, and was long enough to be wrapped.
_WRAPPED = regex.compile(
    r"(?<=[^\n]{40}[^\s.!?:;])[ \t]*\n[ \t]*(?!(?:at|error|fatal|panic)\b)(?=\p{Ll})"
)
_PARAGRAPH = regex.compile(r"\n\s*\n")
_ENDS_ASKING = regex.compile(r"[?？؟][\s\"'”’»)\]*_]*\Z")
_TAG = regex.compile(r"</?[\w-]+>|(?<![\"'}\]`*])[\"'}\]`*]++\s*+\Z")
_QUOTED = regex.compile(r"\A\s*+[>|]")
_STOPS = tuple(".!?:;…。！？")
_FULL_STOP = regex.compile(r"[.!,;:。！]")

WRAPPING = regex.compile(r"[<>@&%/\d\n]")
"""The signs of a message that is to be `unwrapped`."""

# An address in a chat: of Slack, Discord and Teams; of a bot; of whom a message begins with.
_BOT = r"\w*(?:bot|assistant|helper|support)\w*|all|channel|everyone|here|team"
_MENTION = regex.compile(
    r"<(?:[@!#]|a?:)[^<>\s]{1,80}(?:\|[^<>\n]{1,80})?>|<at\b[^<>]{0,80}>[^<>]{1,80}</at>"
    r"|\A\W*/\w{1,40}@\w{1,40}|@\[[^\[\]\n]{1,80}\]\([^()\s]{1,80}\)"
    rf"|(?<![\w@/.])@(?:(?:{_BOT})\b|\p{{Lu}}\w{{1,30}} (?:{_BOT})\b)(?![/.]\w)",
    regex.IGNORECASE,
)
_GAP = regex.compile(r"\s++(?=[ ,:;?!.])|,\s*+(?=[?!.,])|( ) ++")
_ADDRESSEE = regex.compile(
    r"\A\W*?(?:@[\w.-]{2,40}(?![/\w.(])|/(?:ask|chat|help|question|query)\b)[\s:,–-]*+"
    r"|(?:,\s*+|(?<=[?!.])\s++)@[\w.-]{2,40}(?=\W*\Z)"
)
_ENTITY = regex.compile(r"&(?:#\d{1,6}|#x[\da-f]{1,5}|[a-z]{2,8});", regex.IGNORECASE)
_OF_CODE = regex.compile(r"html|xml|encod|entit|escap|url", regex.IGNORECASE)
_PERCENT = regex.compile(r"[^\s%]*+(?:%[0-9A-Fa-f]{2}[^\s%]*+)++")
# The mail that is answered: its lines, what introduces them, or all below a line.
_ANSWERED = regex.compile(
    r"^[ \t]*+(?:on|am|le|el|il|op|em)\b[^\n]{5,120}(?:\n[^\n]{1,80})?\b(?:wrote|schrieb|a écrit"
    r"|escribió|ha scritto|schreef|escreveu)\b[^\n]{0,80}:[ \t]*+$|^[ \t]*+>[^\n]*+$",
    regex.IGNORECASE | regex.MULTILINE,
)
_BELOW = regex.compile(
    r"^[ \t]*+(?:-{2,}[ \t]*+(?:original|forwarded|ursprüngliche|weitergeleitete|message d|mensaje)"
    r"[^\n]{0,40}-{2,}|(?:from|von|de|da|van): [^\n]{3,120}\n(?:[^\n]{0,120}\n)?"
    r"(?:sent|date|to|subject|gesendet|datum|an|betreff|envoyé|enviado|para|objet|asunto): |-- $)",
    regex.IGNORECASE | regex.MULTILINE,
)
# "My order number is 48213.", as a sentence of its own or with a colon; no year.
_NUMBER = r"[#№ ]{0,2}(?!(?:19|20)\d\d\b)(?:[A-Z]{1,5}-?)?\d[\dA-Z]{2,}(?:-\w{1,20})*+"
_OWN_NUMBER = regex.compile(
    rf"(?:\A|(?<=[.!?]\s)|(?<=^[\p{{L}} ]{{2,20}}[,!]\s))(?:{'|'.join(_OWN)})[: ]*{_NUMBER}"
    r"(?:\s*[.,:;!–\n]|\s+-\s|\s*\Z)\s*",
    regex.IGNORECASE,
)


def unwrapped(message: str) -> str:
    """Return a message as it was written to us alone, decoded.

    It is without mentions, the number of one's order, and the mail that it answers, if what remains
    asks.

    Examples
    --------
    >>> unwrapped("<@U024BE7LH> How%3F"), unwrapped("What&#39;s a lamp?")
    ('How%3F', "What's a lamp?")
    >>> unwrapped("My order number is 48213. How long do refunds take?")
    'How long do refunds take?'
    >>> unwrapped("What is order 48213?"), unwrapped("Order 48213: where is it?")
    ('What is order 48213?', 'Order 48213: where is it?')
    """
    text = message
    if _PERCENT.fullmatch(text.strip()) and "://" not in text:
        text = unquote(text if "%20" in text else text.replace("+", " "))
    if "&" in text and not _OF_CODE.search(text):
        text = _ENTITY.sub(lambda entity: unescape(unescape(entity[0])), text).replace("\xa0", " ")
    if "<" in text or "@" in text or text.startswith("/"):
        text = _MENTION.sub(" ", text)
        text = text if text == message else _GAP.sub(r"\1", text).strip(" ,:*")
    for pattern in (_ADDRESSEE, _BELOW, _ANSWERED, _OWN_NUMBER):
        if pattern is _BELOW:
            below = pattern.search(text)
            remainder = text[: below.start()].strip() if below else text
        else:
            remainder = pattern.sub("", text).strip()
        if remainder != text.strip() and is_question(remainder) and not refers_back(remainder):
            text = remainder
    return text if text.strip() else message


def asking_part(message: str) -> tuple[str, str]:
    r"""Return the part of a message that asks, and the rest; the part is "" if nothing asks.

    Of up to 200 characters, all but the frame asks, see `without_frame`, or the last line that says
    what failed.

    What follows the last label ("Question:") asks, else the sentences with question marks in the
    last paragraph that has any, else the last sentence that begins as a question or a request,
    unless the last paragraph is a line without a full stop. Quoted lines of a mail ask if no others
    do, then the last line that says what failed; a text that tells a problem asks as a whole.

    Examples
    --------
    >>> asking_part("Follow the policy of the shop. " * 9 + "\n\nHow long do refunds take?")[0]
    'How long do refunds take?'
    >>> asking_part("The parcel arrived on Monday. " * 9)[0]
    ''
    """
    if len(message) <= LONGEST_QUESTION:
        question, remainder = without_frame(message)
        lines = [*map(str.strip, question.splitlines())] if not asks(question) else []
        if failure := next(filter(FAILURE.match, lines[::-1]), ""):
            return without_values(failure), remainder
        return without_noise(question), remainder
    rows, sentences = list[int](), list[str]()
    for paragraph in _PARAGRAPH.split(_WRAPPED.sub(" ", message.replace("\r\n", "\n")).strip()):
        for place, sentence in enumerate(_sentences(paragraph)):
            begins = not place or SPEAKER.match(sentence) is not None
            rows.append(rows[-1] + begins if rows else 0)
            sentences.append(sentence)
    start = rows.index(rows[-1]) if rows else 0  # of the last paragraph
    grades = [_asks(sentences, place, start) for place in range(len(sentences))]
    best = max(grades, default=0)
    if not best and _tells_problem(message):
        return message, ""
    if not best:
        return "", message
    end = len(grades) - 1 - grades[::-1].index(best)
    asking = {end}
    if best == _MARK:
        asking |= {at for at, by in enumerate(grades) if by == best and rows[at] == rows[end]}
    question = " ".join(without_frame(_plain(sentences[place]))[0] for place in sorted(asking))
    return question, "\n".join(part for at, part in enumerate(sentences) if at not in asking)


def _tells_problem(message: str) -> bool:
    """Return whether a message tells of a trouble, or in prose of something of one's own."""
    language = language_of(message) or ENGLISH
    if matcher("trouble", language, "problem").search(message):
        return True
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    broken = sum(not line.endswith(_STOPS) and tail[0].isupper() for line, tail in pairwise(lines))
    is_own = matcher("own", language, "problem").search(message) is not None
    return is_own and 2 * broken <= len(lines)  # no verses


def _sentences(paragraph: str) -> list[str]:
    """Split a paragraph at the ends of lines and sentences; each of a quoted line begins with >."""
    sentences = list[str]()
    for line in paragraph.splitlines():
        quoted = _QUOTED.match(line)
        text = line[quoted.end() :] if quoted else line
        parts = [part.strip() for part in SENTENCE_END.split(text) if part and part.strip()]
        sentences += [f"> {part}" for part in parts] if quoted else parts
    return sentences


# What tells that a sentence asks, the weakest first.
_FAILS, _QUOTES, _OPENS, _KEYWORDS, _OPENS_LAST, _MARK, _LABELLED = range(1, 8)


def _asks(sentences: Sequence[str], place: int, start: int) -> int:
    """Return what tells that a sentence of a message asks; 0 if nothing does.

    `start`: the place of the first sentence of the last paragraph.
    """
    text, in_last = sentences[place], place >= start
    label = LABEL.match(text)
    if (label and label.end() < len(text)) or (place and _is_heading(sentences[place - 1])):
        return _LABELLED
    marked = _ENDS_ASKING.search(text) is not None
    if marked or _requests(text):
        if _QUOTED.match(text):
            return _QUOTES
        return _MARK if marked else _OPENS_LAST if in_last else _OPENS
    if FAILURE.match(text):
        return _FAILS
    is_alone = 0 < start == place == len(sentences) - 1
    is_short = len(text) <= LONGEST_QUESTION and len(text.split()) > 1
    if not (is_alone and is_short) or _FULL_STOP.search(text):
        return 0
    closes = all(word[0].isupper() for word in text.split()) or is_courtesy(text)  # or signs
    return 0 if closes else _KEYWORDS


def _is_heading(sentence: str) -> bool:
    label = LABEL.match(sentence)
    return label is not None and label.end() == len(sentence)


def _requests(sentence: str) -> bool:
    """Return whether a sentence begins as an English question, or says that one is asked."""
    words = [*dropwhile(WORDS["before_request"].__contains__, lower(_plain(sentence)))]
    spoken = f" {' '.join(words)} "
    return bool(words) and (
        words[0] in WORDS["openings"] or any(f" {phrase} " in spoken for phrase in _INDIRECT)
    )


def _plain(sentence: str) -> str:
    """Return a sentence without its label, the mark of a quotation, and tags."""
    for label in (LABEL.match(sentence), SPEAKER.match(sentence)):
        if label is not None and label.end() < len(sentence):
            return str(_TAG.sub("", sentence[label.end() :])).strip()
    return str(_TAG.sub("", _QUOTED.sub("", sentence, count=1))).strip()
