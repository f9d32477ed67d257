"""An ensemble as a JSON-able dict: the files of `UEC.save`, inline."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uec_rag.ensemble import UEC


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
