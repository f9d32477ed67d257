"""A document in sections, as a file is read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A stretch of a document under one heading.

    Attributes
    ----------
    heading
        "" if there is none.
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
    """A text in sections.

    Attributes
    ----------
    source
        Where it comes from: for a file, its path inside the folder.
    sections
    sha256
        Of the file, in hex; "" if it is of none.
    """

    source: str
    sections: tuple[Section, ...]
    sha256: str = ""


def has_words(text: str) -> bool:
    """Tell if there is a letter or a digit in a text."""
    return any(character.isalnum() for character in text)


def decoded(data: bytes) -> str:
    """Decode as UTF-8, as UTF-16 after its byte order mark, else as Windows-1252."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16")
    if b"\0" in data:
        raise ValueError("it is not a text file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")
