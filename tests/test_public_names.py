import subprocess
import sys

import pytest

import uec_rag

HEAVY = {
    "numpy",
    "scipy",
    "torch",
    "sentence_transformers",
    "transformers",
    "laplace",
    "sklearn",
    "matplotlib",
    "langchain_core",
    "llama_index",
    "rich",
    "typer",
}


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, uec_rag; print(*{name.partition('.')[0] for name in sys.modules})"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "uec_rag" in result.stdout.split()
    assert HEAVY.isdisjoint(result.stdout.split())


@pytest.mark.parametrize("name", uec_rag.__all__)
def test_every_public_name_is_there(name):
    assert getattr(uec_rag, name) is not None
    assert name in dir(uec_rag)


@pytest.mark.parametrize("name", ["UEC", "Gaussian", "Retriever", "SearchResult"])
def test_a_public_class_is_the_one_defined_in_its_module(name):
    public = getattr(uec_rag, name)
    assert getattr(sys.modules[public.__module__], name) is public


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="no attribute 'Uec'"):
        _ = uec_rag.Uec
