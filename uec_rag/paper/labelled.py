"""Labelled text sets in one folder layout: scored pairs, translations, texts with a class.

A pair set is a folder with ``pairs.jsonl.gz`` ({"split", "sentence1", "sentence2", and "score" or
"label", perhaps "lang"}); a text set one with ``data.jsonl.gz`` ({"text", "label", "split"}).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.paper.collections import read_rows


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Pairs of sentences with a similarity between 0 and 1.

    Attributes
    ----------
    name : str
    first, second : list of str
    scores : array, shape (n,)
    """

    name: str
    first: list[str]
    second: list[str]
    scores: FloatArray


@dataclass(frozen=True)
class Bitext:
    """Sentences and their translations, row by row.

    Attributes
    ----------
    name : str
    first, second : list of str
    """

    name: str
    first: list[str]
    second: list[str]


@dataclass(frozen=True)
class LabelledTexts:
    """Texts with a class each.

    Attributes
    ----------
    name : str
    texts : list of str
    labels : list of str
    """

    name: str
    texts: list[str]
    labels: list[str]


def load_scored_pairs(
    folder: str | os.PathLike[str], split: str = "test", *, limit: int | None = None, seed: int = 0
) -> ScoredPairs:
    """Read a similarity set; its scores are brought to 0-1 by the largest in the file.

    Parameters
    ----------
    folder : path
    split : str
    limit : int, optional
        Take a random sample of so many pairs.
    seed : int
        Of the sample.

    Raises
    ------
    FileNotFoundError
        If there is no such set.
    ValueError
        If the split holds no scored pair.
    """
    rows = _rows(folder, "pairs.jsonl.gz")
    top = max((float(str(row["score"])) for row in rows if "score" in row), default=1.0)
    # Scales start at 0; a largest score of 1 or below is on 0-1 already.
    unit = top if top > 1 else 1.0
    some = _sample(_of_split(rows, folder, split, "score"), limit, seed)
    return ScoredPairs(
        Path(folder).name,
        [str(row["sentence1"]) for row in some],
        [str(row["sentence2"]) for row in some],
        np.array([float(str(row["score"])) / unit for row in some], dtype=np.float32),
    )


def load_bitext(
    folder: str | os.PathLike[str],
    language: str,
    split: str = "test",
    *,
    limit: int | None = None,
    seed: int = 0,
) -> Bitext:
    """Read the translations from one language; arguments and errors as `load_scored_pairs`."""
    rows = _of_split(
        _rows(folder, "pairs.jsonl.gz"), folder, split, "lang", lambda row: row["lang"] == language
    )
    some = _sample(rows, limit, seed)
    return Bitext(
        f"{Path(folder).name}_{language}",
        [str(row["sentence1"]) for row in some],
        [str(row["sentence2"]) for row in some],
    )


def load_labelled_texts(
    folder: str | os.PathLike[str],
    split: str,
    *,
    limit: int | None = None,
    per_label: int | None = None,
    seed: int = 0,
) -> LabelledTexts:
    """Read texts with a class, each text once.

    Parameters
    ----------
    folder, split, limit, seed
        As in `load_scored_pairs`.
    per_label : int, optional
        Take at most so many of each class.

    Raises
    ------
    FileNotFoundError, ValueError
        As `load_scored_pairs`.
    """
    rows = _of_split(_rows(folder, "data.jsonl.gz"), folder, split, "label")
    distinct = list({str(row["text"]): row for row in rows if str(row["text"]).strip()}.values())
    some = _sample(distinct, limit, seed)
    if per_label is not None:
        shuffled = _sample(distinct, len(distinct), seed)
        taken: dict[str, list[dict[str, object]]] = {}
        for row in shuffled:
            taken.setdefault(str(row["label"]), []).append(row)
        some = [row for rows_ in taken.values() for row in rows_[:per_label]]
    return LabelledTexts(
        Path(folder).name,
        [str(row["text"]) for row in some],
        [str(row["label"]) for row in some],
    )


def load_positive_pairs(
    folder: str | os.PathLike[str],
    split: str,
    label: object = "entailment",
    *,
    limit: int | None = None,
    seed: int = 0,
) -> list[tuple[str, str]]:
    """Read the sentence pairs of one label, for fitting: entailments, or query and passage.

    Parameters and errors as in `load_scored_pairs`.
    """
    rows = _of_split(
        _rows(folder, "pairs.jsonl.gz"), folder, split, "label", lambda row: row["label"] == label
    )
    return [
        (str(row["sentence1"]), str(row["sentence2"]))
        for row in _sample(rows, limit, seed)
        if str(row["sentence1"]).strip() and str(row["sentence2"]).strip()
    ]


def _rows(folder: str | os.PathLike[str], name: str) -> list[dict[str, object]]:
    file = Path(folder) / name
    if not file.is_file():
        raise FileNotFoundError(f"folder: expected {name} in {str(folder)!r}.")
    return read_rows(file)


def _of_split(
    rows: list[dict[str, object]],
    folder: str | os.PathLike[str],
    split: str,
    field: str,
    keep: Callable[[dict[str, object]], bool] = lambda row: True,
) -> list[dict[str, object]]:
    chosen = [row for row in rows if row.get("split") == split and field in row and keep(row)]
    if not chosen:
        splits = sorted({str(row.get("split")) for row in rows})
        raise ValueError(
            f"split: {str(folder)!r} has no rows with a {field!r} that fit in split {split!r}; "
            f"its splits are {splits}."
        )
    return chosen


def _sample(rows: list[dict[str, object]], limit: int | None, seed: int) -> list[dict[str, object]]:
    if limit is None or limit > len(rows):
        return rows
    chosen: NDArray[np.int64] = np.random.default_rng(seed).permutation(len(rows))[:limit]
    return [rows[index] for index in chosen]
