"""Correction of words of a question that the corpus spells in another way.

A word that no passage contains is considered misspelt if it is neither a single token of a model
nor in a dictionary of English, and a common word of the corpus is one edit away: a missing,
additional, wrong or transposed letter. Common words are single tokens of a model that a passage
contains, English words that a few do, and names that several do ("netlify"). A word in British
spelling is replaced by that in American spelling if ten times as many passages have it, or the
other way round. "utf8" is split if passages only have its parts, as in "UTF-8".

All members then encode the corrected question, since a model splits a misspelt word into
meaningless pieces; the result records it (`Result.asked_as`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import regex
from numpy.typing import NDArray

from uec_rag.confidence.wording import LONGEST_ASKED
from uec_rag.encoders.base import Encoder, TermEncoder, token_counter
from uec_rag.encoders.lexical import LATIN, Lexical, writing_of
from uec_rag.stores.memory import MemoryStore

if TYPE_CHECKING:
    from spellchecker import SpellChecker

# Words that are not identifiers, numbers or abbreviations. Capitalised words are excluded except at
# the beginning, since a name that is not in the corpus need not be misspelt.
_WORD = regex.compile(r"\b[a-z]{4,24}\b|(?=[A-Z])(?<=^\W*)[A-Z][a-z]{3,23}\b")
# Not in an option, a path or an identifier.
_WITH_DIGITS = regex.compile(r"(?<![\w./@-])([A-Za-z]{2,24})([0-9]{1,4})(?![\w/@(-])")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SHORTEST = 3  # letters of a replacement
_FEW, _SEVERAL = 3, 5  # passages that contain a replacement which is not a token, or not a word
# British, American, and what is before and after these letters.
_END = r"(?=e[drs]?$|es$|ing$|ations?$|able$)"
_BRITISH = [
    ("is", "iz", r"(?<=\w{3})", _END),
    ("ys", "yz", r"(?<=anal|paral|catal)", _END),
    ("our", "or", r"(?<=\w\w)", r"(?=$|s$|ed$|ing$|ful$|al$|ite$)"),
    ("re", "er", r"(?<=cent|fib|lit|met|theat)", r"(?=$|s$)"),
    ("ogue", "og", r"(?<=anal|catal|dial)", r"(?=$|s$)"),
    ("ence", "ense", r"(?<=def|lic|off)", r"(?=$|s$)"),
]
_VARIANTS = [
    (regex.compile(before + spelt + after), other)
    for british, american, before, after in _BRITISH
    for spelt, other in ((british, american), (american, british))
]
_USUAL = 10  # times as many passages have the other spelling
_MOST = 8  # unknown words; a question with more is about something else rather than misspelt


def can_correct(encoders: Sequence[Encoder]) -> bool:
    """Return whether the encoders include BM25 with its own tokenizer, and a model with one."""
    words = any(isinstance(encoder, Lexical) and encoder.words for encoder in encoders)
    return words and any(getattr(encoder, "tokenizer", None) for encoder in encoders)


def corrected_questions(
    questions: Sequence[str], encoders: Sequence[Encoder], store: MemoryStore
) -> list[str]:
    """Replace misspelt words of questions; see `uec_rag.retrieval.Retriever.corrected`."""
    sparse: list[Encoder] = [each for each in encoders if isinstance(each, TermEncoder)]
    words = [(n, e.words) for n, e in enumerate(sparse) if isinstance(e, Lexical) and e.words]
    [(block, tokens), *_], count = words, token_counter(encoders)

    def holding(forms: Sequence[str]) -> NDArray[np.int64]:
        return store.document_frequencies(block, tokens.stem_keys(forms))

    def is_token(word: str) -> bool:
        return count(word) == 1

    return [
        corrected(text, holding, is_token, lambda word: word in _dictionary())
        if len(text) <= LONGEST_ASKED and (tokens.language or writing_of(text) == LATIN)
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
    is_token: Callable[[str], bool],
    is_word: Callable[[str], bool],
) -> str:
    """Replace misspelt words of a question.

    Parameters
    ----------
    text : str
    holding : callable
        Returns the number of passages that contain each of several lower-case words, in any
        inflection.
    is_token, is_word : callable
        Returns whether a lower-case string is a single token of a model, or an English word,
        whether in the corpus or not.

    Examples
    --------
    >>> def holding(words):
    ...     return np.array([{"virtual": 3, "package": 9, "shell": 5}.get(w, 0) for w in words])
    >>> known = {"sell", "shell", "virtual", "package"}
    >>> corrected("Who can sell a virtul pacakge", holding, known.__contains__, known.__contains__)
    'Who can sell a virtual package'
    """

    def split(match: regex.Match[str]) -> str:
        """Split a word with digits; with a hyphen, both parts are still a name to look for."""
        whole, letters, digits = holding([part.lower() for part in match.group(0, 1, 2)]).tolist()
        return f"{match[1]}-{match[2]}" if letters and digits and not whole else match[0]

    text = _WITH_DIGITS.sub(split, text)
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))
    if not words:
        return text
    counts = dict(zip(words, holding(words).tolist(), strict=True))
    found = {word: o for word in words if (o := _other_spelling(word, counts[word], holding))}
    missing = [word for word, held in counts.items() if not held and word not in found]
    if len(missing) > _MOST:
        return text

    def rank(other: str, count: int) -> tuple[int, int, int]:
        """Rank a replacement: 0 if it is too rare, which English words are that replace names."""
        kind = 3 if count and is_token(other) else 0
        if not kind and count >= _FEW:
            kind = 2 if is_word(other) else int(count >= _SEVERAL)
        # Counts are those of stems, and "kubernets" has the stem of "kubernetes".
        return kind, count, len(other) if kind == 1 else 0

    for word in missing:
        if is_token(word) or is_word(word):
            continue
        others = _one_letter_away(word)
        ranks = [rank(*pair) for pair in zip(others, holding(others).tolist(), strict=True)]
        best = max(range(len(others)), key=ranks.__getitem__)
        if ranks[best][0]:
            found[word] = others[best]
    return _WORD.sub(lambda match: found.get(match[0].lower(), match[0]), text)


def _other_spelling(
    word: str, held: int, holding: Callable[[Sequence[str]], NDArray[np.int64]]
) -> str | None:
    """Return a word in British or American spelling if that is the usual one of the corpus."""
    variants = [other for spelt, by in _VARIANTS if (other := spelt.sub(by, word)) != word]
    usual = max(_SEVERAL, _USUAL * held)
    counts = holding(variants).tolist() if variants else []
    return next((w for w, count in zip(variants, counts, strict=True) if count >= usual), None)


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
