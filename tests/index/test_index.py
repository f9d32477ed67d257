"""Adding to an index and deleting from it, also from several threads."""

import re

import numpy as np
import pytest

from tests.helpers import assert_alike, bag_of_words, index_of, load_index, noise, refused
from uec_rag import UEC, Retriever
from uec_rag.retrieval.diversity import Diversity
from uec_rag.stores import LocalStore


def test_ids_are_made_up_where_none_are_given(fitted, texts):
    retriever = Retriever(fitted)
    ids = retriever.add(texts[:5])
    assert len(set(ids)) == len(retriever) == 5
    assert [p.text for p in retriever.get(ids)] == texts[:5]
    assert set(retriever.add(texts[:5])).isdisjoint(ids)
    assert len(retriever) == 10


def test_what_is_deleted_is_not_found(small):
    assert small.delete(["p1", "p4", "unknown"]) == 2
    assert {"p1", "p4"}.isdisjoint(small.search(["badero"], k=10).ids[0])
    small.clear()
    assert (len(small), list(small.passages())) == (0, [])


def test_texts_of_any_length_and_in_any_script_are_kept_as_they_are(small):
    texts = ["x" * 100_000, "中文没有空格", "a\n\nb\u2028c", "🙂", "'; drop table passages; --"]
    ids = small.add(texts)
    assert [p.text for p in small.get(ids)] == texts


@pytest.mark.parametrize(("arguments", "error", "message"), refused("Retriever.add"))
def test_what_cannot_be_added_is_refused_and_changes_nothing(small, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        small.add(**arguments)
    assert [p.id for p in small.passages()] == [f"p{i}" for i in range(10)]


def test_what_is_no_ensemble_no_store_or_no_preference_is_refused(full):
    with pytest.raises(TypeError, match=r"uec: expected a UEC, got str; make one with UEC\("):
        Retriever("all-MiniLM-L6-v2")
    for store in ([], LocalStore):
        with pytest.raises(
            TypeError, match=r"store: expected a store, such as LocalStore\(\), got"
        ):
            Retriever(full.uec, store)


@pytest.mark.usefixtures("no_waits")
def test_an_encoder_that_fails_leaves_the_index_as_it_was():
    def moody(texts):
        if any("fail" in text for text in texts):
            raise ConnectionError("the service is down")
        return noise(texts)

    retriever = index_of(UEC([moody]), ["one", "two"], ["1", "2"])
    with pytest.raises(ConnectionError):
        retriever.add(["three", "fail"], ids=["3", "1"])
    assert [(p.id, p.text) for p in retriever.passages()] == [("1", "one"), ("2", "two")]


def test_passages_of_other_encoders_are_refused_and_those_of_another_fit_are_not(
    small, encoders, fit_pairs
):
    with pytest.raises(ValueError, match="it holds vectors of other encoders"):
        Retriever(UEC(encoders[:1]), small.store)
    other = UEC(encoders, seed=1).fit(fit_pairs)
    texts = [passage.text for passage in small.passages()]
    added_after = index_of(other, texts, [passage.id for passage in small.passages()])
    asked = ["badero", texts[3]]
    assert_alike(Retriever(other, small.store).search(asked), added_after.search(asked))


@pytest.mark.parametrize("space", ["direct", "shared"])
@pytest.mark.parametrize("is_saved", [False, True])
def test_an_ensemble_may_be_fitted_in_place(fit_pairs, texts, space, is_saved, tmp_path):
    models = [bag_of_words(16, "small"), bag_of_words(16, "other", seed=1)]
    uec, ids = UEC(models, space=space), [f"p{number}" for number in range(40)]
    index = index_of(uec, texts[:20], ids[:20])
    if is_saved:
        index.save(tmp_path / "index")
    assert not index.search(["badero"]).sigma2.any()
    uec.fit(fit_pairs)
    index.add(texts[20:40], ids[20:])
    expected = index_of(uec, texts[:40], ids).search(["badero"])
    assert (expected.sigma2 > 0).all()
    assert_alike(index.search(["badero"]), expected)
    index.delete(["no such id", ids[39]])
    assert index.search(["badero"]).sigma2.all()
    if is_saved:
        again = load_index(tmp_path / "index", uec, read_only=True)
        assert_alike(again.search(["badero"]), index.search(["badero"]))


# What Python's integers hold and no float does.
HUGE = 10**400


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.search_vector([1e39] * index.uec.dimension), "embedding: row 0"),
        (lambda index: index.search(["a"], diversity=Diversity(2, HUGE)), "lambda_mult: expected"),
        (
            lambda index: index.with_weights(dict.fromkeys(index.uec.names, HUGE)),
            "weights >= 0, one per encoder",
        ),
    ],
)
def test_numbers_beyond_a_float_are_refused_by_name(full, call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call(full)


def test_counts_may_be_any_integer(small):
    assert len(small.search(["a"], k=HUGE).ids[0]) == len(small)
    assert len(small.search((q for q in ["a"]), k=np.int8(3)).ids[0]) == 3
    assert len(small.search(["a"], k=3, diversity=Diversity(HUGE)).ids[0]) == 3


@pytest.mark.parametrize("call", ["get", "delete", "vectors"])
@pytest.mark.parametrize(("ids", "got"), [(None, "None"), (3, "3"), ("p1", "one string 'p1'")])
def test_what_is_no_list_of_ids_is_refused(small, call, ids, got):
    with pytest.raises(TypeError, match=f"ids: expected a list of strings, got {got}"):
        getattr(small, call)(ids)
    assert len(small) == 10


@pytest.mark.parametrize("name", ["k", "fetch_k"])
@pytest.mark.parametrize("count", [None, 2.5, 0, np.full((1, 2), 1e30)])
def test_what_is_no_count_of_hits_is_refused_by_name(full, name, count):
    counts = {"k": 3, "fetch_k": HUGE} | {name: count}
    with pytest.raises((TypeError, ValueError), match=f"^{name}: expected an integer"):
        full.search(["a"], counts["k"], diversity=Diversity(counts["fetch_k"]))


def test_a_filter_that_holds_itself_is_refused(full):
    endless = {}
    endless["again"] = endless
    for filter in (endless, {"key": {"$in": [endless]}}):
        with pytest.raises(ValueError, match="expected at most 64 levels of lists and dicts"):
            full.search(["a"], filter=filter)
