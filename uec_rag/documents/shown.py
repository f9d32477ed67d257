"""The parts of HTML that a browser shows, as text: formulas, boxes, numbers; not what it hides."""

import re
from collections.abc import Iterable
from itertools import groupby

import lxml.html
from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString, PageElement

from uec_rag.documents.formulas import linear
from uec_rag.documents.numbering import SHAPES, write_number
from uec_rag.documents.plain_text import has_text, raised, struck, to_integer

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
OWN_NUMBER = "\ue002"
"""The mark before the text of an item of a list that has a number of its own."""

_WRITTEN = "written"  # the name of an element of which only its text is shown
_UNSEEN = (
    *("script", "style", "noscript", "template", "svg", "iframe", "object", "title"),
    *("audio", "video", "canvas", "datalist", "img"),
)
_BOXES = ("li", "label", "td", "th", "p", "dd", "dt")  # what has the text of a check box
_KINDS_OF_BOX = ("checkbox", "radio", "switch", "menuitemcheckbox", "menuitemradio")
# Classes of boxes that are drawn, as Notion and Asciidoctor write them.
_TICKED, _UNTICKED = {"checkbox-on", "fa-check-square-o"}, {"checkbox-off", "fa-square-o"}
_TYPED = "text number email tel url date time datetime-local month week"
_DAY, _MOST_OPTIONS = re.compile(r"\d{4}-\d\d"), 20
_ZERO = r"0*\.?0*(?:[a-z%]{1,4})?\s*(?:[;!/]|$)"
_HIDDEN = re.compile(
    r"(?:\A|[\s;])(?:display:none|(?:content-)?visibility:(?:hidden|collapse)|mso-hide:all"
    r"|color:transparent|clip:rect\((?:[01](?:px)?[, ]*){4}\)|transform:scale\(0(?:,0)?\)"
    rf"|opacity:{_ZERO}|(?:left|right|top|text-indent):-\d{{4,}}(?:px|em))(?!\w)",
    re.IGNORECASE,
)
_CLIPPED = re.compile(rf"(?i)(?=.*overflow:hidden).*(?<![\w-])(?:max-)?(?:height|width):{_ZERO}")
_SIZE = re.compile(rf"font(?:-size)?\s*:\s*({_ZERO}|[01]px\s*(?:[;!/]|$))?", re.I)
_HIDING = {"hidden", "d-none"}
# The numbers of lines beside code, as highlighters of sites write them.
_LINE_NUMBER = re.compile(
    r"(?i)(?<![a-z])(?:(?:code-?)?lineno(?:s|div)?|line-?num(?:ber)?s?(?:-rows)?|ln[td]?|lnum|gutter"
    r"|(?:blob|diff-line)-num|hljs-ln-(?:numbers|n)|rouge-gutter|crayon-nums?)(?![a-z])"
)
_SPACES = re.compile(r"(?<!\s)\s*+([:,;()])\s*+")
_RAISED = re.compile(r"vertical-align\s*:\s*super", re.I)
_OPENERS = (*HEADINGS[1:], "dt", "button", "summary", "a", "label")
_STRUCK = re.compile(r"text-decoration(?:-line)?\s*:[^;{}]*\bline-through\b", re.I)
_STRUCK_CLASS = re.compile(rf"\.([\w-]+)\s*\{{[^{{}}]*{_STRUCK.pattern}", re.I)
# What a picture is called that says nothing, and a path.
_UNSAID = re.compile(r"(?:icon|image|logo|photo|picture|screenshot)s?|.*[/.]\w.*", re.I)
_ICONS = ("img", "svg", "i", "span")
_CROSSED_OUT = ("del", "s", "strike")
_PIECES = ["p", "li", "table", "pre", "div", *HEADINGS]
_AROUND = [*_BOXES, *_PIECES]
OPENING = "aria-controls data-target data-bs-target href for popovertarget commandfor"


def tags_of(root: Tag) -> list[Tag]:
    """Return all elements in an element, in a third of the time that `find_all` takes."""
    return [part for part in root.descendants if isinstance(part, Tag)]


def is_gone(tag: Tag) -> bool:
    """Return whether an element is decomposed, as `Tag.decomposed` does in far more time."""
    return "_decomposed" in vars(tag)


def write_shown(soup: BeautifulSoup) -> None:
    """Remove what is not shown, and write the rest as text, but for its structure."""
    for shadow in soup.find_all("template", shadowrootmode=True):
        shadow.name = "div"
    tags, changed, explained = tags_of(soup), list[Tag](), set[str]()
    attributes = ((tag.attrs, key) for key in OPENING.split() for tag in tags)
    targets = {str(values[key]).lstrip("#") for values, key in attributes if key in values}
    styles = "".join(style.get_text() for style in soup.find_all("style"))
    struck_by = {*_STRUCK_CLASS.findall(styles)}
    write_code(soup)
    for tag in tags:
        if is_gone(tag):
            continue
        explained = set() if tag.name in HEADINGS else explained
        if tag.name in ("abbr", "acronym") and (meaning := str(tag.get("title") or "").strip()):
            short = tag.get_text().strip()
            if short not in explained and meaning.casefold() != short.casefold():
                tag.append(f" ({meaning})")
            explained.add(short)
        elif (text := _text_of(tag, targets)) is not None:
            write(tag, text)
            changed.append(tag)
        elif (
            tag.name in _CROSSED_OUT
            or _STRUCK.search(str(tag.attrs.get("style", "")))
            or not struck_by.isdisjoint(tag.get_attribute_list("class"))
        ):
            tag.name = "span" if tag.name in _CROSSED_OUT else tag.name
            for string in filter(has_text, [*tag.strings]):
                string.replace_with(struck(string))
    join_written(changed)
    for text in [text for text in soup.strings if OWN_NUMBER in text]:
        item = text.find_parent("li")
        if item is not None and next(string for string in item.strings if string.strip()) is text:
            item["data-numbered"] = ""
        text.replace_with(text.replace(OWN_NUMBER, ""))


def write_code(soup: BeautifulSoup) -> None:
    """Remove the numbers of lines beside code, and write tables of lines as code."""
    tables = dict[int, Tag]()
    for tag in soup.find_all(class_=_LINE_NUMBER):
        if not is_gone(tag) and not tag.get_text().strip(" \n0123456789."):
            table = tag.find_parent("table") if tag.name in ("td", "th") else None
            if table is not None and table.find("pre") is None:
                tables[id(table)] = table
            tag.decompose()
    for table in tables.values():
        lines = (row.get_text().strip("\n") for row in table.find_all("tr"))
        table.name, table.string = "pre", "\n".join(lines)


def write(tag: Tag, text: str) -> None:
    """Make an element one of which only a text is shown, for `join_written`."""
    tag.clear(decompose=True)
    tag.name, tag.attrs, tag.string = _WRITTEN, {}, text


def join_written(tags: Iterable[Tag]) -> None:
    """Join elements that are written with the texts around them.

    All children of an element are put back together: to take one of them out takes time in
    proportion to their number.
    """
    parents = {id(tag.parent): tag.parent for tag in tags if not is_gone(tag)}
    for parent in filter(None, parents.values()):
        children = [*parent.contents]
        parent.clear()
        for is_text, run in groupby(children, _is_text):
            pieces = [*run]
            parent.extend(["".join(map(_text, pieces))] if is_text else pieces)


def _is_text(child: PageElement) -> bool:
    return type(child) is NavigableString or (isinstance(child, Tag) and child.name == _WRITTEN)


def _text(child: PageElement) -> str:
    return "".join(map(str, child.contents)) if isinstance(child, Tag) else str(child)


def _text_of(tag: Tag, targets: set[str]) -> str | None:
    """Return what is shown in place of an element; None if it is shown as it is."""
    if tag.name.rpartition(":")[2] == "math":
        formula = linear(lxml.html.fragment_fromstring(str(tag)))
        return str(tag.get("alttext") or "").strip() or formula
    if tag.name == "script" and str(tag.get("type", "")).startswith("math/tex"):
        return tag.get_text().strip()
    if _is_hidden(tag, targets):
        return ""
    if (icon := _icon(tag)) or tag.name in _UNSEEN:
        return icon
    if tag.name == "ruby":
        for reading in tag.find_all(["rt", "rp", "rtc"]):
            reading.decompose()
        return "".join(tag.stripped_strings)
    is_raised = tag.name in ("span", "font", "small") and _RAISED.search(str(tag.get("style")))
    if tag.name in ("sub", "sup") or is_raised:
        return _mark(tag)
    if (
        tag.name in ("time", "select", "textarea", "input")
        and (form_text := _of_form(tag)) is not None
    ):
        return form_text
    if tag.name == "ol":
        _write_numbers(tag)
    return _box(tag)


def _of_form(tag: Tag) -> str | None:
    """Return the choice or the value in a form, or a moment; None of what is shown as it is."""
    if tag.name == "time":
        text, moment = tag.get_text().strip(), str(tag.get("datetime", "")).strip()
        is_told = text and (not _DAY.match(moment) or moment[:4] in text)
        return None if is_told else f"{text} ({moment})" if text else moment
    before = tag.find_previous(string=True)
    blank = "" if before is None or str(before)[-1:].isspace() else " "
    after = "" if tag.next_sibling is None else tag.next_sibling.get_text()
    blank_after = " " * after[:1].isalnum()
    if tag.name == "textarea":
        return f"{blank}{tag.get_text().strip()}{blank_after}"
    if tag.name == "input":
        is_text = str(tag.get("type", "text")).lower() in _TYPED.split()
        return f"{blank}{tag['value']}{blank_after}" if is_text and tag.get("value") else None
    options = tag.find_all("option")
    selection = [option for option in options if option.has_attr("selected")] or options
    is_menu = len(selection) > _MOST_OPTIONS or tag.find_parent(["nav", "header", "footer"])
    names = ", ".join(" ".join(option.get_text().split()) for option in selection)
    return "" if is_menu or not names else f"{blank}{names}{blank_after}"


def _icon(tag: Tag) -> str:
    """Return what an icon says in a cell, or beside words; "" if it says nothing, or is none."""
    if tag.name not in _ICONS or (tag.name in ("i", "span") and tag.contents):
        return ""
    labels = [*map(tag.get, ("alt", "aria-label", "title")), *map(Tag.get_text, tag("title"))]
    label = next(filter(None, (str(text).strip() for text in labels if text)), "")
    if tag.name == "img" and " " in label:
        return f" {label} "
    around, place = tag.find_parent(["a", "button", *HEADINGS]), tag.find_parent(_AROUND)
    if not label or place is None or (around is not None and has_text(around.get_text())):
        return ""
    texts = (text for text in place.strings if tag not in text.parents)
    is_said = any(map(has_text, texts)) and not _UNSAID.fullmatch(label)
    return f" {label} " if is_said or tag.find_parent(["td", "th"]) is not None else ""


def _is_hidden(tag: Tag, targets: set[str]) -> bool:
    """Return whether no reader ever sees an element.

    What holds a page or a formula is seen, and what a link or a heading opens.
    """
    style = _SPACES.sub(r"\1", str(tag.attrs.get("style", "")))
    is_closed = (tag.name == "dialog" and not tag.has_attr("open")) or tag.has_attr("popover")
    is_marked = tag.attrs.get("hidden", "until-found") != "until-found" or is_closed
    is_panel = tag.attrs.get("aria-hidden") == "true" and tag.name in (*_PIECES, "section")
    is_styled = _HIDDEN.search(style) or _CLIPPED.match(style)
    if is_marked or is_panel or is_styled or _has_hiding_class(tag):
        before = tag.find_previous_sibling()
        is_target = tag.get("role") == "tabpanel" or tag.get("id") in targets
        is_opened = is_target or (before is not None and before.name in _OPENERS)
        return not is_opened and tag.find(["h1", "main", "math"]) is None
    if (size := _SIZE.search(style)) and size[1]:
        for text in tag.find_all(string=True):  # what is within may have a size of its own
            if text.find_parent(style=_SIZE) is tag:
                text.extract()
    is_sign = tag.attrs.get("aria-hidden") == "true" and tag.name not in _PIECES
    return is_sign and tag.find(_PIECES) is None


def _has_hiding_class(tag: Tag) -> bool:
    """Return whether a class of Bootstrap or Tailwind hides an element, on screens of any width."""
    classes = {*tag.get_attribute_list("class")} - {None}
    names = classes - _HIDING
    return names < classes and not any(":" in name or name.startswith("d-") for name in names)


def _box(tag: Tag) -> str | None:
    """Return a check box, ticked or not; None for another element, or a switch of a menu."""
    is_ticked = tag.attrs.get("aria-checked") == "true" or tag.has_attr("checked")
    classes = {*tag.get_attribute_list("class")}
    if classes & (_TICKED | _UNTICKED) and not tag.get_text().strip():
        is_ticked = bool(classes & _TICKED)
    elif tag.attrs.get("role") not in _KINDS_OF_BOX and not _is_labelled(tag):
        return None
    text = " ".join(tag.get_text().split())
    return f"{'☒' if is_ticked else '☐'} {text}{' ' * bool(text)}"


def _is_labelled(tag: Tag) -> bool:
    """Return whether an element is a check box that has a text."""
    if tag.attrs.get("type") not in _KINDS_OF_BOX:
        return False
    siblings = (
        part for part in tag.next_siblings if isinstance(part, Tag) or part.get_text().strip()
    )
    after = next(siblings, None)
    is_before = after is not None and (not isinstance(after, Tag) or after.name == "label")
    return is_before or tag.find_parent(_BOXES) is not None


def _mark(mark: Tag) -> str | None:
    """Return what is raised apart from what is before it, but not what is lowered."""
    text, before = mark.get_text(), mark.find_previous(string=True)
    is_same = before is not None and before.find_parent(_PIECES) is mark.find_parent(_PIECES)
    text_before = str(before) if is_same else ""
    if mark.name == "sub":  # "H2O" is what people write, but 10 to the base 2 is not 102
        return f"_{text}" if text_before[-1:].isdigit() and text[:1].isdigit() else text
    if mark.find("a") is not None or mark.find_parent("a") is not None:
        return None
    return raised(text_before, text)


def _write_numbers(items: Tag) -> None:
    """Write the letters of a list, and numbers that go another way than from one to the next."""
    children, shape = items.find_all("li", recursive=False), SHAPES.get(str(items.get("type", "")))
    is_own = any(item.has_attr("value") for item in children)
    step = -1 if items.has_attr("reversed") else 1
    number = to_integer(items.get("start"), 1 if step > 0 else len(children))
    for item in children:
        number = to_integer(item.get("value"), number)
        if shape or step < 0 or is_own:
            item.insert(0, f"{OWN_NUMBER}{write_number(number, shape or 'decimal')}. ")
        number += step
