"""An index in another store."""

import numpy as np
import pytest

from tests.helpers import FORGED, Remembering, index_of, pairs, passages
from uec_rag import UEC, FingerprintMismatch, Retriever
from uec_rag.retrieval.copying import copy_index
from uec_rag.stores import MemoryStore, Passage
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
    copy, done = copy_index(index, MemoryStore())
    assert (done.passages, done.written) == (len(TEXTS),) * 2
    assert not any(encoder._given.texts for encoder in index.uec.encoders[:2])
    same(index, copy, rtol=1e-6)
    assert copy.calibration == index.calibration
    ours, theirs = index.search(QUERIES).confidence, copy.search(QUERIES).confidence
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert copy_index(index, copy.store)[1].written == 0
    engine = QdrantStore(location=":memory:")
    copy_index(index, engine)
    assert Retriever(index.uec, engine).calibration.model == index.calibration.model


def test_a_store_of_another_fit_is_refused():
    encoders = members(words=False)
    index, other = filled(UEC(encoders).fit(pairs(100))), filled(UEC(encoders).fit(pairs(60)))
    with pytest.raises(FingerprintMismatch, match="another ensemble"):
        copy_index(index, other.store)


def test_a_passage_whose_metadata_lies_about_missing_members_is_copied():
    index = filled(UEC(members(words=False)).fit(pairs(100)))
    index.store.add([Passage("lies", TEXTS[0], FORGED)], index.uec.embed([TEXTS[0]]))
    assert copy_index(index, MemoryStore())[1].written == len(TEXTS) + 1


@pytest.mark.parametrize("pairs_of_fit", [60, 80, 100])
@pytest.mark.parametrize("engine", [False, True])
def test_a_copy_with_words_can_be_added_to(pairs_of_fit, engine):
    index = filled(UEC(members(words=True)).fit(pairs(pairs_of_fit)))
    store = QdrantStore(location=":memory:") if engine else MemoryStore()
    copy, _ = copy_index(index, store)
    for each in (index, copy):
        each.add(["something new"], ["new"])
    same(index, copy, QUERIES[:10])


@pytest.mark.parametrize("engine", [False, True])
def test_a_calibration_of_an_earlier_corpus_is_one_in_a_copy_too(engine):
    index = filled(UEC(members(words=False)).fit(pairs(100)))
    index.calibrate(TEXTS[:40], [[f"t{i}"] for i in range(40)])
    index.add(["something new"], ["new"])
    copies = [copy_index(index, QdrantStore(location=":memory:") if engine else MemoryStore())[0]]
    if engine:
        copies.append(Retriever(index.uec, copies[0].store))
    for copy in copies:
        assert copy.calibration == index.calibration
        with pytest.warns(UserWarning, match="index has changed since it was calibrated"):
            copy.search(QUERIES[:2])
