import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import nDCG

from benchmarks.paper.systems import baselines


@pytest.mark.parametrize(("count", "size"), [(1, 1), (2, 11), (3, 66), (4, 286)])
def test_the_grid_covers_the_simplex_in_tenths(count, size):
    grid = baselines.simplex_grid(count)
    assert grid.shape == (size, count)
    assert len({tuple(row) for row in grid}) == size
    assert np.allclose(grid.sum(axis=1), 1)
    assert grid.min() >= 0
    assert np.allclose(grid * 10, np.round(grid * 10))


def test_the_best_weights_maximise_the_score():
    target = np.array([0.2, 0.5, 0.3])
    found = baselines.best_weights(lambda weights: -float(((weights - target) ** 2).sum()), 3)
    assert np.allclose(found, target)


def test_of_equally_good_weights_the_nearest_to_uniform_are_taken():
    found = baselines.best_weights(lambda weights: float(weights[0] >= 0.2), 2)
    assert np.allclose(found, [0.5, 0.5])


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_ndcg_is_that_of_trec_eval(seed, ties):
    rng = np.random.default_rng(seed)
    similarity = rng.normal(size=(4, 30)).astype(np.float32)
    if ties:
        similarity = np.round(similarity)
    relevant = [
        {int(p): float(g) for p, g in zip(rng.choice(30, size), rng.integers(1, 4, size))}  # noqa: B905
        for size in rng.integers(1, 15, 4)
    ]
    order = np.argsort(-similarity, axis=1, kind="stable")
    run = [
        ir_measures.ScoredDoc(str(q), str(p), -float(rank))
        for q, row in enumerate(order)
        for rank, p in enumerate(row)
    ]
    qrels = [
        ir_measures.Qrel(str(q), str(p), int(g))
        for q, gains in enumerate(relevant)
        for p, g in gains.items()
    ]
    expected = {m.query_id: m.value for m in ir_measures.iter_calc([nDCG @ 10], qrels, run)}
    ours = baselines.Relevance.of(relevant).ndcg(similarity)
    assert np.allclose(ours, [expected[str(q)] for q in range(4)])


def test_a_query_without_relevant_passages_scores_zero():
    ndcg = baselines.Relevance.of([{}, {1: 1.0}]).ndcg(np.eye(2, 3, dtype=np.float32))
    assert np.allclose(ndcg, [0, 1])


def test_retrieval_weights_follow_the_encoder_that_finds_the_answers():
    rng = np.random.default_rng(0)
    good = np.eye(50, dtype=np.float32)
    noise = [rng.normal(size=(50, 50)).astype(np.float32) for _ in range(2)]
    relevance = baselines.Relevance.of([{i: 1.0} for i in range(50)])
    systems = [noise[0], good, noise[1]]

    def quality(weights):
        return float(relevance.ndcg(baselines.weighted_sum(systems, weights)).mean())

    found = baselines.best_weights(quality, 3)
    assert found.argmax() == 1
    assert quality(found) == pytest.approx(1.0)


def test_all_weight_on_one_encoder_gives_its_own_similarity():
    rng = np.random.default_rng(0)
    queries, passages = (
        [x / np.linalg.norm(x, axis=1, keepdims=True) for x in rng.normal(size=(2, n, 5))]
        for n in (3, 4)
    )
    own = [q @ c.T for q, c in zip(queries, passages, strict=True)]
    weights = np.array([0.0, 1.0])
    assert np.allclose(baselines.shared_similarity(queries, passages, weights), own[1], atol=1e-6)
    assert np.allclose(baselines.weighted_sum(own, weights), own[1], atol=1e-6)
