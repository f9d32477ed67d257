"""How much of the pages of eleven generators of documentation is read, and what beside it.

    python -m benchmarks.quality.readers PAGES

PAGES has a folder for each package of Debian in `generators.csv`, with its files (`apt-get
download`, `dpkg-deb -x`). What a page says is what the selectors of its generator select: its
words, headings and the rows of tables whose header is in the first row. Of at most thirty pages of
each, the table says which share of the words, headings and rows is in passages, a row if one
passage has each of its values behind the name of its column; how many of the words that stand only
around a page's content are there too; and the seconds for a megabyte.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from shutil import copyfile
from typing import Annotated, NamedTuple

import typer
from bs4 import BeautifulSoup, Tag

from benchmarks.quality.manuals import rows_of
from benchmarks.tables import print_table, run_script
from uec_rag.documents import passages_of, read_folder

_AROUND = ".navheader, .navfooter, .headerlink, .nav-wrapper, #quickview, .mark, .top, .toc"
_NONE = "script, style, template, noscript, link, meta"
_MOST_FILES = 30
_WORD = re.compile(r"[^\W_]+")


class Page(NamedTuple):
    """What a page says, and what stands around it."""

    words: Counter[str]
    around: set[str]
    headings: list[str]
    rows: list[list[tuple[str, str]]]


def read_page(html: str, selector: str) -> Page:
    """Read a page by the selector of its generator."""
    soup = BeautifulSoup(html, "lxml")
    for tag in soup.select(_NONE):
        tag.decompose()
    whole = _words(soup.body.get_text(" ") if soup.body else "")
    for tag in soup.select(_AROUND):
        tag.decompose()
    content = soup.select(selector)
    words = Counter(word for tag in content for word in _words(tag.get_text(" ")).elements())
    headings = [_plain(h) for tag in content for h in tag.find_all(re.compile(r"^h[1-6]$"))]
    headings += [_plain(tag) for tag in content if tag.name == "h1"]
    rows = [row for tag in content for table in tag.find_all("table") for row in _rows(table)]
    return Page(words, {*whole} - {*words}, [h for h in headings if h], rows)


def _rows(table: Tag) -> Iterable[list[tuple[str, str]]]:
    """Rows of a table whose header is its first row, as names and values."""
    lines = table.find_all("tr")
    if not lines or table.find("table") or table.select("[rowspan], [colspan]"):
        return
    names = [_plain(cell) for cell in lines[0].find_all(["td", "th"])]
    if not lines[0].find("th") or lines[0].find("td") or not all(names):
        return
    for line in lines[1:]:
        values = [_plain(cell) for cell in line.find_all(["td", "th"])]
        if len(values) == len(names) and sum(map(bool, values)) > 1:
            yield [pair for pair in zip(names, values, strict=True) if pair[1]]


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


def _plain(text: Tag | str) -> str:
    """The letters and digits of a text, which neither Markdown nor layout changes."""
    return " ".join(_WORD.findall((text if isinstance(text, str) else text.get_text()).lower()))


def measure(folder: Path, selector: str) -> list[float]:
    """The shares of words, words around, headings and rows, and seconds per megabyte."""
    paths = sorted(path for path in folder.rglob("*.html") if path.is_file())
    paths = paths[:: max(1, len(paths) // _MOST_FILES)][:_MOST_FILES]
    shown, kept, around, foreign = 0, 0, 0, 0
    headings, rows = list[bool](), list[bool]()
    with tempfile.TemporaryDirectory() as copies:
        for number, path in enumerate(paths):
            copyfile(path, Path(copies) / f"{number:02}.html")
        start = time.perf_counter()
        read = {document.source: document for document in read_folder(copies)}
        seconds = time.perf_counter() - start
    for number, path in enumerate(paths):
        page = read_page(path.read_text(encoding="utf-8", errors="replace"), selector)
        found = [read[name]] if (name := f"{number:02}.html") in read else []
        texts = [passage.text for passage in passages_of(found)]
        said = _words("\n".join(texts))
        shown, kept = shown + page.words.total(), kept + (page.words & said).total()
        around, foreign = around + len(page.around), foreign + len(page.around & {*said})
        titles = {
            _plain(part) for one in found for section in one.sections for part in section.path
        }
        titles |= {_plain(one.title) for one in found}
        headings += [heading in titles for heading in page.headings]
        plain = [_plain(text) for text in texts]
        rows += [
            any(all(f"{name} {value}" in text for name, value in row) for text in plain)
            for row in page.rows
        ]
    size = sum(path.stat().st_size for path in paths) / 1e6
    each = [kept / shown, foreign / len(paths), around / len(paths), sum(headings) / len(headings)]
    return [len(paths), *each, len(rows), sum(rows) / max(1, len(rows)), seconds / size]


def main(folder: Annotated[Path, typer.Argument(metavar="PAGES", help="Packages.")]) -> None:
    """Print the table."""
    table = []
    for of in rows_of("generators"):
        pages, words, foreign, around, headings, count, rows, seconds = measure(
            folder / of["package"] / of["folder"], of["selector"]
        )
        row = f"{rows:.3f} of {count:.0f}" if count else "-"
        beside = f"{foreign:.1f} of {around:.1f}"
        cells = [f"{words:.3f}", beside, f"{headings:.3f}", row, f"{seconds:.1f}"]
        table.append([of["generator"], f"{pages:.0f}", *cells])
    header = ["generator", "pages", "words", "words around", "headings", "rows", "seconds a MB"]
    print_table("Read", header, table)


if __name__ == "__main__":
    run_script(main)
