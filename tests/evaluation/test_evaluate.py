"""An index is measured with labelled questions, beside plainer searches of it."""

import numpy as np
import pytest

from tests.helpers import Remembering, index_of, labelled, rightness, unit
from uec_rag import UEC
from uec_rag.confidence.decision import CLARIFY_FROM
from uec_rag.evaluation.evaluate import evaluate, search_by_each_member


@pytest.fixture(scope="module")
def labels(texts):
    queries, relevant = labelled(texts, 120, seed=3, unanswerable_rate=0.2)
    return dict(zip(queries, relevant, strict=True))


@pytest.fixture(scope="module")
def found(full, labels):
    return evaluate(full, labels, k=4)


def test_metrics_are_those_of_the_hits_by_hand(found, full, labels):
    result = full.search(list(labels), 100)  # of fewer, readings that are offered take places
    rows = [row for row, ids in enumerate(labels.values()) if ids]
    wanted = list(labels.values())
    ranks = [[id_ in wanted[row] for id_ in result.ids[row][:4]] for row in rows]
    recall = np.mean([sum(hits) / len(wanted[row]) for row, hits in zip(rows, ranks, strict=True)])
    reciprocal = np.mean(
        [next((1 / n for n, hit in enumerate(hits, 1) if hit), 0) for hits in ranks]
    )
    assert found["systems"]["ensemble"]["R@4"][0] == pytest.approx(recall)
    assert found["systems"]["ensemble"]["RR@4"][0] == pytest.approx(reciprocal)
    assert found["systems"].keys() == {"ensemble", *full.uec.names}
    for of in found["systems"].values():
        assert all(low <= mean <= high for mean, low, high in of.values())
    assert found["facts"]["questions"] == len(labels)
    assert found["facts"]["answerable"] == len(rows)


def test_confidence_is_measured(found, full, labels):
    result = full.search(list(labels), 100)
    kept = np.array([decision.action != "clarify" for decision in result.decisions])
    sure = result.confidence[kept]
    right = rightness(result, labels.values())[:, :4].any(axis=1)[kept]
    level = found["confidence"]["level"][0]
    assert level == pytest.approx(np.mean(sure) - np.mean(right), abs=1e-6)
    assert sum(one["count"] for one in found["confidence"]["reliability"]) == kept.sum()


def test_questions_that_are_asked_back_are_counted_but_not_in_confidence(chat_index):
    labels = {"What is the force option?": [], "Who repairs the door opener?": ["door opener"]}
    found = evaluate(chat_index, labels)
    assert (found["facts"]["questions"], found["facts"]["asked_back"]) == (2, 1)
    [bin_] = found["confidence"]["reliability"]
    decisions = chat_index.search([*labels]).decisions
    [kept] = [one for one in decisions if one.action == "answer"]
    assert bin_["confidence"] == pytest.approx(kept.confidence)


@pytest.mark.parametrize("labels", [{}, {"what": []}])
def test_without_an_answer_nothing_is_measured(full, labels):
    with pytest.raises(ValueError, match="questions: expected some with an answer"):
        evaluate(full, labels)


@pytest.mark.slow
def test_each_question_is_encoded_once(fit_pairs, texts, labels):
    encoder = Remembering(64, "fine")
    index = index_of(UEC([encoder]).fit(fit_pairs), texts)
    encoder.texts.clear()
    evaluate(index, labels, k=4)
    assert encoder.texts == [*labels]


def test_a_member_alone_orders_by_its_own_cosine_whatever_the_variance(full, queries, texts):
    found = search_by_each_member(full, queries, 5)
    parts, stored = full.uec.encode(queries, "query"), full.uec.encode(texts, "passage")
    assert [*found] == full.uec.names
    for ranking, asked, own in zip(found.values(), parts, stored, strict=True):
        order = np.argsort(-(unit(asked.mean) @ unit(own.mean).T), axis=1, kind="stable")
        # Of an ambiguous question, a passage of each reading is among the hits.
        told = [one.underspecified for one in ranking.decisions]
        clear = [row for row, unsaid in enumerate(told) if unsaid < CLARIFY_FROM]
        assert len(clear) > len(queries) / 4
        assert [ranking.ids[row] for row in clear] == [
            [f"p{i}" for i in row] for row in order[clear, :5]
        ]
