"""What a decision rests on, in words."""

import json
import logging
from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest

from tests.helpers import data_of, index_of
from uec_rag import UEC, Gate
from uec_rag.confidence.model import log_odds

ROWS = data_of("assess.json")


def last_numbers(lines):
    """What each part adds to the log odds; "times" is a factor of what these come to."""
    ends = [line.rpartition(": ")[2] for line in lines]
    return [float(end) for end in ends if not end.startswith("times")]


def test_what_each_feature_adds_sums_to_the_log_odds_and_names_what_is_missing(with_words):
    index = index_of(with_words, ["Ada led the Elkins mine.", *(f"Field {n}." for n in range(30))])
    for question in ("Did Ada lead the Elkins mine?", "Did Ada lead the Dunville mine in 1912?"):
        [one] = index.search([question])
        assert sum(last_numbers(one.why)) == pytest.approx(
            float(log_odds(one.decision.in_corpus)), abs=0.4
        )
        assert not any(line.endswith("-0.0") for line in one.why)
    assert any("names: Dunville and 1912 are in no hit: -" in line for line in one.why)
    assert one.metadata(0, details=True)["uec_why"] == [*one.why]
    assert "uec_why" not in one.metadata(0)


def test_a_question_is_a_line_of_the_log_if_its_level_asks_for_it(with_words, caplog):
    index = index_of(with_words, ["Ada led the Elkins mine."])
    index.search(["Who led it?"])
    assert not caplog.records
    begun = datetime.now(UTC)
    with caplog.at_level(logging.INFO, "uec_rag.decisions"):
        found = index.search(["Who led the mine?", "Who led Dunville?"])
    lines = [json.loads(record.message) for record in caplog.records]
    assert [line["question"] for line in lines] == found.queries
    for line, one in zip(lines, found, strict=True):
        assert line["decision"] == one.decision.action
        assert line["searched_as"] == one.decision.searched_as
        assert line["confidence"] == one.decision.confidence
        assert line["why"] == [*one.why]
        assert line["ids"] == one.ids
        assert begun <= datetime.fromisoformat(line["time"]) + timedelta(milliseconds=1)


def test_a_line_of_the_log_has_what_an_advisor_said(with_words, caplog):
    index = index_of(with_words, ["Ada led the Elkins mine."])
    index.gate = Gate(0.5, advisor=lambda question, texts: 0.1)
    with caplog.at_level(logging.INFO, "uec_rag.decisions"):
        index.search(["Who led the mine?", "mine", "Is Ada old?", "Who led Dunville?"])
    advised = [line for line in map(json.loads, caplog.messages) if "advice" in line]
    assert {round(line["advice_probability"], 6) for line in advised} == {0.1}


def test_no_question_is_logged_by_an_application_that_logs_at_info(with_words, caplog):
    index = index_of(with_words, ["Ada led the Elkins mine."])
    with caplog.at_level(logging.INFO):  # of the root
        index.search(["Who led it?"])
    assert not caplog.records


LOANS = ROWS["loans"]
COURSES = ROWS["courses"]


CLINIC = ["Visitors park behind the mill.", "Meals are served from noon."]


def forms(titles):
    """The metadata of the same passages as several frameworks and users have them."""
    places = range(len(titles))
    return {
        "none": [{} for _ in places],
        "common": [{"source": "terms.pdf"} for _ in places],
        "sources": [{"source": f"file{at}.txt"} for at in places],
        "titles": [{"title": title} for title in titles],
        "nodes": [
            {
                "page_label": str(at + 1),
                "file_name": "terms.pdf",
                "file_path": "/data/terms.pdf",
                "creation_date": "2026-01-01",
                "chunk": at,
                "hash": f"{at * 7919:08x}",
            }
            for at in places
        ],
        "chunks": [{"source": f"docs/d{at // 2}.md", "start_index": 0} for at in places],
    }


@pytest.mark.parametrize(
    ("corpus", "labels"),
    [(LOANS, {"laptop", "camera", "projector"}), (COURSES, {"beginners", "adults"})],
)
def test_whatever_metadata_passages_have_the_user_is_asked_by_their_words(corpus, labels):
    question, titles, texts = corpus
    uec = UEC()
    for form, metadatas in forms(titles).items():
        index = index_of(uec, texts, metadatas=metadatas)
        decision = index.search([question])[0].decision
        assert decision.action == "clarify", form
        told = {reading.title for reading in decision.readings}
        assert told == ({*titles[: len(labels)]} if form == "titles" else labels), form
        assert len(index.search([question], 3)[0].ids) == 3  # of which readings are the first


@pytest.mark.parametrize(
    ("question", "steps"),
    [
        (
            "What comes after draining the tank?",
            ["Step 1: Drain the tank.", "Step 2: Rinse the filter.", "Step 3: Close the valve."],
        ),
        (
            "Was kommt nach dem Ausspülen des Siebs?",
            ["Schritt 1: Sieb ausspülen.", "Schritt 2: Dichtung einfetten.", "Schritt 3: Prüfen."],
        ),
    ],
)
def test_a_step_is_no_answer_to_what_follows_it(question, steps):
    index = index_of(UEC(), [*steps, *CLINIC])
    assert index.search([question])[0].decision.code == "uncertain"


def test_what_says_what_follows_is_answered():
    index = index_of(UEC(), ["After the primer the first coat of varnish is applied.", *CLINIC])
    assert index.search(["What comes after the primer?"])[0].decision.action == "answer"


TOWN = """\
Borrowed skis are returned by noon. The ice rink is closed on Mondays. A locker in the station
costs three euros. Guides speak Danish and Dutch. The cable car carries sixty people. Sledges must
be pulled on the left. The bus to the valley leaves every forty minutes. The chapel was built in
1741. The sauna is heated to 85 degrees. A pass for the slopes is valid for six days. The bakery
sells plum cake on Sundays. Tents may stand by the river until September. The mountain hut has
thirty beds. The climbing wall is 22 metres high. Helmets are lent at the ticket office. The village
choir sings on the second Thursday of the month. Parking by the dam is free after eight. The doctor
speaks to patients without an appointment before ten."""
ABOUT_TOWN = ROWS["about town"]


def windows(text, size, step):
    """Pieces of so many words, each a step behind the one before."""
    words = text.split()
    return [" ".join(words[at : at + size]) for at in range(0, len(words) - size + step, step)]


@pytest.mark.parametrize("head", ["", "# Things to do in Oberalm\n\n"])
@pytest.mark.parametrize(("size", "step"), [(30, 15), (40, 20), (45, 30)])
def test_what_two_overlapping_passages_share_is_asked_back_about_by_nobody(size, step, head):
    texts = [head + window for window in windows(TOWN, size, step)]
    results = index_of(UEC(), texts).search(ABOUT_TOWN)
    assert [result.query for result in results if result.decision.action == "clarify"] == []
    assert sum(result.decision.action == "answer" for result in results) > 7


@pytest.mark.parametrize(("size", "step"), [(30, 15), (45, 30)])
def test_two_questions_in_one_are_answered_from_overlapping_passages(size, step):
    pairs = [
        f"{first[:-1]}, and {second[0].lower()}{second[1:]}"
        for first, second in combinations(ABOUT_TOWN, 2)
    ]
    results = index_of(UEC(), windows(TOWN, size, step)).search(pairs)
    assert [result.query for result in results if result.decision.action != "answer"] == []


def test_what_overlapping_passages_say_apart_is_asked_back_about():
    loans = ["The loan of a laptop lasts two weeks.", "The loan of a camera lasts three days."]
    between = "Each device has a number on its lid, which you give to the desk."
    index = index_of(UEC(), [f"{loans[0]} {between}", f"{between} {loans[1]}"])
    assert index.search(["How long does the loan last?"])[0].decision.action == "clarify"


@pytest.mark.parametrize("key", ["title", "document_title"])
@pytest.mark.parametrize("titles", ROWS["no titles"])
def test_what_stands_for_no_title_is_none(titles, key):
    question, _, texts = LOANS
    pairs = enumerate(titles)
    metadatas = [{"source": f"scan{at % 2}.pdf", key: title} for at, title in pairs]
    index = index_of(UEC(), texts, metadatas=metadatas)
    decision = index.search([question])[0].decision
    assert {reading.title for reading in decision.readings} == {"laptop", "camera", "projector"}


@pytest.mark.parametrize("row", data_of("languages_of_nouns.json"), ids=lambda row: row["language"])
def test_nouns_alone_are_answered_in_the_language_of_the_hits_that_have_them(row):
    index = index_of(UEC(["bm25"]), row["texts"])
    languages = [one.decision.language for one in index.search(row["questions"])]
    assert languages == [row["language"]] * len(row["questions"])
    assert {one.decision.language for one in index.search(row["english"])} == {"en"}


def test_a_line_of_the_log_has_no_sign_that_a_terminal_obeys(with_words, caplog):
    asked = "Who led \x9b2J the \u200fmine\U000e0041?"
    with caplog.at_level(logging.INFO, "uec_rag.decisions"):
        index_of(with_words, ["Ada led the Elkins mine."]).search([asked])
    [record] = caplog.records
    assert not {"\x9b", "\u200f", "\U000e0041"} & {*record.message}
    assert json.loads(record.message)["question"] == asked
