"""Questions as people type them: in messages, with typos, in parts."""

from __future__ import annotations

import pytest

from tests.helpers import data_of, index_of
from uec_rag import Retriever
from uec_rag.questions import grammar
from uec_rag.questions.phrasing import phrasings
from uec_rag.questions.query import LONGEST_QUERY, Query
from uec_rag.stores import Passage
from uec_rag.stores.source import Source, SourceStore

ROWS = data_of("phrasings.json")


SHOP = data_of("shop.json")
POLICY = "You are a careful assistant of a company. Follow its policy and answer politely. "
UNRELATED = "Who painted the ceiling of the chapel?"


def first_texts(found):
    return [passages[0].text for passages in found.passages]


RIGHT = [SHOP["texts"][place] for _, place, _ in SHOP["questions"]]


@pytest.mark.parametrize("times", [12, 50, 200])
def test_a_question_after_instructions_is_answered_as_without_them(shop, times):
    plain = [question for question, _, _ in SHOP["questions"]]
    found = shop.search([f"{POLICY * times}\n\n{question}" for question in plain])
    assert first_texts(found) == RIGHT
    for question, decision in zip(plain, found.decisions, strict=True):
        assert decision.action == "answer"
        assert decision.searched_as == question
        assert f'"{question}"' in decision.reason
    assert plain[0] in found[0].decide(1.0).reason


@pytest.mark.parametrize("question", ROWS["world"])
@pytest.mark.parametrize("corpus", ["shop", "notes", "plans"])
def test_a_question_about_the_world_is_refused_and_no_section_is_close(corpus, question, request):
    [found] = request.getfixturevalue(corpus).search([question])
    assert (found.decision.action, found.decision.suggestions) == ("abstain", ())


def test_an_unrelated_question_after_instructions_is_refused(shop):
    [decision] = shop.search([f"{POLICY * 20}\n\n{UNRELATED}"]).decisions
    assert decision.action == "abstain"


def test_a_message_that_asks_nothing_is_no_question_at_any_threshold(shop):
    [found] = shop.search(["The lamp came on Monday. It has a warranty of two years. " * 5])
    assert (found.decision.action, found.decision.code) == ("abstain", "no_question")
    assert (found.decide(0.0).action, found.decide(0.0).code) == ("abstain", "no_question")
    assert len(found.passages) == 4


def test_one_character_changes_nothing_for_who_tells_of_a_trouble(shop):
    told = "I came home with a chair from your shop, and it broke after a week. " * 4
    for count in (200, 201, 260):
        [found] = shop.search([f"{told[: count - 1]}."])
        assert found.decision.code != "no_question"
        assert SHOP["texts"][8] in [passage.text for passage in found.passages]


@pytest.mark.parametrize("row", data_of("notations.json"), ids=lambda row: row["texts"][0])
def test_a_number_or_a_date_in_another_notation_finds_its_passage(uec, row):
    questions, places = zip(*row["asked"], strict=True)
    found = index_of(uec, row["texts"]).search([*questions])
    assert first_texts(found) == [row["texts"][place] for place in places]


def test_what_a_question_refers_to_is_found_in_the_rest_of_its_message(shop):
    told = f"I bought a lamp in May. {'It was a present for my mother. ' * 8}"
    [found] = shop.search([f"{told} How long is its warranty?"])
    assert (found.decision.action, found.passages[0].text) == ("answer", SHOP["texts"][2])


@pytest.fixture(scope="module")
def notes(uec):
    return index_of(uec, [*SHOP["texts"], *data_of("notes.json")["texts"]])


@pytest.mark.parametrize(("question", "right"), data_of("notes.json")["questions"])
def test_a_date_and_an_abbreviation_are_words(notes, question, right):
    [found] = notes.search([question])
    assert found.passages[0].text == right
    assert found.decision.action == "answer"


@pytest.mark.parametrize(
    ("metadatas", "question"),
    [
        ([{"source": f"docs/v{i}/install.md", "title": "Installation"} for i in (1, 2, 3)], "2"),
        ([{"source": f"install-{i}.0.md", "title": "Installation"} for i in (1, 2, 3)], "2.0"),
        ([{"version": f"{i}.0", "title": "Installation"} for i in (1, 2, 3)], "2.0"),
        ([{"version": f"{i}.0"} for i in (1, 2, 3)], "2"),
    ],
)
def test_the_version_in_a_path_or_in_the_metadata_is_part_of_the_title(uec, metadatas, question):
    texts = [f"Run the installer, and {end}." for end in ("wait", "restart", "log in")]
    index = index_of(uec, texts, ["v1", "v2", "v3"], metadatas)
    [found] = index.search([f"How do I install version {question}?"])
    assert (found.ids[0], found.decision.action) == ("v2", "answer")


INSTALL = [f"Run the installer, and {end}." for end in ("wait", "restart", "log in")]
SETTINGS = ["The port is 6379.", "There are four workers.", "The host has a password."]


def over_passages(uec, texts, ids, metadatas):
    passages = [Passage(*of_one) for of_one in zip(ids, texts, metadatas, strict=True)]
    return Retriever(uec, SourceStore(uec.encoders, Source("a store", lambda *_: passages)))


INSTALLED = ("Installation", INSTALL, "How do I install {}?", "nginx")
CONFIGURED = ("Configuration", SETTINGS, "How do I configure {}?", "RabbitMQ")
SET = ("Settings", SETTINGS, "What are the settings of {}?", "MySQL")
SYSTEMS, TOOLS = "ios android windows", "borg restic caddy"
CLUSTERS = "celery-beat redis-cluster postgres-pool"
PATHS = [
    (INSTALLED, "source", "docs/{}/install.md", SYSTEMS, "it on Android"),
    (INSTALLED, "source", "{}/guide/install.md", TOOLS, "restic"),
    (CONFIGURED, "source", "guide/{}.md", CLUSTERS, "the Redis cluster"),
    (SET, "file_name", "{}.md", "mail_server user_accounts audit_log", "user accounts"),
    (SET, "file_path", "/srv/docs/{}.md", "MailServer UserAccounts AuditLog", "user accounts"),
    (INSTALLED, "url", "https://docs.example.com/{}/install", SYSTEMS, "it on Android"),
]


@pytest.mark.parametrize("make", [index_of, over_passages])
@pytest.mark.parametrize(("about", "key", "path", "names", "asked"), PATHS)
def test_a_passage_is_found_by_the_words_of_its_path(uec, make, about, key, path, names, asked):
    (title, texts, question, unknown), ids = about, names.split()
    index = make(uec, texts, ids, [{"title": title, key: path.format(name)} for name in ids])
    known, other = index.search([question.format(asked), question.format(unknown)])
    assert (known.ids[0], known.decision.action) == (ids[1], "answer")
    assert other.decision.action != "answer"


def test_an_address_does_not_tell_the_language(shop):
    for text in ("https://shop.example.com/help/refunds", "mail@refunds.com", "shop.com/no/de"):
        assert shop.search([text])[0].decision.language == "en"


@pytest.fixture(scope="module")
def plans(uec):
    return index_of(uec, [*SHOP["texts"], *PLANS.values()])


PLANS = {
    "Amber": "The Amber plan costs 12 euros a month and has 5 GB.",
    "Birch": "The Birch plan costs 20 euros a month and has 20 GB.",
    "Cedar": "The Cedar plan costs 35 euros a month and has no limit.",
}


@pytest.mark.parametrize("question", ROWS["compared things"])
def test_what_is_compared_is_found_each_and_trusted_as_the_weaker_one(plans, question):
    for name in ("Birch", "Cedar"):
        [found] = plans.search([question.format(name)])
        assert {PLANS["Amber"], PLANS[name]} <= {passage.text for passage in found.passages}
        assert found.decision.action == "answer"
        assert found.relevance.max() <= found.decision.confidence + 1e-6
        [unknown] = plans.search([question.format("Dogwood")])
        assert unknown.decision.confidence < found.decision.confidence
        assert unknown.decision.action == "abstain"
        assert "Dogwood" in unknown.decision.reason


COMPARED = ROWS["compared"]


@pytest.fixture(scope="module")
def things(uec):
    """Pairs of things of which each has a statement."""
    return index_of(uec, COMPARED, [str(at) for at in range(len(COMPARED))])


@pytest.mark.parametrize(
    ("question", "both"),
    [
        ("Who sleeps longer, the lion or the tiger?", {"0", "1"}),
        ("Was ist teurer, das Einzelzimmer oder das Doppelzimmer?", {"2", "3"}),
        ("Laquelle est plus chère, la chambre simple ou la chambre double ?", {"4", "5"}),
    ],
)
def test_two_things_that_are_compared_by_or_are_both_named(things, question, both):
    [result] = things.search([question])
    assert result.decision.code in ("answered", "uncertain")
    assert {*result.ids[:2]} == both


def test_what_neither_side_of_an_or_has_is_not_answered(things):
    [result] = things.search(["Is there a red shirt in size L or XL?"])
    assert result.decision.code == "uncertain"


@pytest.mark.parametrize("joined", ["{} and {}?", "{}? {}?", "{}, and also {}?", "{} or {}?"])
def test_a_double_question_is_answered_if_both_halves_are(shop, joined):
    refunds, warranty = "How long do refunds take", "how long is the warranty on lamps"
    [found] = shop.search([joined.format(refunds, warranty)], k=2)
    assert {passage.text for passage in found.passages} == {SHOP["texts"][1], SHOP["texts"][2]}
    assert found.decision.action == "answer"
    for halves in ((refunds, "who is the owner"), ("who is the owner", refunds)):
        [found] = shop.search([joined.format(*halves)])
        assert found.decision.action == "abstain"
        assert "who is the owner" in found.decide(0.9).reason


def halves(question):
    """The two questions that one surely is."""
    asked = phrasings(Query.parse(question))
    return tuple(one.text for one in asked if one.role == "half" and one.prior == 1)


@pytest.mark.parametrize(("question", "parts"), ROWS["parts"])
def test_a_question_that_follows_another_or_keywords_is_a_part(question, parts):
    assert halves(question) == tuple(parts)


def test_what_and_joins_without_a_question_is_two_if_no_hit_is_about_both(shop):
    refunds, warranty = "time that refunds take", "years of warranty on lamps"
    [found] = shop.search([f"{refunds} and {warranty}"], k=2)
    assert {passage.text for passage in found.passages} == {SHOP["texts"][1], SHOP["texts"][2]}
    assert found.decision.action == "answer"
    [found] = shop.search([f"{warranty} and insurance for rented boats"])
    assert found.decision.action == "abstain"
    [found] = shop.search(["lamps with warranty and two years of it"])
    assert found.decision.searched_as == ""


def test_a_question_that_only_looks_like_two_loses_at_most_its_last_hits(shop, monkeypatch):
    question = "fees that students and members of the club pay for late books and lost cards"
    rows = phrasings(Query.parse(question))
    assert [one.role for one in rows] == [*["possible_half"] * 2, "written"]
    [found] = shop.search([question], k=10)
    monkeypatch.setattr(grammar, "possible_parts", lambda _: ())
    [whole] = shop.search([question], k=10)
    assert found.ids[:2] == whole.ids[:2]
    assert len(found.ids) == len(whole.ids)


def test_the_surer_half_leaves_hits_to_the_other(uec):
    fees = [f"The fee of branch {place} is {place} euros a month." for place in range(1, 7)]
    sure = "The museum opens at nine on Sundays."
    index = index_of(uec, [sure, *fees])
    [found] = index.search(["When does the museum open and what is the fee of a branch?"])
    assert [passage.text == sure for passage in found.passages].count(True) == 1
    assert {passage.text for passage in found.passages} - {sure} <= {*fees}


@pytest.mark.parametrize("question", ROWS["no parts"])
def test_a_part_is_never_invented(question):
    assert halves(question) == ()


@pytest.mark.parametrize(
    "text",
    [
        *("thanks!", "OK, thank you very much!", "yes", "Hallo", "谢谢!", "да", "thx", "bye"),
        *("That helped.", "Perfect, that solved it!", "never mind", "Das hat geholfen, danke!"),
        *("I have no more questions, thanks", "Merci, ça marche.", "もう大丈夫です"),
    ],
)
@pytest.mark.parametrize("history", [[], [SHOP["questions"][0][0]]])
def test_a_courtesy_asks_nothing(shop, text, history):
    [found] = shop.search([text], history=[history])
    assert (found.decision.action, found.decision.code) == ("abstain", "no_question")
    assert "searched as" not in found.decision.reason


@pytest.mark.parametrize("text", ["thanks, where is my parcel", "that works with batteries", "no"])
def test_more_than_a_courtesy_asks_something(text):
    history = ["Where is it?", "Do you mean A or B?"] if text == "no" else []
    assert Query.parse(text, history).asks


@pytest.mark.parametrize(("message", "asked"), data_of("messages.json"))
def test_the_part_of_a_message_that_asks_is_the_question(message, asked):
    said = message.replace("{text}", "The parcel arrived on Monday, and the lamp is green. " * 4)
    query = Query.parse(said.strip())
    assert (query.asks, query.text) == (bool(asked), asked or said.strip())
    assert query.said == said.strip()


def test_a_short_text_is_a_question_as_a_whole():
    said = "My lamp broke. Who pays for the repair?"
    assert Query.parse(said).text == said


def test_a_reply_of_any_length_is_no_message():
    reply = "The one that we bought in the spring of last year. " * 5
    query = Query.parse(reply, ["How do I mend it?", "What exactly do you mean?"])
    assert (query.asks, query.text) == (True, f"How do I mend it?\n{reply}")


def test_of_a_message_in_the_turns_the_part_that_asks_counts():
    turns = Query.parse("And the warranty?", [f"{POLICY * 40}\n\nHow long do refunds take?"]).turns
    assert turns == ["How long do refunds take?"]


def test_the_end_of_a_message_of_any_length_is_read(shop):
    question = SHOP["questions"][0][0]
    [found] = shop.search([f"{'word ' * LONGEST_QUERY}\n\n{question}"])
    assert (found.decision.searched_as, found.passages[0].text) == (question, RIGHT[0])


def test_a_ticket_does_not_hide_the_passage_that_answers(uec):
    ticket = "Ticket 17: How do I reset my router? Status: open."
    guide = "To reset the router, hold its button for ten seconds."
    [found] = index_of(uec, [*SHOP["texts"], ticket, guide]).search(["How do I reset my router?"])
    assert [passage.text for passage in found.passages[:2]] == [ticket, guide]
    assert found.decision.action == "answer"


def test_a_question_with_its_reply_is_an_answer(uec):
    index = index_of(uec, [*SHOP["texts"], "How do I return a parcel? Print the label."])
    [decision] = index.search(["How do I return a parcel?"]).decisions
    assert (decision.action, decision.confidence > 0.9) == ("answer", True)
