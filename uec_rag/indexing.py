"""An index: passages with the Gaussians that an ensemble makes of them, in a store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from uec_rag.gaussian import Gaussian
from uec_rag.inputs import listed, make_passages
from uec_rag.stores.base import Passage, Store

if TYPE_CHECKING:
    from uec_rag.ensemble import UEC


class Index:
    """Passages under an ensemble: added, replaced, deleted and read; what `Retriever` searches.

    Parameters
    ----------
    uec : UEC
    store : Store
        Where the Gaussians are kept.
    """

    def __init__(self, uec: UEC, store: Store) -> None:
        self.uec = uec
        self.store = store
        self._posteriors = uec.posteriors
        self._changes = 0

    @property
    def changes(self) -> int:
        """How often passages were added or removed here: a calibration notes it down."""
        return self._changes

    def __len__(self) -> int:
        return len(self.store)

    def add(
        self,
        texts: Sequence[str],
        ids: Sequence[str] | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        show_progress: bool = False,
    ) -> list[str]:
        """Embed and index texts; a text whose id is there already replaces the old one.

        Parameters
        ----------
        texts : sequence of str
        ids : sequence of str, optional
            Distinct; made up where not given.
        metadatas : sequence of mapping, optional
            One per text.
        show_progress : bool

        Returns
        -------
        list of str
            The ids.

        Raises
        ------
        TypeError, ValueError
            If a text is empty or not a string, an id comes twice, or the lengths differ.
        """
        passages = make_passages(texts, ids, metadatas)
        parts = self.uec.encode(
            [passage.text for passage in passages], "passage", show_progress=show_progress
        )
        return self.add_encoded(passages, parts)

    async def aadd(
        self,
        texts: Sequence[str],
        ids: Sequence[str] | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
    ) -> list[str]:
        """`add` without blocking the event loop."""
        passages = make_passages(texts, ids, metadatas)
        parts = await self.uec.aencode([passage.text for passage in passages], "passage")
        return await asyncio.to_thread(self.add_encoded, passages, parts)

    def add_encoded(self, passages: Sequence[Passage], parts: Sequence[Gaussian]) -> list[str]:
        """`add` for passages that are encoded already.

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
        gaussians = self.uec.combine(parts, self.uec.coefficients(parts, "passage"))
        self.store.add(passages, gaussians)
        self._changes += 1
        return [passage.id for passage in passages]

    def _check_fit(self) -> None:
        if self.uec.posteriors is self._posteriors:
            return
        if len(self):
            raise ValueError(
                f"uec: it was fitted after these {len(self)} passages were indexed, whose vectors "
                "are of the fit before; call clear() and add them again."
            )
        self._posteriors = self.uec.posteriors

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

    def passages(self) -> Iterator[Passage]:
        """Iterate over all passages in the order they came."""
        return self.store.passages()

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the stored Gaussians of ids; KeyError if one is not there."""
        return self.store.vectors(listed(ids, "ids"))
