"""Records of what was found: chosen, decided again, and nobody else's."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers import index_of
from uec_rag.retrieval.diversity import maximal_marginal_relevance

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


def test_a_hit_can_be_changed_without_changing_another_questions_or_the_store(fitted, texts):
    index = index_of(fitted, texts[:3], metadatas=[{"tags": ["a"]}] * 3)
    one, other = index.search(texts[:2], 3)
    for hit in one.passages:
        hit.metadata["tags"].append("b")
    assert [hit.metadata for hit in [*other.passages, *index.passages()]] == [{"tags": ["a"]}] * 6
