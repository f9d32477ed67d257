"""What a browser shows of HTML, written as text: formulas, boxes, numbers; not what is hidden."""

from __future__ import annotations

import re

import lxml.html
from bs4 import BeautifulSoup, Tag

from uec_rag.documents.formulas import linear
from uec_rag.documents.numbering import write_number
from uec_rag.documents.text import raised

OWN_NUMBER = "\ue002"
"""What stands before the text of an item of a list that has a number of its own."""

_UNSEEN = ("script", "style", "noscript", "template", "svg", "select", "iframe", "object", "title")
_BOXES = ("li", "label", "td", "th", "p", "dd", "dt")  # what has the text of a check box
# Classes of boxes that are drawn, as Notion and Asciidoctor write them.
_DRAWN_BOXES = {
    "checkbox-on": True,
    "checkbox-off": False,
    "fa-check-square-o": True,
    "fa-square-o": False,
}
_SHAPES = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_HIDDEN = re.compile(
    r"(?:display\s*:\s*none|visibility\s*:\s*hidden|mso-hide\s*:\s*all)(?!\w)", re.I
)
_SIZE = re.compile(r"font-size\s*:\s*(0*\.?0*(?:px|pt|em|rem|%)?\s*(?:;|!|$))?", re.I)
_OPENERS = ("h2", "h3", "h4", "h5", "h6", "dt", "button", "summary", "a", "label")
_PIECES = ["p", "li", "table", "pre", "div", "h1", "h2", "h3", "h4", "h5", "h6"]
_OPENING = ("aria-controls", "data-target", "data-bs-target", "href", "for")


def write_shown(soup: BeautifulSoup) -> None:
    """Remove what is not shown, and write the rest as text, but for its structure."""
    _write_formulas(soup)
    tags = [*soup.find_all(True)]
    _remove_invisible(tags)
    for tag in tags:
        if tag.decomposed:
            continue
        if tag.name in ("sub", "sup"):
            _write_mark(tag)
        elif (is_ticked := _is_ticked(tag)) is not None:
            _replace(tag, "☒ " if is_ticked else "☐ ")
        elif tag.name == "ol":
            _write_numbers(tag)
    for text in soup.find_all(string=re.compile(OWN_NUMBER)):
        own = text.find_parent("li")
        if own is not None and next(one for one in own.strings if one.strip()) is text:
            own["data-numbered"] = ""
        text.replace_with(text.replace(OWN_NUMBER, ""))


def _write_formulas(soup: BeautifulSoup) -> None:
    """Write formulas as text, and remove elements of which nothing else is shown."""
    for tag in soup.find_all(True):
        if tag.decomposed:
            continue
        if tag.name.rpartition(":")[2] == "math":
            formula = linear(lxml.html.fragment_fromstring(str(tag)))
            _replace(tag, str(tag.get("alttext") or "").strip() or formula)
        elif tag.name == "script" and str(tag.get("type", "")).startswith("math/tex"):
            _replace(tag, tag.get_text().strip())
        elif tag.name in _UNSEEN:
            tag.decompose()


def _replace(tag: Tag, text: str) -> None:
    tag.insert_before(text)
    tag.decompose()


def _remove_invisible(tags: list[Tag]) -> None:
    """Remove what no reader ever sees; not what holds a page, or what a link or a heading opens."""
    opened = {str(tag[key]).lstrip("#") for tag in tags for key in _OPENING if key in tag.attrs}
    for tag in tags:
        if tag.decomposed or not tag.attrs:
            continue
        style = str(tag.attrs.get("style", ""))
        is_hidden = tag.attrs.get("hidden", "until-found") != "until-found"
        if is_hidden or _HIDDEN.search(style):
            if not _is_opened(tag, opened) and tag.find(["h1", "main"]) is None:
                tag.decompose()
        elif tag.attrs.get("aria-hidden") == "true":
            if tag.name not in _PIECES and tag.find(_PIECES) is None:
                tag.decompose()
        elif (size := _SIZE.search(style)) and size[1]:
            for text in tag.find_all(string=True):  # what is within may have a size of its own
                if text.find_parent(style=_SIZE) is tag:
                    text.extract()


def _is_opened(tag: Tag, opened: set[str]) -> bool:
    before = tag.find_previous_sibling()
    is_below = before is not None and before.name in _OPENERS
    return is_below or tag.get("role") == "tabpanel" or tag.get("id") in opened


def _is_ticked(tag: Tag) -> bool | None:
    """Return whether a check box is ticked; None for another element, or a switch of a menu."""
    if tag.name == "input" and tag.attrs.get("type") == "checkbox":
        return tag.has_attr("checked") if tag.find_parent(_BOXES) else None
    if tag.attrs.get("role") == "checkbox":
        return tag.attrs.get("aria-checked") == "true"
    drawn = _DRAWN_BOXES.keys() & set(tag.get_attribute_list("class"))
    return _DRAWN_BOXES[drawn.pop()] if drawn and not tag.get_text().strip() else None


def _write_mark(mark: Tag) -> None:
    """Write what is raised apart from what is before it, but not what is lowered."""
    text, before = mark.get_text(), mark.find_previous(string=True)
    is_same = before is not None and before.find_parent(_PIECES) is mark.find_parent(_PIECES)
    last = str(before) if is_same else ""
    if mark.name == "sub":  # "H2O" is what people write, but 10 to the base 2 is not 102
        text = f"_{text}" if last[-1:].isdigit() and text[:1].isdigit() else text
    elif mark.find("a") is not None or mark.find_parent("a") is not None:
        return
    else:
        text = raised(last, text)
    _replace(mark, text)


def _write_numbers(items: Tag) -> None:
    """Write the letters of a list, and numbers that go another way than from one to the next."""
    number, shape = _integer(items.get("start"), 1), _SHAPES.get(str(items.get("type", "")))
    for item in items.find_all("li", recursive=False):
        number = _integer(item.get("value"), number)
        if shape or item.has_attr("value"):
            item.insert(0, f"{OWN_NUMBER}{write_number(number, shape or 'decimal')}. ")
        number += 1


def _integer(value: object, usual: int) -> int:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 6 else usual
