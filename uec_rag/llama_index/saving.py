"""Convert an ensemble or an index to JSON, for LlamaIndex to copy or send to workers."""

from __future__ import annotations

import base64
import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uec_rag.ensemble import UEC
from uec_rag.retrieval import Retriever


def _packed(folder: Path) -> dict[str, str]:
    """Return the files of a folder as a mapping of path to base64."""
    return {
        file.relative_to(folder).as_posix(): base64.b64encode(file.read_bytes()).decode()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def _unpacked(data: Mapping[str, str], folder: Path) -> Path:
    """Write what `_packed` made into a folder; ValueError if a file would lie outside."""
    for name, content in data.items():
        file = (folder / name).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise ValueError(f"index: {name!r} lies outside its folder.")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(content))
    return folder


def ensemble_to_dict(uec: UEC) -> dict[str, str]:
    """Return what `UEC.save` writes, as JSON takes it."""
    with tempfile.TemporaryDirectory() as folder:
        uec.write(Path(folder))
        return _packed(Path(folder))


def ensemble_from_dict(data: Mapping[str, str]) -> UEC:
    """Rebuild an ensemble from `ensemble_to_dict`; ValueError as `UEC.load`."""
    with tempfile.TemporaryDirectory() as folder:
        return UEC.read(_unpacked(data, Path(folder)))


def index_to_dict(retriever: Retriever) -> dict[str, str]:
    """Return what `Retriever.save` writes, as JSON takes it; TypeError as there."""
    with tempfile.TemporaryDirectory() as folder:
        retriever.save(Path(folder) / "index")
        return _packed(Path(folder) / "index")


def index_from_dict(data: Mapping[str, str], uec: UEC | None = None, **options: Any) -> Retriever:
    """Rebuild an index from `index_to_dict`; options and errors as in `Retriever.load`."""
    with tempfile.TemporaryDirectory() as folder:
        return Retriever.load(_unpacked(data, Path(folder) / "index"), uec, **options)


def check_picklable(uec: UEC) -> None:
    """Raise pickle.PicklingError if an encoder cannot be pickled, which LlamaIndex would hide."""
    for encoder in uec.encoders:
        try:
            pickle.dumps(encoder)
        except Exception as error:
            raise pickle.PicklingError(
                f"uec: encoder {encoder.name!r} cannot be pickled ({error}). Expected one that is "
                "loaded by name, or a function at the top of a module; or save (UEC.save, "
                "UECVectorStore.persist) and load with encoders= in the other process."
            ) from error
