"""Tables of files: which rows name the columns, and their lines in passages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from uec_rag.documents.splitting import split_text

MOST_CELLS = 500_000
"""The largest number of cells in a table whose cells span others."""

_LONGEST_LINE = 500  # characters of a row in one line, which fits in a passage
_LONGEST_HEAD = 200  # characters of what each line of a longer row begins with


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
        whole = ", ".join(map(_named, cells))
        if len(whole) <= _LONGEST_LINE:
            yield whole
            return
        first, others = _named(cells[0]), cells[1:]
        if not others or len(first) > _LONGEST_HEAD:
            yield from (_named((cells[0][0], piece)) for piece in _pieces(cells[0][1]))
            first = f"{first[:_LONGEST_HEAD]} …"
        for name, value in others:
            yield from (f"{first}, {_named((name, piece))}" for piece in _pieces(value))


def _named(cell: tuple[str, str]) -> str:
    name, value = cell
    return f"{name.removesuffix(':')}: {value}" if name else value


def _pieces(value: str) -> list[str]:
    return split_text(value, _LONGEST_LINE)


def table_of(
    grid: Iterable[Sequence[str]], *, header: int | None = None, pairs: bool = False
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
    """
    rows = [[" ".join(cell.split()) for cell in row] for row in grid]
    rows = [row for row in rows if any(row)]
    width = max((sum(map(bool, row)) for row in rows), default=0)
    titles = list[str]()
    while width > 1 and len(rows) > 1 and _is_title(rows[0], rows[1]):
        titles.append(next(filter(None, rows.pop(0))))
        header = header and header - 1
    if not rows:
        return None
    if header == 0 and pairs:
        return Table((*titles,), (), (*map(tuple, rows),))
    if len(rows) == 1:  # a header alone, or a single line
        alone = width > 1 and header is None and not titles
        return None if alone else Table((*titles,), (), ((", ".join(filter(None, rows[0])),),))
    count = max(header or 1, 2 if _is_first_of_two(rows) else 1)
    names = [
        " ".join(dict.fromkeys(filter(None, cells)))
        for cells in zip_longest(*rows[:count], fillvalue="")
    ]
    return Table((*titles,), (*names,), (*map(tuple, rows[count:]),))


def _is_title(row: Sequence[str], following: Sequence[str]) -> bool:
    """Return whether a row has a single value, and is not a header with one name."""
    if len({*filter(None, row)}) > 1:
        return False
    merged, wide = sum(map(bool, row)) > 1, len(following) > 2
    return merged or wide or not any(map(_is_number, following[1:]))


def _is_first_of_two(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether columns that share a name have different ones below it."""
    if len(rows) < 3:
        return False
    same = [n for n, (a, b) in enumerate(pairwise(rows[0])) if a == b != ""]
    below = [(*rows[1][n : n + 2], "", "")[:2] for n in same]
    return bool(same) and all(a and b and a != b and not _is_number(a + b) for a, b in below)


def _is_number(text: str) -> bool:
    return any(map(str.isdigit, text)) and not any(map(str.isalpha, text))


def spread(cells: Iterable[tuple[int, int, str, int, int]]) -> list[list[str]]:
    """Return the grid of cells that may span several rows and columns, each of which repeats them.

    `cells`: the row and the column of each cell's first place, its text, and how many rows and
    columns it spans. A place that two cells claim belongs to the first of them.

    Raises ValueError if there are more than `MOST_CELLS` places.
    """
    grid: dict[tuple[int, int], str] = {}
    height = width = 0
    for row, column, text, rows, columns in cells:
        if len(grid) + rows * columns > MOST_CELLS:
            raise ValueError(f"it has a table of more than {MOST_CELLS:,} cells")
        for place in (
            (r, c) for r in range(row, row + rows) for c in range(column, column + columns)
        ):
            grid.setdefault(place, text)
        height, width = max(height, row + rows), max(width, column + columns)
    if height * width > 4 * MOST_CELLS:
        raise ValueError(f"it has a table of more than {MOST_CELLS:,} cells")
    return [[grid.get((r, c), "") for c in range(width)] for r in range(height)]
