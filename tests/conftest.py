"""Set before any test imports a model library: no network, no crowd of threads."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# torch, BLAS and OpenMP read this when they load; more threads only slow down inputs this small.
os.environ.setdefault("OMP_NUM_THREADS", str(min(4, os.cpu_count() or 1)))

import pytest

from tests.helpers import LinearHead, bag_of_words, pairs


@pytest.fixture(scope="session")
def fit_pairs():
    """Two hundred (query, passage) tuples."""
    return pairs(200)


@pytest.fixture(scope="session")
def encoders():
    """A good encoder, a coarse one, and one with a last layer of its own; all differ in width."""
    return [bag_of_words(64, "fine"), bag_of_words(16, "coarse", seed=1), LinearHead()]


@pytest.fixture(scope="session")
def fitted(encoders, fit_pairs):
    """An ensemble fitted on the pairs, as it comes; not to be changed."""
    from uec_rag import UEC

    return UEC(encoders).fit(fit_pairs)
