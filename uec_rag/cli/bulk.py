"""`uec-rag index --engine ray`: rows of files, encoded on a cluster."""

from pathlib import Path

from uec_rag.cli.console import out, print_json, progress, say
from uec_rag.stores.places import store_at


def index_on_ray(
    source: Path,
    to: Path,
    uec: Path | None,
    store: str | None,
    workers: int,
    gpus: float,
    json: bool,
) -> None:
    """Index Parquet, JSON lines and text with a fitted ensemble, on Ray."""
    if uec is None:
        raise ValueError("--engine ray: expected --uec, an ensemble that 'uec-rag fit' made")
    say(f"Loading the ensemble {uec} ...")
    from uec_rag.distributed import Resources, index, read_passages
    from uec_rag.ensemble import UEC
    from uec_rag.retrieval import Retriever

    passages = read_passages(source)
    retriever = Retriever(UEC.load(uec), None if store is None else store_at(store))
    with progress() as bar:
        task = bar.add_task("Encoding passages", total=None)
        done = index(
            retriever,
            passages,
            Resources(workers=workers, num_gpus=gpus),
            advance=lambda count: bar.advance(task, count),
        )
    retriever.save(to)
    if json:
        print_json({"path": str(to), "passages": done.read, "written": done.written})
        return
    out.print(
        f"{done.read:,} passages read, {done.written:,} of them encoded now; the index is {to}.",
        markup=False,
        soft_wrap=True,
    )
