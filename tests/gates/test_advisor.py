"""An advisor is asked once, in whatever way it replies or fails."""

import asyncio
import json
import logging
import threading
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from langchain_core.messages import AIMessage
from llama_index.core.llms import ChatMessage, ChatResponse, CompletionResponse

from tests.helpers import data_of
from uec_rag import Advice
from uec_rag.base.loops import run_to_end
from uec_rag.gates.advisor import ask_advisor, prompt, read_reply
from uec_rag.gates.decision_models import Case
from uec_rag.gates.opinion import Opinion


def asked(advisor, questions, timeout=5.0):
    cases = [Case(question, [question]) for question in questions]
    return run_to_end(ask_advisor(advisor, cases, timeout))


def failures(advisor, questions, timeout=5.0):
    return [opinion.failure for opinion in asked(advisor, questions, timeout)]


YES = Opinion(0.95)
"""What a true is taken for."""


@pytest.mark.parametrize(
    ("reply", "opinion"),
    [
        (Advice("clarify"), Opinion(0.97, unclear=0.97)),
        (True, YES),
        (np.False_, Opinion(1 - 0.95)),
        ({"verdict": "no", "options": None, "rewrite": None}, Opinion(1 - 0.97, unclear=1 - 0.97)),
        ('{"verdict": "answer"}', Opinion(0.97, unclear=1 - 0.97)),
    ],
)
def test_what_an_advisor_returns_is_read_into_probabilities(reply, opinion):
    assert asked(lambda question, texts: reply, ["why?"]) == [opinion]


@pytest.mark.parametrize(
    "message",
    [
        AIMessage('{"verdict": "no"}'),
        AIMessage([{"type": "text", "text": "No."}]),
        ChatMessage("no", role="assistant"),
        ChatResponse(message=ChatMessage('{"verdict": "no"}', role="assistant")),
        CompletionResponse(text="No"),
        SimpleNamespace(content='{"verdict": "no"}'),
        SimpleNamespace(content=[SimpleNamespace(thinking="Yes?"), SimpleNamespace(text="no")]),
        SimpleNamespace(output_text="No."),
        SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="No."))]),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_function_may_return_the_message_of_its_model(message):
    [opinion] = asked(lambda question, texts: message, ["why?"])
    assert opinion == Advice("no").as_opinion(Case("why?", []))


@pytest.mark.parametrize("share", [0, 0.49, np.float32(0.5), 1])
def test_a_number_is_a_probability(share):
    [opinion] = asked(lambda question, texts: share, ["why?"])
    assert opinion == Opinion(contains=float(share))


@pytest.mark.parametrize(
    ("number", "named"), [(3, 2), (1, 0), (0, 0), (11, 0), (None, 0), ("3", 0), (3.0, 2)]
)
def test_an_advisor_may_name_a_passage(number, named):
    told = json.dumps({"verdict": "answer", "passage": number})
    [advice] = asked(lambda question, texts: told, ["why?"])
    assert (advice.contains, advice.passage) == (0.97, named)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        7,
        10**400,
        float("nan"),
        1j,
        "It may.",
        {"verdict": "maybe"},
        Advice("maybe"),
        {"verdict": "no", "rewrite": 3},
        [],
    ],
)
def test_nonsense_is_no_advice(reply):
    assert failures(lambda question, texts: reply, ["why?"]) == ["it returned no verdict"]


released = threading.Event()
"""Ends what hangs."""


def raises_or_hangs(question, texts):
    if question == "raises":
        raise RuntimeError("no quota")
    if question == "hangs":
        released.wait(600)
    return True


async def raises_or_hangs_in_the_loop(question, texts):
    await asyncio.sleep(600 if question == "hangs" else 0)
    return raises_or_hangs(question, texts)


@pytest.mark.slow
@pytest.mark.parametrize("advisor", [raises_or_hangs, raises_or_hangs_in_the_loop])
def test_an_advisor_that_raises_or_hangs_fails_for_its_question_alone(advisor):
    released.clear()
    replies = asked(advisor, ["raises", "hangs", "works"], timeout=3)
    released.set()
    assert replies == [
        Opinion(failure="it failed with RuntimeError"),
        Opinion(failure="it took more than 3 seconds"),
        YES,
    ]


def test_one_that_hangs_keeps_no_more_threads_than_a_few():
    ends, before = threading.Event(), threading.active_count()
    hang = lambda question, texts: ends.wait()  # noqa: E731
    for _ in range(4):
        told = failures(hang, ["why?"] * 8, timeout=0.01)
    assert told == ["16 earlier calls of it have not returned"] * 8
    assert threading.active_count() - before <= 20
    ends.set()


class OfClass:
    """An advisor that is called like a function, and is none."""

    def __init__(self, error):
        self.error = error

    async def __call__(self, question, texts):
        raise self.error


def in_a_thread(error):
    def advisor(question, texts):
        raise error

    return advisor


def awaited_later(error):
    return lambda question, texts: OfClass(error)(question, texts)


WAYS = (in_a_thread, OfClass, awaited_later)
ERRORS = (asyncio.CancelledError(), SystemExit(2), TimeoutError())
OF_THREADS = (StopIteration(), KeyboardInterrupt(), GeneratorExit())  # a loop cannot pass them on


@pytest.mark.parametrize(
    ("make", "error"), [*product(WAYS, ERRORS), *product((in_a_thread,), OF_THREADS)]
)
def test_whatever_it_raises_is_one_failed_call(make, error):
    replies = failures(make(error), ["why?", "how?"], timeout=60)
    assert replies == [f"it failed with {type(error).__name__}"] * 2


async def cancels_itself(question, texts):
    asyncio.current_task().cancel()


async def test_one_that_is_cancelled_does_not_cancel_the_search():
    [reply] = await ask_advisor(cancels_itself, [Case("why?", ["a"])], 60)
    assert reply.failure == "it failed with CancelledError"


@pytest.mark.parametrize("is_asynchronous", [True, False])
def test_one_that_asks_itself_is_not_asked_again(is_asynchronous):
    calls, within = [], []

    def search(question):
        calls.append(question)
        within.extend(failures(advisor, [question]))
        return True

    async def search_later(question, texts):
        return await asyncio.to_thread(search, question)

    def search_now(question, texts):
        return search(question)

    advisor = search_later if is_asynchronous else search_now
    assert asked(advisor, ["why?", "how?"]) == [YES] * 2
    assert sorted(calls) == ["how?", "why?"]
    assert within == ["it was asked from within an advisor"] * 2
    assert asked(advisor, ["why?"]) == [YES]  # one after the other is not within


SECRET = "https://api.example/v1?key=sk-123"


@pytest.mark.parametrize("make", WAYS)
def test_nothing_of_the_message_of_an_exception_is_logged(make, caplog):
    async def late(question, texts):
        try:
            await asyncio.sleep(60)
        finally:
            raise ConnectionError(SECRET)

    with caplog.at_level(logging.DEBUG):
        asked(make(ConnectionError(SECRET)), ["why?"])
        assert "ConnectionError" in caplog.text
        asked(late, ["why?"], timeout=0.01)
    assert "sk-123" not in caplog.text
    assert "api.example" not in caplog.text


def test_the_failures_of_a_search_are_counted_and_said_in_one_line(caplog):
    asked(in_a_thread(ConnectionError()), ["why?"] * 30)
    [record] = caplog.records
    assert "no advice on 30 questions (most recently, it failed with ConnectionError)" in (
        record.getMessage()
    )


async def test_an_advisor_may_be_asked_from_a_running_event_loop():
    assert asked(lambda question, texts: True, ["why?"]) == [YES]


def test_no_more_than_eight_are_asked_at_once():
    running, most, lock = [0], [0], threading.Lock()
    together = threading.Barrier(8, timeout=600)  # who is alone breaks it

    def advisor(question, texts):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        together.wait()
        with lock:
            running[0] -= 1
        return True

    assert asked(advisor, ["why?"] * 32, timeout=600) == [YES] * 32
    assert most == [8]


INJECTIONS = data_of("injections.json")


@pytest.mark.parametrize("injection", INJECTIONS)
def test_what_a_passage_says_stays_between_quotation_marks(injection):
    plain = prompt("why?", ["a"]).splitlines()
    said = prompt("why?", [injection]).splitlines()
    assert len(said) == len(plain)
    [(own, other)] = [pair for pair in zip(plain, said, strict=True) if pair[0] != pair[1]]
    assert own == '[1] "a"'
    assert other.startswith('[1] "')
    assert other.endswith('"')
    assert '"' not in other[5:-1].replace("\\\\", "").replace('\\"', "")
    asks = prompt(injection, ["a"]).splitlines()
    assert sum(one != two for one, two in zip(asks, plain, strict=True)) == 1


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ('Sure!\n```json\n{"verdict": "no", "rewrite": "x"}\n```', "no"),
        ('A passage says {"verdict": "answer"}, but: {"verdict": "no"}', "no"),
        ('{"verdict": "no", "why": {"verdict": "answer"}} {"sure": 1}', "no"),
        ('{"verdict": "answer"} or rather {"verdict": "maybe"}', None),
        ('The parts {a} and {b} say it. {{"verdict": "answer"}}', "answer"),
        ('{"verdict": "no", "why": {"verdict": "answer"}', None),
        ('{"verdict": "no", "rewrite": "Is {"verdict": "answer"} right?"}', None),
        ("{" * 5000, None),
        ("[" * 50_000, None),
        ('{"verdict": "no", "certainty": ' + "1" * 5000 + "}", "no"),
        ('{"verdict": ' + "[" * 5000, None),
        ("It has no answer.", None),
        ("NO", "no"),
        ("no.", "no"),
        ("No, none of them names a fee.", "no"),
        ("**Yes**", "answer"),
        ("Verdict: Clarify", "clarify"),
        ('{"Verdict": "No."}', "no"),
        ('{"VERDICT": " ANSWER "}', "answer"),
        ('{"verdict": false}', "no"),
        ("<think>No.</think>Yes.", "answer"),
        ("", None),
    ],
)
def test_the_last_whole_verdict_in_the_reply_of_a_model_is_read(reply, verdict):
    advice = read_reply(reply)
    assert (advice and advice.verdict) == verdict


@pytest.mark.parametrize(("begin", "end"), data_of("advisor.json"))
@pytest.mark.parametrize("thought", ["", 'Passage 3 has it: {"verdict": "no"}? ', "{Hm. " * 9000])
def test_what_a_model_thinks_before_its_verdict_is_none(begin, end, thought):
    told = f'{begin}{thought}{end}So:\n```json\n{{"verdict": "clarify"}}\n```\nThat is all.'
    assert read_reply(told).verdict == "clarify"
    assert read_reply(f"{begin}{thought}{end}") is None
    if begin:
        assert read_reply(f"{begin}{thought}") is None
        assert read_reply(f'{begin}{thought}{end}{begin}Or {{"verdict": "no"}}? I need') is None


def opinion_of(advice, question="why?"):
    return advice.as_opinion(Case(question, ["a"]))


def test_options_are_offered_if_they_are_a_few_short_lines_that_differ():
    said = opinion_of(Advice("clarify", ("rent ", "the\ndeposit")))
    assert said.options == ("rent", "the deposit")
    for options in ((), ("rent",), ("rent", "Rent"), ("a", ""), ("a", "\x07"), (*"abcde",)):
        assert opinion_of(Advice("clarify", options)).options == ()


SHOWN = [
    ("rent", "rent"),
    ("\x1b[2Jrent\x1b[0m", "rent"),
    ("\x1b]0;title\x07rent\x1b]8;;http://a\x1b\\", "rent"),
    ("\x9b31mrent\x00", "rent"),
    ("\u202etner\u202c \u2066rent\u2069", "tner rent"),
    ("re\ud800nt\u2028or\tless", "rent or less"),
    ("мир 😀 \u200dनमस्ते", "мир 😀 \u200dनमस्ते"),
]
"""Texts of a model, and what is left of them."""


@pytest.mark.parametrize(("text", "shown"), SHOWN)
def test_options_and_rewrites_have_no_characters_that_a_terminal_obeys(text, shown):
    assert opinion_of(Advice("clarify", (text, "other"))).options == (shown, "other")
    assert opinion_of(Advice("no", rewrite=text)).rewrite == shown
    reply = json.dumps({"verdict": "no", "rewrite": text, "options": [text, "other"]})
    assert opinion_of(read_reply(reply)).rewrite == shown


def test_a_rewrite_is_searched_unless_it_is_the_question_or_no_question():
    said = opinion_of(Advice("no", rewrite=" How  is leave\nrequested? "))
    assert said.rewrite == "How is leave requested?"
    for rewrite in ("", "  ", "why? ", "WHY?", "x" * 401):
        assert opinion_of(Advice("no", rewrite=rewrite), "Who?\nWhy?").rewrite == ""
    for verdict in ("answer", "clarify"):
        assert opinion_of(Advice(verdict, rewrite="How?")).rewrite == ""
