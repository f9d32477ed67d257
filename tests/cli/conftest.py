"""The real command line on a tiny model: bags of words, projected at random."""

import json
import shutil
from contextvars import copy_context
from itertools import combinations

import pytest
from typer.testing import CliRunner

from uec_rag.cli import app

TOPICS = {
    "bread": ("dough", "flour", "yeast", "oven", "crust"),
    "boats": ("sail", "anchor", "harbour", "mast", "keel"),
    "bees": ("hive", "honey", "queen", "swarm", "pollen"),
    "glass": ("furnace", "sand", "window", "mirror", "lens"),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("UEC_CACHE", str(folder))
    return folder


def call(*arguments, code=0, json_output=False):
    """Call the command line as a user does; with `json_output`, return what stdout holds."""
    # In a context of its own, as of a process: a command sets variables of it.
    given = [*map(str, arguments), *(["--json"] if json_output else [])]
    result = copy_context().run(CliRunner().invoke, app, given)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout) if json_output else result


@pytest.fixture
def run():
    return call


@pytest.fixture(scope="session")
def words(tmp_path_factory):
    """Folder of a SentenceTransformer that adds up random word vectors."""
    return make_model(tmp_path_factory.mktemp("words"), seed=0, width=48)


@pytest.fixture(scope="session")
def other_words(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("other-words"), seed=1, width=32)


def make_model(folder, seed, width):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    letters = [chr(code) for code in range(33, 127)]
    known = [word for topic, inner in TOPICS.items() for word in (topic, *inner)]
    tokens = dict.fromkeys(["[UNK]", *known, *letters, *(f"##{letter}" for letter in letters)])
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(len(vocabulary), width, generator=generator)
    weights[len(known) + 1 :] *= 0.1  # letters say little
    module = StaticEmbedding(tokenizer, embedding_weights=weights)
    SentenceTransformer(modules=[module], device="cpu").save(str(folder))
    return folder


@pytest.fixture(scope="session")
def documents(tmp_path_factory):
    """A folder of forty sections, each on two words of one topic."""
    folder = tmp_path_factory.mktemp("documents")
    for topic, inner in TOPICS.items():
        sections = [
            f"## The {one} and the {two}\n\nWhoever of {topic} has a {one} looks after the {two} "
            f"every day, and keeps the {one} dry.\n"
            for one, two in combinations(inner, 2)
        ]
        (folder / f"{topic}.md").write_text("\n".join(sections))
    return folder


@pytest.fixture(scope="session")
def made(documents, words, other_words, tmp_path_factory):
    """An index of the documents; not to be written to."""
    path = tmp_path_factory.mktemp("made") / "idx"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UEC_CACHE", str(tmp_path_factory.mktemp("cache")))
        call("index", documents, "--out", path, "--model", words, "--model", other_words)
    return path


@pytest.fixture
def index(made, tmp_path):
    """An index of the documents, to be written to."""
    return shutil.copytree(made, tmp_path / "idx")
