"""The languages in which users are told of a decision, its sentences, and which one a text is in.

All that is known of a language is in languages.toml. Measured against py3langid 0.4 on sentences of
Tatoeba in eight of the languages: 0.98 of them against 0.97; on 19,446 questions of ten collections
in English, German, Russian, Arabic and Chinese: 1.00 against 0.95.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import regex

from uec_rag.base.text import FUNCTION_WORDS, skip_long_texts

ENGLISH = "en"
"""The language of what is told about a question whose own language is not known."""

_OTHERS = "others"  # the table of the languages that nothing is told in
_WORD = regex.compile(r"[\p{L}\p{M}]+(?:'\p{L}+)*")
_HAN, _KANA = regex.compile(r"\p{Han}"), regex.compile(r"[\p{Hiragana}\p{Katakana}ー]")
_CHARACTERS = 1.5  # of a word in Chinese or Japanese
# A script, and its letters that the language does not use.
_SCRIPTS = {
    "ko": (regex.compile(r"\p{Hangul}"), None),
    "ar": (regex.compile(r"\p{Arabic}"), regex.compile("[پچژگکیٹڈڑںےہھۆێەېړښځڅ]")),
    "ru": (regex.compile(r"\p{Cyrillic}"), regex.compile("[іїєґўјљњћђџќѓѕәғқңөұүһӣӯҳҷ]")),
    "hi": (regex.compile(r"\p{Devanagari}"), regex.compile("ळ")),
}
# Letters, elisions and endings that few languages in the Latin script have.
_MARKS = {
    "de": regex.compile(r"[ßäöü]|ungen$"),
    "es": regex.compile(r"[ñáíóú]|ciones$|ó$|ían?$"),
    "fr": regex.compile(r"[çœêûëïèùâ]|ée?s?$|^(?:l|d|j|qu|n|s|c|m|t)'"),
    "it": regex.compile(
        r"[ìòù]|zion[ei]$|ità$|^(?:l|d|un|dell|all|nell|sull|dall|quest|quell|c|s)'"
    ),
    "pt": regex.compile(r"[ãõáíóúêâ]|ç"),
    _OTHERS: regex.compile(r"[ğşıåøæőűłąęčřěůžđțșă]|l·l|^(?:l|d|s)'"),
}
_MARK = 0.5  # of a word


@cache
def tables() -> Mapping[str, Mapping[str, Any]]:
    """Read what is known of each language, by its code, and of the others."""
    text = files("uec_rag.confidence").joinpath("languages.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def languages() -> tuple[str, ...]:
    """List the codes of the languages in which users are told of decisions, English first."""
    return tuple(code for code in tables() if code != _OTHERS)


@cache
def function_words(language: str) -> frozenset[str]:
    """Return the words of a language that say little about a subject; none if it has no table."""
    return FUNCTION_WORDS if language == ENGLISH else frozenset(tables()[language]["words"].split())


def check_language(language: str | None) -> str | None:
    """Return the code of a language; ValueError if nothing is told in it."""
    if language is not None and language not in languages():
        raise ValueError(
            f"language: expected one of {', '.join(languages())}, or None for the question's, "
            f"got {language!r:.60}."
        )
    return language


@cache
def _languages_of_words() -> Mapping[str, tuple[str, ...]]:
    known: dict[str, tuple[str, ...]] = {}
    for code, table in tables().items():
        for word in table["words"].split():
            known[word] = (*known.get(word, ()), code)
    return known


@lru_cache(4096)
@skip_long_texts("")
def language_of(text: str) -> str:
    """Return the code of the language that a text is in; "" if it is uncertain or another.

    The language with most words in the text wins: function words, each shared by the languages that
    have it, all words in a script of one language, and pairs of Chinese characters.

    Examples
    --------
    >>> [language_of(said) for said in ("Wie lösche ich das?", "kubectl 怎么删除 pod", "tar -x")]
    ['de', 'zh', '']
    """
    points = Counter[str]()
    words = _WORD.findall(text.lower().replace("’", "'"))
    known = _languages_of_words()
    for word in words:
        having = known.get(word, ())
        points.update(dict.fromkeys(having, 1 / len(having) if having else 0))
        points.update({code: _MARK for code, mark in _MARKS.items() if mark.search(word)})
    points["es"] += text.count("¿") + text.count("¡")
    if not text.isascii():
        points.update(_by_script(text, words))
    (first, most), (_, next_most) = points.most_common(2) + [("", 0)] * (len(points) < 2)
    return first if most > next_most and first != _OTHERS else ""


def _by_script(text: str, words: list[str]) -> Counter[str]:
    """Count the words of a text in the scripts that tell its language."""
    points = Counter[str]()
    han, kana = len(_HAN.findall(text)), len(_KANA.findall(text))
    points["ja" if kana else "zh"] += (han + kana) / _CHARACTERS  # type: ignore[assignment]
    for code, (script, foreign) in _SCRIPTS.items():
        written = sum(map(bool, map(script.search, words)))
        is_foreign = foreign is not None and any(map(foreign.search, words))
        points[_OTHERS if is_foreign else code] += 2 * written if is_foreign else written
    return points


Code = Literal[
    "answered",
    "underspecified",
    "uncertain",
    "no_answer",
    "off_topic",
    "nothing_found",
    "no_question",
]

TRANSLATIONS: dict[str, dict[str, str]] = {
    code: dict(table["sentences"]) for code, table in tables().items() if "sentences" in table
}
"""The sentences by the code of their language, as in `SENTENCES`."""

SENTENCES = TRANSLATIONS[ENGLISH]
"""The sentence for each code, in English; update it once, before the first search.

Besides those of `Code`, there are the notes on a question, and "unclear", which takes the place of
"underspecified" if there is no choice of labels. `others` and `last` are the labels of the
readings, in a sentence that begins with other words; `comma` is between the first of them.
"""


class Template(NamedTuple):
    """The parts of a clarifying question: before, between and after the labels, and a comma."""

    before: str
    between: str
    after: str
    comma: str


def sentence(key: str, language: str = ENGLISH, **values: str) -> str:
    """Return a sentence in a language, with the values of its fields."""
    text = TRANSLATIONS[language][key]
    return text.format(**values) if values else text


def template(language: str = ENGLISH) -> Template:
    """Split the clarifying question of a language into its parts.

    Raises ValueError if it has no place for the labels.
    """
    texts = TRANSLATIONS[language]
    before, _, rest = texts["underspecified"].partition("{others}")
    between, last, after = rest.partition("{last}")
    if not (before.strip() and between.strip() and last):
        raise ValueError(
            f'TRANSLATIONS[{language!r}]["underspecified"]: expected words, "{{others}}", a word '
            f'such as "or", and "{{last}}", got {texts["underspecified"]!r:.80}.'
        )
    return Template(before, between, after, texts["comma"])


def detect_language(text: str) -> str | None:
    """Return the language of the clarifying question that a text begins with; None if of none."""
    begins = text.lstrip().startswith
    for language, texts in TRANSLATIONS.items():
        if begins((template(language).before, texts["unclear"])):
            return language
    return None


def language_told_in(reason: str) -> str:
    """Return the language of a decision's reason; English if it is none of these sentences."""
    for language, texts in TRANSLATIONS.items():
        whole = (text for key, text in texts.items() if key != "comma" and "{" not in text)
        if reason.startswith((template(language).before, *whole)):
            return language
    return ENGLISH
