"""Number formats of workbooks: what a sheet shows for a value, as in ECMA-376, 18.8.30 and 31."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import lru_cache
from math import isfinite
from operator import eq, ge, gt, le, lt, ne
from typing import NamedTuple

_LONGEST = 255  # characters of a format, as in Excel
_PRECISION = 1_500  # digits; the largest number with the most percent signs has fewer
_LAST_DAY = 2_958_465  # 31 December 9999
_TOKEN = re.compile(
    r"""
      "(?P<quoted>[^"]*)"? | \\(?P<escaped>.) | _(?P<blank>.) | \*(?P<fill>.)
    | \[(?:(?P<elapsed>h+|m+|s+) | \$(?P<currency>[^\]-]*)[^\]]* | (?P<condition>[<>=][^\]]*)
        | [^\]]*)\]
    | (?P<end>;) | (?P<general>General|[0#?][0#?\ ]*/\ *[\d#?]+)  # a fraction, too
    | (?P<half>AM/PM|A/P) | (?P<exponent>E[+-])
    | (?:(?<=s)|(?<=s\]))\.(?P<fraction>0{1,3}) | (?P<date>y+|m+|d+|h+|s+)
    | (?P<digit>[0#?]) | (?P<point>\.) | (?P<comma>,) | (?P<percent>%) | (?P<at>@)
    | (?P<other>.)
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?\d{1,20}(?:\.\d{1,20})?)")
_HOLDS = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "<>": ne}
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
        final = sections[-1]
        return _text(value, final.tokens).strip() if len(sections) > 3 or final.has("at") else value
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
        text = _number(abs(Decimal(f"{value:.15g}")), section.tokens)
    is_negative = signed and value < 0 and re.search("[1-9]", text)
    return ("-" * bool(is_negative) + text.strip()).strip()


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
            comparison = _CONDITION.match(text)
            condition = (comparison[1], float(comparison[2])) if comparison else None
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
        unconditional = (part for part in sections if part.condition is None)
        section = next((part for part in sections if part.holds(value)), next(unconditional, None))
        sign, bound = (section and section.condition) or (">", 0.0)
        return section, not (sign in ("<", "<=", "=") and bound <= 0)
    position = 0 if value > 0 else 1 if value < 0 else 2
    return sections[position if position < len(sections) else 0], len(sections) == 1


def _text(value: str, tokens: Sequence[_Token]) -> str:
    return "".join(value if kind in ("at", "general") else text for kind, text in tokens)


def _number(value: Decimal, tokens: Sequence[_Token]) -> str:
    """Return a number that is not negative as a section shows it."""
    kinds = [token.kind for token in tokens]
    digits = [n for n, kind in enumerate(kinds) if kind == "digit"]
    if not digits:
        return _text(general(float(value)), tokens)
    point = kinds.index("point") if "point" in kinds else len(tokens)
    unit_place = max((n for n in digits if n < point), default=point)  # of the whole number
    tokens_shown, is_grouped, power = list[_Token](), False, 2 * kinds.count("percent")
    for n, token in enumerate(tokens):
        if token.kind != "comma" or n < digits[0]:
            tokens_shown.append(token)
        elif unit_place < n < point or n > digits[-1]:
            power -= 3
        else:
            is_grouped |= n < point
    value = value.scaleb(power)
    mark = next((n for n, token in enumerate(tokens_shown) if token.kind == "exponent"), None)
    if mark is None:
        return _decimal(value, tokens_shown, is_grouped=is_grouped)
    decimals = sum(kinds[n] == "digit" for n in range(point, mark))
    mantissa, _, exponent = f"{value:.{decimals}E}".partition("E")
    power = int(exponent) if value else 0
    sign = "-" if power < 0 else tokens_shown[mark].text[1:].replace("-", "")
    exponent_text = _decimal(Decimal(abs(power)), tokens_shown[mark + 1 :])
    return f"{_decimal(Decimal(mantissa), tokens_shown[:mark])}E{sign}{exponent_text}"


def _decimal(value: Decimal, tokens: Sequence[_Token], *, is_grouped: bool = False) -> str:
    """Return a number whose digits fill their places, before the point from the right."""
    kinds = [token.kind for token in tokens]
    point = kinds.index("point") if "point" in kinds else len(kinds)
    before = [n for n, kind in enumerate(kinds) if kind == "digit" and n < point]
    after = [n for n, kind in enumerate(kinds) if kind == "digit" and n > point]
    number = f"{value.quantize(Decimal(1).scaleb(-len(after)), ROUND_HALF_UP):f}"
    whole, _, part = number.partition(".")
    texts = [token.text for token in tokens]
    forced = next((len(before) - k for k, n in enumerate(before) if texts[n] == "0"), 0)
    digits = whole.lstrip("0").zfill(forced)
    places = [
        digit + "," * (is_grouped and right > 0 and right % 3 == 0)
        for digit, right in zip(digits, range(len(digits))[::-1], strict=True)
    ]
    fewest_decimals = max((k for k, n in enumerate(after, start=1) if texts[n] == "0"), default=0)
    decimals = part.rstrip("0").ljust(fewest_decimals, "0")
    for n, digit in zip(after, decimals.ljust(len(after)), strict=True):
        texts[n] = digit.strip()
    for n in reversed(before):
        texts[n] = places.pop() if places else ""
    start = before[0] if before else point  # which takes what is left over
    return "".join([*texts[:start], *places, *texts[start:]])


def _moment(value: float, tokens: Sequence[_Token], *, from_1904: bool) -> str:
    """Return a date, a time or a duration, in days; General if it is beyond the calendar."""
    kinds = [token.kind for token in tokens]
    if abs(value) > _LAST_DAY or (value < 0 and "elapsed" not in kinds):
        return general(value)
    digits = max((len(text) for kind, text in tokens if kind == "fraction"), default=0)
    seconds = abs(Decimal(f"{value:.15g}")) * 86_400
    seconds = seconds.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    # Excel takes 1900 for a leap year.
    epoch = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30 + (seconds < 60 * 86_400))
    days = min(int(seconds // 86_400), (datetime.max - epoch).days)
    moment = epoch + timedelta(days, int(seconds % 86_400))
    letters = _letters(tokens)
    has_weekday = any(text[:3].lower() == "ddd" for kind, text in tokens if kind == "date")
    if {"y", "m", "d"} <= {*letters} and not has_weekday:
        precise = moment.isoformat(" ", "seconds" if "s" in letters else "minutes")
        return precise if "h" in letters and seconds % 86_400 else f"{moment:%Y-%m-%d}"
    if "half" in kinds:
        letters = ["twelve" if letter == "h" else letter for letter in letters]
    parts = zip(tokens, letters, strict=True)
    text = "".join(_part(token, letter, moment, seconds) for token, letter in parts)
    return "-" * (value < 0) + text.strip()


def _letters(tokens: Sequence[_Token]) -> list[str]:
    """Return what each part of a date is: "y", "m", "d", "h", "M" for minutes, "s"; else ""."""
    letters = [text[0].lower() if kind in ("date", "elapsed") else "" for kind, text in tokens]
    previous, month = "", 0
    for n, letter in enumerate(letters):
        if letter == "m" and (previous == "h" or tokens[n].kind == "elapsed"):
            letters[n] = "M"
        elif letter == "s" and previous == "m":
            letters[month] = "M"
        previous, month = letters[n] or previous, n if letters[n] == "m" else month
    return letters


def _part(token: _Token, letter: str, moment: datetime, seconds: Decimal) -> str:
    size = len(token.text)
    if token.kind == "half":
        return token.text.split("/")[moment.hour >= 12]
    if token.kind == "fraction":
        return f"{seconds % 1:.{size}f}"[1:]
    if token.kind == "elapsed":
        return str(int(seconds // {"h": 3600, "M": 60, "s": 1}[letter])).zfill(size)
    if not letter:
        return token.text
    text = moment.strftime(_CODES[letter][min(size, len(_CODES[letter])) - 1])
    return text.lstrip("0") or "0" if size == 1 and letter != "y" else text
