import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uec_rag.base import postings as module
from uec_rag.base.gaussian import Saturation, Terms, together
from uec_rag.base.postings import Corpus, Postings, with_room

K1, B = 1.5, 0.75
TEXTS = st.lists(st.lists(st.integers(0, 12), max_size=15), min_size=1, max_size=20)


def bm25(query, passages):
    """As books have it, over the most that a passage could get."""
    count = len(passages)
    mean = np.mean([len(passage) for passage in passages])
    scores, most = np.zeros(count), 0.0
    for term in query:
        held = np.array([passage.count(term) for passage in passages])
        rarity = np.log(1 + (count - np.sum(held > 0) + 0.5) / (np.sum(held > 0) + 0.5))
        lengths = np.array([len(passage) for passage in passages]) / max(mean, 1e-30)
        scores += rarity * held * (K1 + 1) / (held + K1 * (1 - B + B * lengths))
        most += rarity * (K1 + 1)
    return scores / max(most, 1e-30)


def terms(texts):
    return Terms.from_keys(texts, Saturation(K1, B))


def test_room_is_at_least_doubled_so_that_appending_is_cheap_on_average():
    buffer, copies = np.zeros(0, dtype=bool), 0
    for used in range(1000):
        grown = with_room(buffer, used, used + 1)
        copies += grown is not buffer
        buffer = grown
    assert copies <= 11


@given(TEXTS, TEXTS, st.data())
@settings(max_examples=60, deadline=None)
def test_similarities_are_bm25_of_the_passages_that_are_there(passages, queries, data):
    postings, start = Postings.none(), 0
    while start < len(passages):  # batches of any size
        stop = data.draw(st.integers(start + 1, len(passages)))
        postings, start = postings.with_rows(start, terms(passages[start:stop])), stop
    alive = np.array(data.draw(st.lists(st.booleans(), min_size=start, max_size=start)))
    left = np.flatnonzero(alive)
    if not len(left):
        return
    expected = np.array([bm25(query, [passages[row] for row in left]) for query in queries])
    found = postings.similarities(terms(queries), Corpus(start, alive))
    np.testing.assert_allclose(found[:, left], expected, atol=1e-5)
    fewer = postings.select(left).similarities(terms(queries), Corpus(len(left)))
    np.testing.assert_allclose(fewer, expected, atol=1e-5)


def test_similarities_do_not_depend_on_what_is_summed_up_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 30, rng.integers(0, 12)).tolist() for _ in range(100)]
    postings, corpus = (
        Postings.from_terms(terms(texts[:60])).with_rows(60, terms(texts[60:])),
        Corpus(100),
    )
    queries = terms(texts[:20])
    expected = postings.similarities(queries, corpus)
    one_by_one = [postings.similarities(queries[row : row + 1], corpus)[0] for row in range(20)]
    np.testing.assert_allclose(one_by_one, expected, atol=1e-6)
    monkeypatch.setattr(module, "_STRETCH", 7)
    np.testing.assert_allclose(postings.similarities(queries, corpus), expected, atol=1e-6)


def test_a_passage_without_terms_has_no_similarity_whatever_the_saturation():
    held = Terms.from_keys([[], [1]], Saturation(1.5, 1.0))  # b = 1: its length would divide by 0
    asked, corpus = Terms.from_keys([[1, 2]], Saturation(1.5, 1.0)), Corpus(2)
    assert Postings.from_terms(held).similarities(asked, corpus)[0, 0] == 0
    [added], _ = Postings.from_terms(held).contributions(asked, np.array([[0, 1]]), corpus)
    assert (added[0] == 0).all()
    assert added[1, 0] > 0


@given(TEXTS, TEXTS)
@settings(max_examples=30, deadline=None)
def test_contributions_add_up_to_the_similarities(passages, queries):
    postings, corpus = Postings.from_terms(terms(passages)), Corpus(len(passages))
    rows = np.tile(np.arange(len(passages)), (len(queries), 1))
    parts, _ = postings.contributions(terms(queries), rows, corpus)
    found = postings.similarities(terms(queries), corpus)
    np.testing.assert_allclose([part.sum(axis=1) for part in parts], found, atol=1e-6)


def test_a_word_that_no_passage_holds_counts_against_all():
    postings, corpus = Postings.from_terms(terms([[1, 2], [3]])), Corpus(2)
    known, half = postings.similarities(terms([[1], [1, 9]]), corpus)
    assert 0 < half[0] < known[0] < 1


def test_an_earlier_version_knows_nothing_of_later_rows():
    first = Postings.from_terms(terms([[1], [2]]))
    before = first.similarities(terms([[1]]), Corpus(2))
    first.with_rows(2, terms([[1], [1]]))
    np.testing.assert_array_equal(first.similarities(terms([[1]]), Corpus(2)), before)


def test_a_posting_takes_five_bytes_where_counts_are_below_256():
    [segment] = Postings.from_terms(terms([[1, 1, 2], [2] * 255])).segments
    assert segment.rows.itemsize + segment.weights.itemsize == 5
    [wider] = Postings.from_terms(terms([[2] * 256])).segments
    assert wider.weights.tolist() == [256]


def test_many_small_batches_leave_few_segments():
    postings = Postings.none()
    for row in range(300):
        postings = postings.with_rows(row, terms([[row % 7, row]]))
    assert len(postings.segments) <= 16
    whole = Postings.from_terms(terms([[row % 7, row] for row in range(300)]))
    asked = terms([[3, 20]])
    np.testing.assert_allclose(
        postings.similarities(asked, Corpus(300)), whole.similarities(asked, Corpus(300)), atol=1e-6
    )


def test_saved_postings_come_back(tmp_path):
    postings = Postings.none()
    for start in (0, 3):
        postings = postings.with_rows(start, terms([[1, 1, 2], [300 * [5][0]], [2]]))
    state = postings.save(tmp_path, "words", np.array([0, 2, 4, 5]))
    loaded, corpus = Postings.load(tmp_path, state, 4), Corpus(4)
    kept = postings.select(np.array([0, 2, 4, 5]))
    asked = terms([[1, 2, 9]])
    np.testing.assert_array_equal(
        loaded.similarities(asked, corpus), kept.similarities(asked, corpus)
    )
    # A loaded one is read only, and grows all the same.
    assert loaded.with_rows(4, terms([[1]])).similarities(asked, Corpus(5)).shape == (1, 5)


def test_terms_of_another_fit_are_refused():
    postings = Postings.from_terms(terms([[1]]))
    for other in (
        Terms.from_keys([[1]], Saturation(2.0, B)),
        terms([[1]]).scale_by(np.float32(0.5)),
    ):
        with pytest.raises(ValueError, match="another fit"):
            postings.with_rows(1, other)


def test_rows_of_terms_can_be_chosen_and_joined():
    held = terms([[1, 1, 2], [], [7]])
    some = held[[2, 0]]
    assert (some.keys.tolist(), some.weights.tolist()) == ([7, 1, 2], [1, 2, 1])
    assert held[np.array([False, True, True])].lengths.tolist() == [0, 1]
    both = together([some, held[1:2]])
    assert both.starts.tolist() == [0, 1, 3, 3]
    assert both.rows.tolist() == [0, 1, 1]


@pytest.mark.parametrize(("k1", "b"), [(0, 0.5), (float("nan"), 0.5), (1.5, -0.1), (1.5, 1.1)])
def test_a_saturation_out_of_range_is_refused(k1, b):
    with pytest.raises(ValueError, match=r"expected a number"):
        Saturation(k1, b)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("rows", lambda rows: np.array([2**31 - 1, *rows[1:]], np.int32)),
        ("rows", lambda rows: np.array([-1, *rows[1:]], np.int32)),
        ("rows", lambda rows: rows[::-1].copy()),
        ("rows", lambda rows: rows.astype(np.int64)),
        ("starts", lambda starts: starts + 1),
        ("starts", lambda starts: np.array([0, 2**40, *starts[2:]])),
        ("starts", lambda starts: starts[:-1]),
        ("keys", lambda keys: keys[::-1].copy()),
        ("weights", lambda weights: np.full(len(weights), np.nan, np.float32)),
        ("weights", lambda weights: weights * 0),
        ("weights", lambda weights: weights[:-1]),
        ("lengths", lambda lengths: lengths - 10),
        ("lengths", lambda lengths: np.array([np.nan, *lengths[1:]], np.float32)),
        ("lengths", lambda lengths: lengths[:-1]),
    ],
)
def test_postings_that_lead_elsewhere_are_refused_before_they_are_used(tmp_path, part, change):
    state = Postings.from_terms(terms([[1, 2, 2], [2, 3], [3, 1]])).save(
        tmp_path, "words", np.arange(3)
    )
    Postings.load(tmp_path, state, 3)
    file = tmp_path / f"words.{part}.npy"
    np.save(file, change(np.load(file)))
    with pytest.raises(ValueError, match=r"terms: expected|words\..*\.npy' holds"):
        Postings.load(tmp_path, state, 3)
