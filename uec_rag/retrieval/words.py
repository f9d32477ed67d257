"""The evidence that the words of a question are, and words without a lexical encoder.

evidence      what the first hits have of a question: features of confidence
match         the words of a question that each of some texts has, with their idf
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import regex

from uec_rag.base.counts import idf
from uec_rag.base.text import FUNCTION_WORDS, WORD
from uec_rag.confidence.languages import ENGLISH, function_words
from uec_rag.encoders.lexical import LATIN, compounds, has_words, keys_of, letters_in, words_by_key

# A digit, an underscore, an inner capital, an option.
_MARKED = regex.compile(r"\p{N}|_|\p{Ll}\p{Lu}|^-")
_DOTTED = regex.compile(r"(?<!\w)\w++(?:\.\w++)++")  # "setup.cfg"
_ENDS, _MARKS = tuple(".!?:"), "\"“”«»'`(["


class Evidence(NamedTuple):
    """The parts of a question's words that some hits have: 1 is everything.

    Attributes
    ----------
    coverage : float
        The share of the idf of its content words that one hit has, at most.
    names : float
        1 if a hit has all its names, numbers and identifiers, or there are none; else 0. The only
        content word of a question counts as a name.
    """

    coverage: float
    names: float


UNKNOWN = Evidence(np.nan, np.nan)
"""The evidence of words where they tell nothing."""


def evidence(
    question: str, language: str, idf: Mapping[str, float], hits: Sequence[tuple[str, Set[str]]]
) -> Evidence:
    """Compute what the first hits have of a question.

    It is not known if the question is in another script than the first hit and not in Latin
    letters, or has no content word.

    Parameters
    ----------
    language : str
        Its code.
    idf : mapping of str to float
        The inverse document frequency of each of its words.
    hits : sequence of pairs
        The text of each hit, and the words of the question that it has.
    """
    script = letters_in(question)
    if not hits or (script != LATIN and script != letters_in(hits[0][0])):
        return UNKNOWN
    content = {w: v for w, v in idf.items() if w.casefold() not in function_words(language)}
    if not content:
        return UNKNOWN
    named = {*content}
    if len(content) > 1:
        named &= names_in(question, content, english=language == ENGLISH)
    whole = compounds(question)
    known = [(text, with_compounds(words, whole)) for text, words in hits]
    total = sum(content.values())
    return Evidence(
        max(sum(v for w, v in content.items() if w in words) / total for _, words in known),
        float(any(named <= words and has_words(text, named) for text, words in known)),
    )


def with_compounds(words: Set[str], whole: Iterable[tuple[str, Sequence[str]]]) -> set[str]:
    """Add to words the parts of each compound among them, and each whose parts are among them.

    Examples
    --------
    >>> sorted(with_compounds({"WiFi"}, [("WiFi", ["Wi", "Fi"])]))
    ['Fi', 'Wi', 'WiFi']
    """
    known = set(words)
    for word, parts in whole:
        if word in known or known.issuperset(parts):
            known.update([word, *parts])
    return known


def names_in(question: str, words: Collection[str], *, english: bool = True) -> set[str]:
    """Choose the words of a question that are names, numbers and identifiers.

    Only in English are capitalised words names, but not in a text that is like a title: all its
    content words are capitalised, the first word among them.

    Examples
    --------
    >>> sorted(names_in("When did Apollo 11 use parse_args?", ["When", "Apollo", "11", "use"]))
    ['11', 'Apollo']
    >>> names_in("What if I'm ill?", ["What", "if", "I", "m", "ill"])
    set()
    """
    dotted = {part for name in _DOTTED.findall(question) for part in name.split(".")}
    chosen = {word for word in words if word in dotted or _MARKED.search(word)}
    if not english:
        return chosen
    content = [w for w in words if w.casefold() not in FUNCTION_WORDS and w[:1].isalpha()]
    inner = (
        w.lstrip(_MARKS) for before, w in pairwise(question.split()) if before[-1] not in _ENDS
    )
    capital = {part for w in inner for part in WORD.findall(w) if part[0].isupper()} & {*content}
    is_title = question.split(None, 1)[0] in content and all(w[0].isupper() for w in content)
    return chosen if is_title else chosen | capital


def match(
    question: str, texts: Sequence[str], size: int
) -> tuple[list[set[str]], dict[str, float]]:
    """Find the words of a question in texts, which are taken for all that have any.

    Returns the words that each text has, and the idf of each word among `size` texts.

    Examples
    --------
    >>> words, idf = match("Which fees?", ["A fee is due.", "None."], 2)
    >>> words, {word: round(value, 2) for word, value in idf.items()}
    ([{'fees'}, set()], {'Which': 1.79, 'fees': 0.69})
    """
    labels = words_by_key(question)
    keys = [labels.keys() & set(keys_of(text).tolist()) for text in texts]
    words = [{labels[key] for key in of_text} for of_text in keys]
    counts = {word: sum(word in of_text for of_text in words) for word in labels.values()}
    rarity = idf(np.array([*counts.values()], dtype=np.int64), max(size, len(texts)))
    return words, dict(zip(counts, rarity.tolist(), strict=True))
