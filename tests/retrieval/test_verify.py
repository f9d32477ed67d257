import logging
import warnings

import numpy as np
import pytest

from tests.helpers import (
    agree,
    bag_of_words,
    by_name,
    index_of,
    labelled,
    of_members,
    rightness,
    shared_words,
)
from uec_rag import UEC, Retriever
from uec_rag.encoders.verifier import FunctionVerifier
from uec_rag.retrieval.gate import Gate

K = 10


def failing_at(word, verified):
    """The ensemble of an index, whose verifier fails at questions that hold a word, and may."""

    def failing(query, texts):
        if word in query:
            raise ValueError("too many tokens")
        return shared_words(query, texts)

    failing.__name__ = "shared_words"
    uec = UEC(verified.uec.encoders, verifier=failing, on_error="drop")
    uec.fitted = verified.uec.fitted
    return uec


@pytest.fixture(scope="module")
def members():
    return [bag_of_words(16, "coarse"), bag_of_words(8, "coarser", seed=1)]


@pytest.fixture(scope="module")
def plain(members, fit_pairs, texts):
    return index_of(UEC(members).fit(fit_pairs), texts)


@pytest.fixture(scope="module")
def verified(members, fit_pairs, texts):
    return index_of(UEC(members, verifier=shared_words, verify_k=6).fit(fit_pairs), texts)


@pytest.fixture(scope="module")
def asking(texts):
    """Queries of which a fifth is answered by nothing, and the ids that answer them."""
    return labelled(texts, 150, seed=3, unanswerable=0.2)


@pytest.fixture(scope="module")
def calibrated(verified, texts, asking):
    return index_of(verified.uec, texts).calibrate(*asking, k=4)


class TestHits:
    def test_the_first_hits_are_ordered_anew_and_the_others_stay_as_they_were(
        self, plain, verified, queries
    ):
        before, after = (index.search(queries, 30) for index in (plain, verified))
        assert [set(ids[:6]) for ids in after.ids] == [set(ids[:6]) for ids in before.ids]
        assert [ids[:6] for ids in after.ids] != [ids[:6] for ids in before.ids]
        assert [ids[6:] for ids in after.ids] == [ids[6:] for ids in before.ids]
        for name in ("scores", "mu", "sigma2"):
            np.testing.assert_array_equal(getattr(after, name)[:, 6:], getattr(before, name)[:, 6:])
        assert after.exact

    def test_scores_fall_and_fewer_hits_are_the_first_of_more(self, verified, queries):
        more = verified.search(queries, 30)
        assert (np.diff(more.scores, axis=1) <= 0).all()
        for k in (1, 4, 6, 8):
            fewer = verified.search(queries, k)
            assert fewer.ids == [ids[:k] for ids in more.ids]
            np.testing.assert_allclose(fewer.scores, more.scores[:, :k], rtol=1e-6)
            np.testing.assert_allclose(fewer.confidence, more.confidence, atol=1e-5)
            np.testing.assert_allclose(fewer.in_corpus, more.in_corpus, rtol=1e-5)
            agree(fewer)

    def test_every_hit_says_what_the_verifier_made_of_it(self, verified, queries):
        result = verified.search(queries, 8)
        texts = {passage.id: passage.text for passage in verified.passages()}
        for row, query in enumerate(queries):
            told = [result[row].metadata(rank, details=True)["uec_members"] for rank in range(8)]
            own = [hit["shared_words"] for hit in told]
            shared = shared_words(query, [texts[id_] for id_ in result.ids[row]])
            assert [hit["similarity"] for hit in own[:6]] == shared[:6]
            ranks = [1 + sum(other > one for other in shared[:6]) for one in shared[:6]]
            assert [hit["rank"] for hit in own[:6]] == ranks
            assert own[6:] == [{"similarity": None, "rank": None, "share": 0.0}] * 2
            for hit in told:
                assert sum(member["share"] for member in hit.values()) == pytest.approx(1, abs=1e-5)

    def test_what_it_adds_is_its_share_of_the_similarity(self, verified, queries):
        result, fitted = verified.search(queries, 6), verified.uec.fitted
        np.testing.assert_allclose(of_members(result, "counted").sum(axis=1), result.mu, atol=1e-4)
        own = of_members(result, "similarities")[:, 2]
        slope = fitted.verifier.summary.slope / 2 / fitted.slope
        gain = slope * (own - own.min(axis=1, keepdims=True))
        np.testing.assert_allclose(of_members(result, "counted")[:, 2], gain, atol=1e-5)

    def test_many_queries_are_read_in_one_call(self, members, fit_pairs, texts, queries):
        calls = []

        class Counting(FunctionVerifier):
            def score(self, asked, found):
                calls.append((list(asked), [len(own) for own in found]))
                return super().score(asked, found)

        index = index_of(UEC(members, verifier=Counting(shared_words)).fit(fit_pairs), texts)
        calls.clear()
        index.search(queries, 3)
        assert calls == [(queries, [20] * len(queries))]

    @pytest.mark.parametrize("k", [1, 4, 20])
    def test_a_text_that_is_stored_often_is_read_once_for_all_and_moves_no_number(
        self, fit_pairs, texts, queries, k
    ):
        uec = UEC([bag_of_words(16, "coarse")], verifier=shared_words, verify_k=6).fit(fit_pairs)
        distinct = list(dict.fromkeys(texts))
        index = index_of(uec, distinct)
        for query in queries[:8]:
            once = index.search([query], k)
            index.add([once.passages[0][0].text] * 9, [f"copy{i}" for i in range(9)])
            many = index.search([query], k)
            index.delete([f"copy{i}" for i in range(9)])
            for name in ("scores", "relevance"):
                first = getattr(many, name)[0, :10]
                np.testing.assert_allclose(first, getattr(once, name)[0, 0], rtol=0.02)
            np.testing.assert_allclose(many.in_corpus, once.in_corpus, atol=0.02)
            np.testing.assert_allclose(many.confidence, once.confidence, atol=0.02)
            agree(many)

    def test_questions_that_find_different_numbers_of_texts_are_read_together(
        self, fit_pairs, texts, queries
    ):
        uec = UEC([bag_of_words(16, "coarse")], verifier=shared_words, verify_k=50).fit(fit_pairs)
        index = index_of(uec, list(dict.fromkeys(texts)))
        [best] = index.search(queries[:1], 1).passages[0]
        index.add([best.text] * 80, [f"copy{i}" for i in range(80)])
        found = index.search(queries[:2])
        assert found.ids[1] == index.search(queries[1:2]).ids[0]
        np.testing.assert_allclose(found.confidence, index.search(queries[:2], 60).confidence)

    def test_a_corpus_smaller_than_what_it_reads_and_one_of_nothing(self, verified, texts):
        small = index_of(verified.uec, texts[:3])
        result = small.search([texts[1]], 10)
        assert result.ids[0][0] == "p1"
        assert len(result.ids[0]) == 3
        assert index_of(verified.uec, []).search(["bafigo"], 3).ids == [[]]

    def test_diverse_hits_and_filters_know_it(self, verified, texts):
        assert verified.search_diverse([texts[7]], 3).ids[0][0] == "p7"
        index = index_of(
            verified.uec, texts, metadatas=[{"even": i % 2 == 0} for i in range(len(texts))]
        )
        found = index.search([texts[7]], 6, filter={"even": True})
        assert all(int(id_[1:]) % 2 == 0 for id_ in found.ids[0])
        own = of_members(found, "similarities")[0, 2]
        assert (np.diff(own) <= 0).sum() >= 3

    def test_it_reads_what_is_found_in_a_conversation_with_the_turns_or_without(
        self, verified, texts
    ):
        alone = verified.search(texts, 5)
        behind = verified.search(texts, 5, history=[[text] for text in reversed(texts)])
        assert all(one.verified for one in behind)
        stand_alone = [one.ids == two.ids for one, two in zip(behind, alone, strict=True)]
        assert 0 < sum(stand_alone) < len(texts)
        turns = [[texts[0], text] for text in reversed(texts)]
        after_two = verified.search(texts, 5, history=turns)
        assert all(one.verified for one in after_two)
        with_latest = [one.ids == two.ids for one, two in zip(after_two, behind, strict=True)]
        assert sum(stand_alone) < sum(with_latest)


class TestConfidence:
    def test_it_is_learned_with_the_verifier_and_knows_better(self, plain, verified, asking):
        queries, relevant = asking
        surprise = []
        for index in (plain, verified):
            result = index.search(queries, 4)
            right = rightness(result, relevant).any(axis=1)
            surprise.append(np.mean((result.confidence - right) ** 2))
        assert surprise[1] < surprise[0]

    @pytest.mark.parametrize(
        "extreme",
        [
            lambda scores: np.where(scores > scores.mean(), 1e38, -1e38),
            lambda scores: np.where(np.arange(len(scores)) == 0, 3e38, scores),
            lambda scores: np.full(len(scores), -1e38),
        ],
        ids=["both ends", "one", "all"],
    )
    def test_of_scores_beyond_all_measure_it_is_a_number(
        self, members, fit_pairs, verified, queries, extreme
    ):
        def beyond(query, texts):
            return extreme(np.array(shared_words(query, texts), dtype=float)).tolist()

        beyond.__name__ = "shared_words"
        after_the_fit = UEC(verified.uec.encoders, verifier=beyond, verify_k=6)
        after_the_fit.fitted = verified.uec.fitted
        texts = [passage.text for passage in verified.passages()]
        fitted_on_it = UEC(members, verifier=beyond, verify_k=6).fit(fit_pairs)
        for uec in (after_the_fit, fitted_on_it):
            found = index_of(uec, texts).search(queries, K)
            assert found.verified
            for numbers in (found.scores, found.sigma2, found.relevance, found.by_cutoff):
                assert np.isfinite(numbers).all()
            assert ((found.confidence >= 0) & (found.confidence <= 1)).all()

    def test_calibrating_asks_it_and_lowers_the_error_of_relevance(self, members, fit_pairs, texts):
        """In a corpus that answers fewer of the questions than a fit can know."""
        index = index_of(UEC(members, verifier=shared_words).fit(fit_pairs), texts[:60])
        queries, relevant = labelled(texts, 400, seed=4)
        relevant = [[id_ for id_ in own if int(id_[1:]) < 60] for own in relevant]
        result = index.search(queries[:200], K)
        right = rightness(result, relevant[:200])
        index.calibrate(queries[200:], relevant[200:])
        after = index.search(queries[:200], K)
        assert after.ids == result.ids
        error, before = (((r.relevance - right) ** 2).mean() for r in (after, result))
        assert error < 0.9 * before

    def test_where_it_fails_and_may_the_search_is_that_without_it(
        self, plain, verified, queries, caplog
    ):
        uec = failing_at("", verified)
        index = Retriever(uec, verified.store)
        with caplog.at_level(logging.WARNING):
            found = index.search(queries, 4)
        assert f"is left out for {len(queries)} queries: ValueError: too many tokens" in caplog.text
        expected = plain.search(queries, 4)
        assert found.ids == expected.ids
        np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-6)
        assert set(found[0].metadata(0, details=True)["uec_members"]) == {"coarse", "coarser"}
        uec.on_error = "raise"
        with pytest.raises(ValueError, match="too many tokens"):
            index.search(queries, 4)


def test_a_gate_is_told_where_the_verifier_failed_on_a_part(verified, queries, monkeypatch):
    monkeypatch.setattr("uec_rag.retrieval.pipeline._BLOCK", 1)
    index = Retriever(failing_at(queries[1].split()[0], verified), verified.store)
    gate = Gate.budget(index, [queries[0]], k=4)
    with warnings.catch_warnings(action="error"):
        gate.decide(index.search([queries[0]] * 2, 4))
    for asked in ([queries[1]], queries[:2], queries[1::-1]):
        found = index.search(asked, 4)
        assert not found.verified
        assert found.basis == index.basis(verified=False) != index.basis()
        with pytest.warns(UserWarning, match="The gate was made with another calibration"):
            gate.decide(found)


def test_where_nothing_is_found_no_verifier_failed(verified):
    found = index_of(verified.uec, []).search(["bafigo"], 3)
    assert found.verified
    assert found.basis == verified.basis()


class TestCalibration:
    def test_it_knows_who_read_when_it_was_learned(self, calibrated, plain, texts, asking):
        fingerprint = calibrated.uec.verification.fingerprint
        assert calibrated.calibration.verifier == fingerprint
        assert index_of(plain.uec, texts).calibrate(*asking).calibration.verifier is None

    def test_of_a_saved_index_it_counts_with_the_same_verifier_alone(
        self, calibrated, plain, tmp_path
    ):
        calibrated.save(tmp_path / "index")
        given = by_name(plain.uec) | {"shared_words": shared_words}
        back = Retriever.load(tmp_path / "index", encoders=given)
        assert back.calibration == calibrated.calibration
        assert plain.uec.fingerprint == calibrated.uec.fingerprint
        with pytest.warns(UserWarning, match="calibrated with another verifier"):
            without = Retriever.load(tmp_path / "index", plain.uec)
        assert without.calibration is None
        assert without.basis() == plain.basis()
