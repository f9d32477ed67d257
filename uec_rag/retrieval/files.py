"""The files of an index: find changed files, and replace their passages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

from uec_rag.base.errors import SavedMeanwhile
from uec_rag.base.gaussian import Gaussian
from uec_rag.base.progress import progress_bar
from uec_rag.documents.document import Document
from uec_rag.documents.folder import Selection
from uec_rag.documents.passages import (
    COUNT,
    CUT,
    HASH,
    Chunks,
    add_file_metadata,
    passages_of,
)
from uec_rag.encoders.base import token_counter
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.retriever import Retriever
from uec_rag.retrieval.save import open_home
from uec_rag.stores.base import Passage, make_passages

_SELECTION = "selection"  # the setting of an index
_STATE = ("source", HASH, COUNT, CUT)
_BATCH = 64  # passages between two steps of the progress bar


def file_of(passage: Passage) -> str | None:
    """Return the file that a passage was read from; None if there is none."""
    source = passage.metadata.get("source")
    return source if isinstance(source, str) and HASH in passage.metadata else None


def cut_of(retriever: Retriever) -> str:
    """Return the `CUT` of an index, the size and overlap of passages; "" if unknown."""
    first = (p for p in retriever.passages() if file_of(p))
    first_passage = next(first, None)
    cut = "" if first_passage is None else str(first_passage.metadata.get(CUT, ""))
    return cut if re.fullmatch(r"\d{1,6}/\d{1,6}", cut) else ""


def chunks_of(uec: UEC, cut: str) -> Chunks:
    """Return options of `passages_of` for a `CUT`, in tokens of the first tokenizer."""
    if not cut:
        return {}
    size, overlap = map(int, cut.split("/"))
    return {"size": size, "overlap": overlap, "length": token_counter(uec.encoders)}


def record_selection(folder: Path, selection: Selection) -> None:
    """Record in a saved index which files it was made from, for `selection_of`."""
    home = open_home(folder, read_only=False)
    try:
        home.change_settings(
            {_SELECTION: {name: value for name, value in selection.items() if value}}
        )
    finally:
        home.close()


def selection_of(folder: Path) -> Selection:
    """Return which files a saved index was made from; empty for the default or if not known."""
    home = open_home(folder, read_only=True)
    try:
        return cast(Selection, home.setting(_SELECTION) or {})
    finally:
        home.close()


@dataclass(frozen=True)
class Changes:
    """The changes of a folder since it was indexed."""

    # Paths in the folder. All passages of a file that changed, or is incomplete, are added again.
    new: frozenset[str]
    changed: frozenset[str]
    removed: frozenset[str]
    unchanged: frozenset[str]

    @property
    def pending(self) -> frozenset[str]:
        """The files whose passages are to be added or removed."""
        return self.new | self.changed | self.removed


def changes_since(
    retriever: Retriever, hashes: Mapping[str, str], unreadable: Collection[str] = ()
) -> Changes:
    """Compare a folder's files with those that an index was made from.

    `hashes` and `unreadable`: results of `file_hashes`. Files that cannot be read now do not count
    as removed; passages without a file are ignored.
    """
    # A local index is written atomically, but one in an engine passage by passage.
    piecemeal = retriever.store.remote
    states: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    listed = set()
    for passage in retriever.passages():
        if (source := file_of(passage)) is not None:
            # As strings, since values of metadata need not be hashable.
            state = str(passage.metadata[HASH]), str(passage.metadata.get(COUNT))
            states[source][state] += 1
            listed.add(source)

    def is_whole(source: str) -> bool:
        [(digest, expected), stored], *others = states[source].items()
        complete = str(stored) == expected or (expected == "None" and not piecemeal)
        return not others and complete and digest == hashes[source]

    unlisted = tuple(f"{path}/" for path in unreadable)
    both = hashes.keys() & states.keys()
    unchanged = frozenset(source for source in both if is_whole(source))
    return Changes(
        frozenset(hashes.keys() - both),
        frozenset(both - unchanged),
        frozenset(
            source
            for source in listed - both
            if source not in unreadable and not source.startswith(unlisted)
        ),
        unchanged,
    )


def add_passages(
    retriever: Retriever,
    texts: Sequence[str],
    ids: Sequence[str] | None,
    metadatas: Sequence[Mapping[str, Any]],
) -> list[str]:
    """Add passages as `Retriever.add` does; one that replaces a file's passage belongs to the file.

    Such a passage is kept until the file changes: an update counts it among the file's passages,
    and so does not consider the file incomplete.
    """
    replaced = {passage.id: passage for passage in retriever.get(ids or [])}
    metadatas = [
        {**metadata, **_state(replaced[id_])} if id_ in replaced else metadata
        for id_, metadata in zip(ids or [""] * len(texts), metadatas, strict=True)
    ]
    return retriever.add(texts, ids, metadatas)


def _state(passage: Passage) -> dict[str, Any]:
    """Return the metadata of a passage about its file; empty if there is none."""
    if file_of(passage) is None:
        return {}
    return {key: passage.metadata[key] for key in _STATE if key in passage.metadata}


@dataclass(frozen=True, eq=False)
class EncodedFiles:
    """The encoded passages of files, ready to be added to an index.

    Attributes
    ----------
    uec : UEC
        The ensemble that encoded them.
    sources : frozenset of str
        Names of the files, and of files to remove.
    passages : list of Passage
    batches : iterable of (list of Passage, list of Gaussian)
        Arguments of `Retriever.add_encoded`.
    kept : list of (list of Passage, Gaussian)
        Arguments of `Index._add_vectors`: passages whose text the index had already.
    known : dict of str to Passage
        The passages of these files in the index before they were encoded, by id.
    """

    uec: UEC
    sources: frozenset[str]
    passages: list[Passage]
    batches: Iterable[tuple[list[Passage], list[Gaussian]]]
    kept: list[tuple[list[Passage], Gaussian]]
    known: dict[str, Passage]

    @classmethod
    def from_documents(
        cls,
        retriever: Retriever,
        documents: Sequence[Document],
        *,
        gone: Collection[str] = (),
    ) -> Self:
        """Split documents into passages of the same size as those of the index, and encode them.

        A passage whose text is in the index, wherever it is there, keeps its vectors.

        For an engine, each batch is encoded when it is written, so that batches written before an
        interruption need not be encoded again.

        Parameters
        ----------
        retriever : Retriever
            The index that they are for, or an earlier state of it.
        documents : sequence of Document
        gone : collection of str
            Files whose passages are to be removed.

        Raises
        ------
        SavedMeanwhile
            If another process has changed passages in an engine while they were read.
        """
        cut = cut_of(retriever)
        passages = passages_of(documents, **chunks_of(retriever.uec, cut))
        add_file_metadata(passages, documents, cut)
        sources = {*gone, *(document.source for document in documents)}
        ids = {passage.id for passage in passages}
        checked = make_passages(
            [passage.text for passage in passages],
            [passage.id for passage in passages],
            [p.metadata for p in passages],
        )
        texts = {passage.text for passage in checked}
        stored, same = dict[str, Passage](), dict[str, str]()
        for p in retriever.passages():
            if p.id in ids or file_of(p) in sources:
                stored[p.id] = p
            if p.text in texts:
                same[p.text] = p.id
        new = [passage for passage in checked if passage.text not in same]
        # Before anything is written, which may replace the passages that had these vectors.
        kept = _pair_vectors(
            retriever, [passage for passage in checked if passage.text in same], same
        )
        batches = _encode(retriever.uec, new)
        ready = batches if retriever.store.remote else [*batches]
        return cls(retriever.uec, frozenset(sources), checked, ready, kept, stored)

    def __len__(self) -> int:
        return len(self.passages)

    @property
    def encoded(self) -> int:
        """The number of passages that a model had to encode."""
        return len(self) - sum(len(passages) for passages, _ in self.kept)

    def without(self, sources: Collection[str]) -> Self:
        """Leave out some of the files."""

        def left(passages: Sequence[Passage]) -> list[int]:
            return [i for i, p in enumerate(passages) if p.metadata["source"] not in sources]

        return replace(
            self,
            sources=self.sources.difference(sources),
            passages=[self.passages[i] for i in left(self.passages)],
            batches=(
                ([passages[i] for i in rows], [part[rows] for part in parts])
                for passages, parts in self.batches
                if (rows := left(passages))
            ),
            kept=[
                ([passages[i] for i in rows], gaussians[rows])
                for passages, gaussians in self.kept
                if (rows := left(passages))
            ],
        )

    def replace_in(self, retriever: Retriever) -> int:
        """Replace an index's passages of these files by the new ones.

        Returns the number of passages that were replaced.

        Raises
        ------
        ValueError
            If the index now has another ensemble. Nothing is changed.
        SavedMeanwhile
            If one of these files has since been changed in the index. Nothing is changed.
        """
        if retriever.uec.fingerprint != self.uec.fingerprint:
            raise ValueError("uec: the index now has another ensemble; encode the files again.")
        new = {passage.id: passage for passage in self.passages}
        old = {p.id: p for p in retriever.passages() if file_of(p) in self.sources}
        if any(p not in (self.known.get(p.id), new.get(p.id)) for p in old.values()):
            raise SavedMeanwhile("the files were changed in the index by another process meanwhile")
        with retriever.changing():
            for passages, gaussians in self.kept:
                retriever._add_vectors(passages, gaussians)
            for passages, parts in self.batches:
                retriever.add_encoded(passages, parts)
            retriever.delete([id_ for id_ in old if id_ not in new])
        return len(old)


def _encode(
    uec: UEC, passages: Sequence[Passage]
) -> Iterator[tuple[list[Passage], list[Gaussian]]]:
    with progress_bar("Encoding passages", len(passages)) as bar:
        for start in range(0, len(passages), _BATCH):
            batch = list(passages[start : start + _BATCH])
            yield batch, uec.encode([passage.text for passage in batch], "passage")
            bar.update(len(batch))


def _pair_vectors(
    retriever: Retriever, passages: Sequence[Passage], same: Mapping[str, str]
) -> list[tuple[list[Passage], Gaussian]]:
    """Pair passages with the vectors of those with the same text; `same`: their ids by text."""
    kept = []
    for start in range(0, len(passages), _BATCH):
        batch = list(passages[start : start + _BATCH])
        texts = {same[passage.text]: passage.text for passage in batch}
        try:
            gaussians = retriever.vectors([same[passage.text] for passage in batch])
        except KeyError:
            gaussians = None
        if gaussians is None or texts != {p.id: p.text for p in retriever.get([*texts])}:
            raise SavedMeanwhile("passages were changed in the index by another process meanwhile")
        kept.append((batch, gaussians))
    return kept
