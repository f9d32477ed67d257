import json
import logging

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


class TestAsObservabilityToolsShowIt:
    def search(self, exported, full, queries):
        result = full.search(queries, k=3)
        [found] = [one for one in exported.get_finished_spans() if one.name == "uec_rag.search"]
        return result, dict(found.attributes)

    def test_a_search_shows_ids_scores_and_what_it_found_out(self, exported, full, monkeypatch):
        monkeypatch.delenv(spans.CONTENT, raising=False)
        result, shown = self.search(exported, full, ["badero fimafi"])
        assert shown["openinference.span.kind"] == "RETRIEVER"
        assert shown["gen_ai.operation.name"] == "retrieval"
        assert shown["gen_ai.retrieval.top_k"] == 3
        scores = result.scores[0].tolist()
        both = [{"id": id_, "score": s} for id_, s in zip(result.ids[0], scores, strict=True)]
        assert json.loads(shown["gen_ai.retrieval.documents"]) == both
        for place, id_ in enumerate(result.ids[0]):
            document = f"retrieval.documents.{place}.document"
            assert shown[f"{document}.id"] == id_
            assert shown[f"{document}.score"] == scores[place]
            assert json.loads(shown[f"{document}.metadata"]) == result[0].metadata(place)
        assert not any(name.endswith(("content", "input.value")) for name in shown)

    def test_texts_where_they_are_asked_for(self, exported, full, monkeypatch):
        monkeypatch.setenv(spans.CONTENT, "true")
        result, shown = self.search(exported, full, ["badero fimafi"])
        assert shown["input.value"] == shown["gen_ai.retrieval.query.text"] == "badero fimafi"
        for place, passage in enumerate(result.passages[0]):
            document = f"retrieval.documents.{place}.document"
            assert shown[f"{document}.content"] == passage.text
            own = json.loads(shown[f"{document}.metadata"])
            assert own == {**passage.metadata, **result[0].metadata(place)}


def test_without_opentelemetry_only_the_log_is_told(monkeypatch, caplog):
    monkeypatch.setattr(spans, "_tracer", lambda: None)
    caplog.set_level(logging.DEBUG, logger="uec_rag")
    with span("encode", texts=3):
        pass
    assert "(texts 3)" in caplog.text
    assert caplog.records[0].name == "uec_rag"
