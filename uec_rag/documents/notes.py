"""Notes of HTML: each moves below the first paragraph that refers to it, with its mark as "[1]"."""

from __future__ import annotations

import re
from urllib.parse import unquote

from bs4 import Tag

from uec_rag.documents.text import has_words

_LONGEST_MARK, _LONGEST_RAISED, _LONGEST_NOTE = 5, 12, 5_000  # characters
_REFERENCE = re.compile(r"noteref|footnote|endnote|fnref|ftnref|sdfootnoteanc")
_BACK = re.compile(r"back(?:link|ref)|footnote-back|reversefootnote")
_INLINE = ("a", "span", "sup", "b", "strong", "em", "i", "cite")
_HOLDERS = ("li", "aside", "dd", "p", "tr", "div")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_BELOW = ("p", "li", "dd", "blockquote", "pre", "div", "section", "article", *_HEADINGS)
_LABEL = re.compile(r"[\s()\[\],.:^*]*+")


def move_notes(root: Tag) -> None:
    """Move notes below what refers to them, and write the marks of references in brackets.

    A link refers to a note if its text is a short mark, and if it is raised or so named, or if the
    note has a link that leads back.
    """
    named, links = dict[str, Tag](), list[Tag]()
    for tag in root.find_all(True):
        for name in filter(None, (tag.attrs.get("id"), tag.attrs.get("name"))):
            named.setdefault(str(name), tag)
        links += [tag] if tag.name == "a" and tag.attrs.get("href") else []
    moved, ends, left = dict[int, Tag](), dict[int, Tag](), dict[int, Tag]()
    for link in links:
        mark = "" if link.decomposed else link.get_text().strip("[]() \n")
        sup = link.find_parent("sup") if mark else None
        outer = link if sup is None or len(sup.get_text()) > len(mark) + 4 else sup
        is_raised = outer is sup or link.find("sup") is not None
        is_word = len(mark) > (_LONGEST_RAISED if is_raised else _LONGEST_MARK)
        is_sign = not has_words(mark) and mark not in "*†‡§"
        if is_word or is_sign or not mark or _is_back(link) or link.find_parent(_HEADINGS):
            continue
        is_marked = is_raised or bool(_REFERENCE.search(_attributes(link)))
        note, back = _note(link, named), _names(outer)
        was = moved.get(id(note)) if note is not None else None
        is_here = is_marked and str(link["href"]).startswith("#")
        if note is not None and was is None and (is_here or _leads_back(note, back)):
            left[id(note.parent)] = note.parent  # type: ignore[assignment]
            was = moved[id(note)] = _place(note, mark, outer, ends)
        if was is not None:
            for one in was.find_all("a", href=True):
                if _is_back(one) or _fragment(one) in back:
                    one.decompose()
        if is_marked or was is not None:
            outer.replace_with(f"[{mark}]")
    for note in moved.values():
        _write_mark(note)
    for parent in left.values():
        _clear(parent, root)


def _note(link: Tag, named: dict[str, Tag]) -> Tag | None:
    """Return what a link leads to, with what is around its label; None if it is no note."""
    target = named.get(_fragment(link))
    if target is not None and target.name == "dt":
        target = target.find_next_sibling("dd")
    if target is not None and target.name in _INLINE:
        target = target.find_parent(_HOLDERS)
    if target is None or target.name not in (*_HOLDERS, "table", "blockquote"):
        return None
    is_around = target in link.parents or target.find(_HEADINGS) is not None
    return None if is_around or len(target.get_text()) > _LONGEST_NOTE else target


def _place(note: Tag, mark: str, reference: Tag, ends: dict[int, Tag]) -> Tag:
    """Move a note below the paragraph, item or table with a reference to it."""
    tables = reference.find_parents("table")
    block = tables[-1] if tables else reference.find_parent(_BELOW) or reference
    if note.name == "dd" and (label := note.find_previous_sibling("dt")) is not None:
        label.decompose()
    note.extract()
    if note.name in ("table", "tr"):
        note.string = note.get_text(" ")
    note.name, note.attrs = "div", {"data-mark": mark}
    if id(block) in ends:
        ends[id(block)].insert_after(note)
    elif block.name in ("li", "dd"):
        block.append(note)
    else:
        block.insert_after(note)
    ends[id(block)] = note
    return note


def _write_mark(note: Tag) -> None:
    """Put the mark of a note before its first words, in place of the label there."""
    mark = note.attrs.pop("data-mark")
    for text in [*note.find_all(string=True)]:
        rest = _LABEL.sub("", str(text), count=1) if not has_words(str(text)) else str(text)
        rest = rest.lstrip(" \n]).:^") if rest else rest
        if not has_words(rest):
            text.extract()
            continue
        label = f"[{mark}] "
        text.replace_with(f"{label}{rest.removeprefix(label)}")
        return


def _clear(parent: Tag, root: Tag) -> None:
    """Remove what held notes alone, with its heading."""
    while parent is not root and parent.parent is not None:
        texts = (text for text in parent.find_all(string=True) if has_words(text))
        if any(text.find_parent(_HEADINGS) is None for text in texts):
            return
        above, before = parent.parent, parent.find_previous_sibling()
        after = parent.find_next_sibling()
        if _is_heading(before) and (after is None or _is_heading(after)):
            before.decompose()  # type: ignore[union-attr]
        parent.decompose()
        parent = above


def _is_heading(tag: Tag | None) -> bool:
    """Return whether an element is a heading, or holds nothing else."""
    heading = None if tag is None else tag if tag.name in _HEADINGS else tag.find(_HEADINGS)
    return heading is not None and heading.get_text().strip() == tag.get_text().strip()  # type: ignore[union-attr]


def _leads_back(note: Tag, names: set[str]) -> bool:
    return any(_fragment(link) in names for link in note.find_all("a", href=True))


def _names(outer: Tag) -> set[str]:
    """Return the names by which a note can lead back to a reference."""
    around = [outer, *outer.find_all(True)]
    if outer.parent is not None and outer.parent.name in _INLINE:
        around.append(outer.parent)
    return {str(tag[key]) for tag in around for key in ("id", "name") if tag.has_attr(key)}


def _is_back(link: Tag) -> bool:
    return bool(_BACK.search(_attributes(link))) or link.get_text().strip() in ("↩", "↩︎", "↑", "^")


def _attributes(link: Tag) -> str:
    parts = [" ".join(link.get_attribute_list("class")), str(link.get("role", ""))]
    return " ".join([*parts, str(link.get("epub:type", "")), *map(str, link.attrs)])


def _fragment(link: Tag) -> str:
    return unquote(str(link.get("href", "")).partition("#")[2])
