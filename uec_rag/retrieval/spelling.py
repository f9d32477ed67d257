"""Correction of misspelt words of a question by words of the corpus.

A word that no passage contains is considered misspelt if it is neither a single token of a model
nor in a dictionary of English, and such a token that passages contain is one edit away: a missing,
additional, wrong or transposed letter. All members then encode the corrected question,
since a model splits a misspelt word into meaningless pieces; the result records it
(`Result.asked_as`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import regex
from numpy.typing import NDArray

from uec_rag.encoders.base import Encoder, WithoutVectors, token_counter
from uec_rag.encoders.lexical import LATIN, Lexical, writing_of
from uec_rag.stores.memory import MemoryStore

if TYPE_CHECKING:
    from spellchecker import SpellChecker

# Words that are not identifiers, numbers or abbreviations. Capitalised words are excluded except at
# the beginning, since a name that is not in the corpus need not be misspelt.
_WORD = regex.compile(r"\b[a-z]{4,24}\b|(?<=^\W*)[A-Z][a-z]{3,23}\b")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SHORTEST = 3  # letters of a replacement
_MOST = 8  # unknown words; a question with more is about something else rather than misspelt


def can_correct(encoders: Sequence[Encoder]) -> bool:
    """Return whether the encoders include BM25 with its own tokenizer, and a model with one."""
    words = any(isinstance(encoder, Lexical) and encoder.words for encoder in encoders)
    return words and any(getattr(encoder, "tokenizer", None) for encoder in encoders)


def corrected_questions(
    questions: Sequence[str], encoders: Sequence[Encoder], store: MemoryStore
) -> list[str]:
    """Replace misspelt words of questions; see `uec_rag.retrieval.Retriever.corrected`."""
    sparse: list[Encoder] = [each for each in encoders if isinstance(each, WithoutVectors)]
    words = [(n, e.words) for n, e in enumerate(sparse) if isinstance(e, Lexical) and e.words]
    [(block, tokens), *_], count = words, token_counter(encoders)

    def holding(forms: Sequence[str]) -> NDArray[np.int64]:
        return store.document_frequencies(block, tokens.stem_keys(forms))

    def is_token(word: str) -> bool:
        return count(word) == 1

    def is_word(word: str) -> bool:
        return is_token(word) or word in _dictionary()

    return [
        corrected(text, holding, is_word, is_token)
        if tokens.language or writing_of(text) == LATIN
        else text
        for text in questions
    ]


@cache
def _dictionary() -> SpellChecker:
    """Return the words of English, without which "stylus" would be read as "styles"."""
    from spellchecker import SpellChecker

    return SpellChecker()


def corrected(
    text: str,
    holding: Callable[[Sequence[str]], NDArray[np.int64]],
    is_word: Callable[[str], bool],
    is_common: Callable[[str], bool] | None = None,
) -> str:
    """Replace misspelt words of a question.

    Parameters
    ----------
    text : str
    holding : callable
        Returns the number of passages that contain each of several lower-case words, in any
        inflection.
    is_word : callable
        Returns whether a lower-case string is a word, whether in the corpus or not.
    is_common : callable, optional
        Returns whether a word may replace another; `is_word` by default. A dictionary has rare
        words, such as "welched", that are likely to replace names.

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
        counts = zip(others, holding(others).tolist(), strict=True)
        # Counts are those of stems, and "probator" has the stem of "probation".
        known = [
            (other, count) for other, count in counts if count and (is_common or is_word)(other)
        ]
        if known:
            found[word] = max(known, key=itemgetter(1))[0]
    return _WORD.sub(lambda match: found.get(match[0].lower(), match[0]), text)


def _one_letter_away(word: str) -> list[str]:
    """List all strings with two neighbours transposed, or one letter deleted, replaced or inserted.

    They are in this order, since the first of several with the same count is taken.
    """
    splits = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    found = [
        *(left + right[1] + right[0] + right[2:] for left, right in splits if len(right) > 1),
        *(left + right[1:] for left, right in splits if right),
        *(left + letter + right[1:] for left, right in splits if right for letter in _LETTERS),
        *(left + letter + right for left, right in splits for letter in _LETTERS),
    ]
    return [other for other in dict.fromkeys(found) if other != word and len(other) >= _SHORTEST]
