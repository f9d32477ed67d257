"""Reading documents from files, and splitting them into passages and fitting pairs.

`folder` goes through files, `readers` picks a reader for each, `document` is what comes out,
`passages` and `questions` what is made of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from uec_rag.documents.folder import read_folder

if TYPE_CHECKING:
    from uec_rag.documents.passages import fitting_pairs, passages_of

__all__ = ["fitting_pairs", "passages_of", "read_folder"]


def __getattr__(name: str) -> object:
    """Import what makes passages on first use: the process that reads files does without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("uec_rag.documents.passages"), name)
