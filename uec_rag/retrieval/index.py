"""An index: passages with the Gaussians that an ensemble makes of them, in a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from typing import Any

import numpy as np

from uec_rag.base.checks import listed
from uec_rag.base.errors import warn
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.ensemble.convolution import present
from uec_rag.ensemble.faults import MISSING
from uec_rag.ensemble.fitted import ENOUGH_PASSAGES
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.result import without_findings
from uec_rag.stores.base import Filter, Passage, Store, check_store, make_passages, stream_passages

_CHUNK = 4096  # texts of an iterator that are in memory at a time


class Index:
    """Passages under an ensemble: added, replaced, deleted and read; what `Retriever` searches.

    Parameters
    ----------
    uec : UEC
    store : Store
        Where the Gaussians are stored.
    """

    def __init__(self, uec: UEC, store: Store) -> None:
        if not isinstance(uec, UEC):
            raise TypeError(
                f"uec: expected a UEC, got {type(uec).__name__}; make one with UEC([encoder, ...])."
            )
        check_store(store)
        self.uec = uec
        self.store = store
        self._posteriors = uec.fitted.posteriors
        self._changes = 0
        self._foreign_said = False
        self._not_looked_at: list[tuple[list[str], list[FloatArray]]] = []
        if len(store):
            store.bind(uec.fingerprint)

    @property
    def changes(self) -> int:
        """The number of additions and removals so far, which a calibration notes down."""
        return self._changes

    def __len__(self) -> int:
        return len(self.store)

    def add(
        self,
        texts: Iterable[str],
        ids: Iterable[str] | None = None,
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        *,
        show_progress: bool = False,
    ) -> list[str]:
        """Embed and index texts; a text whose id is there already replaces the old one.

        Parameters
        ----------
        texts : iterable of str
            A list is added whole or not at all. An iterator may be of any length: a few thousand
            texts are read, embedded and stored at a time.
        ids : iterable of str, optional
            Distinct; made up if not given.
        metadatas : iterable of mapping, optional
            One per text. Keys that begin with "uec_" are left out: a search writes what it knows
            of a hit under them.
        show_progress : bool

        Returns
        -------
        list of str
            The ids.

        Raises
        ------
        TypeError, ValueError
            If a text is empty or not a string, an id comes twice, or the lengths differ; if a
            text has no term, and nothing but terms is looked for. If an iterator's texts were
            stored before an error, a note on it says how many.
        """
        is_stream = isinstance(texts, Iterable) and not isinstance(texts, Sized)
        chunks: Iterable[list[Passage]]
        if is_stream:  # of unknown length
            chunks = stream_passages(texts, ids, metadatas, _CHUNK)
        else:
            chunks = [make_passages(texts, ids, metadatas)]
        added: list[str] = []
        try:
            for passages in chunks:
                parts = self.uec.encode(
                    [passage.text for passage in passages], "passage", show_progress=show_progress
                )
                added += self.add_encoded(passages, parts)
        except Exception as error:
            if is_stream:
                error.add_note(
                    f"{len(added):,} texts of the iterator were indexed before this, and stay."
                )
            raise
        return added

    def add_encoded(self, passages: Sequence[Passage], parts: Sequence[Gaussian]) -> list[str]:
        """Add passages that are encoded already.

        Parameters
        ----------
        passages : sequence of Passage
            As `make_passages` checks them.
        parts : sequence of Gaussian
            Each encoder's own Gaussians of their texts, as `UEC.encode` returns them.

        Returns
        -------
        list of str
            The ids.
        """
        self._check_fit()
        stored = [without_findings(passage) for passage in passages]
        stored = _noting_missing(stored, parts, self.uec.names)
        self.store.bind(self.uec.fingerprint)
        gaussians = self.uec.combine(parts, self.uec.coefficients(parts, "passage"))
        self.store.add(stored, gaussians)
        self._changes += 1
        self._say_foreign([passage.text for passage in passages], [part.mean for part in parts])
        return [passage.id for passage in passages]

    def _say_foreign(self, texts: Sequence[str], means: Sequence[FloatArray]) -> None:
        """Warn, once, of passages in a language that encoders cannot tell apart.

        Passages that come one by one are looked at when there are enough of them.
        """
        if self._foreign_said or self.uec.fitted.training_profile is None:
            return
        some = slice(2 * ENOUGH_PASSAGES)
        self._not_looked_at.append((list(texts[some]), [mean[some] for mean in means]))
        together = [text for batch, _ in self._not_looked_at for text in batch]
        if len(together) < ENOUGH_PASSAGES:
            return
        vectors = [
            np.concatenate(m) for m in zip(*(m for _, m in self._not_looked_at), strict=True)
        ]
        self._not_looked_at = []
        warning = self.uec.fitted.foreign_corpus(together, vectors)
        if warning is not None:
            self._foreign_said = True
            warn(warning)

    def _check_fit(self) -> None:
        """Follow a new fit; ValueError if there are passages of the old one."""
        if self.uec.fitted.posteriors is self._posteriors:
            return
        if len(self):
            raise ValueError(
                f"uec: it was fitted after these {len(self)} passages were indexed, whose "
                "vectors are of the previous fit; call clear() and add them again."
            )
        self._posteriors = self.uec.fitted.posteriors

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages; ids that are not there are ignored. Returns how many went."""
        gone = self.store.delete(listed(ids, "ids"))
        self._changes += bool(gone)
        return gone

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there, in the order asked."""
        return self.store.get(listed(ids, "ids"))

    def clear(self) -> None:
        """Remove every passage."""
        self.delete([passage.id for passage in self.store.passages()])

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those a filter lets through, in the order they came."""
        return self.store.passages(filter)

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the stored Gaussians of ids; KeyError if one is not there."""
        return self.store.vectors(listed(ids, "ids"))


def _noting_missing(
    passages: list[Passage], parts: Sequence[Gaussian], names: Sequence[str]
) -> list[Passage]:
    """Note on passages the names of the members that cannot find them, if there are any.

    Raises ValueError if no member can find a passage.
    """
    there = present([part.mean for part in parts])
    for member, part in enumerate(parts):
        for block in part.terms:
            there[:, member] &= np.diff(block.starts) > 0
    if there.all():
        return passages
    lost = ~there.any(axis=1)
    if lost.any():
        row = int(lost.argmax())
        raise ValueError(
            f"texts: {int(lost.sum())} of {len(passages)} have no term that {list(names)} would "
            f"look for, first {passages[row].text!r:.40} (id {passages[row].id!r}); no query "
            "could find them. Leave them out, add a member with vectors, or check the terms of "
            "your own tokenizer."
        )
    return [
        passage
        if row.all()
        else replace(
            passage,
            metadata=passage.metadata
            | {MISSING: [name for name, is_there in zip(names, row, strict=True) if not is_there]},
        )
        for passage, row in zip(passages, there, strict=True)
    ]
