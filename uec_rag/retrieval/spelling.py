"""Correction of words of a question that the corpus spells in another way.

A word that no passage contains is considered misspelt if it is not a single token of a model, and a
common word of the corpus is one edit away: a missing, additional, wrong or transposed letter.
Common words are single tokens of a model that a passage contains, and names that several do
("netlify"). A question with one content word alone stays as it is: nothing tells whether "asdf" is
a word.

All members then encode the corrected question, since a model splits a misspelt word into
meaningless pieces; the result records it (`Result.with_original_query`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import regex
from numpy.typing import NDArray

from uec_rag.base.text import FUNCTION_WORDS, LONGEST_ASKED
from uec_rag.encoders.base import Encoder, TermEncoder, token_counter
from uec_rag.encoders.lexical import LATIN, Lexical, writing_of
from uec_rag.stores.base import Store
from uec_rag.stores.local import LocalStore, View

# Words that are not identifiers, numbers or abbreviations. Capitalised words are excluded except at
# the beginning, since a name that is not in the corpus need not be misspelt.
_WORD = regex.compile(r"\b[a-z]{4,24}\b|(?=[A-Z])(?<=^\W*)[A-Z][a-z]{3,23}\b")
_ANY_WORD = regex.compile(r"\w{2,}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SHORTEST = 3  # letters of a replacement
_SEVERAL = 5  # passages that contain a replacement which is not a token
_MOST = 8  # unknown words; a question with more is about something else rather than misspelt


def correct_spelling(
    questions: Sequence[str], encoders: Sequence[Encoder], store: Store
) -> list[str]:
    """Correct misspelt words of questions.

    A word that no passage contains and that a model's tokenizer splits is replaced by the word one
    letter away that is not split and that most passages contain. This needs a store in memory, BM25
    with its own tokenizer, and a model that has one. Otherwise, or if a question is not in English,
    nothing is replaced.
    """
    sparse: list[Encoder] = [each for each in encoders if isinstance(each, TermEncoder)]
    words = [(n, e.words) for n, e in enumerate(sparse) if isinstance(e, Lexical) and e.words]
    has_tokenizer = any(getattr(encoder, "tokenizer", None) for encoder in encoders)
    if not words or not has_tokenizer or not isinstance(store, LocalStore | View) or not len(store):
        return [*questions]
    (block, tokens), count = words[0], token_counter(encoders)

    def document_frequency(forms: Sequence[str]) -> NDArray[np.int64]:
        return store.snapshot().document_frequencies(block, tokens.stem_keys(forms))

    def is_token(word: str) -> bool:
        return count(word) == 1

    return [
        correct_text(text, document_frequency, is_token)
        if len(text) <= LONGEST_ASKED and (tokens.language or writing_of(text) == LATIN)
        else text
        for text in questions
    ]


def correct_text(
    text: str,
    document_frequency: Callable[[Sequence[str]], NDArray[np.int64]],
    is_token: Callable[[str], bool],
) -> str:
    """Replace misspelt words of a question.

    Parameters
    ----------
    text : str
    document_frequency : callable
        Returns the number of passages that contain each of several lower-case words, in any
        inflection.
    is_token : callable
        Returns whether a lower-case string is a single token of a model, whether in the corpus or
        not.

    Examples
    --------
    >>> def document_frequency(words):
    ...     return np.array([{"virtual": 3, "package": 9, "shell": 5}.get(w, 0) for w in words])
    >>> known = {"sell", "shell", "virtual", "package"}
    >>> correct_text("Who can sell a virtul pacakge", document_frequency, known.__contains__)
    'Who can sell a virtual package'
    """
    if len({word.lower() for word in _ANY_WORD.findall(text)} - FUNCTION_WORDS) < 2:
        return text
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))
    counts = document_frequency(words).tolist() if words else []
    missing = [word for word, held in zip(words, counts, strict=True) if not held]
    if len(missing) > _MOST:
        return text

    def rank(other: str, count: int) -> tuple[int, int, int]:
        """Rank a replacement: 0 if it is too rare."""
        kind = 2 if count and is_token(other) else int(count >= _SEVERAL)
        # Counts are those of stems, and "kubernets" has the stem of "kubernetes".
        return kind, count, len(other) if kind == 1 else 0

    corrections = {}
    for word in missing:
        if is_token(word):
            continue
        others = _one_letter_away(word)
        ranks = [
            rank(*pair) for pair in zip(others, document_frequency(others).tolist(), strict=True)
        ]
        best = max(range(len(others)), key=ranks.__getitem__)
        if ranks[best][0]:
            corrections[word] = others[best]
    return _WORD.sub(lambda match: corrections.get(match[0].lower(), match[0]), text)


def _one_letter_away(word: str) -> list[str]:
    """List all strings with two neighbours transposed, or one letter deleted, replaced or inserted.

    They are in this order, since the first of several with the same count is taken.
    """
    splits = [(word[:position], word[position:]) for position in range(len(word) + 1)]
    neighbours = [
        *(left + right[1] + right[0] + right[2:] for left, right in splits if len(right) > 1),
        *(left + right[1:] for left, right in splits if right),
        *(left + letter + right[1:] for left, right in splits if right for letter in _LETTERS),
        *(left + letter + right for left, right in splits for letter in _LETTERS),
    ]
    return [
        other for other in dict.fromkeys(neighbours) if other != word and len(other) >= _SHORTEST
    ]
