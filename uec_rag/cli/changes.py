"""Which files of a folder an index does not know yet, knows otherwise, or knows and are gone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uec_rag.retrieval import Retriever
    from uec_rag.stores.base import Passage

HASH = "file_sha256"
"""Metadata of a passage: the SHA-256 of the file that it is from, when it was read."""

_NAMED = 3  # files of a kind that are named


@dataclass(frozen=True)
class Changes:
    """What became of a folder since it was indexed.

    Attributes
    ----------
    new, changed, removed : frozenset of str
        Paths in the folder.
    """

    new: frozenset[str]
    changed: frozenset[str]
    removed: frozenset[str]

    def __bool__(self) -> bool:
        """Whether anything did."""
        return bool(self.new or self.changed or self.removed)


def changes_since(retriever: "Retriever", hashes: Mapping[str, str]) -> Changes:
    """Compare a folder's files with those that an index was made of.

    Parameters
    ----------
    retriever
    hashes
        As `uec_rag.corpora.folder.file_hashes` gives them.
    """
    known = {p.metadata.get("source"): p.metadata.get(HASH) for p in retriever.passages()}
    both = hashes.keys() & known.keys()
    return Changes(
        frozenset(hashes.keys() - both),
        frozenset(source for source in both if hashes[source] != known[source]),
        frozenset(str(source) for source in known.keys() - both),
    )


def forget(retriever: "Retriever", changes: Changes) -> None:
    """Remove the passages of files that have changed or are gone."""
    out = changes.changed | changes.removed
    retriever.delete([p.id for p in retriever.passages() if str(p.metadata.get("source")) in out])


def note_hashes(passages: Sequence["Passage"], hashes: Mapping[str, str]) -> None:
    """Write on each passage which state of its file it is from."""
    for passage in passages:
        if passage.metadata["source"] in hashes:
            passage.metadata[HASH] = hashes[passage.metadata["source"]]


def kinds_of(files: Sequence[str]) -> str:
    """Count and name files by kind.

    Examples
    --------
    >>> kinds_of(["a.py", "b.py", "LICENSE"])
    '2 .py (a.py, b.py), 1 without an ending (LICENSE)'
    """
    kind = {file: PurePosixPath(file).suffix.lower() for file in files}
    parts = []
    for suffix, count in Counter(kind.values()).most_common():
        named = [file for file in files if kind[file] == suffix][:_NAMED]
        more = ", ..." if count > _NAMED else ""
        parts.append(f"{count:,} {suffix or 'without an ending'} ({', '.join(named)}{more})")
    return ", ".join(parts)
