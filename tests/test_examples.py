"""The examples as they run: each answers, asks back and abstains as its text says."""

import re
import sys
from itertools import chain

import pytest

from examples import (
    chat,
    confidence_gate,
    langchain_black_box,
    langchain_rag,
    llama_index_chat,
    llama_index_query_engine,
)
from tests.helpers import bag_of_words


@pytest.fixture(scope="module")
def built():
    return confidence_gate.build_gate()


@pytest.mark.slow
def test_the_gate_is_calibrated_on_some_questions_and_shown_on_others(built):
    gate, questions, answers = built
    assert len(questions) == len(answers) > 30
    assert "labelled queries" in gate.retriever.report
    assert gate.gate.guarantee.queries > 20  # some are asked back
    assert gate.gate.guarantee.risk == confidence_gate.RISK
    assert 0.02 < sum(not ids for ids in answers) / len(answers) < 0.3


@pytest.mark.slow
def test_it_prints_what_it_found(built, monkeypatch, capsys):
    monkeypatch.setattr(confidence_gate, "build_gate", lambda: built)
    confidence_gate.main()
    printed = capsys.readouterr().out
    assert built[0].gate.report in printed
    shares = rf"On {len(built[1])} other questions: .* answers (\d+)% and is wrong in (\d+)% of"
    [(answered, wrong)] = re.findall(shares, printed)
    assert int(answered) > 50
    assert int(wrong) <= 100 * confidence_gate.RISK
    said = printed.splitlines()[-5::2]
    assert said[0] == "  answer from: textwrap.dedent"
    assert re.fullmatch(r"  ask back: Do you mean .*str\.join\b.*\?", said[1])
    assert said[2] == '  I do not know. No passage mentions "France".'


@pytest.mark.slow
@pytest.mark.parametrize("example", [langchain_rag, llama_index_query_engine])
def test_a_question_is_answered_one_asked_back_and_one_not_answered(example, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["example"])
    example.main()
    printed = capsys.readouterr().out
    after = re.split("|".join(map(re.escape, example.QUESTIONS)), printed)[1:]
    said = ("textwrap.dedent", "Do you mean os.open", 'No passage mentions "France".')
    for text, action, reply in zip(after, ("answer", "clarify", "abstain"), said, strict=True):
        assert text.startswith(f"\n  [{action}")
        assert reply in text.partition("  > ")[2]


@pytest.mark.slow
def test_the_chat_follows_asks_back_and_abstains(capsys):
    chat.main()
    replies = re.findall(r"^> .+\n(.+)$", capsys.readouterr().out, re.MULTILINE)
    begin = ("The door opener", "The door opener", "Do you mean git add", "git push sends")
    begin = (*begin, "Do you mean git add", "rsync copies", "I do not know. No passage mentions")
    assert all(map(str.startswith, replies, begin))
    assert len(replies) == len(begin)


def test_an_api_and_a_local_model_answer_together(monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    langchain_black_box.main(local=bag_of_words(48, "local"), passages=300)
    printed = capsys.readouterr().out
    assert printed.startswith("No OPENAI_API_KEY: letter counts stand in for the API.")
    counts = dict(re.findall(r"a cosine of (\S+) counts (\S+)", printed))
    assert counts.keys() == {"letter-triples", "local"}
    assert re.findall(r"^(\S+): slope .* held-out NLL", printed, re.M) == [*counts]
    assert printed.count("(variance") == 3


def test_a_long_text_is_cut_at_a_word():
    beginning = llama_index_query_engine.beginning
    assert [beginning("Adds two\n  words", most) for most in (11, 14, 16)] == [
        "Adds two ...",
        "Adds two ...",
        "Adds two\n  words",
    ]


def test_no_question_is_used_twice():
    pairs = [(f"q{i}", f"p{i}") for i in range(200)]
    parts = confidence_gate.split(pairs)
    assert sorted(pair for part in parts for pair in part) == sorted(pairs)
    assert [len(part) for part in parts] == [60, 80, 60]


def test_a_chat_engine_understands_follow_ups_asks_back_and_abstains(capsys):
    llama_index_chat.main()
    turns = re.findall(r"^> (.*)\n(.*)$", capsys.readouterr().out, re.MULTILINE)
    assert turns == [
        (question, answer)
        for question, answer in zip(
            chain.from_iterable(llama_index_chat.CONVERSATIONS),
            [
                *[llama_index_chat.PASSAGES["Parking"]] * 2,
                *[llama_index_chat.PASSAGES["Door opener"]] * 2,
                "Do you mean Loan of laptops, Loan of cameras or Loan of projectors?",
                llama_index_chat.PASSAGES["Loan of cameras"],
                'No passage mentions "Hamlet".',
            ],
            strict=True,
        )
    ]
