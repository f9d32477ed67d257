"""A corpus to time searches on: clustered unit vectors under a really fitted ensemble."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from pathlib import Path

import numpy as np

from uec_rag import UEC, Gaussian, Retriever
from uec_rag.base.records import cached_property
from uec_rag.encoders import Encoded
from uec_rag.stores import Passage

WIDTH = 384
K = 10
_CENTRES = 2000
_BLOCK = 10_000
_SPREAD = 0.8  # of a passage around its cluster's centre, over the centre's own length


class Corpus:
    """Passages and queries by number, as unit vectors of several encoders of 384 dimensions.

    Passages lie around cluster centres; query i asks for passage i, and is off by about `noise`:
    with the default its passage stands far out, with 8 it competes with others of its cluster.
    """

    def __init__(self, encoders: int, noise: float = 0.7) -> None:
        self.encoders = encoders
        self.noise = noise

    def _vectors(self, encoder: int, numbers: Sequence[int], role: str) -> np.ndarray:
        """The vectors of texts by number; the same number gives the same vector each time."""
        blocks = []
        numbers = np.asarray(numbers)
        for block in np.unique(numbers // 1000):  # drawn by the thousand, for speed
            rng = np.random.default_rng([encoder, int(block)])
            centres = self._centres[encoder][rng.integers(_CENTRES, size=1000)]
            passages = centres + _SPREAD * rng.standard_normal((1000, WIDTH), dtype=np.float32)
            if role == "query":
                passages += self._noise(rng) * rng.standard_normal((1000, WIDTH), dtype=np.float32)
            blocks.append(passages[numbers[numbers // 1000 == block] % 1000])
        vectors = np.concatenate(blocks)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def _noise(self, rng: np.random.Generator) -> np.ndarray:
        """How far off each query is to one encoder: the others may understand it better."""
        return np.float32(self.noise) * rng.lognormal(0.0, 0.5, (1000, 1)).astype(np.float32)

    @cached_property
    def _centres(self) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        return [
            rng.standard_normal((_CENTRES, WIDTH), dtype=np.float32) for _ in range(self.encoders)
        ]

    @cached_property
    def uec(self) -> UEC:
        """The ensemble, fitted on queries and passages that are not in the corpus."""

        def encoder(number):
            def embed(texts):
                role = "query" if texts[0].startswith("q") else "passage"
                digits = [text[1:] for text in texts]  # none in texts that a fit is known by
                return self._vectors(number, [int(d) if d.isdigit() else 0 for d in digits], role)

            embed.__name__ = f"encoder{number}"
            return embed

        uec = UEC([encoder(i) for i in range(self.encoders)])
        beyond = 10**9
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return uec.fit([(f"q{i}", f"p{i}") for i in range(beyond, beyond + 400)])

    def use(self, path: Path) -> None:
        """Take the ensemble that is saved there, or save this one's there: fits differ a little."""
        if path.exists():
            named = dict(zip(self.uec.names, self.uec.encoders, strict=True))
            self.uec = UEC.load(path, encoders=named)
        else:
            self.uec.save(path)

    def _encodings(self, numbers: range, role: str) -> list[Encoded]:
        vectors = [self._vectors(i, numbers, role) for i in range(self.encoders)]
        return [Encoded(v, v) for v in vectors]

    def passages(self, start: int, stop: int) -> list[Encoded]:
        """What each encoder makes of some passages."""
        return self._encodings(range(start, stop), "passage")

    def fill(self, index: Retriever, count: int, text: str = "") -> None:
        """Add the first passages to an index."""
        for start in range(0, count, _BLOCK):
            rows = range(start, min(count, start + _BLOCK))
            passages = [Passage(str(row), f"{row}{text}") for row in rows]
            index.add_encoded(passages, self.passages(rows.start, rows.stop))

    def queries(self, count: int) -> list[Gaussian]:
        """Each encoder's Gaussians of the first queries."""
        return self.uec.fitted.gaussians(self._encodings(range(count), "query"))


def with_encodings(
    retriever: Retriever, texts: Sequence[str], parts: Sequence[Gaussian]
) -> Retriever:
    """A view of an index whose ensemble knows the Gaussians of these texts, so runs no model."""
    rows = {text: row for row, text in enumerate(texts)}
    view = retriever.snapshot()
    view.uec = copy(retriever.uec)
    vars(view.uec)["encode"] = lambda asked, *_, **__: [
        part[[rows[text] for text in asked]] for part in parts
    ]
    return view
