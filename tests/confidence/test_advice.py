"""An advisor is asked once, in whatever way it replies or fails."""

import asyncio
import threading
import time

import numpy as np
import pytest

from tests.helpers import data_of
from uec_rag import Advice
from uec_rag.confidence.advice import Usage, ask_advisor, prompt, read_reply, run_to_end


def asked(advisor, questions, timeout=5.0, usage=None):
    texts = [[question] for question in questions]
    return run_to_end(ask_advisor(advisor, questions, texts, timeout, usage or Usage()))


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (Advice("clarify"), "clarify"),
        (True, "answer"),
        (np.False_, "no"),
        (0.49, "no"),
        (np.float32(0.5), "answer"),
        ({"verdict": "no", "options": None, "rewrite": None}, "no"),
        ('{"verdict": "answer"}', "answer"),
    ],
)
def test_what_an_advisor_may_return(reply, verdict):
    [advice] = asked(lambda question, texts: reply, ["why?"])
    assert advice.verdict == verdict


@pytest.mark.parametrize(
    "reply",
    [None, 7, float("nan"), "yes", {"verdict": "maybe"}, {"verdict": "no", "rewrite": 3}, []],
)
def test_nonsense_is_no_advice_and_counted_as_a_failure(reply):
    usage = Usage()
    assert asked(lambda question, texts: reply, ["why?"], usage=usage) == ["it returned no verdict"]
    assert (usage.asked, usage.failed) == (1, 1)


def test_an_advisor_that_raises_or_hangs_fails_for_its_question_alone():
    def advisor(question, texts):
        if question == "raises":
            raise RuntimeError("no quota")
        if question == "hangs":
            time.sleep(30)
        return True

    begun = time.monotonic()
    replies = asked(advisor, ["raises", "hangs", "works"], timeout=0.2)
    assert time.monotonic() - begun < 5
    assert replies == [
        "it failed with RuntimeError",
        "it took more than 0.2 seconds",
        Advice("answer"),
    ]


def test_a_coroutine_function_is_awaited_and_may_time_out():
    async def advisor(question, texts):
        await asyncio.sleep(30 if question == "hangs" else 0)
        return texts == [question]

    replies = asked(advisor, ["hangs", "works"], timeout=0.2)
    assert replies == ["it took more than 0.2 seconds", Advice("answer")]


async def test_an_advisor_may_be_asked_from_a_running_event_loop():
    assert asked(lambda question, texts: True, ["why?"]) == [Advice("answer")]


def test_no_more_than_eight_are_asked_at_once():
    running, most, lock = [0], [0], threading.Lock()

    def advisor(question, texts):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1
        return True

    assert len(asked(advisor, ["why?"] * 30)) == 30
    assert 1 < most[0] <= 8


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
        ('{"verdict": "no"} because {"verdict": "no"}', "no"),
        ('A passage says {"verdict": "answer"}, but: {"verdict": "no"}', None),
        ('{"a": 1} {"verdict": "clarify"}', "clarify"),
        ("{" * 5000, None),
        ("[" * 50_000, None),
        ('{"verdict": ' + "[" * 5000, None),
        ("no", None),
        ("", None),
    ],
)
def test_the_reply_of_a_model_is_read_if_it_has_one_verdict(reply, verdict):
    advice = read_reply(reply)
    assert (advice and advice.verdict) == verdict


def test_options_are_offered_if_they_are_a_few_short_lines_that_differ():
    assert Advice("clarify", ("rent ", "the\ndeposit")).labels == ("rent", "the deposit")
    for options in ((), ("rent",), ("rent", "Rent"), ("a", ""), ("a", "b" * 81), (*"abcde",)):
        assert Advice("clarify", options).labels == ()


def test_a_rewrite_is_searched_unless_it_is_the_question_or_no_question():
    assert Advice("no", rewrite=" How  is leave\nrequested? ").question_to_search("Why?") == (
        "How is leave requested?"
    )
    for rewrite in ("", "  ", "why? ", "WHY?", "x" * 401):
        assert Advice("no", rewrite=rewrite).question_to_search("Why?") == ""


@pytest.mark.parametrize(
    ("arguments", "error"),
    [(("yes",), ValueError), (("no", "ab"), TypeError), (("no", (), 3), TypeError)],
)
def test_advice_of_another_form_is_refused(arguments, error):
    with pytest.raises(error, match="expected"):
        Advice(*arguments)
