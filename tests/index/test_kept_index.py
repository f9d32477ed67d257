"""An index that an earlier commit saved is taken over by this one, with all that was kept in it.

`python -m tests.index.test_kept_index` makes the file again, for another format: until then
each version reads it, or refuses it with what to do.
"""

import json
import shutil
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from tests.helpers import pairs
from tests.markdown import ROOT
from uec_rag import UEC, Gate, Retriever
from uec_rag.index.updates import (
    list_made_with,
    options_of,
    record_options,
    replace_files,
    update_files,
)

KEPT = ROOT / "tests/data/kept_index.zip"
FILES = {
    "loans.md": "# Loans\n\n## Laptops\n\nThe loan of a laptop lasts two weeks.\n\n"
    "## Cameras\n\nThe loan of a camera lasts three days.\n",
    "refunds.md": "# Refunds\n\nRefunds are paid within 14 days of the return.\n",
}
QUESTIONS = ["How long is the loan of a laptop?", "When are refunds paid?", "Who wrote Hamlet?"]


def letters(texts):
    return np.array([[text.count(letter) + 0.1 for letter in "abcdefgh"] for text in texts])


def write_files(folder):
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def told(index):
    """What an index says of the questions."""
    return [
        [one.ids, one.decision.action, round(one.decision.confidence, 4)]
        for one in index.search(QUESTIONS, 3)
    ]


def make(folder):
    """Save an index of the files with a fit, a label and a gate, and what it says."""
    index = Retriever(UEC([letters, "bm25"]).fit(pairs(64)))
    options = {"exclude": ["drafts/"]}
    replace_files(index, list_made_with(write_files(folder / "docs"), options).read().documents)
    index.gate = Gate(0.4)
    index.save(folder / "index")
    index.label(QUESTIONS[1], ["refunds.md#0"])
    record_options(folder / "index", options)
    (folder / "index/told.json").write_text(json.dumps(told(index)))
    index.close()


@pytest.fixture
def kept(tmp_path):
    """The folder of the index, as if it were copied from another machine."""
    with zipfile.ZipFile(KEPT) as archive:
        archive.extractall(tmp_path / "index")
    return tmp_path / "index"


def load(folder):
    return Retriever.load(folder, encoders={"letters": letters})


def test_it_decides_as_it_did_when_it_was_saved(kept):
    before = json.loads((kept / "told.json").read_bytes())
    for (ids, action, confidence), (*then, sure) in zip(told(load(kept)), before, strict=True):
        assert [ids, action] == then
        assert confidence == pytest.approx(sure, abs=0.01)


def test_labels_gate_options_and_fit_are_kept(kept):
    index = load(kept)
    index.check()
    assert len(index) == 3
    assert index.uec.is_fitted
    assert {*index.labels} == {QUESTIONS[1]}
    assert index.gate.threshold == 0.4
    assert options_of(kept) == {"exclude": ["drafts/"]}


def test_an_update_reads_what_has_changed_and_keeps_the_rest(kept, tmp_path):
    folder = write_files(tmp_path / "docs")
    (folder / "returns.md").write_text("# Returns\n\nSend it back by post within a month.\n")
    index = load(kept)
    changes, _, encoded = update_files(index, folder)
    assert (changes.new, changes.unchanged, encoded) == ({"returns.md"}, {*FILES}, 1)
    assert index.search(["Send it back by post"])[0].ids[0] == "returns.md#0"
    assert {*load(kept).labels} == {QUESTIONS[1]}


def test_it_is_small_enough_to_be_kept():
    assert KEPT.stat().st_size < 20_000


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        make(Path(made))
        shutil.make_archive(str(KEPT.with_suffix("")), "zip", Path(made, "index"))
