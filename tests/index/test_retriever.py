"""What a search returns."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import (
    LinearHead,
    assert_alike,
    bag_of_words,
    index_of,
    load_index,
    of_members,
    pairs,
    passages,
    refused,
)
from uec_rag import UEC, Gate, Gaussian, Retriever
from uec_rag.base.similarity import moments, probit


def test_hits_are_ordered_by_the_score_that_their_moments_make(full, queries):
    result = full.search(queries, k=7)
    for one in result:
        expected = probit(one.mu, one.column("model_variance"), full.uec.fitted.options.beta)
        np.testing.assert_array_equal(one.scores, expected)
    assert (np.diff(result.scores, axis=1) <= 0).all()
    assert (result.sigma2 > 0).all()
    assert result.exact
    assert len(result) == len(result.ids) == 20
    assert result.queries == queries


@pytest.mark.parametrize("options", [{}, {"coefficients": "uniform"}, {"structure": "diag"}])
@pytest.mark.parametrize("beta", [0.0, 1.0, 100.0])
def test_the_hits_are_those_of_scoring_everything(
    encoders, fit_pairs, texts, queries, options, beta
):
    uec = UEC(encoders, beta=beta, **options).fit(fit_pairs)
    retriever = Retriever(uec)
    ids = retriever.add(texts)
    result = retriever.search(queries, k=10)
    query = uec.fitted.combine(uec.encode(queries, "query"), result.coefficients)
    scores = probit(*moments(query, uec.embed(texts, "passage")), beta)
    best = np.sort(scores, axis=1)[:, :-11:-1]
    np.testing.assert_allclose(result.scores, best, rtol=1e-4, atol=1e-6)
    place = {id_: i for i, id_ in enumerate(ids)}
    found = np.array([[place[id_] for id_ in row] for row in result.ids])
    np.testing.assert_allclose(
        np.take_along_axis(scores, found, axis=1), best, rtol=1e-4, atol=1e-6
    )


FITS = {
    "kron": lambda: UEC([bag_of_words(12, "a"), bag_of_words(9, "b"), "bm25"]),
    "diag": lambda: UEC([bag_of_words(12, "a"), bag_of_words(9, "b")], structure="diag"),
    "a last layer": lambda: UEC([LinearHead(), bag_of_words(9, "b")]),
    "a last layer, diag": lambda: UEC([LinearHead(), "bm25"], structure="diag"),
    "shared": lambda: UEC([LinearHead(), LinearHead(name="twin", seed=1)], space="shared"),
    "paper": lambda: UEC.paper([bag_of_words(12, "a"), bag_of_words(12, "b", seed=1)], beta=1.0),
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_vector_and_its_opposite_find_the_best_of_all_by_the_fit(name, sign, fit_pairs, tmp_path):
    """Of the opposite, no score is positive; features of a last layer are kept with the vectors."""
    uec = FITS[name]().fit(fit_pairs)
    texts, ids = passages(200, seed=5), [f"p{number}" for number in range(200)]
    made = index_of(uec, texts[:150], ids[:150])
    made.save(tmp_path / "index")
    made.add(texts[150:], ids[150:])
    vector = sign * uec.embed(["badero golugo"], "query").mean
    vector /= np.linalg.norm(vector)
    query = Gaussian.certain(vector)
    for index in (made, load_index(tmp_path / "index", uec)):
        stored = index.vectors(ids)
        mu, sigma2 = moments(query, stored)
        expected = probit(mu, sigma2, uec.fitted.options.beta)[0]
        found = index.search_vector(vector[0], 9)
        np.testing.assert_allclose(found.scores[0], np.sort(expected)[:-10:-1], rtol=1e-4)
        places = [ids.index(id_) for id_ in found.ids[0]]
        np.testing.assert_allclose(found.sigma2[0], sigma2[0, places], rtol=1e-4)


def test_of_two_passages_as_similar_the_more_certain_one_comes_first(fit_pairs):
    """One differs from the query in a direction that fitting has seen, the other in a new one."""
    place = {"query": ([0], [1.0]), "usual": ([0, 1], [0.6, 0.8]), "strange": ([0, 8], [0.6, 0.8])}
    words = bag_of_words(8, "words")

    def embed(texts):
        vectors = np.zeros((len(texts), 9))
        for row, text in enumerate(texts):
            if text in place:
                columns, values = place[text]
                vectors[row, columns] = values
            else:
                vectors[row, :8] = words([text])[0]
        return vectors

    uec = UEC([embed], beta=0.0).fit(fit_pairs)
    retriever = index_of(uec, ["strange", "usual"], ["strange", "usual"])
    plain = retriever.search(["query"], k=2)
    assert plain.ids == [["strange", "usual"]]  # a tie
    assert plain.mu[0, 0] == plain.mu[0, 1]
    uec.fitted = replace(uec.fitted, options=replace(uec.fitted.options, beta=1.0))
    assert retriever.search(["query"], k=2).ids == [["usual", "strange"]]


def test_the_variance_is_the_scores_and_that_between_the_members(full, queries, texts):
    """By the law of total variance, of each member's odds over those of its best passage."""
    full = full.with_gate(Gate(clarify_from=1.0))  # readings would be among the first hits
    everything = full.search(queries, k=len(texts))
    result, fitted = full.search(queries, k=3), full.uec.fitted
    own = np.array(fitted.slopes)[:, None] * of_members(everything, "similarity")
    odds = np.exp(own - own.max(axis=2, keepdims=True))
    pi = everything.coefficients[:, :, None]
    expected = (pi * (odds - (pi * odds).sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
    for row, (one, every) in enumerate(zip(result, everything, strict=True)):
        np.testing.assert_allclose(
            every.column("disagreement"), expected[row], rtol=1e-3, atol=1e-6
        )
        np.testing.assert_allclose(
            one.column("disagreement"), expected[row, :3], rtol=1e-3, atol=1e-6
        )
        np.testing.assert_array_equal(
            one.sigma2, one.column("model_variance") + one.column("disagreement")
        )
    told = result[0].metadata(1, details=True)
    assert (
        told["uec_sigma2"]
        == told["uec_model_variance"] + told["uec_disagreement"]
        > told["uec_model_variance"]
        > 0
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make",
    [
        lambda members, pairs: UEC.paper(members).fit(pairs),
        lambda members, pairs: UEC(members[:1]).fit(pairs),
        lambda members, pairs: UEC(members),
    ],
    ids=["paper", "one member", "unfitted"],
)
def test_the_paper_one_member_and_an_unfitted_ensemble_know_of_no_variance_between(
    make, fit_pairs, texts, queries
):
    retriever = index_of(make([bag_of_words(16, "a"), bag_of_words(16, "b", 1)], fit_pairs), texts)
    result = retriever.search(queries, k=3)
    for one in result:
        assert not one.column("disagreement").any()
        np.testing.assert_array_equal(one.sigma2, one.column("model_variance"))


@pytest.mark.parametrize("room", [1, 3])
def test_many_queries_are_searched_in_blocks_as_at_once(full, queries, monkeypatch, room):
    whole = full.search(queries, k=5)
    # So many queries, 3 + 1 matrices.
    monkeypatch.setattr("uec_rag.retrieval.rankings._BLOCK", room * 200 * 4)
    blocks = full.search(queries, k=5)
    assert len(blocks.decisions) == len(blocks.queries) == 20
    assert_alike(blocks, whole, rtol=1e-4, atol=1e-6)


class Roles(LinearHead):
    """An encoder that remembers the roles it was asked for."""

    def __init__(self):
        super().__init__()
        self.roles = []

    def encode(self, texts, role):
        self.roles.append(role)
        return super().encode(texts, role)


def test_texts_are_embedded_as_passages_and_queries_as_queries():
    encoder = Roles()
    retriever = index_of(UEC([encoder]), ["badero"])
    assert encoder.roles == ["passage"]
    retriever.search(["golugo"])
    assert encoder.roles == ["passage", "query"]


@pytest.mark.parametrize(("arguments", "error", "message"), refused("Retriever.search"))
async def test_a_search_that_makes_no_sense_is_refused_before_it_is_encoded(
    arguments, error, message
):
    encoder = Roles()
    retriever = index_of(UEC([encoder]), ["badero"])
    with pytest.raises(error, match=re.escape(message)):
        retriever.search(**arguments)
    with pytest.raises(error, match=re.escape(message)):
        await retriever.asearch(**arguments)
    assert encoder.roles == ["passage"]


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_a_blank_question_finds_nothing_and_the_others_what_they_find_alone(full, blank):
    together = full.search(["bifa", blank, "daxo"], 2)
    assert together.ids == [full.search(["bifa"], 2).ids[0], [], full.search(["daxo"], 2).ids[0]]
    [nothing] = full.search([blank], history=[["bifa"]]).decisions
    assert (nothing.action, nothing.code, nothing.confidence) == ("abstain", "no_question", 0)


@pytest.mark.parametrize(
    ("asked", "searched"),
    [("bifa daxo " * 2000, "bifa daxo " * 800), ("bifa \ud83d", "bifa ?")],
    ids=["overlong", "half an emoji"],
)
def test_a_question_that_cannot_be_searched_whole_is_searched_in_part(full, asked, searched):
    found, expected = full.search([asked, searched])
    assert (found.ids, found.decision) == (expected.ids, expected.decision)


@pytest.mark.slow
def test_a_filter_that_leaves_few_passages_makes_no_question_surer():
    known = pairs(200)
    index = index_of(UEC([bag_of_words(64, "fine"), "bm25"]).fit(known), [p for _, p in known])
    ids = [passage.id for passage in index.passages()]
    answered = 0  # what usually competes stands for what the filter leaves out, and is not it
    for row, (question, _) in enumerate(known[:20]):
        three = [ids[row - 1], ids[row - 2], ids[row - 3]]
        [elsewhere] = index.search([question], filter={"$id": three}).decisions
        [there] = index.search([question], filter={"$id": [ids[row], *three]}).decisions
        answered += elsewhere.action == "answer"
        assert elsewhere.confidence < there.confidence
    assert answered <= 2
