"""A cross-encoder as verifier, trained for a moment on the fit pairs, from end to end."""

import numpy as np
import pytest

from tests.cross_encoders import asked, folder_of, passages, train
from tests.helpers import bag_of_words, index_of, rightness
from uec_rag import UEC

pytestmark = pytest.mark.slow

K = 10


@pytest.fixture(scope="module")
def world():
    texts = passages(200)
    return texts, *asked(texts, 150)


@pytest.fixture(scope="module")
def others():
    texts = passages(200, seed=1)
    return texts, *asked(texts, 100, seed=1)


@pytest.fixture(scope="module")
def indexes(world, others, tmp_path_factory):
    """Without a verifier, with one that was never trained, and with one that was."""
    from sentence_transformers import CrossEncoder

    texts, queries, relevant = world
    folder = folder_of(tmp_path_factory.mktemp("models") / "tiny-cross-encoder")
    trained = CrossEncoder(str(folder), device="cpu")
    train(trained, texts, queries, relevant)
    pairs = [(q, texts[p]) for q, own in zip(queries, relevant, strict=True) for p in own]
    encoders = [bag_of_words(10, "coarse"), bag_of_words(8, "coarser", seed=1)]
    return {
        name: index_of(UEC(encoders, verifier=verifier).fit(pairs), others[0])
        for name, verifier in (("none", None), ("untrained", folder), ("trained", trained))
    }


@pytest.fixture(scope="module")
def found(indexes, others):
    return {name: index.search(others[1], K) for name, index in indexes.items()}


@pytest.fixture(scope="module")
def right(found, others):
    """Whether each hit answers its query."""
    relevant = [[f"p{place}" for place in own] for own in others[2]]
    return {name: rightness(result, relevant) for name, result in found.items()}


@pytest.fixture(scope="module")
def ndcg(right, others):
    discount = 1 / np.log2(np.arange(K) + 2)
    best = np.array([discount[: len(own)].sum() for own in others[2]])
    return {name: float((hits @ discount / best).mean()) for name, hits in right.items()}


def test_one_that_was_trained_betters_the_order(ndcg):
    assert ndcg["trained"] > ndcg["none"] + 0.1


def test_one_that_was_not_is_weighed_down(ndcg, found):
    assert ndcg["untrained"] > ndcg["none"] - 0.03

    def share(name):
        told = [one.metadata(0, details=True)["uec_members"] for one in found[name]]
        return np.mean([members["tiny-cross-encoder"]["share"] for members in told])

    assert share("untrained") < 0.1
    assert share("trained") > 0.5


def test_relevance_and_confidence_take_it_up(found, right):
    errors = {}
    for name, result in found.items():
        answered = right[name].any(axis=1)
        errors[name] = (
            ((result.relevance - right[name]) ** 2).mean(),
            ((result.confidence - answered) ** 2).mean(),
        )
    assert errors["trained"][0] < errors["none"][0]
    assert errors["trained"][1] < errors["none"][1]
