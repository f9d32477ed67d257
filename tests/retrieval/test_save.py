"""Saving and loading an index."""

import threading

import numpy as np
import pytest

from tests.helpers import LinearHead, assert_same_result, passages
from uec_rag import UEC, Retriever


def load(path, uec, **options):
    named = dict(zip(uec.names, uec.encoders, strict=True))
    return Retriever.load(path, encoders=named, **options)


def test_an_index_comes_back_with_the_same_hits_to_the_last_bit(full, queries, tmp_path):
    full.save(tmp_path / "index")
    for loaded in (
        load(tmp_path / "index", full.uec),
        Retriever.load(tmp_path / "index", full.uec),
    ):
        assert len(loaded) == len(full)
        assert list(loaded.passages()) == list(full.passages())
        assert_same_result(loaded.search(queries, k=10), full.search(queries, k=10))
        assert_same_result(
            loaded.search(queries, k=3, filter={"even": True}),
            full.search(queries, k=3, filter={"even": True}),
        )


@pytest.mark.filterwarnings("ignore:This UEC is not fitted")
@pytest.mark.parametrize(
    "make",
    [
        lambda encoders, pairs: UEC(encoders, structure="diag").fit(pairs),
        lambda encoders, pairs: UEC.paper([encoders[1], LinearHead(16)]).fit(pairs),
        lambda encoders, pairs: UEC(encoders),
    ],
    ids=["diag", "paper", "unfitted"],
)
def test_so_does_one_of_another_kind_of_ensemble(
    make, encoders, fit_pairs, texts, queries, tmp_path
):
    retriever = Retriever(make(encoders, fit_pairs))
    retriever.add(texts[:50])
    retriever.save(tmp_path / "index")
    loaded = load(tmp_path / "index", retriever.uec)
    assert_same_result(loaded.search(queries), retriever.search(queries))


def test_a_loaded_index_can_be_written_to_and_saved_over_itself(small, texts, tmp_path):
    small.save(tmp_path / "index")
    loaded = load(tmp_path / "index", small.uec)
    loaded.delete(["p0"])
    loaded.add(["tavone tavone"], ids=["new"])
    loaded.save(tmp_path / "index")
    again = load(tmp_path / "index", small.uec)
    assert [p.id for p in again.passages()] == [*(f"p{i}" for i in range(1, 10)), "new"]
    assert again.search(["tavone"], k=1).ids == loaded.search(["tavone"], k=1).ids == [["new"]]
    assert len(small) == 10


def test_an_empty_index_is_saved_too(fitted, tmp_path):
    Retriever(fitted).save(tmp_path / "index")
    assert len(load(tmp_path / "index", fitted)) == 0


def test_another_ensemble_is_refused(full, encoders, fit_pairs, tmp_path):
    full.save(tmp_path / "index")
    for other in (UEC(encoders), UEC(encoders, seed=1).fit(fit_pairs), UEC(encoders[:2])):
        with pytest.raises(ValueError, match=r"uec: its fingerprint .* is not that of the index"):
            Retriever.load(tmp_path / "index", other)


def test_an_index_of_black_boxes_asks_for_them(small, tmp_path):
    small.save(tmp_path / "index")
    with pytest.raises(ValueError, match=r"\['fine', 'coarse', 'head'\] cannot be loaded by name"):
        Retriever.load(tmp_path / "index")


@pytest.mark.parametrize(
    "file",
    [
        "store/mean.1.npy",
        "store/scales.npy",
        "store/passages.jsonl",
        "ensemble/uec.json",
        "index.json",
    ],
)
def test_a_truncated_file_is_not_loaded(small, tmp_path, file):
    small.save(tmp_path / "index")
    content = (tmp_path / "index" / file).read_bytes()
    (tmp_path / "index" / file).write_bytes(content[:-7])
    with pytest.raises(ValueError, match="truncated or was changed"):
        load(tmp_path / "index", small.uec)


def test_an_ensemble_is_no_index(fitted, tmp_path):
    fitted.save(tmp_path / "uec")
    with pytest.raises(ValueError, match="holds a saved UEC ensemble, expected a saved UEC index"):
        Retriever.load(tmp_path / "uec")
    with pytest.raises(FileExistsError, match="exists and is not a saved UEC index"):
        Retriever(fitted).save(tmp_path / "uec")


def test_a_save_that_fails_leaves_the_old_index(small, tmp_path):
    small.save(tmp_path / "index")
    small.add(["badero"], ids=["odd"], metadatas=[{"value": {1, 2}}])
    with pytest.raises(TypeError, match="metadata: passage 'odd' cannot be saved as JSON"):
        small.save(tmp_path / "index")
    assert len(load(tmp_path / "index", small.uec)) == 10
    assert [entry.name for entry in tmp_path.iterdir()] == ["index"]


def test_nothing_is_pickled(full, tmp_path):
    full.save(tmp_path / "index")
    for file in (f for f in tmp_path.rglob("*") if f.is_file()):
        assert file.suffix in (".json", ".jsonl", ".npy", ".safetensors")
        if file.suffix == ".npy":
            assert np.load(file, allow_pickle=False).dtype != object


def test_an_index_is_saved_whole_while_it_is_written(small, tmp_path):
    stop = threading.Event()
    batches = [passages(10, seed=seed) for seed in range(4)]

    def write():
        version = 0
        while not stop.is_set():
            version += 1
            small.add(
                batches[version % 4],
                ids=[f"p{i}" for i in range(10)],
                metadatas=[{"version": version}] * 10,
            )

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            small.save(tmp_path / "index")
            loaded = load(tmp_path / "index", small.uec)
            found = list(loaded.passages())
            assert len(found) == 10
            assert len({p.metadata.get("version", 0) for p in found}) == 1
            np.testing.assert_array_equal(
                loaded.vectors([p.id for p in found]).mean,
                small.uec.embed([p.text for p in found]).mean,
            )
    finally:
        stop.set()
        writer.join()
