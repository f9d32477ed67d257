import numpy as np
import pytest

from benchmarks.paper import tiny
from benchmarks.paper.plan import make_plan
from benchmarks.paper.systems import Ensemble, Fused, NotApplicable, System, Vectors, ranking
from benchmarks.paper.tasks import (
    BitextMining,
    Classification,
    Clustering,
    Reranking,
    Retrieval,
    SemanticSimilarity,
)
from uec_rag import UEC
from uec_rag.base.gaussian import Gaussian


class Knowing(System):
    """Vectors that a table gives; cosine."""

    name = family = "knowing"

    def __init__(self, vectors):
        self.vectors = vectors

    def embed(self, texts, role):
        mean = np.stack([self.vectors[text] for text in texts])
        return Gaussian(mean, np.zeros_like(mean))

    def similarities(self, queries, passages):
        return self.embed(queries, "query").mean @ self.embed(passages, "passage").mean.T


@pytest.fixture(scope="module")
def tasks(tiny_data):
    made = make_plan(tiny_data, sets=tiny.SETS, fit=[tiny.FIT], proxy=tiny.PROXY)
    return {task.kind: task for task in made.tasks}


def one_hot(index, count):
    return np.eye(count, dtype=np.float32)[index]


def places(collection):
    """Each passage on an axis of its own."""
    count = len(collection.passages)
    return {text: one_hot(i, count) for i, text in enumerate(collection.passages.values())}


def place_of(collection, query):
    """Where a query's relevant passages are."""
    ids = list(collection.passages)
    return sum(one_hot(ids.index(passage), len(ids)) for passage in collection.relevant[query])


def test_a_system_that_knows_the_answers_is_perfect_at_search(tasks):
    task = tasks["retrieval"]
    assert isinstance(task, Retrieval)
    vectors = places(task.data)
    for query, text in task.data.queries.items():
        vectors[text] = place_of(task.data, query)
    found = task.evaluate(Knowing(vectors))
    assert found["ndcg10"] == found["recall10"] == found["recall100"] == 1
    assert np.isnan(found["auc10"])  # nothing to abstain on


def test_auc_is_high_where_wrong_queries_have_low_scores(tasks):
    task = tasks["retrieval"]
    ids = list(task.data.passages)
    vectors = places(task.data)
    for number, (query, text) in enumerate(task.data.queries.items()):
        vectors[text] = place_of(task.data, query)
        if number % 3 == 0:  # finds one passage that is not relevant, with a low score
            stranger = next(i for i, p in enumerate(ids) if p not in task.data.relevant[query])
            vectors[text] = 0.1 * one_hot(stranger, len(ids)) - vectors[text]
    assert task.evaluate(Knowing(vectors))["auc10"] == pytest.approx(1)


def test_reranking_orders_only_a_querys_own_candidates(tasks):
    task = tasks["reranking"]
    assert isinstance(task, Reranking)
    count = len(task.data.passages)
    ids = list(task.data.passages)
    vectors = places(task.data)
    for query, text in task.data.queries.items():
        # Best of all is a passage that is no candidate; of the candidates, the relevant one.
        stranger = next(i for i, name in enumerate(ids) if name not in task.candidates[query])
        vectors[text] = 2 * one_hot(stranger, count) + place_of(task.data, query)
    assert task.evaluate(Knowing(vectors)) == {"map": 1.0}


def test_texts_of_one_class_in_one_place_are_classified_and_clustered(tasks):
    for kind, expected in (("classification", Classification), ("clustering", Clustering)):
        task = tasks[kind]
        assert isinstance(task, expected)
        labelled = [task.train, task.data] if kind == "classification" else [task.data]
        names = sorted({label for part in labelled for label in part.labels})
        vectors = {
            text: one_hot(names.index(label), len(names))
            for part in labelled
            for text, label in zip(part.texts, part.labels, strict=True)
        }
        found = task.evaluate(Knowing(vectors))
        assert min(found.values()) == pytest.approx(1), kind


def test_similarity_ranks_as_people_do_and_var_ece_is_the_error_left(tasks):
    task = tasks["sts"]
    assert isinstance(task, SemanticSimilarity)

    class Exact(Knowing):
        def pair_moments(self, first, second):
            return task.data.scores, np.zeros_like(task.data.scores)

    assert task.evaluate(Exact({})) == {"spearman": pytest.approx(1), "var_ece": 0}


def test_translations_are_found(tasks):
    task = tasks["bitext"]
    assert isinstance(task, BitextMining)
    count = len(task.data.first)
    vectors = {
        text: one_hot(i, count)
        for pair in (task.data.first, task.data.second)
        for i, text in enumerate(pair)
    }
    assert task.evaluate(Knowing(vectors)) == {"f1": 1.0}


def test_rank_fusion_has_no_embeddings(tasks, bags):
    fused = Fused("x", "x", [Vectors("one", "x", bags[:1], lambda p: p[0])], lambda m: m[0])
    assert tasks["retrieval"].evaluate(fused)["ndcg10"] > 0
    for kind in ("classification", "sts"):
        with pytest.raises(NotApplicable, match="rank fusion"):
            tasks[kind].evaluate(fused)


def test_a_calibrated_ensemble_ranks_like_the_plain_one_and_is_confident_in_its_own_way(
    tasks, bags, tiny_data
):
    pairs = make_plan(tiny_data, sets=tiny.SETS, fit=[tiny.FIT]).pairs
    uec = UEC(bags, coefficients="uniform").fit(pairs)
    task = tasks["retrieval"]
    plain, calibrated = (
        Ensemble("x", "x", uec, calibrated=kind).search(
            list(task.data.queries.values()), task.data.passages, 10
        )
        for kind in (False, True)
    )
    # Readings that are offered take the places of the last hits.
    first = [[ids[:4] for ids in system.ids] for system in (plain, calibrated)]
    assert first[0] == first[1]
    np.testing.assert_allclose(plain.scores[:, :4], calibrated.scores[:, :4], rtol=1e-5)
    assert not np.allclose(plain.confidence, calibrated.confidence)


def test_a_ranking_is_of_the_best_columns_best_first():
    found = ranking(np.float32([[0.1, 0.9, 0.5], [0.3, 0.2, 0.1]]), ["a", "b", "c"], 2)
    assert found.ids == [["b", "c"], ["a", "b"]]
    np.testing.assert_allclose(found.confidence, [0.9, 0.3])
