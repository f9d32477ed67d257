"""Spans of OpenTelemetry for searches, fits and advice, if the application wants them."""

import asyncio

import pytest

from tests.helpers import python
from uec_rag import UEC, Advice, Gate, Retriever
from uec_rag.base import progress

TEXTS = ["Cats purr when they are content.", "Dogs bark at strangers in the yard."]


@pytest.fixture
def seen(monkeypatch):
    """What a watcher is told of each step."""
    told = []
    watch = lambda step, seconds, said: told.append((step, seconds, dict(said)))  # noqa: E731
    monkeypatch.setattr(progress, "WATCHERS", [*progress.WATCHERS, watch])
    return told


def make(advisor):
    index = Retriever(UEC(["bm25"]))
    index.add(TEXTS)
    index.gate = Gate(advisor=advisor, ask="always")
    return index


ASKED = {
    "search": lambda index, questions: index.search(questions),
    "asearch": lambda index, questions: asyncio.run(index.asearch(questions)),
}


@pytest.mark.filterwarnings("ignore:.*not fitted")
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_a_search_tells_its_decisions_and_what_was_asked_of_an_advisor(seen, ask):
    result = ask(make(lambda question, texts: Advice("no")), ["Why do cats purr?", "Who barks?"])
    *advice, (step, seconds, said) = seen
    assert [(step, said) for step, _, said in advice] == [
        ("advice", {"tokens": 0, "failed": False})
    ] * 2
    assert (step, seconds > 0) == ("search", True)
    assert said == {
        "decisions": [one.action for one in result.decisions],
        "reasons": [one.code for one in result.decisions],
        "borderline": 2,
    }


@pytest.mark.filterwarnings("ignore:.*not fitted")
def test_an_advisor_that_fails_is_told_without_its_message(seen):
    def advisor(question, texts):
        raise ConnectionError("https://key@host")

    make(advisor).search(["Why do cats purr?"])
    assert seen[0][2] == {"tokens": 0, "failed": True}
    assert "key" not in str(seen)


def test_an_error_is_told_by_its_kind(seen):
    with pytest.raises(ValueError, match="k"):
        make(None).search(["Why do cats purr?"], k=0)
    assert [(step, said) for step, _, said in seen] == [("search", {"error": "ValueError"})]


TRACED = """
import warnings; warnings.simplefilter("ignore")
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.helpers import pairs
from uec_rag import UEC, Advice, Gate, Retriever
from uec_rag.base import progress
letters = lambda texts: [[text.count(one) + 0.1 for one in "abcdefg"] for text in texts]
uec = UEC([letters, "bm25"]).fit(pairs(64))
index = Retriever(uec)
index.add(["Cats purr.", "Dogs bark."])
index.gate = Gate(advisor=lambda question, texts: Advice("answer"), ask="always")
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)  # as late as an application may
index.search(["Do cats purr?"])
UEC([letters, "bm25"]).fit(pairs(64))
try:
    index.search(["a secret"], k=0)
except ValueError:
    pass
for one in exporter.get_finished_spans():
    parent = one.parent and one.parent.span_id
    print(one.name, parent is not None, dict(one.attributes), [*one.events], sep=" | ")
"""


def test_an_application_that_traces_gets_spans_within_each_other_and_no_text():
    lines = python(TRACED, check=True).stdout.splitlines()
    assert [line.split(" | ")[:2] for line in lines] == [
        ["uec_rag.advice", "True"],
        ["uec_rag.search", "False"],
        ["uec_rag.fit", "False"],
        ["uec_rag.search", "False"],
    ]
    assert "{'uec_rag.tokens': 0, 'uec_rag.failed': False} | []" in lines[0]
    assert "'uec_rag.decisions': ('answer',)" in lines[1]
    assert lines[3].endswith("{'uec_rag.error': 'ValueError'} | []")
    assert "secret" not in "".join(lines)


WITHOUT = """
import sys
sys.modules["opentelemetry"] = None
from uec_rag import UEC, Retriever
index = Retriever(UEC(["bm25"]))
index.add(["Cats purr."])
print(index.search(["Do cats purr?"]).decisions[0].action)
"""


def test_no_library_is_needed_for_it():
    assert python(WITHOUT, check=True).stdout.split()[-1] in ("answer", "abstain")
