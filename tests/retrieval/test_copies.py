"""Copied and pickled: an index of its own, with what was learned of the corpus."""

import copy
import pickle

import pytest

from tests.helpers import assert_same_result, bag_of_words, index_of, labelled, noise, passages
from uec_rag import UEC, Retriever

QUERIES = ["badero fimafi", "golugo"]


def test_a_copy_is_written_to_on_its_own(fitted, texts):
    index = Retriever(fitted, unanswerable=0.3)
    index.add(texts[:60], ids=[f"p{i}" for i in range(60)])
    index.calibrate(*labelled(texts[:60], 60, unanswerable=0.2))
    copied = copy.deepcopy(index)
    assert_same_result(copied.search(QUERIES), index.search(QUERIES))
    assert copied.report == index.report
    copied.delete(["p0"])
    assert (len(copied), len(index)) == (59, 60)


def test_a_copied_snapshot_can_be_written_to(small):
    copied = copy.deepcopy(small.snapshot())
    copied.add(["lumane"])
    assert (len(copied), len(small)) == (11, 10)


@pytest.mark.filterwarnings("ignore:This UEC is not fitted")
def test_an_index_goes_to_another_process_whole():
    index = index_of(UEC([noise, "bm25"]), passages(40))
    there = pickle.loads(pickle.dumps(index))
    assert_same_result(there.search(QUERIES), index.search(QUERIES))
    there.add(["lumane"])
    assert (len(there), len(index)) == (41, 40)


@pytest.mark.filterwarnings("ignore:This UEC is not fitted")
def test_an_encoder_that_cannot_go_there_is_named_with_what_to_do():
    index = Retriever(UEC([bag_of_words(8, "mine")]))
    with pytest.raises(pickle.PicklingError, match=r"encoder 'mine' cannot be pickled.*encoders="):
        pickle.dumps(index)
