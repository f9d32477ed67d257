"""Words, and what a passage is about by its metadata, in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from pathlib import PurePath
from typing import Any, ParamSpec, Self, TypeVar, cast

import regex
import Stemmer

from uec_rag.base.properties import cached_property

_P = ParamSpec("_P")
_T = TypeVar("_T")

TITLE_KEYS = ("title", "heading", "header")
"""Metadata keys for the title of a passage; the first one that a passage has is used."""

SOURCE_KEYS = ("source", "file_path", "file_name", "url")
"""Metadata keys for the source of a passage: ours and LangChain's, LlamaIndex's, and a web page's.
"""

DOCUMENT_KEYS = ("document_title", "Header 1", "h1")
"""Metadata keys for the title of a passage's document: ours and LlamaIndex's, and LangChain's."""

MARKDOWN = (".md", ".markdown", ".mdx")
"""The suffixes of files in Markdown."""

DOCUMENTS = (*MARKDOWN, ".rst", ".txt", ".html", ".htm", ".pdf", ".docx", ".epub")
"""The suffixes that the name of a document is shown without."""

LONGEST_ASKED = 4096
"""The number of characters up to which a text is looked at as something that a user says."""

WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+")
_ASCII_WORD = regex.compile(r"\w+", regex.ASCII)  # equal to WORD for ASCII texts, but faster
_HEADING = regex.compile(r"[Hh]eader [1-6]|h[1-6]")
_MARKDOWN_HEADING = regex.compile(r"\s*+#{1,6}[ \t]++(\S[^\r\n]*)")
_LINK, _MARKS = regex.compile(r"!?\[([^\[\]]*+)\]\([^()]*+\)"), regex.compile("[`*~]+")
_MANUAL_PAGE = regex.compile(r"\(\d\w*+\)(?: Manual Page)?\Z")
# With a dot: "7.5. Virtual packages", and not "3 Idiots".
_SECTION_NUMBER = regex.compile(r"\A(?:[A-Z]\.\d|\d+\.)[\d.]*\s+")
_LONGEST_HEADING = 500  # characters
_LOOKED_AT, _OPENING = 400, 10  # characters and words at the beginning of a passage

_FUNCTION_WORDS = """\
a about after also am an and any are as at be been before being between but by can could did do does
during explain for from get got had happen happens has have he her his how i if in into is it its
just many may me mean means might much must my not of on or our over please shall she should so some
tell than that the their them then there these they this those to under us use used was we were what
when where which who whose why will with would you your"""

FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English words that say little about the subject of a question."""


def unless_long(otherwise: Any) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:  # noqa: ANN401
    """Let a function of texts return `otherwise`, without work, if one has over `LONGEST_ASKED`."""

    def limit(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(function)
        def limited(*texts: _P.args, **named: _P.kwargs) -> _T:
            for text in (*texts, *named.values()):
                if isinstance(text, str) and len(text) > LONGEST_ASKED:
                    return cast(_T, otherwise)
            return function(*texts, **named)

        return limited

    return limit


def first_value(metadata: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return the first value that metadata have under one of several keys; "" if none."""
    return next((str(metadata[key]).strip() for key in keys if metadata.get(key)), "")


@lru_cache(4096)
def stems(text: str) -> frozenset[str]:
    """Return the stems of the words of an English text that are no function words."""
    words = [word for word in split_words(text.casefold()) if word not in FUNCTION_WORDS]
    return frozenset(Stemmer.Stemmer("english").stemWords(words))


def split_words(text: str) -> list[str]:
    """Split a text into words, as `WORD` does."""
    words: list[str] = (_ASCII_WORD if text.isascii() else WORD).findall(text)
    return words


def in_both_numbers(word: str) -> tuple[str, str, str]:
    """Return an English word as it is, in the plural and in the singular."""
    return word, f"{word}s", word.removesuffix("s")


def is_index(path: PurePath) -> bool:
    """Return whether a file is an index of its folder, whose name says what it is about."""
    return path.stem.lstrip("_").casefold() in ("index", "readme") and len(path.parts) > 1


@lru_cache(4096)
def stems_of_file(source: str) -> frozenset[str]:
    """Return the stems in the name of a file, or of its folder if it is an index."""
    path = PurePath(source)
    return stems((path.parent.name if is_index(path) else path.stem).replace("_", " "))


@dataclass(frozen=True)
class About:
    r"""What a passage is about, by its metadata and the heading that begins its text.

    Attributes
    ----------
    subject : str
        A title in the metadata (`TITLE_KEYS`), else the deepest of "Header 1", "Header 2" and so
        on, as LangChain's splitters of Markdown and HTML call the headings, else a Markdown heading
        that begins the text, else the source; "" if there is none.
    source : str
        Its source (`SOURCE_KEYS`); "" if not known.
    document : str
        The title of its document (`DOCUMENT_KEYS`, or LlamaIndex's "header_path"); "" if not known.
    opening : str
        The first ten words of its text, which describe its subject besides the title.

    Examples
    --------
    >>> About.of({"file_name": "loans.md"}, "## Fees\nNone.").subject
    'Fees'
    >>> About.of({"source": "loans.sh"}, "# Copyright").subject
    'loans.sh'
    >>> About.of({"document_title": "2. Loans"}).document
    'Loans'
    """

    subject: str
    source: str
    document: str
    opening: str = ""

    @cached_property
    def subject_words(self) -> frozenset[str]:
        """The words of the subject, casefolded, in the singular and the plural."""
        return _forms_in(self.subject)

    @cached_property
    def opening_words(self) -> frozenset[str]:
        """The words of `opening`, casefolded, in the singular and the plural."""
        return _forms_in(self.opening)

    @property
    def is_file(self) -> bool:
        """True if no more is known than the name of a file."""
        named = PurePath(self.source).suffix.lower() in DOCUMENTS
        return named and self.subject == self.source

    @classmethod
    def of(cls, metadata: Mapping[str, Any], text: str = "") -> Self:
        """Derive what a passage is about from its metadata and text."""
        source = first_value(metadata, SOURCE_KEYS)
        # LlamaIndex's parser of Markdown has "/Loans/Fees/" for a section of "Fees".
        above = str(metadata.get("header_path") or "").lstrip("/").partition("/")[0]
        title = _without_markup(first_value(metadata, DOCUMENT_KEYS) or above)
        document = _MANUAL_PAGE.sub("", _SECTION_NUMBER.sub("", title))
        subject = first_value(metadata, TITLE_KEYS)
        if not subject:
            headings = sorted(filter(_HEADING.fullmatch, metadata), reverse=True)
            subject = _without_markup(first_value(metadata, headings))
        if not subject and PurePath(source).suffix.lower() in ("", *MARKDOWN):
            subject = _heading(metadata, text)  # in a script, it would be a comment
        opening = " ".join(text[:_LOOKED_AT].split(None, _OPENING)[:_OPENING])
        return cls(subject or source, source, document, opening)


def _forms_in(text: str) -> frozenset[str]:
    return frozenset(form for w in split_words(text.casefold()) for form in in_both_numbers(w))


def _heading(metadata: Mapping[str, Any], text: str) -> str:
    # LlamaIndex puts lines like "file_path: loans.md" before the text of a node.
    for _ in metadata:
        line, _, rest = text.partition("\n")
        text = rest.lstrip("\n") if line.partition(": ")[0] in metadata else text
    begins = _MARKDOWN_HEADING.match(text)
    return _without_markup(begins[1].partition(" {#")[0]) if begins else ""


def _without_markup(heading: str) -> str:
    """Return a heading in Markdown without links, emphasis and marks of code."""
    return str(_MARKS.sub("", _LINK.sub(r"\1", heading[:_LONGEST_HEADING]))).strip()


def without_number(title: str) -> str:
    """Return a title without the number of its section.

    Examples
    --------
    >>> without_number("7.5. Virtual packages"), without_number("3 Idiots")
    ('Virtual packages', '3 Idiots')
    """
    return str(_SECTION_NUMBER.sub("", title))
