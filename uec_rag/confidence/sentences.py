"""The sentences that users read, in each of `languages`; to phrase or translate them, once.

They are in the tables `sentences` of languages.toml.
"""

from __future__ import annotations

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
