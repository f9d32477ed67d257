"""What LlamaIndex wants to copy, send to workers or write down: an ensemble's or index's files."""

from __future__ import annotations

import base64
import json
import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uec_rag.ensemble import UEC
from uec_rag.retrieval import Retriever


def ensemble_to_dict(uec: UEC) -> dict[str, Any]:
    """Return what `UEC.save` writes: file name -> JSON value, or bytes in base 64."""
    with tempfile.TemporaryDirectory() as folder:
        uec.write(Path(folder))
        return {
            file.name: json.loads(file.read_text(encoding="utf-8"))
            if file.suffix == ".json"
            else base64.b64encode(file.read_bytes()).decode()
            for file in sorted(Path(folder).iterdir())
        }


def ensemble_from_dict(data: Mapping[str, Any]) -> UEC:
    """Rebuild an ensemble from `ensemble_to_dict`.

    Raises
    ------
    ValueError
        If an encoder cannot be loaded by name, or is not the one that was saved.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, value in data.items():
            file = Path(folder) / Path(name).name
            if file.suffix == ".json":
                file.write_text(json.dumps(value), encoding="utf-8")
            else:
                file.write_bytes(base64.b64decode(value))
        return UEC.read(Path(folder))


def index_to_dict(retriever: Retriever) -> dict[str, Any]:
    """Return what `Retriever.save` writes: path in the folder -> bytes in base 64.

    Raises
    ------
    TypeError
        If metadata cannot be written as JSON.
    """
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "index"
        retriever.save(saved)
        return {
            file.relative_to(saved).as_posix(): base64.b64encode(file.read_bytes()).decode()
            for file in sorted(saved.rglob("*"))
            if file.is_file()
        }


def index_from_dict(data: Mapping[str, Any], uec: UEC | None = None) -> Retriever:
    """Rebuild an index from `index_to_dict`; ValueError as `Retriever.load`."""
    with tempfile.TemporaryDirectory() as folder:
        saved = (Path(folder) / "index").resolve()
        for name, value in data.items():
            file = (saved / name).resolve()
            if not file.is_relative_to(saved):
                raise ValueError(f"index: {name!r} lies outside its folder.")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(base64.b64decode(value))
        return Retriever.load(saved, uec)


def check_picklable(uec: UEC) -> None:
    """Say at once where an ensemble cannot be sent to a worker, which LlamaIndex would not say.

    Raises
    ------
    pickle.PicklingError
        If an encoder cannot be pickled.
    """
    for encoder in uec.encoders:
        try:
            pickle.dumps(encoder)
        except Exception as error:
            raise pickle.PicklingError(
                f"uec: encoder {encoder.name!r} cannot be pickled ({error}). Expected one that is "
                "loaded by name, or a function at the top of a module; or save (UEC.save, "
                "UECVectorStore.persist) and load with encoders= in the other process."
            ) from error
