"""Ids of passages as engines that want UUIDs take them."""

from __future__ import annotations

import uuid

_SPACE = uuid.UUID("8d1d1b0a-3f5a-4c1e-9d55-2f0d6a1c7e42")


def point_id(id_: str) -> str:
    """The UUID of a passage's id; the same in every process.

    Examples
    --------
    >>> point_id("a") == point_id("a") != point_id("b")
    True
    """
    return str(uuid.uuid5(_SPACE, id_))
