"""A question in a language that an ensemble was not fitted on is noticed and named."""

import warnings

import numpy as np
import pytest

from tests.helpers import WORDS, bag_of_words, by_name, found_by, index_of, pairs, passages
from uec_rag import UEC, Retriever

CHARACTERS = [chr(0x4E00 + 7 * number) for number in range(len(WORDS))]
IN_CHINESE = dict(zip(WORDS, CHARACTERS, strict=True))


def translated(text):
    return "".join(IN_CHINESE[word] for word in text.split())


def english(dimension, name, seed=0):
    """A model of one language: to it letters of another are hardly more than one unknown word."""
    words = bag_of_words(dimension, name, seed)

    def embed(texts):
        known = [t if t.isascii() else "unknown " * 30 + " ".join(t) for t in texts]
        return words(known)

    embed.__name__ = name
    return embed


def told_in_english(uec, texts):
    retriever = index_of(uec, texts)
    retriever.language = "en"
    return retriever


@pytest.fixture(scope="module")
def uec():
    return UEC([english(64, "fine"), english(24, "coarse", seed=1)]).fit(pairs(200))


@pytest.fixture(scope="module")
def chinese():
    return [translated(text) for text in passages(60, seed=3)]


def test_a_question_in_a_foreign_language_lowers_confidence_and_is_named(uec, chinese):
    retriever = told_in_english(uec, chinese)
    result = retriever.search([translated(" ".join(WORDS[:3])), "1984"], k=4)
    strange, plain = result.decisions
    assert "was not fitted on questions in Chinese or Japanese characters" in strange.reason
    assert plain.unfamiliar == ""
    assert result[0].metadata(0, details=True)["uec_unfamiliar"] == strange.unfamiliar
    assert "uec_unfamiliar" not in result[1].metadata(0, details=True)
    assert strange.reason.endswith(f"Note: {result.decide(0.99)[0].unfamiliar}.")


def test_a_question_is_in_the_letters_of_its_own_text_whatever_the_turns_before_it_are_in(
    uec, chinese
):
    retriever = told_in_english(uec, passages(60, seed=3))
    english, foreign = " ".join(WORDS[:3]), translated(" ".join(WORDS[:3]))
    after = retriever.search([english, foreign], 4, history=[chinese[:2], [english] * 2])
    assert after[0].decision.unfamiliar == ""
    assert "Chinese or Japanese characters" in after[1].decision.unfamiliar


@pytest.mark.slow
def test_words_are_not_misled_by_a_foreign_language(chinese):
    fitted = UEC([english(64, "fine"), "bm25"]).fit(pairs(200))
    result = index_of(fitted, chinese).search([chinese[0][:6]], k=4)
    assert result[0].decision.unfamiliar


def test_another_language_in_the_same_letters_is_told_and_nothing_is_taken_off(uec):
    retriever = told_in_english(uec, passages(60, seed=3))
    question = "wer hat das " + " ".join(WORDS[:3])
    with_it = retriever.search([question], 4)
    assert "Latin letters, not English" in with_it.decisions[0].reason


def test_a_question_in_other_letters_than_its_hits_is_named():
    both = UEC([bag_of_words(64, "fine")]).fit(
        [*pairs(100), *((translated(q), translated(p)) for q, p in pairs(100, seed=1))]
    )
    retriever = told_in_english(both, passages(60, seed=3))
    result = retriever.search([translated(" ".join(WORDS[:3])), " ".join(WORDS[:3])], k=4)
    assert result[0].decision.unfamiliar.endswith("its first hit is not")
    assert result[1].decision.unfamiliar == ""


def test_hits_without_letters_make_no_question_unfamiliar(uec):
    retriever = told_in_english(
        uec, [f"{year} {year // 7} {year // 11}" for year in range(1900, 1960)]
    )
    assert retriever.search([" ".join(WORDS[:3])], k=4)[0].decision.unfamiliar == ""


def test_what_was_learned_from_labels_of_the_corpus_is_not_lowered(uec, chinese):
    questions = [text[:4] for text in chinese[:40]]
    with warnings.catch_warnings(action="ignore"):
        retriever = Retriever(uec)
        ids = retriever.add(chinese)
        assert all(one.unfamiliar for one in retriever.search(questions, 4).decisions)
        retriever.calibrate(questions, [[id_] for id_ in ids[:40]])
    assert not any(one.unfamiliar for one in retriever.search(questions, 4).decisions)


def test_what_a_fit_was_like_is_saved_with_it(uec, tmp_path):
    uec.save(tmp_path / "uec")
    again = UEC.load(tmp_path / "uec", encoders=by_name(uec))
    assert again.fitted.training_profile == uec.fitted.training_profile
    assert again.fitted.training_profile.writings == ("Latin letters",)


@pytest.mark.slow
def test_of_a_question_in_foreign_letters_words_alone_are_asked_what_they_think():
    uec = UEC([english(64, "fine"), "bm25"]).fit(pairs(200))
    corpus = [*passages(60, seed=3), *map(translated, passages(60, seed=4))]
    with warnings.catch_warnings(action="ignore"):
        retriever = told_in_english(uec, corpus)
    found = found_by(retriever, [corpus[0], corpus[-1]])
    parts = uec.encode([corpus[0], corpus[-1]], "query")
    own = uec.fitted.member_logits(
        parts, np.stack([one.block.similarities[one.row, :, 0] for one in found])
    )
    heard = np.stack([own[0], [own[1, 1]] * 2]) / retriever._method().model.temperature
    expected = np.stack([heard.max(axis=1), heard.mean(axis=1)], axis=1)
    seen = np.concatenate([one.features.in_corpus[:, 1:3] for one in found])
    np.testing.assert_allclose(seen, expected, rtol=1e-4)
