"""A fit changes what is learned, and nothing that is stored."""

from contextlib import closing, suppress

import numpy as np
import pytest

from tests.helpers import assert_alike, bag_of_words, index_of, load_index, passages
from uec_rag import UEC, Retriever
from uec_rag.encoders.lexical import Lexical
from uec_rag.stores.base import MOST_EXAMPLES

TEXTS = [f"{' '.join(text.split()[2:7])}. {text} {text}" for text in passages(240, seed=2)]
IDS = [f"p{number}" for number in range(len(TEXTS))]
ASKED = [text.split(".")[0] for text in TEXTS[::40]]
ENSEMBLES = {
    "words": lambda: UEC([bag_of_words(16, "small"), "bm25"]),
    "no words": lambda: UEC([bag_of_words(16, "small")]),
    "two models": lambda: UEC([bag_of_words(16, "small"), bag_of_words(24, "large"), "bm25"]),
    "a diagonal": lambda: UEC([bag_of_words(16, "small"), "bm25"], structure="diag"),
}


@pytest.fixture(params=ENSEMBLES)
def unfitted(request):
    return ENSEMBLES[request.param]()


def saved(uec, folder):
    """An index in a folder, filled in two calls, which no search has fitted."""
    index = Retriever(uec)
    index.save(folder)
    for some in (slice(0, 100), slice(100, None)):
        index.add(TEXTS[some], IDS[some])
    return index


def files_of(folder):
    """The content of the files of the segments, by their names."""
    return {file.name: file.read_bytes() for file in (folder / "segments").iterdir()}


def as_filled_after(index):
    """An index with the same passages, which were added after the fit."""
    held = [*index.passages()]
    return index_of(index.uec, [p.text for p in held], [p.id for p in held])


def changed(index):
    """The index after an addition, a replacement and a deletion."""
    index.add(["badero golugo nepine tavone"], ["new"])
    index.add([TEXTS[7]], [IDS[3]])
    index.delete(IDS[50:60])
    return index


def merged(index):
    """The index after so many additions that its segments are joined."""
    for number in range(12):
        index.add([f"sirapu number {number} zumeki"], [f"more {number}"])
    return index


AFTER = {
    "at once": lambda index: index,
    "opened again": lambda index: load_index(index.folder, index.uec),
    "after changes": changed,
    "after merges": merged,
}


@pytest.mark.parametrize("after", AFTER)
def test_passages_are_scored_as_if_they_had_been_added_after_the_fit(unfitted, after, tmp_path):
    index = saved(unfitted, tmp_path / "index")
    index.search(ASKED)
    assert index.uec.is_fitted
    index = AFTER[after](index)
    other = as_filled_after(index)
    assert_alike(index.search(ASKED, 9), other.search(ASKED, 9))
    stored, expected = index.vectors(IDS[:9]), other.vectors(IDS[:9])
    np.testing.assert_allclose(stored.mean, expected.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(stored.variance, expected.variance, rtol=1e-4, atol=1e-7)
    index.check()
    index.close()


def test_a_second_fit_takes_the_place_of_the_first(unfitted, tmp_path):
    index = saved(unfitted, tmp_path / "index")
    index.search(ASKED)
    index.fit_from([*index.passages()][:120])
    assert_alike(index.search(ASKED, 9), as_filled_after(index).search(ASKED, 9))


def test_segments_and_passages_stay_as_they_are_on_disk(unfitted, tmp_path):
    index = saved(unfitted, tmp_path / "index")
    before, rows = files_of(index.folder), index.store.snapshot().state.rows.tolist()
    changes = index.changes
    index.search(ASKED)
    assert index.uec.is_fitted
    assert files_of(index.folder) == before
    assert index.store.snapshot().state.rows.tolist() == rows
    assert index.changes == changes


def test_words_are_counted_of_the_questions_and_their_answers_alone(tmp_path, monkeypatch):
    index, texts, encode = saved(ENSEMBLES["words"](), tmp_path / "index"), [], Lexical.encode

    def count(self, some, role):
        texts.extend(some)
        return encode(self, some, role)

    monkeypatch.setattr(Lexical, "encode", count)
    index.fit_from([*index.passages()][:60])
    assert 0 < len(texts) <= 2 * 60


def test_a_fit_that_fails_leaves_the_index_as_it_was(tmp_path):
    index = saved(ENSEMBLES["words"](), tmp_path / "index")
    before, held = files_of(index.folder), index.vectors(IDS).variance
    with suppress(KeyError), index.changing():
        index.fit_from()
        raise KeyError
    index.close()
    with closing(load_index(tmp_path / "index", ENSEMBLES["words"](), fit=False)) as again:
        assert files_of(again.folder) == before
        np.testing.assert_array_equal(again.vectors(IDS).variance, held)


def test_views_and_readers_see_one_fit_or_the_other(tmp_path):
    uec = ENSEMBLES["words"]()
    index = saved(uec, tmp_path / "index")
    unfitted = Retriever.load(
        tmp_path / "index", encoders={"small": bag_of_words(16, "small")}, read_only=True
    )
    view = unfitted.snapshot()
    expected = view.search(ASKED, 9)
    index.search(ASKED)
    assert_alike(view.search(ASKED, 9), expected)
    assert_alike(unfitted.search(ASKED, 9), index.search(ASKED, 9))
    assert unfitted.uec.fingerprint == index.uec.fingerprint


@pytest.mark.parametrize("count", [10, 100, 3000, MOST_EXAMPLES, MOST_EXAMPLES + 700])
def test_examples_are_all_passages_or_neighbours_of_every_part(count):
    index = index_of(UEC([bag_of_words(4, "few")]), [f"text {n}" for n in range(count)])
    numbers = [int(p.text.split()[1]) for p in index.store.examples()]
    assert len(numbers) <= MOST_EXAMPLES
    if count <= MOST_EXAMPLES:
        assert numbers == [*range(count)]
    else:
        assert numbers == sorted({*numbers})
        assert len(numbers) > 0.9 * MOST_EXAMPLES
        assert numbers[0] == 0
        assert numbers[-1] == count - 1
        assert (np.diff(numbers) == 1).mean() > 0.9
    assert len(index.store.examples(30)) == min(30, count)
