"""Where a quotation stands in a passage."""

from __future__ import annotations

from typing import Any

import regex

from uec_rag.base.text import IN_WORD

# Blanks, marks without a width, and quotation marks, which models write otherwise.
_APART = regex.compile(r"[\s\p{Z}\p{Cf}\p{Quotation_Mark}`\u00b4\u2032\u2033]")


def quoted(text: str, passage: Any) -> tuple[int, int] | None:  # noqa: ANN401
    r"""Find where a quotation stands in a passage, white space and quotation marks apart.

    Parameters
    ----------
    text : str
        What a model quotes.
    passage : str, Passage, Document or node
        The passage, or its text: of LangChain's documents `page_content`, of others `text`.

    Returns
    -------
    (int, int) or None
        The offsets of its first character and behind its last one, in the passage's text; None if
        the passage has no such words in a row.

    Raises
    ------
    TypeError
        If the text is no string, or the passage has none.

    Examples
    --------
    >>> passage = "Fees\n\nA copy costs\n\u201cfive\u201d euros."
    >>> start, end = quoted('"a copy costs five"'.replace("a c", "A c"), passage)
    >>> passage[start:end]
    'A copy costs\n\u201cfive'
    """
    shown = passage
    for name in ("page_content", "text"):
        shown = shown if isinstance(shown, str) else getattr(passage, name, None)
    if not isinstance(text, str) or not isinstance(shown, str):
        raise TypeError(
            f"{'passage' if isinstance(text, str) else 'text'}: expected a string, or a passage "
            f"with a text, got {passage if isinstance(text, str) else text!r:.60}."
        )
    places = [at for at, character in enumerate(shown) if not _APART.match(character)]
    said, asked = "".join(shown[at] for at in places), _APART.sub("", text)
    first = said.find(asked) if asked else -1
    while first >= 0:
        start, end = places[first], places[first + len(asked) - 1] + 1
        if not (_is_within(shown, start) or _is_within(shown, end)):
            return start, end
        first = said.find(asked, first + 1)
    return None


def _is_within(text: str, at: int) -> bool:
    """Return whether a place is within a word."""
    around = text[max(at - 1, 0) : at + 1]
    return 0 < at < len(text) and IN_WORD.fullmatch(around) is not None
