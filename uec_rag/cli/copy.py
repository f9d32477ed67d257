"""`uec-rag copy`: an index into another store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uec_rag.base.checks import counted
from uec_rag.cli.building import check_output
from uec_rag.cli.console import (
    Json,
    StorePlace,
    Trust,
    check_index,
    open_index,
    print_json,
    print_text,
    progress,
    say,
)
from uec_rag.cli.values import path, words
from uec_rag.stores.places import EXPECTED, MEMORY, is_engine, is_place, store_at

if TYPE_CHECKING:
    from uec_rag.stores.base import Store


def copy(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM", parser=words, help="A saved index, with its passages in any store."
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            parser=words,
            help="A folder, qdrant://HOST:PORT/COLLECTION, qdrant:///FOLDER/COLLECTION or "
            "postgresql://USER@HOST/DATABASE?collection=TABLE.",
        ),
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="IDX",
            parser=path,
            help="Folder for an index that opens TO, if TO is not a folder.",
        ),
    ] = None,
    store: StorePlace = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Copy an index into another store: a folder, Qdrant, PostgreSQL.

    The copy is read back and compared. Run an interrupted copy into Qdrant or PostgreSQL again to
    resume it; a folder is written whole at the end.

    Example: uec-rag copy idx qdrant://localhost:6333/passages --out idx-in-qdrant
    """
    if is_place(source):
        raise ValueError("FROM: expected the folder of an index, got a place; give that as --store")
    if is_place(target) and not is_engine(target):
        raise ValueError(f"TO: expected a folder, {EXPECTED.removeprefix('expected ')}")
    folder = to if is_place(target) else Path(target.removeprefix(MEMORY))
    if folder is None:
        raise ValueError("--out: expected a folder for the index that opens TO")
    if to is not None and folder is not to:
        raise ValueError("--out: expected none if TO is a folder")
    known = Path(source.removeprefix(MEMORY))
    check_index(known, "FROM")
    check_output(folder, "TO" if to is None else "--out")
    say(f"Opening {source} ...")
    from uec_rag.retrieval.copying import copy_index
    from uec_rag.stores import MemoryStore

    index = open_index(known, store, trust)
    made_in: Store = store_at(target) if is_place(target) else MemoryStore()
    with progress() as bar:
        task = bar.add_task("Copying passages", total=len(index))
        made, done = copy_index(index, made_in, advance=lambda count: bar.advance(task, count))
    made.save(folder)
    counts = {"passages": done.passages, "written": done.written, "others": done.others}
    if json:
        print_json({"path": str(folder), **counts, "checksum": done.checksum})
        return
    others = f", {done.others:,} others were there" if done.others else ""
    print_text(
        f"{counted(done.passages, 'passage')} in {folder}, {done.written:,} of them written "
        f"now{others}; checksum {done.checksum}."
    )
