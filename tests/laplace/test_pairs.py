import re

import numpy as np
import pytest

from tests.helpers import bag_of_words, pairs, refused
from uec_rag.encoders import Encoded
from uec_rag.laplace.pairs import (
    MINIMUM,
    check_pairs,
    held_out_pairs,
    similarities,
    split_queries,
    training_pairs,
)


@pytest.fixture(scope="module")
def checked():
    return check_pairs(pairs(120))


@pytest.fixture(scope="module")
def embeddings(checked):
    """Unit vectors of the queries and of the passages."""
    embed = bag_of_words(64, "words")
    vectors = embed(checked.queries), embed(checked.passages)
    return [v / np.linalg.norm(v, axis=1, keepdims=True) for v in vectors]


def by_vectors(queries, passages):
    return similarities(Encoded(queries, queries), Encoded(passages, passages))


def triples(labelled):
    return list(
        zip(labelled.query_index, labelled.passage_index, labelled.labels.tolist(), strict=True)
    )


def test_texts_are_told_apart_and_pairs_point_to_them():
    given = [("q1", "p1"), ("q1", "p2"), *((f"q{i}", f"p{i}") for i in range(2, 40))]
    checked = check_pairs(given)
    assert len(checked) == 40
    assert len(set(checked.queries)) == len(checked.queries) == 39
    restored = [
        (checked.queries[q], checked.passages[p])
        for q, p in zip(checked.query_index, checked.passage_index, strict=True)
    ]
    assert sorted(restored) == sorted(given)
    assert [checked.passages[p] for p in checked.positives[checked.queries.index("q1")]] == [
        "p1",
        "p2",
    ]
    assert (checked.labels == 1).all()


def test_pairs_may_be_any_iterable_of_sequences_with_labels_of_any_number_type():
    labels = [1, True, 1.0, np.int64(1), None]
    given = ([f"q{i}", f"p{i}", labels[i % 5]] for i in range(60))
    checked = check_pairs([*given, ("q0", "p9", 0), ("q1", "p9", False)])
    assert sorted(checked.labels.tolist()) == [0.0] * 2 + [1.0] * 60
    assert checked.labels.dtype == np.float32


def test_a_pair_given_twice_counts_once_and_as_an_answer_if_it_was_one():
    given = [(f"q{i}", f"p{i}", 1) for i in range(40)] + [("q0", "p0", 0), ("q0", "p1", 0)]
    checked = check_pairs(given)
    assert len(checked) == 41
    assert checked.queries[0] == checked.queries[checked.query_index[0]] == "q0"
    assert checked.passages[checked.passage_index[0]] == "p0"
    assert checked.labels[0] == 1


GOOD = [(f"q{i}", f"p{i}") for i in range(MINIMUM)]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([], ValueError, "pairs: expected at least 32 distinct pairs of a query"),
        (GOOD[1:] * 2, ValueError, "got 31"),
        ([(*p, 0) for p in GOOD], ValueError, "pairs: expected at least 32 distinct pairs"),
        *(([*GOOD, wrong], error, said) for wrong, error, said in refused("check_pairs")),
        ("a query", TypeError, "pairs: expected (query, passage) tuples, got str"),
        (None, TypeError, "pairs: expected (query, passage) tuples, got NoneType"),
        ([("q", f"p{i}") for i in range(40)], ValueError, "of 5 queries or more"),
        ([(f"q{i}", "p") for i in range(40)], ValueError, "not each with every passage"),
    ],
)
def test_pairs_nothing_can_be_fitted_on_are_refused(given, error, message):
    with pytest.raises(error, match=re.escape(message)):
        check_pairs(given)


def test_a_fifth_of_the_answered_queries_is_held_out_and_the_seed_chooses_which(checked):
    fitting, held_out = split_queries(checked, seed=0)
    assert len(held_out) == round(0.2 * len(checked.queries))
    assert sorted([*fitting, *held_out]) == list(range(len(checked.queries)))
    np.testing.assert_array_equal(held_out, split_queries(checked, seed=0)[1])
    assert held_out.tolist() != split_queries(checked, seed=1)[1].tolist()


def test_negatives_are_mined_for_each_fitting_query_and_are_never_known_answers(
    checked, embeddings
):
    fitting, held_out = split_queries(checked, seed=0)
    labelled = triples(training_pairs(checked, fitting, by_vectors(*embeddings), seed=0))
    answers = {(q, p) for q, p, label in labelled if label == 1}
    wrong = {(q, p) for q, p, label in labelled if label == 0}
    assert not answers & wrong
    assert {q for q, _ in answers} == {q for q, _ in wrong} == set(fitting)
    assert not {q for q, _, _ in labelled} & set(held_out)
    assert len(wrong) > 1.8 * len(fitting)


def test_one_negative_is_hard_and_the_other_random(checked, embeddings):
    queries, passages = embeddings
    fitting, _ = split_queries(checked, seed=0)
    labelled = training_pairs(checked, fitting, by_vectors(queries, passages), seed=0)
    similarity = np.einsum(
        "nd,nd->n", queries[labelled.query_index], passages[labelled.passage_index]
    )
    mined = similarity[labelled.labels == 0]
    hard, random = mined[: len(fitting)], mined[len(fitting) :]
    assert hard.mean() > random.mean() + 0.2


def test_given_negatives_are_used_and_not_mined_again():
    given = [(f"q{i}", f"p{i}", 1) for i in range(40)] + [(f"q{i}", "p0", 0) for i in range(1, 40)]
    checked = check_pairs(given)
    ones = np.ones((40, 4), dtype=np.float32) / 2
    labelled = triples(training_pairs(checked, np.arange(40), by_vectors(ones, ones), seed=0))
    first = checked.passages.index("p0")
    assert labelled[: len(given)] == [
        (q, p, label)
        for q, p, label in zip(
            checked.query_index, checked.passage_index, checked.labels, strict=True
        )
    ]
    assert all(p != first for _, p, _ in labelled[len(given) :])


def test_held_out_queries_are_shown_their_best_wrong_hits(checked, embeddings):
    queries, passages = embeddings
    _, held_out = split_queries(checked, seed=0)
    labelled = triples(held_out_pairs(checked, held_out, by_vectors(queries, passages)))
    assert {q for q, _, _ in labelled} == set(held_out)
    for query in held_out:
        similarity = queries[query] @ passages.T
        similarity[checked.positives[query]] = -np.inf
        wrong = {p for q, p, label in labelled if q == query and label == 0}
        assert wrong == set(np.argsort(-similarity)[:4])
        assert {p for q, p, label in labelled if q == query and label == 1} == set(
            checked.positives[query]
        )


def test_a_query_that_everything_answers_gets_no_negative():
    given = [("q0", f"p{i}") for i in range(40)] + [(f"q{i}", f"p{i}") for i in range(1, 10)]
    checked = check_pairs(given)
    rng = np.random.default_rng(0)
    queries, passages = rng.standard_normal((10, 4)), rng.standard_normal((40, 4))
    for labelled in (
        training_pairs(checked, np.arange(10), by_vectors(queries, passages), seed=0),
        held_out_pairs(checked, np.arange(10), by_vectors(queries, passages)),
    ):
        assert not [t for t in triples(labelled) if t[0] == 0 and t[2] == 0]
        assert [t for t in triples(labelled) if t[0] == 1 and t[2] == 0]
