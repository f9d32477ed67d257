"""Importing an adapter: its own framework and nothing heavy, or a sentence on what to install."""

import pytest

from tests.helpers import python

HEAVY = {"langchain_core", "llama_index", "torch", "transformers", "sentence_transformers"}
HEAVY |= {"laplace", "sklearn"}

LANGCHAIN = 'This needs langchain-core; install it with: pip install "uec-rag[langchain]"'
LLAMA_INDEX = 'This needs llama-index-core; install it with: pip install "uec-rag[llama-index]"'


def run(room, before="pass"):
    return python(f"import sys; {before}; import uec_rag.{room} as adapter; print(*sys.modules)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("room", "framework"), [("langchain", "langchain_core"), ("llama_index", "llama_index")]
)
def test_an_adapter_imports_no_other_framework_and_no_model_library(room, framework):
    done = run(room)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert HEAVY & loaded == {framework}, done.stderr


@pytest.mark.parametrize(
    ("room", "missing", "sentence"),
    [("langchain", "langchain_core", LANGCHAIN), ("llama_index", "llama_index.core", LLAMA_INDEX)],
)
def test_without_its_framework_the_error_says_what_to_install(room, missing, sentence):
    done = run(room, f"sys.modules[{missing!r}] = None")
    assert done.stderr.endswith(f"ImportError: {sentence}\n")
