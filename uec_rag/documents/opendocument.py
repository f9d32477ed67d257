"""OpenDocument as it is shown: without what it hides, and as text what no library reads."""

import re
from collections import Counter
from collections.abc import Iterable

from lxml import etree

from uec_rag.documents.archive import Element, parse_xml, replaced, unzip
from uec_rag.documents.numbering import SHAPES, Level, count
from uec_rag.documents.plain_text import to_integer

_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
_SPACES = {name: f"{_OASIS}:{name}:1.0" for name in ("table", "style", "text", "presentation")}
_SPACES["draw"] = f"{_OASIS}:drawing:1.0"
_TABLE, _STYLE, _TEXT, _, _DRAW = (f"{{{space}}}" for space in _SPACES.values())
_NAME, _REPEATED = f"{_STYLE}name", f"{_TABLE}number-columns-repeated"
_STYLES = [f"{{{space}}}style-name" for space in _SPACES.values()]
_DISPLAY = "*/@text:display | */@table:display | */@presentation:visibility"
# What is hidden by itself. Rows that an outline hides come and go.
_HIDDEN = (
    "//*[@text:display='none']"
    "|//table:table-row[@table:visibility='collapse'][not(ancestor::table:table-row-group)]"
)
_NOUNS = {"table": "hidden sheet", "page": "hidden slide", "table-row": "hidden row"}
_TITLES = "//style:style[@style:parent-style-name='Title']/@style:name"
_BLOCKS = tuple(f"{_TEXT}{name}" for name in ("p", "h", "list"))
_INLINE = tuple(f"{_TEXT}{name}" for name in ("p", "h", "span", "a"))
# What has a text that pandoc reads itself, or is of a note; of the others, fields have one.
_READ = (*_INLINE, *(f"{_TEXT}{name}" for name in ("note-citation", "bookmark-ref")))
_READ += (f"{_TEXT}linenumbering-separator",)
_GONE, _FIELD = "gone", "field"  # elements that go, and those of which the text stays
_DEEPEST = 20  # styles that are based on each other
_WIDEST = 16_384  # columns of a sheet
_OBJECT = re.compile(r"(?:\./)?(?:Object|Formula)[^/]*/content\.xml")


def simplify(data: bytes, left_out: Counter[str]) -> tuple[bytes, str]:
    """Return a file of OpenDocument for libraries that know less of it, and its title.

    What it hides is left out; sheets, rows, columns and slides are counted, as are formulas and
    charts of a text. Fields are texts, boxes stand below their paragraphs, headings have numbers.
    """
    archive = unzip(data)
    content = parse_xml(archive.read("content.xml"))
    styles = [parse_xml(archive.read(name)) for name in archive.namelist() if name == "styles.xml"]
    _leave_out(content, _hiding_styles([*styles, content]), left_out)
    _show_fields(content)
    title = ""
    if content.find("{*}body/{*}text") is not None:
        _show_boxes(content)
        _write_numbers(content, styles)
        titles, paragraphs = {"Title", *_all(content, _TITLES)}, content.iter(f"{_TEXT}p")
        texts = (part.itertext() for part in paragraphs if part.get(f"{_TEXT}style-name") in titles)
        title = "".join(next(texts, ()))
        objects = [archive.read(name) for name in archive.namelist() if _OBJECT.fullmatch(name)]
        left_out["equation"] += sum(b"Math/MathML" in part for part in objects)
        left_out["chart"] += sum(b"<chart:chart" in part for part in objects)
    copy = replaced(archive, {"content.xml": etree.tostring(content)})
    return copy.getvalue(), " ".join(title.split())


def _all(element: Element, path: str) -> list[Element]:
    return [*element.xpath(path, namespaces=_SPACES)]


def _hiding_styles(roots: Iterable[Element]) -> set[str]:
    """Return the names of styles that hide, by themselves or by what they are based on."""
    styles = {style.get(_NAME): style for root in roots for style in root.iter(f"{_STYLE}style")}

    def hides(name: str, depth: int = _DEEPEST) -> bool:
        if name not in styles or not depth:
            return False
        if display := _all(styles[name], _DISPLAY):
            return display[0] in ("none", "false", "hidden")
        return hides(styles[name].get(f"{_STYLE}parent-style-name"), depth - 1)

    return {name for name in styles if name and hides(name)}


def _leave_out(content: Element, hiding: set[str], left_out: Counter[str]) -> None:
    """Remove what is hidden by its style or by itself, and columns of sheets, and count them."""
    styled = [part for part in content.iter("*") if not hiding.isdisjoint(map(part.get, _STYLES))]
    for element in [*styled, *_all(content, _HIDDEN)]:
        if next(element.iterancestors(_GONE), None) is None:
            if noun := _NOUNS.get(element.tag.rpartition("}")[2]):
                left_out[noun] += _has_text(element)
            element.tag = _GONE
    for table in content.iter(f"{_TABLE}table"):
        left_out["hidden column"] += _hide_columns(table)
    etree.strip_elements(content, _GONE, with_tail=False)


def _hide_columns(table: Element) -> int:
    """Leave out the hidden columns of a table; return of how many some cell has a text."""
    columns = table.iter(f"{_TABLE}table-column")
    signs = ((part.get(f"{_TABLE}visibility") == "collapse", _count(part)) for part in columns)
    hidden = b"".join((b"1" if is_hidden else b"0") * count for is_hidden, count in signs)
    columns_with_text = set[int]()
    for row in table.iter(f"{_TABLE}table-row") if b"1" in hidden else ():
        end = 0
        for cell in row:
            start, end = end, end + _count(cell)
            if not (count := hidden.count(b"1", start, end)):
                continue
            if _has_text(cell):
                columns_with_text |= {n for n in range(start, end) if hidden[n : n + 1] == b"1"}
            cell.set(_REPEATED, str(end - start - count))
            cell.tag = cell.tag if count < end - start else _GONE
    return len(columns_with_text)


def _has_text(element: Element) -> bool:
    return bool("".join(element.itertext()).strip())


def _count(element: Element) -> int:
    return min(to_integer(element.get(_REPEATED), 1), _WIDEST)


def _show_fields(content: Element) -> None:
    """Make fields texts, which libraries would leave out, and drop readings above a text."""
    etree.strip_elements(content, f"{_TEXT}ruby-text", with_tail=False)
    for element in content.iter(f"{_TEXT}*"):
        if element.tag not in _READ and not len(element) and (element.text or "").strip():
            element.tag = _FIELD
    etree.strip_tags(content, _FIELD, f"{_TEXT}ruby", f"{_TEXT}ruby-base")


def _show_boxes(content: Element) -> None:
    """Put the paragraphs of boxes and shapes below the one that they are in."""
    for box in reversed([*content.iter(f"{_DRAW}*")]):
        place = box
        while (above := place.getparent()).tag.startswith(_DRAW) or above.tag in _INLINE:
            place = above
        for part in reversed([part for part in box if part.tag in _BLOCKS]):
            place.addnext(part)


def _write_numbers(content: Element, styles: Iterable[Element]) -> None:
    """Write the numbers of headings into them, as the outline of the styles says."""
    levels, counters = dict[int, Level](), dict[int, int]()
    for level in (part for root in styles for part in root.iter(f"{_TEXT}outline-level-style")):
        depth = to_integer(level.get(f"{_TEXT}level")) - 1
        if shape := level.get(f"{_STYLE}num-format"):
            above = depth - to_integer(level.get(f"{_TEXT}display-levels"), 1)
            marks = ".".join(f"%{n + 1}" for n in (*levels, depth) if n > above)
            before, after = (level.get(f"{_STYLE}num-{side}", "") for side in ("prefix", "suffix"))
            start = to_integer(level.get(f"{_TEXT}start-value"), 1)
            levels[depth] = Level(start, SHAPES.get(shape, "decimal"), f"{before}{marks}{after}")
    for heading in content.iter(f"{_TEXT}h"):
        depth = to_integer(heading.get(f"{_TEXT}outline-level"), 1) - 1
        if depth in levels and heading.get(f"{_TEXT}is-list-header") != "true":
            heading.text = f"{count(depth, counters, levels)} {heading.text or ''}"
