"""BM25 as a member of an ensemble, with the statistics of the corpus that is searched."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import unicodedata
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path

import numpy as np
import regex
import Stemmer
from numpy.typing import NDArray

from uec_rag.base.counts import K1, B
from uec_rag.base.gaussian import FloatArray, Terms
from uec_rag.base.records import remembered
from uec_rag.base.text import (
    ADDRESS,
    ENGLISH_WORDS,
    FUNCTION_WORDS,
    HAS_SPACELESS,
    SPACELESS,
    is_abbreviation,
    singular_and_plural,
    split_words,
)
from uec_rag.encoders.base import Encoded, Role, TermEncoder, prepare_texts
from uec_rag.encoders.notations import (
    FOREIGN,
    find_dates,
    find_wholes,
    in_one_form,
    keep_years,
    replace_dates,
    take_dotted,
    without_accents,
)
from uec_rag.questions.languages import MONTHS

_STEMMED = Path(__file__).with_name("stemmed.txt")

FRAGMENT_WEIGHT = 0.25
"""The weight of a part of a word; a whole word has 1."""

# Chosen by nDCG@10 on fourteen collections in five languages: .733 for stems; .739 with prefixes of
# four letters at this weight (worse on none); .755 with all n-grams of four letters, too, which
# costs English up to .015 and four times as many terms, so only texts that gain most have them.
_PREFIX = 4
_NGRAM = 4

IDENTIFIER_WEIGHT = 0.5
"""The weight of an identifier of several words, "bz2.compress", beside that of its words."""

FUNCTION_WEIGHT = 0.25
"""The weight of a function word of a query, as a share of that of other words.

In manuals "how" is often rarer than "install", and would weigh more.
"""

_PART_BITS, _IDENTIFIER_BITS = 1, 3  # the lowest two bits of keys; those of words are 0
_IN_IDENTIFIER = {".", "/"}
_CACHED_WORDS = 2**16  # words in the cache at a time, of 400 bytes each
_CACHED_LABELS = 2**14  # words of queries in the cache at a time
_of_thread = threading.local()  # its stemmers
_LONGEST = 128  # characters of a word; longer ones are data, without a stem or parts

# Options of commands: -n, --dry-run. A pattern that begins with a literal costs next to nothing.
_OPTION = re.compile(r"-(?:(?<![\w-]-)|(?<=[\u3040-\u9fff]-))-?[A-Za-z][A-Za-z0-9_-]*(?<!-)")
_IDENTIFIER = re.compile(r"\b(?<![./])[A-Za-z_]\w*+(?:[./]\w++)+", re.ASCII)
_JOINED = re.compile(r"[./](?<=\w.)\w", re.ASCII)  # what an identifier has; it costs a tenth
_STRETCH = regex.compile(rf"{SPACELESS}+|(?:(?!{SPACELESS}).)+")
_PART = regex.compile(r"\p{Lu}+(?=\p{Lu}\p{Ll})|\p{Lu}?\p{Ll}+|\p{Lu}+|\p{N}+|[\p{L}\p{M}]+")
# What is often omitted: Arabic diacritics, Hebrew points, nuktas and joiners of Indic scripts.
_POINTS = regex.compile(
    r"[\u0640\u064b-\u0652\u0670\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u093c\u09bc]"
    r"|(?<=\p{M})[\u200c\u200d]"
)
# Nasals of Devanagari that are also written as a dot: before a consonant of their row.
_NASAL = regex.compile(
    r"\u0901|(?:\u0919\u094d(?=[\u0915-\u0918])|\u091e\u094d(?=[\u091a-\u091d])"
    r"|\u0923\u094d(?=[\u091f-\u0922])|\u0928\u094d(?=[\u0924-\u0927])"
    r"|\u092e\u094d(?=[\u092a-\u092d]))"
)
_OF_LANGUAGES = {"de": "german", "es": "spanish", "fr": "french"}
_OF_LANGUAGES |= {"it": "italian", "pt": "portuguese"}
# Scripts that determine the stemmer, at least that of a related language; Latin does not.
_SCRIPTS = {
    "Arabic": "arabic",
    "Armenian": "armenian",
    "Cyrillic": "russian",
    "Devanagari": "hindi",
    "Greek": "greek",
    "Tamil": "tamil",
}


def terms_of(text: str) -> list[str]:
    """Return the terms of a text: stems, prefixes and letter n-grams of its words.

    Parts of words begin with ``~``. So does an identifier of several words, such as "bz2.compress"
    or "HTTP/3", which follows them as a whole. Texts whose function words are mostly of another
    language than English have letter n-grams.

    Examples
    --------
    >>> terms_of("Parsing HTTPServer errors")
    ['pars', 'httpserver', '~http', 'http', 'server', '~serv', 'error', '~erro']
    """
    words = written_words(text)
    ngrams = is_foreign(text, words)
    return [*(term for word in words for term in _terms(word, ngrams)), *_identifiers(text)]


def keys_of(text: str) -> NDArray[np.uint64]:
    """Return the keys of the terms of a text, with repetitions."""
    words = written_words(text)
    return _keys_of_text(text, words, is_foreign(text, words))


def _keys_of_text(text: str, words: Sequence[str], ngrams: bool) -> NDArray[np.uint64]:
    keys: list[int] = []
    for word in words:
        keys += (_keys_of if len(word) <= _LONGEST else _keys_of.__wrapped__)(word, ngrams)
    keys += map(term_key, _identifiers(text))
    return np.frombuffer(array("Q", keys), dtype=np.uint64)  # NumPy reads integers more slowly


def words_by_key(words: Iterable[str]) -> dict[int, str]:
    """Map the keys of a text's whole words to the words as written."""
    labels: dict[int, str] = {}
    for word in words:
        labels |= (_labels_of if len(word) <= _LONGEST else _labels_of.__wrapped__)(word)
    return labels


def is_foreign(text: str, words: Sequence[str]) -> bool:
    """Return whether the words of a text, but of its addresses, are not of English."""
    lowered = [*map(str.lower, words)]
    foreign = sum(map(FOREIGN.__contains__, lowered))
    english = sum(map(ENGLISH_WORDS.__contains__, lowered)) if foreign else 0
    if foreign and ("@" in text or "/" in text):
        # An expression over the whole text would take as long as all else.
        parts = [part for part in text.split() if "/" in part or "@" in part or "www." in part]
        is_open = foreign > english - len(split_words(" ".join(parts)))  # else nothing changes
        if is_open and any(map(ADDRESS.search, parts)):
            return is_foreign("", written_words(ADDRESS.sub(" ", text)))
    return foreign > english


@lru_cache(_CACHED_WORDS)
def _keys_of(word: str, ngrams: bool) -> tuple[int, ...]:
    return tuple(map(term_key, _terms(word, ngrams)))


_LETTERS = {"Cyrillic": "абвгдежзийклмнопрстуфхцчшщъыьэюяё", "Greek": "αβγδεζηθικλμνξοπρστυφχψω"}


@lru_cache(_CACHED_LABELS)
def near_words(word: str) -> tuple[list[str], NDArray[np.uint64], NDArray[np.float32]]:
    """Return the words at an edit distance of 1, with their keys and how likely each edit is.

    An edit adds, swaps, removes or replaces a letter that is not the first. How likely is a log.

    Examples
    --------
    >>> words, _, _ = near_words("lamq")
    >>> len(words), words[0], "lamp" in words
    (182, 'leamq', True)
    """
    text = word.casefold()
    scripts = (letters for name, letters in _LETTERS.items() if _script(name).search(text))
    letters = next(scripts, "etaoinsrhldcumfpgwybvkxjqz")  # the most frequent first
    inner, odds = range(1, len(text)), dict[str, float]()
    # Learned by `benchmarks.quality.spelling`.
    for likely, edits in (
        (2.7, (text[:at] + c + text[at:] for c in letters for at in (*inner, len(text)))),
        (3.0, (text[: at - 1] + text[at] + text[at - 1] + text[at + 1 :] for at in inner)),
        (0.0, (text[:at] + text[at + 1 :] for at in inner)),
        (0.0, (text[:at] + c + text[at + 1 :] for at in inner for c in letters)),
    ):
        for edit in edits:
            odds.setdefault(edit, likely)
    odds.pop(text, None)
    plain = [edit.strip("_") or edit for edit in odds]
    is_latin = text.isascii()  # whose words are stemmed at once
    stems = _stemmer("english").stemWords(plain) if is_latin else [*map(stem_of, plain)]
    keys = [*map(term_key, stems)]
    return [*odds], np.array(keys, dtype=np.uint64), np.array([*odds.values()], dtype=np.float32)


def stem_of(word: str, language: str = "en") -> str:
    """Return the stem by which a word is counted; in a language in Latin letters, its own stem."""
    stem, plain = next(_forms(word.casefold(), False)), without_accents(word.casefold())
    if (name := _OF_LANGUAGES.get(language)) is None or not plain.isascii():
        return stem
    return without_accents(_stemmer(name).stemWord(word.casefold()))


def _identifiers(text: str) -> list[str]:
    names = _IDENTIFIER.findall(text) if _JOINED.search(text) else ()
    return [f"~{name.casefold()}" for name in names]


@lru_cache(_CACHED_LABELS)
def _labels_of(word: str) -> dict[int, str]:
    labels: dict[int, str] = {}
    for term in _terms(word, False):
        if not term.startswith("~"):
            labels[term_key(term)] = term if labels or HAS_SPACELESS.search(word) else word
    return labels


def _terms(word: str, ngrams: bool) -> Iterator[str]:
    spaceless = not word.isascii() and HAS_SPACELESS.search(word)
    if word.startswith("-") or "." in word:  # letter case matters in an option
        yield word
    elif len(word) > _LONGEST and not spaceless:
        yield word.casefold()
    else:
        if is_abbreviation(word) and word.casefold() in FUNCTION_WORDS:
            yield word
        yield from _forms(word.casefold().strip("_") or word, ngrams)
        is_plain = word.isascii() and word.isalpha() and word[1:].islower()  # it is one part
        parts = [] if spaceless or is_plain else _PART.findall(word)
        for part in parts if len(parts) > 1 else ():
            yield from _forms(part.casefold(), ngrams)


def _forms(word: str, ngrams: bool) -> Iterator[str]:
    if not word.isascii() and HAS_SPACELESS.search(word):
        for stretch in _STRETCH.findall(word):
            if not HAS_SPACELESS.match(stretch):
                yield from _forms(stretch, ngrams)
            elif len(stretch) == 1:
                yield stretch
            else:
                yield from (stretch[i : i + 2] for i in range(len(stretch) - 1))
        return
    language = "english"
    if not word.isascii():
        names = (to for of, to in _SCRIPTS.items() if _script(of).search(word))
        language = next(names, language)
    if language == "hindi":
        word = _NASAL.sub("\u0902", word)
    plain = without_accents(word) if language == "english" else word
    stem = without_accents(_stemmer(language).stemWord(plain)) or word  # of an accent alone
    yield stem
    if len(stem) > _PREFIX:
        yield f"~{stem[:_PREFIX]}"
    if ngrams or not word.isascii():
        edged = f"_{word}_"
        yield from (f"~{edged[i : i + _NGRAM]}" for i in range(max(1, len(edged) - _NGRAM + 1)))


def _stemmer(language: str) -> Stemmer.Stemmer:
    """Return this thread's stemmer of a language, since none is thread-safe; keys are cached."""
    stemmers = _of_thread.__dict__
    if language not in stemmers:
        stemmers[language] = Stemmer.Stemmer(language, 0)
    return stemmers[language]


def written_words(text: str) -> list[str]:
    """Split a text into words as written: sequences of letters, digits and underscores.

    Digits of any script are those of ASCII, and separators in numbers are left out. A number with
    dots is one word behind each of its beginnings: 3.1.0 is of 3 and of 3.1. Options of commands
    follow as words of their own, since "-n" is not any "n", and so do words with hyphens, as one,
    and dates: "20240312" for each day that one may be, in place of its digits. Short days and
    months, times and units have one form, see `in_one_form`. In a text in capitals, function words
    are in lower case.

    Examples
    --------
    >>> written_words("os.path, naïve_case"), written_words("ls -n"), written_words("Wi-Fi, 2,000")
    (['os', 'path', 'naïve_case'], ['ls', 'n', '-n'], ['Wi', 'Fi', '2000', 'WiFi'])
    >>> written_words("3/4/2024"), written_words("3 April 2024")
    (['2024', '20240304', '20240403'], ['3', 'April', '2024', '20240403'])
    >>> written_words("v3.1.0 of ५००")
    ['of', '500', '3', '3.1', '3.1.0']
    """
    normal = in_one_form(text)
    if not normal.isascii():
        normal = _POINTS.sub("", unicodedata.normalize("NFKC", normal))
    dates = find_dates(normal)
    spelled, dotted = take_dotted(keep_years(normal, dates))
    words = split_words(spelled)
    words += dotted
    words += [whole for whole, _ in find_wholes(normal, words, dates)]
    if len(normal) > 1 and normal.isupper():
        words = [word.lower() if word.lower() in FUNCTION_WORDS else word for word in words]
    return words + _OPTION.findall(spelled)


def compounds(text: str) -> list[tuple[str, list[str]]]:
    """Return the words with hyphens, and dates, each as one word, with its parts.

    Those of a date are the other days that it may be, and its words.

    Examples
    --------
    >>> compounds("Wi-Fi 2019-2020")
    [('WiFi', ['Wi', 'Fi'])]
    """
    text = in_one_form(text)
    return find_wholes(text, split_words(text), find_dates(text))


def spell_dates(text: str, lookup: Callable[[Sequence[str]], Sequence[str]]) -> str:
    """Spell out each date of which one day is known, as the texts write it; see `compounds`.

    `lookup` chooses the terms that texts have. A date without a year has that of the one day known.

    Examples
    --------
    >>> there = {"20240403", "april"}
    >>> spell_dates("On 3/4/2024?", lambda terms: [term for term in terms if term in there])
    'On 3 April 2024?'
    >>> spell_dates("On April 3?", lambda terms: [term for term in terms if term == "20240403"])
    'On 2024-04-03?'
    """

    def spell(days: Sequence[str]) -> str | None:
        if len(matches := lookup(days)) != 1:
            return None
        year, of_year, day = matches[0][:4], matches[0][4:6], matches[0][6:]
        names = [name for name, number in MONTHS.items() if number == int(of_year)]
        forms = lookup([*map(stem_of, names)])
        if not forms:
            return f"{year}-{of_year}-{day}"
        name = next(month for month in names if stem_of(month) in forms)
        return f"{int(day)} {name.capitalize()} {year}"

    return replace_dates(text, spell)


@remembered(100_000)  # a hit is asked for several names, and found again
def parts_in(text: str) -> frozenset[str]:
    """Return the words of a text and their parts, in lower case and without accents."""
    words = written_words(text)
    folded = {*map(str.casefold, [*words, *_PART.findall(" ".join(words))])}
    return frozenset([word if word.isascii() else without_accents(word) for word in folded])


def has_all_words(text: str | frozenset[str], words: Collection[str]) -> bool:
    """Return whether a text has all of some words, in the singular or plural, also as parts.

    Accents do not count. Of a long text, give `parts_in(text)` to ask several times.

    Examples
    --------
    >>> [has_all_words(f"Reacting to {what}", ["React"]) for what in ("ReactNode", "it")]
    [True, False]
    """
    folded = map(str.casefold, words)
    plain = [word if word.isascii() else without_accents(word) for word in folded]
    if not plain:
        return True
    parts = parts_in(text) if isinstance(text, str) else text
    return not any(map(parts.isdisjoint, singular_and_plural(plain)))


def term_key(term: str) -> int:
    """Hash a term to a 64-bit integer, whose lowest two bits tell `weights_of` what it is.

    The probability of any collision among a million terms is 1 in 10 million.
    """
    digest = int.from_bytes(blake2b(term.encode(), digest_size=8).digest(), "little") & ~3
    if not term.startswith("~"):
        return digest
    return digest | (_PART_BITS if _IN_IDENTIFIER.isdisjoint(term) else _IDENTIFIER_BITS)


def weights_of(keys: NDArray[np.uint64], foreign: NDArray[np.bool_]) -> FloatArray:
    """Return the weight of each term in a query: less for all but words, and for function words.

    `foreign`: for each term, whether its query is in another language than English.
    """
    english, stems = _stems_of(ENGLISH_WORDS), _stems_of(FOREIGN)
    pairs = zip(keys.tolist(), foreign.tolist(), strict=True)
    function = np.array([key in english or (flag and key in stems) for key, flag in pairs], bool)
    of_kind = np.array([1, FRAGMENT_WEIGHT, 1, IDENTIFIER_WEIGHT], dtype=np.float32)
    weights: FloatArray = of_kind[keys & np.uint64(3)]
    return np.where(function, np.float32(FUNCTION_WEIGHT) * weights, weights)


@cache
def _stems_of(words: frozenset[str]) -> frozenset[int]:
    """Return the keys of the stems of words, and of the prefixes of these."""
    return frozenset(key for word in words for key in _keys_of(word, False))


@cache
def _script(name: str) -> regex.Pattern[str]:
    return regex.compile(rf"\p{{{name}}}")


NAME = "bm25"
LONGEST_COUNTED = 50_000
"""The number of characters of a query that are searched: thousands of words."""

# Covers all rules of the tokenizer: a saved index whose words were split differently is refused.
_PROBE = (
    "Wi-Fi 2,000 Connections HTTPServer.parse_args v2 -N --dry-run naïve Straßen Die Kündigung der "
    "Verträge ist nicht Ошибки соединения المدرسة الكبيرة λόγους हिन्दी 北京大学で ภาษาไทย"
)

# Of those that a fit does not depend on: dates, abbreviations, addresses.
_NOTATIONS = (
    "IT on 3/4/2024, 12 March 2024 and 2024-05-06: https://www.example.com.br/a, may@b.com. 5.3.24 "
    "7-Apr-24 +44 20 5550 188, DE89 3704 0044 0532 0130 00, 12 500, 1,25,000, Chapter IV, Henry VI "
    "v3.1.0, 2.50, ५००. Mon to Fri, on Sat at 9.30 or 09:30, in Sept. 16GB, 5 p.m. Mo-Fr lun-ven"
)


@cache
def _revision() -> str:
    # Beginnings and, in the next line, endings that are put together, for each rule and exception
    # of the stemmers, of which versions differ by a few words in ten thousand.
    lines = _STEMMED.read_text(encoding="utf-8").splitlines()
    pairs = zip(lines[::2], lines[1::2], strict=True)
    words = [head + end for heads, ends in pairs for head in heads.split() for end in ends.split()]
    stems = [next(_forms(word, False)) for word in words] + terms_of(_NOTATIONS)
    rules = [K1, B, None, terms_of(_PROBE)]  # None: no language is named
    head, tail = (hashlib.sha256(json.dumps(of).encode()).hexdigest() for of in (rules, stems))
    return head[:RULES] + tail[:RULES]


RULES = 32
"""The characters of a revision that a fit depends on; saved word counts depend on all of them."""


class Lexical(TermEncoder):
    """BM25 as an encoder that represents a text by its terms instead of a vector.

    The similarity of a query and a passage is the BM25 score, divided by the highest score that any
    passage could have for the query, unknown words included: from 0 to 1. Document frequencies and
    passage lengths are those of the index at search time. There is no stop list, but function words
    of a query have a quarter of the weight of others. Passages are indexed in full; a query is
    truncated to 50,000 characters. A passage without words is found by the other members only,
    and refused if there are none.

    Examples
    --------
    >>> encoded = Lexical().encode(["Error in parse_args"], "query")
    >>> encoded.embedding.shape, sorted(encoded.terms.labels[0].values())
    ((1, 0), ['Error', 'arg', 'in', 'pars', 'parse_args'])
    """

    name = spec = NAME

    @property
    def revision(self) -> str:
        """The hash (hex) of the rules, `RULES` characters, and of the stems of many words."""
        return _revision()

    def encode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Count the terms of queries or passages; a text may have none.

        Raises
        ------
        TypeError, ValueError
            If texts or role are invalid.
        """
        checked = prepare_texts(texts, role)
        if role == "query":
            checked = [text[:LONGEST_COUNTED] for text in checked]
        keys, labels, foreign = [], [], []
        for text in checked:
            words = written_words(text)
            foreign.append(is_foreign(text, words))
            keys.append(_keys_of_text(text, words, foreign[-1]))
            if role == "query":
                labels.append(words_by_key(words))
        terms = Terms.from_keys(keys, labels if role == "query" else None)
        if role == "query":
            terms = terms.weigh_terms(weights_of(terms.keys, np.array(foreign, bool)[terms.rows]))
        nothing = np.zeros((len(checked), 0), dtype=np.float32)
        return Encoded(nothing, nothing, terms)
