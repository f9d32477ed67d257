"""A tiny data folder that the project writes itself: for a quick run that shows everything works.

Sentences about a handful of subjects are put together from word lists, so that related texts share
a subject and words, in one retrieval collection, fitting pairs, a classification, a clustering, a
similarity set, a bitext of two wordings, and a reranking. Its figures mean nothing.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from uec_rag.base.files import read_json

_WORDS = read_json(Path(__file__).parent / "tiny.json")
FIT, PROXY = "tiny_fit", "tiny_pairs:train"
SETS = (
    "tiny_search",
    "tiny_rerank",
    "tiny_subjects",
    "tiny_clusters",
    "tiny_similarity",
    "tiny_bitext:old",
)


def write_tiny(folder: Path, seed: int = 0) -> None:
    """Write the sets, in the layout that `make_plan` reads.

    Parameters
    ----------
    folder : path
        Made if missing.
    seed : int
    """
    rng = np.random.default_rng(seed)
    facts = [
        (subject, thing, when, care)
        for subject, things in _WORDS["subjects"].items()
        for thing in things
        for when, cares in _WORDS["care"].items()
        for care in [str(rng.choice(cares))]
    ]
    passages = [f"The {thing} {care} {when}." for _, thing, when, care in facts]
    # Half of the questions do not name the thing: some have to fail.
    queries = [
        f"What about the {thing} {when}?" if index % 2 else f"In the {subject}, what {care} {when}?"
        for index, (subject, thing, when, care) in enumerate(facts)
    ]
    answers: dict[str, list[int]] = {}
    for index, query in enumerate(queries):
        answers.setdefault(query, []).append(index)
    asked = rng.permutation(list(answers)).tolist()
    fit, test = (
        {query: dict.fromkeys(answers[query], 1) for query in part}
        for part in (asked[::2], asked[1::2])
    )
    _write_collection(folder / FIT, passages, fit)
    _write_collection(folder / "tiny_search", passages, test)
    judged = {
        query: dict.fromkeys(rng.choice(len(passages), 9).tolist(), 0) | gains
        for query, gains in list(test.items())[:20]
    }
    _write_collection(folder / "tiny_rerank", passages, judged)
    _write_lines(
        folder / PROXY.partition(":")[0] / "pairs.jsonl.gz",
        (
            {"split": "train", "sentence1": query, "sentence2": passages[i], "label": 1}
            for query, gains in test.items()
            for i in gains
        ),
    )
    _write_labelled(folder, facts, passages, rng)
    _write_lines(
        folder / "tiny_bitext" / "pairs.jsonl.gz",
        (
            {"split": "test", "lang": "old", "sentence1": query, "sentence2": passages[min(gains)]}
            for query, gains in test.items()
        ),
    )


def _write_labelled(
    folder: Path,
    facts: list[tuple[str, str, str, str]],
    passages: list[str],
    rng: np.random.Generator,
) -> None:
    """Write the sets for classification, clustering and similarity."""
    order = rng.permutation(len(facts))
    labelled = [{"text": passages[i], "label": facts[i][0]} for i in order.tolist()]
    splits = ["train" if index % 2 else "test" for index in range(len(labelled))]
    _write_lines(
        folder / "tiny_subjects" / "data.jsonl.gz",
        ({**row, "split": split} for row, split in zip(labelled, splits, strict=True)),
    )
    _write_lines(
        folder / "tiny_clusters" / "data.jsonl.gz", ({**row, "split": "all"} for row in labelled)
    )
    second = rng.permutation(len(facts)).tolist()
    _write_lines(
        folder / "tiny_similarity" / "pairs.jsonl.gz",
        (
            {
                "split": "test",
                "sentence1": passages[i],
                "sentence2": passages[j],
                "score": sum(a == b for a, b in zip(facts[i], facts[j], strict=True)) / 4,
            }
            for i, j in zip(order.tolist(), second, strict=True)
        ),
    )


def _write_collection(
    folder: Path, passages: list[str], judged: Mapping[str, Mapping[int, int]]
) -> None:
    _write_lines(
        folder / "corpus.jsonl.gz",
        ({"_id": f"p{i}", "title": "", "text": text} for i, text in enumerate(passages)),
    )
    _write_lines(
        folder / "queries.jsonl.gz",
        ({"_id": f"q{i}", "text": text} for i, text in enumerate(judged)),
    )
    lines = ["query-id\tcorpus-id\tscore"]
    for i, gains in enumerate(judged.values()):
        lines += [f"q{i}\tp{passage}\t{gain}" for passage, gain in gains.items()]
    (folder / "qrels.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_lines(file: Path, rows: Iterable[Mapping[str, object]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(file, "wt", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(row) + "\n")
