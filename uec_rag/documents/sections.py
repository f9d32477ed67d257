"""The sections of what a reader made of a file."""

from __future__ import annotations

import unicodedata

import regex

from uec_rag.documents.document import Content, Heading, Page, Section, has_words
from uec_rag.documents.tables import Table

# Hyphens that are only shown at the end of a line, marks that have no width, and control
# characters that not every store can hold.
_UNSEEN = regex.compile("[\u00ad\u200b\u2060\ufeff\x00-\x08\x0b\x0c\x0e-\x1f]")
_BLANK = regex.compile("[\u00a0\u2007\u202f]")
_LIGATURE = regex.compile("[\ufb00-\ufb06]")


def cut(content: Content) -> tuple[str, tuple[Section, ...]]:
    """Cut a document at its headings and pages; return its title and the sections with text.

    The title is that of the content or, if it has none, the first heading, if that is of depth 1.
    """
    title, sections = plain(content.title), list[Section]()
    above, is_first = list[Heading](), not title
    for page in content.pages:
        parts = list[str]()
        for block in page.blocks:
            if not isinstance(block, Heading):
                parts.append(block.text() if isinstance(block, Table) else block)
                continue
            sections += _section(above, parts, page)
            text, parts = " ".join(plain(block.text).split()), []
            above = [heading for heading in above if heading.depth < block.depth]
            if is_first and text and block.depth == 1:
                title = text
            elif text and text != title:
                above.append(Heading(text, block.depth))
            is_first &= not text
        sections += _section(above, parts, page)
    return title, tuple(sections)


def _section(above: list[Heading], parts: list[str], page: Page) -> list[Section]:
    text = plain("\n\n".join(filter(None, (part.strip("\n") for part in parts))))
    text = text.rstrip().lstrip("\n")
    if not has_words(text):
        return []
    return [Section(tuple(heading.text for heading in above), text, page.number)]


def plain(text: str) -> str:
    r"""Return a text without characters that are not seen and would part a word from itself.

    Examples
    --------
    >>> plain("Re\u00adimburse\u00adment of\u00a0o\ufb03ce costs")
    'Reimbursement of office costs'
    """
    # Of a pair of surrogates a PDF may have one.
    text = _BLANK.sub(" ", _UNSEEN.sub("", text.encode("utf-8", "replace").decode()))
    return str(_LIGATURE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text))
