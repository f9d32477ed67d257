"""Search over another package's vector store, which finds candidates for the ensemble to rank.

Nothing is written to the store. Its candidates for a question are the corpus that is searched: the
ensemble encodes them, and ranks and judges them as it would passages of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import NoReturn, Self

import numpy as np

from uec_rag.base.checks import check_type
from uec_rag.base.gaussian import Gaussian
from uec_rag.encoders.base import TermEncoder
from uec_rag.ensemble.known_vectors import encode, encode_with_vectors
from uec_rag.ensemble.uec import UEC
from uec_rag.stores.base import Filter, Passage
from uec_rag.stores.local import View

Find = Callable[[str], Sequence[Passage]]
"""A search of another package: the candidates for a question, best first."""

Vectors = Callable[[list[str]], Mapping[str, Sequence[float]]]
"""A function from ids to the stored vectors, by id."""


class Candidates:
    """The store of a `Retriever` over a search of another package.

    A question costs one such search (in a conversation, up to three) and, unless they were encoded
    recently, the encoding of the texts that it finds.

    Parameters
    ----------
    uec : UEC
    find : callable
        The search.
    source : str
        What it searches, for messages.
    vectors : callable, optional
        Returns vectors that the first encoder made, which need not be encoded again then.

    Raises
    ------
    TypeError
        If uec is not a UEC.
    """

    remote = True

    def __init__(self, uec: UEC, find: Find, source: str, vectors: Vectors | None = None) -> None:
        check_type(uec, UEC, "uec", "a UEC")
        self._uec, self._find, self._source, self._vectors = uec, find, source, vectors
        self._filter: Filter | None = None

    def __repr__(self) -> str:
        has_vectors = self._vectors is not None
        models = [
            name
            for position, (name, encoder) in enumerate(
                zip(self._uec.names, self._uec.encoders, strict=True)
            )
            if not isinstance(encoder, TermEncoder) and not (has_vectors and position == 0)
        ]
        return f"{self._source}, each encoded by {' and '.join(models) or 'no model'}"

    def __len__(self) -> int:
        """Return 0, since the size of the other store is not known."""
        return 0

    def fetch(self, question: str, query: Gaussian, count: int) -> View:
        """Return the candidates for a question, each once, that match the filter."""
        stored = {passage.id: passage for passage in self._find(question) if passage.text.strip()}
        passages = [*stored.values()]
        if not passages:
            return View.empty()
        if self._vectors is None:
            parts = encode(self._uec, [passage.searched for passage in passages], "passage")
        else:
            vectors = self._vectors([*stored])
            if missing := [id_ for id_ in stored if id_ not in vectors]:
                raise ValueError(
                    f"vectors: expected a mapping with each of the {len(stored)} ids that are "
                    f"asked for, got none for {len(missing)}, first {missing[0]!r}."
                )
            texts = [passage.text for passage in passages]
            parts = encode_with_vectors(self._uec, texts, [vectors[id_] for id_ in stored])
        gaussians = self._uec.fitted.combine_as(parts, "passage")
        return View.from_passages(passages, gaussians).snapshot(self._filter)

    def snapshot(self, filter: Filter | None = None) -> Self:
        """Return a view whose searches keep the candidates that match a filter."""
        view = copy(self)
        view._filter = filter
        return view

    def bind(self, fingerprint: str) -> None:
        """Do nothing: nothing is stored there."""

    def sample(self, count: int) -> Gaussian:
        """Return no Gaussians: candidates are not a sample of the passages."""
        return Gaussian(*np.zeros((2, 0, self._uec.dimension), dtype=np.float32))

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise ValueError(
            "this index is in another package's vector store, which only supplies candidates: "
            "write to that store directly; to calibrate, to diversify or to search by vector, add "
            "its passages to a Retriever with a store of this package."
        )

    add = delete = get = vectors = passages = search = save = _refuse
