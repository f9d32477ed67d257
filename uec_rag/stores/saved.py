"""A store's files: NumPy arrays and JSON, and checks that they belong together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.errors import IndexCorrupted, as_corrupted
from uec_rag.base.files import read_array, read_json, write_json
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.postings import Postings
from uec_rag.stores import passages as passage_files
from uec_rag.stores.graph import CANDIDATES, Graph
from uec_rag.stores.means import Means, Rows, longest
from uec_rag.stores.passages import PassageLog
from uec_rag.stores.scan import Scan, make_scan
from uec_rag.stores.state import State

_MEAN = "mean.{}.npy"


def write_state(state: State, folder: Path) -> None:
    """Write the live rows of a state into an existing folder."""
    live = state.live_rows()
    rows = slice(state.rows) if state.live is None else state.live  # a slice copies nothing
    for name, array in rows_of(state.means, state.scales, state.scan, rows):
        np.save(folder / name, array, allow_pickle=False)
    ids = passage_files.write(state.passages, live, folder)
    if state.longest == math.inf:
        state = replace(state, longest=longest(state.means.rows(rows)))
    write_rest(state, ids, live, folder)


def rows_of(
    means: Means, scales: FloatArray, scan: Scan | None, rows: Rows
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Means and scales of rows, and their compressed copy, by the names of their files."""
    for number, block in enumerate(means.blocks):
        yield _MEAN.format(number), block[rows]
    yield "scales.npy", scales[rows]
    if scan is not None:
        yield from scan.arrays(rows)


def write_rest(state: State, ids: list[str], live: NDArray[np.int64], folder: Path) -> None:
    """Write what is not kept row by row: profile, words, graph, and what `read_state` is told."""
    if state.profile is not None:
        np.save(folder / "profile.npy", state.profile, allow_pickle=False)
    settings: dict[str, object] = {
        "store": "memory",
        "fingerprint": state.fingerprint,
        "ids": ids,
        "blocks": len(state.means.blocks),
        "longest": state.longest,
    }
    if state.postings:
        settings["terms"] = [
            held.save(folder, f"terms.{n}", live) for n, held in enumerate(state.postings)
        ]
    if state.scan is not None:
        settings["scan"] = state.scan.settings()
    if state.graph is not None:
        settings |= {"index": "hnsw", "candidates": state.graph.candidates}
        settings["graph"] = state.graph.save(folder, live)
    write_json(folder / "store.json", settings, indent=None)  # ids by the million


def read_state(folder: Path, device: str | None) -> State:
    """Read what `write_state` wrote; its files are mapped, not read.

    Raises
    ------
    IndexCorrupted
        If files are missing, or do not belong together.
    ValueError
        If torch cannot use the device here.
    """
    settings = read_json(folder / "store.json")
    with as_corrupted(folder / "store.json"):
        ids = settings["ids"]
        bound = float(settings.get("longest", math.inf))  # not known of what was saved earlier
        # Indexes saved before there were blocks have one matrix.
        count = settings.get("blocks", 0)
        names = map(_MEAN.format, range(count)) if count else ["mean.npy"]
        means = Means(
            tuple(read_array(folder / name, np.float32, 2, mapped=True) for name in names)
        )
    scales = read_array(folder / "scales.npy", np.float32, 2, mapped=True)
    file = folder / "profile.npy"
    profile = read_array(file, np.float32, 2) if file.exists() else None
    passages = PassageLog(folder, ids)
    make_scan("float32", device)  # a device that is not here is no damage
    with as_corrupted(folder):
        _check_belong_together(folder, ids, means, scales, profile, len(passages))
        graph = None
        if "index" in settings:
            many = settings.get("candidates", CANDIDATES)
            graph = Graph.load(folder, settings.get("graph", {}), means.dimension, many)
            if ids and not len(graph.nearest(means.rows(slice(1)), 1)[0]):
                raise IndexCorrupted(
                    f"path: {str(folder)!r} lacks the graph of its passages; save it again."
                )
        scan = Scan.load(folder, means, settings.get("scan", {}), device)
        if scan is not None and ids:
            _check_scan(folder, scan, means)
        postings = tuple(Postings.load(folder, saved) for saved in settings.get("terms", ()))
    return State(
        rows=len(ids),
        means=means,
        scales=scales,
        profile=profile,
        fingerprint=settings.get("fingerprint"),
        longest=bound,
        passages=passages,
        alive=np.ones(len(ids), dtype=bool),
        row_of={id_: row for row, id_ in enumerate(ids)},
        scan=scan,
        graph=graph,
        postings=postings,
    )


def _check_scan(folder: Path, scan: Scan, means: Means) -> None:
    count = len(means.blocks)
    fits = [tuple(block.shape) for block in scan.blocks] == [block.shape for block in means.blocks]
    if scan.compressed:
        fits &= len(scan.errors) == len(scan.lengths) == count
        fits &= all(0 <= value < math.inf for value in (*scan.errors, *scan.lengths))
        for scale in scan.scales:
            fits &= scale.shape == (len(means.blocks[0]),)
            fits &= scale.is_floating_point() and scale.dtype.itemsize == 4
    if not fits:
        raise IndexCorrupted(
            f"path: {str(folder)!r} holds a compressed copy that is not one of its means; save the "
            "index again."
        )


def _check_belong_together(
    folder: Path,
    ids: list[object],
    means: Means,
    scales: FloatArray,
    profile: FloatArray | None,
    passages: int,
) -> None:
    held = [*(len(block) for block in means.blocks), len(scales), passages, len(ids)]
    if len({*held}) > 1:
        raise IndexCorrupted(
            f"path: {str(folder)!r} holds {held[:-3]} means, {held[-3]} variances, "
            f"{held[-2]} passages and {held[-1]} ids; expected as many of each. "
            "Save the index again."
        )
    if not all(isinstance(id_, str) for id_ in ids) or len({*ids}) < len(ids):
        raise IndexCorrupted(
            f"path: {str(folder)!r} has ids that are no strings, or one twice; save it again."
        )
    of = (scales.shape[1], means.dimension)  # what the variances are made of, and of what width
    if ids and of != ((means.dimension,) * 2 if profile is None else profile.shape):
        raise IndexCorrupted(
            f"path: {str(folder)!r} holds variances that do not fit its means of dimension "
            f"{means.dimension}; save the index again."
        )
