"""`uec-rag --encoder`: models that only the user's code can make."""

import ast
import json
import os
import signal
import sys

import pytest

from tests.helpers import python

MODEL = """
from tests.helpers import bag_of_words

make, none = lambda: bag_of_words(64, "words"), lambda: None
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "own_models.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_index_of_an_own_model_is_made_asked_and_gated(run, here, documents):
    own = ("--encoder", "own_models:make")
    run(*own, "index", documents, "--out", "idx")
    found = run(*own, "ask", "idx", "honey in the hive", json_output=True)
    assert "bees.md" in json.dumps(found)
    (here / "asked.csv").write_text("query,relevant_ids\nhoney in the hive,bees.md\nwho?,\n")
    told = run(*own, "gate", "idx", "asked.csv", code=2).stderr
    assert "no gate was saved" in " ".join(told.split())
    said = run("ask", "idx", "honey", code=2).output
    assert "words" in said
    assert "encoders=" in said


@pytest.mark.parametrize(
    "name", ["own_models", "own_models:nothing", "nowhere:make", "own_models:none"]
)
def test_what_is_no_function_of_an_encoder_is_refused(run, here, index, name):
    said = run("--encoder", name, "ask", index, "honey", code=2).output
    assert f"--encoder: expected MODULE:FUNCTION, which returns an embedding, got '{name}'" in said


STOPPED = """
import os, signal
from pathlib import Path
from tests.helpers import bag_of_words

words, log = bag_of_words(64, "words"), Path("texts.log")

def embed(texts):
    if len(texts) > 8:
        raise ValueError("at most 8 texts")
    calls = len(log.read_text().split("call ")) if log.exists() else 0
    if calls == 3:  # once
        log.write_text(log.read_text() + "call 3")
        os.kill(os.getpid(), signal.SIGTERM)
    log.write_text((log.read_text() if log.exists() else "") + "call " + repr(texts))
    return words(texts)

make = lambda: embed
"""


def test_what_was_embedded_before_a_command_was_stopped_is_not_embedded_again(here, documents):
    (here / "own_models.py").write_text(STOPPED)
    code = "from uec_rag.cli import main; main()"
    command = ("--encoder", "own_models:make", "index", documents, "--out", "idx")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    first = python(code, *command, env=environment)
    assert first.returncode == -signal.SIGTERM
    assert not (here / "idx").exists()
    second = python(code, *command, env=environment)
    assert second.returncode == 0, second.stderr
    assert "Going on with what idx.unfinished has" in second.stderr
    assert [path.name for path in here.glob("idx*")] == ["idx"]
    calls = (here / "texts.log").read_text().split("call ")
    texts = [text for call in calls if call.startswith("[") for text in ast.literal_eval(call)]
    passages = [text for text in texts if "Whoever" in text]
    assert len(passages) > 32
    again = [text for text in {*passages} if passages.count(text) > 1]
    assert len(again) <= 1  # by which the model is known again
