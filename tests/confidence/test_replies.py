"""Questions back, and the replies to them."""

from collections.abc import Sequence

import pytest

from uec_rag.confidence.readings import Reading
from uec_rag.confidence.replies import (
    UnknownReading,
    clarifying_question,
    is_unclear,
    kind_of_reply,
    label_chosen,
    labels_offered,
    readings_named,
    without_rejection,
)


def test_one_question_asks_for_all_readings():
    three = [Reading(name, (name,), 0.3) for name in "ABC"]
    assert clarifying_question(three) == "Do you mean A, B or C?"
    assert clarifying_question(three[:2]) == "Do you mean A or B?"
    assert clarifying_question(three[:1]) == "What exactly do you mean?"
    begun = [Reading("The loan of a…", ("d",), 0.5), three[0]]
    assert clarifying_question(begun) == "Do you mean “The loan of a…” or A?"
    for reply in ("The loan of a…", "“the loan of a…”", "the first one"):
        assert kind_of_reply(clarifying_question(begun), reply) == "readings"
        assert readings_named(reply, begun) == begun[:1]


@pytest.mark.parametrize(
    ("asked", "reply", "kind"),
    [
        ("Do you mean git, git add or rsync?", "git add", "readings"),
        ("Do you mean git, git add or rsync?", "GIT!", "readings"),
        ("Do you mean git, git add or rsync?", "I mean git add", "readings"),
        ("Do you mean git, git add or rsync?", "what git add does", "label"),
        ("Do you mean git, git add or rsync?", "not git add", "readings"),
        ("Do you mean git, git add or rsync?", "not what git add does", "unclear"),
        ("Do you mean git, git add or rsync?", "git or rsync", "readings"),
        ("Do you mean git, git add or rsync?", "git copies what rsync does", ""),
        ("Do you mean git, git add or rsync?", "neither", "readings"),
        ("Do you mean git, git add or rsync?", "I don't know.", "readings"),
        ("Do you mean git, git add or rsync?", "I don't know what it does", ""),
        ("Do you mean git, git add or rsync?", "legit", ""),
        ("Do you mean git, git add or rsync?", "?", ""),
        ("Do you mean rain, hail or snow or tar?", "Rain, hail or snow", "readings"),
        ("Do you mean a or b? Note: it is in Greek.", "b", "readings"),
        ("What exactly do you mean?", "b", ""),
        ("Which country?", "Ireland", ""),
        ("Which country?", "neither", ""),
        ("Do you mean git or rsync?", "The first one.", "readings"),
        ("Do you mean git or rsync?", "3", "unclear"),
        ("Do you mean git, the last or rsync?", "the last", "readings"),
        ("Do you mean git or rsync?", "What is the first one called?", ""),
    ],
)
def test_a_reply_to_a_question_back_says_which_readings_are_meant_or_more(asked, reply, kind):
    assert kind_of_reply(asked, reply) == kind


@pytest.mark.parametrize(
    ("reply", "rest"),
    [
        ("not the browser ones, the grpc one", "the grpc one"),
        ("No, not the first but the second.", "the second."),
        ("I didn't mean git, I mean rsync", "I mean rsync"),
        ("Not that. How do I add a file, or two?", "How do I add a file, or two?"),
        ("neither, the one on\ninstalling", "the one on\ninstalling"),
        ("不是第一个，是第二个", "第二个"),
        ("not git, tar or rsync", ""),
        ("not git, please", ""),
        ("not v1.2", ""),
        ("Not what git does.", ""),
        ("the second, not the first", ""),
        ("How do I add a file that is not there, and why?", ""),
        ("not " + "a, " * 5000, ""),
    ],
)
def test_what_follows_a_rejection_is_the_reply(reply, rest):
    assert without_rejection(reply) == rest


LABELS = ("git", "git add", "R and D", "tar")


def meant_by(reply: str, labels: Sequence[str] = LABELS) -> list[str]:
    return [one.label for one in readings_named(reply, [Reading(n, (n,), 0.25) for n in labels])]


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("2", "git add"),
        ("(2)", "git add"),
        ("#2.", "git add"),
        ("Option B, please", "git add"),
        ("number two", "git add"),
        ("the 2nd", "git add"),
        ("I mean the second one!", "git add"),
        ("the former", "git"),
        ("The latter.", "tar"),
        ("the last one", "tar"),
        ("第二个", "git add"),
        ("最后一个", "tar"),
        ("I mean git add, please", "git add"),
        ("Hmm... probably the second, I guess", "git add"),
        ("Yes, the GIT one.", "git"),
        ('"R and D"', "R and D"),
    ],
)
def test_a_reading_is_named_by_its_label_or_its_place(reply, label):
    assert meant_by(reply) == [label]
    with pytest.raises(UnknownReading, match="this question has no readings"):
        meant_by(reply, ())


@pytest.mark.parametrize(
    ("reply", "places"),
    [
        ("git and tar", [0, 3]),
        ("tar, R and D, and git add please", [1, 2, 3]),
        ("A and C", [0, 2]),
        ("the first and the last", [0, 3]),
        ("第一个和第三个", [0, 2]),
        ("Both!", [0, 1, 2, 3]),
        ("all of them, please", [0, 1, 2, 3]),
        ("either one", [0, 1, 2, 3]),
        ("I mean any of these", [0, 1, 2, 3]),
        ("都要", [0, 1, 2, 3]),
        ("the first two", [0, 1]),
        ("Last three, please", [1, 2, 3]),
        ("not the last two", [0, 1]),
        ("idk", [0, 1, 2, 3]),
        ("I don't know", [0, 1, 2, 3]),
        ("I’m not sure, please", [0, 1, 2, 3]),
        ("No idea.", [0, 1, 2, 3]),
        ("我不知道", [0, 1, 2, 3]),
        ("not tar", [0, 1, 2]),
        ("No, not the first one.", [1, 2, 3]),
        ("anything but git and tar", [1, 2]),
        ("all of them except for the last", [0, 1, 2]),
        ("不要第一个", [1, 2, 3]),
        ("Neither.", []),
        ("none of the above", []),
        ("No, something else", []),
        ("都不是", []),
    ],
)
def test_a_reply_names_several_readings_or_none_of_them(reply, places):
    assert meant_by(reply) == [LABELS[place] for place in places]


def test_labels_that_differ_in_case_alone_are_told_apart():
    labels = ("re.Match", "re.match")
    assert [meant_by(reply, labels) for reply in labels] == [["re.Match"], ["re.match"]]
    assert meant_by("I mean re.match, please", labels) == ["re.match"]
    assert meant_by("RE.MATCH", labels) == ["re.Match"]


def test_a_label_says_itself_before_what_it_says_of_others():
    assert meant_by("all", ("some", "all")) == ["all"]
    assert meant_by("the last", ("the last", "tar")) == ["the last"]


@pytest.mark.parametrize(
    "reply",
    [
        *("5", "0", "22", "one of them", "a file", "2 files", "the first and a file"),
        *("What is the first one called?", "Why the second?", "neither of the files opens"),
        "first of all, how long does it take?",
    ],
)
def test_other_words_and_places_beyond_the_last_name_no_reading(reply):
    with pytest.raises(UnknownReading):
        meant_by(reply)


@pytest.mark.parametrize(
    ("answer", "asks"),
    [
        ("Which year are you asking about?", True),
        ("您问的是哪一年？", True),
        ("Version 2.1 or 3.0?", True),
        ("It costs 3 euros. Which year do you mean?", False),
        ("Is there anything else?", False),
        ("The tenant.", False),
        ("", False),
    ],
)
def test_an_answer_that_is_one_question_asks_back(answer, asks):
    back = extract_clarifying_question(answer)
    assert (back is not None) is asks
    assert back is None or (
        is_clarifying_question(back) and extract_clarifying_question(back) == back
    )


OPTIONS = ("git-branch.html: OPTIONS", "git-switch.html: OPTIONS", "Pay & Promotions", "git.md")


@pytest.mark.parametrize(
    ("reply", "places"),
    [
        ("branch", [0]),
        ("git branch", [0]),
        ("git-branch options", [0]),
        ("the one about pay, please", [2]),
        ("promotions and pay", [2]),
        ("branch or switch", [0, 1]),
        ("git", [3]),
        ("git.md", [3]),
        ("not branch", [1, 2, 3]),
        ("anything other than the switch one", [0, 2, 3]),
        ("other than pay", [0, 1, 3]),
        ("options", [0, 1]),
        ("How much is the pay?", None),
        ("branch --force", None),
    ],
)
def test_words_that_not_all_labels_have_name_those_that_do(reply, places):
    if places is None:
        with pytest.raises(UnknownReading):
            meant_by(reply, OPTIONS)
    else:
        assert meant_by(reply, OPTIONS) == [OPTIONS[place] for place in places]
    with pytest.raises(UnknownReading):
        meant_by("options", OPTIONS[:2])


@pytest.mark.parametrize(
    ("asked", "reply", "kind"),
    [
        ("Do you mean git or rsync?", "the fourth one", "unclear"),
        ("Do you mean git or rsync?", "the sixth", "unclear"),
        ("Do you mean git or rsync?", "12", "unclear"),
        ("Do you mean git or rsync?", "Yes", "unclear"),
        ("Do you mean git or rsync?", "not this", "unclear"),
        ("Do you mean git or rsync?", "rsync, version 5", "label"),
        ("What exactly do you mean? How many?", "5", ""),
    ],
)
def test_a_reply_that_fits_no_reading_offered_is_unclear(asked, reply, kind):
    assert kind_of_reply(asked, reply) == kind
    assert is_unclear(reply) == (kind == "unclear" or reply == "5")


def test_a_place_is_that_of_a_label_even_if_one_has_commas():
    readings = [Reading(name, (name,), 0.3) for name in ("tabs, tables or lists", "tags", "rows")]
    asked = clarifying_question(readings)
    assert labels_offered(asked) == [one.label for one in readings]
    assert label_chosen(asked, "the second") == "tags"
    assert label_chosen(asked, "the last") == "rows"
    assert kind_of_reply(asked, "the fourth") == "unclear"
    assert labels_offered("Which one?") == labels_offered("Do you mean " + "a, " * 500 + "?") == []
