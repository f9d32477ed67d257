"""Reading of PDF: its lines, the words that are parted at their ends, and its headings."""

import ctypes
import math
import re
import unicodedata
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from pypdfium2 import PdfDocument, raw

from uec_rag.documents.document import Block, Content, Heading, Page
from uec_rag.documents.plain_text import has_text, plain, raised

_HYPHEN = "\ufffe"  # what PDFium puts in place of a hyphen and the end of the line
_SOFT = "\uffff"  # the same for a sign that programs write only where they part a word
_SIGNS = ("\u2010", "\u00ad")
_PARTED = re.compile(rf"(\w*+)([{_HYPHEN}{_SOFT}])\s*+(\w*+)")
_WORD = re.compile(r"\w+")
_COMPOUND = re.compile(r"\w+(?:[-\u2010\u2011]\w+)+")
# Programs that do not hyphenate, or write another sign where they do: their "-" is the author's.
_NEVER_HYPHENATE = re.compile("Skia|Microsoft|Word")
_LARGER = 1.12  # the size of a heading over that of the text
_LONGEST_HEADING = 150  # characters
_LINES_OF_HEADING = 4
_RAISED = 0.2  # how far above the line a superscript begins, as a share of the size
_LEAST = 0.5  # points
_BESIDE = 0.6  # how much higher a part of a line is at most, as a share of the size
_BLANK = 0.15  # the least width of a blank
# What may be raised: digits, and the last letter of a word.
_MARK = re.compile(r"[\u2212\u2013-]?\d++|(?<=\S)[a-z](?!\w)")
_MINUS = "-\u2013\u2212"
_LABEL = re.compile(r"\d{1,3}(?=[^\W\d_])")  # of a note at the foot of a page
_NUMBER = re.compile(r"(?:[\dA-Z.]{1,20}(?:\s|$))?")
# Accents that stand apart before their letters, as in PDFs of TeX.
_SPACING = "\u00a8\u00b4\u02c6\u02dc\u02c7\u02d8\u02d9\u02da\u02dd\u00af"
_COMBINING = "\u0308\u0301\u0302\u0303\u030c\u0306\u0307\u030a\u030b\u0304"
_ACCENTS = dict(zip(_SPACING, _COMBINING, strict=True))
Line = tuple[str, float]  # and the size of its letters
_APART = re.compile(rf"([{_SPACING}]) ?([^\W\d_])|(?<=\w)(`)([aeiou])|([cCsStT])(\u00b8)")


def read_pdf(data: bytes) -> Content:
    """Read the pages, cut at the headings of the outline or, if there is none, at larger lines."""
    unread = 0
    with PdfDocument(data) as pdf:
        pdf.init_forms()
        marked = [(mark.get_title(), mark.get_dest(), mark.level) for mark in pdf.get_toc()]
        outline = [(title, to.get_index(), level) for title, to, level in marked if to is not None]
        hyphenates = not _NEVER_HYPHENATE.search(pdf.get_metadata_value("Producer"))
        pages = list[list[Line]]()
        for page in pdf:
            lines = _lines(page)
            pages.append(lines or [])
            is_image = not any(map(has_text, (line for line, _ in pages[-1])))
            has_image = is_image and any(page.get_objects((raw.FPDF_PAGEOBJ_IMAGE,)))
            unread += has_image or lines is None
    words = Counter[str]()
    for lines in pages:
        text = _PARTED.sub(" ", "\n".join(line for line, _ in lines).casefold())
        words.update(_WORD.findall(text))
        words.update(word.replace("\u2010", "-") for word in _COMPOUND.findall(text))
    for lines in pages:
        lines[:] = [(_join(line, words, hyphenates=hyphenates), size) for line, size in lines]
    larger, numbered = _larger_sizes(pages), list[Page]()
    for number, lines in enumerate(pages):
        marks = [(title, level) for title, place, level in outline if place == number]
        blocks = _by_outline(lines, marks) if outline else _by_size(lines, larger)
        numbered.append(Page([*blocks], number + 1))
    return Content(numbered, left_out={"page without text": unread})


def _larger_sizes(pages: list[list[Line]]) -> list[float]:
    sizes = Counter[float]()
    for lines in pages:
        for line, size in lines:
            sizes[size] += len(line)
    body = sizes.most_common(1)[0][0] if sizes else 0
    return sorted({size for size in sizes if size > _LARGER * body}, reverse=True)


def _lines(page: Any) -> list[Line] | None:  # noqa: ANN401
    """Return the lines of a page; None if its fonts do not tell which letters they draw."""
    if page.formenv:
        page.flatten()  # what is filled in becomes text
    characters = _Shown(page.get_textpage())
    if characters.are_unknown:
        return None
    lines = characters.text.replace("\r\n", " \n").replace("\r", "\n").split("\n")
    starts = accumulate((len(line) + 1 for line in lines), initial=0)
    parts = list[tuple[str, list[int], float]]()
    for line, start in zip(map(str.rstrip, lines), starts, strict=False):
        middle = next((n for n in range(len(line) // 2, len(line)) if not line[n].isspace()), 0)
        size, places = characters.size(start + middle), [*range(start, start + len(line))]
        largest = max(size, parts[-1][2]) if parts else 0
        blank = characters.blank_before(places, parts[-1][1], largest) if parts else None
        if blank is not None:  # a raised part is a line to PDFium
            before, places_before, _ = parts.pop()
            line, size = before + blank + line, largest
            places = [*places_before, *places[: len(blank)], *places]
        parts.append((line, places, size))
    whole = list[Line]()
    for line, places, size in parts:
        text = _accented(characters.marked(line, places))
        if whole and text and whole[-1][0].endswith(_SIGNS):
            text = whole.pop()[0][:-1] + _SOFT + text
        whole.append((text, round(size, 1)))
    return whole


class _Shown:
    """The characters of a page, and where they are shown."""

    def __init__(self, textpage: Any) -> None:  # noqa: ANN401
        self._page, self.text = textpage, textpage.get_text_range()
        self._x, self._y = ctypes.c_double(), ctypes.c_double()
        self._box = [ctypes.c_double() for _ in range(4)]

    @property
    def are_unknown(self) -> bool:
        """True if it is not known which most of the characters are."""
        count = raw.FPDFText_CountChars(self._page)
        private = sum(unicodedata.category(sign) == "Co" or sign == "\ufffd" for sign in self.text)
        unknown = sum(raw.FPDFText_HasUnicodeMapError(self._page, at) == 1 for at in range(count))
        return bool(2 * max(unknown, private) > max(count, 1))

    def size(self, place: int) -> float:
        """Return the size of a character's letters on the page."""
        matrix, size = raw.FS_MATRIX(), raw.FPDFText_GetFontSize(self._page, place)
        is_known = raw.FPDFText_GetMatrix(self._page, place, matrix)
        return float(size * (math.hypot(matrix.c, matrix.d) if is_known else 1))

    def origin(self, place: int) -> tuple[float, float]:
        """Return where a character begins, on its line."""
        raw.FPDFText_GetCharOrigin(self._page, place, self._x, self._y)
        return self._x.value, self._y.value

    def _edges(self, place: int) -> tuple[float, float]:
        """Return the right and the lower edge of what a character draws."""
        raw.FPDFText_GetCharBox(self._page, place, *self._box)
        return self._box[1].value, self._box[2].value

    def blank_before(self, following: list[int], line: list[int], size: float) -> str | None:
        """Return what parts a line from what is shown beside it; None if that is another line."""
        places = [place for place in following if not self.text[place].isspace()]
        if not line or not places:
            return None
        (x, y), base = self.origin(places[0]), self.origin(line[0])[1]
        if abs(y - base) > _BESIDE * size:
            return None
        # No line begins with a blank, which may be wide if both ends of lines are aligned.
        is_parted, gap = self.text[following[0]].isspace(), x - self._edges(line[-1])[0]
        if not -size / 4 < gap < size * (2 if is_parted else 1):
            return None
        return " " if gap > _BLANK * size and not is_parted else ""

    def marked(self, line: str, places: list[int]) -> str:
        """Return a line with what is raised apart from what it follows."""

        def mark(match: re.Match[str]) -> str:
            for at in range(max(match.start(), 1), match.end()):
                before = at - 2 if at > 1 and line[at - 1] in _MINUS else at - 1
                is_close = line[at].isalnum() and not line[before].isspace()
                if is_close and self._is_raised(places[at], places[before]):
                    above = line[before + 1 : match.end()]
                    return line[match.start() : before + 1] + raised(line[: before + 1], above)
            return match[0]

        label = _LABEL.match(line)
        if label and self._is_raised(places[0], places[label.end()], is_before=True):
            return f"[{label[0]}] {_MARK.sub(mark, line)[label.end() :]}"
        return _MARK.sub(mark, line)

    def _is_raised(self, place: int, neighbour: int, *, is_before: bool = False) -> bool:
        """Return whether a character is above the line of the one before or after it."""
        x, base = self.origin(neighbour)
        if (height := self._edges(place)[1] - base) < _LEAST:  # as of nearly all
            return False
        (x_raised, _), size = self.origin(place), self.size(neighbour)
        return _RAISED * size < height < size and (x_raised < x if is_before else x_raised > x)


def _accented(text: str) -> str:
    """Put accents on the letters that they stand beside."""

    def letter(parts: re.Match[str]) -> str:
        accent, base = parts[1] or parts[3], parts[2] or parts[4] or parts[5]
        mark = _ACCENTS.get(accent, "\u0300") if accent else "\u0327"
        base = {"\u0131": "i", "\u0237": "j"}.get(base, base)
        whole = unicodedata.normalize("NFC", base + mark)
        return whole if len(whole) == 1 else parts[0]

    return _APART.sub(letter, text)


def _join(line: str, words: Counter[str], *, hyphenates: bool) -> str:
    """Join words that are parted at the end of a line.

    The hyphen stays before a digit or a capital letter, and if the document has the word with it,
    or both parts of it and not the whole. If it says nothing of a word, `hyphenates` decides.
    """

    def word(parts: re.Match[str]) -> str:
        before, sign, after = parts.groups()
        head, tail = before.casefold(), after.casefold()
        if not after[:1].islower() or not before or words[f"{head}-{tail}"]:
            hyphen = True
        elif sign == _SOFT or words[head + tail]:
            hyphen = False
        else:
            hyphen = not hyphenates or (words[head] > 0 and words[tail] > 0)
        return f"{before}{'-' * hyphen}{after}"

    return _PARTED.sub(word, line)


def _by_outline(lines: list[Line], marks: list[tuple[str, int]]) -> Iterator[Block]:
    """Yield lines, with those of an outline's titles as headings, whatever their case and wrap."""
    texts, at = [line for line, _ in lines], 0
    spans = _spans(texts) if marks else {}
    for title, level in marks:
        places = spans.get(_squeezed(title), deque())
        while places and places[0][0] < at:
            places.popleft()
        if places:
            start, end = places.popleft()
            yield "\n".join(texts[at:start]).strip()
            yield Heading(title, min(level + 2, 6))
            at = end
    yield "\n".join(texts[at:]).strip()


def _spans(lines: list[str]) -> dict[str, deque[tuple[int, int]]]:
    """Return where some lines together are a text, perhaps with a number before it."""
    spans = defaultdict[str, deque[tuple[int, int]]](deque)
    for start, line in enumerate(lines):
        number = len(_NUMBER.match(line)[0])  # type: ignore[index]
        for end in range(start + 1, min(start + _LINES_OF_HEADING, len(lines)) + 1):
            whole = "".join(lines[start:end])
            if len(whole) > _LONGEST_HEADING * 2:
                break
            for text in {whole, whole[number:]}:
                spans[_squeezed(text)].append((start, end))
    return spans


def _squeezed(text: str) -> str:
    return "".join(plain(text).casefold().split())


def _by_size(lines: list[Line], larger: list[float]) -> Iterator[Block]:
    """Yield lines of a larger size as headings; consecutive ones of the same size are one."""
    text, heading, size_before = list[str](), list[str](), 0.0
    for line, size in [*lines, ("", 0.0)]:
        is_heading = size in larger and 2 < len(line) <= _LONGEST_HEADING and has_text(line)
        if heading and (not is_heading or size != size_before):
            yield "\n".join(text).strip()
            yield Heading(" ".join(heading), min(larger.index(size_before) + 1, 6))
            text, heading = [], []
        (heading if is_heading else text).append(line)
        size_before = size
    yield "\n".join(text).strip()
