"""Sources that do not crowd out others, and boosts that relevance survives."""

import math
from datetime import UTC, date, datetime

import numpy as np
import pytest

from tests.helpers import bag_of_words
from uec_rag import UEC, Retriever
from uec_rag.retrieval import Boost, Passage, Preferences, recency
from uec_rag.retrieval.gate import Gate


@pytest.fixture(scope="module")
def index(fitted, texts):
    """Two hundred passages, of every source five that resemble one another."""
    retriever = Retriever(fitted)
    chunks = [
        " ".join([*text.split()[:9], *texts[-1].split()[i : i + 3]])
        for text in texts[:40]
        for i in range(5)
    ]
    retriever.add(
        chunks,
        ids=[f"p{i}" for i in range(len(chunks))],
        metadatas=[{"source": f"s{i // 5}", "even": i % 2 == 0} for i in range(len(chunks))],
    )
    return retriever


def sources(result):
    return [[passage.metadata["source"] for passage in row] for row in result.passages]


EVEN = Boost(lambda passage: float(passage.metadata["even"]), weight=1.5)


class TestSources:
    def test_one_source_crowds_out_others_unless_told_not_to(self, index, queries):
        plain = index.search(queries, 6)
        assert max(len(row) - len(set(row)) for row in sources(plain)) >= 3
        found = index.search(queries, 6, prefer=Preferences(max_per_source=2))
        for row in sources(found):
            assert len(row) == 6
            assert max(row.count(source) for source in row) <= 2

    def test_it_is_the_best_that_the_limit_allows(self, index, queries):
        everything = index.search(queries, 200)
        found = index.search(queries, 10, prefer=Preferences(max_per_source=1))
        for ids, row in zip(found.ids, everything.passages, strict=True):
            first = {}
            for passage in row:
                first.setdefault(passage.metadata["source"], passage.id)
            assert ids == list(first.values())[:10]

    def test_scores_relevance_and_confidence_stay(self, index, queries):
        everything = index.search(queries[:1], 200)
        found = index.search(queries[:1], 4, prefer=Preferences(max_per_source=1))
        place = {id_: rank for rank, id_ in enumerate(everything.ids[0])}
        ranks = [place[id_] for id_ in found.ids[0]]
        np.testing.assert_allclose(found.scores[0], everything.scores[0, ranks], rtol=1e-5)
        np.testing.assert_allclose(found.relevance[0], everything.relevance[0, ranks], rtol=1e-4)
        plain = index.search(queries[:1], 4)
        np.testing.assert_allclose(found.confidence, plain.confidence, rtol=1e-5)

    def test_fewer_sources_than_hits_give_as_many_as_there_are(self, index, queries):
        prefer = Preferences(max_per_source=1)
        found = index.search(queries[:3], 10, prefer=prefer, filter={"source": "s3"})
        assert [len(row) for row in found.ids] == [1, 1, 1]
        assert len(index.search(queries[:2], 1000, prefer=prefer).ids[0]) == 40

    def test_a_passage_without_a_source_is_one_of_its_own(self, index, queries):
        prefer = Preferences(max_per_source=1, source_key="author")
        assert index.search(queries, 5, prefer=prefer).ids == index.search(queries, 5).ids

    def test_only_what_is_left_competes(self, index):
        prefer = Preferences(max_per_source=1)
        asked = [passage.text for passage in index.passages()][:100:5]
        for result in (index.search(asked, 5, prefer=prefer),):
            for ids, ambiguity, decision in zip(
                result.ids, result.ambiguous, result.decisions, strict=True
            ):
                assert ambiguity is None or set(ambiguity.candidates) <= set(ids)
                assert set(decision.candidates) <= set(ids)

    async def test_asynchronously(self, index, queries):
        prefer = Preferences(max_per_source=1, boosts=[EVEN])
        found = await index.asearch(queries, 5, prefer=prefer)
        assert found.ids == index.search(queries, 5, prefer=prefer).ids

    def test_no_count_is_refused(self):
        with pytest.raises(ValueError, match="expected an integer >= 1, got 0"):
            Preferences(max_per_source=0)


class TestBoosts:
    def test_the_order_is_that_of_scores_and_boosts_over_the_whole_corpus(self, index, queries):
        everything = index.search(queries, 200)
        found = index.search(queries, 7, prefer=Preferences(boosts=[EVEN]))
        gain = EVEN.weight / index.uec.fitted.slope
        for row, passages in enumerate(everything.passages):
            even = np.array([passage.metadata["even"] for passage in passages])
            best = np.argsort(-(everything.scores[row] + gain * even), kind="stable")[:7]
            assert found.ids[row] == [passages[place].id for place in best]

    def test_relevance_moves_by_the_log_odds_that_average_to_one_over_the_corpus(
        self, index, queries
    ):
        everything = index.search(queries[:1], 200)
        before = dict(zip(everything.ids[0], everything.relevance[0].tolist(), strict=True))
        found = index.search(queries[:1], 7, prefer=Preferences(boosts=[EVEN]))
        level = math.log((math.exp(1.5) + 1) / 2)  # one half of them are even
        for passage, after in zip(found.passages[0], found.relevance[0].tolist(), strict=True):
            odds = before[passage.id] / (1 - before[passage.id])
            moved = odds * math.exp(1.5 * passage.metadata["even"] - level)
            assert after == pytest.approx(moved / (1 + moved), rel=1e-3)

    def test_a_boost_for_all_changes_nothing(self, index, queries):
        plain = index.search(queries, 5)
        found = index.search(queries, 5, prefer=Preferences(boosts=[Boost(lambda _: 1.0, 3.0)]))
        assert found.ids == plain.ids
        np.testing.assert_allclose(found.relevance, plain.relevance, rtol=1e-4)
        np.testing.assert_allclose(found.scores, plain.scores, atol=1e-5)

    def test_passages_added_later_count_towards_the_average(self, small, queries):
        prefer = Preferences(boosts=[Boost(lambda p: float("new" in p.metadata), 2.0)])
        before = small.search(queries[:1], 3, prefer=prefer)
        small.add(["lumane"], ["late"], [{"new": True}])
        after = small.search(queries[:1], 30, prefer=prefer)
        place = after.ids[0].index(before.ids[0][0])
        assert after.relevance[0, place] < before.relevance[0, 0]

    @pytest.mark.filterwarnings("ignore:This UEC is not fitted")
    def test_of_an_ensemble_that_is_not_fitted_are_refused(self):
        retriever = Retriever(UEC([bag_of_words(8, "a")]))
        with pytest.raises(ValueError, match="prefer: boosts are log-odds"):
            retriever.search(["lumane"], prefer=Preferences(boosts=[EVEN]))

    def test_a_value_out_of_range_is_refused_by_its_passage(self, index, queries):
        with pytest.raises(ValueError, match=r"from 0 to 1 for passage 'p\d+', got 7"):
            index.search(queries, 3, prefer=Preferences(boosts=[Boost(lambda _: 7, 1.0)]))

    def test_a_gate_decides_on_what_is_preferred(self, index, queries):
        found = index.search(queries, 4, prefer=Preferences(boosts=[EVEN]))
        from uec_rag.confidence.risk import RiskThreshold

        gate = Gate(RiskThreshold(0.9, 0.1, 0.05, 100, 50, 2, 29), 4)
        assert len(gate.decide(found)) == len(queries)


class TestRecency:
    NOW = datetime(2026, 7, 31, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("written", "expected"),
        [
            ("2026-07-31", 2.0),
            ("2026-07-21T00:00:00+00:00", 1.0),
            (datetime(2026, 7, 11), 0.5),
            (date(2026, 7, 11), 0.5),
            ("2027-01-01", 2.0),
            (None, 0.0),
        ],
    )
    def test_it_halves_with_age(self, written, expected):
        boost = recency("date", half_life_days=10, weight=2.0, now=self.NOW)
        assert boost.at(Passage("a", "text", {"date": written})) == pytest.approx(expected)

    def test_what_is_no_date_is_refused(self):
        with pytest.raises(ValueError, match="Invalid isoformat"):
            recency("date", 10, 1.0).at(Passage("a", "text", {"date": "yesterday"}))
        with pytest.raises(ValueError, match="half_life_days: expected a number above 0"):
            recency("date", 0, 1.0)
