"""The place of a quotation in a passage."""

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
    content = passage
    for name in ("page_content", "text"):
        content = content if isinstance(content, str) else getattr(passage, name, None)
    if not isinstance(text, str) or not isinstance(content, str):
        raise TypeError(
            f"{'passage' if isinstance(text, str) else 'text'}: expected a string, or a passage "
            f"with a text, got {passage if isinstance(text, str) else text!r:.60}."
        )
    places = [at for at, character in enumerate(content) if not _APART.match(character)]
    haystack, needle = "".join(content[at] for at in places), _APART.sub("", text)
    position = haystack.find(needle) if needle else -1
    while position >= 0:
        start, end = places[position], places[position + len(needle) - 1] + 1
        if not (_is_within(content, start) or _is_within(content, end)):
            return start, end
        position = haystack.find(needle, position + 1)
    return None


def _is_within(text: str, at: int) -> bool:
    """Return whether a place is within a word."""
    around = text[max(at - 1, 0) : at + 1]
    return 0 < at < len(text) and IN_WORD.fullmatch(around) is not None
