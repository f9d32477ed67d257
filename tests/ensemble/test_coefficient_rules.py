"""Rules for the coefficients: which one a space gets, and the evidence rule's way back."""

import json

import pytest

from uec_rag.ensemble.convolution import (
    FEATURES,
    Evidence,
    EvidenceWeights,
    Trace,
    Uniform,
    make_rule,
    restore_rule,
)

NAMES = ["a", "b"]


def test_by_default_evidence_counts_in_the_direct_sum_and_the_trace_in_a_shared_space():
    assert make_rule(None, NAMES, 2.0, "direct") == make_rule(None, NAMES, 2.0) == Evidence()
    assert make_rule(None, NAMES, 2.0, "shared") == Trace(2.0)


@pytest.mark.parametrize("spec", ["evidence", Evidence()])
def test_a_shared_space_has_no_evidence(spec):
    with pytest.raises(
        ValueError,
        match=r"^coefficients: 'evidence' needs .*; use space='direct', or coefficients='trace'\.$",
    ):
        make_rule(spec, NAMES, 1.5, "shared")
    assert make_rule("uniform", NAMES, 1.5, "shared") == Uniform()


@pytest.mark.parametrize("fitted", [True, False])
def test_the_evidence_rule_comes_back_with_its_weights(fitted):
    weights = EvidenceWeights(
        weights=(-0.1, -0.2, 0.3, 0.4, -0.5, -0.6),
        location=(0.0,) * len(FEATURES),
        spread=(1.0,) * len(FEATURES),
        prior=(0.1, -0.1),
    )
    rule = Evidence(weights if fitted else None)
    assert restore_rule(json.loads(json.dumps(rule.metadata()))) == rule


@pytest.mark.parametrize("spec", [3, 2.5])
def test_what_is_no_rule_at_all_is_refused(spec):
    with pytest.raises(TypeError, match="coefficients: expected"):
        make_rule(spec, NAMES, 1.5)
