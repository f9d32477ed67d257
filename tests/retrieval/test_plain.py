import warnings

import pytest

from tests.helpers import bag_of_words
from uec_rag import UEC
from uec_rag.retrieval.plain import as_ensemble


class Wrapper:
    def __init__(self, uec):
        self.uec = uec


def ensemble_of(value, **options):
    named = {"argument": "x", "expected": "a Wrapper or a callable"}
    return as_ensemble(value, Wrapper, callable, **named, **options)


def test_an_ensemble_and_what_wraps_one_stand_for_it():
    uec = UEC([bag_of_words(8, "words")])
    assert ensemble_of(uec) is uec
    assert ensemble_of(Wrapper(uec)) is uec


def test_an_embedding_has_words_beside_it_and_does_not_warn():
    embed = bag_of_words(8, "words")
    with warnings.catch_warnings(action="error"):
        plain = ensemble_of(embed).embed(["a"])
    assert plain.variance.tolist() == [[0.0] * 8]
    assert ensemble_of(embed).fingerprint == UEC([embed, "bm25"]).fingerprint
    assert ensemble_of(embed, words=False).fingerprint == UEC([embed]).fingerprint


def test_it_may_be_fitted_after_all(fit_pairs):
    plain = ensemble_of(bag_of_words(8, "words"))
    assert not plain.is_fitted
    assert plain.fit(fit_pairs).is_fitted


def test_anything_else_is_refused():
    with pytest.raises(TypeError, match=r"^x: expected a UEC, a Wrapper or a callable, got int 7"):
        ensemble_of(7)
