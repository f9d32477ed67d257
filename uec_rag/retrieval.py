"""From a query to hits: candidates, exact scores, relevance, confidence. No framework needed."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from uec_rag.asking import ask
from uec_rag.confidence import ConfidenceModel
from uec_rag.encoders.base import check_texts
from uec_rag.evidence import EvidenceGate
from uec_rag.gaussian import Gaussian
from uec_rag.judging import judge
from uec_rag.results import SearchResult, joined
from uec_rag.stores.base import Filter, Passage, Store
from uec_rag.stores.memory import MemoryStore

if TYPE_CHECKING:
    from uec_rag.encoders import EncoderLike
    from uec_rag.ensemble import UEC

__all__ = ["KIND", "Passage", "Retriever", "SearchResult", "check_k", "make_passages"]

KIND = "UEC index"

_BLOCK = 2**26  # similarities held at a time, over queries, passages and encoders


class Retriever:
    """An index of passages under an ensemble, searched with uncertainty.

    Parameters
    ----------
    uec : UEC
    store : Store, optional
        Where the Gaussians are kept; in memory by default.

    Examples
    --------
    >>> import numpy as np, warnings
    >>> from uec_rag import UEC
    >>> def letters(texts):
    ...     return np.array([[t.count(c) + 0.1 for c in "abc"] for t in texts])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # not fitted: variance 0
    ...     r = Retriever(UEC([letters], coefficients="uniform"))
    ...     ids = r.add(["aa", "bb", "cc"], ids=["1", "2", "3"])
    ...     result = r.search(["b"], k=2)
    >>> result.ids[0][0], result.scores.shape
    ('2', (1, 2))
    """

    def __init__(self, uec: UEC, store: Store | None = None) -> None:
        self.uec = uec
        self.store: Store = MemoryStore() if store is None else store
        self._calibrated: ConfidenceModel | None = None

    def __len__(self) -> int:
        return len(self.store)

    def __repr__(self) -> str:
        return f"Retriever({len(self)} passages, {self.uec!r})"

    @property
    def gate(self) -> EvidenceGate | None:
        """What turns the corpus's evidence into coefficients: the fitted ensemble's."""
        return self.uec.gate

    @property
    def confidence_model(self) -> ConfidenceModel | None:
        """What turns logits into probabilities: `calibrate`'s, else the fitted ensemble's."""
        return self._calibrated or self.uec.confidence_model

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
        gaussians = self.uec.embed(
            [passage.text for passage in passages], "passage", show_progress=show_progress
        )
        self.store.add(passages, gaussians)
        return [passage.id for passage in passages]

    async def aadd(
        self,
        texts: Sequence[str],
        ids: Sequence[str] | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
    ) -> list[str]:
        """`add` without blocking the event loop."""
        passages = make_passages(texts, ids, metadatas)
        gaussians = await self.uec.aembed([passage.text for passage in passages], "passage")
        await asyncio.to_thread(self.store.add, passages, gaussians)
        return [passage.id for passage in passages]

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages; ids that are not there are ignored. Returns how many went."""
        return self.store.delete(_listed(ids, "ids"))

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there, in the order asked."""
        return self.store.get(_listed(ids, "ids"))

    def clear(self) -> None:
        """Remove every passage."""
        self.store.delete([passage.id for passage in self.store.passages()])

    def passages(self) -> Iterator[Passage]:
        """Iterate over all passages in the order they came."""
        return self.store.passages()

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the stored Gaussians of ids; KeyError if one is not there."""
        return self.store.vectors(_listed(ids, "ids"))

    def search(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        filter: Filter | None = None,
    ) -> SearchResult:
        """Find the k passages of the highest s_hat for each query.

        Parameters
        ----------
        queries : sequence of str
        k : int
            Where fewer passages match, all of them come back.
        filter : mapping or callable, optional
            Metadata values that must be equal, or a predicate on a `Passage`.

        Returns
        -------
        SearchResult

        Raises
        ------
        TypeError, ValueError
            If a query is empty or not a string, or k < 1.
        KeyError
            If the filter names a metadata key that no passage has.
        """
        check_k(k)
        checked = check_texts(queries, "queries")
        return self.search_encoded(checked, self.uec.encode(checked, "query"), k, filter=filter)

    async def asearch(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        filter: Filter | None = None,
    ) -> SearchResult:
        """`search` without blocking the event loop."""
        check_k(k)
        checked = check_texts(queries, "queries")
        parts = await self.uec.aencode(checked, "query")
        return await asyncio.to_thread(self.search_encoded, checked, parts, k, filter=filter)

    def search_encoded(
        self,
        queries: Sequence[str],
        parts: Sequence[Gaussian],
        k: int = 10,
        *,
        filter: Filter | None = None,
    ) -> SearchResult:
        """`search` for queries that are encoded already.

        Parameters
        ----------
        queries : sequence of str
            For the result only.
        parts : sequence of Gaussian
            Each encoder's own Gaussians of the queries, as `UEC.encode` returns them.
        k : int
        filter : mapping or callable, optional
        """
        check_k(k)
        store = self.store.snapshot(filter)
        rows = max(1, _BLOCK // max(1, len(store) * (len(parts) + 1)))
        starts = range(0, max(1, len(queries)), rows)
        return joined(
            [
                self._search_block(
                    store,
                    list(queries[start : start + rows]),
                    [part[start : start + rows] for part in parts],
                    k,
                )
                for start in starts
            ]
        )

    def _search_block(
        self, store: Store, queries: list[str], parts: list[Gaussian], k: int
    ) -> SearchResult:
        uec = self.uec
        asked = ask(uec, self.gate, store, parts)
        found = store.search(asked.query, k, beta=uec.beta, mu=asked.similarities)
        judged = judge(uec, self.confidence_model, store, asked, found)
        return SearchResult(
            queries=queries,
            passages=found.passages,
            scores=found.scores,
            mu=found.mu,
            sigma2=found.sigma2,
            relevance=judged.relevance,
            coefficients=asked.coefficients,
            confidence=judged.confidence,
            decisions=judged.decisions,
            exact=found.exact,
            names=uec.names,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save index and ensemble to a folder, atomically.

        Raises
        ------
        FileExistsError
            If `path` is something else than a saved index.
        TypeError
            If metadata cannot be written as JSON.
        """
        from uec_rag.files import write_json, writing
        from uec_rag.saving import write_ensemble

        with writing(path, KIND) as folder:
            (folder / "store").mkdir()
            self.store.snapshot().save(folder / "store")
            (folder / "ensemble").mkdir()
            write_ensemble(self.uec, folder / "ensemble")
            write_json(folder / "index.json", {"fingerprint": self.uec.fingerprint})

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        uec: UEC | None = None,
        *,
        encoders: Mapping[str, EncoderLike] | None = None,
        device: str | None = None,
    ) -> Retriever:
        """Load a saved index.

        Parameters
        ----------
        path : path
        uec : UEC, optional
            The ensemble it was made with; by default the one saved inside is loaded.
        encoders : mapping, optional
            As in `UEC.load`, for encoders that no name brings back.
        device : str, optional
            As in `UEC.load`.

        Raises
        ------
        FileNotFoundError, ValueError
            If the folder is not a whole saved index, or `uec` is not the ensemble it was made with.
        """
        from uec_rag.files import read_json, reading
        from uec_rag.saving import read_ensemble

        folder = reading(path, KIND)
        expected = read_json(folder / "index.json")["fingerprint"]
        if uec is None:
            uec = read_ensemble(folder / "ensemble", encoders or {}, device)
        if uec.fingerprint != expected:
            raise ValueError(
                f"uec: its fingerprint {uec.fingerprint[:12]!r} is not that of the index, "
                f"{expected[:12]!r}: other models, revisions or posterior. Load the index with "
                "its own ensemble (uec=None), or build it again with this one."
            )
        return cls(uec, MemoryStore.load(folder / "store"))


def make_passages(
    texts: Sequence[str],
    ids: Sequence[str] | None,
    metadatas: Sequence[Mapping[str, Any]] | None,
) -> list[Passage]:
    """Check texts, ids and metadata before anything is embedded, and join them.

    Raises
    ------
    TypeError, ValueError
        If a text is empty or not a string, an id comes twice, or the lengths differ.
    """
    checked = check_texts(texts)
    names = [uuid.uuid4().hex for _ in checked] if ids is None else _listed(ids, "ids")
    extra = [{} for _ in checked] if metadatas is None else _mappings(metadatas)
    for name, given in (("ids", names), ("metadatas", extra)):
        if len(given) != len(checked):
            raise ValueError(f"{name}: expected {len(checked)}, one per text, got {len(given)}.")
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"ids: expected non-empty strings, got {name!r}.")
        if name in seen:
            raise ValueError(f"ids: {name!r} is given twice; expected distinct ids in one call.")
        seen.add(name)
    return [
        Passage(name, text, metadata)
        for name, text, metadata in zip(names, checked, extra, strict=True)
    ]


def check_k(k: int) -> None:
    """Raise unless k is an integer of at least 1."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise TypeError(f"k: expected an integer, got {k!r}.")
    if k < 1:
        raise ValueError(f"k: expected an integer >= 1, got {k}.")


def _listed(ids: Sequence[str], name: str) -> list[str]:
    if isinstance(ids, str):
        raise TypeError(f"{name}: expected a list of strings, got one string {ids!r}.")
    return list(ids)


def _mappings(metadatas: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(metadatas, Mapping):
        raise TypeError(
            "metadatas: expected a list of mappings, one per text, got one mapping; "
            "write [metadata] for a single text."
        )
    given = list(metadatas)
    for index, metadata in enumerate(given):
        if metadata is not None and not isinstance(metadata, Mapping):
            raise TypeError(
                f"metadatas[{index}]: expected a mapping, got {type(metadata).__name__}."
            )
    return [dict(metadata or {}) for metadata in given]
