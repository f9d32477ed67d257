"""What is raised where saved files are not what they must be."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class IndexCorrupted(ValueError):
    """A saved folder is damaged, was changed, or its files do not belong together.

    Nothing of it is used. The message names the file and what to do.
    """


class FingerprintMismatch(ValueError):
    """Saved vectors are of other models, revisions or another posterior than those at hand."""


@contextmanager
def as_corrupted(path: Path) -> Iterator[None]:
    """Blame saved files for whatever goes wrong while what is in them is put together.

    Raises
    ------
    IndexCorrupted
        For errors that values of the wrong kind cause; others pass.
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
            f"path: {str(path)!r} does not hold what belongs there "
            f"({type(error).__name__}: {error}); save it again."
        ) from error
