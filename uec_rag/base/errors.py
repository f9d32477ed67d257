"""Errors about saved files and about defects of this package, and warnings for its users."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_stack


class IndexCorrupted(ValueError):
    """A saved folder is damaged, was changed, or its files do not belong together.

    Nothing of it is used. The message names the file and what to do.
    """


class SavedMeanwhile(BlockingIOError):
    """Another process has saved to a folder since what is to be saved there was loaded from it.

    Saving would undo that save, so nothing was saved: load the folder and make the change again, or
    save elsewhere.
    """


class FingerprintMismatch(ValueError):
    """Saved vectors come from other models, revisions or posteriors than those at hand."""


@contextmanager
def proving(kind: str) -> Iterator[None]:
    """Check that what was just written loads, before it replaces what was saved earlier.

    Raises RuntimeError from whatever error the block raises.
    """
    try:
        yield
    except Exception as error:
        raise RuntimeError(
            f"path: the {kind} just written does not load again ({error}). Nothing was saved, "
            "and the previous save is unchanged; please report this."
        ) from error


class InternalError(RuntimeError):
    """A defect of this package, whatever was given; please report it."""


@contextmanager
def as_corrupted(path: Path) -> Iterator[None]:
    """Turn any error in the block, which reads saved files, into IndexCorrupted.

    Turns errors that values of the wrong kind cause into IndexCorrupted; others pass.
    """
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
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise IndexCorrupted(
            f"path: {str(path)!r} has unexpected content ({type(error).__name__}: {error}); save "
            "it again."
        ) from error


def warn(message: str) -> None:
    """Warn at the line that called this package first, directly or through a framework."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_stack(sys._getframe())]
    ours = [place for place, name in enumerate(modules) if name.startswith("uec_rag.")]
    warnings.warn(message, UserWarning, stacklevel=ours[-1] + 2)
