"""A run's results on disk: one JSON file each, so that a killed run continues."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path

from uec_rag.base.files import read_json, replace_file

Json = dict[str, object]

_SETTINGS = "settings.json"


class Results:
    """A folder of results, keyed by parts of a path.

    Parameters
    ----------
    folder : path
    settings : dict
        What the results follow from: JSON-able.

    Raises
    ------
    ValueError
        If the folder holds results of other settings.
    """

    def __init__(self, folder: str | os.PathLike[str], settings: Json) -> None:
        self.folder = Path(folder)
        found = self.folder / _SETTINGS
        if found.is_file() and (old := read_json(found)) != _plain(settings):
            differ = sorted(key for key in {*old, *settings} if old.get(key) != settings.get(key))
            raise ValueError(
                f"--out: {str(self.folder)!r} holds a run with other settings ({differ}); choose "
                "another folder, or remove it."
            )
        self.write_to(found, settings)

    def get(self, *key: str) -> Json | None:
        """Return a result, or None where it is not there yet."""
        file = self._file(key)
        return read_json(file) if file.is_file() else None

    def put(self, value: Json, *key: str) -> None:
        """Keep a result."""
        self.write_to(self._file(key), value)

    def write_to(self, file: Path, value: Json) -> None:
        """Write JSON in one rename: a killed run leaves the whole file or none."""
        file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_plain(value), ensure_ascii=False, indent=1, allow_nan=False)
        replace_file(file, text)

    def _file(self, key: tuple[str, ...]) -> Path:
        *folders, name = (re.sub(r"[^\w.+-]+", "_", part) for part in key)
        return self.folder.joinpath("results", *folders, f"{name}.json")


def _plain(value: object) -> object:
    """JSON has no NaN: a number that is not there is null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
