"""One form for values that are written in several: days, months, times, quantities."""

import pytest

from uec_rag.encoders.lexical import written_words
from uec_rag.encoders.notations import in_one_form
from uec_rag.evidence.absence import as_written


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Mon - Thurs, and on Sun", "Monday - Thursday, and on Sunday"),
        ("open tue to fri", "open tuesday to friday"),
        ("Can I come on wed?", "Can I come on wednesday?"),
        ("MON–FRI 8–12", "Monday–Friday 8–12"),
        ("Sat: 10-14", "Saturday: 10-14"),
        ("It ends in Mar or in Apr.", "It ends in March or in April."),
        ("by the 3rd of Jan, or Dec 24", "by the 3rd of January, or December 24"),
        ("Sat Dec 3, on Sun Mar 1", "Saturday December 3, on Sunday March 1"),
        ("Mon-Fri 9-18, Sat closed", "Monday-Friday 9-18, Saturday closed"),
        ("| Sat | 10-14 |", "| Saturday | 10-14 |"),
        ("Day: Sun, Hours: none", "Day: Sunday, Hours: none"),
        ("Sun opening hours, sat morning", "Sunday opening hours, saturday morning"),
        ("are you open sat", "are you open saturday"),
        ("Sprechzeiten Di und Do, Fr 9-12", "Sprechzeiten Dienstag und Donnerstag, Freitag 9-12"),
        ("Der Kurs ist am Mi nicht.", "Der Kurs ist am Mittwoch nicht."),
        ("Er beginnt im Okt. und Jänner", "Er beginnt im Oktober. und Januar"),
        ("mar-jeu, fermé en janv.", "mardi-jeudi, fermé en janvier."),
        ("Abre de lun a vie", "Abre de lunes a viernes"),
        ("aperto lun-sab, chiuso in genn.", "aperto lunedì-sabato, chiuso in gennaio."),
        ("aberto seg-sex", "aberto segunda-sexta"),
        ("открыто пн-пт", "открыто понедельник-пятница"),
    ],
)
def test_short_days_and_months_are_the_long_ones(text, form):
    assert in_one_form(text) == form


@pytest.mark.parametrize(
    "text",
    [
        "She sat in the sun, and so do I.",
        "The SAT test was in the Sun newspaper.",
        "So do I.",
        "Sun and sea, mar y sol",
        "You may march on.",
        "Ask Jan, Sam or Mo.",
        "We wed, set out and had sex.",
        "El mar es azul.",
        "Sa mère et la mer",
        "Set 5 lamps on, out 3",
        "So 10 Leute kamen, so auch ich.",
        "The Sun has 8 planets.",
        "a book by Sun Tzu on Sun Ra",
        "Il en faut sept points.",
        "github.com/thu-ml/sept",
        "Mi casa, so it is.",
        "Du sollst so etwas nicht tun, sagt Di.",
    ],
)
def test_small_words_are_no_days(text):
    assert in_one_form(text) == text


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("12GB", ["12 GB", "12gb"]),
        ("1.5kg", ["1.5 kg"]),
        ("1,500 ml", ["1,500ml", "1500 ml"]),
        ("5 pm", ["5pm", "5 PM", "5 p.m.", "5p.m."]),
        ("9:30", ["09:30", "9h30", "9 h 30"]),
        ("9:30 am", ["9.30 am", "9:30am", "09:30 a.m."]),
        ("at 8:15", ["at 8.15", "at 08:15"]),
        ("8:15 Uhr", ["8.15 Uhr", "08.15 Uhr"]),
        ("von 9:30 bis 17:00", ["von 9.30 bis 17.00"]),
        ("from 9:30 to 17:15", ["from 9.30 to 17.15"]),
        ("9:30", ["9 Uhr 30"]),
        ("10 Uhr", ["10:00 Uhr", "10.00 Uhr"]),
    ],
)
def test_a_value_has_the_same_words_however_it_is_written(text, others):
    of_text = [word.casefold() for word in written_words(text)]
    assert [[word.casefold() for word in written_words(other)] for other in others] == [
        of_text
    ] * len(others)


@pytest.mark.parametrize(
    "text",
    [
        "version 9.30 of 3.10",
        "It costs 9.30 euros, at 9.30 euros.",
        "12:30:45",
        "from 3.10 to 3.12",
        "from 9.30 to 17.50 euros",
        "the file x16gb, 5G and 4K",
        "10.0.0.1:30",
        "192.168.10.15",
    ],
)
def test_other_numbers_keep_their_form(text):
    assert in_one_form(text) == text


def test_what_lacks_is_told_as_it_was_written():
    question = "Is it open on Sat at 09:30 with 16GB?"
    words = {"Saturday", "9h30", "16"}
    assert as_written(question, words) == ("Sat", "09:30", "16GB")
