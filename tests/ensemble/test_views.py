"""Views of a question in a conversation: their texts, their weights, and their mixture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uec_rag.base.gaussian import Gaussian
from uec_rag.base.postings import Corpus, Postings
from uec_rag.encoders import Lexical
from uec_rag.ensemble.fitted import blocks_of
from uec_rag.ensemble.views import (
    SHIPPED,
    Spoken,
    ViewWeights,
    in_context,
    mix_views,
    prominence,
)

PASSAGES = [
    "A garage door opener costs 200 dollars.",
    "Repairing a fence costs 90 dollars.",
    "Openers have a motor.",
]


def words(*texts: str) -> Gaussian:
    encoded = Lexical().encode(texts, "query")
    return Gaussian.certain(encoded.embedding, blocks_of(encoded))


def bm25(part: Gaussian) -> np.ndarray:
    held = Lexical().encode(PASSAGES, "passage").terms
    assert held is not None
    return Postings.of(held).similarities(part.terms[0], Corpus(len(PASSAGES)))


def test_a_question_without_turns_before_is_its_own_context():
    assert in_context("How much is it?", []) == "How much is it?"


@given(st.lists(st.text("ab 门\n", max_size=900), max_size=6))
def test_a_context_ends_with_the_question_and_leaves_room_for_an_encoder_to_read_it(turns):
    text = in_context("Why?", turns)
    assert text.endswith("Why?")
    assert len(text.encode()) <= 1500 + len(turns) + len("Why?")


def test_the_latest_turns_stay_where_there_is_no_room_for_all():
    text = in_context("Why?", ["first", "x" * 800, "y" * 800])
    assert text == "y" * 800 + "\nWhy?"


def test_prominence_is_the_best_over_the_mean_of_the_next_nine():
    logits = np.zeros((1, 50), dtype=np.float32)
    logits[0, 7] = np.e - 1
    assert prominence(logits) == pytest.approx([1.0])


def test_prominence_of_a_single_passage_is_zero_and_of_none_an_error():
    assert prominence(np.ones((2, 1), dtype=np.float32)).tolist() == [0, 0]
    with pytest.raises(ValueError, match="m >= 1 passages"):
        prominence(np.ones((2, 0), dtype=np.float32))


def test_what_finds_its_passage_alone_leans_less_on_the_turns_before():
    found, lost = SHIPPED.shares(np.float32([3, 0]), [True, True])
    assert 0 < found < lost < 1


def test_a_question_without_history_has_no_second_view():
    assert SHIPPED.shares(np.float32([0, 0]), [True, False])[1] == 0


def test_evidence_of_different_lengths_is_refused():
    with pytest.raises(ValueError, match="2 and 1"):
        SHIPPED.shares(np.float32([0, 0]), [True])


def test_weights_come_back_as_they_were_saved():
    assert ViewWeights.restore(SHIPPED.metadata()) == SHIPPED


def test_a_share_of_zero_leaves_a_question_as_it_is_to_the_bit():
    alone, together = words("How much?"), words("My door opener broke.\nHow much?")
    mixed = mix_views(alone, together, np.zeros(1, dtype=np.float32))
    assert np.array_equal(bm25(mixed), bm25(alone))
    assert mixed.terms[0].keys.tolist() == alone.terms[0].keys.tolist()


def test_a_share_of_one_is_the_context():
    alone, together = words("How much?"), words("My door opener broke.\nHow much?")
    assert np.allclose(bm25(mix_views(alone, together, np.float32([1]))), bm25(together))


def test_each_question_of_a_batch_has_a_share_of_its_own():
    alone = words("How much?", "A motor")
    together = words("A fence\nHow much?", "A fence\nA motor")
    both = mix_views(alone, together, np.float32([0.3, 0.7]))
    for row, share in enumerate((0.3, 0.7)):
        one = mix_views(alone[[row]], together[[row]], np.float32([share]))
        assert np.allclose(bm25(both)[row], bm25(one)[0], atol=1e-6)


@given(st.floats(0, 1, width=32))
def test_means_and_similarities_are_convex_combinations_and_variances_those_of_a_convolution(p):
    rng = np.random.default_rng(0)
    profile = rng.random((1, 5))
    alone, together = (
        Gaussian.factored(rng.normal(size=(3, 5)), rng.random((3, 1)), profile) for _ in range(2)
    )
    mixed = mix_views(alone, together, np.full(3, p, dtype=np.float32))
    assert np.allclose(mixed.mean, (1 - p) * alone.mean + p * together.mean, atol=1e-6)
    expected = (1 - p) ** 2 * alone.variance + p**2 * together.variance
    assert np.allclose(mixed.variance, expected, atol=1e-6)


def test_variances_that_are_not_factored_mix_alike():
    one, other = Gaussian([[1.0, 0]], [[0.4, 0]]), Gaussian([[0, 1.0]], [[0, 0.8]])
    mixed = mix_views(one, other, np.float32([0.5]))
    assert np.allclose(mixed.variance, [[0.1, 0.2]])


def test_labels_of_both_views_stay_readable():
    mixed = mix_views(words("cost"), words("door\ncost"), np.float32([0.5]))
    assert mixed.terms[0].labels is not None
    assert sorted(mixed.terms[0].labels[0].values()) == ["cost", "door"]


def test_views_of_two_encoders_or_of_other_questions_are_refused():
    one, two = Gaussian.certain([[1.0, 0]]), Gaussian.certain([[1.0, 0, 0]])
    with pytest.raises(ValueError, match="one encoder"):
        mix_views(one, two, np.float32([0.5]))
    with pytest.raises(ValueError, match=r"\[1, 1, 2\]"):
        mix_views(one, one, np.float32([0.5, 0.5]))


BACK = "Do you mean rsync, git add or git push?"


@pytest.mark.parametrize(
    ("said", "turns", "searched"),
    [
        ("How?", ["Who?"], Spoken("How?", ["Who?"])),
        ("rsync", [BACK], Spoken("rsync", [BACK])),
        ("Rsync.", ["How?", BACK], Spoken("How?", [], "rsync")),
        ("rsync", ["Who?", "How?", BACK], Spoken("How?", ["Who?"], "rsync")),
        ("the one of rsync", ["How?", BACK], Spoken("How?\nthe one of rsync", [])),
        ("neither", ["How?", BACK], Spoken("neither", ["How?", BACK])),
        ("rsync", ["How?", BACK, "git add", BACK], Spoken("How?", [], "rsync")),
    ],
)
def test_a_reply_completes_the_question_that_was_asked_back_about(said, turns, searched):
    assert Spoken.of(said, turns) == searched
