"""What the explorer's page asks for: numbers of the Python API, and no mistake costs a thing."""

import json
from contextlib import contextmanager

import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from tests.helpers import data_of
from tests.server.conftest import SCRIPT, TOKEN, make
from tests.server.explore.conftest import HOST, QUESTIONS, table
from uec_rag import Gate, Retriever
from uec_rag.cli import app
from uec_rag.confidence.sentences import language_told_in
from uec_rag.documents.folder import read_files
from uec_rag.documents.labels import read_questions
from uec_rag.encoders.lexical import mark_words
from uec_rag.evaluation.inspection import fuse, search_by_each_member
from uec_rag.retrieval.files import EncodedFiles
from uec_rag.server.access import Access, Limits
from uec_rag.server.explore import LARGEST_TABLE, explorer
from uec_rag.server.views import AT_ONCE, SHOWN, whole_view
from uec_rag.stores.base import Passage
from uec_rag.stores.urls import open_store


@contextmanager
def exploring(index, gate=None, body=LARGEST_TABLE, **access):
    allowed = Access(limits=Limits(body=body), **access)
    app = explorer(Retriever.load(index), allowed, gate)
    with TestClient(app, base_url=f"http://{HOST}") as client:
        yield client


@pytest.fixture
def client(index):
    with exploring(index) as client:
        yield client


LABELS = [*QUESTIONS, ("who wrote hamlet?", ""), ("why?", "")]


def ask(client, question, k=5):
    return client.post("/api/ask", json={"question": question, "k": k}).json()


def text_of(nodes):
    """The text of a tree as `uec_rag.server.views` makes it."""
    return "".join(node if isinstance(node, str) else text_of(node[1:]) for node in nodes)


def tune(client, content=None, name="questions.csv", **options):
    query = {"name": name, **options}
    return client.post("/api/tune", params=query, content=table() if content is None else content)


def tuned(client, **options):
    answer = tune(client, **options)
    assert answer.status_code == 200
    return answer.json()


def add_text(index, text):
    """Add a passage in another process."""
    other = Retriever.load(index)
    other.add([text])
    other.save(index)


def add_file(index, name, text):
    """Add a file as `uec-rag index --update` does."""
    (index.parent / "files").mkdir()
    (index.parent / "files" / name).write_text(text)
    read, other = read_files(index.parent / "files"), Retriever.load(index)
    EncodedFiles.from_documents(other, read.documents).replace_in(other)
    other.save(index)


def test_hits_and_decision_are_those_of_a_search(client, index):
    question = "keep the honey dry"
    shown, result = ask(client, question), Retriever.load(index).search([question], 5)
    assert [hit["id"] for hit in shown["passages"]] == result.ids[0]
    assert shown["decision"] == result.decisions[0].action
    assert shown["reason"] == result.decisions[0].reason
    for rank, hit in enumerate(shown["passages"]):
        known = result[0].metadata(rank, details=True)
        assert hit["score"] == pytest.approx(known["uec_score"])
        assert hit["mu"] == pytest.approx(known["uec_mu"])
        assert hit["sigma"] ** 2 == pytest.approx(known["uec_sigma2"])
        assert hit["relevance"] == pytest.approx(known["uec_relevance"])
        assert hit["encoders"].keys() == known["uec_encoders"].keys()
        assert hit["encoders"]["bm25"] == pytest.approx(known["uec_encoders"]["bm25"])
    assert ["mark", "honey"] in shown["passages"][0]["body"][0]


def test_beside_the_hits_are_those_of_a_member_alone_and_of_rank_fusion(client, index):
    question = "the hive and the anchor"
    shown, retriever = ask(client, question, 3), Retriever.load(index)
    alone = search_by_each_member(retriever, [question], 100)
    first = max(shown["weights"], key=shown["weights"].get)
    own, fusion = ([hit["id"] for hit in one["passages"]] for one in shown["others"])
    assert own == [*alone[first][0].ids[:3]]
    assert fusion == [p.id for p in fuse([one.passages for one in alone.values()])[0][:3]]
    here = [hit["id"] for hit in shown["passages"]]
    for one in shown["others"]:
        for hit in one["passages"]:
            place = here.index(hit["id"]) + 1 if hit["id"] in here else None
            assert hit["place_here"] == place


def test_text_of_a_passage_comes_without_what_a_terminal_obeys(client):
    hits = ask(client, "gnu owned alert script", 9)["passages"]
    found = {hit["id"]: text_of(hit["body"]) for hit in hits}
    assert found["script"] == SCRIPT  # the page takes it as text
    assert not {*"\x1b\x07\u202e"} & {*found["escapes"]}
    assert r"\x1b[2J" in found["escapes"]


def test_a_long_passage_is_cut_and_a_source_elsewhere_is_a_name():
    source = {"source": "/home/me/zebra.txt", "page": "3\x1b", "title": "On\x1b zebras"}
    shown = whole_view(Passage("long", "zebra " * 2**21, source), ["zebra"])
    assert (shown["cut"], shown["characters"]) == (True, 6 * 2**21 - 1)
    assert len(text_of(shown["body"])) == SHOWN
    known = ("zebra.txt", r"page 3\x1b", r"On\x1b zebras")
    assert (shown["source"], shown["place"], shown["title"]) == known


def test_the_heading_of_a_passage_is_shown_once_and_markdown_only_of_markdown():
    known = {"source": "zebras.md", "title": "On zebras"}
    passage = Passage("z", "On zebras\n\n| a | b |\n|---|---|\n| **1** | 2 |", known)
    shown = whole_view(passage)
    assert [block[0] for block in shown["body"]] == ["table"]
    assert (shown["title"], shown["beginning"]) == ("On zebras", "a b 1 2")
    longer = Passage("z", "On zebras, and on gnus.", known)
    assert text_of(whole_view(longer)["body"]) == longer.text
    plain = whole_view(Passage("z", passage.text, known | {"source": "zebras.txt"}))
    assert plain["body"] == [["p", "| a | b |\n|---|---|\n| **1** | 2 |"]]


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("Oven doors", ["door"], ["doors"]),
        ("The one and the other", ["the"], []),
        ("今天天气很好", ["天气"], ["天气"]),
        ("a.b(c) [d", ["(", "[d"], ["d"]),
    ],
)
def test_words_of_a_question_are_marked_in_any_form_and_others_are_not(text, words, expected):
    pieces = mark_words(text, words)
    assert "".join(piece for piece, _ in pieces) == text
    assert [piece for piece, is_word in pieces if is_word] == expected


@pytest.mark.parametrize("promise", ["wrong", "risk"])
def test_each_share_has_the_threshold_that_a_gate_has(client, index, promise):
    found = tuned(client, k=3)
    rows = [line.split(",") for line in table().decode().splitlines()[1:]]
    queries, relevant = [row[0] for row in rows], [{row[1]} - {""} for row in rows]
    gate = Gate.from_labels(
        Retriever.load(index), queries, relevant, **{f"max_{promise}": 0.2}, k=3
    )
    [shown] = [one for one in found[f"{promise}s"] if one["risk"] == 0.2]
    assert shown["threshold"] == pytest.approx(gate.threshold)
    assert (shown["answered"], shown["wrong"]) == (
        gate.guarantee.answered,
        gate.guarantee.wrong,
    )
    sure = [row for row in found["rows"] if row["confidence"] > shown["threshold"]]
    answered = [row for row in sure if not row["asked_back"]]
    assert len(answered) == shown["answered"]
    assert sum(not row["right"] for row in answered) == shown["wrong"]
    share, risk = found["curve"][-1]
    answerable = [row["right"] for row in found["rows"] if not row["asked_back"]]
    assert share == pytest.approx(len(answerable) / len(queries))
    assert risk == pytest.approx(1 - np.mean(answerable))
    assert sum(one["count"] for one in found["reliability"]) == len(queries)


def test_a_saved_gate_is_the_command_lines_and_decides_from_then_on(client, index):
    tuned(client, k=3)
    saved = client.post("/api/gate", json={"max_risk": 0.2}).json()
    gate = Gate.load(index / "gate.json")
    assert saved["threshold"] == gate.threshold
    assert gate.fits(Retriever.load(index))
    assert ask(client, "honey in the hive")["threshold"] == gate.threshold
    assert client.get("/api/index").json()["gate"]["fits"]
    add_text(index, "Something else is there now.")
    assert not client.get("/api/index").json()["gate"]["fits"]
    assert client.post("/api/gate", json={"max_risk": 0.2}).status_code == 409


def test_a_gate_makes_one_promise(client, index):
    tuned(client, k=3)
    saved = client.post("/api/gate", json={"max_wrong": 0.2}).json()
    assert (saved["risk"], saved["delta"]) == (0.2, None)
    for both in ({}, {"max_wrong": 0.2, "max_risk": 0.2}):
        assert client.post("/api/gate", json=both).status_code == 422


def test_a_gate_that_abstains_on_everything_is_not_saved(client, index):
    assert client.post("/api/gate", json={"max_risk": 0.2}).status_code == 409
    tuned(client, content=table([("honey hive?", "bees-0"), ("why?", "")]))
    refused = client.post("/api/gate", json={"max_risk": 0.05})
    assert (refused.status_code, (index / "gate.json").exists()) == (422, False)
    assert "takes at least 59 calibration questions" in refused.json()["detail"]


def test_labels_that_look_wrong_are_named_and_a_gate_that_answers_nothing_is_not_saved(tmp_path):
    make().save(tmp_path / "idx")
    rows = [(f"What is note {n} about?", f"n{n}" if n < 12 else "") for n in range(16)]
    with exploring(tmp_path / "idx") as client:
        [said] = tuned(client, content=table(rows))["doubtful"]
        assert said.startswith("4 questions labelled as without an answer have a confidence above")
        refused = client.post("/api/gate", json={"max_wrong": 0.1})
        assert tuned(client, content=table(rows[:12]))["doubtful"] == []
    assert (refused.status_code, (tmp_path / "idx" / "gate.json").exists()) == (422, False)
    assert "Of 16 questions, 0 answered" in refused.json()["detail"]


def test_questions_made_from_the_passages_give_a_curve_too(client):
    found = tuned(client, content=b"", name="")
    assert (found["name"], found["questions"], found["doubtful"]) == ("", 20, [])
    assert sum(not row["answerable"] for row in found["rows"]) == 4


def test_a_thread_goes_on_and_a_reading_narrows_it_down(client, index):
    first, then = "who keeps the honey dry?", "and what begins with it?"
    history = [{"role": "user", "content": first}, {"role": "assistant", "content": "The hive."}]
    asked = {"question": then, "k": 3, "history": history}
    shown = client.post("/api/ask", json=asked).json()
    retriever = Retriever.load(index)
    result = retriever.search([then], 3, history=[[first]])
    assert [hit["id"] for hit in shown["passages"]] == result.ids[0]
    assert shown["confidence"] == pytest.approx(result.decisions[0].confidence)
    [remembered] = client.get("/api/asked").json()
    assert (remembered["before"], remembered["question"]) == ([first], then)

    among = {"question": first, "within": ["bees-1", "bees-2"]}
    shown = client.post("/api/ask", json=among).json()
    assert {hit["id"] for hit in shown["passages"]} == {"bees-1", "bees-2"}
    assert client.get("/api/asked").json() == [remembered]


def test_an_answer_is_told_in_the_language_of_the_question(client):
    english, german = (
        ask(client, "who keeps the honey dry?"),
        ask(client, "Wer hält den Honig trocken?"),
    )
    assert (english["language"], german["language"]) == ("en", "de")
    assert english["told"]["abstain"] == "Do not answer"
    assert german["told"]["abstain"] == "Nicht antworten"
    assert language_told_in(german["reason"]) == "de"


def test_readings_come_with_what_to_ask_again_among(client, index):
    retriever = Retriever.load(index)
    for question in ("what begins?", "all day", "what every matter begins with", "keeps dry"):
        shown, [decision] = ask(client, question, 4), retriever.search([question], 4).decisions
        assert shown["readings"] == decision.choices


def test_an_index_says_which_files_it_has_and_what_to_ask_it(client, index):
    added = "\n\n".join(
        f"# What is part {n} for?\n\nIt turns wheel {n} of the mill, and stops at low water."
        for n in range(70)
    )
    add_file(index, "parts.md", added)
    shown = client.get("/api/index").json()
    [file] = [one for one in shown["sources"] if one["source"] == "parts.md"]
    assert file["passages"] == 70
    assert sum(one["passages"] for one in shown["sources"]) == shown["passages"]
    assert len(shown["examples"]) == 6
    assert all(one.startswith("What is part ") for one in shown["examples"])
    one = client.get("/api/file", params={"id": "parts.md#what-is-part-60-for"}).json()
    assert (one["start"], one["total"]) == (AT_ONCE, 70)
    read = text_of(one["passages"][0]["body"])
    assert read == "It turns wheel 50 of the mill, and stops at low water."


def test_an_index_is_asked_first_what_its_headings_ask(client, index):
    body = "It takes an hour, a dry room and the big stone, which the miller has the key of."
    text = f"# How to grind corn\n\n{body}\n\n# Where may carts wait?\n\n{body}."
    add_file(index, "how.md", text)
    shown = client.get("/api/index").json()["examples"]
    assert {*shown[:2]} == {"How do I grind corn?", "Where may carts wait?"}
    assert len({*shown}) == 6


def label(client, question, id_=None, holds=True):
    return client.post("/api/label", json={"question": question, "id": id_, "holds": holds}).json()


def test_labels_given_on_the_page_are_the_table_of_the_gate(client, index):
    for question, id_ in LABELS:
        label(client, question, id_ or None)
    counts = client.get("/api/labels").json()
    assert (counts["questions"], counts["unanswerable"]) == (len(LABELS), 2)
    asked = read_questions(index / "questions.csv", labelled=True)
    assert asked == {question: {id_} - {""} for question, id_ in LABELS}
    of_page = tune(client, b"", labelled=True).json()
    assert of_page["rows"] == tuned(client)["rows"]
    made = CliRunner().invoke(app, ["gate", str(index), str(index / "questions.csv")])
    assert made.exit_code == 0, made.output
    assert ask(client, "what of honey hive?")["labels"] == {"ids": ["bees-1"], "nothing": False}


def test_a_label_is_taken_back_and_nothing_answers_or_something_does(client, index):
    question = 'what, of "=honey"\nand hive?'
    assert label(client, question, "bees-1") == {"ids": ["bees-1"], "nothing": False}
    assert label(client, question, "bees-0")["ids"] == ["bees-0", "bees-1"]
    assert label(client, question, "bees-1", holds=False)["ids"] == ["bees-0"]
    assert label(client, question, holds=False)["ids"] == ["bees-0"]
    assert label(client, question) == {"ids": [], "nothing": True}
    assert read_questions(index / "questions.csv", labelled=True) == {question: set()}
    assert label(client, question, "bees-0") == {"ids": ["bees-0"], "nothing": False}
    label(client, question)
    assert label(client, question, holds=False) == {"ids": [], "nothing": False}
    assert client.get("/api/labels").json()["questions"] == 0
    assert "is not in the index" in label(client, question, "bees-99")["detail"]
    assert "question: " in label(client, " ")["detail"]
    with exploring(index) as other:  # what was labelled is there after a restart
        label(other, "why?")
    assert client.get("/api/labels").json()["questions"] == 1


def test_a_damaged_table_of_labels_does_not_stop_questions(client, index):
    (index / "questions.csv").write_bytes("question\nwhy für?".encode("latin-1"))
    assert ask(client, "what of honey hive?")["labels"] == {"ids": [], "nothing": False}
    assert "questions.csv" in label(client, "why?")["detail"]


def test_what_to_label_next_is_what_was_asked_and_then_headings(client, index):
    add_file(
        index, "how.md", "# Where may carts wait?\n\nIn the yard, until the big stone is free."
    )
    history = [{"role": "user", "content": "who keeps the honey dry?"}]
    client.post("/api/ask", json={"question": "and the hive?", "history": history})
    ask(client, "who keeps the honey dry?")
    first, second, *_ = client.get("/api/labels").json()["next"]
    assert (first, second) == ("who keeps the honey dry?", "Where may carts wait?")
    label(client, first, "bees-1")
    assert client.get("/api/labels").json()["next"][0] == second


@pytest.mark.parametrize(("content", "name", "said"), data_of("bad_tables.json"))
def test_a_bad_table_is_refused_in_words(client, content, name, said):
    refused = tune(client, content.encode(), name)
    assert refused.status_code == 422
    assert said in refused.json()["detail"]


def test_the_page_may_load_nothing_but_its_own_and_others_may_not_ask(index):
    with exploring(index, token=TOKEN) as client:
        assert client.get("/api/index").status_code == 401
        page = client.get("/")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        for path, kind in (("/page.js", "javascript"), ("/page.css", "css")):
            assert kind in client.get(path).headers["content-type"]
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        assert client.get("/api/index").status_code == 200
        assert client.get("/api/index", headers={"host": "evil.example"}).status_code == 421


def test_no_answer_names_a_folder_of_this_machine(client, index, tmp_path):
    paths = ["/api/index", "/api/asked"]
    answers = [client.get(path).text for path in paths]
    answers += [tune(client, b"x", "q.pdf").text, tune(client, b"", "q.csv").text]
    (index / "gate.json").write_text("{")
    answers += [json.dumps(ask(client, "honey"))]
    for answer in answers:
        assert str(tmp_path) not in answer
        assert "/tmp" not in answer
    assert "gate.json" in answers[-1]


def test_a_question_must_be_one(client):
    for wrong in ({"question": " "}, {}, {"question": "x", "k": 0}):
        assert client.post("/api/ask", json=wrong).status_code == 422


def test_passages_in_an_engine_are_shown(index, tmp_path):
    retriever = Retriever.load(index)
    place = f"qdrant:///{tmp_path}/engine/passages"
    store = open_store(place)
    over = Retriever(retriever.uec, store)
    over.add([passage.text for passage in retriever.passages()])
    over.save(tmp_path / "over")
    app = explorer(Retriever.load(tmp_path / "over", store=store), Access())
    with TestClient(app, base_url=f"http://{HOST}") as client:
        assert ask(client, "keep the honey dry")["others"]
        assert client.get("/api/index").json()["store"] == "QdrantStore"
        assert ask(client, "honey in the hive")["passages"]
