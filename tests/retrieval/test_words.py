"""Words as a member of an ensemble, from indexing to the hits' metadata."""

import numpy as np
import pytest

from tests.helpers import (
    assert_alike,
    bag_of_words,
    found_by,
    index_of,
    noise,
    of_members,
    pairs,
    passages,
)
from uec_rag import UEC, Retriever
from uec_rag.encoders import CachedEncoder, Lexical
from uec_rag.evidence.words import QuestionWords
from uec_rag.questions.phrasing import Phrasing
from uec_rag.retrieval.diversity import Diversity
from uec_rag.stores.passage import Passage

QUERIES = [query for query, _ in pairs(40, seed=3)]
TEXTS = [*(passage for _, passage in pairs(40, seed=3)), *passages(120, seed=4)]
IDS = [str(number) for number in range(len(TEXTS))]


@pytest.fixture(scope="module")
def uec():
    return UEC([bag_of_words(24, "bag"), "bm25"]).fit(pairs(200))


def indexed(uec, texts=TEXTS, ids=IDS):
    return index_of(uec, texts, ids, [{"even": int(id_) % 2 == 0} for id_ in ids])


def test_confidence_asks_every_member_what_it_thinks_of_the_first_hit(uec):
    retriever = indexed(uec)
    found, seen = retriever.search(QUERIES, k=5), found_by(retriever, QUERIES, 5)
    own = of_members(found, "similarity")[:, :, 0]
    logits = np.asarray(uec.fitted.slopes) * own + np.asarray(uec.fitted.intercepts)
    scaled = logits / retriever._method().model.temperature
    expected = np.stack([scaled.max(axis=1), scaled.mean(axis=1)], axis=1)
    evidence = np.concatenate([one.features.in_corpus[:, 1:3] for one in seen])
    np.testing.assert_allclose(evidence, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_a_filter_hides_passages_and_changes_no_statistics(uec):
    retriever = indexed(uec)
    every = retriever.search(QUERIES, k=len(TEXTS))
    some = retriever.search(QUERIES, k=5, filter={"even": True})
    for i, ids in enumerate(some.ids):
        assert all(int(id_) % 2 == 0 for id_ in ids)
        place = [every.ids[i].index(id_) for id_ in ids]
        own, of_all = of_members(some, "similarity")[i], of_members(every, "similarity")[i]
        np.testing.assert_allclose(own, of_all[:, place], atol=1e-5)


@pytest.mark.parametrize("coefficients", ["adaptive", "uniform", [0.3, 0.7]])
def test_words_that_no_passage_holds_leave_the_member_out(coefficients):
    uec = UEC([bag_of_words(24, "bag"), "bm25"], coefficients=coefficients).fit(pairs(60))
    found = indexed(uec).search(["xylophone quartz", QUERIES[0]], k=3)
    np.testing.assert_allclose(found.coefficients[0], [1, 0], atol=1e-6)
    assert found.coefficients[1, 1] > 0
    assert [hit.matched_terms for hit in found[0].hits] == [[], [], []]


def test_hits_say_who_found_them_how_much_each_counted_and_by_which_words(uec):
    several = indexed(uec).search(QUERIES, k=5)
    own, shares = of_members(several, "similarity"), of_members(several, "share")
    counted = (several.coefficients * uec.fitted.weights)[:, :, None] * own
    np.testing.assert_allclose(counted.sum(axis=1), several.mu, atol=1e-5)
    counted = np.maximum(counted, 0)
    np.testing.assert_allclose(shares, counted / counted.sum(axis=1, keepdims=True), atol=1e-6)
    found = several[0]
    told = found.metadata(0, details=True)
    assert list(told["uec_encoders"]) == ["bag", "bm25"]
    for member in told["uec_encoders"].values():
        assert set(member) == {"similarity", "rank", "share"}
    assert sum(m["share"] for m in told["uec_encoders"].values()) == pytest.approx(1)
    ranks = [
        found.metadata(rank, details=True)["uec_encoders"]["bm25"]["rank"] for rank in range(3)
    ]
    assert 1 in ranks
    assert {*told["uec_matched_terms"]} == {*QUERIES[0].split()} & {*found.passages[0].text.split()}


def test_words_alone_are_an_ensemble_too(tmp_path):
    uec = UEC(["bm25"]).fit(pairs(60))
    retriever = indexed(uec)
    found = retriever.search([*QUERIES, "xylophone"])
    np.testing.assert_allclose(found.mu[:-1], of_members(found, "similarity")[:-1, 0], atol=1e-6)
    assert not found.mu[-1].any()
    assert found.confidence[-1] < found.confidence[:-1].mean()
    for unknown in retriever.search(["?!", "xylophone"]).decisions:
        assert unknown.action == "abstain"
    retriever.save(tmp_path / "index")
    assert_alike(Retriever.load(tmp_path / "index").search(QUERIES), retriever.search(QUERIES))
    assert len(retriever.search(QUERIES[:2], 3, diversity=Diversity()).ids[0]) == 3


def test_unfitted_words_count_as_much_as_vectors():
    found = indexed(UEC([bag_of_words(24, "bag"), "bm25"])).search(QUERIES)
    np.testing.assert_allclose(found.coefficients, 0.5)
    np.testing.assert_allclose(found.mu, of_members(found, "similarity").mean(axis=1), atol=1e-5)


def test_a_vector_alone_is_compared_with_vectors(uec):
    mean = uec.embed([TEXTS[5]], "query").mean[0]
    found = indexed(uec).search_vector(mean.tolist(), 3)
    assert found.ids[0][0] == IDS[5]
    assert np.isfinite(found.scores).all()


def test_no_place_for_words_in_a_cache(tmp_path):
    with pytest.raises(ValueError, match="no vectors"):
        CachedEncoder(Lexical(), tmp_path)


def test_passages_without_words_are_found_by_the_others(uec):
    retriever = indexed(uec)
    retriever.add(["?!"] * 2, ids=["a", "b"], metadatas=[{"even": True}] * 2)
    similarities = of_members(retriever.search(QUERIES, k=len(TEXTS) + 2), "similarity")
    assert np.isfinite(similarities).all()


@pytest.mark.slow
def test_a_code_that_vectors_miss_is_found_by_its_letters():
    uec = UEC([noise, "bm25"]).fit(pairs(200))
    retriever = indexed(uec)
    codes = ["XQ-1138b", "parse_args", "Przybyszewski", "0x7fA3"]
    texts = [f"{TEXTS[50 + place]} {code}" for place, code in enumerate(codes)]
    retriever.add(texts, ids=codes, metadatas=[{"even": True}] * len(codes))
    found = retriever.search([f"badefi {code.lower()}" for code in codes], k=1)
    assert [ids[0] for ids in found.ids] == codes


@pytest.mark.parametrize(
    ("question", "content"),
    [
        ("Where's Mary Shelley's grave?", {"Mary", "Shelley", "grave"}),
        ("Doesn’t the Rialto’s bridge open?", {"Rialto", "bridge", "open"}),
        ("Why won't it've sold?", {"sold"}),
        ("Is vitamin D in John's soup?", {"vitamin", "D", "John", "soup"}),
        ("What does ls -s do, and its twin's?", {"ls", "s", "-s", "twin"}),
    ],
)
def test_what_an_apostrophe_joins_to_a_word_is_no_word_of_content(question, content):
    words = QuestionWords.match(Phrasing.of(question), [Passage("a", "a text")], 1)
    assert words.content.keys() == content


@pytest.mark.parametrize(
    ("text", "question", "names"),
    [
        ("The fee in {} is {} euros.", "What is the fee in {}?", ["May", "June", "July"]),
        ("Desk {} is {} metres long.", "How long is the desk {}?", ["Next", "Mira", "Pine"]),
        ("The office of {} has number {}.", "Which number has the office of {}?", ["Will", "Ruth"]),
    ],
)
def test_a_name_that_is_a_function_word_tells_statements_apart(uec, text, question, names):
    texts = [text.format(name, number) for number, name in enumerate(names, start=5)]
    index = index_of(uec, [*texts, "Dogs are not allowed."])
    for name, right in zip(names, texts, strict=True):
        [found] = index.search([question.format(name)])
        assert (found.passages[0].text, found.decision.action) == (right, "answer")
