"""Exceptions for saved files and for bugs in this package, and warnings for its users."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
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
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        FileNotFoundError,
        LookupError,
        MemoryError,
        NotADirectoryError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        said = f"has unexpected content ({type(error).__name__}: {error})"
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            said = "is missing"
        raise corruption(path, f"{said}; make it again.") from error


class UECWarning(UserWarning):
    """A warning of this package, wherever its caller is."""


def warn(message: str) -> None:
    """Warn at the line that called this package first, directly or through a framework."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_stack(sys._getframe())]
    ours = [position for position, name in enumerate(modules) if name.startswith("uec_rag.")]
    warnings.warn(message, UECWarning, stacklevel=ours[-1] + 2)
