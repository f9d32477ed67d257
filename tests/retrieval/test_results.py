"""Records of what was found: chosen, decided again, and nobody else's."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers import decide_on
from uec_rag import UEC, Retriever
from uec_rag.questions.replies import Reading
from uec_rag.retrieval.diversity import Diversity, maximal_marginal_relevance
from uec_rag.retrieval.results import Hit, Result, SearchResult
from uec_rag.stores.passage import Passage

seeds = st.integers(0, 2**32 - 1)


def candidates(seed, count=12, dimension=5):
    rng = np.random.default_rng(seed)
    relevance = rng.uniform(-1, 1, count).astype(np.float32)
    return relevance, rng.standard_normal((count, dimension)).astype(np.float32)


@given(seeds, st.integers(1, 15), st.floats(0, 1))
@example(seed=0, k=12, lambda_mult=1.0)
def test_each_choice_is_the_best_of_those_left(seed, k, lambda_mult):
    relevance, vectors = candidates(seed)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    chosen = maximal_marginal_relevance(relevance, vectors, k, lambda_mult)
    assert len(chosen) == len(set(chosen)) == min(k, 12)
    assert chosen[0] == relevance.argmax()
    for step in range(1, len(chosen)):
        left = [i for i in range(12) if i not in chosen[:step]]
        worth = {
            i: lambda_mult * relevance[i]
            - (1 - lambda_mult) * max(unit[i] @ unit[j] for j in chosen[:step])
            for i in left
        }
        assert worth[chosen[step]] == pytest.approx(max(worth.values()), abs=1e-5)


@pytest.mark.parametrize("lambda_mult", [-0.1, 1.1, float("nan")])
def test_a_lambda_outside_0_1_is_refused(lambda_mult):
    with pytest.raises(ValueError, match="lambda_mult: expected a number from 0 to 1"):
        maximal_marginal_relevance(*candidates(0), 3, lambda_mult)
    assert Diversity() == Diversity(50, 0.5)  # half of each, unless another is chosen


def result_of(relevance, at_k, **decided):
    """Hits a, b and so on, of which the first has a copy; `decided`: what was decided."""
    hits = [
        Hit(Passage(id_, f"text {id_}"), 1.0, 0.5, 0.0, 0.0, share)
        for id_, share in zip("abcdef", relevance, strict=False)
    ]
    hits[0] = replace(hits[0], copies=(Passage("copy", "text a"),))
    hits[-1] = replace(hits[-1], copies=(Passage("other", "", {"source": "b.md"}),))
    told = decide_on(**{"confidence": at_k[-1]} | decided)
    return Result("why?", told, {}, np.ones(1), tuple(hits), np.float32(at_k))


def test_a_copy_stands_for_its_hit_and_may_be_a_hit_after_it_or_after_all():
    result = result_of([0.6, 0.3], [0.6, 0.8])
    assert result.merge_copies({"copy", "x"}) == {"a", "x"}
    assert result.merge_copies({"b"}) == {"b"}
    assert (result.finds({"copy"}), result.finds({"x"})) == ([True, False], [False, False])
    assert result.with_copies(9).ids == ["a", "copy", "b", "other"]
    assert result.with_copies(9, last=True).ids == ["a", "b", "copy", "other"]
    assert result.with_copies(2).ids == ["a", "copy"]


def test_of_some_hits_confidence_is_at_most_their_sum_and_decided_on_at_one_half():
    result = result_of([0.6, 0.3, 0.2, 0.1, 0.1], [0.6, 0.8, 0.9, 0.95, 0.95])
    for chosen, confidence, action in (
        ([0], 0.6, "answer"),
        ([1, 2], 0.5, "abstain"),
        ([2, 0], 0.8, "answer"),
        ([4, 3], 0.2, "abstain"),
        ([], 0.95, "answer"),
    ):
        some = result.select(chosen)
        assert some.ids == ["abcde"[at] for at in chosen]
        assert some.decision.confidence == pytest.approx(confidence)
        assert some.decision.action == action
    assert result.select([2, 0]).confidence_at_k == pytest.approx([0.2, 0.8])


def test_the_hit_that_an_advisor_names_is_first_with_the_highest_relevance():
    result = result_of([0.6, 0.3, 0.2], [0.6, 0.8, 0.9])
    assert result.with_first(2).ids == ["c", "a", "b"]
    assert result.with_first(2).relevance == pytest.approx([0.6, 0.6, 0.3])
    assert result.with_first(0) is result.with_first(3) is result


def test_relevance_follows_a_confidence_that_an_advisor_changed():
    result = result_of([0.6, 0.3, 0.2], [0.6, 0.8, 0.9], confidence=0.45)
    half = result.scaled(0.5)
    assert half.relevance == pytest.approx([0.3, 0.15, 0.1])
    assert half.confidence_at_k == pytest.approx([0.3, 0.4, 0.45])
    low = result.scaled(0.1)
    assert low.relevance == pytest.approx([0.4, 0.03, 0.02])  # whose sum is the confidence
    assert result.scaled(1) is result
    assert SearchResult([result]).in_corpus.dtype == np.float32


def test_a_hit_says_which_reading_it_is_of():
    two = (Reading("printers", ("a",), 0.5), Reading("scanners", ("c",), 0.4))
    result = result_of([0.6, 0.3, 0.2], [0.9], underspecified=0.9, readings=two)
    told = [result.metadata(rank)["uec_reading"] for rank in range(3)]
    assert told == ["printers", "", "scanners"]
    sources = [result.metadata(rank, details=True).get("uec_sources") for rank in range(3)]
    assert sources == [["copy"], None, ["b.md"]]


def test_who_changes_the_metadata_of_a_hit_changes_no_result():
    index = Retriever(UEC(["bm25"]), fit=False)
    index.add(["camera loan"] * 2, ["a", "copy"])
    [result] = index.search(["camera loan"])
    expected = deepcopy([hit.encoders for hit in result.with_copies(2).hits])
    metadata = result.with_copies(2).metadata(0, details=True)
    metadata["uec_encoders"]["bm25"]["share"] = "changed"
    metadata["uec_matched_terms"].clear()
    assert [hit.encoders for hit in result.with_copies(2).hits] == expected
    assert {*result.hits[0].matched_terms} == {"camera", "loan"}
