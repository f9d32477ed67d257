"""`uec-rag --encoder`: models that only the user's code can make."""

import json

import pytest

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
    found = run(*own, "ask", "idx", "honey in the hive", "--json", json_output=True)
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
