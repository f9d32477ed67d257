"""Sources that do not crowd out others."""

import numpy as np
import pytest

from tests.helpers import agree, index_of
from uec_rag import Retriever
from uec_rag.retrieval import Preferences
from uec_rag.retrieval.gate import Gate


@pytest.fixture(scope="module")
def index(fitted, texts):
    """Two hundred passages, of every source five that resemble one another."""
    chunks = [
        " ".join([*text.split()[:9], *texts[-1].split()[i : i + 3]])
        for text in texts[:40]
        for i in range(5)
    ]
    metadatas = [{"source": f"s{i // 5}", "even": i % 2 == 0} for i in range(len(chunks))]
    return index_of(fitted, chunks, metadatas=metadatas)


def sources(result):
    return [[passage.metadata["source"] for passage in row] for row in result.passages]


class TestSources:
    def test_one_source_crowds_out_others_unless_told_not_to(self, index, queries):
        plain = index.search(queries, 6)
        assert max(len(row) - len(set(row)) for row in sources(plain)) >= 3
        found = index.search(queries, 6, prefer=Preferences(max_per_source=2))
        for row in sources(found):
            assert len(row) == 6
            assert max(row.count(source) for source in row) <= 2

    def test_a_diverse_search_chooses_among_what_is_preferred(self, index, queries):
        found = index.search_diverse(queries, 6, prefer=Preferences(max_per_source=1))
        assert all(len(row) == len({*row}) == 6 for row in sources(found))

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
        most = np.minimum(plain.confidence, found.relevance.sum(axis=1))
        np.testing.assert_allclose(found.confidence, most, rtol=1e-5)

    def test_what_is_shown_agrees_whatever_is_preferred(self, index, queries):
        for prefer in (Preferences(max_per_source=1), Preferences(distinct=True)):
            for k in (1, 4):
                agree(index.search(queries, k, prefer=prefer, unanswerable=0.5))
        agree(index.diversify(index.search(queries, 20), 4, 0.1))

    def test_confidence_does_not_depend_on_how_many_are_asked_for(self, index, queries):
        prefer = Preferences(max_per_source=1)
        few, more = (index.search(queries, k, prefer=prefer) for k in (1, 4))
        np.testing.assert_allclose(few.confidence, more.confidence, rtol=1e-6)
        assert few.ids == [ids[:1] for ids in more.ids]
        wide = index.search(queries, 30)
        few, more = (index.diversify(wide, k, 0.3) for k in (2, 4))
        np.testing.assert_allclose(few.confidence, more.confidence, rtol=1e-6)

    def test_fewer_sources_than_hits_give_as_many_as_there_are(self, index, queries):
        prefer = Preferences(max_per_source=1)
        found = index.search(queries[:3], 10, prefer=prefer, filter={"source": "s3"})
        assert [len(row) for row in found.ids] == [1, 1, 1]
        assert len(index.search(queries[:2], 1000, prefer=prefer).ids[0]) == 40

    def test_a_passage_without_a_source_is_one_of_its_own(self, index, queries):
        prefer = Preferences(max_per_source=1, source_key="author")
        assert index.search(queries, 5, prefer=prefer).ids == index.search(queries, 5).ids

    def test_a_text_that_is_there_many_times_is_one_hit_where_asked(self, fitted, texts):
        index, query = Retriever(fitted), " ".join(texts[3].split()[:6])
        index.add(texts[:40], [f"p{i}" for i in range(40)])
        plain = index.search([query], 5)
        index.add([texts[3]] * 30, [f"c{i}" for i in range(30)])
        assert index.search([query], 5).ids == [["p3", "c0", "c1", "c2", "c3"]]
        found = index.search([query], 5, prefer=Preferences(distinct=True))
        assert found.ids == plain.ids
        # The coefficients look at the best passages, of which the copies are many.
        assert found.confidence == pytest.approx(plain.confidence, abs=0.1)
        assert found[0].metadata(0)["uec_copies"] == [f"c{i}" for i in range(30)]
        assert "uec_copies" not in found[0].metadata(1)
        both = Preferences(distinct=True, max_per_source=1, source_key="none")
        assert index.search([query], 50, prefer=both).scores.shape == (1, 40)

    def test_no_count_is_refused(self):
        with pytest.raises(ValueError, match="expected an integer >= 1, got 0"):
            Preferences(max_per_source=0)

    def test_a_gate_decides_on_what_is_preferred(self, index, queries):
        found = index.search(queries, 4, prefer=Preferences(max_per_source=1))
        assert len(Gate(0.9).decide(found)) == len(queries)
