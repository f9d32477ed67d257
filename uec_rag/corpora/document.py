"""A document in sections, as read from a file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from uec_rag.stores.base import Passage

_MOST_ABOVE = 6  # headings before the last one


@dataclass(frozen=True)
class Section:
    """A part of a document under one heading.

    Attributes
    ----------
    heading : str
        The heading; "" if there is none.
    text : str
        The text below the heading.
    page : int or None
        Number of the page or slide; None if the document has no pages.
    is_title : bool
        Whether the heading is the title of the document.
    depth : int
        Depth of the heading: 1 for a chapter, 2 for a part of it; 0 if it is not known.
    above : tuple of str
        The headings above that have no text of their own, except the title of the document.
    path : tuple of str
        The headings from the outermost to this one, without the title of the document; empty if
        they are not known, or the section has none.
    """

    heading: str
    text: str
    page: int | None = None
    is_title: bool = False
    depth: int = field(default=0, compare=False)
    above: tuple[str, ...] = ()
    path: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Document:
    """A text in sections.

    Attributes
    ----------
    source : str
        The origin of the text; for a file, its path relative to the folder.
    sections : tuple of Section
    sha256 : str
        Hash of the file, in hexadecimal; "" if the text is not from a file.
    title : str
        The title; "" if it is not known.
    """

    source: str
    sections: tuple[Section, ...]
    sha256: str = ""
    title: str = ""


def body_of(passage: Passage) -> str:
    r"""Return the text of a passage without the titles and headings that it begins with.

    Examples
    --------
    >>> known = {"title": "Fees", "document_title": "Loans"}
    >>> body_of(Passage("a.md#1", "Loans\n\nCosts\n\nFees\n\nNone.", known))
    'None.'
    """
    for name in ("title", "heading", "header", "document_title"):
        own = re.escape(str(passage.metadata.get(name, "")))
        if own and (head := re.match(rf"(?:.+\n\n){{,{_MOST_ABOVE}}}?{own}\n\s*", passage.text)):
            return passage.text[head.end() :].strip()
    return passage.text.strip()


def has_words(text: str) -> bool:
    """Return whether a text contains a letter or a digit."""
    return any(character.isalnum() for character in text)


def decode(data: bytes) -> str:
    """Decode UTF-16 with a byte order mark, else UTF-8, or Windows-1252 if that fails.

    Raises ValueError if the data contains a null byte and no UTF-16 mark, or the mark alone.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError:
            raise ValueError("it begins as UTF-16 does, and goes on otherwise") from None
    if b"\0" in data:
        raise ValueError("it is not a text file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")
