"""Labels, what they would make of a gate, and the gate, as the page asks for them."""

import numpy as np
import pytest

from tests.server.conftest import TOKEN, serving
from tests.server.explore.conftest import LABELS, give_labels, make_topics
from uec_rag import Gate, Retriever
from uec_rag.evaluation.labelling import questions_to_ask


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    return make_topics(tmp_path_factory)


@pytest.fixture
def labelled(index):
    give_labels(index)
    return index


def test_labels_are_given_with_the_token_read_and_taken_back(index):
    with serving(index, write=True, token=TOKEN) as client:
        label = {"question": "Where is honey?", "relevant_ids": ["bees-1"]}
        assert client.post("/labels", json=label).status_code == 401
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        assert client.post("/labels", json=label).status_code == 201
        nothing = {"question": 'Who, of "=all"\nknows?', "relevant_ids": []}
        assert client.post("/labels", json=nothing).json() == {"relevant_ids": 0}
        gone = client.post("/labels", json=label | {"relevant_ids": ["gone"]})
        assert (gone.status_code, gone.json()["detail"][:12]) == (422, "relevant_ids")
        known = {label["question"]: ["bees-1"], nothing["question"]: []}
        assert client.get("/labels").json() == known
        client.delete("/labels", params={"question": nothing["question"]})
    assert Retriever.load(index).labels == {"Where is honey?": {"bees-1"}}


def test_the_questions_that_teach_most_are_those_asked_and_headings_without_a_label(index):
    words = "the big stone and all that it grinds for the baker of this small town every day."
    texts = ["Where may carts wait?", "How to grind corn", "Who has the key?"]
    extra = {"source": "how.md"}
    Retriever.load(index).add(
        [f"{title}\n\n{n} is {words}" for n, title in enumerate(texts)],
        metadatas=[extra | {"title": title} for title in texts],
    )
    with serving(index, write=True) as client:
        assert client.get("/index").json()["examples"][:2] == texts[::2]
        asked = {"questions": ["who keeps the honey dry?", "and the hive?"], "most": 30}
        teaching = client.post("/questions", json=asked).json()
        client.post("/labels", json={"question": "and the hive?", "relevant_ids": []})
        left = [one["question"] for one in client.post("/questions", json=asked).json()]
    found = [one["question"] for one in teaching]
    assert {"and the hive?", "How to grind corn"} <= {*found}
    assert "and the hive?" not in left
    far = [abs(one["confidence"] - 0.5) for one in teaching]
    assert far == sorted(far)


def test_what_is_suggested_are_questions_and_headings_and_no_statements_or_code(index):
    below = "It grinds for the baker of this small town every day, whatever the wind and the water."
    titles = [
        "We're almost done!",
        "Wer hat den Schlüssel\uff1f",
        "How to grind corn",
        "Note well:",
        "```python from mill import grind and_weigh```",
    ]
    texts = [f"{title}\n\n{n} {below}" for n, title in enumerate(titles)]
    known = Retriever.load(index)
    known.delete([passage.id for passage in known.passages()])
    known.add([f"The yard is behind the mill. {below}"])
    assert questions_to_ask(known) == []
    known.add(texts, metadatas=[{"title": title} for title in titles])
    assert questions_to_ask(known) == titles[1:3]


@pytest.mark.slow
@pytest.mark.parametrize(("guarantee", "curve"), [("max_wrong", "wrongs"), ("max_risk", "risks")])
def test_each_share_has_the_threshold_that_a_gate_has(client, labelled, guarantee, curve):
    found = client.post("/report", json={"k": 3}).json()
    queries, relevant = [*LABELS], [*LABELS.values()]
    gate = Gate.from_labels(Retriever.load(labelled), queries, relevant, **{guarantee: 0.2}, k=3)
    [shown] = [one for one in found[curve] if one["risk"] == 0.2]
    assert shown["threshold"] == pytest.approx(gate.threshold)
    assert (shown["answered"], shown["wrong"]) == (gate.guarantee.answered, gate.guarantee.wrong)
    sure = [row for row in found["rows"] if row["confidence"] > shown["threshold"]]
    answered = [row for row in sure if not row["asked_back"]]
    assert len(answered) == shown["answered"]
    assert sum(not row["right"] for row in answered) == shown["wrong"]
    share, risk = found["curve"][-1]
    answerable = [row["right"] for row in found["rows"] if not row["asked_back"]]
    assert share == pytest.approx(len(answerable) / len(queries))
    assert risk == pytest.approx(1 - np.mean(answerable))
    assert sum(one["count"] for one in found["reliability"]) == len(queries)


def save_gate(client, **target):
    return client.post("/gate", json={"k": 3} | target)


@pytest.mark.slow
def test_a_saved_gate_is_the_command_lines_and_decides_from_then_on(client, labelled):
    saved = save_gate(client, max_risk=0.2).json()
    gate = Gate.load(labelled / "gate.json")
    assert saved["threshold"] == gate.threshold
    assert gate.fits(Retriever.load(labelled))
    asked = client.post("/ask", json={"question": "honey in the hive"}).json()
    assert asked["threshold"] == pytest.approx(gate.threshold, rel=1e-5)
    assert client.get("/index").json()["gate"]["fits"]
    Retriever.load(labelled).add(["Something else is there now."])
    assert not client.get("/index").json()["gate"]["fits"]
    assert (save_gate(client, max_wrong=0.2).json()["risk"], gate.k) == (0.2, 3)
    for both in ({}, {"max_wrong": 0.2, "max_risk": 0.2}):
        assert save_gate(client, **both).status_code == 422


def test_too_few_labels_are_refused_in_words(client):
    for said in ("no question is labelled; label with", "no query has a relevant passage"):
        refused = client.post("/report", json={})
        assert (refused.status_code, said in refused.json()["detail"]) == (422, True)
        client.post("/labels", json={"question": "why?", "relevant_ids": []})


def test_no_answer_names_a_folder_of_this_machine(client, index, tmp_path):
    answers = [client.get("/index"), client.post("/report", json={})]
    (index / "gate.json").write_text("{")
    answers.append(client.post("/ask", json={"question": "honey"}))
    assert answers[-1].status_code == 503
    for answer in answers:
        assert str(tmp_path) not in answer.text
        assert "/tmp" not in answer.text
