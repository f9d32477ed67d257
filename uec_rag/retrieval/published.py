"""What was learned of a corpus, kept in its store for all processes that search it."""

from __future__ import annotations

import json
from typing import NamedTuple

from uec_rag.retrieval.calibrate import CorpusCalibration
from uec_rag.stores.base import Store
from uec_rag.stores.keeping import CALIBRATION, Keeping, keep_in


class Published(NamedTuple):
    """A calibration that a store keeps.

    Attributes
    ----------
    version : str
    calibration : CorpusCalibration
    written : str
        State of the store that it was learned on, or that it was last seen not to be of.
    current : bool
        Whether that is the store's state; False once for every other state.
    """

    version: str
    calibration: CorpusCalibration
    written: str
    current: bool = True


def publish(store: Store, calibration: CorpusCalibration, written: str) -> Published | None:
    """Keep a calibration in a store, where that keeps anything.

    Parameters
    ----------
    store : Store
    calibration : CorpusCalibration
    written : str
        State of the store that it was learned on.
    """
    if not isinstance(store, Keeping):
        return None
    state = {"calibration": calibration.metadata(), "written": written}
    version = keep_in(store, CALIBRATION, json.dumps(state).encode())
    return Published(version, calibration, written)


def published(store: Store, known: Published | None) -> Published | None:
    """The calibration that a store keeps; the known one, where it is that or there is none."""
    if not isinstance(store, Keeping):
        return known
    stamp = store.stamp()
    version = stamp.kept.get(CALIBRATION)
    if version is not None and (known is None or known.version != version):
        found = store.kept(CALIBRATION)
        if found is not None:
            state = json.loads(found[1])
            calibration = CorpusCalibration.restore(state["calibration"])
            known = Published(found[0], calibration, state["written"])
    if known is None:
        return None
    return known._replace(written=stamp.written, current=known.written == stamp.written)


def written(store: Store) -> str:
    """The state of a store that several processes write; of others nothing."""
    return store.stamp().written if isinstance(store, Keeping) else ""
