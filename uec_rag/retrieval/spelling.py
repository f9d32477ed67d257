"""Misspelt words of a question, replaced by words of the corpus.

A word that no passage has is taken for a slip of the finger if it is no word that a model knows,
and one that it knows and passages have is a letter away: left out, doubled, wrong, or in another
order. All members then read the corrected question, since a model splits a misspelt word into
pieces that mean nothing to it; the decision says so (`Result.asked_as`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

import numpy as np
import regex
from numpy.typing import NDArray

from uec_rag.encoders.base import Encoder, WithoutVectors, token_counter
from uec_rag.encoders.lexical import LATIN, Lexical, writing_of
from uec_rag.stores.memory import MemoryStore

# No identifier, number or abbreviation; in capitals the first word alone, since names are not
# misspelt for not being in the corpus.
_WORD = regex.compile(r"\b[a-z]{4,24}\b|(?<=^\W*)[A-Z][a-z]{3,23}\b")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SHORTEST = 3  # letters of what replaces a word
_MOST = 8  # words of a question; one with more is not misspelt but about something else


def can_correct(encoders: Sequence[Encoder]) -> bool:
    """Tell if words are a member, and a model with a tokenizer: without either nothing is."""
    words = any(isinstance(one, Lexical) and one.words for one in encoders)
    return words and any(getattr(encoder, "tokenizer", None) for encoder in encoders)


def corrected_questions(
    questions: Sequence[str], encoders: Sequence[Encoder], store: MemoryStore
) -> list[str]:
    """Replace misspelt words of questions; see `uec_rag.retrieval.Retriever.corrected`."""
    sparse: list[Encoder] = [one for one in encoders if isinstance(one, WithoutVectors)]
    words = [(n, e.words) for n, e in enumerate(sparse) if isinstance(e, Lexical) and e.words]
    [(block, tokens), *_], count = words, token_counter(encoders)

    def holding(some: Sequence[str]) -> NDArray[np.int64]:
        return store.document_frequencies(block, tokens.stem_keys(some))

    def is_word(word: str) -> bool:
        return count(word) == 1

    return [
        corrected(text, holding, is_word) if tokens.language or writing_of(text) == LATIN else text
        for text in questions
    ]


def corrected(
    text: str,
    holding: Callable[[Sequence[str]], NDArray[np.int64]],
    is_word: Callable[[str], bool],
) -> str:
    """Replace misspelt words of a question.

    Parameters
    ----------
    text : str
    holding : callable
        How many passages hold each of some words, in any inflection; words are in lower case.
    is_word : callable
        Whether a word in lower case is one, of the corpus or not.

    Examples
    --------
    >>> def holding(words):
    ...     return np.array([{"virtual": 3, "package": 9, "shell": 5}.get(w, 0) for w in words])
    >>> known = {"sell", "shell", "virtual", "package"}
    >>> corrected("Who can sell a virtul pacakge", holding, known.__contains__)
    'Who can sell a virtual package'
    """
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))
    if not words:
        return text
    missing = [word for word, held in zip(words, holding(words).tolist(), strict=True) if not held]
    if len(missing) > _MOST:
        return text
    found = {}
    for word in missing:
        if is_word(word):
            continue
        others = _one_letter_away(word)
        held = zip(others, holding(others).tolist(), strict=True)
        # The corpus knows stems alone, and "probator" has that of "probation".
        there = [(other, count) for other, count in held if count and is_word(other)]
        if there:
            found[word] = max(there, key=itemgetter(1))[0]
    return _WORD.sub(lambda one: found.get(one[0].lower(), one[0]), text)


def _one_letter_away(word: str) -> list[str]:
    """List all strings with two neighbours exchanged, or one letter dropped, replaced or added.

    In this order, since the first of those that stand for one stem is taken.
    """
    splits = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    found = [
        *(left + right[1] + right[0] + right[2:] for left, right in splits if len(right) > 1),
        *(left + right[1:] for left, right in splits if right),
        *(left + letter + right[1:] for left, right in splits if right for letter in _LETTERS),
        *(left + letter + right for left, right in splits for letter in _LETTERS),
    ]
    return [other for other in dict.fromkeys(found) if other != word and len(other) >= _SHORTEST]
