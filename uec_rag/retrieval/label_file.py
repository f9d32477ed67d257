"""Labelled questions of an index: the table of `uec-rag gate`, in the folder of the index."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from uec_rag.base.checks import check_text
from uec_rag.base.files import lock_file
from uec_rag.documents.labels import read_questions, write_questions

LABELS_FILE = "questions.csv"
"""The file name of the labelled questions in an index's folder."""

_PATIENCE = 10.0  # seconds that a label waits for those of other processes


class LabelFile:
    """The labelled questions of an index, in a file that is read at each use.

    Parameters
    ----------
    folder : Path
        The folder of the index.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     labels = LabelFile(Path(folder))
    ...     labels.write("How long?", ["faq.md#loans"])
    ...     labels.read()
    {'How long?': {'faq.md#loans'}}
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LABELS_FILE

    def read(self) -> dict[str, set[str]]:
        """Return the ids of the passages that answer each question; none if nothing does."""
        return read_questions(self.path, labelled=True) if self.path.exists() else {}

    def write(self, question: str, ids: Collection[str]) -> None:
        """Label a question in place of what it had; without ids, nothing answers it."""
        self._change(question, {*ids})

    def remove(self, question: str) -> None:
        """Remove the label of a question, if it has one."""
        self._change(question, None)

    def _change(self, question: str, ids: set[str] | None) -> None:
        """Change the ids of a question, or remove it; others wait meanwhile.

        Raises BlockingIOError if other processes keep writing labels.
        """
        check_text(question, "question")
        lock = self.path.with_name(f".{self.path.name}.lock")
        busy = f"{self.path.name}: another process is writing labels; nothing was changed."
        with lock_file(lock, busy, _PATIENCE):
            labels = self.read()
            labels.pop(question, None)
            write_questions(self.path, labels if ids is None else {**labels, question: ids})
