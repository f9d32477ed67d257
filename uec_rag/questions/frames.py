"""The frame around a question, which is no part of it, and the clause that asks.

These are lines, quotations, brackets, addresses, signatures, and what a log writes before a line.
"""

from __future__ import annotations

from functools import cache

import regex

from uec_rag.base.text import ADDRESS, LONGEST_ASKED
from uec_rag.questions.grammar import WORDS, is_question, refers_back
from uec_rag.questions.languages import (
    ENGLISH,
    any_of,
    is_courtesy,
    language_of,
    listed,
    matcher,
    split_phrases,
    tables,
)

_ASKS = tuple("?？؟")
LABEL, SPEAKER = (
    regex.compile(
        rf"[\W_]*+(?:[^\W_]\w*+[ '’]){{0,4}}?(?:{'|'.join(WORDS[kind])})"
        r"(?:[^\w:：>]*+[:：>](?!/)[\W_]*+|[\W_]*+\Z)",
        regex.IGNORECASE,
    )
    for kind in ("labels", "speakers")
)
_CLOCK = r"\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?(?: ?[AaPp][Mm])?(?:Z|[+-]\d\d:?\d\d)?"
_DAY = r"\d{4}-\d\d-\d\d[T ]|\d\d?/(?:\d\d?|\p{L}{3})/\d\d(?:\d\d)?[:,]? ?|\p{L}{3} +\d\d? "
_NAME = r"(?<![\w.-])[\w-]++(?:\.[\w-]++)"
_HOST = rf"(?:\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d{{2,5}})?|{_NAME}*+:\d{{2,5}})(?![\w.])"
_LEVEL = r"(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|FATAL|CRIT(?:ICAL)?|SEVERE|TRACE)"
# What a log or a chat writes before a line: time, level, process, host, logger, who speaks.
_PARTS = (
    rf"(?-i:{_LEVEL})\b:?|\[[^\]\n]{{1,60}}\]:?|{_HOST}|[\w.$/-]+\[\d+\]:?"
    r"|[\w.-]+(?=[ ][\w./-]+\[\d+\]:)|[\w$]+(?:\.[\w$]+)+:?(?:\d+\])?|pid=\d+"
    r"|(?:\p{L}[\w.'’-]*[ ]){0,2}\p{L}[\w.'’-]*:(?=[ ])"
)
_LOGGED = regex.compile(
    rf"^[ \t]*(?:(?:[\[(]?(?:{_DAY}){_CLOCK}[^\]\n ]*(?: [+-]\d{{4}})?[\])]?|\[{_CLOCK}\]"
    rf"|\d\d:\d\d:\d\d[.,]\d+|[IWEF]\d{{4}} {_CLOCK}|{_HOST}(?: -)* \[(?:{_DAY}){_CLOCK}[^\]\n]*\])"
    rf"(?:[ \t,|:–-]+(?:{_PARTS})(?=\s))*[ \t|:–-]+"
    rf"|(?-i:{_LEVEL}):\w+:|(?:[\w.]+=(?!\")\S+ )+)(?=\S)",
    regex.IGNORECASE | regex.MULTILINE,
)
# Of what failed, or is logged: where, and by which number.
_OF_LOG = regex.compile(
    rf"['\"]?(?:{_HOST}|(?<![\w.])/[\w.-]+(?:/[\w.-]+)+)['\"]?"
    rf"|\[Errno \d+\]|(?:{_NAME}++,? )?\bport \d+|\(\d+\)"
    r"|\b(?!msg)\w+=\S+|\bmsg=",
    regex.IGNORECASE,
)
_SUFFIX = "pdf|docx?|xlsx?|pptx?|odt|md|txt|rst|html?|csv|json|ya?ml|eml|msg|png|jpe?g"
_FILE = rf"(?<![\w./\\-])[\w./\\-]*\w\.(?:{_SUFFIX})\b"
_PLACE = rf"(?:{ADDRESS.pattern}|<?mailto:\S+|{_FILE})"
_OWN = rf"[^()\n]*(?:[.!?]|(?i:{any_of(listed('own', table='problem'))})[^()\n]*)"  # a sentence
_QUOTES = r"(?:\"[^\"\n]+\"|“[^”\n]+”|„[^“”\n]+[“”]|«[^»\n]+»|»[^«\n]+«|「[^」\n]+」)"
_GAP = r"(?<!\s)\s+"
_MOST_PIECES = 12  # around a question
_BEFORE = tuple(
    regex.compile(form)
    for form in (
        rf"\A\W*(?:\[[^\]\n]{{1,80}}\]|\*\*[^*\n]{{1,60}}\*\*|(?i:{_PLACE}))[:,;–-]?\s+",
        rf"\A\s*\({_OWN}\)[.:,]?\s+",
        rf"\A[^\n?\"“„«]{{0,80}}?{_QUOTES}[.,:;!]?\s+(?=[\p{{Lu}}¿\p{{Lo}}])",
        r"\A[^\n]*\n\s*",
    )
)
_BEHIND = tuple(
    regex.compile(form)
    for form in (
        rf"(?<!\s)\s*\n[^\n]*\Z|{_GAP}\[[^\]\n]{{1,80}}\]\W*\Z"
        rf"|{_GAP}\((?i:{_PLACE}|see {_PLACE})\)\W*\Z",
        rf"{_GAP}\({_OWN}\)\s*\Z",
        rf"(?<=[.?!])\s+[^.?!\n]{{0,40}}?(?i:{_PLACE})\W*\Z|\s+https?://\S+\Z",
    )
)
_MARKS = regex.compile(r"[\n*\[(\"“„«»「@]|://|www\.|\.\p{L}{2,4}\b|:\d\d|\b[A-Z]+:\w+:")
FAILURE = regex.compile(
    r"(?:Caused by: |Uncaught |npm )*(?:[A-Za-z_][\w.$]*(?:Error|Exception)(?=:|\Z)"
    r"|Exception in thread |(?i:(?:error|fatal|panic)[:\[]|err! )|[\w.-]+: \(\d+\) )[^?]*+\Z"
)
"""The line of a log that says what failed: "PermissionError: ...", "fatal: not a repository"."""

# Names of errors, which are seldom documented.
_FAILED = regex.compile(r"(?<![\w.$])(?:[\w.$]++(?<=Error|Exception): ?)+")
_CLAUSE_END = regex.compile(
    r"(?<!\b(?:Dr|Mr|Mrs|Ms|Prof|St|Nr|No|Sr|Sra|Art|Ch|Fig|Abs|Vol)\.)"
    r"(?<=[.!?;,][\"'”’»)\]]?)\s+(?!\()|(?<=[？؟])|\s{0,80}\n\s*"
    r"|(?<=[\"”“»\])])\s+(?=\p{Lu}\p{Ll}*+ )"
)


@cache
def _closings() -> regex.Pattern[str]:
    """Return the expression of what ends a mail or a message, with all that is below."""
    phrases = (
        text for table in tables().values() for text in split_phrases(table.get("signs", ""))
    )
    return regex.compile(
        rf"(?:\A|(?<=[.?!])[ \t(]+|[\n(]\W{{0,20}})(?:(?:{any_of(phrases)})\b|--[ \t]*(?=\n))"
        r"(?:[^?？؟\n]{0,80}(?:\n|\Z)){1,8}\s*\Z",
        regex.IGNORECASE,
    )


def without_frame(message: str) -> tuple[str, str]:
    r"""Return the question of a short message, and what else it says; all of it if none is whole.

    Examples
    --------
    >>> without_frame("Hello\nWhat is the late fee?"), without_frame("Is it open? (Kalmar branch)")
    (('What is the late fee?', ''), ('Is it open? (Kalmar branch)', ''))
    >>> without_frame('You say "We help". How long do refunds take?\n\nKind regards\nTheo')
    ('How long do refunds take?', 'You say "We help".')
    """
    if len(message) > LONGEST_ASKED or not _MARKS.search(message):
        return message, ""
    text, pieces = _LOGGED.sub("", message).strip(), list[str]()
    if text != message.strip():
        text = without_values(text)
    body = _closings().sub("", text).strip()
    text = body or text
    for patterns in (_BEFORE, _BEHIND):
        for _ in range(_MOST_PIECES):
            if (match := _peeled(text, patterns)) is None:
                break
            remainder = (text[: match.start()] + text[match.end() :]).strip()
            piece = match[0].strip()
            pieces += [piece] if _tells(piece) else []
            text = remainder
    if label := LABEL.match(text) or SPEAKER.match(text):
        text = text[label.end() :].strip() or text
    return text or message, "\n".join(pieces)


def without_values(line: str) -> str:
    """Return what failed, or was logged, without places and numbers, which no document has.

    Examples
    --------
    >>> without_values("IOError: [Errno 13] Permission denied: '/srv/a.csv'")
    'IOError: Permission denied:'
    """
    return " ".join(_OF_LOG.sub(" ", line).split())


def _peeled(text: str, patterns: tuple[regex.Pattern[str], ...]) -> regex.Match[str] | None:
    """Return what of a text is before or behind its question, which is whole without it."""
    for pattern in patterns:
        if match := pattern.search(text):
            remainder = (text[: match.start()] + text[match.end() :]).strip()
            if asks(remainder) and not asks(match[0]) and not refers_back(remainder):
                return match
    return None


def _tells(piece: str) -> bool:
    """Return whether something beside a question says more than a greeting, a mark or a place."""
    plain = regex.sub(rf"(?i:{_PLACE})|\[[^\]]*\]|^[\w ]{{1,20}}:", " ", piece)
    return len(plain.split()) > 2 and not is_courtesy(plain)


def asks(text: str) -> bool:
    """Return whether a text has a question mark at its end, or begins as a question."""
    body = text.strip().rstrip("\"'”»)*_ ")
    if body.endswith(_ASKS) or is_question(text.lstrip("\"'“„«(*_¿ ").partition("?")[0]):
        return True
    asking = matcher("wh", language_of(text) or ENGLISH, "operators")
    return asking.match(text) is not None


def asking_clause(question: str, language: str = ENGLISH) -> str:
    """Return the clauses of a text that ask, if some of it does not; of an error, what it says.

    Examples
    --------
    >>> asking_clause("I have an iPhone, how do I change my password?")
    'how do I change my password?'
    >>> asking_clause("The tablet?"), asking_clause("db.OldError: Connection refused")
    ('The tablet?', 'Connection refused')
    """
    if len(question) > LONGEST_ASKED:
        return question
    if FAILURE.match(question):
        return _FAILED.sub("", question) or question
    clauses = [*filter(None, _CLAUSE_END.split(question))]
    wh = matcher("wh", language, "operators")
    asking = [clause for clause in clauses if wh.search(clause)]
    asking = asking or [clause for clause in clauses if clause.rstrip().endswith(_ASKS)]
    return " ".join(map(str.strip, asking)) if asking else question
