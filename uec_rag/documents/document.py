"""The content that a reader extracts from a file, with its tables, and the document it makes."""

import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile, groupby, pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from uec_rag.base.text import find_words
from uec_rag.documents.plain_text import has_text, plain, split_text

if TYPE_CHECKING:
    from uec_rag.stores.passage import Passage

_MOST_ABOVE = 6  # headings before the last one

MOST_CELLS = 500_000
"""The largest number of cells in a table whose cells span others."""

_BLANKS = re.compile(" {64,}+")  # in the place of what is left out
_FARTHEST = 5_000  # characters of a file between two lines that are read
_LOOKED_AT = 50  # rows before an empty one
_LONGEST_UNIT = 15  # characters
# What programs write into cells without a value.
_NO_VALUES = {
    "",
    "NULL",
    "null",
    "Null",
    "(null)",
    "nan",
    "NaN",
    "NAN",
    r"\N",
    "None",
    "<NA>",
    "NaT",
}
_NO_VALUES |= {
    "#N/A",
    "#REF!",
    "#VALUE!",
    "#DIV/0!",
    "#NAME?",
    "#NUM!",
    "#NULL!",
    "#SPILL!",
    "#CALC!",
}
# A unit, or what is said of several columns: no number, and no sign that there is none.
_UNIT = re.compile(r"(?!(?:n/?a|none|tbd|\?+)\Z)\D", re.IGNORECASE)
_NO_UNIT = ("", "-", "\u2013", "\u2014")
_LONGEST_LINE = 500  # characters of a row in one line, which fits in a passage
_LONGEST_HEAD = 200  # characters of what each line of a longer row begins with


class Heading(NamedTuple):
    """A heading; its depth is 1 for the title of a document or a chapter, and up to 6."""

    text: str
    depth: int


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    titles : tuple of str
        What is said above the names of the columns.
    names : tuple of str
        The name of each column; empty if each row is a name and its values.
    rows : tuple of tuple of str
    """

    titles: tuple[str, ...]
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self) -> str:
        r"""Return the titles, and a line for each row: "Column: value, Column: value".

        A long row has several lines, each of which begins with the first cell.

        Examples
        --------
        >>> print(Table(("Prices",), ("Tea", "Euros"), (("Mint", "2"), ("Sage", "3"))).text())
        Prices
        Tea: Mint, Euros: 2
        Tea: Sage, Euros: 3
        """
        return "\n".join([*self.titles, *(line for row in self.rows for line in self._lines(row))])

    def _lines(self, row: Sequence[str]) -> Iterator[str]:
        if self.names or len(row) < 2 or not row[0]:
            cells = [cell for cell in zip_longest(self.names, row, fillvalue="") if cell[1]]
        else:
            cells = [(row[0], ", ".join(filter(None, row[1:])))]
        whole = ", ".join(_named(*cell) for cell in cells)
        if len(whole) <= _LONGEST_LINE:
            yield whole
            return
        if self.names[:1] == ("",) and row[0] and len(cells) > 1:  # a group, and what of it
            cells[:2] = [("", ", ".join(_named(*cell) for cell in cells[:2]))]
        head = _named(*cells[0])
        if len(cells) == 1 or len(head) > _LONGEST_HEAD:
            name, value = cells[0]
            yield from (_named(name, part) for part in split_text(value, _LONGEST_LINE))
            head = f"{head[:_LONGEST_HEAD]} …"
        for name, value in cells[1:]:
            for part in split_text(value, _LONGEST_LINE):
                yield f"{head}, {_named(name, part)}"


def _named(name: str, value: str) -> str:
    return f"{name.removesuffix(':')}: {value}" if name else value


Block = str | Heading | Table
"""A part of a page; a string is Markdown, or text without markup."""


@dataclass(frozen=True)
class Page:
    """The blocks of a page in their order, and its number; None if the format has no pages.

    Or a document of a file that has several, with its metadata.
    """

    blocks: Sequence[Block]
    number: int | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Content:
    """The content of a file, as a reader extracts it.

    Attributes
    ----------
    pages : sequence of Page
    title : str
        The title of the document; "" if it is the first heading, of depth 1, or there is none.
    metadata : mapping
        What the file says about itself: strings, numbers, Booleans and lists of these.
    notes : sequence of str
        What the user should know about the reading, without a subject: "was read as cp1251".
    left_out : mapping of str to int
        As of the `Document`.
    text : str
        The text that was read, of a format that is one; its markup may be blank.
    """

    pages: Sequence[Page]
    title: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)
    notes: Sequence[str] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a document under one heading.

    Attributes
    ----------
    path : tuple of str
        The headings from the outermost to the section's own, without the title of the document;
        empty below the title alone.
    text : str
        The text below the heading.
    page : int or None
        Number of the page or slide; None if the document has no pages.
    metadata : mapping
        What the file says about this part alone.
    captions : tuple of str
        What is said above the names of the columns of its tables, which each part repeats.
    places : tuple of (int, int)
        Where lines of the text begin that are in a row in the file, and where there; -1 if they are
        not there as they are.
    """

    path: tuple[str, ...]
    text: str
    page: int | None = None
    captions: tuple[str, ...] = field(default=(), compare=False)
    metadata: Mapping[str, object] = field(default_factory=dict, compare=False)
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    @property
    def heading(self) -> str:
        """The section's own heading; "" if it has none."""
        return self.path[-1] if self.path else ""

    def place(self, start: int, end: int) -> int | None:
        """Return where a part of the text begins in the file; None if it is not there as it is."""
        line = bisect_right(self.places, (start, sys.maxsize)) - 1
        if line < 0 or self.places[line][1] < 0:
            return None
        following = self.places[line + 1][0] if line + 1 < len(self.places) else end
        return _leads_to(self.places[line], start) if following >= end else None


@dataclass(frozen=True)
class Document:
    """A text in sections.

    Attributes
    ----------
    source : str
        The origin of the text; for a file, its path relative to the folder.
    sections : tuple of Section
    sha256 : str
        Hash of the file, in hexadecimal; "" if the text is not from a file.
    title : str
        The title; "" if it is not known.
    metadata : mapping
        What the file says about itself, such as its authors; goes into the passages' metadata.
    left_out : mapping of str to int
        What the file holds that was not read, and how often, such as ``{"hidden sheet": 1}``: a
        noun phrase in the singular, as `pluralize` takes it.
    """

    source: str
    sections: tuple[Section, ...]
    sha256: str = ""
    title: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def headings(self) -> dict[tuple[str, ...], str]:
        """The name of each path's heading, preceded by as many headings above it as it takes.

        Examples
        --------
        >>> paths = [("Rye", "Time"), ("Oats", "Time"), ("Oats", "Heat")]
        >>> bread = Document("bread.md", tuple(Section(path, "An hour.") for path in paths))
        >>> [bread.headings[path] for path in paths]
        ['Rye: Time', 'Oats: Time', 'Heat']
        """
        tuples = (section.path for section in self.sections)
        paths = {path[:end] for path in tuples for end in range(len(path) + 1)}
        ends = Counter(path[start:] for path in paths for start in range(len(path)))
        unique = {path: [n for n in range(len(path)) if ends[path[n:]] == 1] for path in paths}
        return {path: ": ".join(path[max(unique[path], default=0) :]) for path in paths}


def deeper(blocks: Iterable[Block], by: int) -> list[Block]:
    """Return the parts of a page with their headings so much deeper."""
    return [
        block._replace(depth=min(block.depth + by, 6)) if isinstance(block, Heading) else block
        for block in blocks
    ]


def body_of(passage: "Passage") -> str:
    r"""Return the text of a passage without the titles and headings that it begins with.

    Examples
    --------
    >>> from uec_rag.stores import Passage
    >>> known = {"title": "Fees", "document_title": "Loans"}
    >>> body_of(Passage("a.md#1", "Loans\n\nCosts\n\nFees\n\nNone.", known))
    'None.'
    """
    text = passage.text
    lines = text.split("\n\n", _MOST_ABOVE)
    for name in ("title", "heading", "header", "document_title"):
        if not (title := str(passage.metadata.get(name, ""))):
            continue
        start = 0
        for line in lines:
            if text.startswith(f"{title}\n", start):
                return text[start + len(title) :].strip()
            if not line or "\n" in line:  # which is no heading
                break
            start += len(line) + 2
    return text.strip()


def cut(content: Content) -> tuple[str, tuple[Section, ...]]:
    """Cut a document at its headings and pages; return its title and the sections with text.

    The title is that of the content or, if it has none, the first heading, if that is of depth 1.
    A heading with nothing below it, not even another heading, is a text itself; several in turn are
    one text below the heading above them, so that an outline makes few passages.
    """
    title, sections = plain(content.title), list[Section]()
    above, is_first = list[Heading](), not title
    alone = list[Section]()
    for page in content.pages:
        parts, captions, is_bare = list[str](), list[str](), False
        for block in (*page.blocks, None):  # at the end of a page, too
            if isinstance(block, str | Table):
                parts.append((block if isinstance(block, str) else block.text()).strip("\n"))
                captions += [] if isinstance(block, str) else [plain("\n".join(block.titles))]
                continue
            text = plain("\n\n".join(filter(None, parts))).rstrip().lstrip("\n")
            path = tuple(heading.text for heading in above)
            if has_text(text):
                sections += [
                    *_as_one(alone),
                    Section(path, text, page.number, (*captions,), page.metadata),
                ]
                alone = []
            elif is_bare and (block is None or block.depth <= above[-1].depth):
                if alone and alone[-1].path[:-1] != path[:-1]:
                    sections, alone = [*sections, *_as_one(alone)], []
                alone.append(Section(path, path[-1], page.number))
            parts, captions, is_bare = [], [], False
            if block is None:
                continue
            name = " ".join(plain(block.text).split())
            above = [heading for heading in above if heading.depth < block.depth]
            if is_first and name and block.depth == 1:
                title = name
            elif name and name != title:
                above.append(Heading(name, block.depth))
                is_bare = has_text(name)
            is_first &= not name
        sections, alone = [*sections, *_as_one(alone)], []
    if not sections and has_text(title) and title != plain(content.title):
        sections.append(Section((), title))
    return title, tuple(_placed(sections, content.text)) if content.text else tuple(sections)


def _placed(sections: Iterable[Section], text: str) -> Iterator[Section]:
    """Yield sections with the places of their lines in a text, in which these follow each other."""
    end, farthest = 0, _FARTHEST + max(map(len, _BLANKS.findall(text)), default=0)
    for section in sections:
        places, at = list[tuple[int, int]](), 0
        for line in section.text.split("\n"):
            limit = end + len(line) + farthest
            place = find_words(text, line, end, limit) if line.strip() else end
            if line.strip() and (not places or _leads_to(places[-1], at) != place):
                places.append((at, place))
            end = place + len(line) if place >= 0 else end
            at += len(line) + 1
        yield replace(section, places=(*places,))


def _leads_to(place: tuple[int, int], at: int) -> int:
    return place[1] + at - place[0] if place[1] >= 0 else -1


def _as_one(alone: Sequence[Section]) -> Sequence[Section]:
    """Return sections of headings alone as one, below the heading above them."""
    if len(alone) < 2:
        return alone
    texts = "\n".join(section.text for section in alone)
    return [Section(alone[0].path[:-1], texts, alone[0].page)]


def table_of(
    grid: Iterable[Sequence[str]],
    *,
    header: int | None = None,
    pairs: bool = False,
    merged: bool = True,
) -> Table | None:
    """Find the titles and the names of the columns in a grid; None if there is no row with text.

    Leading rows with a single value are titles. If neighbours in the next row are equal, as if
    they were merged, it is the first of two header rows.

    Parameters
    ----------
    grid : iterable of sequence of str
        The cells of each row; merged ones are repeated.
    header : int, optional
        The number of rows at the top that are marked as a header, 0 if none is; by default, it is
        not known, and the first row is one.
    pairs : bool
        Whether rows without a header are names and their values.
    merged : bool
        Whether equal cells in the first row may be one; False if it repeats a value.
    """
    rows = [[*map(_tidy, row)] for row in grid]
    rows = [row for row in rows if any(row)]
    width = max((sum(map(bool, row)) for row in rows), default=0)
    titles = list[str]()
    may_be_title = merged or sum(map(bool, rows[0] if rows else ())) < 2
    while may_be_title and width > 1 and len(rows) > 1 and _is_title(rows[0], rows[1]):
        titles.append(" ".join(next(filter(None, rows.pop(0))).split()))
        header = header and header - 1
    if not rows:
        return None
    if header == 0 and pairs:
        if (below := _below_groups(rows)) != rows:
            group = titles.pop() if titles else ""  # of the first rows
            below = [[row[0] or group, *row[1:]] for row in below]
            rows = [[", ".join(filter(None, row[:2])), *row[2:]] for row in below]
        return Table((*titles,), (), (*map(tuple, rows),))
    if len(rows) == 1:  # a header alone, or a single line
        alone = width > 1 and header is None and not titles
        return None if alone else Table((*titles,), (), ((", ".join(filter(None, rows[0])),),))
    count = max(header or 1, 2 if _is_first_of_two(rows) else 1)
    count += _has_units(rows[count:])
    names = [
        " ".join(" ".join(dict.fromkeys(cell for cell in cells if cell not in _NO_UNIT)).split())
        for cells in zip_longest(*rows[:count], fillvalue="")
    ]
    below = _below_groups(rows[count:])
    names[:0] = [""] * (below != rows[count:])
    return Table((*titles,), (*names,), (*map(tuple, below),))


def value_of(cell: str) -> str:
    """Return the value in a cell of data; "" for what programs write where there is none."""
    return "" if cell.strip() in _NO_VALUES else cell


def _tidy(cell: str) -> str:
    """Return a cell without needless blanks; several lines keep theirs, as code does."""
    if "\n" not in (text := cell.strip()):
        return " ".join(text.split())
    return "\n".join(map(str.rstrip, cell.strip("\n").rstrip().split("\n")))


def _has_units(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has units of the columns below it, which have numbers.

    There are none of a column without, such as the first; or all columns have numbers.
    """
    units_row, numbers = (*rows, ())[0], _digits(rows[1:_LOOKED_AT])
    units = {n: cell for n, cell in enumerate(units_row) if cell not in _NO_UNIT}
    if not units or (len(units) == len(units_row) and any(map(str.isdigit, "".join(units_row)))):
        return False
    return (0 not in units or len(units) == len(units_row)) and all(
        len(cell) <= _LONGEST_UNIT and _UNIT.match(cell) and numbers.get(n)
        for n, cell in units.items()
    )


def _below_groups(rows: list[list[str]]) -> list[list[str]]:
    """Return rows with another first cell: the row of a single value that is above several rows.

    It is merged over all columns. Or it has a single cell, as the first row and others have, or as
    rows above items that have the same names.
    """
    spans = [len({*row}) == 1 < len(row) and _UNIT.match(row[0]) is not None for row in rows]
    lone = [*map(_is_alone, rows)]
    heads = [n for n in range(len(rows) - 1) if lone[n] and not lone[n + 1]]
    names = [row[0] for row, is_lone in zip(rows, lone, strict=True) if not is_lone]
    is_first = heads[:1] == [0] and len(rows) >= 3 * len(heads)
    if len(heads) < 2 or not (is_first or len({*names}) < len(names)):
        heads = []
    heads += [n for n in range(len(rows) - 1) if spans[n] and not spans[n + 1]]
    group, below = "", list[list[str]]()
    for n, row in enumerate(rows):
        group = next(filter(None, row)).strip("*: ") if n in heads else group
        below += [] if n in heads else [[group, *row]]
    return below if heads else rows


def tables_of(grid: Iterable[Sequence[str]], *, merged: bool = True) -> list[Table]:
    """Find the tables in a grid: below an empty row, another head begins another table.

    Rows of a single value before a head are its titles. `merged`: as in `table_of`, for the first.
    """
    blocks, titles = list[list[list[str]]](), list[list[str]]()
    rows = ([*map(_tidy, row)] for row in grid)
    for says_any, group in groupby(rows, any):
        run = [*group] if says_any else []
        titles += run
        if not all(map(_is_alone, run)):
            blocks += [] if blocks and not _begin_another(titles, blocks[-1]) else [[]]
            blocks[-1] += titles
            titles = []
    blocks[-1:] = [[*(row for block in blocks[-1:] for row in block), *titles]]
    tables = (table_of(block, merged=merged or n > 0) for n, block in enumerate(blocks))
    return [*filter(None, tables)]


def _is_alone(row: Sequence[str]) -> bool:
    return sum(map(bool, row)) < 2


def _begin_another(rows: Sequence[Sequence[str]], before: Sequence[Sequence[str]]) -> bool:
    """Return whether rows below an empty one have a head of their own.

    It has the names of the one before again; or its rows have other columns; or it has no digits in
    a column where all rows below it have some, or all rows before and none below it.
    """
    at = next((n for n, row in enumerate(before) if not _is_alone(row)), 0)
    above_head, above = before[at], before[max(at + 1, len(before) - _LOOKED_AT) :]
    head, *below = dropwhile(_is_alone, rows)
    if [*filter(None, head)] == [*filter(None, above_head)]:
        return True
    names, values, earlier, of_last = map(_digits, ([head], below, above, [above_head]))
    if not values or len(names) < 2 or any(map(_is_number, head)):
        return False
    return (values.keys() <= names.keys() != of_last.keys()) or any(
        not has and (values.get(n) is True or (values.get(n), earlier.get(n)) == (False, True))
        for n, has in names.items()
    )


def _digits(rows: Iterable[Sequence[str]]) -> dict[int, bool | None]:
    """Return whether the values of each column that has some have digits; None if some have."""
    columns = enumerate(zip_longest(*rows, fillvalue=""))
    kinds = {n: {any(map(str.isdigit, cell)) for cell in cells if cell} for n, cells in columns}
    return {n: kind == {True} if len(kind) == 1 else None for n, kind in kinds.items() if kind}


def _is_title(row: Sequence[str], following: Sequence[str]) -> bool:
    """Return whether a row has a single value, and is not a header with one name."""
    if len({*filter(None, row)}) > 1:
        return False
    merged, wide = sum(map(bool, row)) > 1, len(following) > 2
    return merged or wide or not any(map(_is_number, following[1:]))


def _is_first_of_two(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether columns that share a name have different ones below it, and others none."""
    if len(rows) < 3:
        return False
    places = [n for n, (a, b) in enumerate(pairwise(rows[0])) if a == b != ""]
    below = [(*rows[1][n : n + 2], "", "")[:2] for n in places]
    if not all(a and b and a != b and not _is_number(a + b) for a, b in below):
        return False
    merged = {place for n in places for place in (n, n + 1)}
    alone = [n for n in range(len(rows[0])) if n not in merged and rows[0][n]]
    return bool(places) and all((*rows[1][n : n + 1], "")[0] in ("", rows[0][n]) for n in alone)


def _is_number(text: str) -> bool:
    return any(map(str.isdigit, text)) and not any(map(str.isalpha, text))


def spread(rows: Sequence[Sequence[tuple[str, int, int]]]) -> list[list[str]]:
    """Return the grid of cells that may span several rows and columns, each of which repeats them.

    `rows`: the text of each cell, and how many rows and columns it spans. A place that two cells
    claim belongs to the first of them.

    Raises ValueError if there are more than `MOST_CELLS` places.
    """
    grid: dict[tuple[int, int], str] = {}
    width = 0
    for r, row in enumerate(rows):
        column = 0
        for text, down, across in row:
            while (r, column) in grid:
                column += 1
            for below in range(r, min(r + down, len(rows))):
                for place in range(column, column + across):
                    grid.setdefault((below, place), text)
            column += across
            width = max(width, column)
            if max(len(grid), len(rows) * width // 4) > MOST_CELLS:
                raise ValueError(f"it has a table of more than {MOST_CELLS:,} cells")
    return [[grid.get((r, c), "") for c in range(width)] for r in range(len(rows))]
