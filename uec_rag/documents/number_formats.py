"""Number formats of workbooks: what a sheet shows for a value, as in ECMA-376, 18.8.30 and 31."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

_LONGEST = 255  # characters of a format, as in Excel
_PRECISION = 1_500  # digits; the largest number with the most percent signs has fewer
_LAST_DAY = 2_958_465  # 31 December 9999
_TOKEN = re.compile(
    r"""
      "(?P<quoted>[^"]*)"? | \\(?P<escaped>.) | _(?P<blank>.) | \*(?P<fill>.)
    | \[(?:(?P<elapsed>h+|m+|s+) | \$(?P<currency>[^\]-]*)[^\]]* | (?P<condition>[<>=][^\]]*)
        | [^\]]*)\]
    | (?P<end>;) | (?P<general>General) | (?P<half>AM/PM|A/P) | (?P<exponent>E[+-])
    | (?:(?<=s)|(?<=s\]))\.(?P<fraction>0{1,3}) | (?P<date>y+|m+|d+|h+|s+)
    | (?P<digit>[0#?]) | (?P<point>\.) | (?P<comma>,) | (?P<percent>%) | (?P<slash>/) | (?P<at>@)
    | (?P<other>.)
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?\d{1,20}(?:\.\d{1,20})?)")
_HOLDS = {
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    **{"=": operator.eq, "<>": operator.ne},
}
# What `strftime` calls a letter that is there once, twice and so on.
_CODES = {
    **{"y": ("%y", "%y", "%Y"), "m": ("%m", "%m", "%b", "%B"), "d": ("%d", "%d", "%a", "%A")},
    **{"h": ("%H",), "twelve": ("%I",), "M": ("%M",), "s": ("%S",)},
}
_LITERAL = ("quoted", "escaped", "currency", "other")


class _Token(NamedTuple):
    kind: str  # of a group of _TOKEN; "text" for all that is shown as it is
    text: str


class _Section(NamedTuple):
    tokens: Sequence[_Token]
    condition: tuple[str, float] | None

    def has(self, *kinds: str) -> bool:
        return any(token.kind in kinds for token in self.tokens)

    @property
    def is_date(self) -> bool:  # letters beside digits are a unit that somebody did not quote
        return self.has("date", "elapsed", "half") and not self.has("digit")

    def holds(self, value: float) -> bool:
        return self.condition is not None and _HOLDS[self.condition[0]](value, self.condition[1])


def show(value: float | str, code: str, *, from_1904: bool = False) -> str:
    """Return a number or a text as a cell of a format shows it; whole dates as in ISO 8601.

    Colours are left out, and what fills the width of a cell.

    Parameters
    ----------
    value : float or str
        For a date, the number of days.
    code : str
        The format. One of more than 255 characters counts as "General".
    from_1904 : bool
        Whether days are counted from 1 January 1904.

    Examples
    --------
    >>> show(2500000, '0.0,,"M"'), show(-5, '0" profit";0" loss"'), show(1.5, "[h]:mm")
    ('2.5M', '5 loss', '36:00')
    """
    sections = _parse(code if len(code) <= _LONGEST else "")
    if isinstance(value, str):
        last = sections[-1]
        return _text(value, last.tokens).strip() if len(sections) > 3 or last.has("at") else value
    if len(sections) < 4 and len(sections) > 1 and sections[-1].has("at"):
        sections = sections[:-1]  # of texts
    if not isfinite(value):
        return str(value)
    section, signed = _choose(value, sections[:3])
    if section is None:
        return general(value)
    if section.is_date:
        return _moment(value, section.tokens, from_1904=from_1904)
    with localcontext(prec=_PRECISION):
        shown = _number(abs(Decimal(f"{value:.15g}")), section.tokens)
    is_negative = signed and value < 0 and re.search("[1-9]", shown)
    return ("-" * bool(is_negative) + shown.strip()).strip()


def general(value: float) -> str:
    """Return a number in the format "General", with all digits that Excel keeps."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.15G}"


@lru_cache(maxsize=500)
def _parse(code: str) -> Sequence[_Section]:
    sections, tokens, condition = list[_Section](), list[_Token](), None
    for match in _TOKEN.finditer(code.strip() or "General"):
        kind = match.lastgroup or ""
        text = match[kind] if kind else ""
        if kind == "end":
            sections.append(_Section(tuple(tokens), condition))
            tokens, condition = [], None
        elif kind == "condition":
            found = _CONDITION.match(text)
            condition = (found[1], float(found[2])) if found else None
        elif kind in _LITERAL:
            tokens.append(_Token("text", text))
        elif kind == "blank":
            tokens.append(_Token("text", " "))
        elif kind and kind != "fill":
            tokens.append(_Token(kind, text))
    return [*sections, _Section(tuple(tokens), condition)]


def _choose(value: float, sections: Sequence[_Section]) -> tuple[_Section | None, bool]:
    """Return the section for a number, and whether it shows a minus."""
    if any(section.condition for section in sections):
        section = next((one for one in sections if one.holds(value)), None)
        section = section or next((one for one in sections if one.condition is None), None)
        sign, bound = (section and section.condition) or (">", 0.0)
        return section, not (sign in ("<", "<=", "=") and bound <= 0)
    position = 0 if value > 0 else 1 if value < 0 else 2
    return sections[position if position < len(sections) else 0], len(sections) == 1


def _text(value: str, tokens: Sequence[_Token]) -> str:
    return "".join(value if kind in ("at", "general") else text for kind, text in tokens)


def _number(value: Decimal, tokens: Sequence[_Token]) -> str:
    """Return a number that is not negative as a section shows it."""
    digits = [n for n, token in enumerate(tokens) if token.kind == "digit"]
    if not digits:
        return _text(general(float(value)), tokens)
    points = [n for n, token in enumerate(tokens) if token.kind == "point"]
    point = points[0] if points else len(tokens)
    whole = [n for n in digits if n < point] or [point]
    kept, is_grouped, power = list[_Token](), False, 0
    for n, token in enumerate(tokens):
        power += 2 * (token.kind == "percent")
        if token.kind != "comma" or n < digits[0]:
            kept.append(token)
        elif whole[-1] < n < point or n > digits[-1]:
            power -= 3
        else:
            is_grouped |= n < point
    value = value.scaleb(power)
    kinds = [token.kind for token in kept]
    if "exponent" in kinds:
        return _scientific(value, kept, kinds.index("exponent"))
    if "slash" in kinds and (shown := _fraction(value, kept, kinds.index("slash"))) is not None:
        return shown
    return _decimal(value, kept, is_grouped=is_grouped)


def _decimal(value: Decimal, tokens: Sequence[_Token], *, is_grouped: bool = False) -> str:
    kinds = [token.kind for token in tokens]
    point = kinds.index("point") if "point" in kinds else len(kinds)
    before = [n for n, kind in enumerate(kinds) if kind == "digit" and n < point]
    after = [n for n, kind in enumerate(kinds) if kind == "digit" and n > point]
    number = f"{value.quantize(Decimal(1).scaleb(-len(after)), ROUND_HALF_UP):f}"
    whole, _, part = number.partition(".")
    shown = [token.text for token in tokens]
    places = _whole([shown[n] for n in before] or ["#"], whole, is_grouped=is_grouped)
    if not before and point < len(shown):
        shown[point] = f"{places[0]}."
    last = max((k + 1 for k, n in enumerate(after) if shown[n] == "0"), default=0)
    last = max(last, len(part.rstrip("0")))
    decimals = [part[k] if k < last else " " * (shown[n] == "?") for k, n in enumerate(after)]
    for n, text in zip((*before, *after), (*places[: len(before)], *decimals), strict=True):
        shown[n] = text
    return "".join(shown)


def _whole(places: Sequence[str], number: str, *, is_grouped: bool = False) -> list[str]:
    """Return what each place of a whole number shows; the first one takes what is left over."""
    forced = len(places) - places.index("0") if "0" in places else 0
    number = number.lstrip("0").zfill(forced)
    digits = [
        digit + "," * (is_grouped and right > 0 and right % 3 == 0)
        for digit, right in zip(number, range(len(number))[::-1], strict=True)
    ]
    more = len(digits) - len(places)
    if more < 0:
        return [*(" " * (place == "?") for place in places[:-more]), *digits]
    return ["".join(digits[: more + 1]), *digits[more + 1 :]]


def _scientific(value: Decimal, tokens: Sequence[_Token], mark: int) -> str:
    """Return a number with an exponent: a multiple of the number of places before the point."""
    mantissa, kinds = tokens[:mark], [token.kind for token in tokens[:mark]]
    point = kinds.index("point") if "point" in kinds else len(kinds)
    step = max(kinds[:point].count("digit"), 1)
    unit = Decimal(1).scaleb(-kinds[point:].count("digit"))
    power = value.adjusted() // step * step if value else 0
    if value.scaleb(-power).quantize(unit, ROUND_HALF_UP) >= 10**step:
        power += step
    places = [n for n in range(mark + 1, len(tokens)) if tokens[n].kind == "digit"]
    shown = [token.text for token in tokens[mark:]]
    digits = _whole([tokens[n].text for n in places], str(abs(power))) if places else []
    for n, text in zip(places, digits, strict=True):
        shown[n - mark] = text
    sign = "-" if power < 0 else "+" * (shown[0][1] == "+")
    return "".join([_decimal(value.scaleb(-power), mantissa), f"E{sign}", *shown[1:]])


def _fraction(value: Decimal, tokens: Sequence[_Token], slash: int) -> str | None:
    """Return a number as a fraction, after its whole part if that has a place; None if neither."""
    start, end = slash, slash + 1
    while start and tokens[start - 1].kind == "digit":
        start -= 1
    while end < len(tokens) and re.fullmatch("[0-9#?]", tokens[end].text):
        end += 1
    below = "".join(token.text for token in tokens[slash + 1 : end])
    if start == slash or not below:
        return None
    has_whole = any(token.kind == "digit" for token in tokens[:start])
    whole = int(value) if has_whole else 0
    rest = Fraction(value) - whole
    if below.isdigit() and below.strip("0"):
        under = int(below)
        over = int(rest * under + Fraction(1, 2))
    else:
        over, under = rest.limit_denominator(10 ** len(below) - 1).as_integer_ratio()
    if has_whole and over == under:
        whole, over = whole + 1, 0
    head = _decimal(Decimal(whole), tokens[:start]) if has_whole else _text("", tokens[:start])
    if not has_whole or over or not whole:
        head += f"{over}/{under}" if over or not has_whole else "0" * (not head.strip())
    return head + _text("", tokens[end:])


def _moment(value: float, tokens: Sequence[_Token], *, from_1904: bool) -> str:
    """Return a date, a time or a duration, in days; General if it is beyond the calendar."""
    kinds = [token.kind for token in tokens]
    if abs(value) > _LAST_DAY or (value < 0 and "elapsed" not in kinds):
        return general(value)
    digits = max((len(text) for kind, text in tokens if kind == "fraction"), default=0)
    seconds = abs(Decimal(f"{value:.15g}")) * 86_400
    seconds = seconds.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    # Excel takes 1900 for a leap year.
    first = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30 + (seconds < 60 * 86_400))
    days = min(int(seconds // 86_400), (datetime.max - first).days)
    moment = first + timedelta(days, int(seconds % 86_400))
    letters = _letters(tokens)
    has_weekday = any(text[:3].lower() == "ddd" for kind, text in tokens if kind == "date")
    if {"y", "m", "d"} <= {*letters} and not has_weekday:
        precise = moment.isoformat(" ", "seconds" if "s" in letters else "minutes")
        return precise if "h" in letters and seconds % 86_400 else f"{moment:%Y-%m-%d}"
    twelve = "half" in kinds
    parts = zip(tokens, letters, strict=True)
    shown = "".join(_part(token, letter, moment, seconds, twelve) for token, letter in parts)
    return "-" * (value < 0) + shown.strip()


def _letters(tokens: Sequence[_Token]) -> list[str]:
    """Return what each part of a date is: "y", "m", "d", "h", "M" for minutes, "s"; else ""."""
    letters = [text[0].lower() if kind in ("date", "elapsed") else "" for kind, text in tokens]
    parts = [n for n, letter in enumerate(letters) if letter]
    for at, n in enumerate(parts):
        before = letters[parts[at - 1]] if at else ""
        after = letters[parts[at + 1]] if at + 1 < len(parts) else ""
        if letters[n] == "m" and len(tokens[n].text) < 3:
            is_minute = before == "h" or after == "s" or tokens[n].kind == "elapsed"
            letters[n] = "M" if is_minute else "m"
    return letters


def _part(token: _Token, letter: str, moment: datetime, seconds: Decimal, is_twelve: bool) -> str:
    """Return what a part of a date or of a time shows."""
    size = len(token.text)
    if token.kind == "half":
        return token.text.split("/")[moment.hour >= 12]
    if token.kind == "fraction":
        return f".{str(seconds % 1).partition('.')[2][:size].ljust(size, '0')}"
    if token.kind == "elapsed":
        return str(int(seconds // {"h": 3600, "M": 60, "s": 1}[letter])).zfill(size)
    if not letter:
        return token.text
    codes = _CODES["twelve" if letter == "h" and is_twelve else letter]
    shown = moment.strftime(codes[min(size, len(codes)) - 1])
    if size == 1 and letter != "y":
        return shown.lstrip("0") or "0"
    return shown[0] if letter == "m" and size == 5 else shown
