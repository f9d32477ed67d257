"""A text's terms: what a lexical member looks for, in any language, without being told which.

A word gives its stem and, at a fraction of its weight, the stem's first four letters and, outside
English, the word's runs of four: endings and compounds differ between forms of a word, beginnings
and middles do not. Scripts without spaces give pairs of neighbouring characters. An identifier
gives itself and its parts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from itertools import chain
from typing import TypeAlias

import numpy as np
import regex
import Stemmer
from numpy.typing import NDArray

from uec_rag.encoders.function_words import ENGLISH, FOREIGN

Tokenizer: TypeAlias = Callable[[str], list[str]]
"""What a user may give instead: the terms of a text, each as often as it occurs."""

FRAGMENT_WEIGHT = 0.25
"""Of a part of a word, where the word itself has 1."""

# Chosen on nDCG@10 of fourteen collections in five languages: .733 for stems, .739 with their first
# four letters at this weight (none worse), .755 with all runs of four, too, which costs English
# .015 at worst and four times the terms; hence those where they earn most.
_BEGINNING = 4
_RUN = 4
_MOST_WORDS = 2**18  # that are remembered at a time
_LONGEST = 128  # characters of a word; longer ones are data, which has no stem and no parts

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+")
_SPACELESS = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
_HAS_SPACELESS = regex.compile(_SPACELESS)
_STRETCH = regex.compile(rf"{_SPACELESS}+|(?:(?!{_SPACELESS}).)+")
_PART = regex.compile(r"\p{Lu}+(?=\p{Lu}\p{Ll})|\p{Lu}?\p{Ll}+|\p{Lu}+|\p{N}+|[\p{L}\p{M}]+")
_POINTS = regex.compile(r"[\u0640\u064b-\u0652\u0670]")  # Arabic, left out as often as written
# Scripts that tell the language, or one near enough; Latin does not.
_SCRIPTS = {
    "Arabic": "arabic",
    "Armenian": "armenian",
    "Cyrillic": "russian",
    "Devanagari": "hindi",
    "Greek": "greek",
    "Tamil": "tamil",
}


def languages() -> list[str]:
    """Names of the languages whose words can be stemmed."""
    return sorted(Stemmer.algorithms())


class WordTokenizer:
    """Words to keys, as the module says.

    Parameters
    ----------
    language : str, optional
        Of words in Latin letters, one of `languages`. By default English, and a text whose
        function words are of another language gives runs of letters, too.

    Examples
    --------
    >>> WordTokenizer().terms("Parsing HTTPServer errors")
    ['pars', 'httpserver', '~http', 'http', 'server', '~serv', 'error', '~erro']
    """

    def __init__(self, language: str | None = None) -> None:
        if language is not None and language not in languages():
            raise ValueError(f"language: expected one of {languages()}, got {language!r}.")
        self.language = language
        self._remembered: dict[tuple[str, bool], tuple[int, ...]] = {}

    def __call__(self, text: str) -> NDArray[np.uint64]:
        """Keys of a text's terms, each as often as it occurs."""
        words = split_words(text)
        runs = self._with_runs(words)
        keys = chain.from_iterable(self._keys(word, runs) for word in words)
        return np.fromiter(keys, dtype=np.uint64)

    def terms(self, text: str) -> list[str]:
        """The terms of a text; parts of words begin with ``~``."""
        words = split_words(text)
        runs = self._with_runs(words)
        return [term for word in words for term in self._terms(word, runs)]

    def named(self, text: str) -> dict[int, str]:
        """What to call the terms of a text that are no parts of words: the word, as written."""
        found: dict[int, str] = {}
        for word in split_words(text):
            whole, *others = (t for t in self._terms(word, False) if not t.startswith("~"))
            found[key_of(whole)] = whole if _HAS_SPACELESS.search(word) else word
            found.update((key_of(other), other) for other in others)
        return found

    def _keys(self, word: str, runs: bool) -> tuple[int, ...]:
        if len(word) > _LONGEST:
            return self._keys_anew(word, runs)
        # Most words come again and again.
        known = self._remembered.get((word, runs))
        if known is None:
            if len(self._remembered) >= _MOST_WORDS:
                self._remembered = {}
            known = self._keys_anew(word, runs)
            self._remembered[word, runs] = known
        return known

    def _keys_anew(self, word: str, runs: bool) -> tuple[int, ...]:
        return tuple(key_of(t, part=t.startswith("~")) for t in self._terms(word, runs))

    def _terms(self, word: str, runs: bool) -> Iterator[str]:
        spaceless = _HAS_SPACELESS.search(word)
        if len(word) > _LONGEST and not spaceless:
            yield word.casefold()
            return
        yield from self._forms(word.casefold().strip("_") or word, runs)
        parts = [] if spaceless else _PART.findall(word)
        if len(parts) > 1:
            for part in parts:
                yield from self._forms(part.casefold(), runs)

    def _forms(self, word: str, runs: bool) -> Iterator[str]:
        if _HAS_SPACELESS.search(word):
            for stretch in _STRETCH.findall(word):
                if not _HAS_SPACELESS.match(stretch):
                    yield from self._forms(stretch, runs)
                elif len(stretch) == 1:
                    yield stretch
                else:
                    yield from (stretch[i : i + 2] for i in range(len(stretch) - 1))
            return
        stem = self._stem(word)
        yield stem
        if len(stem) > _BEGINNING:
            yield f"~{stem[:_BEGINNING]}"
        if runs or not word.isascii():
            edged = f"_{word}_"
            yield from (f"~{edged[i : i + _RUN]}" for i in range(max(1, len(edged) - _RUN + 1)))

    def _stem(self, word: str) -> str:
        language = self.language or "english"
        if not word.isascii():
            language = next(
                (to for of, to in _SCRIPTS.items() if _script(of).search(word)), language
            )
        # A new one each time: none may be used by two threads, and words are remembered.
        stem: str = Stemmer.Stemmer(language, 0).stemWord(word)
        return stem

    def _with_runs(self, words: list[str]) -> bool:
        if self.language is not None:
            return self.language not in ("english", "porter", "lovins")
        lowered = [word.lower() for word in words]
        return sum(w in FOREIGN for w in lowered) > sum(w in ENGLISH for w in lowered)


def split_words(text: str) -> list[str]:
    """The words of a text, as they are written: stretches of letters, digits and underscores.

    Examples
    --------
    >>> split_words("os.path, naïve_case")
    ['os', 'path', 'naïve_case']
    """
    normal = text if text.isascii() else _POINTS.sub("", unicodedata.normalize("NFKC", text))
    words: list[str] = _WORD.findall(normal)
    return words


def key_of(term: str, *, part: bool = False) -> int:
    """A term as a number of 64 bits, odd for a part of a word.

    That any two of a million terms share one happens in 1 of 20 million indexes.
    """
    digest = int.from_bytes(blake2b(term.encode(), digest_size=8).digest(), "little")
    return digest | 1 if part else digest & ~1


def weights_of(keys: NDArray[np.uint64]) -> NDArray[np.float32]:
    """What each term weighs in a query."""
    return np.where(keys & np.uint64(1), FRAGMENT_WEIGHT, 1).astype(np.float32)


@cache
def _script(name: str) -> regex.Pattern[str]:
    return regex.compile(rf"\p{{{name}}}")
