"""Calibrating on one's own corpus, with labels."""

import re

import numpy as np
import pytest

from tests.helpers import (
    WORDS,
    Counting,
    assert_same_bits,
    assert_same_result,
    index_of,
    labelled,
    passages,
    rightness,
)
from uec_rag import UEC, Retriever
from uec_rag.confidence.model import JUDGED
from uec_rag.gates.labelled_search import FEWEST

pytestmark = pytest.mark.slow

IDS = [f"p{i}" for i in range(150)]


@pytest.fixture(scope="module")
def own_texts():
    """A corpus that nothing was fitted on."""
    return passages(150, seed=5)


@pytest.fixture
def own(fitted, own_texts):
    return index_of(fitted, own_texts, IDS)


def calibration_error(probability, right, bins=10):
    """ECE over bins of as many."""
    order = np.argsort(probability)
    chunks = np.array_split(order, bins)
    gaps = [abs(probability[c].mean() - right[c].mean()) * len(c) for c in chunks]
    return sum(gaps) / len(order)


def same_order(before, after):
    """Nothing that was strictly apart has changed places."""
    order = np.argsort(before, kind="stable")
    return (np.diff(after[order]) >= -1e-6).all()


@pytest.fixture(scope="module")
def judged(fitted, own_texts):
    """Searches for other questions before and after calibrating, and which hits are right."""
    index = index_of(fitted, own_texts)
    queries, relevant = labelled(own_texts, 1500, seed=1, unanswerable_rate=0.3)
    before = index.search(queries, 10)
    index.calibrate(*labelled(own_texts, 400, seed=2, unanswerable_rate=0.3))
    return before, index.search(queries, 10), rightness(before, relevant)


def test_on_other_queries_probabilities_are_nearer_the_truth_and_the_order_is_kept(judged):
    before, after, right = judged
    assert after.ids == before.ids
    of_judged = right[:, :JUDGED].any(axis=1)
    for name, truth in (("confidence", of_judged), ("relevance", right.ravel())):
        old, new = getattr(before, name).ravel(), getattr(after, name).ravel()
        error = calibration_error(new, truth)
        assert error < calibration_error(old, truth)
        assert error < 0.06
    assert same_order(before.in_corpus, after.in_corpus)


def test_the_first_hit_and_confidence_at_every_number_of_hits_are_right_as_often_as_said(judged):
    _, after, right = judged
    assert calibration_error(after.relevance[:, 0], right[:, 0]) < 0.06
    for k in (1, 4, 10):
        assert calibration_error(after.confidence_at_k[:, k - 1], right[:, :k].any(axis=1)) < 0.06


def test_an_ensemble_that_was_never_fitted_is_calibrated_too(encoders, own_texts):
    retriever = index_of(UEC(encoders), own_texts, IDS)
    retriever.calibrate(*labelled(own_texts, 400, seed=2, unanswerable_rate=0.3))
    queries, relevant = labelled(own_texts, 1000, seed=1, unanswerable_rate=0.3)
    result = retriever.search(queries, 10)
    right = rightness(result, relevant)
    assert calibration_error(result.confidence_at_k[:, 9], right.any(axis=1)) < 0.08
    assert calibration_error(result.relevance.ravel(), right.ravel()) < 0.03
    assert len({decision.action for decision in result.decisions}) > 1


def test_the_more_queries_have_no_answer_the_lower_is_confidence(own, own_texts):
    asked, (queries, _) = labelled(own_texts, 200), labelled(own_texts, 100, seed=1)
    means = []
    for share in (0.0, 0.3, 0.7):
        own.calibrate(*asked, unanswerable_rate=share)
        means.append(own.search(queries).confidence.mean())
    assert means[0] > means[1] > means[2]


def test_where_labels_say_what_is_not_answered_nothing_is_hidden(own, own_texts):
    asked, (queries, _) = (
        labelled(own_texts, 200, unanswerable_rate=0.2),
        labelled(own_texts, 50, seed=1),
    )
    results = []
    for share in (0.0, 0.7):
        own.calibrate(*asked, unanswerable_rate=share)
        results.append(own.search(queries))
    assert_same_bits(*results)


def test_the_report_says_what_was_calibrated_on(own, own_texts, encoders):
    assert "other collections and may be off on this one; with labels, calibrate" in own.report
    own.calibrate(*labelled(own_texts, 60), k=5)
    assert own.report.startswith(
        "Calibrated on 60 labelled queries: relevance and confidence, for the first 5 hits. 10% of "
        "the questions are assumed to be unanswerable."
    )
    assert "so confidence is unreliable" in Retriever(UEC(encoders)).report


ASKED = [f"badero {word}" for word in WORDS[:FEWEST]]
RELEVANT = [["p1"]] * FEWEST


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"unanswerable_rate": 1.0}, ValueError, "unanswerable_rate: expected a share"),
        ({"unanswerable_rate": -0.1}, ValueError, "unanswerable_rate: expected a share in [0, 1)"),
        ({"k": 0}, ValueError, "k: expected an integer >= 1, got 0"),
        ({"relevant_ids": [["?"]] * FEWEST}, ValueError, "1 of 1 ids are not in the index"),
        ({"relevant_ids": [[]] * FEWEST}, ValueError, "no query has a relevant passage"),
        ({"relevant_ids": ["p1"] * FEWEST}, TypeError, "relevant_ids[0]: expected a list"),
        ({"relevant_ids": RELEVANT[1:]}, ValueError, "relevant_ids: expected 20 collections"),
        ({"queries": "badero"}, TypeError, "queries: expected a list of strings, got one string"),
        (
            {"queries": ASKED[1:], "relevant_ids": RELEVANT[1:]},
            ValueError,
            "queries: expected at least 20 to calibrate on, got 19",
        ),
    ],
)
def test_bad_labels_are_refused_before_anything_is_encoded(
    fit_pairs, own_texts, arguments, error, message
):
    encoder = Counting()
    retriever = index_of(
        UEC([encoder], coefficients="uniform").fit(fit_pairs), own_texts[:5], IDS[:5]
    )
    before = encoder.count
    with pytest.raises(error, match=re.escape(message)):
        retriever.calibrate(**({"queries": ASKED, "relevant_ids": RELEVANT} | arguments))
    assert encoder.count == before
    assert retriever.calibration is None


def test_it_is_saved_with_the_index(own, own_texts, fitted, queries, tmp_path):
    own.calibrate(*labelled(own_texts, 60)).save(tmp_path / "index")
    loaded = Retriever.load(tmp_path / "index", fitted)
    assert (loaded.calibration, loaded.report) == (own.calibration, own.report)
    assert_same_result(loaded.search(queries), own.search(queries))


def test_the_fingerprint_is_of_ids_and_texts_in_any_order(fitted):
    def of(texts, ids):
        return index_of(fitted, texts, ids).store.corpus()

    first = of(["badero", "golugo", "mapifi"], [*"abc"])
    assert first == of(["mapifi", "golugo", "badero"], [*"cba"])
    assert first != of(["golugo", "badero", "mapifi"], [*"abc"])
    assert first != of(["badero", "golugo", "mapifi"], [*"abd"])
