"""`uec-rag copy`: an index into another store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uec_rag.cli.building import check_output
from uec_rag.cli.console import out, print_json, progress, say
from uec_rag.cli.options import Json
from uec_rag.stores.places import MEMORY, is_place, store_at

if TYPE_CHECKING:
    from uec_rag.stores.base import Store


def copy(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="A saved index, wherever its passages are.")
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="A folder, qdrant://HOST:PORT/COLLECTION, qdrant:///FOLDER/COLLECTION or "
            "postgresql://USER@HOST/DATABASE?collection=TABLE.",
        ),
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="IDX", help="Folder for an index that opens TO, where TO is none."
        ),
    ] = None,
    uec: Annotated[
        Path | None,
        typer.Option(
            metavar="FITTED", help="The same models fitted anew: the copy is of that fit."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Copy an index into another store: a folder, Qdrant, PostgreSQL.

    What is copied is read again and compared. A copy into Qdrant or PostgreSQL that was interrupted
    goes on where it was when it is run again; a folder is written whole at the end.

    With --uec the copy is of another fit of the same models. Texts are not encoded again where the
    models allow it.

    Example: uec-rag copy idx qdrant://localhost:6333/passages --out idx-in-qdrant
    """
    folder = to if is_place(target) else Path(target.removeprefix(MEMORY))
    if folder is None:
        raise ValueError("--out: expected a folder for the index that opens TO")
    if to is not None and folder is not to:
        raise ValueError("--out: expected none where TO is a folder itself")
    check_output(folder)
    say(f"Opening {source} ...")
    from uec_rag.ensemble import UEC
    from uec_rag.retrieval import Retriever
    from uec_rag.retrieval.copying import copy_index
    from uec_rag.stores import MemoryStore

    index = Retriever.load(source.removeprefix(MEMORY))
    store: Store = store_at(target) if is_place(target) else MemoryStore()
    refitted = None if uec is None else UEC.load(uec)
    with progress() as bar:
        task = bar.add_task("Copying passages", total=len(index))
        made, done = copy_index(
            index, store, refitted=refitted, advance=lambda count: bar.advance(task, count)
        )
    made.save(folder)
    told = {"passages": done.passages, "written": done.written, "others": done.others}
    if json:
        print_json({"path": str(folder), **told, "checksum": done.checksum})
        return
    kept = f", {done.others:,} others were there" if done.others else ""
    out.print(
        f"{done.passages:,} passages in {folder}, {done.written:,} of them written now{kept}; "
        f"checksum {done.checksum}.",
        markup=False,
        soft_wrap=True,
    )
