"""The words of a question: how an index spells them, which are names, which of them hits have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

import numpy as np
import regex

from uec_rag.base.counts import idf
from uec_rag.base.text import FUNCTION_WORDS, WORD, says_little
from uec_rag.confidence.languages import ENGLISH, function_words
from uec_rag.encoders import lexical
from uec_rag.retrieval.query import Query
from uec_rag.stores.base import Store
from uec_rag.stores.local import View

# A word of letters alone, and not a part of a path, an option, a quotation or code.
_SPELLABLE = regex.compile(r"(?<![\w./@\\:`\"'’“«-])\p{L}{3,24}(?![\w/@\\`\"'’”»-]|\.\w)")
_MOST_SPELLED = 8  # words of a question that are looked up in other spellings
_SHORT = 3  # letters of a word that is taken for a function word alone: others are often codes

# A digit, an underscore, an inner capital, an option.
_MARKED = regex.compile(r"\p{N}|_|\p{Ll}\p{Lu}|^-")
_DOTTED = regex.compile(r"(?<!\w)\w++(?:\.\w++)++")  # "setup.cfg"
_ENDS, _MARKS = tuple(".!?:"), "\"“”«»'`(["


def spell(queries: Sequence[Query], store: Store) -> list[Query]:
    """Note how the words of questions are written in a store, where it has them in another way.

    For a word that no passage has, the nearest one is taken, but never for a name. Of a date, the
    day that passages have is spelled out.
    """
    if store.remote or not len(store):
        return [*queries]
    view = cast(View, store.snapshot())
    return [replace(query, spelled=_spelled(query, view)) for query in queries]


def _spelled(query: Query, view: View) -> str:
    def count(keys: Iterable[int]) -> list[int]:
        counts: list[int] = view.counts_of(np.array([*keys], dtype=np.uint64)).tolist()
        return counts

    text, known = query.text, FUNCTION_WORDS | function_words(query.language)
    words = [word for word in _SPELLABLE.findall(text) if not says_little(word, known)]
    labels = lexical.words_by_key(words)
    unknown = {
        word for word, there in zip(labels.values(), count(labels), strict=True) if not there
    }
    if unknown:
        unknown -= _names_of(query, unknown)
    nearest = {word: _nearest(word, view) for word in sorted(unknown)[:_MOST_SPELLED]}
    spelled = _SPELLABLE.sub(lambda word: nearest.get(word[0]) or word[0], text)
    spelled = lexical.spell_dates(spelled, lambda day: any(count([lexical.key_of(day)])))
    return "" if spelled == text else spelled


def _nearest(word: str, view: View) -> str:
    """Return the word of a view, or the function word, that is most likely meant; "" if none."""
    words, keys, often = lexical.near_words(word)
    counts = np.array([near in FUNCTION_WORDS for near in words], dtype=np.int64)
    if len(word) > _SHORT:
        counts += view.counts_of(keys)
    likely = np.where(counts > 0, often + np.log1p(counts), -np.inf)
    best = int(likely.argmax())
    return words[best] if counts[best] else ""


def missing(query: Query, found: Iterable[Iterable[str]], words: Iterable[str]) -> list[str]:
    """List the content words of a question that no hit has; only names, if there are any.

    `found`: the words that each hit has. `words`: those of the question.
    """
    known, without = {word for of_hit in found for word in of_hit}, function_words(query.language)
    content = [word for word in words if word.casefold() not in without]
    named = _names_of(query, content)
    return [word for word in content if word not in known and (word in named or not named)]


def word_evidence(
    query: Query, hits: Sequence[tuple[str, Collection[str]]], rarity: Mapping[str, float]
) -> tuple[float, float]:
    """Compute the `WORDS`: the parts of a question's words that its first hits have; 1 is all.

    - "coverage": the share of the idf of its content words that one hit has, at most.
    - "names": 1 if a hit has all its names, numbers and identifiers, or there are none; else 0. The
      only content word of a question counts as a name.

    They are NaN, not known, if the question is in another script than the first hit and not in
    Latin letters, or has no content word.

    `hits`: the text of each, and the question's words that it has. `rarity`: the idf of the words.
    """
    question, without = query.text, function_words(query.language)
    script = lexical.letters_in(question)
    if script != lexical.LATIN and script != lexical.letters_in(hits[0][0]):
        return np.nan, np.nan
    content = {
        word: idf_of_word
        for word, idf_of_word in rarity.items()
        # The hits of a question need not have the words of its turns.
        if not says_little(word, without) and (not query.turns or word in question)
    }
    if not content:
        return np.nan, np.nan
    named = _names_of(query, content) if len(content) > 1 else {*content}
    compounds, total = lexical.compounds(question), sum(content.values())
    coverage, has_names = 0.0, False
    for text, matched in hits:
        known = {*matched}
        # "WiFi" also stands for "Wi" and "Fi", and these for it; a day for others of its date.
        implied = set[str]()
        for word, parts in compounds:
            if word in known or known.issuperset(parts):
                known.update([word, *parts])
                implied.update(parts)
        having = [content[word] for word in content if word in known]
        coverage = max(coverage, sum(having) / total)
        if named <= known and not has_names:
            has_names = lexical.has_words(text, named - implied)
    return coverage, float(has_names)


def _names_of(query: Query, words: Collection[str]) -> set[str]:
    return names_in(query.text, words, english=query.language == ENGLISH)


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
    content = [w for w in words if not says_little(w, FUNCTION_WORDS) and w[:1].isalpha()]
    capital = set[str]()
    for before, word in pairwise(question.split()):
        if before[-1] not in _ENDS:
            capital |= {part for part in WORD.findall(word.lstrip(_MARKS)) if part[0].isupper()}
    is_title = question.split(None, 1)[0] in content and all(w[0].isupper() for w in content)
    return chosen if is_title else chosen | capital.intersection(content)


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
    labels = lexical.words_by_key(lexical.split_words(question))
    keys = [labels.keys() & set(lexical.keys_of(text).tolist()) for text in texts]
    words = [{labels[key] for key in of_text} for of_text in keys]
    counts = {word: sum(word in of_text for of_text in words) for word in labels.values()}
    rarity = idf(np.array([*counts.values()], dtype=np.int64), max(size, len(texts)))
    return words, dict(zip(counts, rarity.tolist(), strict=True))
