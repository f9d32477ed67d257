"""Test sets in one folder layout each: retrieval collections, scored pairs, translations, classes.

A collection is a folder with ``corpus.jsonl.gz`` ({"_id", "title", "text"}), ``queries.jsonl.gz``
({"_id", "text"}) and ``qrels.tsv`` (a header, then query-id, corpus-id, score), with
``qrels.<split>.tsv`` for further splits. A pair set has ``pairs.jsonl.gz`` ({"split", "sentence1",
"sentence2", and "score" or "label", perhaps "lang"}); a text set ``data.jsonl.gz`` ({"text",
"label", "split"}).
"""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray


@dataclass(frozen=True)
class Collection:
    """A retrieval test collection; blank passages and unjudged queries are left out.

    Attributes
    ----------
    name : str
    passages : dict
        Passage id -> title and text.
    queries : dict
        Query id -> text, for the queries with a relevant passage.
    relevant : dict
        Query id -> passage id -> gain, a positive integer.
    """

    name: str
    passages: dict[str, str]
    queries: dict[str, str]
    relevant: dict[str, dict[str, int]]

    def pairs(self) -> list[tuple[str, str]]:
        """(query, relevant passage) texts, for fitting."""
        return [
            (text, self.passages[passage])
            for query, text in self.queries.items()
            for passage in self.relevant[query]
        ]


def load_collection(folder: str | os.PathLike[str], split: str | None = None) -> Collection:
    """Read a collection.

    Parameters
    ----------
    folder : path
    split : str, optional
        Which ``qrels.<split>.tsv``; ``qrels.tsv`` by default.

    Raises
    ------
    FileNotFoundError
        If a file is not there.
    ValueError
        If no query has a relevant passage.
    """
    root = Path(folder)
    qrels = root / ("qrels.tsv" if split is None else f"qrels.{split}.tsv")
    for file in (root / "corpus.jsonl.gz", root / "queries.jsonl.gz", qrels):
        if not file.is_file():
            raise FileNotFoundError(f"folder: expected {file.name} in {str(root)!r}.")
    passages = {
        str(row["_id"]): text
        for row in read_rows(root / "corpus.jsonl.gz")
        if (text := f"{row.get('title') or ''} {row['text']}".strip())
    }
    queries = {
        str(row["_id"]): row["text"]
        for row in read_rows(root / "queries.jsonl.gz")
        if row["text"].strip()
    }
    relevant: dict[str, dict[str, int]] = {}
    for query, passage, gain in read_gains(qrels):
        if gain > 0 and query in queries and passage in passages:
            relevant.setdefault(query, {})[passage] = max(1, round(gain))
    if not relevant:
        raise ValueError(f"folder: {str(qrels)!r} names no query with a relevant passage.")
    judged = {query: text for query, text in queries.items() if query in relevant}
    return Collection(root.name, passages, judged, relevant)


def read_gains(qrels: Path) -> Iterator[tuple[str, str, float]]:
    """Query, passage and gain of each line of judgements but its head."""
    with qrels.open(encoding="utf-8", newline="") as lines:
        reader = csv.reader(lines, delimiter="\t")
        next(reader, None)
        for query, passage, gain, *_ in reader:
            yield query, passage, float(gain)


def sample_collection(collection: Collection, queries: int, passages: int) -> Collection:
    """Draw a smaller collection: some queries, their relevant passages, and random others.

    Parameters
    ----------
    collection : Collection
    queries : int
        At most so many queries.
    passages : int
        So many passages at most, yet all that are relevant to the queries drawn.

    Returns
    -------
    Collection
        Itself where it is small enough already.
    """
    if len(collection.queries) <= queries and len(collection.passages) <= passages:
        return collection
    rng = np.random.default_rng(0)
    names = list(collection.queries)
    drawn = sorted(rng.permutation(len(names))[:queries])
    chosen = {names[index]: collection.queries[names[index]] for index in drawn}
    relevant = {query: collection.relevant[query] for query in chosen}
    kept = {passage for gains in relevant.values() for passage in gains}
    others = [passage for passage in collection.passages if passage not in kept]
    room = max(0, passages - len(kept))
    kept |= {others[index] for index in rng.permutation(len(others))[:room]}
    texts = {passage: text for passage, text in collection.passages.items() if passage in kept}
    return Collection(collection.name, texts, chosen, relevant)


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Read gzipped JSON lines."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


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


@dataclass(frozen=True, eq=False)
class ScoredPairs(Bitext):
    """Pairs of sentences, and a similarity between 0 and 1 of each: an array of shape (n,)."""

    scores: FloatArray


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
    folder: str | os.PathLike[str], split: str = "test", *, limit: int | None = None
) -> ScoredPairs:
    """Read a similarity set; its scores are brought to 0-1 by the largest in the file.

    Parameters
    ----------
    folder : path
    split : str
    limit : int, optional
        Take a random sample of so many pairs.

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
    some = _sample(_of_split(rows, folder, split, "score"), limit)
    return ScoredPairs(
        Path(folder).name,
        [str(row["sentence1"]) for row in some],
        [str(row["sentence2"]) for row in some],
        np.array([float(str(row["score"])) / unit for row in some], dtype=np.float32),
    )


def load_bitext(
    folder: str | os.PathLike[str], language: str, split: str = "test", *, limit: int | None = None
) -> Bitext:
    """Read the translations from one language; arguments and errors as `load_scored_pairs`."""
    rows = _of_split(
        _rows(folder, "pairs.jsonl.gz"), folder, split, "lang", lambda row: row["lang"] == language
    )
    some = _sample(rows, limit)
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
) -> LabelledTexts:
    """Read texts with a class, each text once.

    Parameters
    ----------
    folder, split, limit
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
    some = _sample(distinct, limit)
    if per_label is not None:
        shuffled = _sample(distinct, len(distinct))
        taken: dict[str, list[dict[str, object]]] = {}
        for row in shuffled:
            taken.setdefault(str(row["label"]), []).append(row)
        some = [row for rows_ in taken.values() for row in rows_[:per_label]]
    return LabelledTexts(
        Path(folder).name, [str(row["text"]) for row in some], [str(row["label"]) for row in some]
    )


def load_positive_pairs(
    folder: str | os.PathLike[str],
    split: str,
    label: object = "entailment",
    *,
    limit: int | None = None,
) -> list[tuple[str, str]]:
    """Read the sentence pairs of one label, for fitting: entailments, or query and passage.

    Parameters and errors as in `load_scored_pairs`.
    """
    rows = _of_split(
        _rows(folder, "pairs.jsonl.gz"), folder, split, "label", lambda row: row["label"] == label
    )
    return [
        (str(row["sentence1"]), str(row["sentence2"]))
        for row in _sample(rows, limit)
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


def _sample(rows: list[dict[str, object]], limit: int | None) -> list[dict[str, object]]:
    if limit is None or limit > len(rows):
        return rows
    chosen: NDArray[np.int64] = np.random.default_rng(0).permutation(len(rows))[:limit]
    return [rows[index] for index in chosen]
