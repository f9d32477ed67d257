"""Passages of several products, of which a store of someone else's knows the files alone."""

import pytest
from langchain_core.vectorstores import InMemoryVectorStore

from tests.helpers import data_of
from uec_rag.langchain import UECEmbeddings, UECGate, UECRetriever

PRODUCTS = ("Borg", "Syncthing", "Traefik")
SAID = data_of("products.json")
OWN = {
    "Borg": "Borg removes duplicates: every chunk of a backup is stored once in the archive.",
    "Syncthing": "Syncthing shares a folder between devices, which exchange their device ids.",
    "Traefik": "Traefik routes requests to services by rules on the host and the path.",
}


@pytest.fixture(scope="module")
def gate():
    texts = {
        f"docs/{p.lower()}/{file}.md": s.format(p) for p in PRODUCTS for file, s in SAID.items()
    }
    texts |= {f"docs/{product.lower()}/concepts.md": text for product, text in OWN.items()}
    embedding = UECEmbeddings()
    store = InMemoryVectorStore(embedding)
    store.add_texts([*texts.values()], [{"source": source} for source in texts])
    return UECGate(retriever=UECRetriever.over(store, embedding))


@pytest.mark.parametrize("question", ["How do I install it?", "Where does it write its logs?"])
def test_a_question_that_every_product_answers_is_asked_back_by_product(gate, question):
    asked = gate.invoke(question)
    products = [reading["title"].partition(": ")[0].lower() for reading in asked["readings"]]
    assert sorted(products) == ["borg", "syncthing", "traefik"]
    chosen = gate.invoke("the one for Borg", history=[question, asked["clarifying_question"]])
    assert {d.metadata["source"].split("/")[1] for d in chosen["documents"]} == {"borg"}


@pytest.mark.parametrize(
    "question",
    [
        "How do I install Syncthing?",
        "How are requests routed to services?",
        "How does it remove duplicates?",
    ],
)
def test_a_question_that_names_a_product_or_that_one_answers_is_not(gate, question):
    assert gate.invoke(question)["decision"] != "clarify"


@pytest.mark.parametrize("spelled", [str, str.lower], ids=["Borg", "borg"])
@pytest.mark.parametrize(
    ("question", "right"),
    [
        ("How does {} remove duplicates?", "Borg"),
        ("Which rules route requests to services in {}?", "Traefik"),
        ("How do devices of {} exchange ids?", "Syncthing"),
    ],
)
def test_what_one_product_says_is_no_answer_about_another(gate, question, right, spelled):
    sure = {name: gate.invoke(question.format(spelled(name)))["confidence"] for name in PRODUCTS}
    assert sure[right] > 0.5
    assert all(sure[other] < sure[right] / 2 for other in PRODUCTS if other != right), sure
