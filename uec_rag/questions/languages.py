"""The languages in which users are told of a decision, its sentences, and which one a text is in.

All that is known of a language is in languages.toml, and what users are told in sentences.toml.
Measured against py3langid 0.4 on sentences of Tatoeba in eight of the languages: 0.98 of them
against 0.97; on 19,446 questions of ten collections in English, German, Russian, Arabic and
Chinese: 1.00 against 0.95.
"""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from operator import itemgetter
from typing import Any, Literal

import regex

from uec_rag.base.records import remembered
from uec_rag.base.text import ADDRESS, FUNCTION_WORDS, HAS_SPACELESS, skip_long_texts

ENGLISH = "en"
"""The language of what is told about a question whose own language is not known."""

_OTHERS = "others"  # the table of the languages that nothing is told in
_WORD = regex.compile(r"[\p{L}\p{M}]+(?:'\p{L}+)*")
# An identifier, "com.example.billing", which is in no language either.
_DOTTED = regex.compile(
    r"(?<![\w.-])[A-Za-z0-9-]++(?:[._\\][a-z0-9-]++){2,}+(?!\w)|(?<![\w.:/-])~?(?:/[\w.@+-]++){2,}+",
    regex.ASCII,
)
# A word with digits, "a716" of a UUID, with what hyphens join to it; an address of hardware.
_CODED = regex.compile(
    r"(?<![A-Za-z0-9])(?:(?:[0-9A-Fa-f]{2}:){2,}[0-9A-Fa-f]{2}"
    r"|(?<![A-Za-z0-9]-)(?:[A-Za-z]++(?:-[A-Za-z]++)*+-?)?+[0-9][A-Za-z0-9]*+(?:-[A-Za-z0-9]++)*+)"
)
_HAN, _KANA = regex.compile(r"\p{Han}"), regex.compile(r"[\p{Hiragana}\p{Katakana}ー]")
_PARTS = regex.compile(r"[\p{L}\p{M}'’][\p{L}\p{M}'’ ]*+")
_MARK = 0.5  # words that a letter of one language counts as, in a word of it


@cache
def tables() -> Mapping[str, Mapping[str, Any]]:
    """Read what is known of each language, by its code, with its sentences, and of the others."""
    folder = files("uec_rag.questions")
    languages, sentences = (
        tomllib.loads(folder.joinpath(name).read_text(encoding="utf-8"))
        for name in ("languages.toml", "sentences.toml")
    )
    return {
        code: table | {"sentences": sentences[code]} if code in sentences else table
        for code, table in languages.items()
    }


_MARKS, _SCRIPTS, _FOREIGN = (
    {code: regex.compile(table[key], regex.M) for code, table in tables().items() if key in table}
    for key in ("marks", "script", "foreign")
)


_LISTED = files("uec_rag.questions").joinpath("months.txt").read_text(encoding="utf-8")
MONTHS = {
    name: number
    for number, names in enumerate(_LISTED.splitlines(), start=1)
    for name in names.split()
}
"""The number of each month by its names in all languages, in small letters."""


@cache
def joints(language: str) -> frozenset[str]:
    """Return the words that join others to one phrase: prepositions and determiners."""
    if not (table := tables()[language].get("follow_up")):
        return function_words(language)
    return frozenset(" ".join([table["determiners"], *table["prepositions"]]).split())


@cache
def small_words(language: str) -> frozenset[str]:
    """Return the prepositions in which cases differ: "inside", "outside"; none if not known."""
    return frozenset(listed("small", language, "cases"))


@cache
def words_alike() -> dict[str, frozenset[str]]:
    """Return the words that say the same of a value as each does: "price" and "fee" as "cost"."""
    rows = (row for table in tables().values() for row in table.get("cases", {}).get("alike", ()))
    return {word: frozenset(row.split()) for row in rows for word in row.split()}


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
def languages_of_words() -> Mapping[str, tuple[str, ...]]:
    """Return the codes of the languages that have each function word."""
    codes: dict[str, tuple[str, ...]] = {}
    for code, table in tables().items():
        for word in table["words"].split():
            codes[word] = (*codes.get(word, ()), code)
    return codes


@cache
def _greetings() -> Mapping[str, tuple[str, ...]]:
    """Return the codes of the languages that have each text as thanks or a greeting."""
    codes: dict[str, tuple[str, ...]] = {}
    for code in languages():
        for text in {*listed("courtesies", code)}:
            codes[text.casefold()] = (*codes.get(text.casefold(), ()), code)
    return codes


@remembered(50_000)
@skip_long_texts("")
def language_of(text: str) -> str:
    """Return the code of the language that a text is in; "" if it is uncertain or another.

    The language with most words in the text wins: function words, each shared by the languages that
    have it, all words in a script of one language, and Chinese characters. URLs, addresses, paths,
    identifiers with several dots and codes with digits are in none. Thanks and greetings of one
    language alone are in that.

    Examples
    --------
    >>> [language_of(said) for said in ("Wie lösche ich das?", "kubectl 怎么删除 pod", "tar -x")]
    ['de', 'zh', '']
    """
    # "Bonjour, merci", before its words, of which "sera" is also French.
    codes, parts = _greetings(), map(str.strip, _PARTS.findall(text.casefold()))
    greetings = [phrase for part in parts for phrase in ([part] if part in codes else part.split())]
    greeted = {*languages()}.intersection(*(codes.get(phrase, ()) for phrase in greetings))
    if len(greeted) == 1:
        return min(greeted)
    points = defaultdict[str, float](float)
    if any(map(text.__contains__, "./@:0123456789")):
        text = _CODED.sub(" ", _DOTTED.sub(" ", ADDRESS.sub(" ", text)))
    words = _WORD.findall(text.lower().replace("’", "'"))
    codes = languages_of_words()
    for word in words:
        having = codes.get(word, ())
        for code in having:
            points[code] += 1 / len(having)
    lines = "\n".join(words)
    for code, mark in _MARKS.items():
        if mark.search(lines):  # as few do
            points[code] += _MARK * sum(map(bool, map(mark.search, words)))
    points["es"] += text.count("¿") + text.count("¡")
    if not text.isascii():
        for code, count in _by_script(text, words).items():
            points[code] += count
    ranked = sorted(points.items(), key=itemgetter(1), reverse=True)
    (best, score), (_, next_score) = [*ranked, ("", 0.0)][:2]
    return best if score > next_score and best != _OTHERS else ""


def _by_script(text: str, words: list[str]) -> Counter[str]:
    """Count the words of a text in the scripts that tell its language."""
    points = Counter[str]()
    han, kana = len(_HAN.findall(text)), len(_KANA.findall(text))
    points["ja" if kana else "zh"] += han + kana
    for code, script in _SCRIPTS.items():
        count = sum(map(bool, map(script.search, words)))
        is_foreign = code in _FOREIGN and any(map(_FOREIGN[code].search, words))
        points[_OTHERS if is_foreign else code] += 2 * count if is_foreign else count
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
"""The sentence for each code, in English.

Besides those of `Code`, there are the notes on a question, and "unclear", which takes the place of
"underspecified" if there is no choice of labels. `others` and `last` are the labels of the
readings, in a sentence that begins with other words; `comma` is between the first of them, and
"quoted" are words of the question.
"""


def sentence(key: str, language: str = ENGLISH, **values: str) -> str:
    """Return a sentence in a language, or in English if that lacks it, with its fields' values."""
    text = TRANSLATIONS[language].get(key) or SENTENCES[key]
    return text.format(**values) if values else text


def template(language: str = ENGLISH) -> tuple[str, str, str, str]:
    """Return the parts of a clarifying question: before, between and after the labels, a comma."""
    texts = TRANSLATIONS[language]
    before, _, remainder = texts["underspecified"].partition("{others}")
    between, _, after = remainder.partition("{last}")
    return before, between, after, texts["comma"]


OR = {code: f" {template(code)[1].split()[0]} " for code in languages()}
"""The word between alternatives in each language, between spaces."""

WORD_OR_CLITIC = regex.compile(r"[\p{L}\p{M}\p{N}_'’]+")
# Faces, pictures and laughter, which say as much as thanks do; and letters that are drawn out.
_FACE = regex.compile(
    r"(?:(?<!\w)(?:[:;=x][-^o'’]?+[dpo3()\[\]/\\|*]++|t_++t|\\o++/|\([yn]\))|<3++|\^_*+\^|-_+-"
    r"|\b(?:lo+l|lma+o|rofl|(?:[hj\u0445]+[aei\u0430\u0435\u0438]+){2,}[hj]*))(?!\w)|[\p{Extended_Pictographic}\p{So}\p{Sk}--[0-9#*]][\p{M}\u200d]*+",
    regex.IGNORECASE | regex.V1,
)
_SAYS_NOTHING = regex.compile(r"[\s\p{P}--[?？؟#%&*@/\\]]*", regex.V1)
_DRAWN_OUT = regex.compile(r"(\p{L})\1{2,}+")


@skip_long_texts(False)
def is_courtesy(text: str, language: str = "") -> bool:
    """Return whether a text is thanks, a greeting, a closing remark, or several of these.

    `language`: its code; "" for any.

    Examples
    --------
    >>> is_courtesy("OK, thanks, that helped!"), is_courtesy("谢谢"), is_courtesy("Say thanks?")
    (True, True, False)
    >>> is_courtesy("👍"), is_courtesy("Thanksss :-D"), is_courtesy("?")
    (True, True, False)
    """
    plain = without_faces(text.casefold())
    if not (words := tuple(WORD_OR_CLITIC.findall(plain))):
        return bool(text.strip()) and _SAYS_NOTHING.fullmatch(plain) is not None
    return not without_phrases(words, phrases("courtesies", language))


def without_faces(text: str) -> str:
    """Return a text without faces, pictures and laughter, and with letters that are not drawn out.

    Examples
    --------
    >>> without_faces("okkk :-) 👍").strip()
    'ok'
    """
    return _DRAWN_OUT.sub(r"\1", _FACE.sub(" ", text))


def without_phrases(words: tuple[str, ...], phrases: frozenset[tuple[str, ...]]) -> tuple[str, ...]:
    """Return words in lower case without the phrases around them: "2" of "2, please"."""
    return without_last(take_phrases(words, phrases)[1], phrases)


def without_last(words: tuple[str, ...], phrases: frozenset[tuple[str, ...]]) -> tuple[str, ...]:
    """Return words in lower case without the phrases behind them."""
    _, turned = take_phrases(words[::-1], _reverse(phrases))
    return turned[::-1]


@cache
def _reverse(phrases: frozenset[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
    return frozenset(phrase[::-1] for phrase in phrases)


def take_phrases(
    words: tuple[str, ...], phrases: frozenset[tuple[str, ...]]
) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return the phrases with which words begin, the longest first, and the words behind them."""
    matches, counts, at = list[tuple[str, ...]](), range(_longest(phrases), 0, -1), 0
    while count := next((count for count in counts if words[at : at + count] in phrases), 0):
        matches.append(words[at : at + count])
        at += count
    return matches, words[at:]


@cache
def _longest(phrases: frozenset[tuple[str, ...]]) -> int:
    return max(map(len, phrases), default=0)


@cache
def phrases(key: str, language: str = "", table: str = "replies") -> frozenset[tuple[str, ...]]:
    """Return the phrases under a key as `listed` does, each as its words in lower case."""
    texts = map(str.casefold, listed(key, language, table))
    return frozenset(filter(None, (tuple(WORD_OR_CLITIC.findall(text)) for text in texts)))


@cache
def listed(key: str, language: str = "", table: str = "replies") -> tuple[str, ...]:
    """Return the phrases of a language under a key of a table, as written; "" for all languages."""
    tables_ = (tables()[code].get(table, {}) for code in ([language] if language else languages()))
    return tuple(phrase for of_code in tables_ for phrase in split_phrases(of_code.get(key, "")))


def split_phrases(text: str) -> list[str]:
    """Split a text in a table at its commas."""
    return [*filter(None, (" ".join(part.split()) for part in text.split(",")))]


def any_of(phrases: Iterable[str]) -> str:
    """Return an expression of phrases: of whole words where words have spaces.

    Examples
    --------
    >>> form = any_of(["no more", "没"])
    >>> [regex.findall(form, text) for text in ("no  more", "no moren", "还没来")]
    [['no  more'], [], ['没']]
    """
    compact, apart = list[str](), list[str]()
    for text in phrases:
        plain = regex.escape(text, literal_spaces=True).replace(" ", r"\s+").replace("'", "['’]")
        (compact if HAS_SPACELESS.search(text) else apart).append(plain)
    edge = r"[\p{Latin}\p{Cyrillic}]"  # the other scripts join words
    whole = [rf"(?<!{edge})(?:{'|'.join(apart)})(?!{edge})"] if apart else []
    return "|".join([*whole, *compact])


@cache
def case(key: str, language: str) -> regex.Pattern[str]:
    """Compile an expression of the table of cases of a language, which matches nothing without."""
    return regex.compile(
        rf"\b(?:{tables()[language].get('cases', {}).get(key, '(?!)')})\b", regex.I
    )


@cache
def matcher(key: str, language: str, table: str) -> regex.Pattern[str]:
    """Compile the expression of the phrases under a key, when it is used."""
    return regex.compile(any_of(listed(key, language, table)) or "(?!)", regex.IGNORECASE)
