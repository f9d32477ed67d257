"""The content that a reader extracts from a file, and the document that its sections make."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from uec_rag.documents.tables import Table
from uec_rag.stores.base import Passage

_MOST_ABOVE = 6  # headings before the last one


class Heading(NamedTuple):
    """A heading; its depth is 1 for the title of a document or a chapter, and up to 6."""

    text: str
    depth: int


Block = str | Heading | Table
"""A part of a page; a string is Markdown, or text without markup."""


@dataclass(frozen=True)
class Page:
    """The blocks of a page in their order, and its number; None if the format has no pages."""

    blocks: Sequence[Block]
    number: int | None = None


@dataclass(frozen=True)
class Content:
    """The content of a file, as a reader extracts it.

    Attributes
    ----------
    pages : sequence of Page
    title : str
        The title of the document; "" if it is the first heading, of depth 1, or there is none.
    metadata : mapping
        What the file says about itself: strings, numbers, Booleans and lists of these.
    notes : sequence of str
        What the user should know about the reading, without a subject: "was read as cp1251".
    """

    pages: Sequence[Page]
    title: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """A part of a document under one heading.

    Attributes
    ----------
    path : tuple of str
        The headings from the outermost to the section's own, without the title of the document;
        empty below the title alone.
    text : str
        The text below the heading.
    page : int or None
        Number of the page or slide; None if the document has no pages.
    """

    path: tuple[str, ...]
    text: str
    page: int | None = None

    @property
    def heading(self) -> str:
        """The section's own heading; "" if it has none."""
        return self.path[-1] if self.path else ""


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
    metadata : mapping
        What the file says about itself, such as its authors; goes into the passages' metadata.
    """

    source: str
    sections: tuple[Section, ...]
    sha256: str = ""
    title: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)

    @property
    def headings(self) -> dict[tuple[str, ...], str]:
        """The name of each path's heading, preceded by as many headings above it as it takes.

        Examples
        --------
        >>> paths = [("Rye", "Time"), ("Oats", "Time"), ("Oats", "Heat")]
        >>> bread = Document("bread.md", tuple(Section(path, "An hour.") for path in paths))
        >>> [bread.headings[path] for path in paths]
        ['Rye: Time', 'Oats: Time', 'Heat']
        """
        paths = {one.path[:end] for one in self.sections for end in range(len(one.path) + 1)}
        ends = Counter(path[start:] for path in paths for start in range(len(path)))
        return {
            path: ": ".join(
                next((path[n:] for n in range(len(path))[::-1] if ends[path[n:]] == 1), path)
            )
            for path in paths
        }


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
