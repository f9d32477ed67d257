import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from uec_rag.base.counts import K1, B, Counts, Words
from uec_rag.base.gaussian import Terms, together

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
    return Terms.from_keys(texts)


def words_of(*parts, alive=None):
    """The words of passages in several matrices, some of which are removed."""
    counts = [Counts.from_terms(part) for part in parts]
    masks, start = [], 0
    for part in counts:
        masks.append(None if alive is None else alive[start : start + len(part)])
        start += len(part)
    return Words(1.0, counts, masks)


@given(TEXTS, TEXTS, st.data())
@settings(max_examples=60, deadline=None)
def test_similarities_are_bm25_of_the_passages_that_are_there(passages, queries, data):
    parts, start = [], 0
    while start < len(passages):  # batches of any size
        stop = data.draw(st.integers(start + 1, len(passages)))
        parts.append(terms(passages[start:stop]))
        start = stop
    alive = np.array(data.draw(st.lists(st.booleans(), min_size=start, max_size=start)))
    left = np.flatnonzero(alive)
    if not len(left):
        return
    expected = np.array([bm25(query, [passages[row] for row in left]) for query in queries])
    words = words_of(*parts, alive=alive)
    found = words.similarities(words.look_up(terms(queries)))
    np.testing.assert_allclose(found[:, left], expected, atol=1e-5)
    joined = Counts.join(list(zip(words.parts, words.alive, strict=True)))
    fewer = Words(1.0, [joined], [None])
    found = fewer.similarities(fewer.look_up(terms(queries)))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_passage_without_terms_has_no_similarity():
    words = Words.from_terms(Terms.from_keys([[], [1]]))
    asked = words.look_up(Terms.from_keys([[1, 2]]))
    assert words.similarities(asked)[0, 0] == 0
    [added] = words.contributions(asked, [np.array([0, 1])])
    assert (added[0] == 0).all()
    assert added[1, 0] > 0


@given(TEXTS, TEXTS, st.integers(0, 20))
@settings(max_examples=30, deadline=None)
def test_contributions_add_up_to_the_similarities(passages, queries, cut):
    words = words_of(*(terms(some) for some in (passages[:cut], passages[cut:]) if some))
    asked = words.look_up(terms(queries))
    parts = words.contributions(asked, [np.arange(len(passages))] * len(queries))
    found = words.similarities(asked)
    np.testing.assert_allclose([part.sum(axis=1) for part in parts], found, atol=1e-6)


def test_more_passages_than_one_matrix_takes_are_counted():
    held = terms([[row % 7] for row in range(70_000)])
    words = Words.from_terms(held)
    found = words.similarities(words.look_up(terms([[3]])))[0]
    assert np.count_nonzero(found) == np.count_nonzero(np.arange(70_000) % 7 == 3)


def test_rows_of_terms_can_be_chosen_and_joined():
    held = terms([[1, 1, 2], [], [7]])
    some = held[[2, 0]]
    assert (some.keys.tolist(), some.weights.tolist()) == ([7, 1, 2], [1, 2, 1])
    assert held[np.array([False, True, True])].lengths.tolist() == [0, 1]
    both = together([some, held[1:2]])
    assert both.starts.tolist() == [0, 1, 3, 3]
    assert both.rows.tolist() == [0, 1, 1]
