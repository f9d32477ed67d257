"""Charts and diagrams of Word and PowerPoint as tables and texts."""

from __future__ import annotations

import re
from datetime import date, timedelta

from uec_rag.documents.archive import Element
from uec_rag.documents.document import MOST_CELLS, Table

_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_MOST_POINTS = 10_000


def drawn_text(part: Element) -> str:
    """Return the table of a chart, or the texts of SmartArt; "" if the part holds none.

    `part`: the root of a chart, or of the data of SmartArt.
    """
    if part.tag == f"{_C}chartSpace":
        table = _chart_table(part)
        return table.text() if table else ""
    return "\n".join(filter(None, ("".join(_texts(one)).strip() for one in part.iter(f"{_A}p"))))


def _chart_table(chart: Element) -> Table | None:
    """Return the categories of a chart and the values of each of its series; None without any."""
    title = " ".join(_texts(chart.find(f"{_C}chart/{_C}title"))).strip()
    names, columns, categories = list[str](), list[dict[int, str]](), dict[int, str]()
    for series in chart.iter(f"{_C}ser"):
        values = _points(series, "val", "yVal")
        if not values:
            continue
        names.append(", ".join(_points(series, "tx").values()) or f"Series {len(names) + 1}")
        columns.append(values)
        for place, category in _points(series, "cat", "xVal").items():
            categories.setdefault(place, category)
    if sum(map(len, columns)) * len(columns) > MOST_CELLS:
        raise ValueError(f"it has a chart of more than {MOST_CELLS:,} values")
    rows = [
        (categories.get(place, ""), *(column.get(place, "") for column in columns))
        for place in sorted({*categories}.union(*columns))
    ]
    axis = " ".join(_texts(chart.find(f".//{_C}catAx/{_C}title")))
    header = (axis.strip() or ("Category" if categories else ""), *names)
    return Table((title,) if title else (), header, (*rows,)) if columns else None


def _points(series: Element, *roles: str) -> dict[int, str]:
    """Return the values that a chart keeps of a role, by their positions."""
    found = next((one for role in roles for one in series.iterfind(f"{_C}{role}")), None)
    if found is None:
        return {}
    points = [*found.iter(f"{_C}pt")][:_MOST_POINTS]
    shape = found.findtext(f".//{_C}formatCode", "")
    if not points:  # a name as it is
        return dict(enumerate(v.text or "" for v in found.iter(f"{_C}v")))
    several = len({*map(id, (point.getparent() for point in points))}) > 1
    texts = dict[int, str]()
    for point in points:  # categories may have several levels, the innermost first
        place, text = int(point.get("idx", "0")), point.findtext(f"{_C}v", "").strip()
        texts[place] = (
            f"{text}, {texts[place]}" if several and place in texts else _shown(text, shape)
        )
    return texts


def _shown(text: str, shape: str) -> str:
    """Return a date of Excel as in ISO 8601, and a number as it was entered: not 0.30000000004."""
    try:
        if re.search("[dy]", shape):
            return (date(1899, 12, 30) + timedelta(days=float(text))).isoformat()
        return f"{float(text):.12g}" if "." in text else text
    except (OverflowError, ValueError):
        return text


def _texts(element: Element) -> list[str]:
    found = [] if element is None else element.iter(f"{_A}t", f"{_C}v")
    return [text.text or "" for text in found]
