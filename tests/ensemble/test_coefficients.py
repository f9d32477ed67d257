import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import random_gaussian
from uec_rag import Gaussian
from uec_rag.ensemble.coefficients import (
    Evidence,
    Fixed,
    StandardisedTrace,
    Trace,
    Uniform,
    make_rule,
    restore_rule,
    softmax,
)
from uec_rag.ensemble.fitted import Fitted

NAMES = ["a", "b", "c"]


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    return [random_gaussian(rng, 5, d, 1) for d in (4, 6, 4)]


@pytest.mark.parametrize("rule", [Uniform(), Fixed((1.0, 2.0, 5.0)), Trace(), Trace(0.01)])
def test_every_rule_gives_convex_weights_per_text(parts, rule):
    pi = rule(parts)
    assert pi.shape == (5, 3)
    assert pi.dtype == np.float32
    assert (pi >= 0).all()
    np.testing.assert_allclose(pi.sum(axis=1), 1, rtol=1e-6)


def test_the_trace_rule_is_equation_4(parts):
    traces = np.stack([p.variance.sum(axis=1) for p in parts], axis=1).astype(np.float64)
    exponential = np.exp(-traces / 1.5)
    np.testing.assert_allclose(
        Trace(1.5)(parts), exponential / exponential.sum(axis=1, keepdims=True), rtol=1e-5
    )


def test_a_low_temperature_follows_the_surest_encoder_and_a_high_one_nobody(parts):
    surest = np.argmin([p.trace for p in parts], axis=0)
    cold, hot = Trace(1e-4)(parts), Trace(1e6)(parts)
    np.testing.assert_array_equal(cold.argmax(axis=1), surest)
    np.testing.assert_allclose(cold.max(axis=1), 1)
    np.testing.assert_allclose(hot, 1 / 3, rtol=1e-4)


def test_traces_of_any_size_give_finite_weights():
    parts = [Gaussian([[1.0]], [[v]]) for v in (0.0, 1e30)]
    assert Trace(1e-6)(parts).tolist() == [[1.0, 0.0]]


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=5))
def test_softmax_sums_to_1_for_logits_of_any_size(logits):
    weights = softmax(np.float32([logits]))
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-5)


@pytest.mark.parametrize("weights", [(1.0, 2.0, 5.0), (0.1, 0.2, 0.5), (1, 2, 5)])
def test_fixed_weights_are_scaled_to_sum_to_1(parts, weights):
    np.testing.assert_allclose(Fixed(weights)(parts), [[0.125, 0.25, 0.625]] * 5)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("uniform", Uniform()),
        ("trace", Trace(2.0)),
        ([1, 1, 2], Fixed((1.0, 1.0, 2.0))),
        (np.array([1.0, 1.0, 2.0]), Fixed((1.0, 1.0, 2.0))),
        ({"c": 2, "a": 1, "b": 1}, Fixed((1.0, 1.0, 2.0))),
        (Trace(9.0), Trace(9.0)),
    ],
)
def test_a_rule_is_made_of_a_name_of_weights_or_of_a_rule(spec, expected):
    assert make_rule(spec, NAMES, temperature=2.0) == expected


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mean", "coefficients: expected 'evidence', 'trace', 'uniform'"),
        ([1.0, 2.0], "coefficients: expected 3 weights, one per encoder, got 2"),
        ({"a": 1.0, "d": 2.0}, "coefficients: expected a weight for each of ['a', 'b', 'c']"),
        ([1.0, -1.0, 1.0], "coefficients: expected weights >= 0 with a positive sum"),
        ([0.0, 0.0, 0.0], "coefficients: expected weights >= 0 with a positive sum"),
        ([1.0, np.nan, 1.0], "coefficients: expected weights >= 0 with a positive sum"),
        ([1.0, 10**400, 1.0], "coefficients: expected weights >= 0 with a positive sum"),
        ([1e308, 1e308, 1.0], "with a positive sum, which a float32 must hold, got (1e+308, "),
    ],
)
def test_what_is_no_rule_is_refused(spec, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_rule(spec, NAMES, temperature=1.0)


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, np.inf, 10**400, 1e-320])
@pytest.mark.parametrize("rule", [Trace, StandardisedTrace])
def test_a_temperature_that_is_not_positive_is_refused(rule, temperature):
    with pytest.raises(ValueError, match="temperature: expected a number > 0"):
        rule(temperature)


@pytest.mark.parametrize("rule", [Trace, StandardisedTrace])
def test_a_temperature_is_kept_as_the_number_that_json_gives_back(rule):
    assert repr(rule(np.float32(2)).metadata()["temperature"]) == "2.0"


@pytest.mark.parametrize("rule", [Evidence(), StandardisedTrace()])
def test_rules_that_ask_for_more_than_the_gaussians_count_all_alike(rule, parts):
    assert not callable(rule)
    fitted = Fitted(("a", "b", "c"), "direct", rule)
    np.testing.assert_array_equal(fitted.coefficients(parts, "query"), Uniform()(parts))


@pytest.mark.parametrize("rule", [Uniform(), Fixed((1.0, 2.0, 0.7)), Trace(0.3), Trace(2)])
def test_a_rule_comes_back_from_its_metadata_in_json(rule, parts):
    restored = restore_rule(json.loads(json.dumps(rule.metadata())))
    assert restored == rule
    np.testing.assert_array_equal(restored(parts), rule(parts))


def test_metadata_of_no_rule_is_refused():
    with pytest.raises(ValueError, match="coefficients: no saved rule looks like"):
        restore_rule({"name": "trace"})


def test_the_standardised_rule_prefers_the_encoder_that_is_less_unusual():
    rule = make_rule("standardised_trace", ["a", "b"], 0.5)
    weights = rule.of(np.float32([[0.0, 1.0], [1.0, 1.0]]))
    wanted = [[1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))], [0.5, 0.5]]
    np.testing.assert_allclose(weights, wanted, rtol=1e-5)
    assert restore_rule(rule.metadata()) == rule


def test_each_trace_rule_has_a_temperature_in_a_unit_of_its_own():
    assert make_rule("trace", ["a"], None).temperature == 1.5
    assert make_rule("standardised_trace", ["a"], None).temperature == 1.0
    assert make_rule("standardised_trace", ["a"], 3).temperature == 3.0


def test_a_fixed_weight_may_be_zero_and_numpys_number():
    rule = Fixed((np.float32(0.0), np.float32(2.0)))
    assert rule([Gaussian.certain(np.eye(3, dtype=np.float32))] * 2).tolist() == [[0.0, 1.0]] * 3
    assert restore_rule(json.loads(json.dumps(rule.metadata()))) == rule
