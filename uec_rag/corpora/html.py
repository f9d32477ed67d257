"""HTML becomes sections."""

import re
from typing import TYPE_CHECKING

from uec_rag.corpora.document import Section

if TYPE_CHECKING:
    from bs4 import Tag

_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LINES = ("br", "dd", "dt", "li", "summary", "tr")
_BLOCKS = (
    *("article", "aside", "blockquote", "details", "div", "dl", "figure", "header", "ol"),
    *("p", "pre", "section", "table", "ul", *_HEADINGS),
)
_NO_PROSE = (
    *("button", "footer", "nav", "noscript", "script", "select", "style", "svg", "template"),
    *("title", "a.headerlink"),
)


def html_sections(markup: str | bytes) -> list[Section]:
    """Headings of a page and the texts under them, without navigation, scripts and the like."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(markup, "html.parser")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    for tag in soup.select(", ".join(_NO_PROSE)):
        tag.decompose()
    sections = _walked(soup.find("main") or soup.body or soup)
    return [Section(heading or title, text) for heading, text in sections]


def _walked(root: "Tag") -> list[tuple[str, str]]:
    """Headings and the texts under them, in one walk that takes as long at any depth."""
    from bs4.element import NavigableString, Tag

    sections: list[tuple[list[str], list[str]]] = [([], [])]
    headings: list[list[str]] = []  # those that are open
    preformatted = 0
    left = [(node, False) for node in reversed(root.contents)]
    while left:
        node, ends = left.pop()
        if isinstance(node, Tag):
            gap = "\n\n" if node.name in _BLOCKS else "\n" if node.name in _LINES else ""
            if not ends:
                if node.name in _HEADINGS:
                    sections.append(([], []))
                    headings.append(sections[-1][0])
                preformatted += node.name == "pre"
                left.append((node, True))
                left += [(child, False) for child in reversed(node.contents)]
            (headings[-1] if headings else sections[-1][1]).append(gap)
            if ends:
                if node.name in _HEADINGS:
                    headings.pop()
                preformatted -= node.name == "pre"
        # A comment is a NavigableString too, of a class of its own.
        elif type(node) is NavigableString:
            kept = preformatted or node in ("\n", "\n\n")
            text = str(node) if kept else re.sub(r"\s+", " ", node)
            (headings[-1] if headings else sections[-1][1]).append(text)
    return [
        (" ".join("".join(heading).split()).strip("§¶ "), _tidy("".join(parts)))
        for heading, parts in sections
    ]


def _tidy(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip()
