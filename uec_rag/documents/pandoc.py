"""Reading of what pandoc converts: OpenDocument, RTF, LaTeX, Org, AsciiDoc, manual pages, more."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

from uec_rag.documents.archive import replaced, unzip
from uec_rag.documents.document import Content, Heading, Page, deeper
from uec_rag.documents.html import html_blocks
from uec_rag.documents.plain_text import decode

_SECONDS = 60  # that a conversion takes at most
_MEMORY = "1G"  # of its heap
_DECLARED = re.compile(rb"\A\s*+<\?xml[^>]*?\bencoding=[\"']([\w-]+)[\"'][^>]*\?>")
_INCLUDED = re.compile(rb"^(?:include::|#\+INCLUDE:).*$", re.IGNORECASE | re.MULTILINE)
# What pandoc would drop or double, and what is put in its place.
_MENDED = {
    "latex": (
        (rb"(?m)^\\tightlist[ \t]*$", b""),
        (rb"\\endfirsthead(?s:.{0,5000}?)\\endhead", rb"\\endhead"),
        (rb"\\item\[\$\\boxtimes\$\]", "\\\\item ☒ ".encode()),
        (rb"\\item\[\$\\square\$\]", "\\\\item ☐ ".encode()),
    ),
    "rtf": ((rb"\{\\\*\\footnote\b", rb"{\\footnote"),),
}
_NOT_INCLUDED = "Could not load include file"
_OBJECT = re.compile(r"(?:\./)?(?:Object|Formula)[^/]*/content\.xml")
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_BLOCKS = tuple(f"{_TEXT}{name}" for name in ("p", "h", "list"))
_INLINE = tuple(f"{_TEXT}{name}" for name in ("p", "h", "span", "a"))
# What pandoc reads itself, or what is of a note; of the others in a text, fields have one.
_KNOWN = (
    "p",
    "h",
    "span",
    "a",
    "note-citation",
    "bookmark-ref",
    "ruby-text",
    "linenumbering-separator",
)
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_PARENT = f"{_STYLE}parent-style-name"
_DISPLAY = f"{_TEXT}display"  # "none" of what is hidden
_TITLE = '<header id="title-block-header">'


def read_markup(data: bytes, form: str) -> Content:
    """Read a file of a format that pandoc knows, such as "odt"."""
    if form == "odt":
        content = _of_odt(data)
        data = _without_hidden(data)
    else:
        declared = _DECLARED.match(data)
        text, notes = decode(data, declared and declared[1].decode())
        data, included = _INCLUDED.subn(b"", _DECLARED.sub(b"", text.encode(), count=1))
        for pattern, mended in _MENDED.get(form, ()):
            data = re.sub(pattern, mended, data)
        content = Content([], notes=notes, left_out={"included file": included})
        if form == "man" and re.search(rb"^\.Dd\b", data, re.MULTILINE):
            form = "mdoc"
    markup, warnings = _convert(data, form)
    blocks, title = html_blocks(markup), content.title
    if _TITLE in markup:
        title = next((block.text for block in blocks if isinstance(block, Heading)), "")
    # Without a title, several headings of depth 1 are chapters, of which the first is none either.
    outer = sum(isinstance(block, Heading) and block.depth == 1 for block in blocks)
    if not title and outer > 1:
        blocks = deeper(blocks, 1)
    left_out = Counter(content.left_out)
    left_out["image"] += markup.count("<img ")
    left_out["equation"] -= markup.count('<span class="math')
    left_out["included file"] += warnings.count(_NOT_INCLUDED)
    return replace(content, pages=[Page(blocks)], title=title, left_out=left_out)


def _of_odt(data: bytes) -> Content:
    """Return what pandoc does not see in a text of OpenDocument: its title, formulas, charts."""
    archive = unzip(data)
    tree = ElementTree.fromstring(archive.read("content.xml"))
    own = [one for one in tree.iter(f"{_STYLE}style") if one.get(_PARENT) == "Title"]
    titles = {"Title", *(one.get(f"{_STYLE}name") for one in own)}
    texts = (p.itertext() for p in tree.iter(f"{_TEXT}p") if p.get(f"{_TEXT}style-name") in titles)
    title = "".join(next(texts, ()))
    objects = [archive.read(name) for name in archive.namelist() if _OBJECT.fullmatch(name)]
    left_out = {
        "equation": sum(b"Math/MathML" in one for one in objects),
        "chart": sum(b"<chart:chart" in one for one in objects),
    }
    return Content([], " ".join(title.split()), left_out=left_out)


def _without_hidden(data: bytes) -> bytes:
    """Return a text of OpenDocument without what its styles and fields hide, which pandoc reads."""
    archive, styles = unzip(data), dict[str | None, ElementTree.Element]()
    tree = ElementTree.fromstring(archive.read("content.xml"))
    names = {"styles.xml"} & {*archive.namelist()}
    for part in (*(ElementTree.fromstring(archive.read(name)) for name in names), tree):
        styles |= {one.get(f"{_STYLE}name"): one for one in part.iter(f"{_STYLE}style")}

    def hides(name: str | None, depth: int = 20) -> bool:
        style = styles.get(name)
        if style is None or not depth:
            return False
        own = [one.get(_DISPLAY) for one in style.iter(f"{_STYLE}text-properties")]
        told = next(filter(None, own), None)
        return hides(style.get(_PARENT), depth - 1) if told is None else told == "none"

    hidden = {name for name in styles if hides(name)}
    count = 0
    for parent in [*tree.iter()]:
        for place, one in reversed([*enumerate(parent)]):
            if one.get(f"{_TEXT}style-name") in hidden or one.get(_DISPLAY) == "none":
                before = parent[place - 1] if place else None
                tail = one.tail or ""  # which is of what is around it
                if before is None:
                    parent.text = (parent.text or "") + tail
                else:
                    before.tail = (before.tail or "") + tail
                parent.remove(one)
                count += 1
    if not (count + _show_fields(tree) + _show_boxes(tree)):
        return data
    return replaced(archive, {"content.xml": ElementTree.tostring(tree)}).getvalue()


def _show_fields(tree: ElementTree.Element) -> int:
    """Make fields texts, which pandoc would leave out, and count them."""
    count = 0
    for one in tree.iter():
        name = one.tag.removeprefix(_TEXT)
        if name in ("ruby", "ruby-base"):
            one[:] = [part for part in one if part.tag != f"{_TEXT}ruby-text"]
        elif name in _KNOWN or name == one.tag or len(one) or not (one.text or "").strip():
            continue
        one.tag = f"{_TEXT}span"
        count += 1
    return count


def _show_boxes(tree: ElementTree.Element) -> int:
    """Put the paragraphs of boxes and shapes below the one that they are in, and count them."""
    parents, count = {part: whole for whole in tree.iter() for part in whole}, 0
    for box in reversed([one for one in tree.iter() if one.tag.startswith(_DRAW)]):
        inner = [part for part in box if part.tag in _BLOCKS]
        outer, above = box, parents.get(box)
        while above is not None and (above.tag.startswith(_DRAW) or above.tag in _INLINE):
            outer, above = above, parents.get(above)
        if above is None or not inner:
            continue
        place = [*above].index(outer) + 1
        above[place:place] = inner
        for part in inner:
            box.remove(part)
            parents[part] = above
        count += 1
    return count


def _convert(data: bytes, form: str) -> tuple[str, str]:
    """Convert a file to HTML by pandoc, which may open no other file; return its warnings, too."""
    from pypandoc import get_pandoc_path

    command = [get_pandoc_path(), "--sandbox", "--standalone", "--mathjax", "--wrap=none"]
    try:
        done = subprocess.run(
            [*command, f"--from={form}", "--to=html", "+RTS", f"-M{_MEMORY}", "-RTS"],
            input=data,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"pandoc took longer than {_SECONDS} seconds") from None
    said = done.stderr.decode("utf-8", "replace")
    if done.returncode:
        raise ValueError(" ".join(f"pandoc: {said.strip() or done.returncode}".split())[:200])
    return done.stdout.decode("utf-8", "replace"), said
