"""One query, from its candidates to its decision."""

from itertools import pairwise

import numpy as np
import pytest

from tests.helpers import (
    agree,
    bag_of_words,
    data_of,
    database_of,
    found_by,
    index_of,
    labelled,
    load_index,
)
from uec_rag import UEC, IndexCorrupted, Retriever
from uec_rag.confidence.decision import CLARIFY_FROM
from uec_rag.confidence.model import NEAREST, READ, Examples
from uec_rag.documents import passages_of
from uec_rag.documents.python_docs import gather_corpus
from uec_rag.index.learn import labelled_examples, without_answers
from uec_rag.questions.phrasing import Phrasing
from uec_rag.retrieval.diversity import Diversity
from uec_rag.retrieval.rankings import find
from uec_rag.stores import LocalStore
from uec_rag.stores.qdrant import QdrantStore


def in_qdrant():
    """A store elsewhere, of whose passages all are candidates."""
    return QdrantStore(location=":memory:", candidates=1000)


STORES = {"memory": LocalStore, "qdrant": in_qdrant}


@pytest.fixture(scope="module", params=["fitted", "with_words", "unfitted"])
def copied(request, texts, encoders):
    """An index in which every third text is there twice, and every ninth four times."""
    unfitted = request.param == "unfitted"
    index = index_of(UEC(encoders) if unfitted else request.getfixturevalue(request.param), texts)
    for name, step in (("b", 3), ("c", 9), ("d", 9)):
        index.add(texts[::step], [f"{name}{i}" for i in range(0, len(texts), step)])
    return index


class Asked:
    """Questions, whatever answers them, as a calibration of an index asks them."""

    def __init__(self, index, queries, wanted):
        self.index, self.queries, self.wanted = index, queries, [frozenset(w) for w in wanted]
        self.parts = index.uec.encode(queries, "query")
        self.store, self.method = index.store.snapshot(), index._method()

    def as_calibrated(self, learn, k):
        return learn(self.method, self.store, self.queries, self.parts, self.wanted, k)


@pytest.fixture
def asked(copied, texts):
    return Asked(copied, *labelled(texts, 12))


def same_features(one, other):
    np.testing.assert_allclose(one.in_corpus, other.in_corpus, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(one.found, other.found, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(one.relevance, other.relevance, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("k", [1, 5])
def test_what_calibration_sees_of_a_question_is_what_a_search_makes_its_confidence_of(asked, k):
    seen = Examples.concatenate(asked.as_calibrated(labelled_examples, k))
    model = asked.method.model
    of_model = model.probabilities(seen.features)
    found = asked.index.search(asked.queries, 40)
    np.testing.assert_allclose(of_model.in_corpus, found.in_corpus, atol=1e-5)
    np.testing.assert_allclose(of_model.confidence_at_k, found.confidence_at_k[:, :k], atol=1e-5)
    for row, one in enumerate(found):
        places = {}
        for place, passage in enumerate(one.passages):
            places.setdefault(passage.text, place)
        first = [*places.values()][:k]
        np.testing.assert_allclose(of_model.relevance[row], one.relevance[first], atol=1e-5)
        assert seen.relevant[row].tolist() == one.finds(asked.wanted[row])[:k]


def test_an_answer_that_calibration_hides_is_one_that_a_filter_leaves_out(asked):
    hidden = asked.as_calibrated(without_answers, 5)
    for row, ids in enumerate(asked.wanted):
        others = asked.store.snapshot({"$not": {"$id": sorted(ids)}})
        own = [part[row : row + 1] for part in asked.parts]
        [found] = find(asked.method, others, [Phrasing.of(asked.queries[row])], own, 5)
        same_features(hidden[row].features, found.features.first(5))
        assert not hidden[row].relevant.any()
        without = asked.index.search([asked.queries[row]], filter={"$not": {"$id": sorted(ids)}})
        sure = asked.method.model.probabilities(hidden[row].features)
        np.testing.assert_allclose(sure.in_corpus, without.in_corpus, atol=1e-5)


def test_confidence_and_decision_do_not_depend_on_how_many_hits_are_asked_for(copied, texts):
    asked = labelled(texts, 60, unanswerable_rate=0.3)[0]
    results = [copied.search(asked, k) for k in (1, 3, 5, 10)]
    assert {d.action for d in results[0].decisions} >= {"answer", "abstain"}
    for fewer, more in pairwise(results):
        np.testing.assert_allclose(fewer.confidence, more.confidence, atol=1e-6)
        np.testing.assert_allclose(fewer.in_corpus, more.in_corpus, atol=1e-6)
        width = fewer.relevance.shape[1]
        # The readings of an ambiguous question take the places of other hits.
        kept = [
            row for row, each in enumerate(more.decisions) if each.underspecified < CLARIFY_FROM
        ]
        np.testing.assert_allclose(fewer.relevance[kept], more.relevance[kept, :width], atol=1e-6)
        assert fewer.decisions == more.decisions
        agree(more)


@pytest.mark.parametrize("copied", ["fitted", "with_words"], indirect=True)
def test_confidence_and_decision_are_the_same_from_every_store(copied, texts):
    other = Retriever(copied.uec, in_qdrant())
    passages = [*copied.passages()]
    other.add([p.text for p in passages], [p.id for p in passages])
    asked = labelled(texts, 30, unanswerable_rate=0.3)[0]
    wanted, found = (index.search(asked, 5) for index in (copied, other))
    for name in ("confidence", "in_corpus", "relevance", "scores"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(wanted, name), atol=1e-4, err_msg=name
        )
    actions = [[d.action for d in result.decisions] for result in (wanted, found)]
    assert actions[0] == actions[1]
    assert found.exact


def test_copies_do_not_change_what_is_learned_from_labels(fitted, fit_pairs):
    asked, texts = zip(*fit_pairs[:6], strict=True)
    labels = [[f"p{5 - at}"] for at in range(6)] * 4
    once, often = index_of(fitted, texts), index_of(fitted, texts * 5)
    for index in (once, often):
        index.calibrate(asked * 4, labels, unanswerable_rate=0, k=8)
    wanted, found = (index.search(asked, 6) for index in (once, often))
    np.testing.assert_allclose(found.relevance, wanted.relevance, atol=1e-4)


@pytest.mark.slow
def test_shown_relevance_adds_up_to_the_confidence_where_readings_take_the_place_of_hits():
    passages = passages_of(gather_corpus(400))
    index = index_of(UEC(), [p.text for p in passages], metadatas=[p.metadata for p in passages])
    questions = [f"What does {name} do?" for name in ("with", "split", "open", "copy", "read")]
    four, thirty = index.search(questions, 4), index.search(questions, 30)
    places = [
        [all_.index(id_) for id_ in ids] for ids, all_ in zip(four.ids, thirty.ids, strict=True)
    ]
    assert any(place != [0, 1, 2, 3] for place in places)
    agree(four)
    agree(thirty)
    assert four.confidence.tolist() == pytest.approx(thirty.confidence.tolist())


def test_no_questions_and_no_passages_have_results_of_their_own(fitted, full):
    for index in (full, Retriever(fitted)):
        none = index.search([])
        assert (len(none), none.ids) == (0, [])
        assert none.scores.shape == (0, 0)
        assert none.confidence.shape == (0,)
        assert none.decide(0.5) == []
    nothing = Retriever(fitted).search(["badero", "golugo"], 3)
    assert nothing.ids == [[], []]
    assert Retriever(fitted).search(["badero"], 3, diversity=Diversity()).ids == [[]]
    assert [*nothing[0].weights] == [*fitted.names]
    assert nothing.in_corpus.tolist() == nothing.confidence.tolist() == [0, 0]
    assert {decision.action for decision in nothing.decide(0.0)} == {"abstain"}


def test_an_unfitted_ensemble_answers_what_it_finds_and_not_everything(encoders, texts):
    retriever = index_of(UEC(encoders), texts)
    there = retriever.search(texts[:40], k=3)
    elsewhere = retriever.search([f"zzz{i} qqq{i}" for i in range(40)], k=3)
    assert np.mean([d.action == "answer" for d in there.decisions]) > 0.9
    assert np.mean([d.action == "answer" for d in elsewhere.decisions]) < 0.1
    assert there.in_corpus.mean() > elsewhere.in_corpus.mean() + 0.3


@pytest.fixture(scope="module")
def alone(fit_pairs):
    """One encoder, whose coefficient no copy can move."""
    return UEC([bag_of_words(64, "fine")]).fit(fit_pairs)


class TestEqualPassages:
    """A text that is stored several times does not make a question less sure of its answer."""

    @pytest.mark.parametrize("k", [1, 4, 10])
    @pytest.mark.parametrize("copies", [3, 10])
    @pytest.mark.parametrize("store", ["memory", "qdrant"])
    def test_confidence_and_relevance_are_those_of_one(
        self, alone, texts, queries, store, copies, k
    ):
        distinct = list(dict.fromkeys(texts))
        index = index_of(alone, distinct, store=STORES[store]())
        for query in queries[:5]:
            once = index.search([query], k)
            index.add(
                [once.passages[0][0].text] * (copies - 1), [f"copy{i}" for i in range(copies - 1)]
            )
            many = index.search([query], k)
            index.delete([f"copy{i}" for i in range(copies - 1)])
            assert [p.text for p in many.passages[0]] == [p.text for p in once.passages[0]]
            assert len(many[0].hits[0].copies) == copies - 1
            assert len({*many[0].with_copies(k).ids}) == k
            np.testing.assert_allclose(many.confidence, once.confidence, atol=0.02)
            np.testing.assert_allclose(many.in_corpus, once.in_corpus, atol=0.02)
            np.testing.assert_allclose(many.relevance[0, 0], once.relevance[0, 0], atol=0.02)
            assert (np.diff(many.confidence_at_k) >= 0).all()
            agree(many)

    @pytest.mark.parametrize("k", [1, 3, 4, 10])
    @pytest.mark.parametrize("ensemble", ["alone", "fitted"])
    def test_which_of_equally_similar_texts_comes_first_changes_no_number(
        self, ensemble, k, texts, queries, request
    ):
        """Their words in another order: an engine gives either first, and one is there thrice."""
        uec = request.getfixturevalue(ensemble)
        others = [*dict.fromkeys(texts)]
        moved = 0
        for query in queries[:4]:
            # The best, the third and the sixth text: the groups may be cut by k.
            index = index_of(uec, others)
            hits = [index.search([query], 6).passages[0][place].text for place in (0, 2, 5)]
            turned = [" ".join(reversed(text.split())) for text in hits]
            told = []
            for groups in ([*zip(hits, turned, strict=True)], [*zip(turned, hits, strict=True)]):
                there = [text for text in others if text not in hits]
                # One of them once and the other three times, whichever comes first.
                for first, second in groups:
                    times = 1 if first in hits else 3
                    there += [first] * times + [second] * (4 - times)
                index = index_of(uec, there)
                found = index.search([query], k)
                told.append((found, {p.text for p in found.passages[0]}))
                agree(found)
            (one, texts_of_one), (other, texts_of_other) = told
            moved += texts_of_one != texts_of_other
            for name in (
                "scores",
                "relevance",
                "confidence",
                "in_corpus",
                "confidence_at_k",
                "sigma2",
            ):
                np.testing.assert_allclose(
                    getattr(one, name), getattr(other, name), rtol=1e-5, atol=1e-7, err_msg=name
                )
        if k == 1:
            assert moved  # or the order in which they are added decides nothing here

    def test_texts_that_are_all_there_many_times_are_judged_whatever_k(self, with_words, texts):
        index = index_of(with_words, [text for text in texts[:6] for _ in range(NEAREST)])
        few, many = (index.search(texts[:6], k) for k in (1, 6 * NEAREST))
        for one, same in zip(few.decisions, many.decisions, strict=True):
            assert one == same
            assert (one.confidence, one.underspecified) == (same.confidence, same.underspecified)


TOWNS = {
    f"Elkins, {state}": f"Elkins in {state} was founded in {year} and has a mill"
    for state, year in {
        "Arkansas": 1801,
        "Virginia": 1818,
        "Georgia": 1835,
        "Nevada": 1852,
        "Ohio": 1869,
        "Utah": 1886,
    }.items()
}


def with_towns(uec, texts, titles=tuple(TOWNS), store=None):
    """An index in which six towns have one name, under titles of their own or given ones."""
    index = index_of(uec, [*texts], [f"p{i}" for i in range(len(texts))], store=store)
    metadatas = [{"title": title} if title else {} for title in titles]
    index.add([*TOWNS.values()], [*TOWNS], metadatas)
    return index


class TestReadings:
    """A question that several subjects answer, and does not say which is meant, is asked back."""

    @pytest.mark.parametrize("store", ["memory", "qdrant"])
    def test_a_name_that_several_bear_is_asked_back_about(self, with_words, texts, store):
        index = with_towns(with_words, texts, store=STORES[store]())
        decision = index.search(["Elkins"])[0].decision
        assert decision.action == "clarify"
        assert decision.reason.startswith("Do you mean “Elkins, ")
        assert {reading.title for reading in decision.readings} <= {*TOWNS}
        assert {*decision.candidates} <= {*TOWNS}
        assert sum(reading.probability for reading in decision.readings) > 0.6

    def test_a_question_that_says_which_is_not(self, with_words, texts):
        result = with_towns(with_words, texts).search(["Elkins in Nevada", texts[5]])
        assert [decision.action for decision in result.decisions] == ["answer"] * 2
        assert result[0].ids[0] == "Elkins, Nevada"
        assert result[0].decision.underspecified < 0.2

    def test_nor_is_it_by_an_ensemble_that_was_not_fitted(self):
        index = Retriever(UEC(["bm25"]))
        notes = [f"Note {number} is on matter {number}." for number in range(40)]
        index.add([*notes, "Staff may park in the yard."])
        decision = index.search(["who may park in the yard"])[0].decision
        assert decision.action == "answer"
        assert decision.underspecified < 0.5

    def test_several_passages_of_one_title_are_one_reading(self, with_words, texts):
        one = with_towns(with_words, texts, titles=["Elkins"] * 6).search(["Elkins"])[0]
        assert one.decision.action == "answer"
        assert one.decision.underspecified < 0.5

    def test_copies_of_a_text_do_not_make_two_readings(self, with_words, texts):
        index = index_of(with_words, [*texts, *[TOWNS["Elkins, Ohio"]] * 6])
        decision = index.search(["Elkins"])[0].decision
        assert decision.action == "answer"
        assert decision.underspecified < 0.5

    def test_ensembles_without_words_find_readings_too(self, fitted, texts):
        result = with_towns(fitted, texts).search(["Elkins", texts[0]])
        assert result.decisions[0].underspecified > 0.5
        assert len(result.decisions[0].readings) > 1
        assert result.decisions[1].underspecified < 0.5


@pytest.mark.parametrize(("question", "penalised"), data_of("names_asked_for.json"))
def test_a_name_that_no_first_passage_has_is_noted(with_words, question, penalised):
    index = index_of(with_words, ["Ada led the Elkins mine.", "Bert led the Dunville mine."])
    [found] = found_by(index, [question])
    assert (found.features.in_corpus[0, -1] == 0) == penalised


def test_a_name_is_a_word_and_not_a_stem(with_words):
    index = index_of(with_words, ["Ada was reacting to it.", *(f"Field {n}." for n in range(30))])
    for question, penalised in (("Was Ada reacting?", False), ("Was Ada in React?", True)):
        [found] = found_by(index, [question])
        assert (found.features.in_corpus[0, -1] == 0) == penalised


def test_no_text_is_fetched_but_of_the_hits_that_are_read_and_of_their_copies(with_words, tmp_path):
    """Thirty are scored, so that a text that cannot be read does no harm beyond the twelfth."""
    texts = [f"Ada led the mine {'near the lake ' * number}." for number in range(NEAREST)]
    made = index_of(with_words, [*texts, texts[0]])
    [whole] = made.search(["Who led the mine?"], k=NEAREST)
    made.save(tmp_path / "index")
    made.close()
    with database_of(tmp_path / "index") as database:
        for hit in whole.hits[READ:]:
            damaged = "UPDATE passages SET sum = 0 WHERE id = ?"
            database.execute(damaged, [hit.passage.id])
    index = load_index(tmp_path / "index", with_words)
    [found] = index.search(["Who led the mine?"], k=READ)
    assert found.ids == whole.ids[:READ]
    assert [len(hit.copies) for hit in found.hits] == [len(hit.copies) for hit in whole.hits[:READ]]
    assert sum(len(hit.copies) for hit in found.hits) == 1
    assert found.decision.confidence == whole.decision.confidence
    with pytest.raises(IndexCorrupted, match="checksum differs"):
        index.search(["Who led the mine?"], k=READ + 1)
