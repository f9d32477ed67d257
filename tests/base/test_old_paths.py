"""Imports of modules that moved go on working, and say where they went."""

import subprocess
import sys
import warnings
from importlib import import_module

import pytest

from uec_rag.base.old_paths import MOVED

# Old name, and where it is now.
NAMES = {
    "uec_rag.calibration.Calibrator": "uec_rag.confidence.calibrator.Calibrator",
    "uec_rag.demo.gather_corpus": "uec_rag.corpora.python_docs.gather_corpus",
    "uec_rag.encoders.pypi.EMBEDDED": "uec_rag.encoders.EMBEDDED",
    "uec_rag.coefficients.Trace": "uec_rag.ensemble.coefficients.Trace",
    "uec_rag.evidence.Evidence": "uec_rag.ensemble.coefficients.Evidence",
    "uec_rag.gate.Gate": "uec_rag.retrieval.gate.Gate",
    "uec_rag.gaussian.Gaussian": "uec_rag.Gaussian",
    "uec_rag.plots.risk_coverage": "uec_rag.paper.plots.risk_coverage",
    "uec_rag.results.SearchResult": "uec_rag.SearchResult",
    "uec_rag.risk.risk_threshold": "uec_rag.confidence.risk.risk_threshold",
    "uec_rag.similarity.SIMILARITIES": "uec_rag.paper.similarities.SIMILARITIES",
    "uec_rag.similarity.moments": "uec_rag.base.similarity.moments",
}
# Names of 0.1.0 whose path is still the one to use.
KEPT = [
    "uec_rag.confidence.ConfidenceModel",
    "uec_rag.confidence.Decision",
    "uec_rag.corpora.fitting_pairs",
    "uec_rag.corpora.read_folder",
    "uec_rag.encoders.CachedEncoder",
    "uec_rag.encoders.EMBEDDED",
    "uec_rag.ensemble.UEC",
    "uec_rag.laplace.pairs.check_pairs",
    "uec_rag.retrieval.Retriever",
    "uec_rag.retrieval.SearchResult",
    "uec_rag.stores.MemoryStore",
]


@pytest.fixture
def forget(monkeypatch):
    """Let the import system ask anew for a module."""

    def forget(path):
        monkeypatch.delitem(sys.modules, path, raising=False)

    return forget


def get(path):
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


@pytest.mark.parametrize("old", MOVED)
def test_an_old_path_is_the_new_module_and_names_it_in_a_warning(old, forget):
    forget(f"uec_rag.{old}")
    new = f"uec_rag.{MOVED[old]}"
    with pytest.warns(DeprecationWarning, match=f"^uec_rag.{old} is now {new}; ") as told:
        module = import_module(f"uec_rag.{old}")
    assert module is import_module(new)
    assert len(told) == 1


@pytest.mark.parametrize("old", NAMES)
def test_what_users_have_from_an_old_path_is_the_same_object(old, forget):
    forget(old.rpartition(".")[0])
    with pytest.warns(DeprecationWarning, match="is now uec_rag"):
        found = get(old)
    assert found is get(NAMES[old])


@pytest.mark.parametrize("path", KEPT)
def test_a_path_that_stays_does_so_without_a_warning(path):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="uec_rag")
        assert get(path) is not None


def test_the_warning_points_at_the_line_that_imports(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text("import uec_rag\nfrom uec_rag.risk import risk_threshold\n", encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    # Python shows a DeprecationWarning by default only where the line is the user's own.
    assert f"{script}:2: DeprecationWarning: uec_rag.risk is now uec_rag.confidence.risk" in (
        done.stderr
    )


def test_a_path_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        import_module("uec_rag.risks")
