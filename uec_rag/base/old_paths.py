"""Modules that moved in 0.2.0: imports of their old paths go on working, with a warning."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "asking": "retrieval.search",
    "calibration": "confidence.calibrator",
    "coefficients": "ensemble.coefficients",
    "confidence_fit": "confidence.fit",
    "convolution": "ensemble.convolution",
    "corpus_calibration": "retrieval.calibrate",
    "demo": "corpora.python_docs",
    "digest": "base.softmax_sums",
    "encoders.exported": "encoders.onnx",
    "encoders.pypi": "encoders.bundled",
    "encoders.tokens": "encoders.shared_tokens",
    "encoders.use": "encoders.bundled_use",
    "environment": "base.environment",
    "evidence": "ensemble.coefficients",
    "evidence_fit": "ensemble.evidence_fit",
    "files": "base.files",
    "fit_queries": "ensemble.fit_queries",
    "fitting": "ensemble.fit",
    "gate": "retrieval.gate",
    "gaussian": "base.gaussian",
    "indexing": "retrieval.index",
    "inputs": "stores.make_passages",
    "judging": "retrieval.judge",
    "landscape": "ensemble.similarity_summary",
    "langchain.retriever": "langchain.vectorstore",
    "metrics": "paper.metrics",
    "mmr": "retrieval.diversity",
    "own_questions": "corpora.questions",
    "passes": "base.tiles",
    "plain": "ensemble.plain",
    "plots": "paper.plots",
    "report": "ensemble.report",
    "results": "retrieval.result",
    "risk": "confidence.risk",
    "rules": "ensemble.coefficients",
    "saving": "retrieval.save",
    "sentences": "corpora.sentences",
    "similarity": "paper.similarities",
}
"""Old path -> new path, both below `uec_rag`."""


class _OldPaths(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, old = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == "uec_rag" and old in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        new = f"uec_rag.{MOVED[old.partition('.')[2]]}"
        warnings.warn(
            f"{old} is now {new}; the old path will go with 1.0.", DeprecationWarning, stacklevel=2
        )
        # The same module under both names, so that what is set or looked for in one is in both.
        sys.modules[old] = import_module(new)


def serve() -> None:
    """Let the import system find what moved; it asks here for what it finds nowhere else."""
    sys.meta_path.append(_OldPaths())
