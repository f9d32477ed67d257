import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.metrics import precision_recall_curve

from tests.helpers import data_of
from uec_rag.confidence.risk import (
    Guarantee,
    conformal_threshold,
    expected_threshold,
    lowest_threshold,
    queries_needed,
    reliability,
    risk_curve,
    risk_threshold,
)


@pytest.mark.parametrize("delta", [1e-5, 0.01, 0.1])
@pytest.mark.parametrize("risk", [0.02, 0.1, 0.3, 0.6, 0.99])
def test_what_is_said_to_be_needed_is_enough_and_one_less_is_not(risk, delta):
    needed = queries_needed(risk, delta)
    for count in range(max(1, needed - 40), needed + 40):
        found = risk_threshold(np.arange(count), np.ones(count), risk, delta)
        assert (found.answered == count) == (count >= needed)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.booleans() | st.just(True)), min_size=1, max_size=99),
    st.integers(1, 4),
    st.lists(st.floats(0.01, 0.95), min_size=2, max_size=5),
)
@example([(place, place != 50) for place in range(70)], 1, [0.15, 0.2])
def test_more_allowed_risk_and_less_certainty_never_answer_fewer(rows, times, shares):
    """In whatever order right and wrong answers come, and however many confidences are equal."""
    confidence, right = np.array(rows * times, dtype=float).T
    shares = sorted(shares)
    for answered in (
        [risk_threshold(confidence, right, share).answered for share in shares],
        [risk_threshold(confidence, right, 0.2, share).answered for share in shares],
        [conformal_threshold(confidence, 1 - right, share).answered for share in shares],
    ):
        assert answered == sorted(answered)


@pytest.mark.parametrize(
    ("make", "options", "needed", "target"),
    [
        (risk_threshold, {}, 59, "at most 5.0% wrong answers with 95% certainty"),
        (conformal_threshold, {"share": 0.05}, 19, "at most 5.0% of all questions answered wro"),
    ],
)
def test_too_few_labels_answer_nothing_and_say_how_many_it_takes(make, options, needed, target):
    label = make is risk_threshold  # of a right answer, or of a harmful one
    few, enough = (
        make(np.linspace(0.2, 1, count), np.full(count, label), **options)
        for count in (needed - 1, needed)
    )
    assert math.isinf(few.threshold)
    assert not few.is_controlled
    assert f"{needed - 1} calibration questions, of which it takes at least {needed}." in few.report
    assert (enough.answered, enough.wrong) == (needed, 0)
    assert target in enough.report


@pytest.mark.parametrize(
    ("count", "ties", "wrong", "delta", "expected"),
    [
        (4, 1, [], 1 / 16, (4, 0)),  # as likely as delta
        (14, 3, [2, 13], 0.3, (14, 2)),  # the first test allows one
        (27, 3, [0, 5], 0.1, (0, 0)),  # but not two
        (12, 3, [0], 0.12, (0, 0)),  # of few labels it allows none
    ],
)
def test_at_a_risk_of_a_half(count, ties, wrong, delta, expected):
    confidence = -(np.arange(count) // ties)
    found = risk_threshold(confidence, ~np.isin(np.arange(count), wrong), 0.5, delta)
    assert (found.answered, found.wrong) == expected
    assert (confidence > found.threshold).sum() == found.answered


@pytest.mark.parametrize(("answered", "wrong", "told"), data_of("risk.json"))
def test_answers_of_which_the_labels_do_not_show_that_half_are_right_are_told(
    answered, wrong, told
):
    made = Guarantee(0.3 if answered else math.inf, 0.1, None, 60, answered, wrong, 10)
    assert (told in made.caution) if told else made.caution == ""
    if answered:
        low, high = binomtest(answered - wrong, answered).proportion_ci(method="wilson")
        share = f"({1 - wrong / answered:.0%}; 95% interval: {low:.0%} to {high:.0%})"
        assert f"{answered - wrong} right {share}, {wrong} wrong" in made.report


def test_the_counts_are_those_above_the_threshold():
    rng = np.random.default_rng(1)
    confidence = rng.random(1000).round(2)
    correct = rng.random(1000) < 0.5 + confidence / 2
    found = risk_threshold(confidence, correct, risk=0.2)
    above = confidence > found.threshold
    assert (found.answered, found.wrong) == (above.sum(), (~correct[above]).sum())
    assert 0.1 < above.mean() < 0.9


@pytest.mark.parametrize(
    "chance",
    [
        np.full(200, 0.101),
        np.r_[np.full(40, 0.2), np.full(160, 0.0763)],
        np.r_[np.zeros(100), np.full(100, 0.21)],
        np.linspace(0.202, 0.0, 200),
    ],
    ids=["no order", "worst first", "best first", "order reversed"],
)
def test_whatever_the_order_a_risk_above_the_target_is_rarely_answered(chance):
    rng = np.random.default_rng(0)
    risk = np.cumsum(chance) / np.arange(1, 201)
    over = 0
    for _ in range(400):
        found = risk_threshold(-np.arange(200), rng.random(200) >= chance, risk=0.1, delta=0.1)
        assert (found.risk, found.delta) == (0.1, 0.1)
        over += found.answered > 0 and risk[found.answered - 1] > 0.1
    # 40 expected at worst; 60 is beyond the 99.9th percentile of a binomial(400, 0.1).
    assert over < 60


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 4))
def test_an_increasing_transformation_changes_no_decision(seed, power):
    rng = np.random.default_rng(seed)
    confidence = rng.integers(1, 50, 200) / 50
    correct = rng.random(200) < confidence**0.2
    plain = risk_threshold(confidence, correct, risk=0.2)
    bent = risk_threshold(confidence**power, correct, risk=0.2)
    assert plain.answered == bent.answered
    assert ((confidence > plain.threshold) == (confidence**power > bent.threshold)).all()


@pytest.mark.parametrize("make", [risk_threshold, conformal_threshold])
@pytest.mark.parametrize("size", [5, 200])
def test_saved_and_restored(make, size):
    found = make(np.linspace(0, 1, size), np.ones(size, bool))
    text = json.dumps(found.metadata(), allow_nan=False)
    assert Guarantee.restore(json.loads(text)) == found
    with pytest.raises(ValueError, match="threshold"):
        Guarantee.restore({k: v for k, v in json.loads(text).items() if k != "threshold"})


@pytest.mark.parametrize("make", [risk_threshold, conformal_threshold])
@pytest.mark.parametrize(
    ("score", "labels", "message"),
    [([], [], "at least one"), ([0.1, 0.2], [True], "as many labels"), ([np.nan], [True], "NaN")],
)
def test_bad_input_is_named(make, score, labels, message):
    name = "confidence" if make is risk_threshold else "score"
    with pytest.raises(ValueError, match=f"^{name}: .*{message}"):
        make(score, labels)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
@pytest.mark.parametrize(
    ("make", "name"),
    [(risk_threshold, "risk"), (risk_threshold, "delta"), (conformal_threshold, "share")],
)
def test_targets_outside_0_1_are_refused(make, name, share):
    with pytest.raises(ValueError, match=rf"{name}: expected a number in \(0, 1\)"):
        make([0.5], [True], **{name: share})


def test_reliability_has_ten_bins_of_as_many_each_with_wilsons_intervals():
    rng = np.random.default_rng(0)
    sure = rng.random(1003)
    right = rng.random(1003) < sure
    bins = reliability(sure, right)
    count, mean, share, low, high = np.array([[*one.values()] for one in bins]).T
    assert sorted(count) == [100] * 7 + [101] * 3
    assert count @ share == pytest.approx(right.sum())
    assert count @ mean == pytest.approx(sure.sum())
    assert ((low < share) & (share < high)).all()
    assert reliability([], []) == []


def test_reliability_of_one_question():
    wrong = {"count": 1, "confidence": 0.2, "right": 0.0, "low": 0.0, "high": 0.793451}
    assert reliability([0.2], [False]) == [pytest.approx(wrong, abs=1e-6)]


TIED = [
    ([0.5] * 12, [True] * 6 + [False] * 6),
    ([0.9] * 3 + [0.5] * 6 + [0.1], [True, True, False] + [True, False] * 3 + [False]),
    ([0.2] * 40 + [0.7] * 25 + [0.95] * 35, ([True, False, False] * 34)[:100]),
]


@pytest.mark.parametrize(("sure", "right"), TIED)
def test_bins_and_curves_of_ties_are_those_of_scikit_learn_in_any_order(sure, right):
    rng = np.random.default_rng(0)
    orders = [np.argsort(right, kind="stable"), np.argsort(np.invert(right), kind="stable")]
    for order in [*orders, rng.permutation(len(sure))]:
        shown, known = np.array(sure)[order], np.array(right)[order]
        shares, means = calibration_curve(known, shown, n_bins=10, strategy="quantile")
        bins = reliability(shown, known)
        assert [one["right"] for one in bins] == pytest.approx(shares)
        assert [one["confidence"] for one in bins] == pytest.approx(means)
        precision, _, thresholds = precision_recall_curve(known, shown, drop_intermediate=False)
        count, wrong = risk_curve(shown, known)
        assert (1 - wrong[::-1]).tolist() == pytest.approx(precision[:-1].tolist())
        assert count[::-1].tolist() == [int((shown >= one).sum()) for one in thresholds]


@pytest.mark.parametrize(("sure", "right"), TIED)
@pytest.mark.parametrize("threshold_of", [risk_threshold, conformal_threshold])
def test_thresholds_of_ties_do_not_depend_on_the_order(sure, right, threshold_of):
    rng = np.random.default_rng(0)
    orders = [np.arange(len(sure)), *(rng.permutation(len(sure)) for _ in range(5))]
    found = {threshold_of(np.array(sure)[some], np.array(right)[some], 0.4) for some in orders}
    assert len(found) == 1


class TestConformal:
    @given(
        st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=60),
        st.floats(0.01, 0.9),
    )
    def test_it_is_the_lowest_of_all_thresholds_that_keep_the_inequality(self, rows, share):
        score = np.array([score / 20 for score, _ in rows])
        harmful = np.array([harm for _, harm in rows])
        found, n = conformal_threshold(score, harmful, share), len(rows)

        def keeps(threshold):
            bad = (harmful & (score > threshold)).mean()
            return n / (n + 1) * bad + 1 / (n + 1) <= share + 1e-9

        every = [np.nextafter(score.min(), -1), *score]
        lowest = min((one for one in every if keeps(one)), default=math.inf)
        assert found.answered == (score > lowest).sum()
        assert (found.threshold == math.inf) == (lowest == math.inf) == (n < found.needed)
        assert found.wrong == (harmful & (score > found.threshold)).sum()

    def test_what_is_never_above_it_counts_among_all_questions(self):
        score = np.r_[np.full(50, -np.inf), np.linspace(0, 1, 50)]
        found = conformal_threshold(score, np.ones(100, bool), 0.1)
        assert (found.queries, found.answered, found.wrong) == (100, 9, 9)
        assert math.isinf(conformal_threshold(score[:50], np.ones(50, bool)).threshold)


@pytest.mark.parametrize(
    ("harm", "share", "threshold"),
    [
        ([0.9] * 5, 0.1, 1.0),  # too few
        ([-math.inf] * 9, 0.1, 0.0),  # just enough
        ([-math.inf] * 8, 0.1, 1.0),
        ([0.9] * 20, 0.9, 0.9),
        ([0.9] * 2 + [-math.inf] * 18, 0.15, 0.0),  # all that is harmful is allowed
        ([0.9, 0.8, 0.7] + [-math.inf] * 17, 0.1, 0.8),
    ],
)
def test_the_lowest_threshold_of_harm_is_from_0_to_1(harm, share, threshold):
    assert lowest_threshold(np.array(harm), share)[0] == threshold


def test_fewer_wrong_answers_take_a_higher_threshold():
    thresholds = [expected_threshold(share) for share in np.linspace(0.001, 0.3, 50)]
    assert np.all(np.diff(thresholds) <= 0)
    assert thresholds[0] > 0.97
    assert expected_threshold(0.0) == 1.0
    assert expected_threshold(0.1) == pytest.approx(0.829)
