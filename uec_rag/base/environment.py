"""Checks of the installed libraries: errors that say what to install, and a report."""

import importlib
import importlib.util
import os
import platform
import sys
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement

from uec_rag.base.version import __version__

FEATURES = {
    "langchain": "The LangChain adapter",
    "llama-index": "The LlamaIndex adapter",
    "agents": "The middleware for agents",
    "models": "A model of sentence-transformers",
    "fit": "Fitting by laplace-torch",
    "documents": "Reading documents from a folder",
    "stores": "A store in Qdrant or PostgreSQL",
    "serve": "Serving an index",
    "ray": "Work on a cluster",
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

    `extra`: a key of `FEATURES`. `packages`: names of distributions. The libraries of "models" and
    "fit" import torchvision if it is installed, so it must load as well.
    """
    names = {package: _MODULES.get(package, package.replace("-", "_")) for package in packages}
    missing = [package for package, module in names.items() if not _is_there(module)]
    if missing:
        raise ImportError(missing_extra(" and ".join(missing), extra))
    if extra in ("models", "fit") and _is_there("torchvision"):
        try:
            importlib.import_module("torchvision")
        except Exception as error:  # a build for another torch: RuntimeError, OSError, ImportError
            raise ImportError(
                f"{FEATURES[extra]} needs a torchvision that fits the installed torch, or none; "
                f"importing it failed ({type(error).__name__}: {error}). uec_rag does not use it; "
                "remove it with: pip uninstall -y torchvision"
            ) from error


def _is_there(module: str) -> bool:
    try:
        return sys.modules.get(module) is not None or importlib.util.find_spec(module) is not None
    except ImportError:  # an import hook of the application forbids it
        return False


TRUSTED = "UEC_TRUSTED"
"""The environment variable that lists the models that saved folders may name."""


def trusted() -> list[str]:
    """Return the hub names, and patterns such as "intfloat/*", in `TRUSTED`."""
    return [given.strip() for given in os.environ.get(TRUSTED, "").split(",") if given.strip()]


def cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Problem:
    """A problem of the environment, and the command that fixes it."""

    what: str
    fix: str


@dataclass(frozen=True)
class EnvironmentReport:
    """The rows and problems that `uec-rag doctor` prints.

    Attributes
    ----------
    rows
        Labels and values, in the order to print: Python, the installed requirements of uec-rag and
        its extras, the missing requirements of each extra, and the build and devices of torch.
    problems
        The problems; empty if there are none.
    """

    rows: dict[str, str]
    problems: tuple[Problem, ...]


def report() -> EnvironmentReport:
    """Compare the installed libraries with the requirements of uec-rag; imports torch if installed.

    A missing optional library is listed with its extra, and is not a problem. A required library
    that is missing, and any library that is out of range or broken, is a problem.
    """
    rows = {
        "python": f"{platform.python_version()} ({platform.system()} {platform.machine()})",
        "uec-rag": __version__,
    }
    problems = []
    try:
        stated = [Requirement(line) for line in metadata.requires("uec-rag") or []]
    except metadata.PackageNotFoundError:  # running from a folder that was never installed
        stated = []
        what = "uec-rag itself is not installed: its requirements are unknown"
        problems.append(Problem(what, 'pip install -e ".[all]" in its folder'))
    core = {each.name for each in stated if each.marker is None}
    for extra in ("", *FEATURES):
        missing = []
        for each in stated:
            if not (each.marker.evaluate({"extra": extra}) if each.marker else not extra):
                continue
            version, wanted = _version(each.name), f"{each.name}{each.specifier}"
            if version is None:
                missing.append((each.name, wanted))
                continue
            rows[each.name] = version
            # An extra may require a newer version of a core requirement, which is not a problem.
            known = extra and each.name in core
            if not known and not each.specifier.contains(version, prereleases=True):
                what = f"{each.name} {version} is not {wanted}"
                problems.append(Problem(what, f'pip install "{wanted}"'))
        names = ", ".join(name for name, _ in missing)
        if extra:
            rows[f"[{extra}]"] = (
                f'without {names}: pip install "uec-rag[{extra}]"' if missing else "installed"
            )
        elif missing:
            command = " ".join(["pip install", *(f'"{wanted}"' for _, wanted in missing)])
            problems.append(Problem(f"not installed: {names}", command))
    if importlib.util.find_spec("torch") is not None:
        try:
            rows |= _torch_rows()
        except Exception as error:  # a missing library, or an unsupported processor, for instance
            what = f"torch does not load ({type(error).__name__}: {error})"
            problems.append(Problem(what, "pip install --force-reinstall torch"))
    return EnvironmentReport(rows, tuple(problems))


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
