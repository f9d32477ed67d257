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
    "llama-index": "The LlamaIndex adapter",
    "agents": "The middleware for agents",
    "models": "A model of sentence-transformers",
    "fit": "Fitting by laplace-torch",
    "documents": "Reading documents from a folder",
    "stores": "Approximate search, Qdrant or PostgreSQL",
    "serve": "Serving an index",
    "ray": "Work on a cluster",
}
"""What each extra of the package is for, as the subject of a sentence."""

_MODULES = {"laplace-torch": "laplace"}  # whose name is another than the distribution's


def missing_extra(package: str, extra: str) -> str:
    """Text of the ImportError to raise where an optional package is absent.

    `package`: the distribution that is missing, as pip spells it. `extra`: the extra of uec-rag
    that brings it; a key of `FEATURES`.

    Examples
    --------
    >>> print(missing_extra("laplace-torch", "fit"))
    Fitting by laplace-torch needs laplace-torch; install it with: pip install "uec-rag[fit]"
    """
    return f'{FEATURES[extra]} needs {package}; install it with: pip install "uec-rag[{extra}]"'


def require(extra: str, *packages: str) -> None:
    """Raise ImportError, naming all that are absent and the extra that brings them, if any is.

    `extra`: a key of `FEATURES`. `packages`: distributions, as pip spells them.
    """
    names = {package: _MODULES.get(package, package.replace("-", "_")) for package in packages}
    missing = [package for package, module in names.items() if not _is_there(module)]
    if missing:
        raise ImportError(missing_extra(" and ".join(missing), extra))


def _is_there(module: str) -> bool:
    try:
        return sys.modules.get(module) is not None or importlib.util.find_spec(module) is not None
    except ImportError:  # a finder of the application's that forbids it
        return False


TRUSTED = "UEC_TRUSTED"
"""Variable of the environment: what a saved folder may name, with commas between; see `trusted`."""


def trusted() -> list[str]:
    """Hub names, or patterns such as "intfloat/*", and places of engines that the user lists."""
    return [given.strip() for given in os.environ.get(TRUSTED, "").split(",") if given.strip()]


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
        f"{problem.what}; continuing without it. To fix the environment: {problem.fix}",
        RuntimeWarning,
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
        Label and value, in the order to print: python, the installed libraries that uec-rag or one
        of its extras asks for, what each extra still lacks, torch's build and devices.
    problems
        Empty where all is well.
    """

    rows: dict[str, str]
    problems: tuple[Problem, ...]


def report() -> EnvironmentReport:
    """Compare the installed libraries with what uec-rag asks for; imports torch where there is one.

    An optional library that is absent is named beside its extra and is no problem; a library that
    is needed and absent, out of range, or broken, is one.
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
        needed = [
            each
            for each in stated
            if (each.marker.evaluate({"extra": extra}) if each.marker else not extra)
        ]
        versions = {each.name: _version(each.name) for each in needed}
        rows |= {name: version for name, version in versions.items() if version}
        missing = [each for each in needed if versions[each.name] is None]
        names = ", ".join(each.name for each in missing)
        if extra:
            rows[f"[{extra}]"] = (
                f'without {names}: pip install "uec-rag[{extra}]"' if missing else "installed"
            )
        elif missing:
            wanted = " ".join(f'"{each.name}{each.specifier}"' for each in missing)
            problems.append(Problem(f"not installed: {names}", f"pip install {wanted}"))
        for each in needed:
            version, wanted = versions[each.name], f"{each.name}{each.specifier}"
            # A newer version of what is needed anyway, as an extra may ask for, is no problem.
            if (extra and each.name in core) or version is None:
                continue
            if not each.specifier.contains(version, prereleases=True):
                what = f"{each.name} {version} is not {wanted}"
                problems.append(Problem(what, f'pip install "{wanted}"'))
    if importlib.util.find_spec("torch") is not None:
        try:
            rows |= _torch_rows()
        except Exception as error:  # a missing library, a wrong processor: whatever kept torch out
            what = f"torch does not load ({type(error).__name__}: {error})"
            problems.append(Problem(what, "pip install --force-reinstall torch"))
        failure = _torchvision_failure()
        if failure is not None:
            rows["torchvision"] = "does not load (not needed)"
            problems.append(_broken_torchvision(failure))
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
