"""How far two encoders span the same subspace: canonical correlations (paper table 8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.analyses.base import Result
from benchmarks.paper.plan import Group
from benchmarks.paper.results import Json, markdown, paper_rows
from uec_rag.base.gaussian import FloatArray

Floats = NDArray[np.float64]
_TEXTS = 4000


def run(groups: Sequence[Group], name: str) -> Json:
    """Compare the encoders of one group, pair by pair, on the passages of its plan."""
    group = next(group for group in groups if group.name == name)
    texts = group.plan.texts()["passage"][:_TEXTS]
    embedded = [(e.name, e.encode(texts, "passage").embedding) for e in group.lineup.encoders]
    return {
        "texts": len(texts),
        "rows": [
            {"pair": [first, second], **asdict(subspace_overlap(x, y))}
            for (first, x), (second, y) in combinations(embedded, 2)
        ],
    }


def section(result: Result, path: Path) -> Iterator[str]:
    """Write a table."""
    paper = ", ".join(
        f"{pair.replace(' / ', '/')} {value}" for pair, (value,) in paper_rows("overlap").items()
    )
    yield (
        f"Mean canonical correlation over {result['texts']:,} passages (paper table 8: {paper}). "
        "Found and measured on the same texts it nears 100 % whenever there are few texts for the "
        "dimensions, whatever the models (see the second encoder's texts shuffled); on held-out "
        "texts it says what two models share."
    )
    yield markdown(
        ["Pair", "same texts", "same texts, shuffled", "held-out texts"],
        [
            [
                " / ".join(row["pair"]),
                *(f"{100 * row[key]:.1f}" for key in ("fitted", "chance", "held_out")),
            ]
            for row in result["rows"]
        ],
    )


@dataclass(frozen=True)
class Overlap:
    """Mean canonical correlations of two encoders' embeddings of the same texts.

    Attributes
    ----------
    fitted : float
        On the texts it was computed from. With no more texts than the dimensions of both together
        it is 1 for any two sets of vectors, so it says little by itself.
    chance : float
        The same with the second encoder's rows shuffled: what `fitted` would be by chance.
    held_out : float
        Correlation, on the other half of the texts, along the directions found on the first half.
    texts, components : int
        Number of texts, and of canonical directions.
    """

    fitted: float
    chance: float
    held_out: float
    texts: int
    components: int


def subspace_overlap(first: FloatArray, second: FloatArray, seed: int = 0) -> Overlap:
    """Compare two encoders' embeddings of the same texts (Hotelling, 1936).

    Parameters
    ----------
    first, second : array, shapes (n, d) and (n, d')
        Row i of both embeds text i.
    seed : int
        Of the shuffle and the split.

    Raises
    ------
    ValueError
        If the numbers of texts differ or are fewer than 8.
    """
    if len(first) != len(second) or len(first) < 8:
        raise ValueError(
            "second: expected as many rows as first, at least 8, "
            f"got {len(second)} for {len(first)}."
        )
    a, b = first.astype(np.float64), second.astype(np.float64)
    order = np.random.default_rng(seed).permutation(len(a))
    half = len(a) // 2
    train, test = order[:half], order[half:]
    weights_a, weights_b, _ = _canonical(a[train], b[train])
    along = [
        _standard((x[test] - x[train].mean(axis=0)) @ w)
        for x, w in ((a, weights_a), (b, weights_b))
    ]
    correlations = _canonical(a, b)[2]
    return Overlap(
        fitted=float(correlations.mean()),
        chance=float(_canonical(a, b[order])[2].mean()),
        held_out=float((along[0] * along[1]).mean(axis=0).mean()),
        texts=len(a),
        components=len(correlations),
    )


def _canonical(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
    """Canonical weights of both sides and the correlations, largest first.

    Whitening by the singular value decomposition, then that of the whitened sides' product
    (Bjorck and Golub, 1973).
    """
    white_a, root_a = _whiten(a)
    white_b, root_b = _whiten(b)
    left, correlations, right = np.linalg.svd(white_a.T @ white_b, full_matrices=False)
    return root_a @ left, root_b @ right.T, np.clip(correlations, 0, 1)


def _whiten(x: Floats) -> tuple[Floats, Floats]:
    """Orthonormal columns that span the centred x, and the map (d, r) that leads there."""
    left, values, right = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    rank = int((values > 1e-8 * values[0]).sum())
    return left[:, :rank], right[:rank].T / values[:rank]


def _standard(x: Floats) -> Floats:
    centred = x - x.mean(axis=0)
    return centred / np.maximum(centred.std(axis=0), 1e-12)
