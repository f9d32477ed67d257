"""Checks of the installed libraries, with errors that say what to install."""

import importlib.util
import os
import sys

FEATURES = {
    "langchain": "The LangChain adapter",
    "llama-index": "The LlamaIndex adapter",
    "agents": "The middleware for agents",
    "models": "A model of sentence-transformers",
    "fit": "Fitting by laplace-torch",
    "documents": "Reading documents from a folder",
    "stores": "A store in Qdrant",
    "serve": "Serving an index",
}
"""The purpose of each extra of the package, as the subject of a sentence."""

_MODULES = {"laplace-torch": "laplace"}  # modules whose name differs from the distribution's


def missing_extra(package: str, extra: str) -> str:
    """Return the message of the ImportError to raise if an optional package is absent.

    `package`: name of the missing distribution. `extra`: the extra of uec-rag that contains it, a
    key of `FEATURES`.

    Examples
    --------
    >>> print(missing_extra("laplace-torch", "fit"))
    Fitting by laplace-torch needs laplace-torch; install it with: pip install "uec-rag[fit]"
    """
    return f'{FEATURES[extra]} needs {package}; install it with: pip install "uec-rag[{extra}]"'


def require(extra: str, *packages: str) -> None:
    """Raise ImportError if a package is absent, with the pip command that installs it.

    `extra`: a key of `FEATURES`. `packages`: names of distributions.
    """
    names = {package: _MODULES.get(package, package.replace("-", "_")) for package in packages}
    missing = [package for package, module in names.items() if not _is_there(module)]
    if missing:
        raise ImportError(missing_extra(" and ".join(missing), extra))


def _is_there(module: str) -> bool:
    try:
        return sys.modules.get(module) is not None or importlib.util.find_spec(module) is not None
    except ImportError:  # an import hook of the application forbids it
        return False


def cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
