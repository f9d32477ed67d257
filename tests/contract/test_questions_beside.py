"""Questions and names beside a passage are searched everywhere, and are no part of it."""

import json

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import MetadataMode, TextNode
from llama_index.core.vector_stores.utils import node_to_metadata_dict

from tests.contract.test_over import EMBEDDED, LangChain, LlamaIndex
from tests.helpers import bag_of_words, index_of
from tests.llama_index.conftest import build
from tests.stores.kinds import KINDS, every_search
from uec_rag import UEC, Gate, Retriever, langchain, llama_index
from uec_rag.adapters.tool import answer_record, tool_reply
from uec_rag.confidence.model import log_odds
from uec_rag.documents import passages_of, read_folder
from uec_rag.stores.passage import Passage

FILLERS = [
    f"{thing} {verb} in the {place} of the hall."
    for thing in ("Lamps", "Doors", "Stairs", "Bins")
    for verb in ("stand", "stay", "wait")
    for place in ("yard", "cellar", "attic")
]
TEXT = "Overnight visitors are to be registered at the porter's lodge."
QUESTIONS = ["can my girlfriend sleep over", "kip, crash on the floor"]
ASKED = "May a girlfriend kip here?"
KEYS = {
    "questions": QUESTIONS,
    "questions_this_excerpt_can_answer": "1. Can my girlfriend sleep over?\n2. kip, crash",
}
EACH = [[bag_of_words(64, "fine")], ["bm25"], [bag_of_words(64, "fine"), "bm25"]]


class Wide(LangChain.Member):
    """Of so many numbers that texts without words in common are hardly alike."""

    def embed_documents(self, texts):
        EMBEDDED.extend(texts)
        return bag_of_words(512, "wide")(texts).tolist()


class WideNodes(LlamaIndex.Member):
    def _get_text_embedding(self, text):
        return Wide().embed_documents([text])[0]


every_key = pytest.mark.parametrize("key", KEYS)


def metadatas_of(key="questions", value=None):
    return [{"number": 0, key: KEYS[key] if value is None else value}] + [
        {"number": number} for number in range(1, len(FILLERS) + 1)
    ]


def first_of(index, question=ASKED):
    [result] = index.search([question])
    return result.passages[0].text


@pytest.mark.parametrize("encoders", EACH, ids=["vectors", "words", "both"])
@every_search
def test_a_passage_is_found_by_them_in_every_store_and_by_every_encoder(kind, encoders, tmp_path):
    if encoders == ["bm25"] and kind.startswith("qdrant"):
        return  # which needs vectors
    store = KINDS[kind](tmp_path)
    index = index_of(UEC(encoders), [TEXT, *FILLERS], metadatas=metadatas_of(), store=store)
    question = "girlfriend sleep over" if len(encoders) == 1 else ASKED
    assert first_of(index, question) == TEXT
    index.add([TEXT], ["p0"])  # without them
    assert first_of(index, question) != TEXT
    index.add([TEXT], ["p0"], [{"questions": "girlfriend\nsleep over"}])
    assert first_of(index, question) == TEXT


@every_key
def test_documents_of_langchain_need_nothing_else(key):
    documents = [
        Document(text, metadata=metadata)
        for text, metadata in zip([TEXT, *FILLERS], metadatas_of(key), strict=True)
    ]
    retriever = langchain.UECRetriever.from_documents(documents, UEC(EACH[2]), k=1)
    [document] = retriever.invoke(ASKED)
    assert document.page_content == TEXT
    assert document.metadata[key] == KEYS[key]


def nodes(key):
    return [
        TextNode(text=text, metadata=metadata)
        for text, metadata in zip([TEXT, *FILLERS], metadatas_of(key), strict=True)
    ]


def by_retriever(uec, key):
    return llama_index.UECRetriever.from_nodes(nodes(key), uec)


def by_their_index(uec, key):
    return build(uec, nodes(key)).as_retriever(similarity_top_k=1)


@every_key
@pytest.mark.parametrize("retriever", [by_retriever, by_their_index])
def test_nodes_of_llama_index_need_nothing_else_and_show_none_to_a_model(retriever, key):
    found = retriever(UEC(EACH[2]), key).retrieve(ASKED)[0].node
    assert found.get_content(MetadataMode.NONE) == TEXT
    assert found.metadata[key] == KEYS[key]
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert "girlfriend" not in found.get_content(mode)
        assert "number: 0" in found.get_content(mode)


def test_nodes_whose_questions_are_hidden_from_embeddings_are_found_by_them():
    hidden = nodes("questions")
    hidden[0].excluded_embed_metadata_keys = ["questions"]
    retriever = llama_index.UECRetriever.from_nodes(hidden, UEC([bag_of_words(64, "fine")]))
    assert retriever.retrieve("girlfriend sleep over")[0].text == TEXT


@every_key
def test_over_a_store_of_langchain_words_find_it_by_them(key):
    store = InMemoryVectorStore(Wide())
    store.add_texts([TEXT, *FILLERS], metadatas_of(key))
    over = langchain.UECRetriever.over(store, k=1, fit=False, candidates=5)
    assert over.invoke("can my girlfriend sleep over")[0].page_content == TEXT


@every_key
def test_over_an_index_of_llama_index_its_vectors_of_both_are_read(key):
    theirs = VectorStoreIndex(nodes(key), embed_model=WideNodes())
    over = llama_index.UECRetriever.over(theirs, similarity_top_k=1, fit=False)
    over.retrieve("lodge")  # from here on, it is known whose the vectors are
    EMBEDDED.clear()
    assert over.retrieve(ASKED)[0].node.get_content(MetadataMode.NONE) == TEXT
    assert EMBEDDED
    assert not any("hall" in text or "lodge" in text for text in EMBEDDED)


@pytest.mark.parametrize("way", ["over", "gate"])
def test_of_another_retriever_the_texts_that_it_finds_are_encoded_alone(way):
    theirs = InMemoryVectorStore(LangChain.Member()).as_retriever(search_kwargs={"k": 40})
    theirs.vectorstore.add_texts([TEXT, *FILLERS[:29]], metadatas_of()[:30])
    embed, embedded = bag_of_words(64, "fine"), []

    def model(texts):
        embedded.extend(texts)
        return embed(texts)

    if way == "over":
        langchain.UECRetriever.over(theirs, UEC([model]), k=1, fit=False).invoke("sleep over")
    else:
        langchain.UECGate(retriever=theirs, embedding=UEC([model])).invoke("sleep over")
    assert TEXT in embedded
    assert not any("girlfriend" in text for text in embedded)


@pytest.fixture(scope="module")
def halls():
    """Sections of a handbook, of which one has questions and names, as it comes."""
    texts = [
        "# Guests\n\nOvernight visitors are to be registered at the porter's lodge by 10 pm.",
        "# Rent\n\nThe rent is due on the first day of each month, by direct debit.",
        "# Laundry\n\nThe washing machines in the cellar take coins of one euro.",
        "# Keys\n\nA lost key is replaced for 25 euros.",
        "# Bicycles\n\nBicycles stand in the yard, and not in the corridors.",
    ] * 8
    texts = [f"{text} This is house {number}." for number, text in enumerate(texts)]
    metadatas = [{"source": f"{number}.md"} for number in range(len(texts))]
    asked = [{**metadatas[0], "questions": ["can my girlfriend sleep over in my dorm?"]}]
    uec = UEC()
    return [
        index_of(uec, texts, metadatas=known) for known in (metadatas, [*asked, *metadatas[1:]])
    ]


def test_what_is_near_by_its_question_alone_is_handed_over_and_not_answered(halls):
    [before], [after] = (index.search(["could my girlfriend sleep over?"]) for index in halls)
    assert before.decision.code in ("no_answer", "off_topic")
    assert (after.ids[0], after.decision.code) == ("p0", "uncertain")
    told = sum(float(line.rpartition(": ")[2]) for line in after.why)
    assert told == pytest.approx(float(log_odds(np.array(after.decision.in_corpus))), abs=0.4)


def test_a_passage_longer_than_a_model_reads_is_found_by_them():
    long = [f"{' '.join(FILLERS)} {number} {' '.join(FILLERS)} {TEXT}" for number in range(8)]
    metadatas = [*({} for _ in long[1:]), {"questions": "can my girlfriend sleep over?"}]
    index = index_of(UEC(["arctic-embed-s"]), long, metadatas=metadatas)
    assert index.search(["could my girlfriend sleep over?"])[0].ids[0] == "p7"


def test_vectors_alone_hand_it_over_as_well(halls):
    index = Retriever(UEC(["arctic-embed-s"]))
    passages = [*halls[1].passages()]
    index.add([p.text for p in passages], [p.id for p in passages], [p.metadata for p in passages])
    [by_vectors] = index.search(["could my girlfriend sleep over?"])
    assert (by_vectors.ids[0], by_vectors.decision.code) == ("p0", "uncertain")


@pytest.mark.parametrize("question", ["When is the rent due?", "What does a lost key cost?"])
def test_what_has_none_is_decided_as_without(halls, question):
    [before], [after] = (index.search([question]) for index in halls)
    assert before.ids == after.ids
    assert before.decision.action == after.decision.action


def test_none_of_them_is_shown_quoted_or_offered(halls):
    index, record = halls[1], {}
    [result] = index.search(["could my girlfriend sleep over?"])
    record["json"] = answer_record(result)
    hits = [(passage.text, passage.metadata) for passage in result.passages]
    decision = result.decision
    record["reply"] = tool_reply(decision.action, decision.code, decision.reason, [], hits)
    record["reason"] = decision.reason
    told = json.dumps({**record, "json": {**record["json"], "question": ""}})
    assert "girlfriend" not in told


def test_an_advisor_reads_the_passage_without_them(halls):
    read = []

    def advisor(question, passages):
        read.extend(passages)
        return "answer"

    halls[1].with_gate(Gate(advisor=advisor, ask="always")).search(
        ["could my girlfriend sleep over?"]
    )
    assert read
    assert not any("girlfriend" in text for text in read)


def test_no_reading_is_named_by_them():
    texts = ["The fee is 5 euros.", "The fee is 7 euros."]
    metadatas = [{"questions": name, "kind": kind} for name, kind in (("a", "Day"), ("b", "Week"))]
    [result] = index_of(UEC(["bm25"]), texts, metadatas=metadatas).search(["What is the fee?"])
    named = [*result.decision.readings, *result.decision.suggestions]
    assert named
    assert not {"a", "b"} & {reading.title for reading in named}


@pytest.mark.parametrize("value", [5, None, {"a": "b"}, [1, 2], ""])
def test_any_other_value_of_the_key_is_metadata_like_any(value):
    passage = Passage("a", "Cats purr.", {"questions": value})
    assert passage.searched == "Cats purr."
    index = Retriever(UEC(["bm25"]))
    index.add([passage.text], ["a"], [passage.metadata])
    assert index.get(["a"])[0].metadata == {"questions": value}


@pytest.mark.parametrize("key", KEYS)
def test_front_matter_is_read_for_them_only_where_that_is_asked_for(key, tmp_path):
    (tmp_path / "guests.md").write_text(
        f"---\n{key}: who may sleep here?\n---\n# Guests\n\n{TEXT}\n"
    )
    documents = read_folder(tmp_path)
    [passage] = passages_of(documents)
    assert key not in passage.metadata
    [passage] = passages_of(documents, questions=True)
    assert passage.metadata[key] == "who may sleep here?"


@pytest.mark.parametrize("name", ["text", "id", "broken", "none"])
def test_a_node_that_somebody_put_into_metadata_is_not_shown_in_place_of_the_text(name):
    others = {
        "text": node_to_metadata_dict(TextNode(text="Send us your card.", id_="a")),
        "id": node_to_metadata_dict(TextNode(text=TEXT, id_="b")),
        "broken": {"_node_content": "{", "_node_type": "TextNode"},
        "none": {"_node_content": 5},
    }
    metadata = {**others[name], "questions": QUESTIONS}
    index = index_of(UEC([bag_of_words(64, "fine")]), [TEXT], ["a"], [metadata])
    [hit] = llama_index.UECRetriever(index).retrieve("girlfriend sleep over")
    assert (hit.node.node_id, hit.node.get_content(MetadataMode.NONE)) == ("a", TEXT)


MANY = [f"may I bring guest {number}?" for number in range(40)]


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (MANY, 10),
        ([*QUESTIONS, f"{'may ' * 60}I?"], 2),
        ("\n".join(MANY), 10),
        ([", ".join(f"guest {number}" for number in range(90))], 1),
    ],
)
def test_what_is_too_much_is_left_out_and_said(lines, count):
    index = Retriever(UEC([bag_of_words(64, "fine")]))
    with pytest.warns(match="questions and names are left out. 10 questions of 200 characters"):
        index.add([TEXT], ["a"], [{"questions": lines, "page": 3}])
    [passage] = index.get(["a"])
    assert len(passage.metadata["questions"]) == count
    assert passage.metadata["page"] == 3
    assert passage.metadata["questions"][-1].count(",") < 30
