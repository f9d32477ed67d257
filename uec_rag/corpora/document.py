"""What a file becomes: a document in sections."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A stretch of a document under one heading.

    Attributes
    ----------
    heading
        "" where there is none.
    text
        What follows the heading, without it.
    page
        Number of the page, in a document that has pages.
    """

    heading: str
    text: str
    page: int | None = None


@dataclass(frozen=True)
class Document:
    """A text in sections, and where it comes from: for a file, its path inside the folder."""

    source: str
    sections: tuple[Section, ...]


def has_words(text: str) -> bool:
    """Whether there is a letter or a digit in a text."""
    return any(character.isalnum() for character in text)
