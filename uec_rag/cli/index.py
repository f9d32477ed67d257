"""`uec-rag index`: making an index from a folder of documents, or updating it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uec_rag.base.checks import pluralize
from uec_rag.base.files import is_index
from uec_rag.cli.building import (
    add_passages,
    build_ensemble,
    check_output,
    fit_ensemble,
    load_ensemble,
    overwrite_index,
)
from uec_rag.cli.console import (
    Index,
    Json,
    Models,
    StoreUrl,
    Trust,
    check_index,
    note,
    open_index,
    print_json,
    print_text,
    say,
)
from uec_rag.documents.folder import CHARACTERS, check_folder, list_first
from uec_rag.documents.labels import read_pairs
from uec_rag.documents.passages import FEWEST_TOKENS, check_chunks
from uec_rag.stores.urls import open_store

if TYPE_CHECKING:
    from uec_rag.documents.folder import FolderRead, Selection
    from uec_rag.ensemble.uec import UEC
    from uec_rag.retrieval import Retriever
    from uec_rag.retrieval.files import Changes, EncodedFiles
    from uec_rag.stores.qdrant import QdrantStore


def left_out(read: FolderRead) -> str:
    """Describe the files without text and those that cannot be read, with numbers and names."""
    kinds = {"empty": read.empty, "unreadable": read.unreadable}
    return ", ".join(f"{len(files):,} {kind}{list_first(files)}" for kind, files in kinds.items())


_ATTEMPTS = 5  # of an update while other processes change the same files
_NO_SLOPE = 0.05  # smaller slopes are shown as 0.0 in the report
_FEWEST_PAIRS = 100  # made from documents; fewer are too few to fit a posterior


Folder = Annotated[
    Path,
    typer.Argument(
        help="Folder of documents: text, Markdown, CSV, and others with the extra 'documents'."
    ),
]
Out = Annotated[
    Path, typer.Option("--out", help="Output folder. An existing index is overwritten.")
]
Ensemble = Annotated[Path | None, typer.Option(help="A fitted ensemble that UEC.save wrote.")]
FitPairs = Annotated[
    Path | None,
    typer.Option(
        metavar="PAIRS",
        help="Fit on a .jsonl, .csv or .tsv file: query, passage and perhaps label (1, the "
        "default, or 0 if the passage does not answer).",
    ),
]
FollowSymlinks = Annotated[bool, typer.Option("--follow-symlinks", help="Follow links in FOLDER.")]
Exclude = Annotated[
    list[str],
    typer.Option(metavar="PATTERN", help="Leave out such files, as a .gitignore does; repeatable."),
]
Include = Annotated[
    list[str],
    typer.Option(
        metavar="PATTERN",
        help="Index only files matching PATTERN (repeatable). Default: all but changelogs and "
        "licences.",
    ),
]
ChunkSize = Annotated[
    int | None,
    typer.Option(
        help="Largest number of tokens in a passage, counted by the first encoder's tokenizer; the "
        "default is 800 characters."
    ),
]
Overlap = Annotated[
    int, typer.Option(min=0, help="Largest number of tokens that consecutive passages share.")
]
MaxCharacters = Annotated[
    int,
    typer.Option(
        min=1, help="Largest number of characters in a file's text; longer files are left out."
    ),
]
Update = Annotated[
    bool, typer.Option("--update", help="Read only what has changed since IDX was made.")
]


def index(
    folder: Folder,
    to: Out,
    uec: Ensemble = None,
    model: Models = None,
    fit: FitPairs = None,
    follow_symlinks: FollowSymlinks = False,
    exclude: Exclude = [],  # noqa: B006
    include: Include = [],  # noqa: B006
    chunk_size: ChunkSize = None,
    overlap: Overlap = 0,
    max_characters: MaxCharacters = CHARACTERS,
    update: Update = False,
    store: StoreUrl = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Make an index from a folder of documents.

    The ensemble is `UEC()` with its shipped fit, which that of --fit replaces; compare them by
    'uec-rag evaluate'. Models of --model are fitted on PAIRS, or else on headings and the text
    under them.

    With --update, an existing index keeps its ensemble and the passages of unchanged files. Changed
    files are read again and split as before, and the passages of removed files are deleted; a
    folder that lacks most of them and has none unchanged is refused. Files are selected as for the
    index, without --exclude, --include and --follow-symlinks.

    Example: uec-rag index ./docs --out idx
    """
    _check_ensemble_options(uec, model, fit, update)
    if overlap and chunk_size is None:
        raise ValueError("--overlap counts tokens; expected --chunk-size with it")
    if chunk_size is not None:
        check_chunks(chunk_size, overlap, FEWEST_TOKENS, ("--chunk-size", "--overlap"))
    source = Source(
        folder,
        {"follow_symlinks": follow_symlinks, "exclude": exclude, "include": include},
        "" if chunk_size is None else f"{chunk_size}/{overlap}",
        max_characters,
    )
    check_output(to)
    check_folder(folder, "FOLDER")
    if update:
        update_index(source, to, store, trust=trust, json=json)
        return
    pairs = None if fit is None else read_pairs(fit, "--fit")
    engine = None if store is None else open_store(store)
    if engine is not None and uec is None and len(engine):
        raise ValueError(
            f"--store: expected an empty store, got one with {len(engine):,} passages; use "
            "--update to bring their index up to date, or --uec with their ensemble to add to them"
        )
    ensemble = build_ensemble(model) if uec is None else load_ensemble(uec)
    make_index(source, to, ensemble, engine, pairs=pairs, fits=uec is None, json=json)


def _check_ensemble_options(
    uec: Path | None, model: list[str] | None, fit: Path | None, update: bool
) -> None:
    if uec is not None and (model or fit):
        raise ValueError(f"--uec and --{'model' if model else 'fit'}: expected one, got both")
    if update and (uec or model or fit):
        raise ValueError(
            "--update keeps the index's own ensemble; expected no --uec, --model, --fit"
        )


@dataclass(frozen=True)
class Source:
    """The documents to index.

    Attributes
    ----------
    folder : Path
    selection : Selection
        Which files of the folder.
    cut : str
        How they are split, "TOKENS/OVERLAP"; "" for the default.
    max_characters : int
        Longer files are left out.
    """

    folder: Path
    selection: Selection
    cut: str
    max_characters: int


def make_index(
    source: Source,
    to: Path,
    ensemble: UEC,
    store: QdrantStore | None,
    *,
    pairs: Sequence[tuple[str, str] | tuple[str, str, int]] | None,
    fits: bool,
    json: bool,
) -> None:
    """Make an index from a folder, and print what is in it.

    `pairs`: questions and passages to fit on, if any. `fits`: whether to fit an unfitted ensemble
    on headings.
    """
    say(f"Reading {source.folder} ...")
    from uec_rag.documents import fitting_pairs, passages_of
    from uec_rag.documents.folder import read_files
    from uec_rag.documents.passages import add_file_metadata
    from uec_rag.retrieval import Retriever
    from uec_rag.retrieval.files import chunks_of, record_selection

    read = read_files(source.folder, max_characters=source.max_characters, **source.selection)
    documents = read.documents
    if not documents:
        raise ValueError(f"no file in {str(source.folder)!r} holds text to index: {left_out(read)}")
    passages = passages_of(documents, **chunks_of(ensemble, source.cut))
    add_file_metadata(passages, documents, source.cut)
    say(f"{pluralize(len(documents), 'file')}, {pluralize(len(passages), 'passage')}")
    if pairs is not None:
        fit_ensemble(ensemble, pairs)
        _check_slopes(ensemble)
    elif fits and not ensemble.is_fitted and len(made := fitting_pairs(documents)) >= _FEWEST_PAIRS:
        fit_ensemble(ensemble, made)
    retriever = Retriever(ensemble, store)
    add_passages(retriever, passages)
    overwrite_index(retriever, to)
    record_selection(to, source.selection)
    other = _other_suffixes(source)
    if json:
        print_json(
            {
                "path": str(to),
                "files": len(documents),
                "empty": len(read.empty),
                "unreadable": len(read.unreadable),
                "other": other,
                "passages": len(passages),
                "fitted": ensemble.is_fitted,
                "encoders": ensemble.names,
            }
        )
    else:
        left = f" Left out: {left_out(read)}." if read.empty or read.unreadable else ""
        what = f"{pluralize(len(passages), 'passage')} of {pluralize(len(documents), 'file')}"
        print_text(f"Indexed {what} in {to}.{left}")
        _note_other_files(other)
        _say_how_to_ask(to, None if store is None else store.address)


def _check_slopes(uec: UEC) -> None:
    """Raise ValueError if a fit taught an encoder nothing."""
    if lost := [n for n, a in zip(uec.names, uec.fitted.slopes, strict=True) if a < _NO_SLOPE]:
        raise ValueError(
            f"--fit: {', '.join(lost)} cannot distinguish these passages from others (slope 0); "
            "expected texts that answer, not ids, in a language that the model knows"
        )


def _say_how_to_ask(index: Path, store: str | None) -> None:
    """Print the command that asks an index; `store`: address of its passages, if not in it."""
    option = "" if store is None else f" --store {store}"
    say(f'Ask it: uec-rag ask {index} "your question"{option}')


def update_index(source: Source, to: Path, store: str | None, *, trust: bool, json: bool) -> None:
    """Update an index from its folder, and print what has changed."""
    if not is_index(to):
        raise FileNotFoundError(
            f"--update: there is no index in {str(to)!r}; leave it out to make one"
        )
    from uec_rag.base.errors import SavedMeanwhile
    from uec_rag.retrieval.files import cut_of, selection_of
    from uec_rag.retrieval.gate import OUTDATED

    known = selection_of(to)
    given = {name: value for name, value in source.selection.items() if value}
    if given and given != known:
        raise ValueError(
            f"--update selects files as {str(to)!r} was made: expected {_patterns(known)}, got "
            f"{_patterns(given)}; omit these options, or make the index again without --update"
        )
    source = replace(source, selection=known)
    other = _other_suffixes(source)

    retriever = open_index(to, store, trust)
    own = cut_of(retriever)
    if source.cut not in ("", own):
        raise ValueError(
            f"--update splits files as {str(to)!r} was made: expected {_option(own)}, got "
            f"{_option(source.cut)}; omit these options, or make the index again without --update"
        )
    for left in reversed(range(_ATTEMPTS)):
        try:
            changes, read, files = _read_changes(retriever, source)
            break
        except SavedMeanwhile:
            if not left:
                raise
            say("Another process has changed these files in the index; comparing again ...")
    passages, gate = len(retriever), retriever.gate
    if gate is not None and not gate.fits(retriever):
        note(OUTDATED)
    new = changes.new & {document.source for document in read.documents} - read.unreadable.keys()
    # A file that no longer contains text is counted as empty instead.
    changed = changes.changed - read.unreadable.keys() - read.empty.keys()
    removed = changes.removed - read.unreadable.keys()
    sources = changes.changed | changes.unchanged | changes.removed
    if kept := sorted(sources & read.unreadable.keys()):
        note(f"the index keeps its passages of {pluralize(len(kept), 'file')}{list_first(kept)}")
    counts = {"new": len(new), "changed": len(changed), "removed": len(removed)}
    if json:
        more = {"unchanged": len(changes.unchanged), "empty": len(read.empty)}
        more |= {"unreadable": len(read.unreadable), "passages": passages}
        print_json({"path": str(to), **counts, **more, "encoded": files.encoded})
        return
    parts = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    _note_other_files(other)
    print_text(
        f"{to}: {parts}{list_first(sorted(removed))}; {pluralize(passages, 'passage')}, "
        f"{files.encoded:,} of them encoded now; "
        f"{len(changes.unchanged):,} unchanged, {left_out(read)}."
    )


def _option(cut: str) -> str:
    """Return the command line options that correspond to a `CUT`."""
    size, _, overlap = cut.partition("/")
    return f"--chunk-size {size} --overlap {overlap}" if cut else "without --chunk-size"


def _patterns(selection: Mapping[str, Any]) -> str:
    """Return the command line options that correspond to a selection of files."""
    options = ["--follow-symlinks"] if selection.get("follow_symlinks") else []
    for name in ("exclude", "include"):
        options += [f"--{name} {pattern!r}" for pattern in selection.get(name, ())]
    return " ".join(options) or "no --exclude, --include and --follow-symlinks"


def _check_removed(changes: Changes, source: Source) -> None:
    """Raise ValueError for a folder that seems to be another than that of the index."""
    # Folders of documents have names in common, such as index.md.
    if len(changes.removed) > len(changes.changed) and not changes.unchanged:
        raise ValueError(
            f"FOLDER: no file of the index is unchanged in {str(source.folder)!r}, and "
            f"{pluralize(len(changes.removed), 'file')}{list_first(sorted(changes.removed))} would "
            "be removed; expected the folder that it was made from. If the new files are to "
            "replace it, leave out --update"
        )


def _read_changes(retriever: Retriever, source: Source) -> tuple[Changes, FolderRead, EncodedFiles]:
    """Read the changed files of a folder, and replace their passages in an index."""
    from uec_rag.base.errors import SavedMeanwhile
    from uec_rag.documents.folder import FolderRead, file_hashes, read_files
    from uec_rag.retrieval.files import EncodedFiles, changes_since

    hashes, unreadable = file_hashes(source.folder, **source.selection)
    for name, problem in unreadable.items():
        note(f"left out {name}, which {problem}")
    before = retriever.changes
    changes = changes_since(retriever, hashes, unreadable)
    _check_removed(changes, source)
    read = FolderRead()
    if unknown := changes.new | changes.changed:
        say(f"Reading {pluralize(len(unknown), 'file')} ...")
        read = read_files(
            source.folder,
            max_characters=source.max_characters,
            only=unknown,
            **source.selection,
        )
    # Passages of a file that cannot be read now, as it is perhaps being written, are kept.
    gone = changes.removed | (changes.changed & read.empty.keys())
    files = EncodedFiles.from_documents(retriever, read.documents, gone=gone)
    expected = {name: hashes[name] for name in gone & hashes.keys()}
    expected |= {document.source: document.sha256 for document in read.documents}

    with retriever.changing():
        # Others may have updated the index from a later state of the folder, which the index
        # itself does not show: what they added, they may have removed again. An engine is written
        # by all at the same time anyway.
        if retriever.changes != before and not retriever.store.remote:
            more = changes_since(retriever, hashes, unreadable).pending - changes.pending
            if more:
                raise SavedMeanwhile(
                    f"{pluralize(len(more), 'file')} were changed in the index meanwhile"
                )
        now: dict[str, str] = {}
        if files.sources:
            now, _ = file_hashes(source.folder, only=files.sources, **source.selection)
        # Of files that have changed since they were read, the passages stay.
        late = {name for name in files.sources if now.get(name) != expected.get(name)}
        (files.without(late) if late else files).replace_in(retriever)
    for name in sorted(late):
        read.empty.pop(name, None)
        read.unreadable[name] = "was changed while it was read"
        note(f"left out {name}, which {read.unreadable[name]}")
    if retriever.store.remote and files.sources:  # the folder also holds its calibration
        assert retriever.folder is not None
        retriever.save(retriever.folder)
    read.unreadable.update(unreadable)
    return changes, read, files


def _other_suffixes(source: Source) -> dict[str, int]:
    """Count the files that no reader supports by their suffix, the most frequent first."""
    from uec_rag.documents.folder import other_files

    names = other_files(source.folder, **source.selection)
    return dict(Counter(Path(name).suffix.lower() for name in names).most_common())


def _note_other_files(counts: Mapping[str, int]) -> None:
    if counts:
        kinds = (f"{count:,} {suffix or 'without a suffix'}" for suffix, count in counts.items())
        files = pluralize(sum(counts.values()), "file")
        note(f"left out {files} of kinds that are not read: {', '.join(kinds)}")


def check(index: Index, json: Json = False) -> None:
    """Verify the checksums of an index: of its vectors, words, passages and ensemble.

    Example: uec-rag check idx
    """
    check_index(index)
    from uec_rag.retrieval.save import check_index as check_contents

    count = check_contents(index.absolute())
    if json:
        print_json({"path": str(index), "passages": count})
    else:
        print_text(f"{index}: {pluralize(count, 'passage')}, undamaged.")
