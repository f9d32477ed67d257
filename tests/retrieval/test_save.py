"""Saving and loading an index."""

import json
import pickle
import shutil
import uuid
import warnings
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import (
    as_before,
    assert_same_result,
    bag_of_words,
    by_name,
    data_of,
    index_of,
    labelled,
    load_index,
    resaved,
)
from uec_rag import UEC, FingerprintMismatch, Gaussian, IndexCorrupted, Retriever
from uec_rag.base.files import read_json, write_json
from uec_rag.base.text import About
from uec_rag.confidence.model import shipped_model
from uec_rag.retrieval.save import KIND
from uec_rag.stores import LocalStore, Passage
from uec_rag.stores.memory.saved import write_state
from uec_rag.stores.qdrant import QdrantStore


def test_an_index_comes_back_with_the_same_hits(full, queries, tmp_path):
    full.save(tmp_path / "index")
    for loaded in (
        load_index(tmp_path / "index", full.uec),
        Retriever.load(tmp_path / "index", full.uec),
    ):
        assert len(loaded) == len(full)
        assert list(loaded.passages()) == list(full.passages())
        assert_same_result(loaded.search(queries, k=10), full.search(queries, k=10))
        assert_same_result(
            loaded.search(queries, k=3, filter={"even": True}),
            full.search(queries, k=3, filter={"even": True}),
        )


def test_a_loaded_index_can_be_written_to_and_saved_over_itself(small, texts, tmp_path):
    small.save(tmp_path / "index")
    loaded = load_index(tmp_path / "index", small.uec)
    loaded.delete(["p0"])
    loaded.add(["tavone tavone"], ids=["new"])
    loaded.save(tmp_path / "index")
    again = load_index(tmp_path / "index", small.uec)
    assert [p.id for p in again.passages()] == [*(f"p{i}" for i in range(1, 10)), "new"]
    assert again.search(["tavone"], k=1).ids == loaded.search(["tavone"], k=1).ids == [["new"]]
    assert len(small) == 10
    again.clear()
    again.save(tmp_path / "index")
    assert len(load_index(tmp_path / "index", small.uec)) == 0


def test_another_ensemble_is_refused(full, encoders, fit_pairs, tmp_path):
    full.save(tmp_path / "index")
    for other in (UEC(encoders), UEC(encoders, seed=1).fit(fit_pairs), UEC(encoders[:2])):
        with pytest.raises(FingerprintMismatch, match=r"uec: its fingerprint .* is not that of"):
            Retriever.load(tmp_path / "index", other)


def test_an_ensemble_is_no_index(fitted, tmp_path):
    fitted.save(tmp_path / "uec")
    with pytest.raises(ValueError, match="holds a saved UEC ensemble, expected a saved UEC index"):
        Retriever.load(tmp_path / "uec")
    with pytest.raises(FileExistsError, match="exists and is not a saved UEC index"):
        Retriever(fitted).save(tmp_path / "uec")


@contextmanager
def made_up_of(index, place):
    """Yield the files of an index, to be changed, and saved as "made up"."""
    index.save(place / "index")
    with resaved(place / "index", KIND) as folder:
        yield folder


@pytest.mark.parametrize(
    ("file", "change"),
    [
        *data_of("made_up_indexes.json"),
        ("store/store.json", {"blocks": 10**9}),
        ("store/store.json", {"ids": ["p0"] * 10}),
        ("store/store.json", {"ids": [[]] * 10}),
        ("store/store.json", {"ids": list(range(10))}),
        ("store/scales.npy", np.zeros((10, 7), np.float32)),
        ("store/scales.npy", np.zeros((10, 3), np.float64)),
        ("store/profile.npy", np.zeros((3, 8), np.float32)),
        ("store/mean.0.npy", np.zeros((10, 3), np.float32)),
        ("store/mean.0.npy", np.zeros((9, 64), np.float32)),
        ("store/offsets.npy", np.zeros(11, np.int64)),
        ("store/offsets.npy", np.arange(11, dtype=np.int64)),
    ],
    ids=lambda value: (
        str(value)[:40] if isinstance(value, dict) else str(getattr(value, "shape", value))
    ),
)
def test_files_that_were_made_up_are_said_to_be_corrupted(small, tmp_path, file, change):
    with made_up_of(small, tmp_path) as folder:
        if isinstance(change, dict):
            write_json(folder / file, read_json(folder / file) | change)
        else:
            np.save(folder / file, change)
    with pytest.raises(IndexCorrupted):
        load_index(tmp_path / "made up", small.uec)


def test_an_index_of_words_that_tells_of_no_means_is_corrupted(tmp_path):
    words = Retriever(UEC(["bm25"]))
    words.add(["badero"])
    with made_up_of(words, tmp_path) as folder:
        settings = read_json(folder / "store" / "store.json")
        write_json(folder / "store" / "store.json", settings | {"blocks": 0})
    with pytest.raises(IndexCorrupted, match="files of means, 1, got 0"):
        Retriever.load(tmp_path / "made up")


def test_means_beyond_float32_are_found_by_the_first_search(small, tmp_path):
    with made_up_of(small, tmp_path) as folder:
        file = folder / "store" / "mean.0.npy"
        means = np.load(file)
        file.unlink()
        np.save(file, np.full_like(means, 1e38))
    made_up = load_index(tmp_path / "made up", small.uec)
    with pytest.raises(IndexCorrupted, match="a stored vector gives NaN or infinity"):
        made_up.search(["badero"], k=3)


def test_a_store_of_another_width_is_another_indexs(small, tmp_path):
    narrow = LocalStore()
    narrow.add([Passage("p0", "text")], Gaussian([[1.0, 0.0]], [[0.0, 0.0]]))
    with made_up_of(small, tmp_path) as folder:
        shutil.rmtree(folder / "store")
        (folder / "store").mkdir()
        narrow.save(folder / "store")
    with pytest.raises(IndexCorrupted, match=r"store' holds vectors of width 2, expected \d+"):
        load_index(tmp_path / "made up", small.uec)


def test_what_is_no_ensemble_is_refused(small, tmp_path):
    small.save(tmp_path / "index")
    with pytest.raises(TypeError, match="uec: expected a UEC or None, got str"):
        Retriever.load(tmp_path / "index", "uec")


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        (b'{"id": "p0"', b'{"id": "q0"', r"holds 'q0' where store\.json says 'p0'"),
        (b'{"id"', b'["id"', r"passages\.jsonl .* line 1 "),
        (b'"about": [""', b'"about": [12', r"line 1 .*about: expected a list of strings"),
        (b'"", ""', b'"    "', r"line 1 .*missing .* arguments"),
    ],
)
def test_a_line_of_another_passage_or_none_is_said_to_be_corrupted(
    small, tmp_path, was, becomes, message
):
    with made_up_of(small, tmp_path) as folder:
        lines = folder / "store" / "passages.jsonl"
        lines.write_bytes(lines.read_bytes().replace(was, becomes))
    with pytest.raises(IndexCorrupted, match=message):
        load_index(tmp_path / "made up", small.uec).get(["p0"])


def test_a_save_without_what_passages_say_about_themselves_derives_it(small, tmp_path):
    with made_up_of(small, tmp_path) as folder:
        lines = folder / "store" / "passages.jsonl"
        records = [json.loads(line) for line in lines.read_bytes().splitlines()]
        content = [json.dumps(record | {"about": None}).encode() + b"\n" for record in records]
        lines.write_bytes(b"".join(content))
        np.save(folder / "store" / "offsets.npy", np.cumsum([0, *map(len, content)]))
    [passage] = load_index(tmp_path / "made up", small.uec).get(["p0"])
    assert vars(passage)["about"] == About.from_passage(passage.metadata, passage.text)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("NaN", "a finite number"),
        ("-1e999", "a finite number"),
        ("9007199254740993", "whole numbers from"),
        ('"\\u0000"', "a NUL character"),
        ('"\\ud800"', "not valid Unicode"),
        ("[" * 70 + "]" * 70, "at most 64 levels"),
    ],
)
def test_metadata_that_no_addition_takes_is_said_to_be_corrupted(small, tmp_path, value, said):
    with made_up_of(small, tmp_path) as folder:
        lines = folder / "store" / "passages.jsonl"
        first, *rest = lines.read_bytes().splitlines(keepends=True)
        known = json.loads(first) | {"metadata": {"key": "VALUE"}}
        passage = json.dumps(known).replace('"VALUE"', value)
        content = [passage.encode() + b"\n", *rest]
        lines.write_bytes(b"".join(content))
        np.save(folder / "store" / "offsets.npy", np.cumsum([0, *map(len, content)]))
    with pytest.raises(IndexCorrupted, match=rf"line 1 .*{said}"):
        load_index(tmp_path / "made up", small.uec).get(["p0"])


def test_what_was_learned_on_other_features_is_not_used_and_that_is_said(
    texts, queries, fit_pairs, tmp_path
):
    members = [bag_of_words(16, "coarse"), bag_of_words(8, "coarser", seed=1)]
    given = by_name(UEC(members))
    index = index_of(UEC(members).fit(fit_pairs), texts)
    index.calibrate(*labelled(texts, 30)).save(tmp_path / "index")
    with resaved(tmp_path / "index", KIND, "before") as folder:
        for name in ("index.json", "ensemble/uec.json"):
            write_json(folder / name, as_before(read_json(folder / name)))
    with warnings.catch_warnings(record=True, action="always") as caught:
        loaded = Retriever.load(tmp_path / "before", encoders=given)
    said = [str(one.message).partition(": ")[2] for one in caught]
    for part in ("the same weight. Fit again.", "model. Fit again, or calibrate.", "not used."):
        assert any(part in one for one in said), part
    assert all("features: " in str(one.message) for one in caught)
    assert loaded.calibration is None
    model, own = (one.uec.fitted.confidence_model for one in (loaded, index))
    assert model == replace(shipped_model("fitted"), temperature=own.temperature)
    np.testing.assert_allclose(loaded.search(queries).coefficients, 0.5)
    loaded.save(tmp_path / "again")
    with warnings.catch_warnings(action="error"):
        again = Retriever.load(tmp_path / "again", encoders=given)
    assert_same_result(again.search(queries), loaded.search(queries))


def test_a_store_that_was_saved_with_a_graph_or_in_half_precision_is_searched_exactly(
    small, queries, tmp_path
):
    small.save(tmp_path / "index")
    for change in ({"index": "hnsw", "graph": {"sha256": "0"}}, {"scan": {"dtype": "float16"}}):
        with resaved(tmp_path / "index", KIND, "before") as folder:
            settings = read_json(folder / "store" / "store.json")
            write_json(folder / "store" / "store.json", settings | change)
        loaded = load_index(tmp_path / "before", small.uec)
        assert_same_result(loaded.search(queries), small.search(queries))


def test_nothing_is_pickled(full, tmp_path):
    full.save(tmp_path / "index")
    for file in (f for f in tmp_path.rglob("*") if f.is_file()):
        assert file.suffix in (".json", ".jsonl", ".npy", ".safetensors") or not file.stat().st_size
        if file.suffix == ".npy":
            assert np.load(file, allow_pickle=False).dtype != object


def damaged(write):
    """What writes a store, with an error in it that no look at sizes finds."""

    def wrong(state, folder):
        write(state, folder)
        np.save(folder / "scales.npy", np.load(folder / "scales.npy") * np.float32("nan"))

    return wrong


def test_what_would_not_load_takes_no_saved_indexs_place(small, tmp_path, monkeypatch):
    small.save(tmp_path / "index")
    small.add(["badero"], ids=["odd"])
    monkeypatch.setattr("uec_rag.stores.local.store.write_state", damaged(write_state))
    with pytest.raises(RuntimeError, match=r"does not load again .* is unchanged"):
        small.save(tmp_path / "index")
    with pytest.raises(RuntimeError, match="does not load again"):
        pickle.dumps(small.store)
    monkeypatch.undo()
    assert len(load_index(tmp_path / "index", small.uec)) == 10
    small.save(tmp_path / "index")
    assert len(load_index(tmp_path / "index", small.uec)) == 11


def test_an_ensemble_that_would_not_load_takes_no_saved_ones_place(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path / "uec")
    monkeypatch.setattr("uec_rag.ensemble.save.fingerprint", lambda *given: uuid.uuid4().hex)
    with pytest.raises(RuntimeError, match=r"does not load again .* has another fingerprint"):
        fitted.save(tmp_path / "uec")
    monkeypatch.undo()
    assert UEC.load(tmp_path / "uec", encoders=by_name(fitted)).fingerprint == fitted.fingerprint


def test_an_empty_store_elsewhere_is_not_taken_for_that_of_the_index(full, texts, tmp_path):
    with closing(QdrantStore(path=tmp_path / "engine", collection="passages")) as store:
        index_of(full.uec, texts[:5], store=store).save(tmp_path / "index")
    expected = pytest.raises(ValueError, match=r"no passage in .*passagse.* saved in .*passages")
    with closing(QdrantStore(path=tmp_path / "engine", collection="passagse")) as typo, expected:
        Retriever.load(tmp_path / "index", store=typo)
