"""Charts and diagrams of Word and PowerPoint as tables and texts."""

from contextlib import suppress
from itertools import islice

from uec_rag.documents.archive import A, Element
from uec_rag.documents.document import MOST_CELLS, Table
from uec_rag.documents.number_formats import show

_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_MOST_POINTS = 10_000


def drawn_text(part: Element) -> str:
    """Return the table of a chart, or the texts of SmartArt; "" if the part holds none.

    `part`: the root of a chart, or of the data of SmartArt.
    """
    if part.tag == f"{_C}chartSpace":
        table = _chart_table(part)
        return table.text() if table else ""
    return "\n".join(filter(None, ("".join(_texts(p)).strip() for p in part.iter(f"{A}p"))))


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
        categories = _points(series, "cat", "xVal") | categories
    if sum(map(len, columns)) * len(columns) > MOST_CELLS:
        raise ValueError(f"it has a chart of more than {MOST_CELLS:,} values")
    places = sorted({*categories}.union(*columns))
    rows = [tuple(column.get(n, "") for column in (categories, *columns)) for n in places]
    axis = " ".join(_texts(chart.find(f".//{_C}catAx/{_C}title")))
    header = (axis.strip() or ("Category" if categories else ""), *names)
    return Table((title,) if title else (), header, (*rows,)) if columns else None


def _points(series: Element, *roles: str) -> dict[int, str]:
    """Return the values that a chart keeps of a role, by their positions."""
    values = next((element for role in roles for element in series.iterfind(f"{_C}{role}")), None)
    if values is None:
        return {}
    shape = values.findtext(f".//{_C}formatCode", "General")
    levels = [*values.iter(f"{_C}lvl")] or [values]  # the innermost first
    texts = _level(levels[0], shape)
    for level in levels[1:]:
        outer, label = _level(level, shape), ""
        for place in sorted(texts):
            label = outer.get(place, label)
            texts[place] = f"{label}, {texts[place]}"
    return texts or dict(enumerate(v.text or "" for v in values.iter(f"{_C}v")))  # a name as it is


def _level(level: Element, shape: str) -> dict[int, str]:
    """Return values by their positions, numbers as their format shows them."""
    texts = dict[int, str]()
    for point in islice(level.iter(f"{_C}pt"), _MOST_POINTS):
        text = point.findtext(f"{_C}v", "").strip()
        with suppress(ValueError):
            text = show(float(text), point.get("formatCode", shape))
        texts[int(point.get("idx", "0"))] = text
    return texts


def _texts(element: Element) -> list[str]:
    parts = [] if element is None else element.iter(f"{A}t", f"{_C}v")
    return [text.text or "" for text in parts]
