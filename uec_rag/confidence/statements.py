"""The form of a passage as evidence: headings and questions alone are no answer."""

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
def _evidence() -> dict[str, float]:
    return {name: float(value) for name, value in shipped("statements.json").items()}


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


def log_likelihood_ratio(kind: str, others: Sequence[str]) -> float:
    """Return what the form of the first hit adds to the log odds that the corpus answers.

    It was learned by `benchmarks/quality/statements.py`, as a ratio a of likelihoods where the form
    is rare. It tells the less, the more of the other hits have it, as in a corpus of tables: with a
    share b of them, P(form | no answer) is b and P(form | an answer) is a b / (a b + 1 - b).

    `kind`, `others`: the forms of the hit and of others, see `kind_of_text`.
    """
    if kind == "states":
        return 0.0
    share = (others.count(kind) + _RARE) / (len(others) + 1)
    ratio = math.exp(_evidence()[kind])
    return math.log(ratio / (ratio * share + 1 - share))


def form_evidence(texts: Sequence[str], logits: FloatArray) -> float:
    """Compute what the form of a question's first hits adds to the log odds of an answer.

    Another of the first `JUDGED` texts, which states something, may stand in for the first one: it
    costs what it is less similar.

    `texts`: different texts of m hits, best first. `logits`: theirs, shape (m,).
    """
    if kind_of_text(texts[0]) == "states":  # as nearly always
        return 0.0
    kinds, added = [*map(kind_of_text, texts)], -math.inf
    for place, kind in enumerate(kinds[:JUDGED]):
        if added < 0:
            others = kinds[:place] + kinds[place + 1 :]
            behind = float(logits[place] - logits[0])
            added = max(added, behind + log_likelihood_ratio(kind, others))
    return added
