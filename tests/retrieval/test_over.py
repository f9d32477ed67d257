"""An ensemble over a vector store of someone else's: what it asks, words, uneven batches."""

import numpy as np
import pytest

from tests.helpers import assert_alike, bag_of_words, index_of, pairs, passages
from uec_rag import UEC
from uec_rag.retrieval.over import retriever_over
from uec_rag.retrieval.result import SearchResult
from uec_rag.stores.base import Passage

TEXTS = [*dict.fromkeys(passages(90))]
QUERIES = [" ".join(text.split()[4:8]) for text in TEXTS[:5]]


class Theirs:
    """Texts by the cosine of some model; whoever asks for "few" or "none" is given as many."""

    name = "Theirs"

    def __init__(self, texts, tells_size=True):
        self.held = [Passage(f"p{i}", text, {"place": i}) for i, text in enumerate(texts)]
        self.model, self.tells_size = bag_of_words(16, "small"), tells_size
        self.asked = []
        self.sizes = 0

    def near(self, query, count, filter):
        vectors = self.model([passage.text for passage in self.held])
        order = np.argsort(-(vectors @ self.model([query])[0]), kind="stable")
        found = [self.held[place] for place in order[:count]]
        return found[: {"few": 2, "none": 0}.get(query.split()[0], count)]

    def anywhere(self):
        self.asked.append("anywhere")
        return self.held[::2]

    def get(self, ids):
        return [passage for passage in self.held if passage.id in ids]

    def stored(self, ids):
        self.asked.append(len(ids))
        texts = {passage.id: passage.text for passage in self.held}
        return [self.model([texts[id_]])[0].tolist() for id_ in ids]

    def size(self):
        self.sizes += 1
        return len(self.held) if self.tells_size else None


@pytest.fixture(scope="module")
def fitted():
    return UEC([bag_of_words(16, "small"), bag_of_words(24, "large", seed=1)]).fit(pairs(120))


@pytest.fixture(scope="module")
def with_words():
    return UEC([bag_of_words(16, "small"), "bm25"]).fit(pairs(120))


def test_a_query_is_asked_of_its_candidates_alone(fitted):
    """The sample's Gaussians are of one fit, and of that made once."""
    theirs = Theirs(TEXTS)
    over = retriever_over(fitted, theirs, 35, vectors="small")
    for query in QUERIES:
        over.search([query])
    assert theirs.asked == [35, "anywhere", len(TEXTS[::2]), *[35] * (len(QUERIES) - 1)]


def test_an_engine_is_asked_for_its_size_once_and_with_the_candidates_of_each_query(fitted):
    theirs = Theirs(TEXTS)
    over = retriever_over(fitted, theirs, 35)
    theirs.sizes = 0
    over.search(QUERIES)
    assert theirs.sizes == 1 + len(QUERIES)


class Quota(Exception):
    """As a client's library has it: of no kind that anybody knows."""


@pytest.mark.parametrize("what", ["near", "anywhere", "get", "stored", "size"])
@pytest.mark.parametrize(
    ("error", "kind"), [(Quota("used up\nmore"), RuntimeError), (TimeoutError(), ConnectionError)]
)
async def test_what_an_engine_fails_with_is_said_with_its_name(fitted, what, error, kind):
    theirs = Theirs(TEXTS)

    def fail(*asked):
        raise error

    if what == "stored":
        over = retriever_over(fitted, theirs, 10, vectors="small", stored=fail)
    else:
        over = retriever_over(fitted, theirs, 10)
        setattr(theirs, what, fail)
    said = rf"store: Theirs failed when it was asked for .* \({type(error).__name__}: .*filter"
    with pytest.raises(kind, match=said) as caught:
        over.store.get(["p1"]) if what == "get" else over.search(QUERIES)
    assert caught.value.__cause__ is error
    assert "more" not in str(caught.value)
    if what != "get":
        with pytest.raises(kind, match=said):
            await over.asearch(QUERIES)


def test_another_fit_makes_its_own_of_the_sample():
    theirs, uec = Theirs(TEXTS), UEC([bag_of_words(16, "small")])
    over = retriever_over(uec, theirs, 10, vectors="small")
    with pytest.warns(UserWarning, match="not fitted"):
        assert not over.search(QUERIES).sigma2.any()
    uec.fit(pairs(60))
    before = over.search(QUERIES)
    uec.fit(pairs(120))
    assert theirs.asked.count("anywhere") == 1
    assert_alike(
        over.search(QUERIES), retriever_over(uec, Theirs(TEXTS), 10).search(QUERIES), rtol=1e-5
    )
    assert not np.array_equal(before.sigma2, over.search(QUERIES).sigma2)
    assert theirs.asked.count(len(TEXTS[::2])) == 3


def test_what_is_told_of_an_engine_counts_before_what_it_says(fitted):
    theirs = Theirs(TEXTS)
    asked = []

    def stored(ids):
        asked.append(ids)
        return theirs.stored(ids)

    over = retriever_over(fitted, theirs, 10, vectors="small", stored=stored, size=5000)
    assert len(over) == 5000
    over.search(QUERIES)
    assert len(asked) == len([one for one in theirs.asked if one != "anywhere"]) == 6


def test_vectors_are_reused_only_of_the_member_that_is_named(fitted):
    theirs = Theirs(TEXTS)
    retriever_over(fitted, theirs, 10).search(QUERIES)
    assert theirs.asked == ["anywhere"]
    with pytest.raises(ValueError, match=r"of \['small', 'large', 'ensemble'\], got 'x'"):
        retriever_over(fitted, theirs, 10, vectors="x")
    with pytest.raises(ValueError, match="stored: expected `vectors` too"):
        retriever_over(fitted, theirs, 10, stored=theirs.stored)
    for other in ("large", "ensemble"):
        with pytest.raises(ValueError, match="differs from what it returns; leave out `vectors`"):
            retriever_over(fitted, theirs, 10, vectors=other).search(QUERIES)


@pytest.mark.parametrize("queries", [["none at all", *QUERIES], [*QUERIES, "few ba", "none"]])
def test_a_question_without_candidates_takes_nothing_from_its_batch(with_words, queries):
    over = retriever_over(with_words, Theirs(TEXTS), 20)
    together = over.search(queries, 5)
    assert [len(row) for row in together.ids] == [
        {"few": 2, "none": 0}.get(query.split()[0], 5) for query in queries
    ]
    for row, query in enumerate(queries):
        alone = over.search([query], 5)
        mine = SearchResult([together[row]])
        assert_alike(mine, alone, rtol=1e-5)
        assert mine.decisions[0].action == alone.decisions[0].action
        for rank in range(len(alone.ids[0])):
            one, other = (of.metadata(rank, details=True) for of in (together[row], alone[0]))
            assert one["uec_basis"] == other["uec_basis"]
            assert one["uec_members"].keys() == {"small", "bm25"}
        width = together.scores.shape[1]
        assert np.isnan(together.scores[row, len(alone.ids[0]) : width]).all()
    assert not np.isnan(together.confidence).any()
    actions = {decision.action for decision in together.decide(0.5, 3)}
    assert actions <= {"answer", "clarify", "abstain"}


def test_with_every_passage_a_candidate_words_count_as_in_a_store_of_ours(with_words):
    ours = index_of(with_words, TEXTS)
    expected = ours.search(QUERIES, 5)
    found = retriever_over(with_words, Theirs(TEXTS), len(TEXTS)).search(QUERIES, 5)
    assert found.exact
    assert_alike(found, expected, rtol=1e-4)
    for mine, ours in zip(found, expected, strict=True):
        assert [*map(list, mine.members.words)] == [*map(list, ours.members.words)]


def test_a_conversation_is_the_same_as_in_a_store_of_ours(with_words):
    ours = index_of(with_words, TEXTS)
    theirs = retriever_over(with_words, Theirs(TEXTS), len(TEXTS))
    turns = [[TEXTS[7]], [TEXTS[3], TEXTS[5]]]
    asked = QUERIES[:2]
    assert_alike(theirs.search(asked, history=turns), ours.search(asked, history=turns), rtol=2e-3)


def test_a_label_is_searched_as_words_in_reply_and_refused_as_a_reading(with_words):
    theirs = retriever_over(with_words, Theirs(TEXTS), len(TEXTS))
    said, label = "Which of them is it?", " ".join(TEXTS[7].split()[:3])
    [found] = theirs.search([label], history=[[said, f"Do you mean {label} or that?"]])
    assert found.ids == theirs.search([f"{said}\n{label}"])[0].ids
    with pytest.raises(ValueError, match="within: "):
        theirs.search([said], within=label)


def test_words_order_the_candidates(with_words):
    query = f"{QUERIES[0]} zanzibar"
    texts = [f"{text} usual" for text in TEXTS]
    lucky = int(Theirs(texts).near(query, 20, None)[10].id[1:])
    texts[lucky] = f"{TEXTS[lucky]} zanzibar"
    found = retriever_over(with_words, Theirs(texts), 20).search([query], 5)
    assert not found.exact
    place = found.ids[0].index(f"p{lucky}")
    assert "zanzibar" in found[0].members.words[place]
