"""From labels and an advisor's opinions, thresholds are chosen that keep a promise."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit, logit

from tests.helpers import decide_on
from uec_rag import Gate
from uec_rag.gates.gate import advised_thresholds
from uec_rag.gates.labelled_search import LabelledSearch
from uec_rag.gates.opinion import Opinion
from uec_rag.gates.policy import Stamp
from uec_rag.gates.rulings import pending_on_results
from uec_rag.retrieval.results import Hit, Result, SearchResult
from uec_rag.stores.passage import Passage

YES = Opinion(0.97, unclear=0.03)
NO = Opinion(0.03, unclear=0.03, rewrite="again")
FAILED = Opinion(failure="it failed")


def found(confidence, right, underspecified=0.0):
    """What one question finds: a passage that answers it or not."""
    hit = Hit(Passage("right" if right else "wrong", "a text", {}), 1.0, 0.5, 0.0, 0.0, confidence)
    decision = decide_on(confidence, underspecified)
    at_k = np.array([confidence], dtype=np.float32)
    return Result("why?", decision, {}, np.ones(1), (hit,), at_k)


class Question(NamedTuple):
    """What is found for a question, what an advisor says of it, and what its rewrite finds."""

    found: Result
    said: Opinion
    again: Result | None = None


def searched_for(questions):
    result, relevant = SearchResult([one.found for one in questions]), [frozenset(["right"])]
    return LabelledSearch(result, relevant * len(questions), 1, lambda _: result, Stamp())


def thresholds(questions, share, **options):
    gate = Gate(k=1, advisor=lambda *_: None, is_advised=True, **options)
    again = {row: one.again for row, one in enumerate(questions) if one.again is not None}
    said = [one.said for one in questions]
    return advised_thresholds(gate, searched_for(questions), said, again, share)


def decided(gate, questions):
    """Which questions a gate answers, and which of them wrongly."""
    searched, known = searched_for(questions), iter(())

    def again(rewrites):
        return SearchResult([next(known) for _ in rewrites])

    pending = pending_on_results(gate, searched.result, searched.result.queries, again)
    rows = [questions[row] for row in pending.rows]
    known = iter([one.again for one in rows if one.said.rewrite])
    settled = pending.settle([one.said for one in rows])
    answered = np.array([decision.action == "answer" for decision, _ in settled])
    return answered, answered & ~searched.are_right(one for _, one in settled)


class Advisor(NamedTuple):
    """How often one says yes of what is right and of what is wrong, and where it fails."""

    right: float
    wrong: float
    fails: Callable[[np.ndarray, np.ndarray], np.ndarray | float] = lambda confidence, right: 0.0


ADVISORS = {
    "good": Advisor(0.95, 0.05),
    "tells nothing": Advisor(0.5, 0.5),
    "inverse": Advisor(0.1, 0.9),
    "always yes": Advisor(1.0, 1.0),
    "fails at random": Advisor(0.95, 0.05, lambda confidence, right: 0.4),
    "fails on wrong ones": Advisor(0.95, 0.05, lambda confidence, right: 0.8 * ~right),
    "fails on confident ones": Advisor(0.95, 0.05, lambda confidence, right: confidence > 0.8),
    "always fails": Advisor(0.5, 0.5, lambda confidence, right: 1.0),
}


def asked(rng, count, advisor, share=0.66, *, gives_probabilities=False):
    """Questions of which a share is right, and what an advisor says of them."""
    right = rng.random(count) < share
    confidence = expit(np.where(right, 2.2, 0.0) + 1.3 * rng.normal(size=count))
    says_yes = rng.random(count) < np.where(right, advisor.right, advisor.wrong)
    fails = rng.random(count) < advisor.fails(confidence, right)
    is_right = rng.random(count) < 0.5
    rewritten = expit(np.where(is_right, 2.2, 0.0) + 1.3 * rng.normal(size=count))
    shares = expit(logit(np.where(says_yes, 0.9, 0.1)) + rng.normal(size=count))
    made = []
    for row in range(count):
        said = YES if says_yes[row] else NO
        if gives_probabilities:
            said = replace(Opinion(float(shares[row])), rewrite=said.rewrite)
        said = FAILED if fails[row] else said
        again = found(float(rewritten[row]), is_right[row]) if said.rewrite else None
        made.append(Question(found(float(confidence[row]), right[row]), said, again))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("gives_probabilities", [False, True])
@pytest.mark.parametrize("advisor", ADVISORS)
def test_the_promise_is_kept_with_the_advisor_and_without_it(advisor, gives_probabilities):
    rng, known = np.random.default_rng(0), ADVISORS[advisor]
    others = asked(rng, 300, known, gives_probabilities=gives_probabilities)
    wrong = []
    for _ in range(15):
        labels = asked(rng, 60, known, gives_probabilities=gives_probabilities)
        gate = thresholds(labels, 0.1)
        alone = replace(gate, advisor=None)
        wrong.append([decided(one, others)[1].mean() for one in (gate, alone)])
    mean, error = np.mean(wrong, axis=0), np.std(wrong, axis=0) / np.sqrt(15)
    assert (mean <= 0.1 + 3 * error + 3 * np.sqrt(0.09 / 300)).all()


def test_a_gate_of_too_few_labels_answers_nothing():
    known = asked(np.random.default_rng(0), 18, ADVISORS["good"])
    gate = thresholds(known, 0.05)
    assert not decided(gate, known)[0].any()
    assert not gate.guarantee.is_controlled


CASES = [
    (found(0.6, True), YES, None, 0.0, 0.5),
    (found(0.6, False), YES, None, 0.6, 0.6),  # a wrong yes
    (found(0.6, False), replace(NO, rewrite=""), None, 0.0, 0.6),  # no
    (found(0.6, False), FAILED, None, 0.6, 0.6),
    (found(0.6, False, 0.95), FAILED, None, 0.0, 0.5),  # asked back
    (found(0.91, False), replace(NO, rewrite=""), None, 0.0, 0.91),
    (found(0.6, True), NO, found(0.91, True), 0.0, 0.5),  # a right rewrite
    (found(0.6, True), NO, found(0.91, False), 0.6, 0.6),  # a wrong one
    (found(0.6, True), NO, found(0.84, False), 0.0, 0.5),
    (found(0.6, False), Opinion(0.7), None, 0.6, 0.6),  # a wrong probability
    (found(0.6, False), Opinion(0.4), None, 0.0, 0.6),
    (found(0.6, False), Opinion(unclear=0.1), None, 0.6, 0.6),  # nothing of the answer
]


@pytest.mark.parametrize(("first", "said", "again", "low", "alone"), CASES)
def test_one_wrong_answer_of_nine_sets_the_threshold(first, said, again, low, alone):
    others = [Question(found(0.5, True), YES)] * 8
    gate = thresholds([*others, Question(first, said, again)], 0.1)
    assert gate.threshold == pytest.approx(alone, abs=1e-6)
    assert gate.doubt == pytest.approx((max(0.05, low), max(0.85, alone)), abs=1e-6)
    assert gate.rewritten == pytest.approx(0.85)
    assert gate.guarantee.threshold == gate.threshold
