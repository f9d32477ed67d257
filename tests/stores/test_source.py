"""An ensemble over candidates that another package's search finds."""

import re

import numpy as np
import pytest

from tests.helpers import assert_alike, bag_of_words, index_of, pairs, passages
from uec_rag import UEC, Retriever
from uec_rag.stores import stored
from uec_rag.stores.passage import Passage
from uec_rag.stores.source import Search, Source, SourceStore, source_of_retriever

TEXTS = [*dict.fromkeys(passages(90))]
QUERIES = [" ".join(text.split()[4:8]) for text in TEXTS[:5]]
small = bag_of_words(16, "small")


def over(uec, count, texts=TEXTS, vectors=None, fit=False, is_store=True):
    """Over texts by the cosine of a model, none for a question that begins with "none"."""
    held = [Passage(f"p{i}", text, {"place": i}) for i, text in enumerate(texts)]

    def find(question, filter):
        order = np.argsort(-(small(texts) @ small([question])[0]), kind="stable")
        return [] if question.startswith("none") else [held[place] for place in order[:count]]

    def get(ids):
        return [passage for passage in held if passage.id in ids]

    source = Source("some texts", find, vectors, get, lambda most: held[:most])
    if not is_store:
        source = source_of_retriever("some texts", lambda question: find(question, None))
    return Retriever(uec, SourceStore(uec.encoders, source), fit=fit)


@pytest.fixture(scope="module")
def with_words():
    return UEC([small, "bm25"]).fit(pairs(120))


class Above:
    """A function of a passage that looks like every other of its class."""

    def __init__(self, place):
        self.place = place

    def __repr__(self):
        return "<function>"

    def __call__(self, passage):
        return passage.metadata["place"] > self.place


def test_a_store_that_was_seen_to_run_one_function_is_not_trusted_with_another():
    held = [Passage(f"p{i}", text, {"place": i}) for i, text in enumerate(TEXTS)]

    def ask(question, own, count):
        return held[:count] if own is None else held[:2]

    search = Search("some texts", ask, lambda filter: "own", 4, lambda: "it")
    assert [one.id for one in search("question", Above(99))] == []
    with pytest.warns(UserWarning, match="leaves out"):
        found = search("question", Above(1))
    assert [one.id for one in found] == ["p2", "p3", "p4", "p5"]


def searched_as(store, **options):
    [found] = store.search(["What does the hire of a camra cost?"], **options)
    return found.decision.searched_as


def test_words_are_spelled_as_the_passages_that_are_listed_and_may_be_seen(monkeypatch):
    texts = ["The hire of a camera costs nine euros.", "The hire of a tripod costs two euros."]
    theirs = over(UEC([small, "bm25"]).fit(pairs(60)), 2, texts)
    spelled = "What does the hire of a camera cost?"
    assert searched_as(theirs) == spelled
    assert searched_as(theirs, filter={"place": 0}) == searched_as(theirs, tenant={"place": 0})
    assert searched_as(theirs, tenant={"place": 0}) == spelled
    assert (
        searched_as(theirs, filter={"place": 1}) == searched_as(theirs, tenant={"place": 1}) == ""
    )
    monkeypatch.setattr(stored, "_MOST_LISTED", 2)  # so that there may be others
    assert searched_as(theirs) == ""


def test_another_fit_is_that_of_the_next_search():
    uec = UEC([small])
    theirs = over(uec, 10)
    with pytest.warns(UserWarning, match="not fitted"):
        assert not theirs.search(QUERIES).sigma2.any()
    uec.fit(pairs(60))
    before = theirs.search(QUERIES).sigma2
    uec.fit(pairs(120))
    assert_alike(theirs.search(QUERIES), over(uec, 10).search(QUERIES), rtol=1e-5)
    assert not np.array_equal(before, theirs.search(QUERIES).sigma2)


@pytest.mark.parametrize(("count", "warnings"), [(29, 1), (30, 0)])
def test_that_a_retriever_finds_too_few_is_said_once(with_words, count, warnings, recwarn):
    theirs = over(with_words, count, is_store=False)
    theirs.search(QUERIES)
    said = [str(one.message) for one in recwarn if "confidence is unreliable" in str(one.message)]
    assert len({*said}) == warnings
    assert all("Fewer than 30 of some texts were found" in one for one in said)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (small, "expected those of .* 'other', got those of another model .* Embed .* again, pass"),
        (bag_of_words(12, "narrow"), r"expected 16 numbers each, as 'other' makes, got \[12\]"),
    ],
)
def test_vectors_of_another_model_are_refused(held, said):
    uec = UEC([bag_of_words(16, "other", seed=3), small]).fit(pairs(120))

    def vectors(ids):
        return dict(zip(ids, held([TEXTS[int(id_[1:])] for id_ in ids]), strict=False))

    with pytest.raises(ValueError, match=f"vectors: {said}"):
        over(uec, 10, vectors=vectors).search(QUERIES)


@pytest.mark.parametrize("known", [0, 4])
def test_texts_without_a_vector_are_encoded(with_words, known):
    def vectors(ids):
        return {id_: small([TEXTS[int(id_[1:])]])[0] for id_ in ids[:known]}

    with pytest.warns(UserWarning, match=f"missing for {14 - known} of 14 candidates. Their texts"):
        found = over(with_words, 10, vectors=vectors).search(QUERIES)
    assert_alike(found, over(with_words, 10).search(QUERIES), rtol=1e-4)


def test_what_is_no_filter_is_refused(with_words):
    for wrong, error in (("lang", TypeError), ({"lang": {"$like": "d"}}, ValueError)):
        with pytest.raises(error, match="filter: "):
            over(with_words, 10).search(QUERIES, filter=wrong)


def test_a_question_without_candidates_takes_nothing_from_its_batch(with_words):
    queries, theirs = ["none at all", *QUERIES, "none"], over(with_words, 20)
    together = theirs.search(queries, 5)
    assert [len(row) for row in together.ids] == [0, *[5] * len(QUERIES), 0]
    for row, query in enumerate(QUERIES, 1):
        alone = theirs.search([query], 5)
        assert together.ids[row] == alone.ids[0]
        assert together.confidence[row] == pytest.approx(alone.confidence[0], rel=1e-5)
    assert together.decisions[0].action == "abstain"


def matched(result):
    return [hit.matched_terms for hit in result.hits]


def test_a_chosen_reading_is_searched_among_the_candidates(with_words):
    theirs = over(with_words, 20)
    [found] = theirs.search(QUERIES[:1], 5)
    [chosen] = theirs.search(QUERIES[:1], 5, within=found.ids[2:4])
    assert {*chosen.ids} == {*found.ids[2:4]}


def test_words_order_the_candidates(with_words):
    query, texts = f"{QUERIES[0]} zanzibar", [f"{text} usual" for text in TEXTS]
    lucky = int(np.argsort(-(small(texts) @ small([query])[0]), kind="stable")[10])
    texts[lucky] = f"{TEXTS[lucky]} zanzibar"
    found = over(with_words, 20, texts).search([query], 5)
    place = found.ids[0].index(f"p{lucky}")
    assert "zanzibar" in matched(found[0])[place]


def test_a_filter_that_leaves_few_passages_is_named_in_the_reason(with_words):
    """Of a source, that they may not be all; else, that there are no more."""
    few = {"place": {"$in": [1, 2]}}
    ours = index_of(with_words, TEXTS, metadatas=[{"place": i} for i in range(len(TEXTS))])
    for index, said in (
        (over(with_words, len(TEXTS)), "candidates .* no more than 2 match the filter"),
        (ours, "no more than 2 different passages match the filter"),
    ):
        assert re.search(said, index.search([TEXTS[1]], filter=few)[0].decision.reason)
        for result in (index.search([TEXTS[1]], 2, filter=few), index.search([TEXTS[1]])):
            assert "match the filter" not in result[0].decision.reason
