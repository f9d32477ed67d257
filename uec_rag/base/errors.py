"""Exceptions for saved files, bugs of this package and missing libraries, and warnings."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_stack


class IndexCorrupted(ValueError):
    """Raised if a saved folder is damaged, was changed, or its files do not belong together.

    None of it is used. The message names the file and how to fix the problem.
    """


def corruption(path: Path, what: str) -> IndexCorrupted:
    """Make the error for a file or a folder, of which the message says `what`."""
    return IndexCorrupted(f"path: {str(path)!r} {what}")


class FingerprintMismatch(ValueError):
    """Raised if saved vectors come from other models, revisions or posteriors."""


class InternalError(RuntimeError):
    """Raised for a bug in this package; please report it."""


@contextmanager
def as_corrupted(path: Path) -> Iterator[None]:
    """Convert errors in the block that invalid file contents cause into IndexCorrupted."""
    try:
        yield
    except (IndexCorrupted, FingerprintMismatch):
        raise
    except Exception as error:
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        if isinstance(error, OSError) and not (is_missing or isinstance(error, ValueError)):
            raise  # the disk's, not the contents'
        said = "is missing"
        if not is_missing:
            said = f"has unexpected content ({type(error).__name__}: {error!s:.300})"
        raise corruption(path, f"{said}; make it again.") from error


class UECWarning(UserWarning):
    """A warning of this package, wherever its caller is."""


def warn(message: str) -> None:
    """Warn at the line that called this package first, directly or through a framework."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_stack(sys._getframe())]
    ours = [position for position, name in enumerate(modules) if name.startswith("uec_rag.")]
    warnings.warn(message, UECWarning, stacklevel=ours[-1] + 2)


def warn_once(said: set[object], kind: object, message: str) -> None:
    """Warn unless it was done for something of its kind."""
    if kind not in said:
        said.add(kind)
        warn(message)


def missing_extra(package: str, extra: str) -> str:
    """Return the message of the ImportError to raise if an optional package is absent.

    `package`: name of the missing distribution. `extra`: the extra of uec-rag that contains it.

    Examples
    --------
    >>> print(missing_extra("qdrant-client", "stores"))
    This needs qdrant-client; install it with: pip install "uec-rag[stores]"
    """
    return f'This needs {package}; install it with: pip install "uec-rag[{extra}]"'


def require(extra: str, *packages: str) -> None:
    """Raise ImportError if a package is absent, with the pip command that installs it.

    `extra`: an extra of uec-rag. `packages`: names of packages.
    """
    missing = [name for name in packages if find_spec(name.replace("-", "_")) is None]
    if missing:
        raise ImportError(missing_extra(" and ".join(missing), extra))
