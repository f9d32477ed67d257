import pytest

from uec_rag.base import spans
from uec_rag.base.spans import span


def test_a_span_is_named_and_says_how_much(exported):
    with span("search", queries=2):
        pass
    (found,) = exported.get_finished_spans()
    assert found.name == "uec_rag.search"
    assert dict(found.attributes) == {"uec_rag.queries": 2}


def test_an_error_inside_is_noted_and_passed_on(exported):
    with pytest.raises(ValueError, match="wrong"), span("search"):
        raise ValueError("wrong")
    (found,) = exported.get_finished_spans()
    assert not found.status.is_ok


def test_searching_and_deciding_say_what_came_of_it_without_texts(exported, full):
    from uec_rag.retrieval.gate import Gate

    gate = Gate(0.0)
    one, two = full.search(["badero fimafi"], k=4), full.search(["badero", "fimafi"], k=4)
    [again] = gate.decide(one)
    gate.decide_again(one.decisions[0])
    every = exported.get_finished_spans()
    assert not any("badero" in str(value) for span in every for value in span.attributes.values())
    spans = [span for span in every if span.name != "uec_rag.encode"]
    assert len(spans) < len(every)
    names = ("decision", "confidence", "in_corpus")
    said = [[span.attributes[f"uec_rag.{name}"] for name in names] for span in spans]
    [decision], sure, held = one.decisions, float(one.confidence[0]), float(one.in_corpus[0])
    assert said[0] == [decision.action, sure, held]
    assert said[1] == [
        tuple(decision.action for decision in two.decisions),
        tuple(two.confidence.tolist()),
        tuple(two.in_corpus.tolist()),
    ]
    assert [span.name for span in spans] == ["uec_rag.search"] * 2 + ["uec_rag.gate"] * 2
    assert said[2:] == [[again.action, sure, held]] * 2


def test_without_opentelemetry_the_work_is_done(monkeypatch):
    monkeypatch.setattr(spans, "_tracer", lambda: None)
    with span("encode", texts=3) as note:
        note(found=3)
