"""What every store does with words beside vectors, whatever engine it is in."""

import numpy as np
import pytest

from tests.helpers import with_terms
from tests.stores.kinds import ENGINES, SAVED, close, every_search, every_store, reopened
from tests.stores.test_contract import gaussians, numbered, search, view_of
from uec_rag.base.gaussian import Terms
from uec_rag.base.similarity import probit
from uec_rag.stores import LocalStore

LARGE_KEY = 2**64 - 3  # which no number with a sign holds


def with_words(seed, count, texts=None):
    """Gaussians with a sparse block: a few common terms, many rare ones, some texts of none."""
    rng = np.random.default_rng([seed, 1])
    if texts is None:
        texts = [
            [LARGE_KEY - int(key) for key in rng.zipf(1.4, size=rng.integers(0, 30)) if key < 200]
            for _ in range(count)
        ]
    return with_terms(gaussians(seed, count), [Terms.from_keys(texts)])


def asking(seed, count):
    """Queries, of terms that are there and of some that are not."""
    texts = [[LARGE_KEY - 1, LARGE_KEY - 2 - i, LARGE_KEY - 7, 10**9 + i] for i in range(count - 1)]
    return with_words(seed, count, [*texts, [5, 6]])


QUERY = asking(99, 5)


def alike(store, reference, query=QUERY, k=7, **options):
    """Whether a store finds and says what one in memory does."""
    found, wanted = (search(one, query, k, beta=1.0, **options) for one in (store, reference))
    assert [[p.id for p in row] for row in found.passages] == [
        [p.id for p in row] for row in wanted.passages
    ]
    for name in ("scores", "mu", "sigma2"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(wanted, name), rtol=1e-4, atol=1e-5, err_msg=name
        )
    np.testing.assert_allclose(probit(found.mu, found.sigma2, 1.0), found.scores, rtol=1e-5)
    for row, hits in enumerate(found.passages):
        mine, theirs = (contributions(one, query[[row]], hits) for one in (store, reference))
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    return found


def contributions(store, query, hits):
    """What each term of one query adds to its similarity with passages."""
    view = view_of(store, query)
    place = {passage.id: column for column, passage in enumerate(view.passages())}
    compared = view.compare([query.mean[:, :6], query.mean[:, 6:], *query.terms])
    return view.contributions(compared, [np.array([place[p.id] for p in hits])])[0][0]


@every_search
def test_words_count_as_in_memory_after_additions_replacements_and_deletions(store):
    reference = LocalStore()
    for step in (
        lambda s: s.add(numbered(range(100)), with_words(0, 100)),
        lambda s: s.add(numbered(range(80, 150), new=True), with_words(1, 70)),
        lambda s: s.delete([f"p{i}" for i in range(0, 60, 2)]),
        lambda s: s.add(numbered([3, 4, 500]), with_words(2, 3, [[LARGE_KEY - 1] * 40, [], [9]])),
        lambda s: s.delete([f"p{i}" for i in range(100, 150)]),
    ):
        step(store)
        step(reference)
        alike(store, reference)


@every_search
def test_a_filter_leaves_rarity_as_it_is(store):
    reference = LocalStore()
    for one in (store, reference):
        one.add(numbered(range(120)), with_words(0, 120))
    found = alike(store, reference, filter={"third": True})
    assert all(p.metadata["third"] for row in found.passages for p in row)


@pytest.mark.parametrize("kind", ENGINES)
def test_what_is_found_by_words_alone_is_a_candidate(store):
    """Far from the query by its vector, and the only one with its word."""
    stored = with_words(0, 700)
    mean = np.concatenate([stored.mean, -QUERY.mean[:1]])
    terms = [*(range(10, 20) for _ in range(700)), [LARGE_KEY - 1]]
    given_ = with_words(0, 701, terms)
    given_.mean[:] = mean
    store.add(numbered(range(701)), given_)
    one = QUERY[[0]]
    view = store.fetch([""], one, 100)
    *by_blocks, by_terms = view.compare(
        [one.mean[:, :6], one.mean[:, 6:], one.terms[0]]
    ).similarities
    by_means = sum(by_blocks)
    place = int(np.argmax(by_terms[0]))
    assert view.gather([np.array([place])])[0][0].id == "p700"
    assert by_means[0, place] == pytest.approx(float(-one.mean[0] @ one.mean[0]), rel=1e-5)
    sure = with_terms(one, [one.terms[0].scale_by(np.float32(50))])
    assert search(store, sure, 1, beta=1.0).passages[0][0].id == "p700"


@every_store
def test_terms_of_other_encoders_or_with_a_scale_are_refused_and_change_nothing(store):
    store.add(numbered(range(5)), with_words(0, 5))
    weighed = with_words(1, 1).terms[0].scale_by(np.float32(0.5))
    for given_ in (gaussians(1, 1), with_terms(gaussians(1, 1), [weighed])):
        with pytest.raises(ValueError, match=r"(encodings|terms): expected"):
            store.add(numbered([7]), given_)
    assert len(store) == 5


@pytest.mark.parametrize("kind", ENGINES)
def test_words_alone_are_refused_by_an_engine(store):
    alone = with_words(0, 3)
    nothing = np.zeros((3, 0), dtype=np.float32)
    with pytest.raises(ValueError, match="needs vectors, and this ensemble has only words"):
        store.add(numbered(range(3)), type(alone)(nothing, nothing, terms=alone.terms))


@pytest.mark.parametrize("kind", SAVED)
def test_words_are_there_when_it_is_opened_again(store, kind, tmp_path):
    reference = LocalStore()
    for one in (store, reference):
        one.add(numbered(range(50)), with_words(0, 50))
    opened = reopened(store, tmp_path / "saved")
    alike(opened, reference)
    close(opened)
