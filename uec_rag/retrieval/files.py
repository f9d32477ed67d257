"""Files as an index has them: what has changed since, and new ones in place of what it knows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from uec_rag.base.gaussian import Gaussian
from uec_rag.corpora.document import Document
from uec_rag.corpora.folder import read_files
from uec_rag.corpora.passages import COUNT, HASH, note_states, passages_of
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.live import LiveIndex
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage, make_passages

_AT_ONCE = 64  # passages between two reports of progress


@dataclass(frozen=True)
class Changes:
    """What became of a folder since it was indexed."""

    # Paths in the folder. Of a file that changed, or is not all there, all passages are to be
    # added anew.
    new: frozenset[str]
    changed: frozenset[str]
    removed: frozenset[str]
    unchanged: frozenset[str]


def changes_since(
    retriever: Retriever, hashes: Mapping[str, str], unreadable: Collection[str] = ()
) -> Changes:
    """Compare a folder's files with those that an index was made of.

    `hashes` and `unreadable` are of `file_hashes`. What is known of files that cannot be read now
    stays.
    """
    # An index in a folder is written whole or not at all; one in an engine passage by passage.
    piecemeal = retriever.store.remote
    states: defaultdict[object, Counter[tuple[object, object]]] = defaultdict(Counter)
    for passage in retriever.passages():
        state = passage.metadata.get(HASH), passage.metadata.get(COUNT)
        states[passage.metadata.get("source")][state] += 1

    def is_whole(source: str) -> bool:
        [(digest, expected), stored], *others = states[source].items()
        complete = stored == expected or (expected is None and not piecemeal)
        return not others and complete and digest == hashes[source]

    unlisted = tuple(f"{path}/" for path in unreadable)
    both = hashes.keys() & states.keys()
    unchanged = frozenset(source for source in both if is_whole(source))
    return Changes(
        frozenset(hashes.keys() - both),
        frozenset(both - unchanged),
        frozenset(
            source
            for source in map(str, states.keys() - both)
            if source not in unreadable and not source.startswith(unlisted)
        ),
        unchanged,
    )


def forget(retriever: Retriever, sources: Collection[str]) -> None:
    """Remove the passages of files."""
    if sources:
        gone = [p.id for p in retriever.passages() if str(p.metadata.get("source")) in sources]
        retriever.delete(gone)


@dataclass(frozen=True, eq=False)
class EncodedFiles:
    """Files, cut into passages and encoded, to be put into an index in one go.

    Attributes
    ----------
    uec : UEC
        What they were encoded with.
    sources : frozenset of str
    batches : list of (list of Passage, list of Gaussian)
        As `Retriever.add_encoded` takes them.
    """

    uec: UEC
    sources: frozenset[str]
    batches: list[tuple[list[Passage], list[Gaussian]]]

    @classmethod
    def of(
        cls, uec: UEC, documents: Sequence[Document], progress: Callable[[int, int], None]
    ) -> Self:
        """Cut and encode documents.

        `progress` receives how many passages are encoded, and how many there are.
        """
        passages = passages_of(documents)
        note_states(passages, documents)
        batches = []
        for start in range(0, len(passages), _AT_ONCE):
            progress(start, len(passages))
            some = passages[start : start + _AT_ONCE]
            texts, metadatas = [p.text for p in some], [p.metadata for p in some]
            checked = make_passages(texts, [p.id for p in some], metadatas)
            batches.append((checked, uec.encode(texts, "passage")))
        return cls(uec, frozenset(document.source for document in documents), batches)

    def __len__(self) -> int:
        return sum(len(passages) for passages, _ in self.batches)

    def replace_in(self, retriever: Retriever) -> int:
        """Put them in place of what an index knows of files of these names.

        A calibration without labels is made anew. Returns how many passages were replaced. Raises
        ValueError, with nothing changed, if the index is of another ensemble.
        """
        if retriever.uec.fingerprint != self.uec.fingerprint:
            raise ValueError("uec: the index is of another ensemble by now; encode the files anew.")
        new = {passage.id for passages, _ in self.batches for passage in passages}
        old = {p.id for p in retriever.passages() if p.metadata.get("source") in self.sources}
        for passages, parts in self.batches:
            retriever.add_encoded(passages, parts)
        retriever.delete([*(old - new)])
        if retriever.calibration is not None and retriever.calibration.source == "self":
            retriever.self_calibrate()
        return len(old)


@dataclass(frozen=True)
class Added:
    """What came of files that were added.

    Attributes
    ----------
    files, passages : int
        That are new.
    replaced : int
        Passages that were known of these files.
    total : int
        Passages of the index.
    left_out : dict of str to str
        Files without text, and what is wrong with each.
    """

    files: int
    passages: int
    replaced: int
    total: int
    left_out: dict[str, str]


def add_files(
    live: LiveIndex,
    folder: Path,
    names: Collection[str],
    progress: Callable[[str, int, int], None],
) -> Added:
    """Add files to a saved index as `uec-rag index --update` does; all of them, or none.

    What is known of files of these names is replaced.

    Parameters
    ----------
    live : LiveIndex
    folder : Path
    names : collection of str
        Of files in it.
    progress : callable
        Called as `progress(stage, done, total)`.

    Raises
    ------
    ValueError
        If no file holds text.
    OSError
        As `LiveIndex.write`.
    """

    def track(items: Collection[str], what: str) -> Iterable[str]:
        for done, item in enumerate(items):
            progress(what, done, len(items))
            yield item

    read = read_files(folder, track=track, only=names)
    left_out = {**read.empty, **read.unreadable}
    if not read.documents:
        said = "; ".join(f"{name} {problem}" for name, problem in left_out.items())
        raise ValueError(f"No file holds text to index: {said}. Nothing was changed.")
    with live.use() as opened:
        uec = opened.retriever.uec
    files = EncodedFiles.of(uec, read.documents, partial(progress, "Encoding passages"))
    progress("Saving", 0, 1)

    def change(retriever: Retriever) -> Added:
        replaced = files.replace_in(retriever)
        return Added(len(files.sources), len(files), replaced, len(retriever), left_out)

    return live.write(change)
