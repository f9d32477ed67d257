"""Notes of HTML: each moves below the first paragraph that refers to it, with its mark as "[1]"."""

from __future__ import annotations

import re
from urllib.parse import unquote

from bs4 import Tag

from uec_rag.documents.plain_text import has_words
from uec_rag.documents.shown import HEADINGS, join_written, write

_LONGEST_MARK, _LONGEST_RAISED, _LONGEST_NOTE = 5, 12, 5_000  # characters
_REFERENCE, _BACK = re.compile("noteref|footnote"), re.compile("back")  # in attributes
_ARROWS = ("↩", "↩︎", "↑", "^")
_INLINE = ("a", "span", "sup", "b", "strong", "em", "i", "cite")
_HOLDERS = ("li", "aside", "dd", "p", "tr", "div")
_BELOW = ("p", "li", "dd", "blockquote", "pre", "div", "section", "article", *HEADINGS)


def move_notes(root: Tag) -> None:
    """Move notes below what refers to them, and write the marks of references in brackets.

    A link refers to a note if its text is a short mark, and if it is raised or so named, or if the
    note has a link that leads back.
    """
    named, references = dict[str, Tag](), list[Tag]()
    found = dict[int, tuple[Tag, Tag, str]]()  # each note, the first reference and its mark
    for tag in root.find_all(True):
        for name in filter(None, (tag.attrs.get("id"), tag.attrs.get("name"))):
            named.setdefault(str(name), tag)
    for link in root.find_all("a", href=True):
        mark = "" if link.decomposed else link.get_text().strip("[]() \n")
        sup = link.find_parent("sup") if mark else None
        outer = link if sup is None or len(sup.get_text()) > len(mark) + 4 else sup
        is_raised = outer is sup or link.find("sup") is not None
        if not _is_mark(mark, is_raised=is_raised) or link.find_parent(HEADINGS):
            continue
        said = str([value for key, value in link.attrs.items() if key != "href"])
        is_marked = is_raised or bool(_REFERENCE.search(said))
        note, names = _note(link, named), _names(outer)
        back = [] if note is None else [one for one in note.find_all("a") if _leads(one, names)]
        leads_back = any(_fragment(one) in names for one in back)
        is_here = is_marked and str(link["href"]).startswith("#")
        if _BACK.search(said) or not (is_marked or leads_back):
            continue
        if note is not None and (is_here or leads_back):
            found.setdefault(id(note), (note, outer, mark))
            for one in back:
                one.decompose()
        write(outer, f"[{mark}]")
        references.append(outer)
    parents = {id(note.parent): note.parent for note, _, _ in found.values()}
    below = dict[int, tuple[Tag, list[Tag]]]()
    for note, reference, mark in found.values():
        block = _block(reference)
        below.setdefault(id(block), (block, []))[1].append(note)
        _take(note, mark)
    for block, notes in below.values():
        if block.name in ("li", "dd"):
            block.extend(notes)
        else:
            block.insert_after(*notes)
    for parent in parents.values():
        _clear(parent, root)
    join_written(references)


def _is_mark(text: str, *, is_raised: bool) -> bool:
    longest = _LONGEST_RAISED if is_raised else _LONGEST_MARK
    return 0 < len(text) <= longest and (has_words(text) or text in "*†‡§")


def _note(link: Tag, named: dict[str, Tag]) -> Tag | None:
    """Return what a link leads to, with what is around its label; None if it is no note."""
    target = named.get(_fragment(link))
    if target is not None and target.name == "dt":
        target = target.find_next_sibling("dd")
    if target is not None and target.name in _INLINE:
        target = target.find_parent(_HOLDERS)
    if target is None or target.name not in (*_HOLDERS, "table", "blockquote"):
        return None
    is_around = target in link.parents or target.find(HEADINGS) is not None
    return None if is_around or len(target.get_text()) > _LONGEST_NOTE else target


def _names(outer: Tag) -> set[str]:
    """Return the names by which a note can lead back to a reference."""
    around = [outer, *outer.find_all(True)]
    if outer.parent is not None and outer.parent.name in _INLINE:
        around.append(outer.parent)
    return {str(tag[key]) for tag in around for key in ("id", "name") if tag.has_attr(key)}


def _leads(link: Tag, names: set[str]) -> bool:
    return _fragment(link) in names or link.get_text().strip() in _ARROWS


def _fragment(link: Tag) -> str:
    return unquote(str(link.get("href", "")).partition("#")[2])


def _block(reference: Tag) -> Tag:
    """Return the paragraph, item or table that holds a reference."""
    tables = reference.find_parents("table")
    return tables[-1] if tables else reference.find_parent(_BELOW) or reference


def _take(note: Tag, mark: str) -> None:
    """Take a note from its place, and put its mark before its first words, for the label there."""
    if note.name == "dd" and (label := note.find_previous_sibling("dt")) is not None:
        label.decompose()
    note.extract()
    if note.name in ("table", "tr"):
        note.string = note.get_text(" ")
    note.name, note.attrs = "div", {}
    own = rf"(?:{re.escape(mark)}(?=\s*(?:[\]).:]|\Z)))?"
    label_at = re.compile(rf"[\s\[(^,]*{own}[\s\]).:^,]*")
    for text in [*note.find_all(string=True)]:
        rest = label_at.sub("", str(text), count=1)
        if has_words(rest):
            text.replace_with(f"[{mark}] {rest}")
            return
        text.extract()


def _clear(parent: Tag | None, root: Tag) -> None:
    """Remove what held notes alone, with the headings in it."""
    while parent is not None and parent is not root and parent.parent is not None:
        texts = (text for text in parent.find_all(string=True) if has_words(text))
        if any(text.find_parent(HEADINGS) is None for text in texts):
            return
        above = parent.parent
        parent.decompose()
        parent = above
