import ast
import importlib
import sys
from pathlib import Path

import pytest

import uec_rag
from tests.helpers import python

HEAVY = {
    *("numpy", "scipy", "torch", "sentence_transformers", "transformers", "laplace", "sklearn"),
    *("matplotlib", "langchain_core", "llama_index", "rich", "typer"),
}


def test_importing_the_package_and_its_errors_imports_nothing_heavy():
    code = "import sys; from uec_rag import UECError; print(*sys.modules)"
    imported = {name.partition(".")[0] for name in python(code, check=True).stdout.split()}
    assert "uec_rag" in imported
    assert HEAVY.isdisjoint(imported)


def test_what_reads_files_imports_no_ensemble():
    code = "import sys, uec_rag.documents.folder; print(*sys.modules)"
    imported = {*python(code, check=True).stdout.split()}
    assert {"uec_rag.ensemble", "uec_rag.encoders", "uec_rag.stores"}.isdisjoint(imported)


STATE = """
import os, signal, sys, threading, warnings
def state():
    return {
        "meta_path": list(sys.meta_path), "hooks": list(sys.path_hooks), "path": list(sys.path),
        "filters": list(warnings.filters), "environment": dict(os.environ),
        "threads": threading.active_count(), "excepthook": sys.excepthook,
        "signals": [signal.getsignal(number) for number in signal.valid_signals()],
    }
before = state()
import uec_rag
after = state()
print(*(name for name in before if before[name] != after[name]))
"""


def test_importing_the_package_changes_nothing_for_others():
    done = python(STATE, check=True)
    assert (done.stdout.split(), done.stderr) == ([], "")


@pytest.mark.parametrize("name", uec_rag.__all__)
def test_every_public_name_is_there(name):
    assert getattr(uec_rag, name) is not None
    assert name in dir(uec_rag)


@pytest.mark.parametrize("name", ["UEC", "Gaussian", "Retriever", "SearchResult"])
def test_a_public_class_is_the_one_defined_in_its_module(name):
    public = getattr(uec_rag, name)
    assert getattr(sys.modules[public.__module__], name) is public


@pytest.mark.parametrize(("owner", "most"), [("UEC", 16), ("Retriever", 41)])
def test_a_class_has_few_public_names(owner, most):
    names = [name for name in dir(getattr(uec_rag, owner)) if not name.startswith("_")]
    assert len(names) <= most


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="no attribute 'Uec'"):
        _ = uec_rag.Uec


def test_what_all_rooms_offer_is_little_enough_to_know():
    offered = {}
    for path in sorted(Path(uec_rag.__file__).parent.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                offered[path.parent.name] = ast.literal_eval(node.value)
    assert sum(map(len, offered.values())) <= 60
    names = {name for names in offered.values() for name in names}
    assert {"UEC", "Gate", "Retriever", "LocalStore", "UECRetriever"} <= names
    assert not [name for name in names if name.startswith(("check_", "make_"))]


ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(
    file for folder in ("benchmarks", "examples", "docs") for file in (ROOT / folder).rglob("*.py")
)


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_a_script_imports_of_the_package_is_there(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("uec_rag"):
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")
