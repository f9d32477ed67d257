"""Reading of what pandoc converts: OpenDocument, RTF, LaTeX, Org, AsciiDoc, manual pages, more."""

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from uec_rag.documents.asciidoc import without_comments
from uec_rag.documents.document import Block, Content, Heading, Page, Table, deeper
from uec_rag.documents.html import html_blocks
from uec_rag.documents.office import tables_with_spans
from uec_rag.documents.opendocument import simplify
from uec_rag.documents.plain_text import decode

_SECONDS = 60  # that a conversion takes at most
_MEMORY = "1G"  # of its heap
_DECLARED = re.compile(rb"\A\s*+<\?xml[^>]*?\bencoding=[\"']([\w-]+)[\"'][^>]*\?>")
_INCLUDED = re.compile(rb"^(?:include::|#\+INCLUDE:).*$", re.IGNORECASE | re.MULTILINE)
# Signs of RTF in a row, such as how a paragraph looks, and the number of a list that it has.
_SIGNS = re.compile(
    rb"((?:\\[a-z]+-?\d*\s?)++)(?:\{\\listtext(?:\\[a-z]+-?\d*)*+\s?([^\\{}]*+)(?:\\tab\s?)?\})?"
)


def _without_list(signs: re.Match[bytes]) -> bytes:
    """Return signs that make a heading without those that make it an item of a list to pandoc."""
    if b"\\outlinelevel" not in signs[1]:
        return signs[0]
    number = (signs[2] or b"").strip()
    return re.sub(rb"\\(?:ls|ilvl)\d+\s?", b"", signs[1]) + (b" " + number + b" ") * bool(number)


def _in_table(row: re.Match[bytes]) -> bytes:
    """Return a row whose cells are marked as such, without which they are lines to pandoc."""
    if b"\\intbl" in row[0]:
        return row[0]
    return re.sub(rb"(\\cellx\d++(?!\s*\\c)|\\pard\b)\s?", rb"\1\\intbl ", row[0])


# What pandoc would drop or double, and what is put in its place.
_MENDED: dict[str, Sequence[tuple[bytes | re.Pattern[bytes], bytes | Callable[..., bytes]]]] = {
    "latex": (
        (rb"(?m)^\\tightlist[ \t]*$", b""),
        (rb"\\endfirsthead(?s:.{0,5000}?)\\endhead", rb"\\endhead"),
        (rb"\\item\[\$\\boxtimes\$\]", "\\\\item ☒ ".encode()),
        (rb"\\item\[\$\\square\$\]", "\\\\item ☐ ".encode()),
    ),
    "rtf": (
        (rb"\{\\\*\\footnote\b", rb"{\\footnote"),
        (rb"\{\\v\b(?!0)[^{}]*\}", b""),
        (_SIGNS, _without_list),
        (rb"\\trowd\b(?:(?!\\trowd\b)(?s:.)){0,5000}?\\row\b", _in_table),
    ),
}
_NOT_INCLUDED = "Could not load include file"
_TITLE = '<header id="title-block-header">'


def read_markup(data: bytes, form: str) -> Content:
    """Read a file of a format that pandoc knows, such as "odt"."""
    text, title, notes, left_out = "", "", list[str](), Counter[str]()
    if form == "odt":
        data, title = simplify(data, left_out)
    else:
        declared = _DECLARED.match(data)
        text, notes = decode(data, declared and declared[1].decode())
        body = without_comments(text) if form == "asciidoc" else text
        data, left_out["included file"] = _INCLUDED.subn(b"", _DECLARED.sub(b"", body.encode(), 1))
        for pattern, mended in _MENDED.get(form, ()):
            data = re.sub(pattern, mended, data)
        if form == "man" and re.search(rb"^\.Dd\b", data, re.MULTILINE):
            form = "mdoc"
    markup, warnings = _convert(data, form)
    blocks = html_blocks(markup)
    if form == "rtf":
        with suppress(ValueError):  # which pandoc may have read nevertheless
            _put_tables(blocks, tables_with_spans(data, form))
    headings = [block for block in blocks if isinstance(block, Heading)]
    if _TITLE in markup:
        title = headings[0].text if headings else ""
    # Without a title, several headings of depth 1 are chapters, of which the first is none either.
    if not title and sum(heading.depth == 1 for heading in headings) > 1:
        blocks = deeper(blocks, 1)
    left_out["image"] += markup.count("<img ")
    left_out["equation"] -= markup.count('<span class="math')
    left_out["included file"] += warnings.count(_NOT_INCLUDED)
    return Content([Page(blocks)], title, notes=notes, left_out=left_out, text=text)


def _put_tables(blocks: list[Block], tables: Sequence[Sequence[Block]]) -> None:
    """Put tables with merged cells, which pandoc does not know, in the place of its own."""
    places = [place for place, block in enumerate(blocks) if isinstance(block, Table)]
    if len(places) != len(tables):
        return
    for place, table in reversed([*zip(places, tables, strict=True)]):
        blocks[place : place + bool(table)] = table


def _convert(data: bytes, form: str) -> tuple[str, str]:
    """Convert a file to HTML by pandoc, which may open no other file; return its warnings, too."""
    from pypandoc import get_pandoc_path

    command = [get_pandoc_path(), "--sandbox", "--standalone", "--mathjax", "--wrap=none"]
    command += [f"--from={form}", "--to=html", "+RTS", f"-M{_MEMORY}", "-RTS"]
    try:
        process = subprocess.run(command, input=data, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise ValueError(f"pandoc took longer than {_SECONDS} seconds") from None
    message = process.stderr.decode("utf-8", "replace")
    if process.returncode:
        raise ValueError(" ".join(f"pandoc: {message.strip() or process.returncode}".split())[:200])
    return process.stdout.decode("utf-8", "replace"), message
