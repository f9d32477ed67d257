"""What the installed libraries can do together: a guard, a report, and what to install next."""

import functools
import importlib
import importlib.util
import os
import platform
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from types import ModuleType

from packaging.requirements import Requirement

from uec_rag.base.version import __version__

FEATURES = {
    "langchain": "The LangChain adapter",
    "agents": "The middleware for agents",
    "llama-index": "The LlamaIndex adapter",
    "fit": "Fitting a posterior",
    "plots": "Plotting",
    "evaluation": "The evaluation",
    "hnsw": "Approximate search",
    "qdrant": "A store in Qdrant",
    "postgres": "A store in PostgreSQL",
    "ray": "Work on a cluster",
    "onnx": "Exporting a model to ONNX",
    "mteb": "The official benchmark",
    "tracing": "Tracing",
    "demo": "Reading documents from a folder",
}
"""What each extra of the package is for, as the subject of a sentence."""


def missing_extra(package: str, extra: str) -> str:
    """Text of the ImportError to raise where an optional package is absent.

    Parameters
    ----------
    package
        The distribution that is missing, as pip spells it.
    extra
        The extra of uec-rag that brings it; a key of `FEATURES`.

    Examples
    --------
    >>> print(missing_extra("laplace-torch", "fit"))
    Fitting a posterior needs laplace-torch; install it with: pip install "uec-rag[fit]"
    """
    return f'{FEATURES[extra]} needs {package}; install it with: pip install "uec-rag[{extra}]"'


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def shield_from_broken_torchvision() -> None:
    """Make a torchvision that cannot be imported look absent.

    Call it right before importing sentence_transformers, transformers or laplace. They use
    torchvision wherever it is installed, although nothing here needs it, and a build made for
    another torch (PyPI's beside a CPU-only torch) breaks their import. Costs nothing where
    torchvision is absent, and nothing after the first call.

    Warns
    -----
    RuntimeWarning
        If torchvision is installed and does not load; says how to mend the environment.
    """
    failure = _torchvision_failure()
    if failure is None:
        return
    for name in [name for name in sys.modules if name.startswith("torchvision.")]:
        del sys.modules[name]
    # None is Python's mark for a module that is not to be found: importing it raises
    # ModuleNotFoundError, and find_spec, which transformers asks, answers None.
    sys.modules["torchvision"] = None  # type: ignore[assignment]
    # torchmetrics, which laplace imports, asks the installed distributions instead.
    sys.meta_path.insert(0, _WithoutTorchvision())
    # Where transformers came first, it has already noted that torchvision is there.
    import_utils = sys.modules.get("transformers.utils.import_utils")
    if import_utils is not None and hasattr(import_utils.is_torchvision_available, "cache_clear"):
        import_utils.is_torchvision_available.cache_clear()
    problem = _broken_torchvision(failure)
    warnings.warn(
        f"{problem.what}; going on without it. To mend the environment: {problem.fix}",
        RuntimeWarning,
        stacklevel=2,
    )


def warn_of_usearch_before_torch(loaded: Iterable[str]) -> None:
    """Say what to do where laplace-torch's import may never return.

    It calls torch.jit.script, which hangs where usearch was loaded before torch (seen with torch
    2.13 and usearch 2.26). The stores of this package load them in the other order.

    Parameters
    ----------
    loaded : iterable of str
        Names of the modules that are loaded, in order: `sys.modules`.
    """
    order = [name for name in loaded if name in ("usearch", "torch", "asdl")]
    if order[:2] == ["usearch", "torch"] and "asdl" not in order:  # whose import calls it
        warnings.warn(
            "usearch was imported before torch: where what follows hangs, import torch first.",
            UserWarning,
            stacklevel=2,
        )


class _WithoutTorchvision(metadata.DistributionFinder):
    """Answers a search for the installed distribution torchvision: there is none."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Leave the finding of modules to the finders that follow."""

    def find_distributions(
        self, context: metadata.DistributionFinder.Context | None = None
    ) -> Iterable[metadata.Distribution]:
        if context is not None and context.name == "torchvision":
            raise metadata.PackageNotFoundError("torchvision")
        return ()


@functools.cache
def _torchvision_failure() -> str | None:
    """Why an installed torchvision cannot be imported; None where it can, or is absent."""
    if "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return None
    try:
        importlib.import_module("torchvision")
    except Exception as error:  # RuntimeError, OSError, ImportError: as many as ways to be broken
        return f"{type(error).__name__}: {error}"
    return None


@dataclass(frozen=True)
class Problem:
    """Something that does not work here, and the command that mends it."""

    what: str
    fix: str


def _broken_torchvision(failure: str) -> Problem:
    return Problem(
        what=f"torchvision, which nothing here needs, does not load beside this torch ({failure})",
        fix="pip uninstall -y torchvision",
    )


@dataclass(frozen=True)
class EnvironmentReport:
    """What `uec-rag doctor` prints.

    Attributes
    ----------
    rows
        Label and value, in the order to print: python, every library that uec-rag or one of its
        extras asks for, torch's build and devices, torchvision.
    problems
        Empty where all is well.
    """

    rows: dict[str, str]
    problems: tuple[Problem, ...]


def report() -> EnvironmentReport:
    """Compare the installed libraries with what uec-rag asks for; imports torch and torchvision.

    Returns
    -------
    EnvironmentReport
        An optional library that is absent is named in its row and is no problem; a library that
        is needed and absent, out of range, or broken, is one.
    """
    rows = {
        "python": f"{platform.python_version()} ({platform.system()} {platform.machine()})",
        "uec-rag": __version__,
    }
    problems = []
    required, optional = _requirements()
    if not required:
        what = "uec-rag itself is not installed: its requirements are unknown"
        problems.append(Problem(what, 'pip install -e ".[all]" in its folder'))
    for requirement in [*required, *optional]:
        name, version = requirement.name, _version(requirement.name)
        rows[name] = version or "not installed"
        wanted = f"{name}{requirement.specifier}"
        if version is None and requirement in required:
            problems.append(Problem(f"{name} is not installed", f'pip install "{wanted}"'))
        elif version is not None and not requirement.specifier.contains(version, prereleases=True):
            problems.append(Problem(f"{name} {version} is not {wanted}", f'pip install "{wanted}"'))
    rows["transformers"] = _version("transformers") or "not installed"

    try:
        rows |= _torch_rows()
    except Exception as error:  # a missing library, a wrong processor: whatever kept torch out
        what = f"torch does not load ({type(error).__name__}: {error})"
        problems.append(Problem(what, "pip install --force-reinstall torch"))
    failure = _torchvision_failure()
    if failure is None:
        rows["torchvision"] = _version("torchvision") or "not installed (not needed)"
    else:
        rows["torchvision"] = "does not load (not needed)"
        problems.append(_broken_torchvision(failure))
    return EnvironmentReport(rows, tuple(problems))


def _requirements() -> tuple[list[Requirement], list[Requirement]]:
    """What uec-rag needs, and what its extras (those in `FEATURES`) bring beyond that.

    A newer version of what is needed anyway, as an extra may ask for, is no problem to others.
    """
    try:
        stated = [Requirement(line) for line in metadata.requires("uec-rag") or []]
    except metadata.PackageNotFoundError:  # running from a folder that was never installed
        return [], []
    required = [requirement for requirement in stated if requirement.marker is None]
    needed = {requirement.name for requirement in required}
    optional = [
        requirement
        for extra in FEATURES
        for requirement in stated
        if requirement.name not in needed
        and requirement.marker is not None
        and requirement.marker.evaluate({"extra": extra})
    ]
    return required, optional


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _torch_rows() -> dict[str, str]:
    import torch

    devices = ["cpu"]
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        devices += [f"cuda:{i} ({name})" for i, name in enumerate(names)]
    if torch.backends.mps.is_available():
        devices.append("mps")
    if torch.version.cuda is not None:
        build = f"CUDA {torch.version.cuda}"
    elif torch.version.hip is not None:
        build = f"ROCm {torch.version.hip}"
    else:
        build = "without CUDA"
    return {"torch build": build, "devices": ", ".join(devices)}
