"""The files of an index: what has changed since, and new versions in place of old ones."""

from __future__ import annotations

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from uec_rag.base.errors import SavedMeanwhile
from uec_rag.base.gaussian import Gaussian
from uec_rag.corpora.document import Document
from uec_rag.corpora.folder import read_files
from uec_rag.corpora.passages import COUNT, CUT, HASH, Chunks, note_states, passages_of
from uec_rag.encoders.base import token_counter
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.calibrate import corpus_fingerprint
from uec_rag.retrieval.live import LiveIndex
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage, make_passages

UPLOADED = "file_uploaded"
"""Metadata: that a passage is of a file that was added by itself, and is in no indexed folder."""

_STATE = ("source", HASH, COUNT, CUT, UPLOADED)
_AT_ONCE = 64  # passages between two reports of progress


def file_of(passage: Passage) -> str | None:
    """Return the file that a passage was read from; None if it was not read from one."""
    source = passage.metadata.get("source")
    return source if isinstance(source, str) and HASH in passage.metadata else None


def cut_of(retriever: Retriever) -> str:
    """The `CUT` that the files of an indexed folder were made into passages with."""
    first = (p for p in retriever.passages() if file_of(p) and UPLOADED not in p.metadata)
    known = next(first, None)
    cut = "" if known is None else str(known.metadata.get(CUT, ""))
    return cut if re.fullmatch(r"\d{1,6}/\d{1,6}", cut) else ""


def chunks_of(uec: UEC, cut: str) -> Chunks:
    """Options of `passages_of` for a `CUT`, in tokens of the first encoder that has any."""
    if not cut:
        return {}
    size, overlap = map(int, cut.split("/"))
    return {"size": size, "overlap": overlap, "length": token_counter(uec.encoders)}


@dataclass(frozen=True)
class Changes:
    """The changes of a folder since it was indexed."""

    # Paths in the folder. Of a file that changed, or is not all there, all passages are to be
    # added anew.
    new: frozenset[str]
    changed: frozenset[str]
    removed: frozenset[str]
    unchanged: frozenset[str]


def changes_since(
    retriever: Retriever, hashes: Mapping[str, str], unreadable: Collection[str] = ()
) -> Changes:
    """Compare a folder's files with those that an index was made from.

    `hashes` and `unreadable` are of `file_hashes`. What is known of files that cannot be read now
    stays, and so do passages that are of no file, or of one that was uploaded.
    """
    # An index in a folder is written whole or not at all; one in an engine passage by passage.
    piecemeal = retriever.store.remote
    states: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    listed = set()
    for passage in retriever.passages():
        if (source := file_of(passage)) is not None:
            # As text: metadata may hold anything, also what cannot be counted.
            state = str(passage.metadata[HASH]), str(passage.metadata.get(COUNT))
            states[source][state] += 1
            if UPLOADED not in passage.metadata:
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

    So it stays until the file changes: an update does not miss the passage it replaces.
    """
    replaced = {passage.id: passage for passage in retriever.get(ids or [])}
    metadatas = [
        {**metadata, **_state(replaced[id_])} if id_ in replaced else metadata
        for id_, metadata in zip(ids or [""] * len(texts), metadatas, strict=True)
    ]
    return retriever.add(texts, ids, metadatas)


def _state(passage: Passage) -> dict[str, Any]:
    """Return the file of a passage, and the hash of the version it was read from."""
    if file_of(passage) is None:
        return {}
    return {key: passage.metadata[key] for key in _STATE if key in passage.metadata}


@dataclass(frozen=True, eq=False)
class EncodedFiles:
    """Files cut into passages and encoded, ready to be put into an index in one go.

    Attributes
    ----------
    uec : UEC
        What they were encoded with.
    sources : frozenset of str
        Their names, and those of files that are no longer there.
    passages : list of Passage
    batches : iterable of (list of Passage, list of Gaussian)
        As `Retriever.add_encoded` takes them.
    known : dict of str to Passage
        What the index held of these files before they were encoded, by id.
    """

    uec: UEC
    sources: frozenset[str]
    passages: list[Passage]
    batches: Iterable[tuple[list[Passage], list[Gaussian]]]
    known: dict[str, Passage]

    @classmethod
    def of(
        cls,
        retriever: Retriever,
        documents: Sequence[Document],
        progress: Callable[[int, int], None],
        *,
        gone: Collection[str] = (),
        uploaded: bool = False,
    ) -> Self:
        """Cut documents into passages and encode them; for an engine, encode as they are put in.

        They are cut as the files of the index are.

        What was put there before an interruption stays, and the next update need not encode it.

        Parameters
        ----------
        retriever : Retriever
            The index that they are for, or an earlier state of it.
        documents : sequence of Document
        progress : callable
            Receives how many passages are encoded, and how many there are.
        gone : collection of str
            Files whose passages are to be removed.
        uploaded : bool
            Whether they are in no folder that updates compare the index with.
        """
        cut = cut_of(retriever)
        passages = passages_of(documents, **chunks_of(retriever.uec, cut))
        note_states(passages, documents, cut)
        sources = {*gone, *(document.source for document in documents)}
        ids = {passage.id for passage in passages}
        checked = make_passages(
            [passage.text for passage in passages],
            [passage.id for passage in passages],
            [{**p.metadata, **({UPLOADED: True} if uploaded else {})} for p in passages],
        )
        known = {p.id: p for p in retriever.passages() if p.id in ids or file_of(p) in sources}
        batches = _encoded(retriever.uec, checked, progress)
        ready = batches if retriever.store.remote else [*batches]
        return cls(retriever.uec, frozenset(sources), checked, ready, known)

    def __len__(self) -> int:
        return len(self.passages)

    def replace_in(self, retriever: Retriever) -> int:
        """Replace an index's passages of these files by the new ones.

        A calibration without labels is made anew if the corpus is another. Returns how many
        passages were replaced.

        Raises
        ------
        ValueError
            With nothing changed, if the index is of another ensemble.
        SavedMeanwhile
            With nothing changed, if somebody has changed one of these files in the index since.
        """
        if retriever.uec.fingerprint != self.uec.fingerprint:
            raise ValueError("uec: the index is of another ensemble by now; encode the files anew.")
        new = {passage.id: passage for passage in self.passages}
        old = {p.id: p for p in retriever.passages() if file_of(p) in self.sources}
        if any(p not in (self.known.get(p.id), new.get(p.id)) for p in old.values()):
            raise SavedMeanwhile("the files were changed in the index by somebody else meanwhile")
        for passages, parts in self.batches:
            retriever.add_encoded(passages, parts)
        retriever.delete([id_ for id_ in old if id_ not in new])
        _calibrate_anew(retriever)
        return len(old)


def delete_file(retriever: Retriever, source: str) -> int:
    """Delete a file's passages, and no others that name it. Returns how many there were."""
    ids = [passage.id for passage in retriever.passages() if file_of(passage) == source]
    deleted = retriever.delete(ids)
    _calibrate_anew(retriever)
    return deleted


def _calibrate_anew(retriever: Retriever) -> None:
    """Repeat a calibration without labels if the corpus has changed."""
    calibration = retriever.calibration
    if (
        calibration is not None
        and calibration.source == "self"
        and calibration.corpus != corpus_fingerprint(retriever.store)
    ):
        try:
            retriever.self_calibrate()
        except ValueError as error:  # too few questions can be made of what is left
            warnings.warn(str(error), UserWarning, stacklevel=3)


def _encoded(
    uec: UEC, passages: Sequence[Passage], progress: Callable[[int, int], None]
) -> Iterator[tuple[list[Passage], list[Gaussian]]]:
    for start in range(0, len(passages), _AT_ONCE):
        progress(start, len(passages))
        some = list(passages[start : start + _AT_ONCE])
        yield some, uec.encode([passage.text for passage in some], "passage")


def add_files(
    live: LiveIndex,
    folder: Path,
    names: Collection[str],
    progress: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """Add files to a saved index as `uec-rag index --update` does; all of them, or none.

    What is known of files of these names is replaced. An update with a folder leaves them, unless a
    file of the same name is in it.

    Parameters
    ----------
    live : LiveIndex
    folder : Path
    names : collection of str
        Of files in it.
    progress : callable
        Called as `progress(stage, done, total)`.

    Returns
    -------
    dict
        files, passages: how many are new; replaced: passages that were known of these files; total:
        passages of the index; left_out: files without text, and what is wrong with each.

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
    encoding = partial(progress, "Encoding passages")
    with live.use() as opened:
        files = EncodedFiles.of(opened.retriever, read.documents, encoding, uploaded=True)
    progress("Saving", 0, 1)

    def change(retriever: Retriever) -> dict[str, Any]:
        known = {"replaced": files.replace_in(retriever), "total": len(retriever)}
        new = {"files": len(read.documents), "passages": len(files)}
        return new | known | {"left_out": left_out}

    return live.write(change)
