"""What the package asks a model for itself is counted, and in no stream that a user reads."""

import json

import pytest
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, StateGraph

from uec_rag import UEC, Gate
from uec_rag.langchain import Gated, UECGate, UECRetriever, chat_advisor, retrieval_node

QUESTION = "Who repairs the lamp of the camera?"
TEXTS = [
    f"The {thing} is repaired by {name}." for thing, name in (("camera", "Ann"), ("desk", "Bob"))
]
VERDICT, REWRITE = '{"verdict": "no", "rewrite": ""}', "zebra"


class Model(GenericFakeChatModel):
    """A model with its own words, and the tokens that they take."""

    def _generate(self, *args, **kwargs):
        made = super()._generate(*args, **kwargs)
        made.generations[0].message.usage_metadata = {
            "input_tokens": 5,
            "output_tokens": 2,
            "total_tokens": 7,
        }
        made.generations[0].message.response_metadata = {"model_name": "fake"}
        return made


class Counting(BaseCallbackHandler):
    """What a program notes of calls of models."""

    def __init__(self):
        self.texts, self.tags = [], []

    def on_chat_model_start(self, *_, tags=None, **__):
        self.tags.append(tags)

    def on_llm_end(self, response, **_):
        self.texts.append(response.generations[0][0].text)


def model_of(text):
    return Model(messages=iter([AIMessage(text)] * 20))


def gate_of(where):
    """A gate with a chat model as its advisor, rewriter, or as the advisor of its index."""
    retriever = UECRetriever.from_texts(TEXTS, UEC(["bm25"]), fit=False)
    advisor, always = model_of(VERDICT), Gate(ask="always")
    if where == "index":
        retriever.index.gate = Gate(ask="always", advisor=chat_advisor(advisor))
        return UECGate(retriever=retriever)
    if where == "rewriter":
        rewriter = model_of('{"verdict": "no", "rewrite": "Who repairs the zebra?"}')
        declines = lambda question, texts: False  # noqa: E731
        return UECGate(retriever=retriever, gate=always, advisor=declines, rewriter=rewriter)
    if where == "above":
        return UECGate(retriever=RunnableLambda(retriever.invoke), gate=always, advisor=advisor)
    return UECGate(retriever=retriever, gate=always, advisor=advisor)


WHERE = ["advisor", "rewriter", "index", "above"]


class State(Gated):
    answer: str


def graph_of(gate, answers):
    graph = StateGraph(State)
    graph.add_node("retrieve", retrieval_node(gate))
    graph.add_node("answer", lambda state: {"answer": answers.invoke("Answer.").text})
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "answer")
    return graph.compile()


def advice_in(streamed):
    said = json.dumps(streamed, default=str)
    return [word for word in ("verdict", "zebra") if word in said]


@pytest.mark.parametrize("where", WHERE)
async def test_advice_is_in_no_stream_of_messages_and_its_tokens_are_counted(where):
    gate = gate_of(where)
    app, counting = graph_of(gate, model_of("The caretaker.")), Counting()
    with get_usage_metadata_callback() as usage:
        streamed = [
            [message.text, about]
            for message, about in app.stream(
                {"question": QUESTION}, {"callbacks": [counting]}, stream_mode="messages"
            )
        ]
    assert "".join(text for text, _ in streamed) == "The caretaker."
    assert not advice_in(streamed)
    assert len(counting.texts) == 2
    assert "verdict" in counting.texts[0]
    assert usage.usage_metadata["fake"]["total_tokens"] == 7  # of the advice: streams tell none
    assert ["nostream" in tags for tags in counting.tags] == [True, False]
    streamed = [
        message.text
        async for message, _ in app.astream({"question": QUESTION}, stream_mode="messages")
    ]
    assert "".join(streamed) == "The caretaker."


@pytest.mark.parametrize("where", WHERE)
async def test_advice_is_in_no_text_of_events(where):
    gate, counting = gate_of(where), Counting()
    models = model_of("The caretaker.")
    chain = gate | RunnableLambda(lambda found: "Answer.") | models
    events = [
        (event["event"], event["data"].get("chunk") or event["data"].get("output"))
        async for event in chain.astream_events(QUESTION, {"callbacks": [counting]})
        if event["event"].startswith("on_chat_model")
    ]
    assert not advice_in(events)
    assert any("caretaker" in str(event) for event in events)
    assert len(counting.texts) == 2
