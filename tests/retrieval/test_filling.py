"""An index that is saved while it is filled."""

import pytest

from tests.helpers import assert_same_result, files_of
from uec_rag import UEC, Retriever
from uec_rag.stores import MemoryStore


def contents(path):
    root = files_of(path)
    files = (file for file in root.rglob("*") if file.is_file() and file.name != "manifest.json")
    return {str(file.relative_to(root)): file.read_bytes() for file in files}


def described(texts):
    return [f"p{i}" for i in range(len(texts))], [{"number": i} for i in range(len(texts))]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_it_is_what_would_have_been_saved(fitted, texts, queries, tmp_path, dtype):
    ids, metadatas = described(texts)
    retriever = Retriever(fitted, MemoryStore(dtype=dtype))
    with Retriever.filling(tmp_path / "filled", fitted, dtype=dtype) as filled:
        for index in (filled, retriever):
            for some in (slice(120), slice(120, None)):
                index.add(texts[some], ids[some], metadatas[some])
        assert len(filled) == len(texts)
    retriever.save(tmp_path / "saved")
    assert contents(tmp_path / "filled") == contents(tmp_path / "saved")
    loaded = Retriever.load(tmp_path / "filled", fitted)
    assert_same_result(loaded.search(queries), retriever.search(queries))
    loaded.add(["badero"], ids=["new"])
    loaded.save(tmp_path / "filled")
    assert len(Retriever.load(tmp_path / "filled", fitted)) == len(texts) + 1


def test_an_ensemble_that_is_fitted_meanwhile_is_refused(encoders, fit_pairs, texts, tmp_path):
    uec = UEC(encoders).fit(fit_pairs[:100])

    def fitting():
        with Retriever.filling(tmp_path / "index", uec) as filled:
            filled.add(texts)
            uec.fit(fit_pairs)

    with pytest.raises(ValueError, match="it was fitted while 200 passages were added"):
        fitting()
    assert not (tmp_path / "index").exists()


def test_one_that_is_fitted_before_anything_is_added_is_not(encoders, fit_pairs, texts, tmp_path):
    uec = UEC(encoders)
    with Retriever.filling(tmp_path / "index", uec) as filled:
        uec.fit(fit_pairs[:100])
        filled.add(texts)
    assert len(Retriever.load(tmp_path / "index", uec)) == len(texts)
