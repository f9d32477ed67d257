"""Set before any test imports a model library: no network, no crowd of threads."""

import gc
import os
import shutil

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# torch, BLAS and OpenMP read this when they load; more threads only slow down inputs this small.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.helpers import AXE, LinearHead, bag_of_words, index_of, pairs
from tests.survival.scale import LONG
from uec_rag.encoders import calls

collect_ignore_glob = ["data/*"]  # scripts there need tools that tests do without

# How long an example takes, or drawing it, is the machine's business; what is too slow is found by
# benchmarks. The same examples in every run: only the long one looks for new ones.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize=not LONG,
    # mutmut runs tests of a class several times in a process.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)
settings.load_profile("steady")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Have the garbage collector leave out the million objects that imports make."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


OF_A_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", OF_A_MAC)


@pytest.fixture(scope="module")
def browser():
    """A browser without a window; for tests marked "ui"."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None or not AXE.is_file():
        pytest.fail("These tests need Chromium and axe-core: `make test-ui` installs both.")
    with sync_playwright() as playwright:
        # Containers give no rights for a sandbox and little shared memory.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        yield playwright.chromium.launch(executable_path=found, args=arguments)


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


@pytest.fixture(scope="session")
def texts(fit_pairs):
    return [passage for _, passage in fit_pairs]


@pytest.fixture(scope="session")
def queries(fit_pairs):
    return [query for query, _ in fit_pairs[:20]]


@pytest.fixture(scope="session")
def full(fitted, texts):
    """An index of two hundred passages; not to be written to."""
    metadatas = [{"number": i, "even": i % 2 == 0} for i in range(len(texts))]
    return index_of(fitted, texts, metadatas=metadatas)


@pytest.fixture(scope="session")
def with_words(fit_pairs):
    """An ensemble of a good encoder and of words; not to be changed."""
    from uec_rag import UEC

    return UEC([bag_of_words(64, "fine"), "bm25"]).fit(fit_pairs)


@pytest.fixture
def no_waits(monkeypatch):
    """Calls of a service that fail are sent again at once."""
    monkeypatch.setattr(calls, "pause", lambda seconds: None)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def small(fitted, texts):
    """An index of ten passages, p0 to p9, to be written to."""
    return index_of(fitted, texts[:10])


@pytest.fixture(scope="session")
def chat_index():
    """The passages of examples/chat.py; not to be changed."""
    from examples.chat import PASSAGES
    from uec_rag import UEC

    titles = [{"title": title} for title in PASSAGES]
    return index_of(UEC(), [*PASSAGES.values()], [*PASSAGES], titles)
