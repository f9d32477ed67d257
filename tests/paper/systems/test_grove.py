import numpy as np
import pytest
import torch

from benchmarks.paper.systems.baselines import Relevance
from benchmarks.paper.systems.grove import Grove, principal_directions

DIMENSION = 24
TOPICS = 12


def texts_of(count, side, seed):
    return [f"{side} {seed + i} topic {(seed + i) % TOPICS}" for i in range(count)]


def encoder(texts):
    """Unit vectors around the topic's centre; queries and passages of a topic lie together."""
    centres = np.random.default_rng(7).normal(size=(TOPICS, DIMENSION))
    rows = []
    for text in texts:
        side, number, _, topic = text.split()
        own = np.random.default_rng([int(number), len(side)]).normal(size=DIMENSION)
        rows.append(centres[int(topic)] + 0.5 * own)
    return np.array(rows)


def pairs(count=240, seed=0):
    return list(zip(texts_of(count, "query", seed), texts_of(count, "passage", seed), strict=True))


@pytest.fixture(scope="module")
def fitted():
    return Grove(encoder, latent=12, inducing=32, epochs=30).fit(pairs())


def ndcg(grove, means="process"):
    queries, passages = texts_of(36, "query", 5000), texts_of(36, "passage", 5000)
    grove.means = means
    q, c = grove.embed(queries, "query"), grove.embed(passages, "passage")
    relevant = [{j: 1.0 for j in range(36) if j % TOPICS == i % TOPICS} for i in range(36)]
    return Relevance.of(relevant).ndcg(q.mean @ c.mean.T).mean()


def test_embeddings_are_gaussians_with_means_of_unit_length(fitted):
    fitted.means = "process"
    gaussian = fitted.embed(texts_of(5, "query", 900), "query")
    assert gaussian.mean.shape == gaussian.variance.shape == (5, DIMENSION)
    assert np.allclose(np.linalg.norm(gaussian.mean, axis=1), 1, atol=1e-5)
    assert gaussian.variance.min() > 0


def test_unseen_texts_still_find_those_of_their_topic(fitted):
    assert ndcg(fitted) > 0.9


def test_frozen_means_are_the_encoders_own(fitted):
    texts = texts_of(5, "passage", 900)
    fitted.means = "frozen"
    frozen = fitted.embed(texts, "passage")
    assert np.allclose(frozen.mean, fitted.encoder.encode(texts, "passage").embedding)
    assert frozen.variance.shape == (5, DIMENSION)


def test_alignment_brings_the_two_sides_of_a_pair_together():
    def distance(alignment):
        grove = Grove(encoder, latent=8, inducing=16, epochs=15, alignment=alignment).fit(pairs())
        q = grove.embed(texts_of(60, "query", 5000), "query")
        c = grove.embed(texts_of(60, "passage", 5000), "passage")
        return float(((q.mean - c.mean) ** 2).sum(axis=1).mean())

    assert distance(10.0) < distance(0.0)


def test_principal_directions_whiten_the_embeddings():
    rng = np.random.default_rng(0)
    queries, passages = torch.from_numpy(rng.normal(size=(2, 50, 6)) * [5, 4, 3, 2, 1, 0.5])
    directions = principal_directions(queries, passages, 3)
    centred = torch.cat([queries - queries.mean(0), passages - passages.mean(0)])
    covariance = torch.cov((centred @ directions.T).T, correction=0)
    assert torch.allclose(covariance, torch.eye(3, dtype=covariance.dtype), atol=1e-8)
