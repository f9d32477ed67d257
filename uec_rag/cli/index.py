"""`uec-rag index`: making an index from a folder of documents, or updating it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uec_rag.base.checks import pluralize
from uec_rag.base.files import is_index
from uec_rag.cli.building import (
    build_ensemble,
    check_output,
    fit_ensemble,
    load_ensemble,
    overwrite_index,
)
from uec_rag.cli.console import (
    Json,
    Models,
    StoreUrl,
    Trust,
    note,
    open_index,
    print_json,
    print_text,
    say,
)
from uec_rag.documents.folder import CHARACTERS, Folder, list_first
from uec_rag.documents.labels import read_pairs
from uec_rag.documents.passages import FEWEST_TOKENS, check_chunks
from uec_rag.stores.urls import open_store

if TYPE_CHECKING:
    from uec_rag.ensemble.uec import UEC

_NO_SLOPE = 0.05  # smaller slopes are shown as 0.0 in the report
_FEWEST_PAIRS = 100  # made from documents; fewer are too few to fit a posterior

Documents = Annotated[
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
    folder: Documents,
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
    if uec is not None and (model or fit):
        raise ValueError(f"--uec and --{'model' if model else 'fit'}: expected one, got both")
    if update and (uec or model or fit):
        raise ValueError("--update keeps the index's own ensemble; omit --uec, --model and --fit")
    if overlap and chunk_size is None:
        raise ValueError("--overlap counts tokens; expected --chunk-size with it")
    if chunk_size is not None:
        check_chunks(chunk_size, overlap, FEWEST_TOKENS, ("--chunk-size", "--overlap"))
    check_output(to)
    given: dict[str, Any] = {
        "follow_symlinks": follow_symlinks,
        "exclude": exclude,
        "include": include,
        "chunk_size": chunk_size,
        "overlap": overlap,
    }
    options = {name: value for name, value in given.items() if value}
    if update:
        _update(folder, to, options, max_characters, (store, trust), json=json)
        return
    pairs = None if fit is None else read_pairs(fit, "--fit")
    engine = None if store is None else open_store(store)
    if engine is not None and uec is None and len(engine):
        raise ValueError(
            f"--store: expected an empty store, got one with {len(engine):,} passages; use "
            "--update to bring their index up to date, or --uec with their ensemble to add to them"
        )
    from uec_rag.retrieval import Retriever
    from uec_rag.retrieval.files import chunks_of, list_made_with, record_options, replace_files

    found = list_made_with(folder, options)
    ensemble = build_ensemble(model) if uec is None else load_ensemble(uec)
    say(f"Reading {folder} ...")
    found.read(max_characters=max_characters)
    if not found.documents:
        raise ValueError(f"no file in {str(folder)!r} holds text to index: {_left_out(found)}")
    if uec is None:
        _fit(ensemble, found, pairs)
    say(f"Indexing {pluralize(len(found.documents), 'file')} ...")
    retriever = Retriever(ensemble, engine)
    count = replace_files(retriever, found.documents, **chunks_of(ensemble, options))
    overwrite_index(retriever, to)
    record_options(to, options)
    if json:
        made = {"path": str(to), "files": len(found.documents), **_numbers(found)}
        made |= {"passages": count, "fitted": ensemble.is_fitted, "encoders": ensemble.names}
        print_json(made)
        return
    left = f" Left out: {_left_out(found)}." if found.empty or found.unreadable else ""
    files = pluralize(len(found.documents), "file")
    print_text(f"Indexed {pluralize(count, 'passage')} of {files} in {to}.{left}")
    _note_other_files(found)
    option = "" if store is None else f" --store {store}"
    say(f'Ask it: uec-rag ask {to} "your question"{option}')


def _fit(ensemble: UEC, found: Folder, pairs: Sequence[tuple[object, ...]] | None) -> None:
    """Fit an ensemble on pairs or, if it is not fitted, on headings, if there are enough."""
    from uec_rag.documents import fitting_pairs

    if pairs is None:
        if not ensemble.is_fitted and len(made := fitting_pairs(found.documents)) >= _FEWEST_PAIRS:
            fit_ensemble(ensemble, made)
        return
    fit_ensemble(ensemble, pairs)
    slopes = zip(ensemble.names, ensemble.fitted.slopes, strict=True)
    if lost := [name for name, slope in slopes if slope < _NO_SLOPE]:
        raise ValueError(
            f"--fit: {', '.join(lost)} cannot distinguish these passages from others (slope 0); "
            "expected texts that answer, not ids, in a language that the model knows"
        )


def _update(
    folder: Path,
    to: Path,
    given: Mapping[str, Any],
    max_characters: int,
    place: tuple[str | None, bool],
    *,
    json: bool,
) -> None:
    """Update an index from its folder, and print what has changed."""
    if not is_index(to):
        raise FileNotFoundError(
            f"--update: there is no index in {str(to)!r}; leave it out to make one"
        )
    from uec_rag.retrieval.files import options_of, update_files
    from uec_rag.retrieval.gate import OUTDATED

    options = options_of(to)
    if any(options.get(name) != value for name, value in given.items()):
        raise ValueError(
            f"--update reads files as {str(to)!r} was made: expected {_shown(options)}, got "
            f"{_shown(given)}; omit these options, or make the index again without --update"
        )
    retriever = open_index(to, *place)
    changes, found, encoded = update_files(retriever, folder, max_characters=max_characters)
    if not retriever.gate_fits():
        note(OUTDATED)
    counts = {name: len(getattr(changes, name)) for name in ("new", "changed", "removed")}
    if json:
        more = {"unchanged": len(changes.unchanged), **_numbers(found)}
        more |= {"passages": len(retriever), "encoded": encoded}
        print_json({"path": str(to), **counts, **more})
        return
    _note_other_files(found)
    parts = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    print_text(
        f"{to}: {parts}{list_first(changes.removed)}; {pluralize(len(retriever), 'passage')}, "
        f"{encoded:,} of them encoded now; {len(changes.unchanged):,} unchanged, "
        f"{_left_out(found)}."
    )


def _shown(options: Mapping[str, Any]) -> str:
    """Return options as they are given on the command line."""
    shown = list[str]()
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            shown.append(f"--{name.replace('_', '-')}" + (f" {one!r}" if one is not True else ""))
    return " ".join(shown) or "none of them"


def _numbers(found: Folder) -> dict[str, Any]:
    left = {"empty": len(found.empty), "unreadable": len(found.unreadable)}
    return {**left, "other": dict(found.other.most_common())}


def _left_out(found: Folder) -> str:
    """Describe the files without text and those that cannot be read, with numbers and names."""
    kinds = {"empty": found.empty, "unreadable": found.unreadable}
    return ", ".join(f"{len(files):,} {kind}{list_first(files)}" for kind, files in kinds.items())


def _note_other_files(found: Folder) -> None:
    if found.other:
        kinds = (f"{n:,} {suffix or 'without a suffix'}" for suffix, n in found.other.most_common())
        files = pluralize(found.other.total(), "file")
        note(f"left out {files} of kinds that are not read: {', '.join(kinds)}")
