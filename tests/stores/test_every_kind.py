"""Every number format finds what scoring everything in float64 finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import python
from uec_rag import Gaussian
from uec_rag.base.similarity import score
from uec_rag.stores import MemoryStore, Passage

WIDTHS = (24, 8)
PROFILE = np.random.default_rng(5).gamma(1.0, 0.02, (2, 32))
K, BETA = 10, 1.0

every_form = pytest.mark.parametrize("dtype", ["float32", "int8"])


@every_form
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.sampled_from([1, 5, 60, 400]),
    queries=st.sampled_from([1, 3, 12]),
    k=st.integers(1, 70),
    lengths=st.sampled_from([(1.0, 1.0), (1e-3, 100.0), (1e-12, 1e-12), (30.0, 1e-6)]),
    one_off=st.booleans(),
)
def test_bounds_hold_and_hits_are_exact_whatever_the_lengths(
    dtype, seed, size, queries, k, lengths, one_off
):
    """One mean may be fifty times as long as the others, in one block or in both."""
    rng = np.random.default_rng(seed)
    store = MemoryStore(dtype=dtype)
    scale = np.repeat(lengths, WIDTHS)
    mean = rng.standard_normal((size, 32)) * scale
    mean[0] *= 50 if one_off else 1
    stored = Gaussian.factored(mean, np.full((size, 2), 0.5), PROFILE, widths=WIDTHS)
    numbered = [Passage(str(i), "") for i in range(size)]
    store.add(numbered[: size // 2], stored[: size // 2])
    store.add(numbered[size // 2 :], stored[size // 2 :])
    query = Gaussian(rng.standard_normal((queries, 32)), np.zeros((queries, 32)))
    asked, own = query.mean.astype(np.float64), stored.mean.astype(np.float64)
    exact, variance = asked @ own.T, asked**2 @ (stored.scales.astype(np.float64) @ PROFILE).T
    scores = exact / np.sqrt(1 + np.pi / 8 * BETA * variance)
    size_of = np.abs(asked) @ np.abs(own).T
    scan = store._state.scan
    bound = 1e-5 * size_of
    if scan is not None:
        bound = scan.bound(query.mean)[:, None]
    seen = store.compare([query.mean])[0]
    assert (np.abs(seen - exact) <= bound).all()
    in_parts = sum(store.compare([query.mean[:, :9], query.mean[:, 9:]]))
    assert (np.abs(in_parts - exact) <= bound).all()
    found = store.search(query, k, beta=BETA)
    best = -np.sort(-scores, axis=1)[:, :k]
    tolerance = 1e-5 * size_of.max(axis=1, keepdims=True)
    assert (np.abs(found.scores - best) <= tolerance).all()
    assert found.exact
    np.testing.assert_allclose(
        found.sigma2, np.take_along_axis(variance, _numbers(found), axis=1), rtol=1e-4
    )


def test_a_compressed_copy_is_a_fraction_of_the_means(tmp_path):
    store, mean = MemoryStore(dtype="int8"), np.random.default_rng(0).standard_normal((500, 32))
    store.add([Passage(str(i), "") for i in range(500)], Gaussian(mean, np.ones((500, 32))))
    store.save(tmp_path)
    sizes = {
        name: sum(file.stat().st_size for file in tmp_path.glob(f"{name}*.npy"))
        for name in ("mean", "scan")
    }
    assert sizes["scan"] <= 0.4 * sizes["mean"] + 1000


def _numbers(found):
    return np.array([[int(passage.id) for passage in row] for row in found.passages])


def test_a_block_of_one_number_is_searched_exactly_in_int8():
    """An encoder may give vectors of width 1, and parts of queries may be as thin."""
    rng = np.random.default_rng(0)
    mean = rng.standard_normal((9000, 6)).astype(np.float32)  # searched in several tiles
    store = MemoryStore(dtype="int8")
    stored = Gaussian(mean, np.full((9000, 6), 0.1), widths=(5, 1))
    store.add([Passage(str(i), "") for i in range(9000)], stored)
    query = Gaussian(rng.standard_normal((4, 6)), np.zeros((4, 6)))
    assert_same_scores(store.search(query, K, beta=BETA), query, stored)
    off = np.abs(store.compare([query.mean])[0] - query.mean @ mean.T)
    assert (off <= store._state.scan.bound(query.mean)[:, None]).all()


def assert_same_scores(found, query, stored):
    best = -np.sort(-score(query, stored, BETA), axis=1)[:, :K]
    np.testing.assert_allclose(found.scores, best, rtol=1e-5, atol=1e-6)
    assert found.exact


OLD_PROCESSOR = """
import sys
import numpy as np
import simsimd
for instructions in sys.argv[1:]:
    simsimd.disable_capability(instructions)
from tests.stores.test_every_kind import assert_same_scores, K, BETA
from uec_rag import Gaussian
from uec_rag.stores import MemoryStore, Passage
rng = np.random.default_rng(0)
mean = rng.standard_normal((3000, 64)) + 3  # of one sign: their products add up
mean /= np.linalg.norm(mean, axis=1, keepdims=True)
stored = Gaussian(mean, np.zeros((3000, 64)))
store = MemoryStore(dtype="int8")
store.add([Passage(str(i), "") for i in range(3000)], stored)
query = Gaussian(mean[:20], np.zeros((20, 64)))
assert_same_scores(store.search(query, K, beta=BETA), query, stored)
"""


@pytest.mark.parametrize("instructions", [[], ["haswell"]])
def test_a_processor_without_products_of_8_bits_searches_exactly_too(instructions):
    """Without VNNI, as on many machines before 2021, and without AVX2."""
    instructions = ["skylake", "ice", "genoa", "sapphire", "turin", "sierra", *instructions]
    done = python(OLD_PROCESSOR, *instructions, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_format_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"dtype: expected one of .*'int8'.*'f8'"):
        MemoryStore(dtype="f8")
