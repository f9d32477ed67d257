"""What people write: which part of a message asks."""

from __future__ import annotations

import pytest

from tests.helpers import data_of, index_of
from uec_rag import UEC
from uec_rag.questions.query import Query
from uec_rag.questions.user_messages import asking_part, unwrapped


@pytest.mark.parametrize(("message", "part"), data_of("told.json"))
def test_who_tells_of_a_trouble_asks_and_who_recites_does_not(message, part):
    asked, _ = asking_part(message)
    assert asked == (message if part == "*" else part)


PLAIN = "How long is a lamp under warranty?"


@pytest.mark.parametrize(
    "message",
    [
        f"<@W07QX41AB> {PLAIN}",
        f"<@!31415926535897> {PLAIN}",
        f"<!here> {PLAIN}",
        f"<#C07AB12|desk-help> {PLAIN}",
        f"{PLAIN} <#C07AB12>",
        f"@DeskAssistant {PLAIN}",
        f"@Acme Bot: {PLAIN}",
        f"@jo.miller {PLAIN}",
        f"{PLAIN[:-1]}, @helpdesk_bot?",
        f"/q@acme_desk_bot {PLAIN}",
        f'<at id="0">Acme Desk</at> {PLAIN}',
        f"My ticket number is 70915. {PLAIN}",
        f"Our customer no. is K-20417. {PLAIN}",
        f"Booking #QX7719: {PLAIN}",
        f"{PLAIN} Our invoice number is 551204.",
        f"Meine Kundennummer ist 118220. {PLAIN}",
        f"Mon numéro de commande est 88412. {PLAIN}",
        f"{PLAIN}\n\nOn Mon, 2 Nov 2026 at 09:00, Ida <ida@acme.example> wrote:\n> Oak.",
        f"Le lun. 2 nov. 2026 à 09:00, Ida a écrit :\n> Desks are oak.\n\n{PLAIN}",
        f"{PLAIN}\n\n-----Original Message-----\nFrom: Ida\nSubject: Desks\n\nDesks are oak.",
        f"{PLAIN}\n\nVon: Ida\nGesendet: Montag\nAn: Jo\n\nDesks are oak.",
        f"> Desks are oak.\n\n{PLAIN}",
        PLAIN.replace(" ", "%20").replace("?", "%3F"),
        PLAIN.replace(" ", "+").replace("?", "%3F"),
        PLAIN.replace(" a ", "&nbsp;a ").replace("?", "&#63;"),
    ],
)
def test_what_is_around_a_question_in_a_chat_or_a_mail_does_not_ask(message):
    assert unwrapped(message) == PLAIN


@pytest.mark.parametrize("message", data_of("user_messages.json"))
def test_what_asks_stays(message):
    assert unwrapped(message) == message


@pytest.mark.parametrize(
    "turn",
    ["more", "Next", "continue please", "what else?", "Weiter", "noch mehr", "la suite", "qué más"],
)
def test_who_asks_for_more_asks_about_the_question_before(turn):
    query = Query.parse(turn, [PLAIN])
    assert (query.text, query.said, query.is_other) == (PLAIN, turn, True)
    assert Query.parse(turn).text == turn


def test_who_is_mentioned_is_none_of_the_words_of_a_question():
    index = index_of(UEC(), ["The warranty of a lamp is two years.", "Desks are made of oak."])
    [plain, mentioned] = index.search([PLAIN, f"<@W07QX41AB> {PLAIN}"])
    assert mentioned.decision.confidence == pytest.approx(plain.decision.confidence)
    assert "W07" not in index.search(["<@W07QX41AB> Who sings?"])[0].decision.reason
    assert mentioned.query == f"<@W07QX41AB> {PLAIN}"
