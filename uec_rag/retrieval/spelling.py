"""Spelling the words of a question as an index does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import compress, product
from math import prod

import numpy as np
import regex

from uec_rag.base.text import FUNCTION_WORDS, is_abbreviation, telling_words
from uec_rag.encoders import lexical
from uec_rag.encoders.notations import in_one_form
from uec_rag.evidence.words import Rarity, names_in
from uec_rag.questions.languages import ENGLISH, function_words
from uec_rag.questions.query import Query
from uec_rag.stores.local import View

# A word of letters alone, and not a part of a path, an option, a quotation or code.
_SPELLABLE = regex.compile(r"(?<![\w./@\\:`\"'’“«-])\p{L}{3,24}(?![\w/@\\`\"”»-]|\.\w|['’](?!s\b))")
_VOWEL = dict(zip("äöüÄÖÜ", "aouAOU", strict=True))
_LETTER = {vowel: letter for letter, vowel in _VOWEL.items()}
_UMLAUT = regex.compile("[äöüÄÖÜ]")
# How an umlaut is written without its letter, but not the "ue" of "neue" and "Quelle".
_TRANSCRIBED = regex.compile(r"(?<![aeoq])(?:[aou]e)", regex.IGNORECASE)
_LONG, _LONG_NAME, _MOST_UMLAUTS = 4, 5, 3
_EITHER = 0.9  # how likely the other form of an ordinal is meant if passages have both
_DIGIT = regex.compile(r"\d")
_IN_WORDS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
_PAIRS = {
    word: f"{at}{['st', 'nd', 'rd'][at - 1] if at < 4 else 'th'}"
    for at, word in enumerate(_IN_WORDS.split(), 1)
}
_TWINS = _PAIRS | {digits: word for word, digits in _PAIRS.items()}
"""English ordinals in words by those in digits, and the other way round."""

_ORDINAL = regex.compile(rf"(?<![\w-])(?:{'|'.join(_TWINS)})(?![\w-])", regex.IGNORECASE)
_MOST_SPELLED = 8  # words of a question that are looked up in other spellings
_TITLE = 3  # words that say something, of a text that may be a title in capitals
_LIKELY = 0.1  # probability above which another word is tried

# In log odds, how likely it is that a word that no passage has is meant, with the weight of each of
# its letters; and that another is, with the weights of the logs of the number and of the share of
# its passages, of each letter that its stem lacks, and of a function word. For both, the weights of
# how rare a word is, in all and up to `_UNUSUAL`. Learned as `benchmarks.quality.spelling` does, on
# its collections and three further manuals, if 5% of words are mistyped; the second row is for
# encoders that do not tell how rare a word is.
_KEPT, _MEANT, _RARE = [
    np.array(rows)
    for rows in (
        [(5.5, -0.39), (4.94, -0.61)],
        [(0.37, 0.34, -0.53, 0.83), (0.68, 0.22, -0.9, 1.44)],
        [(-0.31, -0.55), (0, 0)],
    )
]
_UNUSUAL = 12.0
# How rare the last word of a vocabulary of 30,000 is, and the 6,000th; one in pieces is rarer.
_WORD, _FREQUENT = 10.4, 8.7


def spell(queries: Sequence[Query], view: View, rarity: Rarity | None = None) -> list[Query]:
    """Note how the words of questions are written in a view, where it has them in another way.

    An ordinal is in digits or in words as passages have it, "2nd" or "second". For a word that no
    passage has, the nearest one is taken if it is likely meant, but never for a name or a word that
    an encoder knows, in a form of it: "bake" is no "base". Of a date, the day that passages have is
    spelled out. What asks nothing stays as it is.

    `rarity`: see `UEC.rarity`.
    """
    if not len(view):
        return [*queries]
    return [_spell(query, view, rarity) if query.asks else query for query in queries]


def _spell(query: Query, view: View, rarity: Rarity | None) -> Query:
    def count(keys: Iterable[int]) -> list[int]:
        counts: list[int] = view.counts_of(np.array([*keys], dtype=np.uint64)).tolist()
        return counts

    def twin(ordinal: regex.Match[str]) -> str:
        word, form = ordinal[0], _TWINS[ordinal[0].lower()]
        here, there = count(lexical.term_key(lexical.terms_of(term)[0]) for term in (word, form))
        is_in_both.append(bool(here and there))
        return form if there else word

    is_in_both = list[bool]()
    text = _ORDINAL.sub(twin, query.text)
    form, likely = in_one_form(text), _EITHER if any(is_in_both) else 1.0
    words = telling_words(_SPELLABLE.findall(form), _known(query.language))
    labels = lexical.words_by_key(words)
    unknown = {
        word for word, there in zip(labels.values(), count(labels), strict=True) if not there
    }
    if not unknown and not _DIGIT.search(text):  # as of dates
        return query if text == query.text else replace(query, spelled=text, likely=likely)
    german = sorted(word for word in unknown if _UMLAUT.search(word) or _TRANSCRIBED.search(word))
    names = set[str]()
    if unknown:
        is_english = query.language == ENGLISH
        names = names_in(form, words, english=is_english) & unknown
        unknown -= {*filter(is_abbreviation, words)}.union(
            name for name in names if not _may_be_mistyped(name, rarity)
        )
    if rarity is not None:
        unknown -= {word for word in unknown if _is_known(word, rarity)}
    if query.language == ENGLISH and len(words) < _TITLE:
        unknown -= {word for word in words[1:] if word[0].isupper()}
    pairs = {word: _nearest(word, view, rarity) for word in sorted(unknown)[:_MOST_SPELLED]}
    pairs = {
        word: pair
        for word, pair in pairs.items()
        if word not in names or not _is_word(pair[0], rarity)  # "Repars" is no "repairs"
    }
    for word in german[:_MOST_SPELLED]:
        for form in _transcriptions(word):
            # The parts of a word keep their umlauts: "poet" is no "pot", and a plural has most.
            terms = lexical.terms_of(form)
            counts = count(map(lexical.term_key, [*filter(_UMLAUT.search, terms)] or terms[:1]))
            if 2 * sum(map(bool, counts)) > len(counts):
                pairs[word] = form, 1.0
                break
    nearest = {word: match for word, (match, share) in pairs.items() if share > _LIKELY}
    spelled = _SPELLABLE.sub(lambda word: nearest.get(word[0]) or word[0], text)
    spelled = lexical.spell_dates(
        spelled, lambda terms: [*compress(terms, count([*map(lexical.term_key, terms)]))]
    )
    if spelled == query.text:
        return query
    return replace(query, spelled=spelled, likely=likely * prod(pairs[word][1] for word in nearest))


def _transcriptions(word: str) -> list[str]:
    """Return the other spellings of a German word: "Gebühr" of "Gebuehr", and the other way round.

    Examples
    --------
    >>> _transcriptions("Gebuehr"), _transcriptions("Gebühr"), _transcriptions("Steuern")
    (['Gebühr'], ['Gebuehr'], [])
    """
    if _UMLAUT.search(word):
        return [_UMLAUT.sub(lambda letter: f"{_VOWEL[letter[0]]}e", word)]
    places = [match.start() for match in _TRANSCRIBED.finditer(word)]
    if len(word) < _LONG or not 0 < len(places) <= _MOST_UMLAUTS:
        return []
    forms = list[str]()
    for chosen in product((True, False), repeat=len(places)):
        form = word
        for place in [*compress(places, chosen)][::-1]:
            form = f"{form[:place]}{_LETTER[form[place]]}{form[place + 2 :]}"
        forms.append(form)
    return forms[:-1]  # the last one is the word


@cache
def _known(language: str) -> frozenset[str]:
    return FUNCTION_WORDS | function_words(language)


def _may_be_mistyped(name: str, rarity: Rarity | None) -> bool:
    """Return whether a name is long, and none that an encoder knows: "Chicag", but not "Iraq"."""
    return rarity is not None and len(name) >= _LONG_NAME and rarity(name.casefold()) > _WORD


def _is_known(word: str, rarity: Rarity) -> bool:
    """Return whether an encoder knows a word as a frequent one, or in two English forms of it.

    Rare words of a vocabulary are names, too, such as "Wat" and "Mae".
    """
    text = word.casefold()
    stem = text.removesuffix("e")
    if (text != stem and rarity(stem) < _WORD) or (text == stem and rarity(f"{text}s") > _WORD):
        return rarity(text) < _FREQUENT  # "folde" and "pric" have the forms of other words
    return rarity(text) < _FREQUENT or _has_forms(text, rarity)


def _is_word(name: str, rarity: Rarity | None) -> bool:
    """Return whether what may be meant by a name is a word in other forms, too."""
    return rarity is not None and _has_forms(lexical.stem_of(name), rarity)


def _has_forms(text: str, rarity: Rarity) -> bool:
    """Return whether an encoder knows an English word in two forms of it."""
    stem = text.removesuffix("e")
    forms = (f"{text}s", f"{stem}ed", f"{stem}ing", f"{stem}er")
    return sum(rarity(form) < _WORD for form in forms) > 1


def _nearest(word: str, view: View, rarity: Rarity | None) -> tuple[str, float]:
    """Return the word of a view, or the function word, that is most likely meant, and how likely.

    By Bayes' rule, among the words at an edit distance of 1 and the word as it is.
    """
    edits, keys, scores = lexical.near_words(word)
    function = np.array([edit in FUNCTION_WORDS for edit in edits])
    counts = view.counts_of(keys) + function
    rows = np.flatnonzero(counts)
    if not len(rows):
        return "", 0.0
    words, row = [edits[at] for at in rows.tolist()], int(rarity is None)
    rare = np.array([rarity(w) if rarity else 0 for w in (*words, word.casefold())])
    prior = np.stack([rare, np.minimum(rare, _UNUSUAL)], axis=1) @ _RARE[row]
    stripped = [min(len(w) - len(lexical.stem_of(w)), 4) for w in words]
    shares = (counts[rows] + 0.5) / (len(view) + 1)
    features = np.column_stack([np.log1p(counts[rows]), np.log(shares), stripped, function[rows]])
    logs = np.append(scores[rows] + features @ _MEANT[row], _KEPT[row] @ (1, len(word))) + prior
    odds = np.exp(logs - logs.max())
    _, stem = np.unique(keys[rows], return_inverse=True)
    of_stem = np.bincount(stem, odds[:-1])
    best = int(np.where(stem == of_stem.argmax(), odds[:-1], -1).argmax())
    return words[best], float(of_stem.max() / odds.sum())
