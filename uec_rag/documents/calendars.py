"""Reading of calendars: their events and tasks, when they recur, and whether they are cancelled."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any, TypeAlias

from uec_rag.documents.document import Block, Content, Heading, Page

_Event: TypeAlias = Any  # an event, a task or an entry of a journal of icalendar

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
    events = [(event, part) for part in parts for event in part.walk() if event.name in _KINDS]
    blocks = list[Block]()
    for event, part in events:
        subject = Heading(str(event.get("SUMMARY", "Event")), 2)
        lines = _lines(event, method or str(part.get("METHOD", "")))
        blocks += [*[subject] * (len(events) > 1), "\n".join(lines)]
    return [*blocks, Heading("", 2)] if len(events) > 1 else blocks


def _lines(event: _Event, method: str) -> Iterator[str]:
    lines = {label: _shown(event.get(name)) for name, label in _FIRST.items()}
    lines["End"] = _end(event)
    lines |= {label: _shown(event.get(name)) for name, label in _LAST.items()}
    lines["Repeats"] = _recurrence(event)
    status = "cancelled" if method.upper() == "CANCEL" else str(event.get("STATUS", "")).lower()
    lines["Status"] = "" if status == "confirmed" else status.replace("-", " ")
    for name, label in _PEOPLE.items():
        lines[label] = ", ".join(filter(None, map(_shown, _each(event.get(name)))))
    yield from (f"{label}: {value}" for label, value in lines.items() if value)
    yield from filter(None, [_shown(event.get("DESCRIPTION")).strip()])


def _end(event: _Event) -> str:
    """Return the end of an event, also by its duration; of days, the last one."""
    if not {"DTEND", "DURATION"} & event.keys():
        return ""
    try:
        begins, ends = event.start, event.end
    except ValueError:  # of what is broken
        return _shown(event.get("DTEND"))
    if type(begins) is type(ends) is date:
        day = max(ends - _DAY, begins)
        return "" if day == begins and "DTEND" not in event else str(day)
    return _moment(ends, event.get("DTEND", event.get("DTSTART")).params)


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
    parameters = getattr(value, "params", {})  # none if it is broken
    if isinstance(moment := _parsed(value), date):
        return _moment(moment, parameters)
    text = re.sub("(?i)mailto:", "", str(value)).strip()
    name, reply = parameters.get("CN"), str(parameters.get("PARTSTAT", "")).lower()
    text = f"{name} <{text}>" if name else text
    return f"{text} ({reply})" if reply in ("declined", "tentative") else text


def _moment(moment: date, parameters: Mapping[str, str]) -> str:
    text = str(moment)[:16]
    if "TZID" in parameters:
        return f"{text} ({parameters['TZID']})"
    return f"{text} UTC" if isinstance(moment, datetime) and moment.tzinfo is not None else text


def _recurrence(event: _Event) -> str:
    """Return when an event recurs, and when it does not: "weekly on Monday, not on 2026-03-09"."""
    zone = getattr(_parsed(next(_each(event.get("DTSTART")), None)), "tzinfo", None)
    parts = [_rule(rule, zone) for rule in _each(event.get("RRULE"))]
    with suppress(ValueError):  # of what is broken
        dates = {"also on": [moment for moment, _ in event.rdates], "not on": event.exdates}
        for before, moments in dates.items():
            days = [str(moment)[:10] for moment in moments]
            parts += [f"{before} {_listed(days)}"] if days else []
    return ", ".join(parts)


def _rule(rule: Mapping[str, list[Any]], zone: Any) -> str:  # noqa: ANN401
    kind = str(next(iter(rule.get("FREQ", [])), "")).upper()
    interval = next(iter(rule.get("INTERVAL", [])), 1)
    unit = _UNITS.get(kind, kind.lower())
    parts = [kind.lower() if interval == 1 else f"every {interval} {unit}"]
    places = [_place(int(number)) for number in rule.get("BYSETPOS", [])]
    if days := [_weekday(str(day)) for day in rule.get("BYDAY", [])]:
        parts.append(f"on {f'the {_listed(places)} of ' if places else ''}{_listed(days)}")
    numbers = [int(day) for day in rule.get("BYMONTHDAY", [])]
    if dates := [f"day {n}" if n > 0 else f"the {_place(n)} day" for n in numbers]:
        parts.append(f"on {_listed(dates)}")
    in_year = (int(str(month).rstrip("L")) for month in rule.get("BYMONTH", []))
    if months := [_MONTHS.split()[place - 1] for place in in_year]:
        parts.append(f"in {_listed(months)}")
    if hours := [f"{hour}:00" for hour in rule.get("BYHOUR", [])]:
        parts.append(f"at {_listed(hours)}")
    for until in rule.get("UNTIL", []):
        is_moment = isinstance(until, datetime) and until.tzinfo is not None and zone is not None
        parts.append(f"until {str(until.astimezone(zone) if is_moment else until)[:10]}")
    parts += [f"{count} times" for count in rule.get("COUNT", [])]
    return " ".join(parts)


def _weekday(day: str) -> str:
    place, name = day[:-2].lstrip("+"), _DAYS.get(day[-2:].upper(), day)
    return f"the {_place(int(place))} {name}" if place else name


def _place(number: int) -> str:
    return _PLACES.get(number) or (f"{number}th" if number > 0 else f"{-number}th to last")


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
