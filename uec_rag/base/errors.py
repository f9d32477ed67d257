"""The errors of this package, which have one root, and its warnings.

UECError
├── IndexCorrupted, also a ValueError          a saved folder is damaged, or of a newer format
│   └── OlderIndex                             an earlier version made it; its texts can be read
├── FingerprintMismatch, also a ValueError     saved vectors are of other models or another fit
├── NoFit, also a ValueError                   passages tell nothing to fit an ensemble on
├── UnknownReading, also a ValueError          `within` names none of the readings
├── NoDirection, also a ValueError             an encoder returned zeros, NaN or infinity
├── EncoderFailed, also a ConnectionError      what an encoder embeds with failed
├── NotRegularError, also an OSError           a path is a link, a pipe or a device
├── NotKept, also an OSError                   questions were written, and no file keeps them
└── InternalError, also a RuntimeError         a bug in this package

A wrong argument raises Python's own ValueError or TypeError, a missing library ImportError, a disk
or a lock OSError.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_stack
from typing import Any


class UECError(Exception):
    """The root of this package's errors, each of which is also one of Python's own kinds."""


class IndexCorrupted(UECError, ValueError):
    """Raised if a saved folder is damaged, was changed, or its files do not belong together.

    None of it is used. The message names the file and how to fix the problem.
    """


class OlderIndex(IndexCorrupted):
    """Raised for an index of an older format, which is left as it is; the message has the command.

    `uec-rag index OLD --out NEW` reads its texts, metadata, written questions and labels again.
    """


def corruption(path: Path, problem: str) -> IndexCorrupted:
    """Make the error for a file or a folder, of which the message says `problem`."""
    return IndexCorrupted(f"path: {str(path)!r} {problem}")


class FingerprintMismatch(UECError, ValueError):
    """Raised if saved vectors come from other models, revisions or posteriors."""


class NoFit(UECError, ValueError):
    """Raised if an ensemble cannot be fitted on some passages without labels."""


class UnknownReading(UECError, ValueError):
    """The error for a chosen reading that the question does not have, or the index no longer."""


class NoDirection(UECError, ValueError):
    """Raised for vectors that are zero or not finite, which resemble nothing.

    Parameters
    ----------
    encoder : str
    count : int
        The number of such vectors.
    row : int
        The position of the first.
    texts : sequence of str
        What was embedded, if it is known.
    store : str
        The name of the store whose vectors they are; "" if the encoder returned them.
    is_null : bool
        Whether the first is null, NaN or infinite, as of a service that fails, and not zero.
    """

    def __init__(
        self,
        encoder: str,
        count: int,
        row: int,
        texts: Sequence[str],
        store: str = "",
        *,
        is_null: bool = False,
    ) -> None:
        self.encoder, self.count, self.text = encoder, count, texts[row] if texts else ""
        self.is_null = is_null
        suffix = f" and {count - 1} more" if count > 1 else ""
        if store:
            super().__init__(
                f"{store}: {count} vectors are zeros, NaN or infinity; expected finite vectors "
                "with a direction. Index the texts again in a store that keeps small numbers "
                "(8 bits may round all to 0), or pass vectors=lambda ids: {} to encode its texts."
            )
            return
        place = f"texts[{row}] ({self.text!r:.60})" if texts else f"row {row}"
        super().__init__(
            f"encoder {encoder!r} returned NaN, infinity or a vector of zeros for {place}{suffix}; "
            "expected finite vectors with a direction. Static models return zeros for a text "
            "without a word that they know."
        )

    def among(self, texts: Sequence[str]) -> NoDirection:
        """Return the error with the position of its text among others, if it is one of these."""
        if self.text not in texts:
            return self
        row = [*texts].index(self.text)
        return NoDirection(self.encoder, self.count, row, texts, is_null=self.is_null)


class EncoderFailed(UECError, ConnectionError):
    """Raised if what an encoder embeds with fails, as a service may; `__cause__` is its error.

    Attributes
    ----------
    encoder : str
        The encoder's name.
    texts : sequence of str
        What it refused, if that is one of several texts.
    """

    def __init__(self, message: str, encoder: str = "", texts: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.encoder, self.texts = encoder, texts


class NotRegularError(UECError, OSError, ValueError):
    """Raised if a path is not a regular file."""


class NotKept(UECError, OSError):
    """Raised if a file cannot keep what a model has written; `__cause__` is the disk's error.

    Attributes
    ----------
    result : WrittenQuestions
        What the model has written until then, which was paid for.
    """

    def __init__(self, message: str, result: Any = None, errno: int | None = None) -> None:  # noqa: ANN401
        super().__init__(message)
        self.result, self.errno = result, errno


class InternalError(UECError, RuntimeError):
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
        problem = "is missing"
        if not is_missing:
            problem = f"has unexpected content ({type(error).__name__}: {error!s:.300})"
        raise corruption(path, f"{problem}; make it again.") from error


class UECWarning(UserWarning):
    """A warning of this package, wherever its caller is."""


def warn(message: str) -> None:
    """Warn at the line that called this package first, directly or through a framework."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_stack(sys._getframe())]
    ours = [position for position, name in enumerate(modules) if name.startswith("uec_rag.")]
    warnings.warn(message, UECWarning, stacklevel=ours[-1] + 2)


def warn_once(memory: set[object], kind: object, message: str) -> None:
    """Warn unless it was done for something of its kind."""
    if kind not in memory:
        memory.add(kind)
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
