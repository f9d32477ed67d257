"""The sentences that users read, in each of `languages`; to phrase or translate them, once.

They are in the tables `sentences` of languages.toml.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

from uec_rag.confidence.languages import ENGLISH, tables

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
    return _split(texts["underspecified"], texts["comma"], language)


@lru_cache
def _split(asked: str, comma: str, language: str) -> Template:
    before, _, rest = asked.partition("{others}")
    between, last, after = rest.partition("{last}")
    if not (before.strip() and between.strip() and last):
        name = "SENTENCES" if language == ENGLISH else f"TRANSLATIONS[{language!r}]"
        raise ValueError(
            f'{name}["underspecified"]: expected words, "{{others}}", a word such as "or", and '
            f'"{{last}}", got {asked!r:.80}.'
        )
    return Template(before, between, after, comma)


def templates() -> list[Template]:
    """List the parts of the clarifying question in each language, English first."""
    return [template(language) for language in TRANSLATIONS]


def detect_language(text: str) -> str | None:
    """Return the language of the clarifying question that a text begins with; None if of none."""
    return _language_with(text, lambda language: (TRANSLATIONS[language]["unclear"],))


def language_told_in(reason: str) -> str:
    """Return the language of a decision's reason; English if it is none of these sentences."""

    def is_told(language: str) -> tuple[str, ...]:
        texts = TRANSLATIONS[language]
        return tuple(text for key, text in texts.items() if key != "comma" and "{" not in text)

    return _language_with(reason, is_told) or ENGLISH


def _language_with(text: str, sentences: Callable[[str], tuple[str, ...]]) -> str | None:
    """Return the first language whose clarifying question, or a sentence, begins a text."""
    text = text.lstrip()
    return next(
        (
            language
            for language in TRANSLATIONS
            if text.startswith((template(language).before, *sentences(language)))
        ),
        None,
    )
