"""What is made of hits: probabilities, and a decision with its reason."""

import numpy as np
import pytest

from tests.helpers import WORDS, agree, bag_of_words, labelled
from uec_rag import UEC, Retriever
from uec_rag.confidence.model import summarise
from uec_rag.retrieval.judge import judge
from uec_rag.retrieval.preferences import Boost, Preferences
from uec_rag.retrieval.search import Hits, ask, first_alike
from uec_rag.stores import MemoryStore
from uec_rag.stores.qdrant import QdrantStore


@pytest.fixture(scope="module")
def asked(full, queries):
    """Everything a search of the queries computes on its way."""
    uec, store = full.uec, full.store.snapshot()
    seen = ask(uec.fitted, full.evidence_weights, store, uec.encode(queries, "query"))
    return store, seen, store.search(seen.query, 5, beta=uec.beta, mu=seen.similarities)


def test_probabilities_are_the_models_on_the_logits_of_the_whole_corpus(full, asked):
    uec, model = full.uec, full.confidence_model
    store, seen, found = asked
    judged = judge(uec.fitted, model, store, seen, Hits(found))
    pi = seen.coefficients
    summary = summarise(uec.fitted.logits(seen.similarities, pi), model.temperature)
    logits, variance = uec.fitted.logits(found.mu, pi), uec.fitted.logit_variance(found.sigma2)
    sure = model.certainty(summary, logits, variance=variance)
    np.testing.assert_allclose(judged.confidence, sure.confidence, atol=1e-4)
    np.testing.assert_allclose(judged.in_corpus, sure.in_corpus, atol=1e-4)
    np.testing.assert_allclose(judged.relevance, sure.relevance, atol=1e-4)


def test_a_surer_query_has_a_more_relevant_best_hit(full, texts):
    result = full.search(labelled(texts, 300)[0], k=5)
    sure = result.confidence > np.median(result.confidence)
    best = result.relevance.max(axis=1)
    assert best[sure].mean() > best[~sure].mean() + 0.1


def reader(words, name, seed):
    """An encoder that reads only some words, and a word of its own where there are none."""
    embed = bag_of_words(48, name, seed)

    def encode(texts):
        kept = [" ".join(w for w in text.split() if w in words) for text in texts]
        return embed([text or "none" for text in kept])

    encode.__name__ = name
    return encode


def test_encoders_that_are_sure_of_different_passages_ask_back(texts):
    even, odd = set(WORDS[::2]), set(WORDS[1::2])
    # Queries of nine words: on fewer an encoder that reads half of them is never sure.
    pairs = [(" ".join(text.split()[3:]), text) for text in texts]
    uec = UEC([reader(even, "even", 0), reader(odd, "odd", 1)]).fit(pairs)
    retriever = Retriever(uec)
    retriever.add(texts, ids=[f"p{i}" for i in range(len(texts))])
    one = [word for word in texts[5].split() if word in even]
    other = [word for word in texts[9].split() if word in odd]
    result = retriever.search([" ".join(one + other)], k=5)
    assert result.ambiguous[0].reason == "encoders are sure of different passages"
    assert set(result.ambiguous[0].candidates) == {"p5", "p9"}
    assert result.decide(1.0)[0].action == "clarify"


@pytest.mark.filterwarnings("ignore:This UEC is not fitted")
def test_an_unfitted_ensemble_answers_what_it_finds_and_not_everything(encoders, texts):
    retriever = Retriever(UEC(encoders))
    retriever.add(texts)
    there = retriever.search(texts[:40], k=3)
    elsewhere = retriever.search([f"zzz{i} qqq{i}" for i in range(40)], k=3)
    assert np.mean([d.action == "answer" for d in there.decisions]) > 0.9
    assert np.mean([d.action == "answer" for d in elsewhere.decisions]) < 0.1
    assert there.in_corpus.mean() > elsewhere.in_corpus.mean() + 0.3


@pytest.mark.parametrize("k", [1, 2, 5])
def test_more_hits_more_confidence_and_never_more_than_that_the_corpus_answers(full, texts, k):
    asked = labelled(texts, 60, unanswerable=0.3)[0]
    few, more = full.search(asked, k), full.search(asked, k + 3)
    assert (more.confidence >= few.confidence - 1e-6).all()
    assert (more.confidence <= more.in_corpus + 1e-6).all()
    np.testing.assert_allclose(more.in_corpus, few.in_corpus, atol=1e-6)


def test_a_told_share_without_an_answer_lowers_confidence_and_is_the_retrievers_or_the_calls(
    full, texts
):
    asked = labelled(texts, 60, unanswerable=0.3)[0]
    plain, told = full.search(asked), full.search(asked, unanswerable=0.7)
    assert (told.confidence <= plain.confidence).all()
    assert told.confidence.mean() < plain.confidence.mean()
    own = Retriever(full.uec, full.store, unanswerable=0.7)
    np.testing.assert_allclose(own.search(asked).confidence, told.confidence)
    with pytest.raises(ValueError, match=r"unanswerable: expected a share in \[0, 1\)"):
        full.search(asked, unanswerable=1.0)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_deciding_again_at_one_half_gives_the_decisions_and_higher_answers_less(
    full, texts, threshold
):
    result = full.search(labelled(texts, 200, unanswerable=0.3)[0], k=5)
    again = result.decide(threshold)
    if threshold == 0.5:
        assert again == result.decisions
    answered = np.array([d.action == "answer" for d in again])
    np.testing.assert_array_equal(answered, result.confidence > threshold)
    for decision, reading in zip(again, result.ambiguous, strict=True):
        if decision.action != "answer":
            assert decision.action == ("abstain" if reading is None else "clarify")
            assert decision.candidates == (() if reading is None else reading.candidates)


@pytest.fixture(scope="module")
def alone(fit_pairs):
    """One encoder, whose coefficient no copy can move."""
    return UEC([bag_of_words(64, "fine")]).fit(fit_pairs)


class TestEqualPassages:
    """A text that is stored several times does not make a question less sure of its answer."""

    @pytest.mark.parametrize("k", [1, 4, 10])
    @pytest.mark.parametrize("copies", [3, 10])
    @pytest.mark.parametrize(
        "store",
        [MemoryStore, lambda: MemoryStore(index="hnsw"), lambda: QdrantStore(location=":memory:")],
        ids=["memory", "hnsw", "qdrant"],
    )
    def test_confidence_and_relevance_are_those_of_one(
        self, alone, texts, queries, store, copies, k
    ):
        distinct = list(dict.fromkeys(texts))
        index = Retriever(alone, store())
        index.add(distinct, [f"p{i}" for i in range(len(distinct))])
        for query in queries[:5]:
            once = index.search([query], k)
            index.add(
                [once.passages[0][0].text] * (copies - 1), [f"copy{i}" for i in range(copies - 1)]
            )
            many = index.search([query], k)
            index.delete([f"copy{i}" for i in range(copies - 1)])
            assert len(many.ids[0]) == k
            shown = {passage.text for passage in many.passages[0]}
            assert len(shown) == max(1, k - copies + 1)
            np.testing.assert_allclose(many.confidence, once.confidence, atol=0.02)
            np.testing.assert_allclose(many.in_corpus, once.in_corpus, atol=0.02)
            np.testing.assert_allclose(many.relevance[0, 0], once.relevance[0, 0], atol=0.02)
            assert (np.diff(many.by_cutoff) >= 0).all()
            agree(many)

    @pytest.mark.parametrize("k", [1, 3, 4, 10])
    @pytest.mark.parametrize("boosted", [False, True], ids=["alone", "boosted"])
    @pytest.mark.parametrize("ensemble", ["alone", "fitted"])
    def test_which_of_equally_similar_texts_comes_first_changes_no_number(
        self, ensemble, boosted, k, texts, queries, request
    ):
        """Their words in another order: an engine gives either first, and one is there thrice."""
        uec = request.getfixturevalue(ensemble)
        others = [*dict.fromkeys(texts)]
        prefer = Preferences(boosts=(Boost(lambda p: len(p.text) % 2, 1.0),)) if boosted else None
        moved = 0
        for query in queries[:4]:
            # The best, the third and the sixth text: the groups may be cut by k.
            index = Retriever(uec)
            index.add(others)
            hits = [index.search([query], 6).passages[0][place].text for place in (0, 2, 5)]
            turned = [" ".join(reversed(text.split())) for text in hits]
            told = []
            for groups in ([*zip(hits, turned, strict=True)], [*zip(turned, hits, strict=True)]):
                there = [text for text in others if text not in hits]
                # One of them once and the other three times, whichever comes first.
                for first, second in groups:
                    times = 1 if first in hits else 3
                    there += [first] * times + [second] * (4 - times)
                index = Retriever(uec)
                index.add(there)
                found = index.search([query], k, prefer=prefer)
                told.append((found, {p.text for p in found.passages[0]}))
                agree(found)
            (one, texts_of_one), (other, texts_of_other) = told
            moved += texts_of_one != texts_of_other
            for name in ("scores", "relevance", "confidence", "in_corpus", "by_cutoff", "sigma2"):
                np.testing.assert_allclose(
                    getattr(one, name), getattr(other, name), rtol=1e-5, atol=1e-7, err_msg=name
                )
        if k == 1:
            assert moved  # or the order in which they are added decides nothing here

    def test_copies_do_not_compete(self, alone, texts):
        index = Retriever(alone)
        index.add([*dict.fromkeys(texts), texts[0], texts[0]])
        found = index.search([texts[0]], 4)
        assert [passage.text for passage in found.passages[0]][:3] == [texts[0]] * 3
        assert found.ambiguous == [None]

    def test_three_copies_hardly_move_an_ensemble(self, fitted, texts, queries):
        distinct = list(dict.fromkeys(texts))
        index = Retriever(fitted)
        index.add(distinct, [f"p{i}" for i in range(len(distinct))])
        moved = []
        for query in queries:
            once = index.search([query], 4)
            index.add([once.passages[0][0].text] * 2, ["copy1", "copy2"])
            moved.append(index.search([query], 4).confidence[0] - once.confidence[0])
            index.delete(["copy1", "copy2"])
        assert np.abs(moved).mean() < 0.02


def test_hits_are_as_similar_as_the_first_of_their_group_not_as_the_one_before():
    mu = np.float32([[0.5, 0.5, 0.5 - 8e-6, 0.5 - 16e-6, 0.3], [0.5, 0.4, 0.3, 0.2, 0.2]])
    np.testing.assert_array_equal(first_alike(mu), [[0, 0, 0, 3, 4], [0, 1, 2, 3, 3]])
