"""Test collections in one folder layout.

A collection is a folder with ``corpus.jsonl.gz`` ({"_id", "title", "text"}), ``queries.jsonl.gz``
({"_id", "text"}) and ``qrels.tsv`` (a header, then query-id, corpus-id, score), with
``qrels.<split>.tsv`` for further splits.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


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
    with qrels.open(encoding="utf-8", newline="") as lines:
        reader = csv.reader(lines, delimiter="\t")
        next(reader, None)
        for query, passage, gain, *_ in reader:
            if float(gain) > 0 and query in queries and passage in passages:
                relevant.setdefault(query, {})[passage] = max(1, round(float(gain)))
    if not relevant:
        raise ValueError(f"folder: {str(qrels)!r} names no query with a relevant passage.")
    judged = {query: text for query, text in queries.items() if query in relevant}
    return Collection(root.name, passages, judged, relevant)


def sample_collection(
    collection: Collection, queries: int, passages: int, seed: int = 0
) -> Collection:
    """Draw a smaller collection: some queries, their relevant passages, and random others.

    Parameters
    ----------
    collection : Collection
    queries : int
        At most so many queries.
    passages : int
        So many passages at most, yet all that are relevant to the queries drawn.
    seed : int

    Returns
    -------
    Collection
        Itself where it is small enough already.
    """
    if len(collection.queries) <= queries and len(collection.passages) <= passages:
        return collection
    rng = np.random.default_rng(seed)
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
