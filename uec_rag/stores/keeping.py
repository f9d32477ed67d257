"""What a store that several processes search keeps for them beside passages, under a version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

CALIBRATION, GATE, SAMPLE = "calibration", "gate", "sample"
KEPT = (CALIBRATION, GATE, SAMPLE)
"""Names under which something may be kept."""


class Stamp(NamedTuple):
    """State of what is stored.

    Attributes
    ----------
    written : str
        Another one after every write.
    kept : mapping of str to str
        Version of what is kept, by its name.
    """

    written: str
    kept: Mapping[str, str]


@runtime_checkable
class Keeping(Protocol):
    """A store that keeps bytes by name; those in a process's own memory do not."""

    def stamp(self) -> Stamp:
        """The state of what is stored, at little cost."""
        ...

    def keep(self, name: str, data: bytes) -> str:
        """Keep bytes under one of the names that there are; returns their version."""
        ...

    def kept(self, name: str) -> tuple[str, bytes] | None:
        """The version of what is kept under a name, and the bytes."""
        ...


def keep_in(store: Keeping, name: str, data: bytes) -> str:
    """Keep bytes in a store under a name; returns their version.

    Raises
    ------
    ValueError
        If nothing was ever added to it: there is no place yet.
    """
    if not store.stamp().written:
        raise ValueError(
            f"store: it keeps a {name} beside its passages, and nothing was ever added to it; add "
            "passages first."
        )
    return store.keep(name, data)
