"""The log of decisions has the run of LangChain, by which users' feedback is joined with it."""

import asyncio
import json
import logging

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableLambda

from uec_rag import UEC
from uec_rag.langchain import UECGate, UECRetriever

TEXTS = ["Cats purr when they are content.", "Dogs bark at strangers."]
QUESTION = "Why do cats purr?"


@pytest.fixture(scope="module")
def retriever():
    return UECRetriever.from_texts(TEXTS, UEC(["bm25"]), ids=["cats", "dogs"], k=1)


def advise(question, texts):
    return 0.9


class Roots(BaseCallbackHandler):
    """Whom LangChain tells of runs, as a tracer, with the ids of those that are in no other."""

    def __init__(self):
        self.ids = []

    def on_chain_start(self, *_, run_id, parent_run_id=None, **__):
        self.ids += [] if parent_run_id else [str(run_id)]

    on_retriever_start = on_chain_start


def calls(retriever):
    """Who is called, and the field of the log that has the id of that call's run."""
    gate = UECGate(retriever=retriever)
    return {
        "retriever": (retriever, "run_id"),
        "gate": (gate, "run_id"),
        "gate with an advisor": (UECGate(retriever=retriever, advisor=advise), "run_id"),
        "route": (gate.route(answer="Yes."), "parent_run_id"),
        "chain": (retriever | RunnableLambda(len), "parent_run_id"),
    }


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("name", ["retriever", "gate", "gate with an advisor", "route", "chain"])
def test_a_line_of_the_log_has_the_run_of_who_was_called(retriever, caplog, name, is_async):
    (called, field), roots = calls(retriever)[name], Roots()
    with caplog.at_level(logging.INFO, "uec_rag.decisions"):
        for _ in range(2):
            if is_async:
                asyncio.run(called.ainvoke(QUESTION, {"callbacks": [roots]}))
            else:
                called.invoke(QUESTION, {"callbacks": [roots]})
        retriever.index.search([QUESTION])
    *lines, last = map(json.loads, caplog.messages)
    assert [*dict.fromkeys(line[field] for line in lines)] == roots.ids
    assert {tuple(line["ids"]) for line in lines if "ids" in line} == {("cats",)}
    assert not last.keys() & {"run_id", "parent_run_id"}
