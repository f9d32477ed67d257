"""The files of an index: find changed files, and replace their passages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from uec_rag.base.checks import pluralize
from uec_rag.base.errors import EncoderFailed, warn
from uec_rag.base.files import lock_file
from uec_rag.base.text import questions_in, undecorated
from uec_rag.documents.document import Document
from uec_rag.documents.folder import Folder, list_files, list_first
from uec_rag.documents.passages import CHUNK_SIZE, COUNT, HASH, add_file_metadata, passages_of
from uec_rag.documents.question_tables import follow_labels
from uec_rag.encoders.base import Encoded
from uec_rag.index.retriever import Retriever
from uec_rag.index.save import MADE_WITH, TENANT_REQUIRED, open_home, open_saved
from uec_rag.index.saved_labels import ALL_LABELS, all_labels
from uec_rag.stores.passage import Passage, hash_text, make_passages

_KEPT = (*ALL_LABELS, MADE_WITH, TENANT_REQUIRED)  # settings that a new index takes over
_SELECTION = ("exclude", "include")
Prepare: TypeAlias = Callable[[Sequence[Passage]], object]
"""Adds to the metadata of passages before they are encoded."""

_PATIENCE = 60.0  # seconds that an update waits for others


def file_of(passage: Passage) -> str | None:
    """Return the file that a passage was read from; None if there is none."""
    source = passage.metadata.get("source")
    return source if isinstance(source, str) and HASH in passage.metadata else None


def record_options(folder: Path, options: Mapping[str, Any]) -> None:
    """Record in a saved index how it was made, beside what is recorded, for `options_of`."""
    with closing(open_home(folder, read_only=False)) as home:
        home.change_settings({MADE_WITH: {**(home.settings.get(MADE_WITH) or {}), **options}})


def options_of(folder: Path) -> dict[str, Any]:
    """Return how a saved index was made from a folder; empty for the default or if not known."""
    with closing(open_saved(folder)) as home:
        return dict(home.settings.get(MADE_WITH) or {})


@dataclass(frozen=True)
class Changes:
    """The changes of a folder since it was indexed: paths in it.

    All passages of a file that changed, or is incomplete, are added again.
    """

    new: frozenset[str]
    changed: frozenset[str]
    removed: frozenset[str]
    unchanged: frozenset[str]


def changes_since(
    retriever: Retriever, hashes: Mapping[str, str], unreadable: Collection[str] = ()
) -> Changes:
    """Compare a folder's files with those that an index was made from.

    `hashes` and `unreadable`: of the `Folder`. Files that cannot be read now do not count as
    removed; passages without a file are ignored.
    """
    # As strings, since values of metadata need not be hashable.
    states = defaultdict[str, list[tuple[str, str]]](list)
    for passage in retriever.store.passages():
        if (source := file_of(passage)) is not None:
            states[source].append((str(passage.metadata[HASH]), str(passage.metadata.get(COUNT))))
    core = hashes.keys() & states.keys()
    # An engine is written passage by passage: of a file a part may be missing.
    unchanged = frozenset(
        source
        for source in core
        if {*states[source]} == {(hashes[source], str(len(states[source])))}
    )
    unlisted = tuple(f"{path}/" for path in unreadable)
    removed = frozenset(
        source
        for source in states.keys() - core
        if source not in unreadable and not source.startswith(unlisted)
    )
    return Changes(frozenset(hashes.keys() - core), frozenset(core - unchanged), removed, unchanged)


def replace_files(
    retriever: Retriever,
    documents: Iterable[Document],
    removals: Collection[str] = (),
    *,
    size: int = CHUNK_SIZE,
    prepare: Prepare | None = None,
    is_new: bool = False,
) -> int:
    """Replace an index's passages of files by those of documents; return the number of the latter.

    A local index is changed at once, after all is encoded.

    Parameters
    ----------
    retriever : Retriever
    documents : iterable of Document
    removals : collection of str
        Files whose passages are removed.
    size : int
        Maximum length of a passage, as in `passages_of`.
    prepare : callable(passages), optional
        Adds to the metadata of passages before they are encoded, such as questions.
    is_new : bool
        Whether the index has no passages of these files, so that none are looked for.
    """
    documents = list(documents)
    sources = {document.source for document in documents} | {*removals}
    stored = () if is_new else retriever.store.passages()
    before = [passage for passage in stored if file_of(passage) in sources]
    drafts = [*with_ids_of(before, passages_of(documents, size=size))]
    add_file_metadata(drafts, documents)
    if prepare is not None:
        prepare(drafts)
    passages = make_passages(
        [p.text for p in drafts], [p.id for p in drafts], [p.metadata for p in drafts]
    )
    passages, encoded, refusals = _encode(retriever, passages)
    ids = {p.id for p in passages}
    outdated = [p.id for p in before if p.id not in ids and file_of(p) not in refusals]
    with retriever.changing():
        if encoded is not None:
            retriever.add_encoded(*encoded)
        retriever.delete(outdated)
    return len(passages)


def _encode(
    retriever: Retriever, passages: list[Passage]
) -> tuple[list[Passage], tuple[list[Passage], list[Encoded]] | None, set[str | None]]:
    """Encode passages, but for those of files of which a service refuses a text.

    Returns the passages, what is encoded, and the files that are left out; a warning names each.
    """
    refusals = set[str | None]()
    while passages:
        try:
            return passages, retriever.encode(passages), refusals
        except EncoderFailed as error:
            texts = {*error.texts}
            files = {
                file_of(p)
                for p in passages
                for text in (p.searched, p.headed, *p.seen_beside)
                if undecorated(text) in texts
            } - {None}
            if not files:
                raise
            warn(f"{error} The file {min(map(str, files))!r} is left out.")
        refusals |= files
        passages = [passage for passage in passages if file_of(passage) not in refusals]
    return passages, None, refusals


def with_ids_of(before: Iterable[Passage], drafts: Iterable[Passage]) -> Iterator[Passage]:
    """Yield passages of files with ids that name no other text than before.

    A text keeps its id, wherever in its file it is now. Another text at its place, under its
    heading, or numbered in a file that is known, gets an id that ends in its hash.

    Parameters
    ----------
    before : iterable of Passage
        What the index has of these files.
    drafts : iterable of Passage
        What the files say now.
    """
    ids, files = defaultdict[tuple[str | None, str], list[str]](list), set[str | None]()
    for passage in before:
        ids[file_of(passage), passage.text].append(passage.id)
        files.add(file_of(passage))
    names = {id_ for group in ids.values() for id_ in group}
    for passage in drafts:
        source, id_ = passage.metadata["source"], passage.id
        if matches := ids[source, passage.text]:
            id_ = matches.pop(0)
        elif id_ in names or (source in files and id_[-1].isdigit()):
            id_ = f"{id_}-{hash_text(passage.text)[:8]}"
        yield replace(passage, id=id_)


def add_saved(retriever: Retriever, folder: Path, prepare: Prepare | None = None) -> None:
    """Add the passages of a saved index, its labels, how it was made, and whether it is closed.

    It may be of an older format. `prepare`: as in `replace_files`. ValueError without passages.
    """
    with closing(open_saved(folder)) as saved:
        passages = [*saved.passages()]
        settings = {name: saved.settings.get(name) for name in _KEPT}
    if not passages:
        raise ValueError(
            f"FOLDER: {str(folder)!r} holds no passages, as a fit or a gate saved over a store. "
            "Load it over that store (`UECRetriever.load`, `UECGate.load`), or index documents"
        )
    if prepare is not None:
        prepare(passages)
    texts, ids, metadatas = zip(*((p.text, p.id, p.metadata) for p in passages), strict=True)
    retriever.add(texts, ids, metadatas)
    retriever._core.settings.home.change_settings(settings)


def count_labels(retriever: Retriever) -> int:
    """Count the labelled questions of everybody, also of all tenants; see `follow_labels`."""
    home = retriever._core.settings.home
    return sum(len(follow_labels(labels, retriever.store)) for labels in all_labels(home))


def _complete(retriever: Retriever, prepare: Prepare) -> int:
    """Add questions to passages that have none yet; return the number of those that got some."""
    blanks = [
        replace(passage, metadata=dict(passage.metadata))
        for passage in retriever.store.passages()
        if not questions_in(passage.metadata)
    ]
    prepare(blanks)
    if completed := [passage for passage in blanks if questions_in(passage.metadata)]:
        texts, ids, metadatas = zip(*((p.text, p.id, p.metadata) for p in completed), strict=True)
        retriever.add(texts, ids, metadatas)
    return len(completed)


def list_made_with(folder: Path, options: Mapping[str, Any]) -> Folder:
    """List the files of a folder that an index is made from with these options."""
    selected: Any = {name: options[name] for name in _SELECTION if name in options}
    return list_files(folder, **selected)


def update_files(
    retriever: Retriever, folder: Path, prepare: Prepare | None = None
) -> tuple[Changes, Folder, int]:
    """Bring a saved index up to date with the folder that it was made from.

    Of a file that cannot be read now, as it is perhaps being written, the passages are kept.

    `prepare`: as in `replace_files`; also of passages without questions of unchanged files.

    Returns
    -------
    changes : Changes
        Of the files that could be read.
    found : Folder
        What is in the folder, and what was read.
    encoded : int
        Number of passages that were encoded.

    Raises
    ------
    ValueError
        If the folder lacks most of the files and has none unchanged, so that it seems to be another
        one; or as in `list_files`.
    BlockingIOError
        If other updates of the index run for more than a minute.
    """
    assert retriever.folder is not None
    busy = f"{retriever.folder}: another update is running; try again later."
    with lock_file(retriever.folder / ".update.lock", busy, _PATIENCE):
        options = options_of(retriever.folder)
        listing = list_made_with(folder, options)
        hashes = listing.hashes()
        changes = changes_since(retriever, hashes, {*listing.unreadable, *listing.missing})
        # Folders of documents have names in common, such as index.md.
        if len(changes.removed) > len(changes.changed) and not changes.unchanged:
            raise ValueError(
                f"FOLDER: no file of the index is unchanged in {str(folder)!r}, and "
                f"{pluralize(len(changes.removed), 'file')}{list_first(changes.removed)} would "
                "be removed; expected the folder that it was made from. If the new files are to "
                "replace it, leave out --update"
            )
        if later := changes.new | changes.changed:
            listing.read(later)
        encoded = 0
        if listing.documents or changes.removed:
            size = options.get("chunk_size", CHUNK_SIZE)
            removed = changes.removed
            encoded = replace_files(
                retriever, listing.documents, removed, size=size, prepare=prepare
            )
            if retriever.store.is_elsewhere:  # the folder also holds its calibration
                retriever.save(retriever.folder)
        if prepare is not None:
            encoded += _complete(retriever, prepare)
    sources = {document.source for document in listing.documents if document.sections}
    if paths := (changes.changed | changes.unchanged) & listing.unreadable.keys():
        warn(f"the index keeps its passages of {pluralize(len(paths), 'file')}{list_first(paths)}")
    changes = replace(changes, new=changes.new & sources, changed=changes.changed & sources)
    return changes, listing, encoded
