from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import check_grad

from uec_rag.ensemble.convolution import FEATURES, corpus_evidence
from uec_rag.ensemble.fit import FitCorpus, _loss, corpus_views, fit_evidence_weights

SLOPES, INTERCEPTS = [25.0, 25.0], [-11.0, -11.0]


def fit_set(seed=0, queries=120, passages=400, foreign=0.0):
    """Two encoders; on a share of the queries, one or the other finds all passages alike."""
    rng = np.random.default_rng(seed)
    gold = rng.permutation(passages)[:queries]
    similarities = rng.normal(0.05, 0.08, (2, queries, passages))
    similarities[:, np.arange(queries), gold] += 0.35
    lost = rng.random(queries) < foreign
    who = rng.integers(0, 2, queries)
    for k in range(2):
        rows = np.flatnonzero(lost & (who == k))
        # High everywhere, and wrong about the order.
        similarities[k, rows] = rng.normal(0.5, 0.12, (len(rows), passages))
    return FitCorpus(similarities.astype(np.float32), [[int(g)] for g in gold], [], None)


def learned(corpus, **options):
    """What is learned of a set."""
    count = len(corpus.similarities)
    return fit_evidence_weights(corpus, SLOPES[:count], INTERCEPTS[:count], **options)


def evidence_of(corpus):
    return corpus_evidence(corpus.similarities, SLOPES, INTERCEPTS)


def accuracy(corpus, coefficients):
    logits = [a * s + b for a, s, b in zip(SLOPES, corpus.similarities, INTERCEPTS, strict=True)]
    best = np.einsum("nk,knc->nc", coefficients, logits).argmax(axis=1)
    return np.mean([top in r for top, r in zip(best, corpus.relevant, strict=True)])


def test_a_gate_learns_to_leave_out_the_encoder_that_is_lost():
    fresh = fit_set(seed=1, foreign=0.6)
    coefficients = learned(fit_set(foreign=0.6)).coefficients(evidence_of(fresh))
    uniform = np.full_like(coefficients, 0.5)
    assert accuracy(fresh, coefficients) > accuracy(fresh, uniform) + 0.2


def test_equally_good_encoders_keep_about_equal_weights():
    coefficients = learned(fit_set()).coefficients(evidence_of(fit_set()))
    assert np.abs(coefficients.mean(axis=0) - 0.5).max() < 0.1


def test_trouble_never_earns_weight():
    weight = dict(zip(FEATURES, learned(fit_set(foreign=0.5)).weights, strict=True))
    assert max(weight["entropy"], weight["base"]) <= 0
    assert min(weight["gap"], weight["top"]) >= 0


def test_a_prior_is_learned_of_an_encoder_that_knows_nothing():
    corpus = fit_set()
    random = np.random.default_rng(5).normal(0.05, 0.08, corpus.similarities[1].shape)
    corpus.similarities[1] = random
    prior = learned(corpus).prior
    assert prior[0] > prior[1] + 0.1


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    relevant = np.zeros((6, 9), bool)
    relevant[np.arange(6), rng.integers(0, 9, 6)] = True
    relevant[0, :2] = True
    view = rng.normal(0, 1, (3, 6, 9)), rng.normal(0, 1, (6, 3, len(FEATURES))), relevant
    at = rng.normal(0, 0.5, len(FEATURES) + 1 + 3)
    error = check_grad(lambda x: _loss(x, *view)[0], lambda x: _loss(x, *view)[1], at, epsilon=1e-4)
    assert error < 0.02 * np.linalg.norm(_loss(at, *view)[1])


def test_views_hold_every_relevant_passage_of_their_queries():
    relevant = [[i, (i + 1) % 50] for i in range(50)]
    small, large = corpus_views(relevant, 300, sizes=(20, 1000), queries=10)
    assert len(small.queries) == 10
    assert len(large.passages) == 300
    for view in (small, large):
        for row, query in enumerate(view.queries):
            found = view.passages[view.relevant[row]]
            assert sorted(found) == sorted(relevant[query])
    assert 20 + 11 <= len(small.passages) <= 20 + 20


@pytest.mark.parametrize(
    ("relevant", "most"),
    [
        ([[row] for row in range(40)], 0.2),
        ([[row // 10] for row in range(300)], 0.24),  # ten questions share an answer
        ([[row, (row + 1) % 200] for row in range(200)], 0.22),  # until both are gone
    ],
)
def test_about_the_share_asked_for_has_no_answer_left(relevant, most):
    [view] = corpus_views(relevant, 600, sizes=(400,), unanswerable=0.2, seed=3)
    assert 0.2 <= (~view.relevant.any(axis=1)).mean() <= most


def test_deviation_counts_only_where_other_corpora_say_what_it_means():
    other = fit_set(seed=1, foreign=0.5)
    # There the second is as sure, of passages that answer nothing.
    sure = replace(other, similarities=[other.similarities[0], 2 * other.similarities[1][:, ::-1]])
    alone, together = (
        dict(zip(FEATURES, learned(fit_set(foreign=0.5), extras=others).weights, strict=True))
        for others in ((), [sure])
    )
    assert alone["deviation"] == 0
    assert together["deviation"] < 0
