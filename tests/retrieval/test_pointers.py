"""Passages that have the words of a question where they state nothing."""

import pytest

from uec_rag import UEC, Retriever
from uec_rag.retrieval.pointers import states_nothing

OTHERS = [
    "Rent is due on the first of each month.",
    "The laundry room is in the basement.",
    "Bicycles are kept in the yard.",
    "Rooms are cleaned once a week.",
]

POINTERS = [
    ("en", "How much is the deposit?", "Deposits: see chapter 7."),
    ("en", "How are guests registered?", "The registration of guests is explained on page 14."),
    ("en", "Which damage is covered?", "Damage: covered as set out in Annex B."),
    (
        "en",
        "What does an order from abroad cost?",
        "Orders cost 4 euros. From abroad: see the list.",
    ),
    ("en", "When are the otters fed?", "Otters: for feeding times see the board at the gate."),
    ("en", "How do I decrypt a file?", "It encrypts a file. For decryption see crypt(1)."),
    ("de", "Wann wird das Papier abgeholt?", "Restmüll dienstags. Papier: siehe Aushang."),
    ("fr", "Quel est le prix du ménage ?", "Prix du ménage : voir l'annexe 3."),
    ("es", "¿Cuándo es el examen oficial?", "Examen oficial: consulte nuestra página web."),
    ("it", "Quando apre la piscina?", "Apertura della piscina: vedi allegato."),
    ("zh", "押金是多少？", "押金：参见第7章。"),
    ("en", "What is the guest policy?", "Guest policy: TODO"),
    ("en", "What is the Wi-Fi password?", "Wi-Fi password: ****"),
    ("en", "How much is the fine?", "The fine is XX euros."),
    ("en", "What is the phone number?", "Phone number: [insert number here]"),
    ("en", "How much is the cleaning fee?", "Cleaning fee: ________"),
    ("en", "How much is parking?", "Parking fee: n/a"),
    ("en", "What is the fax number?", "Fax number:\nE-mail: desk@example.com"),
    ("en", "When does the course begin?", "Course: date to be announced."),
    ("de", "Was kostet die Reinigung?", "Reinigung: Preis noch offen"),
    ("fr", "À quelle heure part la navette ?", "Navette : horaires à confirmer."),
    ("en", "How do I return a key?", "How do I return a key?"),
    ("en", "How do I return a key?", "FAQ\nHow do I return a key?\nWho mends a key?"),
    ("en", "What are the house rules?", "House rules"),
    ("en", "How do I change the fuse?", "Inside\nStoring a lamp\nChanging the fuse\nBuying coal"),
    ("en", "How do I change the fuse?", "Contents\n1. Changing the fuse\n2. Storing the fuse"),
    ("en", "How do I change the fuse?", "Changing the fuse ..... 4\nStoring the fuse ..... 9"),
]

STATEMENTS = [
    ("How much is the deposit?", "The deposit is 40 euros, see chapter 7 for details."),
    ("Where is the deposit explained?", "Deposits: see chapter 7."),
    ("What does chapter 7 explain?", "Deposits are explained in chapter 7."),
    ("How do I open the valve?", "Step 2: Open the valve with the key."),
    ("When do visitors see the pandas?", "Visitors see the pandas at noon."),
    ("How do I return a key?", "How do I return a key?\nHand it in at the desk."),
    ("How do I return a key?", "How do I return a key? Hand it in at the desk."),
    (
        "How do I return a key in Bath?",
        "Bath\n\nHow do I...?\n\nReturn a key?\n\nHand it in at the desk.",
    ),
    ("How do I change the fuse?", "Changing the fuse\n1. Open the lid\n2. Turn the fuse"),
    ("Which rooms have a piano?", "Rooms with a piano\nHall A\nHall C"),
    ("What do I bring?", "Bring:\n- a towel\n- a lock"),
    ("Is the Wi-Fi free?", "Wi-Fi free"),
    ("What is the Wi-Fi password?", "Wi-Fi password: k7_x*9"),
    ("Where are fees listed?", "Fees are listed in Table 2."),
    ("In which appendix are the rules?", "The rules are found in appendix C"),
    ("What does the TBA-9 measure?", "The TBA-9 measures humidity."),
    ("What is the deadline?", "*** Deadline: 30 September ***"),
    ("What size is it?", "Size ........ 42 x 60 cm"),
    ("What do groups pay?", "Prices for groups: on request."),
]


@pytest.mark.parametrize(("language", "question", "text"), POINTERS)
def test_what_states_nothing_of_a_question_is_no_answer(language, question, text):
    assert states_nothing(question, text, language)


@pytest.mark.parametrize(("question", "text"), STATEMENTS)
def test_beside_a_pointer_or_below_a_heading_is_an_answer(question, text):
    assert not states_nothing(question, text)


@pytest.mark.parametrize("text", ["Deposits: see chapter 7.", "Deposit: ________", "The deposit"])
def test_a_pointer_is_handed_over_and_a_statement_beside_it_answered(text):
    index, question = Retriever(UEC()), "How much is the deposit?"
    index.add([*OTHERS, text])
    decision = index.search([question])[0].decision
    assert (decision.action, decision.code) == ("abstain", "uncertain")
    index.add(["The deposit is 300 euros."])
    assert index.search([question])[0].decision.action == "answer"
