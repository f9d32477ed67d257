"""The sentences that users read, by the code of the reason; to phrase or translate them, once."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

Code = Literal["answered", "underspecified", "uncertain", "no_answer", "off_topic", "nothing_found"]

SENTENCES: dict[Code | Literal["unclear"], str] = {
    "answered": "The documents seem to answer this.",
    "underspecified": "Do you mean {others} or {last}?",
    "unclear": "What exactly do you mean?",
    "uncertain": "It is not certain enough that these passages answer this.",
    "no_answer": "The documents do not seem to answer this.",
    "off_topic": "This does not seem to be a question about the documents.",
    "nothing_found": "There is no passage to answer from: the index is empty, no passage matches "
    "the filter, or a step after the search left none.",
}
"""The sentence for each code; update it once, before the first search.

`others` and `last` are the labels of the readings, in a sentence that begins with other words;
"unclear" takes its place if there is no choice of labels.
"""


def template() -> tuple[str, str, str]:
    """Split the clarifying question into its parts before, between and after the labels.

    Raises ValueError if it has no place for the labels.
    """
    return _split(SENTENCES["underspecified"])


@lru_cache(maxsize=1)
def _split(sentence: str) -> tuple[str, str, str]:
    before, _, rest = sentence.partition("{others}")
    between, last, after = rest.partition("{last}")
    if not (before.strip() and between.strip() and last):
        raise ValueError(
            'SENTENCES["underspecified"]: expected words, "{others}", a word such as "or", and '
            f'"{{last}}", got {sentence!r:.80}.'
        )
    return before, between, after
