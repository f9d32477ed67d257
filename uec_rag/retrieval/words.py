"""The words of a question: how an index spells them, which are names, which of them hits have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TypeAlias, cast

import numpy as np
import regex

from uec_rag.base.counts import idf
from uec_rag.base.text import (
    FUNCTION_WORDS,
    WORD,
    first_difference,
    is_abbreviation,
    path_parts,
    says_little,
)
from uec_rag.confidence.counterevidence import log_likelihood_ratio
from uec_rag.confidence.languages import ENGLISH, function_words
from uec_rag.confidence.model import JUDGED
from uec_rag.encoders import lexical
from uec_rag.retrieval.query import Query
from uec_rag.stores.base import Passage, Searched
from uec_rag.stores.candidates import CandidateStore
from uec_rag.stores.local import View

Rarity: TypeAlias = Callable[[str], float]

# A word of letters alone, and not a part of a path, an option, a quotation or code.
_SPELLABLE = regex.compile(r"(?<![\w./@\\:`\"'’“«-])\p{L}{3,24}(?![\w/@\\`\"”»-]|\.\w|['’](?!s\b))")
_MOST_SPELLED = 8  # words of a question that are looked up in other spellings
_TITLE = 3  # words that say something, of a text that may be a title in capitals
_LIKELY = 0.1  # probability above which another word is tried

# A digit, an underscore, an inner capital, an option.
_MARKED = regex.compile(r"\p{N}|_|\p{Ll}\p{Lu}|^-")
_DOTTED = regex.compile(r"(?<!\w)\w++(?:\.\w++)++")  # "setup.cfg"
_ENDS, _MARKS = tuple(".!?:"), "\"“”«»'`(["


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


def spell(queries: Sequence[Query], store: Searched, rarity: Rarity | None = None) -> list[Query]:
    """Note how the words of questions are written in a store, where it has them in another way.

    For a word that no passage has, the nearest one is taken if it is likely meant, but never for a
    name. Of a date, the day that passages have is spelled out. What asks nothing stays as it is.

    `rarity`: see `UEC.rarity`.
    """
    if isinstance(store, CandidateStore) or not len(store):
        return [*queries]
    view = cast(View, store.snapshot())
    return [_spell(query, view, rarity) if query.asks else query for query in queries]


def _spell(query: Query, view: View, rarity: Rarity | None) -> Query:
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
        unknown -= _names_of(query, words) | {*filter(is_abbreviation, words)}
    if query.language == ENGLISH and len(words) < _TITLE:
        unknown -= {word for word in words[1:] if word[0].isupper()}
    found = {word: _nearest(word, view, rarity) for word in sorted(unknown)[:_MOST_SPELLED]}
    nearest = {word: meant for word, (meant, likely) in found.items() if likely > _LIKELY}
    spelled = _SPELLABLE.sub(lambda word: nearest.get(word[0]) or word[0], text)
    spelled = lexical.spell_dates(spelled, lambda day: any(count([lexical.key_of(day)])))
    if spelled == text:
        return query
    return replace(query, spelled=spelled, likely=prod(found[word][1] for word in nearest))


def _nearest(word: str, view: View, rarity: Rarity | None) -> tuple[str, float]:
    """Return the word of a view, or the function word, that is most likely meant, and how likely.

    By Bayes' rule, among the words at an edit distance of 1 and the word as it is.
    """
    near, keys, scores = lexical.near_words(word)
    function = np.array([one in FUNCTION_WORDS for one in near])
    counts = view.counts_of(keys) + function
    some = np.flatnonzero(counts)
    if not len(some):
        return "", 0.0
    words, row = [near[at] for at in some.tolist()], int(rarity is None)
    rare = np.array([rarity(one) if rarity else 0 for one in (*words, word.casefold())])
    known = np.stack([rare, np.minimum(rare, _UNUSUAL)], axis=1) @ _RARE[row]
    stripped = [min(len(one) - len(lexical.stem_of(one)), 4) for one in words]
    shares = (counts[some] + 0.5) / (len(view) + 1)
    told = np.column_stack([np.log1p(counts[some]), np.log(shares), stripped, function[some]])
    logs = np.append(scores[some] + told @ _MEANT[row], _KEPT[row] @ (1, len(word))) + known
    odds = np.exp(logs - logs.max())
    _, stem = np.unique(keys[some], return_inverse=True)
    of_stem = np.bincount(stem, odds[:-1])
    best = int(np.where(stem == of_stem.argmax(), odds[:-1], -1).argmax())
    return words[best], float(of_stem.max() / odds.sum())


def missing(query: Query, found: Iterable[Iterable[str]], words: Iterable[str]) -> list[str]:
    """List the content words of a question that no hit has; only names, if there are any.

    `found`: the words that each hit has. `words`: those of the question.
    """
    known, without = {word for of_hit in found for word in of_hit}, function_words(query.language)
    content = [word for word in words if word.casefold() not in without]
    named = _names_of(query, content)
    return [word for word in content if word not in known and (word in named or not named)]


@dataclass(frozen=True)
class Content:
    """The content words of a question.

    Attributes
    ----------
    rarity : mapping of str to float
        The idf of each; without those of the turns, which the hits of a question need not have.
    names : set of str
        Those that are names, numbers and identifiers.
    compounds : sequence of (str, list of str)
        See `lexical.compounds`.
    """

    rarity: Mapping[str, float]
    names: Collection[str]
    compounds: Sequence[tuple[str, list[str]]]

    @classmethod
    def of(cls, query: Query, rarity: Mapping[str, float]) -> Content:
        """Choose the content words of a question; `rarity`: the idf of all of its words."""
        without = function_words(query.language)
        content = {
            word: idf_of_word
            for word, idf_of_word in rarity.items()
            if not says_little(word, without) and (not query.turns or word in query.text)
        }
        if not content:
            return cls({}, set(), [])
        return cls(content, _names_of(query, content), lexical.compounds(query.text))


def word_evidence(
    query: Query, content: Content, hits: Sequence[tuple[str, Collection[str]]]
) -> tuple[float, float]:
    """Compute the `WORDS`: the parts of a question's words that its first hits have; 1 is all.

    - "coverage": the share of the idf of its content words that one hit has, at most.
    - "names": 1 if a hit has all its names, numbers and identifiers, or there are none; else 0. The
      only content word of a question counts as a name.

    They are NaN, not known, if the question is in another script than the first hit and not in
    Latin letters, or has no content word.

    `hits`: the text of each, and the question's words that it has.
    """
    script, rarity = lexical.letters_in(query.text), content.rarity
    if script != lexical.LATIN and script != lexical.letters_in(hits[0][0]):
        return np.nan, np.nan
    if not rarity:
        return np.nan, np.nan
    named = {*(content.names if len(rarity) > 1 else rarity)}
    total, coverage, has_names = sum(rarity.values()), 0.0, False
    for text, matched in hits:
        known, implied = _known(matched, content.compounds)
        having = [rarity[word] for word in rarity if word in known]
        coverage = max(coverage, sum(having) / total)
        if named <= known and not has_names:
            has_names = lexical.has_words(text, named - implied)
    return coverage, float(has_names)


def name_evidence(
    content: Content, passages: Sequence[Passage], words: Sequence[Collection[str]], size: int
) -> list[float]:
    """Compute what it says of each of the first hits that it lacks a name of the question.

    The more passages have a name, the less a hit lacks it by chance. A product's folder is a name
    in any case: who asks for it means what is in there. It is a log likelihood ratio, that of the
    name which tells the most; 0 if no name is missing. Of a later hit with all names, it is the
    part of the first one's by which it has less of the other words.

    Parameters
    ----------
    passages, words
        The different hits, best first, and the words of the question that each has.
    size
        The number of passages by which words are rare.
    """
    rarity = content.rarity
    wanted = rarity.keys() - words[0]
    if not wanted:
        return [0.0] * len(words[:JUDGED])
    folders = _folder_names([passage.about.source for passage in passages], content)
    costs = dict[str, float]()
    for word in wanted:
        is_folder = word.casefold() in folders
        if is_folder or word in content.names:
            kind = "outside" if is_folder else "unnamed"
            count = (size + 1) * np.exp(-rarity[word]) - 0.5
            costs[word] = log_likelihood_ratio(kind, 1 - min(max(count / size, 0.0), 1.0))
    found, of_first = list[float](), 0.0
    for passage, matched in zip(passages[:JUDGED], words[:JUDGED], strict=True):
        known, _ = _known(matched, content.compounds)
        said = sum(rarity[word] for word in rarity.keys() & known - costs.keys())
        if not found:
            of_first = max(said, 1e-9)
        lacks = {w for w in costs.keys() - known if not lexical.has_words(passage.with_source, [w])}
        less = found[0] * max(1 - said / of_first, 0.0) if found else 0.0
        found.append(min((costs[word] for word in lacks), default=less))
    return found


def _folder_names(sources: Sequence[str], content: Content) -> set[str]:
    """Return the words by which a question names a folder, where the paths first differ.

    In small letters, it has all of the folder's words: the web is not "Web clipper".
    """
    _, folders = first_difference(path_parts(source)[:-1] for source in {*sources})
    said, names = ({*map(str.casefold, words)} for words in (content.rarity, content.names))
    found = set[str]()
    for words in map(_folder_words, {*folders}):
        found |= words if words <= said else words & names
    return found


@lru_cache(4096)
def _folder_words(name: str) -> frozenset[str]:
    return frozenset(lexical.split_words(name.replace("_", " ").casefold()))


def _known(
    matched: Collection[str], compounds: Sequence[tuple[str, list[str]]]
) -> tuple[set[str], set[str]]:
    """Return the words that a hit has, and those of them that only a compound implies.

    "WiFi" also stands for "Wi" and "Fi", and these for it; a day for others of its date.
    """
    known, implied = {*matched}, set[str]()
    for word, parts in compounds:
        if word in known or known.issuperset(parts):
            known.update([word, *parts])
            implied.update(parts)
    return known, implied


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
