"""Another fit of an index: the same passages with other Gaussians, of which no model is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from threading import RLock

from uec_rag.base.errors import FingerprintMismatch, warn
from uec_rag.base.gaussian import Gaussian
from uec_rag.ensemble.refit import Refit
from uec_rag.ensemble.uec import UEC
from uec_rag.index import save
from uec_rag.index.learn import CorpusCalibration, are_plain
from uec_rag.stores.base import Searched, Store
from uec_rag.stores.local import LocalStore
from uec_rag.stores.passage import Passage
from uec_rag.stores.source import SourceStore
from uec_rag.stores.stored import encode_words

_AT_ONCE = 4096  # passages in memory at a time


@contextmanager
def refitted(
    home: LocalStore,
    store: Store,
    before: UEC,
    uec: UEC,
    calibration: CorpusCalibration | None,
    swapping: RLock,
    passages: Sequence[Passage] = (),
    *,
    must_recount: bool = False,
) -> Iterator[Store]:
    """Replace the fit of an index, in its folder, too; the block gets the store, and swaps it.

    Parameters
    ----------
    home : LocalStore
        The index in the folder.
    store : Store
    before, uec : UEC
        The ensemble of its passages, and the one with which they are scored from now on.
    calibration : CorpusCalibration or None
    swapping : lock
        Held in the block, before others see the new fit.
    passages : sequence of Passage
        Those that the fit was made on; a source of candidates learns their words.
    must_recount : bool
        Whether words are counted again.
    """
    with ExitStack() as stack:
        if isinstance(store, SourceStore):  # it encodes what it finds
            source = store.with_ensemble(uec)
            if passages:
                source.learn_words(passages)
            stack.enter_context(swapping)
            save.record(home, source, uec, calibration)
            yield source
            return
        with store.changing():
            if isinstance(store, LocalStore) and not must_recount:
                store.refit(uec.fingerprint, change_of(before, uec))
            else:
                _add_again(store, before, uec)
            save.record_ensemble(home, uec)
            stack.enter_context(swapping)
        yield store


def _add_again(store: Store, before: UEC, uec: UEC) -> None:
    """Replace all passages by the same with another fit, and with words counted again."""
    view = store.snapshot()
    store.delete([passage.id for passage in view.passages()])
    store.bind(uec.fingerprint)
    for batch, gaussians in recount(view, before, uec):
        store.add(batch, gaussians)


def passages_to_count(uec: UEC, store: Searched, home: LocalStore) -> list[Passage]:
    """Return passages of which words are counted again, once the stemmer has changed.

    FingerprintMismatch if they cannot be, and a warning if they can.
    """
    problem = "index: its words were counted with other stems, by another PyStemmer or uec-rag"
    if home.read_only:
        raise FingerprintMismatch(f"{problem}; open it once to write, which counts them again.")
    passages = store.examples()
    is_known = bool(passages)
    if not isinstance(store, SourceStore):
        is_known = isinstance(store, LocalStore) and are_plain(uec.encoders, "probe")
    if not is_known:
        raise FingerprintMismatch(f"{problem}, and its passages cannot be read; build it again.")
    warn(f"{problem}; they are counted again, once.")
    return passages


def change_of(before: UEC, after: UEC) -> Refit:
    """Return the change from one fit of an ensemble to another."""
    widths = tuple(encoder.dimension for encoder in after.encoders)
    return Refit(before.fitted, after.fitted, widths)


def recount(store: Searched, before: UEC, after: UEC) -> Iterator[tuple[list[Passage], Gaussian]]:
    """Yield all passages of a store, with their Gaussians after a fit and words counted again.

    `store`: a view with Gaussians of `before`. No model is run.
    """
    change, passages = change_of(before, after), store.passages()
    while batch := [*islice(passages, _AT_ONCE)]:
        means = store.vectors([passage.id for passage in batch]).mean
        words = encode_words(after.encoders, batch)
        yield batch, change.gaussians(means, [block for part in words for block in part.blocks])
