"""The example of the confidence gate, run on cheap encoders over real documentation."""

import pytest

from examples import confidence_gate
from tests.helpers import fitted_on_documentation


@pytest.fixture(scope="module")
def built():
    return confidence_gate.build_gate(fitted_on_documentation(64, 48), passages=600, max_risk=0.5)


@pytest.mark.slow
def test_the_gate_is_calibrated_on_some_questions_and_shown_on_others(built):
    gate, questions, answers = built
    assert len(questions) == len(answers) > 30
    assert "labelled queries" in gate.retriever.report
    assert gate.gate.guarantee.queries > 20  # some are asked back
    assert gate.gate.guarantee.risk == 0.5
    assert 0.02 < sum(not ids for ids in answers) / len(answers) < 0.3


@pytest.mark.slow
def test_it_prints_what_it_found(built, monkeypatch, capsys):
    monkeypatch.setattr(confidence_gate, "build_gate", lambda: built)
    confidence_gate.main()
    printed = capsys.readouterr().out
    assert built[0].gate.report in printed
    assert f"On {len(built[1])} other questions" in printed
    assert "'What is the capital of France?': " in printed
    said = ("I do not know (", "answer from: ", "ask back, ")
    assert sum(map(printed.count, said)) == 5


def test_no_question_is_used_twice():
    pairs = [(f"q{i}", f"p{i}") for i in range(200)]
    parts = confidence_gate.split(pairs)
    assert sorted(pair for part in parts for pair in part) == sorted(pairs)
    assert [len(part) for part in parts] == [60, 80, 60]
