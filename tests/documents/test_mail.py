"""Events of a calendar, in a file of its own or in a mail."""

import pytest

from tests.helpers import data_of
from uec_rag.documents import passages_of, read_folder

FIRST = (
    "SUMMARY:Tasting\nDTSTART:20270105T080000Z\nLOCATION:Cellar\\, left\nDESCRIPTION:Bring\\nbread."
)
SECOND = (
    "SUMMARY:Harvest\nDTSTART;VALUE=DATE:20270902\nORGANIZER;CN=Eva:MAILTO:e@x.org\n"
    "BEGIN:VALARM\nDESCRIPTION:Ring\nEND:VALARM"
)
THIRD = "SUMMARY:Fair\nDTSTART;TZID=Europe/Rome:20270301T173000\nDTEND:soon"
LINES = [
    "Subject: Tasting\nPlace: Cellar, left\nStart: 2027-01-05 08:00 UTC\nBring\nbread.",
    "Subject: Harvest\nStart: 2027-09-02\nOrganizer: Eva <e@x.org>",
    "Subject: Fair\nStart: 2027-03-01 17:30 (Europe/Rome)\nEnd: soon",
]


def calendar(*events):
    inner = "".join(f"BEGIN:VEVENT\n{one}\nEND:VEVENT\n" for one in events)
    return f"BEGIN:VCALENDAR\nVERSION:2.0\n{inner}END:VCALENDAR\n"


def mail(text):
    return (
        "From: a@x.org\nSubject: Dates\nContent-Type: multipart/mixed; boundary=B\n\n"
        "--B\nContent-Type: text/plain\n\nAll dates.\n"
        f"--B\nContent-Type: text/calendar\n\n{text}\n"
        "--B\nContent-Type: text/plain\n\nBye.\n--B--\n"
    )


def passages(folder, name, text):
    (folder / name).write_text(text)
    return [passage.text for passage in passages_of(read_folder(folder))]


@pytest.mark.parametrize(("name", "write"), [("a.ics", str), ("a.eml", mail)])
def test_each_event_is_a_passage(tmp_path, name, write):
    found = passages(tmp_path, name, write(calendar(FIRST, SECOND, THIRD)))
    for lines in LINES:
        [own] = [text for text in found if lines in text]
        assert sum(other in own for other in LINES) == 1
    assert "Ring" not in str(found)
    assert not any("Bye." in text and "Subject" in text for text in found)


def test_a_file_may_hold_several_calendars_and_one_event(tmp_path):
    found = passages(tmp_path, "a.ics", calendar(FIRST) + calendar(SECOND))
    assert [sum(lines in text for text in found) for lines in LINES] == [1, 1, 0]
    assert LINES[2] in passages(tmp_path, "a.ics", calendar(THIRD))[0]


EVENTS = data_of("events.json")


@pytest.mark.parametrize(("says", "kind", "event", "lines"), EVENTS)
@pytest.mark.parametrize(("name", "write"), [("a.ics", str), ("a.eml", mail)])
def test_events_say_when_they_are_and_for_whom(tmp_path, says, kind, event, lines, name, write):
    text = calendar(event).replace("VEVENT", kind)
    [found] = [part for part in passages(tmp_path, name, write(text)) if "Subject: A" in part]
    event = found[found.index("Subject: A") :].partition("\n\n")[0]
    assert event.splitlines() == ["Subject: A", *lines], says


@pytest.mark.parametrize(("name", "write"), [("a.ics", str), ("a.eml", mail)])
def test_what_a_calendar_or_a_mail_cancels_is_cancelled(tmp_path, name, write):
    text = calendar(FIRST, SECOND).replace("VERSION:2.0", "METHOD:CANCEL\nVERSION:2.0")
    found = [text for text in passages(tmp_path, name, write(text)) if "Subject: " in text]
    assert ["Status: cancelled" in text for text in found] == [True, True]
    if name == "a.eml":
        text = mail(calendar(FIRST)).replace("text/calendar", "text/calendar; method=CANCEL")
        assert "Status: cancelled" in str(passages(tmp_path, name, text))


def test_what_is_no_calendar_is_told(tmp_path):
    (tmp_path / "b.txt").write_text("Keys.")
    with pytest.warns(UserWarning, match=r"left out a.ics, which cannot be read"):
        assert passages(tmp_path, "a.ics", "no calendar") == ["Keys."]
    (tmp_path / "a.ics").unlink()
    with pytest.warns(UserWarning, match="left out of a.eml: 1 attachment"):
        assert "All dates." in str(passages(tmp_path, "a.eml", mail("no calendar")))
