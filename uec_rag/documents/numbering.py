"""The numbers of paragraphs as Word shows them: "2.1", "(c)", "iv."."""

import re
from collections import defaultdict
from string import ascii_lowercase
from typing import NamedTuple, TypeAlias

from uec_rag.documents.archive import Element, W
from uec_rag.documents.plain_text import to_integer

_ROMAN = {
    "m": 1000, "cm": 900, "d": 500, "cd": 400, "c": 100, "xc": 90,
    "l": 50, "xl": 40, "x": 10, "ix": 9, "v": 5, "iv": 4, "i": 1,
}  # fmt: skip
SHAPES = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
"""Word's names of the shapes of numbers in HTML and OpenDocument."""

_MOST = 10_000  # to which letters and Roman numerals count
_DEEPEST = 20  # styles that are based on each other


def write_number(number: int, shape: str) -> str:
    """Write a number as a numbering format of Word says; the rare ones as digits.

    Examples
    --------
    >>> [write_number(28, shape) for shape in ("upperRoman", "lowerLetter", "chineseCounting")]
    ['XXVIII', 'bb', '28']
    """
    if shape == "none":
        return ""
    if shape == "decimalZero":
        return f"{number:02}"
    kind = shape.removeprefix("lower").removeprefix("upper")
    if kind not in ("Letter", "Roman") or not 0 < number < _MOST:
        return str(number)
    if kind == "Letter":
        times, position = divmod(number - 1, len(ascii_lowercase))
        text = ascii_lowercase[position] * (times + 1)
    else:
        text, remainder = "", number
        for letters, worth in _ROMAN.items():
            text, remainder = text + letters * (remainder // worth), remainder % worth
    return text.upper() if shape.startswith("upper") else text


class Level(NamedTuple):
    """A level of a list: where it starts, how it is shown, and which level above restarts it."""

    start: int
    shape: str
    text: str
    restart: int | None = None
    is_legal: bool = False
    style: str = ""


_List: TypeAlias = tuple[dict[int, int], dict[int, Level]]
"""The counters of a list, which all lists of one definition share, and its levels."""


class Numbering:
    """The counters of a document's lists, for its paragraphs in turn.

    Parameters
    ----------
    numbering, styles : Element or None
        The parts of the document that define its lists and its styles.

    Attributes
    ----------
    styles : dict of str to Element
        The styles by their ids.
    """

    def __init__(self, numbering: Element, styles: Element) -> None:
        self.styles = _by_name(styles, "style", "styleId")
        self._numbers = _by_name(numbering, "num", "numId")
        self._definitions = _by_name(numbering, "abstractNum", "abstractNumId")
        self._counters = defaultdict[str, dict[int, int]](dict)
        self._lists = dict[str, _List]()

    def label(self, paragraph: Element) -> str | None:
        """Count a paragraph; return its number or check box, None if it has neither."""
        number, level = _numbered(paragraph)
        styles, name = list[str](), value_of(paragraph, f"{W}pPr/{W}pStyle")
        while not number and name in self.styles and len(styles) < _DEEPEST:
            styles.append(name)
            number, level_of_style = _numbered(self.styles[name])
            level = level_of_style if level is None else level
            name = value_of(self.styles[name], f"{W}basedOn")
        if number not in self._numbers:
            return None
        if number not in self._lists:
            self._lists[number] = self._begin(number)
        counters, levels = self._lists[number]
        if level is None:
            level = next((n for n, candidate in levels.items() if candidate.style in styles), 0)
        if level not in levels:
            return None
        text = count(level, counters, levels)
        # pandoc's check boxes are bullets
        return text if levels[level].shape != "bullet" or text in ("☐", "☒", "☑") else None

    def _begin(self, number: str) -> _List:
        """Return a list when its first paragraph comes."""
        element = self._numbers[number]
        name = value_of(element, f"{W}abstractNumId")
        link = value_of(self._definitions.get(name), f"{W}numStyleLink")
        if link in self.styles:  # its levels are those of the list of a style
            linked, _ = _numbered(self.styles[link])
            name = value_of(self._numbers.get(linked), f"{W}abstractNumId")
        definition, counters = self._definitions.get(name), self._counters[name]
        defined = [] if definition is None else definition.iterfind(f"{W}lvl")
        levels = {to_integer(level.get(f"{W}ilvl")): _level(level) for level in defined}
        for override in element.iterfind(f"{W}lvlOverride"):
            at, level = to_integer(override.get(f"{W}ilvl")), override.find(f"{W}lvl")
            if level is not None:
                levels[at] = _level(level)
            if (start := value_of(override, f"{W}startOverride")) and at in levels:
                levels[at] = levels[at]._replace(start=to_integer(start))
                counters.pop(at, None)
        return counters, levels


def count(level: int, counters: dict[int, int], levels: dict[int, Level]) -> str:
    """Count a paragraph of a level of a list, and return its number."""
    for above in range(level):
        if above in levels:
            counters.setdefault(above, levels[above].start)
    counters[level] = counters[level] + 1 if level in counters else levels[level].start
    for below in [deeper for deeper in counters if deeper > level]:
        restart = levels[below].restart if below in levels else None
        if restart is None or level < restart:
            del counters[below]

    def shown(mark: re.Match[str]) -> str:
        place = int(mark[1]) - 1
        is_plain = levels[level].is_legal or place not in levels
        return write_number(counters.get(place, 1), "decimal" if is_plain else levels[place].shape)

    return re.sub("%([1-9])", shown, levels[level].text).strip()


def _level(element: Element) -> Level:
    shapes = [shape.get(f"{W}val") for shape in element.iter(f"{W}numFmt")]
    restart, legal = value_of(element, f"{W}lvlRestart"), element.find(f"{W}isLgl")
    return Level(
        to_integer(value_of(element, f"{W}start")),
        shapes[-1] if shapes else "decimal",
        value_of(element, f"{W}lvlText"),
        to_integer(restart) if restart else None,
        legal is not None and legal.get(f"{W}val") not in ("0", "false"),
        value_of(element, f"{W}pStyle"),
    )


def _by_name(root: Element, tag: str, key: str) -> dict[str, Element]:
    """Return the definitions of a part, which may be missing, by an attribute."""
    elements = [] if root is None else root.iterfind(W + tag)
    return {element.get(W + key): element for element in elements}


def _numbered(element: Element) -> tuple[str, int | None]:
    """Return the list and the level that a paragraph or a style names."""
    level = value_of(element, f"{W}pPr/{W}numPr/{W}ilvl")
    return value_of(element, f"{W}pPr/{W}numPr/{W}numId"), to_integer(level) if level else None


def value_of(element: Element, path: str) -> str:
    """Return the value of an element below another one; "" if there is none."""
    target = None if element is None else element.find(path)
    return "" if target is None else target.get(f"{W}val", "")
