"""`uec-rag index`: a folder of documents, made ready for questions."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from uec_rag.base.manifest import MANIFEST
from uec_rag.cli.building import add_passages, build_ensemble, check_output, fit_ensemble
from uec_rag.cli.bulk import index_on_ray
from uec_rag.cli.changes import changes_since, forget, kinds_of, note_hashes
from uec_rag.cli.console import err, note, out, print_json, say
from uec_rag.cli.options import Json, Models
from uec_rag.stores.places import store_at

if TYPE_CHECKING:
    from uec_rag.corpora import Document
    from uec_rag.ensemble import UEC
    from uec_rag.retrieval import Retriever

_FEWEST_PAIRS = 100
"""Below, a posterior fitted on pairs out of the documents alone would be a guess."""


def index(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="With documents in it; see the README for the kinds."
        ),
    ],
    to: Annotated[
        Path,
        typer.Option("--out", metavar="IDX", help="Folder for the index; an old one is replaced."),
    ],
    uec: Annotated[
        Path | None, typer.Option(metavar="FITTED", help="An ensemble that 'uec-rag fit' made.")
    ] = None,
    model: Models = None,
    follow_symlinks: Annotated[
        bool, typer.Option("--follow-symlinks", help="Also read what links in FOLDER lead to.")
    ] = False,
    update: Annotated[
        bool,
        typer.Option("--update", help="Read only what has changed since IDX was made."),
    ] = False,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Where passages are kept, if not in IDX: qdrant://HOST:PORT/COLLECTION or "
            "postgresql://USER@HOST/DATABASE?collection=TABLE.",
        ),
    ] = None,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="ray: rows of .parquet, .jsonl and .txt files, encoded on a cluster."),
    ] = "local",
    workers: Annotated[int, typer.Option(min=1, help="Of each model, with --engine ray.")] = 1,
    gpus: Annotated[float, typer.Option(min=0, help="For each worker, with --engine ray.")] = 0.0,
    json: Json = False,
) -> None:
    """Read a folder of documents and make an index to ask questions of.

    Without --uec the ensemble is fitted on pairs taken from the documents themselves: headings
    and the text under them, first sentences and what follows. Where these are few, it is as it
    comes with this package. An ensemble that --uec brings was
    fitted elsewhere: which of its models to trust here, and how far, is then learned on such
    questions.

    With --update an index that is there keeps its ensemble and what is known of files that are as
    they were, by their content; changed files are read again, removed ones go.

    With --engine ray FOLDER holds rows, not documents: .parquet and .jsonl with a field "text", or
    lines of .txt. It needs --uec. A run that was interrupted goes on where it was if the passages
    are kept in a PLACE.

    Example: uec-rag index ./docs --out idx
    """
    if uec is not None and model:
        raise ValueError("--uec and --model: expected one of them, got both")
    if update and (uec is not None or model):
        raise ValueError(
            "--update keeps the index's own ensemble; expected no --uec and no --model"
        )
    if update and (store is not None or engine != "local"):
        raise ValueError("--update keeps the index's own store; expected no --store, no --engine")
    check_output(to)
    if engine == "ray":
        if model:
            raise ValueError("--engine ray: expected --uec in place of --model")
        index_on_ray(folder, to, uec, store, workers, gpus, json)
        return
    if update:
        _update(folder, to, follow_symlinks, json)
        return
    place = None if store is None else store_at(store)
    if place is not None and uec is None and len(place):
        raise ValueError(
            f"--store holds {len(place):,} passages already, and an ensemble that is fitted on "
            "these documents now is not theirs; expected an empty place, --uec with the ensemble "
            "that they are of, or --update to bring their index up to date"
        )
    say(f"Reading {folder} ...")
    from uec_rag.corpora import passages_of, read_folder
    from uec_rag.corpora.folder import file_hashes

    hashes = file_hashes(folder, follow_symlinks=follow_symlinks)
    documents = read_folder(folder, show_progress=err.is_terminal, follow_symlinks=follow_symlinks)
    _note_other_files(folder, follow_symlinks)
    passages = passages_of(documents)
    note_hashes(passages, hashes)
    say(f"{len(documents):,} files, {len(passages):,} passages")
    from uec_rag.ensemble import UEC
    from uec_rag.retrieval import Retriever
    from uec_rag.stores.filling import filling

    if uec is not None:
        say(f"Loading the ensemble {uec} ...")
        ensemble = UEC.load(uec)
    else:
        ensemble = build_ensemble(model)
        _fit_on(documents, ensemble)
    retriever = Retriever(ensemble, place)
    with filling(retriever.store):
        add_passages(retriever, passages)
    if uec is not None:
        _calibrate(retriever)
    retriever.save(to)
    if json:
        print_json(
            {
                "path": str(to),
                "files": len(documents),
                "passages": len(passages),
                "fitted": ensemble.is_fitted,
                "encoders": ensemble.names,
            }
        )
    else:
        out.print(
            f"Indexed {len(passages):,} passages of {len(documents):,} files in {to}.",
            markup=False,
            soft_wrap=True,
        )
        say(f'Ask it: uec-rag ask {to} "your question"')


def _update(folder: Path, to: Path, follow_symlinks: bool, json: bool) -> None:
    """Bring an index up to date with its folder."""
    if not (to / MANIFEST).is_file():
        raise FileNotFoundError(
            f"--update: there is no index in {str(to)!r}; leave it out to make one"
        )
    say(f"Opening {to} ...")
    from uec_rag.corpora import passages_of, read_folder
    from uec_rag.corpora.folder import file_hashes
    from uec_rag.retrieval import Retriever

    retriever = Retriever.load(to)
    hashes = file_hashes(folder, follow_symlinks=follow_symlinks)
    changes = changes_since(retriever, hashes)
    _note_other_files(folder, follow_symlinks)
    count = 0
    if changes:
        forget(retriever, changes)
        if read := changes.new | changes.changed:
            say(f"Reading {len(read):,} files ...")
            documents = read_folder(folder, follow_symlinks=follow_symlinks, only=read)
            passages = passages_of(documents)
            note_hashes(passages, hashes)
            add_passages(retriever, passages)
            count = len(passages)
        if retriever.calibration is not None and retriever.calibration.source == "self":
            _calibrate(retriever)
        retriever.save(to)
    told = {name: len(getattr(changes, name)) for name in ("new", "changed", "removed")}
    if json:
        print_json({"path": str(to), **told, "passages": len(retriever), "encoded": count})
        return
    parts = ", ".join(f"{number:,} {name}" for name, number in told.items())
    out.print(
        f"{to}: {parts}; {len(retriever):,} passages, {count:,} of them encoded now.",
        markup=False,
        soft_wrap=True,
    )


def _note_other_files(folder: Path, follow_symlinks: bool) -> None:
    from uec_rag.corpora.folder import other_files

    if files := other_files(folder, follow_symlinks=follow_symlinks):
        note(f"{len(files):,} files of other kinds are left out: {kinds_of(files)}")


def _calibrate(retriever: "Retriever") -> None:
    """Learn which encoders to trust here, where the corpus gives enough questions."""
    say("Learning from questions made from the documents which encoders to trust ...")
    try:
        retriever.self_calibrate()
    except ValueError as error:
        note(str(error))
    say(retriever.report)


def _fit_on(documents: "list[Document]", ensemble: "UEC") -> None:
    from uec_rag.corpora import fitting_pairs

    pairs = fitting_pairs(documents)
    if len(pairs) >= _FEWEST_PAIRS:
        fit_ensemble(ensemble, pairs)
    elif ensemble.is_fitted:
        note(
            f"these documents give {len(pairs)} pairs to fit on, fewer than {_FEWEST_PAIRS}: the "
            "index is made with the fit that comes with uec-rag. Fit on pairs of your own with "
            "'uec-rag fit', then give it with --uec"
        )
    else:
        # The note below says it better.
        warnings.filterwarnings("ignore", message="This UEC is not fitted")
        note(
            f"these documents give {len(pairs)} pairs to fit on, fewer than {_FEWEST_PAIRS}: "
            "the index is made with an ensemble that is not fitted, so every sigma_s^2 is 0 and "
            "confidence is not to be trusted. Fit one on pairs of your own with 'uec-rag fit', "
            "then give it with --uec"
        )
