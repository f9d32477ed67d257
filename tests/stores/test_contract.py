"""What every store does, whatever engine it is in."""

import re

import numpy as np
import pytest

from tests.stores.kinds import SAVED, every_search, every_store, reopened
from tests.stores.test_filters import COMPARISONS, METADATA
from uec_rag import Gaussian
from uec_rag.base.similarity import moments, probit
from uec_rag.encoders.base import Encoded
from uec_rag.stores import Passage, Store
from uec_rag.stores.base import StoreHits
from uec_rag.stores.candidates import CandidateStore
from uec_rag.stores.encodings import GIVEN
from uec_rag.stores.filters import matches, parse

WIDTHS = (6, 2)
PROFILE = np.float32(np.random.default_rng(5).gamma(1.0, 0.1, (2, 8)))


def gaussians(seed, count, factored=True):
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal((count, 8)).astype(np.float32)
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    if factored:
        scales = rng.gamma(1.0, 1.0, (count, 2))
        return Gaussian.from_factors(mean, scales, PROFILE, widths=WIDTHS)
    return Gaussian(mean, rng.gamma(1.0, 0.1, (count, 8)))


def numbered(numbers, **metadata):
    return [Passage(f"p{i}", f"text {i}", {"third": i % 3 == 0, **metadata}) for i in numbers]


QUERY = gaussians(99, 4)


def best(expected, query, k, beta=1.0):
    """Ids and scores of the best of the expected passages, by scoring everything."""
    ids = [*expected]
    profile = next(iter(expected.values())).profile
    mean, scales = (
        np.concatenate([getattr(expected[id_], name) for id_ in ids]) for name in ("mean", "scales")
    )
    stored = (
        Gaussian(mean, scales) if profile is None else Gaussian.from_factors(mean, scales, profile)
    )
    scores = probit(*moments(query, stored), beta)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return [[ids[i] for i in row] for row in order], np.take_along_axis(scores, order, axis=1)


def view_of(store, query, count=1):
    """The columns that one query is compared with: all of a store of few passages."""
    is_elsewhere = isinstance(store, CandidateStore)
    return store.fetch([""], query, count) if is_elsewhere else store.snapshot()


def search(store, query, k, filter=None, **options):
    """The hits of queries, each searched alone: a store elsewhere takes one at a time."""
    each, view = (query[[row]] for row in range(len(query))), store.snapshot(filter)
    found = [view_of(view, one, 4 * k).search(one, k, **options) for one in each]
    numbers = (
        np.concatenate([getattr(one, name) for one in found])
        for name in ("columns", "scores", "mu", "sigma2")
    )
    hits = [one.passages[0] for one in found]
    return StoreHits(*numbers, hits)


def assert_finds(store, expected, query=QUERY, k=5, beta=1.0, **options):
    found = search(store, query, k, beta=beta, **options)
    ids, scores = best(expected, query, k, beta)
    assert [[p.id for p in row] for row in found.passages] == ids
    np.testing.assert_allclose(found.scores, scores, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(probit(found.mu, found.sigma2, beta), found.scores, rtol=1e-5)
    return found


@every_search
@pytest.mark.parametrize("factored", [True, False])
@pytest.mark.parametrize("beta", [0.0, 1.0, 30.0])
def test_hits_and_numbers_are_those_of_scoring_everything(store, factored, beta):
    stored, query = gaussians(0, 200, factored), gaussians(99, 4, factored)
    store.add(numbered(range(150)), stored[list(range(150))])
    store.add(numbered(range(150, 200)), stored[list(range(150, 200))])
    expected = {f"p{i}": stored[[i]] for i in range(200)}
    assert_finds(store, expected, query, beta=beta)
    opposite = Gaussian(-query.mean, query.variance)
    assert_finds(store, expected, opposite, 9, beta)


@every_store
def test_passages_come_and_go_by_their_ids(store):
    stored = gaussians(0, 30)
    store.add(numbered(range(20)), stored[list(range(20))])
    store.add(numbered(range(15, 25), new=True), stored[list(range(15, 25))])
    assert store.delete(["p0", "p1", "p99", "p1"]) == 2
    assert len(store) == 23
    assert {p.id for p in store.passages()} == {f"p{i}" for i in range(2, 25)}
    assert store.get(["p16", "p0", "p3"]) == [*numbered([16], new=True), *numbered([3])]
    assert_finds(store, {f"p{i}": stored[[i]] for i in range(2, 25)})
    found = GIVEN.passages(store.vectors(["p7", "p3", "p7"]))
    np.testing.assert_array_equal(found.mean, stored[[7, 3, 7]].mean)
    np.testing.assert_allclose(found.variance, stored[[7, 3, 7]].variance, rtol=1e-6)
    with pytest.raises(KeyError, match="'p0' is not in the store"):
        store.vectors(["p2", "p0"])


@every_store
def test_an_empty_store_finds_nothing_and_takes_any_dimension_after(store):
    assert len(store) == 0
    assert [*store.passages()] == store.get(["a"]) == []
    assert search(store, QUERY, 3, beta=1.0).scores.shape == (4, 0)
    assert view_of(store, QUERY[[0]]).compare([QUERY.mean[:1]]).similarities[0].shape == (1, 0)
    store.add(numbered(range(3)), gaussians(0, 3))
    store.delete([f"p{i}" for i in range(3)])
    assert search(store, QUERY, 3, beta=1.0).scores.shape == (4, 0)
    other = Gaussian(np.eye(3), np.zeros((3, 3)))
    store.add(numbered(range(3)), other)
    assert_finds(store, {f"p{i}": other[[i]] for i in range(3)}, other[[1]], 1)


@pytest.mark.filterwarnings("ignore:filter. .* is compared:UserWarning")
@every_search
def test_filters_mean_the_same_in_every_store(store):
    stored = gaussians(0, len(METADATA))
    given = [Passage(f"p{i}", f"text {i}", m) for i, m in enumerate(METADATA)]
    store.add(given, stored)
    for filter_ in COMPARISONS:
        condition = parse(filter_)
        wanted = {p.id: stored[[i]] for i, p in enumerate(given) if matches(condition, p)}
        for joined in (filter_, {"$and": [filter_, {"$or": [filter_, {"$or": []}]}]}):
            assert {p.id for p in store.passages(joined)} == {*wanted}, joined
        left = {p.id for p in store.passages({"$not": filter_})}
        assert left == {p.id for p in given} - {*wanted}, filter_
        if wanted:
            assert_finds(store, wanted, filter=filter_)
            view = store.snapshot(filter_)
            assert len(view) == len(wanted)
            columns = view_of(view, QUERY[[0]]).passages()
            assert {p.id for p in columns} == {*wanted}, filter_
            assert {*map(len, view.sample(100))} == {len(wanted)}
        else:
            assert search(store, QUERY, 3, beta=1.0, filter=filter_).scores.shape == (4, 0)


LARGE = 2**53
ODD = {
    "whole": [LARGE, -LARGE, LARGE - 1, 0, True],
    "broken": [1e18, -1e300, 5e-324, -0.0, 0.1, float(2**63)],
    "text": ["\x01", "\u2028", "\\", "'", '"', "%s", "\U0001f600", "$eq", "\n"],
    "keys": ["a\\b", 'a"b', "a.b", "a[0]", "$x", "", "'", "%s", "\n", "-x", "id", "facts"],
}


def is_bool(value):
    return isinstance(value, bool)


@every_store
def test_odd_values_come_back_as_they_were_and_are_found_by_what_they_are(store):
    given = [
        *({"key": value} for name in ("whole", "broken") for value in ODD[name]),
        *({"word": value} for value in ODD["text"]),
        *({key: "a value"} for key in ODD["keys"]),
        {"list": [LARGE, "\\"], "inner": {"a\\b": -LARGE}, "many": [i / 997 for i in range(200)]},
    ]
    kept = [Passage(f"p{i}", "a\\\x01", metadata) for i, metadata in enumerate(given)]
    store.add(kept, gaussians(0, len(kept)))
    for passage in kept:
        [held] = store.get([passage.id])
        assert held == passage
        assert [*map(type, held.metadata.values())] == [*map(type, passage.metadata.values())]
    for name, values in (("key", ODD["whole"] + ODD["broken"]), ("word", ODD["text"])):
        held = {p.id: p.metadata[name] for p in kept if name in p.metadata}
        for value in values:
            same = {
                id_ for id_, one in held.items() if (one, is_bool(one)) == (value, is_bool(value))
            }
            for asked in (value, {"$in": [value]}):
                assert {p.id for p in store.passages({name: asked})} == same, value
            if name == "key":
                above = {
                    id_
                    for id_, one in held.items()
                    if one > value and is_bool(one) == is_bool(value)
                }
                assert {p.id for p in store.passages({name: {"$gt": value}})} == above, value
    for place, key in enumerate(ODD["keys"], len(kept) - 1 - len(ODD["keys"])):
        if not key.startswith("$"):
            assert [p.id for p in store.passages({key: "a value"})] == [f"p{place}"], key
            assert [p.id for p in store.passages({key: {"$exists": True}})] == [f"p{place}"], key


@every_store
def test_the_vectors_of_other_encoders_are_refused(store):
    store.bind("one")
    store.add(numbered(range(5)), gaussians(0, 5))
    store.bind("one")
    with pytest.raises(ValueError, match=r"store: .* of other encoders"):
        store.bind("other")
    store.delete([f"p{i}" for i in range(5)])
    store.bind("other")


@every_store
def test_what_does_not_fit_is_refused_and_changes_nothing(store):
    stored, one = gaussians(0, 5), gaussians(1, 1)
    store.add(numbered(range(5)), stored)
    for passages_, given, message in (
        ([Passage("p7", "", {"value": {1}})], one, "metadata of 'p7'['value']"),
        ([Passage(7, "text")], one, "ids: expected non-empty strings, got 7"),
        ([Passage("p7", b"text")], one, "text of 'p7' must be a string, got b'text'"),
        ([Passage("p7", "text", [1])], one, "metadata of 'p7': expected a mapping, got list"),
        (numbered(range(2)), gaussians(1, 3), "encodings: expected 2, one per passage, got 3"),
        (numbered([7, 7]), gaussians(1, 2), "ids: expected distinct ids in one call"),
        (numbered([7]), Gaussian(np.ones((1, 3)), np.ones((1, 3))), "other encoders"),
        (numbered([7]), gaussians(1, 1, factored=False), "other encoders"),
        (numbered([7]), [Encoded(one.mean[:, :6], one.mean[:, :6])], "other encoders"),
        (numbered([7]), one.mean, "encodings: expected what each encoder made"),
        (numbered([7]), [one.mean], "encodings: expected what each encoder made"),
        (numbered([7]), [], "encodings: expected what each encoder made"),
    ):
        with pytest.raises((ValueError, TypeError), match=re.escape(message)):
            store.add(passages_, given)
    with pytest.raises(ValueError, match="k: expected an integer >= 1, got 0"):
        search(store, QUERY, 0, beta=1.0)
    with pytest.raises(ValueError, match="query: expected dimension 8, as stored, got 3"):
        search(store, Gaussian(np.ones((1, 3)), np.ones((1, 3))), 1, beta=1.0)
    view = store.snapshot({"third": True})
    if isinstance(view, Store):  # else it has nothing to write with
        with pytest.raises(RuntimeError, match="store"):
            view.add(numbered([7]), gaussians(1, 1))
        with pytest.raises(RuntimeError, match="store"):
            view.delete(["p0"])
    assert_finds(store, {f"p{i}": stored[[i]] for i in range(5)})


@pytest.mark.parametrize("kind", SAVED)
@pytest.mark.parametrize("factored", [True, False])
def test_a_saved_store_is_opened_as_what_it_was(store, factored, tmp_path):
    stored = gaussians(0, 50, factored)
    given = [
        Passage(f"p{i}", text * 2, {"number": i, "nested": {"a": [1, None]}})
        for i, text in enumerate([*ODD["text"], *map(str, range(50 - len(ODD["text"])))])
    ]
    store.bind("one")
    store.add(given, stored)
    opened = reopened(store, tmp_path / "saved")
    assert type(opened) is type(store)
    assert opened.get([passage.id for passage in given]) == given
    [*blocks] = opened.vectors(["p1"])
    assert tuple(part.embedding.shape[1] for part in blocks) == stored.widths
    assert_finds(opened, {f"p{i}": stored[[i]] for i in range(50)})
    with pytest.raises(ValueError, match="of other encoders"):
        opened.bind("other")
