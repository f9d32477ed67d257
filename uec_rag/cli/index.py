"""`uec-rag index`: making an index from a folder of documents, or updating it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from uec_rag.base.checks import pluralize
from uec_rag.cli.building import check_output, make_index, update_index
from uec_rag.cli.console import Json, note, print_json, print_text, say
from uec_rag.cli.opening import StoreUrl, Trust, open_index
from uec_rag.documents.folder import list_first
from uec_rag.documents.labels import read_pairs
from uec_rag.documents.passages import FEWEST_TOKENS, check_chunks

Documents = Annotated[
    Path,
    typer.Argument(
        help="Folder of documents: text, Markdown, CSV, and others with the extra 'documents'."
    ),
]
Out = Annotated[
    Path, typer.Option("--out", help="Output folder. An existing index is overwritten.")
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="english (default), multilingual, or a model's hub name or folder; repeatable.",
    ),
]
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
Update = Annotated[
    bool, typer.Option("--update", help="Read only what has changed since IDX was made.")
]


def index(
    folder: Documents,
    to: Out,
    model: Models = None,
    fit: FitPairs = None,
    follow_symlinks: FollowSymlinks = False,
    exclude: Exclude = [],  # noqa: B006
    include: Include = [],  # noqa: B006
    chunk_size: ChunkSize = None,
    overlap: Overlap = 0,
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
    if update and (model or fit):
        raise ValueError("--update keeps the index's own ensemble; omit --model and --fit")
    if overlap and chunk_size is None:
        raise ValueError("--overlap counts tokens; expected --chunk-size with it")
    if chunk_size is not None:
        check_chunks(chunk_size, overlap, FEWEST_TOKENS, ("--chunk-size", "--overlap"))
    check_output(to)
    given: dict[str, Any] = {
        "exclude": exclude,
        "include": include,
        "follow_symlinks": follow_symlinks,
    }
    given |= {"chunk_size": chunk_size, "overlap": overlap}
    options = {name: value for name, value in given.items() if value}
    from uec_rag.retrieval.gate import OUTDATED

    if update:
        retriever = open_index(to, store, trust)
        counts, found = update_index(folder, retriever, options)
    else:
        pairs = None if fit is None else read_pairs(fit, "--fit")
        retriever, found = make_index(folder, to, model, pairs, options, store)
        counts = {"passages": len(retriever), "files": len(found.documents)}
    if (gate := retriever.gate) is not None and not gate.fits(retriever):
        note(OUTDATED)
    left = {"empty": found.empty, "unreadable": found.unreadable}
    if json:
        other = {"other": dict(found.other.most_common())}
        numbers = {name: len(files) for name, files in left.items()}
        print_json({"path": str(to), **counts, **numbers, **other})
        return
    said = ", ".join(
        f"{number:,} {name.removesuffix('s') if number == 1 else name}"
        for name, number in counts.items()
    )
    kinds = (f"{len(files):,} {kind}{list_first(files)}" for kind, files in left.items() if files)
    print_text("; ".join([f"{to}: {said}", *kinds]))
    if found.other:
        other_kinds = (f"{n:,} {kind or 'without a suffix'}" for kind, n in found.other.items())
        files = pluralize(found.other.total(), "file")
        note(f"left out {files} of kinds that are not read: {', '.join(other_kinds)}")
    say(f'Ask it: uec-rag ask {to} "your question"{"" if store is None else f" --store {store}"}')
