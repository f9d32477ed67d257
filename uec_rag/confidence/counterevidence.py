"""Counterevidence: a first hit that states nothing, or lacks a name that others have."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache

import regex

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.text import FUNCTION_WORDS
from uec_rag.confidence.languages import languages_of_words
from uec_rag.confidence.model import JUDGED, shipped

_SENTENCE = regex.compile(r"[^.!?？\n]++(?:[.!?？](?!\s)[^.!?？\n]*+)*+[.!?？]*+")
_LABEL = regex.compile(r"\A\W*+(?:[\w#.,()-]++ ?+){1,5}:(?=\s|\Z)")  # "Status:"
_ROW = regex.compile(r"[\w)]: [^\n,]++, [^\n,:]++: ")  # "Plan: Basic, Price: 5", as tables are read
_HEADING = regex.compile(
    r"(?m)^(?:#[^\n]*|(?:[^\n.!?？]|\.(?!\s)){1,80})\n\n"
)  # above what it heads
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_MARK = re.compile("[?？:]")
_CODE = ("```", "    ", "$ ", "|")
# Written without blanks, or in a language whose function words are not known.
_OTHER_WRITING = regex.compile(r"(?![\p{Latin}\p{Cyrillic}\p{Greek}])\p{L}")
_RARE = 0.03  # share of passages with such a form, as in the manuals that it was learned on
_LIST = 4  # words after a label; fewer are its value, as in "Warranty: two years"
_LONGEST = 4000  # characters that are looked at


@cache
def learned_ratios() -> dict[str, float]:
    """Return the log likelihood ratio of each kind of first hit, if it is rare."""
    return {name: float(value) for name, value in shipped("counterevidence.json").items()}


@cache
def _function_words() -> frozenset[str]:
    return FUNCTION_WORDS.union(languages_of_words())


def kind_of_text(text: str) -> str:
    """Tell what a passage is, by its form: "states", "asks" or "lists".

    A statement has a function word, is a table's row, or is code. A text that only asks, apart from
    labels such as "Status: open", has no answer; one that only lists has names and headings.

    Examples
    --------
    >>> [kind_of_text(text) for text in ("Ticket 7: Who pays? Status: open.", "1 Fees 2 Returns")]
    ['asks', 'lists']
    >>> kind_of_text("Who pays? The buyer pays.")
    'states'
    """
    text, known = text[:_LONGEST], _function_words()
    # What comes before "and" spares most texts an expression.
    if (not text.isascii() and _OTHER_WRITING.search(text)) or (": " in text and _ROW.search(text)):
        return "states"
    asks = answers = values = False
    for line in (_HEADING.sub("", text) if "\n\n" in text else text).split("\n"):
        if line.startswith(_CODE):
            return "states"
        for sentence in _SENTENCE.findall(line) if _MARK.search(line) else [line]:
            said = _LABEL.sub("", sentence) if ":" in sentence else sentence
            words = _WORD.findall(said.casefold())
            if sentence.endswith(("?", "？")):
                asks = True
            elif not known.isdisjoint(words):
                return "states"
            elif said == sentence:
                answers |= bool(words)
            else:
                values |= 0 < len(words) < _LIST
    if asks:
        return "states" if answers else "asks"
    return "states" if values else "lists"


def log_likelihood_ratio(kind: str, share: float) -> float:
    """Return what it adds to the log odds of an answer that the first hit is of some kind.

    It was learned by `benchmarks/quality/counterevidence.py`, as a ratio a of likelihoods where the
    kind is rare. It tells the less, the more passages are of it, as in a corpus of tables: with a
    share b of them, P(kind | no answer) is b and P(kind | an answer) is a b / (a b + 1 - b).

    Parameters
    ----------
    kind : str
        That of a text (`kind_of_text`), "unnamed" for one that lacks a name of the question, or
        "outside" if that is the name of a folder.
    share : float
        b, from 0 to 1.
    """
    if kind == "states":
        return 0.0
    ratio = math.exp(learned_ratios()[kind])
    return math.log(ratio / (ratio * share + 1 - share))


def counterevidence(texts: Sequence[str], logits: FloatArray, names: Sequence[float]) -> float:
    """Compute what the first hits of a question add to the log odds of an answer, at most 0.

    Another of the first `JUDGED` texts may stand in for the first one: it costs what it is less
    similar.

    Parameters
    ----------
    texts : sequence of m str
        Different texts, best first.
    logits : array, shape (m,)
        Theirs, divided by the temperature.
    names : sequence of float
        The log likelihood ratio of the names that each of the first texts lacks, 0 if none.
    """
    if not names[0] and kind_of_text(texts[0]) == "states":  # as nearly always
        return 0.0
    kinds, added = [*map(kind_of_text, texts)], -math.inf
    for place, (kind, lacks) in enumerate(zip(kinds[:JUDGED], names, strict=True)):
        if added < 0:
            others = kinds.count(kind) - 1
            own = log_likelihood_ratio(kind, (others + _RARE) / len(kinds))
            added = max(added, float(logits[place] - logits[0]) + own + lacks)
    return added
