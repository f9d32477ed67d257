"""Reading documents from files, and splitting them into passages and fitting pairs.

`folder` goes through files, `readers` picks a reader for each, `document` is what comes out,
`passages` and `generated_questions` what is made of it; `question_writer` lets a model write
others.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from uec_rag.documents.folder import read_folder

if TYPE_CHECKING:
    from uec_rag.documents.passages import fitting_pairs, passages_of
    from uec_rag.documents.question_writer import write_questions

__all__ = ["fitting_pairs", "passages_of", "read_folder", "write_questions"]


def __getattr__(name: str) -> object:
    """Import what makes passages on first use: the process that reads files does without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "question_writer" if name == "write_questions" else "passages"
    return getattr(import_module(f"uec_rag.documents.{module}"), name)
