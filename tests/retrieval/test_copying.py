"""An index in another store."""

import copy
import pickle

import numpy as np
import pytest

from tests.helpers import (
    Remembering,
    assert_same_result,
    bag_of_words,
    index_of,
    labelled,
    noise,
    pairs,
    passages,
)
from tests.stores.kinds import KINDS, close
from uec_rag import UEC, FingerprintMismatch, Retriever
from uec_rag.retrieval.copying import copy_index
from uec_rag.stores import LocalStore, Passage
from uec_rag.stores.qdrant import QdrantStore

TEXTS = list(dict.fromkeys(passages(80)))
QUERIES = [query for query, _ in pairs(40)]


def members(words):
    return [Remembering(16, "small"), Remembering(24, "large", 1), *(["bm25"] if words else [])]


def filled(uec):
    return index_of(
        uec, TEXTS, [f"t{i}" for i in range(len(TEXTS))], [{"n": i} for i in range(len(TEXTS))]
    )


def same(one, other, queries=QUERIES, **tolerance):
    a, b = one.search(queries, 5), other.search(queries, 5)
    np.testing.assert_allclose(a.scores, b.scores, **({"rtol": 1e-4} | tolerance))
    np.testing.assert_allclose(a.sigma2, b.sigma2, rtol=1e-3)
    assert a.ids == b.ids


@pytest.mark.parametrize("words", [False, True])
def test_a_copy_finds_what_the_original_finds_and_keeps_its_calibration(words):
    index = filled(UEC(members(words)).fit(pairs(100)))
    index.calibrate(TEXTS[:40], [[f"t{i}"] for i in range(40)])
    for encoder in index.uec.encoders[:2]:
        encoder._given.texts.clear()
    copy = copy_index(index, LocalStore())
    assert len(copy) == len(TEXTS)
    assert not any(encoder._given.texts for encoder in index.uec.encoders[:2])
    same(index, copy, rtol=1e-6)
    assert copy.calibration == index.calibration
    ours, theirs = index.search(QUERIES).confidence, copy.search(QUERIES).confidence
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_a_store_of_another_fit_is_refused():
    encoders = members(words=False)
    index, other = filled(UEC(encoders).fit(pairs(100))), filled(UEC(encoders).fit(pairs(60)))
    with pytest.raises(FingerprintMismatch, match="another ensemble"):
        copy_index(index, other.store)


@pytest.mark.parametrize("pairs_of_fit", [60, 80, 100])
@pytest.mark.parametrize("engine", [False, True])
def test_a_copy_with_words_can_be_added_to(pairs_of_fit, engine):
    index = filled(UEC(members(words=True)).fit(pairs(pairs_of_fit)))
    store = QdrantStore(location=":memory:") if engine else LocalStore()
    copy = copy_index(index, store)
    for each in (index, copy):
        each.add(["something new"], ["new"])
    same(index, copy, QUERIES[:10])


@pytest.mark.parametrize("engine", [False, True])
def test_a_calibration_of_an_earlier_corpus_is_one_in_a_copy_too(engine):
    index = filled(UEC(members(words=False)).fit(pairs(100)))
    index.calibrate(TEXTS[:40], [[f"t{i}"] for i in range(40)])
    index.add(["something new"], ["new"])
    copy = copy_index(index, QdrantStore(location=":memory:") if engine else LocalStore())
    assert copy.calibration == index.calibration
    with pytest.warns(UserWarning, match="index changed after calibration"):
        copy.search(QUERIES[:2])


@pytest.mark.parametrize("of", ["memory", "qdrant in memory", "postgres"])
@pytest.mark.parametrize("to", ["memory", "postgres", "qdrant's engine"])
def test_every_store_goes_into_others_unchanged(of, to, tmp_path):
    uec = UEC(members(words=True)).fit(pairs(60))
    odd = {"ñ": [1, 2.5, None], "nested": {"b": 1, "a": "é"}, "big": 2**53, "one": 1.0}
    source = Retriever(uec, KINDS[of](tmp_path / "of"))
    source.add(TEXTS, [f"t{i}" for i in range(len(TEXTS))], [odd] * len(TEXTS))
    copy = copy_index(source, KINDS[to](tmp_path / "to"))
    assert len(copy) == len(TEXTS)
    one, other = ({passage.id: passage for passage in i.passages()} for i in (source, copy))
    assert one == other
    a, b = source.vectors([*one]), copy.vectors([*one])
    np.testing.assert_array_equal(a.mean, b.mean)
    np.testing.assert_array_equal(a.scales, b.scales)
    for index in (source, copy):
        close(index.store)


def test_a_store_with_passages_is_refused():
    index = filled(UEC(members(words=False)).fit(pairs(60)))
    with pytest.raises(ValueError, match="store: expected an empty store, got one with"):
        copy_index(index, index.store)


class Growing(LocalStore):
    """Gains a passage while it is read, as an engine that others write to may."""

    remote = True

    def vectors(self, ids):
        found = super().vectors(ids)
        self.add([Passage("new", "new")], found[[0]])
        return found


def test_a_source_that_changes_is_noticed():
    index = Retriever(UEC(members(words=False)).fit(pairs(60)), Growing())
    index.add(TEXTS[:10], [f"t{i}" for i in range(10)])
    with pytest.raises(RuntimeError, match="it holds 11 passages, but 10 were copied"):
        copy_index(index, LocalStore())


# Copied and pickled: an index of its own, with what was learned of the corpus.


ASKED = ["badero fimafi", "golugo"]


def test_a_copy_is_written_to_on_its_own(fitted, texts):
    index = Retriever(fitted, unanswerable_rate=0.3)
    index.add(texts[:60], ids=[f"p{i}" for i in range(60)])
    index.calibrate(*labelled(texts[:60], 60, unanswerable_rate=0.2))
    copied = copy.deepcopy(index)
    assert_same_result(copied.search(ASKED), index.search(ASKED))
    assert copied.report == index.report
    copied.delete(["p0"])
    assert (len(copied), len(index)) == (59, 60)


def test_a_copied_snapshot_can_be_written_to(small):
    copied = copy.deepcopy(small.snapshot())
    copied.add(["lumane"])
    assert (len(copied), len(small)) == (11, 10)


def test_an_index_goes_to_another_process_whole():
    index = index_of(UEC([noise, "bm25"]), passages(40))
    there = pickle.loads(pickle.dumps(index))
    assert_same_result(there.search(ASKED), index.search(ASKED))
    there.add(["lumane"])
    assert (len(there), len(index)) == (41, 40)


def test_an_encoder_that_cannot_go_there_is_named_with_what_to_do():
    index = Retriever(UEC([bag_of_words(8, "mine")]))
    with pytest.raises(pickle.PicklingError, match=r"encoder 'mine' cannot be pickled.*encoders="):
        pickle.dumps(index)
