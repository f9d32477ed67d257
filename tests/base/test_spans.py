import logging

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from uec_rag.base import spans
from uec_rag.base.spans import span


@pytest.fixture
def exported(monkeypatch):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "_tracer", lambda: provider.get_tracer("test"))
    return exporter


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


def test_encoding_searching_and_deciding_have_spans_without_texts(exported, full):
    from uec_rag.retrieval.gate import Gate

    labels = [f"p{i}" for i in range(40)]
    texts = [passage.text for passage in full.get(labels)]
    gate = Gate.calibrate(full, texts, [[id_] for id_ in labels], risk=0.3, certainty=0.8)
    gate.decide(full.search(["badero fimafi"], k=3))
    found = exported.get_finished_spans()
    assert {span.name for span in found} == {"uec_rag.encode", "uec_rag.search", "uec_rag.gate"}
    assert not any("badero" in str(value) for span in found for value in span.attributes.values())


def test_without_opentelemetry_only_the_log_is_told(monkeypatch, caplog):
    monkeypatch.setattr(spans, "_tracer", lambda: None)
    caplog.set_level(logging.DEBUG, logger="uec_rag")
    with span("encode", texts=3):
        pass
    assert "(texts 3)" in caplog.text
    assert caplog.records[0].name == "uec_rag"
