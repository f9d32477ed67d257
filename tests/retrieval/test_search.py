"""What is made of hits: probabilities, and a decision with its reason."""

import numpy as np
import pytest

from tests.helpers import WORDS, bag_of_words, labelled
from uec_rag import UEC, Retriever
from uec_rag.confidence.features import summarise
from uec_rag.retrieval.search import ask, judge, members_at


@pytest.fixture(scope="module")
def asked(full, queries):
    """Everything a search of the queries computes on its way."""
    uec, store = full.uec, full.store.snapshot()
    seen = ask(uec.fitted, full.evidence_weights, store, uec.encode(queries, "query"))
    return store, seen, store.search(seen.query, 5, beta=uec.beta, mu=seen.similarities)


def test_probabilities_are_the_models_on_the_logits_of_the_whole_corpus(full, asked):
    uec, model = full.uec, full.confidence_model
    store, seen, found = asked
    judged = judge(uec.fitted, model, seen, found, members_at(uec.fitted, store, seen, found))
    pi = seen.coefficients
    summary = summarise(uec.fitted.logits(seen.similarities, pi), model.temperature)
    np.testing.assert_allclose(judged.confidence, model.query_confidence(summary), atol=1e-4)
    logits, variance = uec.fitted.logits(found.mu, pi), uec.fitted.logit_variance(found.sigma2)
    np.testing.assert_allclose(
        judged.relevance, model.hit_relevance(logits, variance, summary), atol=1e-4
    )


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
def test_where_nothing_was_learned_it_answers_and_says_so(encoders, texts, queries):
    retriever = Retriever(UEC(encoders))
    retriever.add(texts)
    result = retriever.search(queries, k=3)
    assert {d.action for d in result.decisions} == {"answer"}
    assert "fit the ensemble or calibrate" in result.decisions[0].reason
    np.testing.assert_array_equal(result.relevance, np.clip(result.mu, 0, 1))
    np.testing.assert_array_equal(result.confidence, result.relevance.max(axis=1))


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
