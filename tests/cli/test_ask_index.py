"""What `uec-rag ask` shows; `uec-rag demo`: tiny models quickly, the real ones once."""

from dataclasses import replace

import pytest

from tests.helpers import decide_on, index_of, pairs
from uec_rag import UEC
from uec_rag.cli.ask_index import QUESTIONS, print_answer
from uec_rag.questions.replies import Reading


@pytest.fixture
def tiny_models(monkeypatch, words, other_words):
    uec = UEC([str(words), str(other_words)]).fit(pairs())
    monkeypatch.setattr("uec_rag.cli.ask_index.build_ensemble", lambda models: uec)


@pytest.mark.usefixtures("tiny_models")
def test_every_question_is_answered_within_80_columns(run):
    told = run("demo", "--passages", "150", json_output=True)
    assert len(told["questions"]) == 6
    assert {len(answer["passages"]) for answer in told["questions"]} == {3}
    assert told["passages"] >= 150
    shown = run("demo", "--passages", "150").stdout
    assert QUESTIONS[-1] in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.slow
def test_the_real_models_find_names_ask_back_for_shared_ones_and_abstain_else(run, monkeypatch):
    monkeypatch.delenv("UEC_CACHE")  # the models' download, and texts encoded before
    answers = run("demo", json_output=True)["questions"]
    actions = [answer["decision"] for answer in answers]
    assert "abstain" not in actions[:3]
    # Too little is said of "pop", and of "split", for any passage to seem right.
    assert actions[3:5] == ["clarify", "clarify"]
    assert actions[5] == "abstain"
    for answer in answers[:3]:
        first = answer["passages"][0]["metadata"]["source"]
        assert answer["question"] == f"What does {first} do?"


LONG = [f"How a [{name}] that was found is returned to us" for name in ("lamp", "kiln")]


@pytest.mark.parametrize(
    ("titles", "shown"),
    [
        (["lamp", "kiln", "[lift]"], "clarify: Do you mean lamp, kiln or [lift]?"),
        (LONG, f"1. {LONG[0]} 2. {LONG[1]}"),
    ],
)
def test_readings_are_asked_back_in_a_sentence_or_if_long_in_a_list(capsys, titles, shown):
    index = index_of(UEC(["bm25"]), ["Reset the lamp.", "Reset the kiln.", "Reset the lift."])
    asked = decide_on(0.9, 0.9, tuple(Reading(title, ("1",), 0.3) for title in titles))
    print_answer(replace(index.search(["Reset it"])[0], decision=asked))
    told = " ".join(capsys.readouterr().out.split())
    assert shown in told
    assert f"clarify: {' '.join(asked.clarifying_question.split())}" in told
