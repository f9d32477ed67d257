"""Reading of calendars: their events and tasks, when they recur, and whether they are cancelled."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from uec_rag.documents.document import Block, Content, Heading, Page

if TYPE_CHECKING:
    from icalendar import Component

SUBJECT = "Subject"
"""The name of the first line of an event."""

_KINDS = ("VEVENT", "VTODO", "VJOURNAL")
_FIRST = {"SUMMARY": SUBJECT, "LOCATION": "Place", "DTSTART": "Start"}
_LAST = {"DUE": "Due", "COMPLETED": "Completed", "RECURRENCE-ID": "Instead of"}
_PEOPLE = {"ORGANIZER": "Organizer", "ATTENDEE": "Guests"}
_UNITS = {"DAILY": "days", "WEEKLY": "weeks", "MONTHLY": "months", "YEARLY": "years"}
_UNITS |= {"HOURLY": "hours", "MINUTELY": "minutes"}
_DAYS = {"MO": "Monday", "TU": "Tuesday", "WE": "Wednesday", "TH": "Thursday", "FR": "Friday"}
_DAYS |= {"SA": "Saturday", "SU": "Sunday"}
_MONTHS = "January February March April May June July August September October November December"
_PLACES = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
_PLACES |= {-2: "second to last"}
_DAY = timedelta(days=1)


def read_calendar(text: str) -> Content:
    """Read the events and tasks of a calendar."""
    return Content([Page(events_of(text))])


def events_of(text: str, method: str = "") -> list[Block]:
    """Return what the events of a calendar say, each below its subject if there are several.

    `method`: what a mail says that the calendar does, such as "CANCEL".

    Raises ValueError if it is no calendar.
    """
    from icalendar import Calendar

    parts = Calendar.from_ical(text, multiple=True)
    events = [(one, part) for part in parts for one in part.walk() if one.name in _KINDS]
    blocks = list[Block]()
    for event, part in events:
        subject = Heading(str(event.get("SUMMARY", "Event")), 2)
        blocks += [subject] * (len(events) > 1) + [
            "\n".join(_lines(event, method or str(part.get("METHOD", ""))))
        ]
    return [*blocks, Heading("", 2)] if len(events) > 1 else blocks


def _lines(event: Component, method: str) -> Iterator[str]:
    lines = {said: _shown(event.get(name)) for name, said in _FIRST.items()}
    lines["End"] = _end(event)
    lines |= {said: _shown(event.get(name)) for name, said in _LAST.items()}
    lines["Repeats"] = _recurrence(event)
    status = "cancelled" if method.upper() == "CANCEL" else str(event.get("STATUS", "")).lower()
    lines["Status"] = "" if status == "confirmed" else status.replace("-", " ")
    for name, said in _PEOPLE.items():
        lines[said] = ", ".join(filter(None, map(_shown, _each(event.get(name)))))
    yield from (f"{said}: {value}" for said, value in lines.items() if value)
    yield from filter(None, [_shown(event.get("DESCRIPTION")).strip()])


def _end(event: Component) -> str:
    """Return the end of an event, also by its duration; of days, the last one."""
    start, end = (next(_each(event.get(name)), None) for name in ("DTSTART", "DTEND"))
    first, last, length = _parsed(start), _parsed(end), _parsed(event.get("DURATION"))
    is_of_days = isinstance(first, date) and not isinstance(first, datetime)
    if last is None and end is None and isinstance(first, date) and isinstance(length, timedelta):
        last, end = first + length, start
    if is_of_days and isinstance(last, date) and not isinstance(last, datetime):
        last = max(last - _DAY, first)
        return "" if last == first and end is start else str(last)
    return _moment(last, end.params) if isinstance(last, date) and end else _shown(end)


def _each(value: Any) -> Iterator[Any]:  # noqa: ANN401
    """Yield the values of a property, which may be there several times."""
    yield from value if isinstance(value, list) else () if value is None else (value,)


def _parsed(value: Any) -> Any:  # noqa: ANN401
    """Return the moment or the time that a property is; None if it is none, or broken."""
    with suppress(AttributeError, ValueError):
        return value.dt
    return None


def _shown(value: Any) -> str:  # noqa: ANN401
    """Return what the value of a property shows; "" if there is none."""
    value = next(_each(value), None)
    if value is None:
        return ""
    known = getattr(value, "params", {})  # none if it is broken
    if isinstance(moment := _parsed(value), date):
        return _moment(moment, known)
    text = re.sub("(?i)mailto:", "", str(value)).strip()
    name, reply = known.get("CN"), str(known.get("PARTSTAT", "")).lower()
    text = f"{name} <{text}>" if name else text
    return f"{text} ({reply})" if reply in ("declined", "tentative") else text


def _moment(moment: date, known: Mapping[str, str]) -> str:
    text = str(moment)[:16]
    if "TZID" in known:
        return f"{text} ({known['TZID']})"
    return f"{text} UTC" if isinstance(moment, datetime) and moment.tzinfo is not None else text


def _recurrence(event: Component) -> str:
    """Return when an event recurs, and when it does not: "weekly on Monday, not on 2026-03-09"."""
    zone = getattr(_parsed(next(_each(event.get("DTSTART")), None)), "tzinfo", None)
    said = [_rule(rule, zone) for rule in _each(event.get("RRULE"))]
    for name, before in (("RDATE", "also on"), ("EXDATE", "not on")):
        dates = [
            _parsed(one) for some in _each(event.get(name)) for one in vars(some).get("dts", ())
        ]
        days = [str(one[0] if isinstance(one, tuple) else one)[:10] for one in dates]
        said += [f"{before} {_listed(days)}"] if days else []
    return ", ".join(said)


def _rule(rule: Mapping[str, list[Any]], zone: Any) -> str:  # noqa: ANN401
    """Return a rule of recurrence in words."""
    known = {str(name).upper(): value for name, value in rule.items()}
    kind = str(next(iter(known.get("FREQ", [])), "")).upper()
    every = next(iter(known.get("INTERVAL", [])), 1)
    said = [kind.lower() if every == 1 else f"every {every} {_UNITS.get(kind, kind.lower())}"]
    places = [int(one) for one in known.get("BYSETPOS", [])]
    if days := [_weekday(str(one)) for one in known.get("BYDAY", [])]:
        of = f"the {_listed([_place(one) for one in places])} of " if places else ""
        said.append(f"on {of}{_listed(days)}")
    if dates := [int(one) for one in known.get("BYMONTHDAY", [])]:
        named = [f"day {one}" if one > 0 else f"the {_place(one)} day" for one in dates]
        said.append(f"on {_listed(named)}")
    numbers = [int(str(month).rstrip("L")) for month in known.get("BYMONTH", [])]
    if months := [_MONTHS.split()[number - 1] for number in numbers]:
        said.append(f"in {_listed(months)}")
    if hours := known.get("BYHOUR"):
        said.append(f"at {_listed([f'{one}:00' for one in hours])}")
    for until in known.get("UNTIL", []):
        is_moment = isinstance(until, datetime) and until.tzinfo is not None and zone is not None
        said.append(f"until {str(until.astimezone(zone) if is_moment else until)[:10]}")
    said += [f"{count} times" for count in known.get("COUNT", [])]
    return " ".join(said)


def _weekday(day: str) -> str:
    place, name = day[:-2].lstrip("+"), _DAYS.get(day[-2:].upper(), day)
    return f"the {_place(int(place))} {name}" if place else name


def _place(number: int) -> str:
    return _PLACES.get(number) or (f"{number}th" if number > 0 else f"{-number}th to last")


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
