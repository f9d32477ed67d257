"""How words are split and weighed, judged on collections that did not choose it.

    python -m benchmarks.quality.tokenizing DATA

nDCG@10 of words alone, which nothing is fitted for, with the tokenizer as it is and with one thing
about it changed at a time. "left out" is what one gets who, for each collection, takes what is best
on average over all others. DATA is a folder of test collections (see `benchmarks.paper.data`),
or set UEC_DATA.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import mean_ndcg
from benchmarks.quality.members import sampled
from benchmarks.quality.options import Data, Markdown, Queries
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever
from uec_rag.encoders import lexical as words

SETS = (
    "cranfield,cisi,medline,fiqa_small,chroma_chunking,claude_docs_rag,belebele_en,squad_sample,"
    "xquad_en,xquad_ru,xquad_zh,xquad_ar,belebele_de,tydiqa_goldp_ar,tydiqa_goldp_ru,drcd_zh_hant"
)
_NEVER = 10**6  # letters that no word has
SETTINGS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "no options of commands": {"_OPTION": re.compile(r"(?!)")},
    "stems alone": {"_PREFIX": _NEVER, "runs": False},
    "no runs": {"runs": False},
    "no beginnings": {"_PREFIX": _NEVER},
    "runs in English, too": {"runs": True},
    "parts weigh .125": {"FRAGMENT_WEIGHT": 0.125},
    "parts weigh .5": {"FRAGMENT_WEIGHT": 0.5},
    "parts weigh 1": {"FRAGMENT_WEIGHT": 1.0},
    "function words weigh 1": {"FUNCTION_WEIGHT": 1.0},
    "function words weigh .5": {"FUNCTION_WEIGHT": 0.5},
    "function words weigh .1": {"FUNCTION_WEIGHT": 0.1},
    "function words weigh 0": {"FUNCTION_WEIGHT": 1e-6},
    "beginnings of 3": {"_PREFIX": 3},
    "beginnings of 5": {"_PREFIX": 5},
    "runs of 3": {"_NGRAM": 3},
    "runs of 5": {"_NGRAM": 5},
    "single characters": {"characters": 1},
    "three characters": {"characters": 3},
}


@contextmanager
def changed(setting: dict[str, Any]) -> Iterator[None]:
    """The tokenizer with something about it changed."""
    setting = dict(setting)
    runs, characters = setting.pop("runs", None), setting.pop("characters", None)
    with ExitStack() as stack:
        if setting:
            stack.enter_context(patch.multiple(words, **setting))
        if runs is not None:
            told = patch.object(words.WordTokenizer, "is_foreign", lambda self, given: runs)
            stack.enter_context(told)
        if characters is not None:
            forms = words._forms

            def others(word: str, runs: bool, language: str) -> Iterator[str]:
                if not words._HAS_SPACELESS.search(word):
                    return forms(word, runs, language)
                last = max(0, len(word) - characters)
                return (word[i : i + characters] for i in range(last + 1))

            stack.enter_context(patch.object(words, "_forms", others))
        words._cached_keys.cache_clear()
        words._cached_labels.cache_clear()
        yield
    words._cached_keys.cache_clear()
    words._cached_labels.cache_clear()


def by_words(collection: Collection) -> float:
    """What words alone find."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        retriever = Retriever(UEC(["bm25"]))
        retriever.add(list(collection.passages.values()), ids=list(collection.passages))
        return mean_ndcg(collection, retriever.search(list(collection.queries.values()), 10).ids)


def left_out(scores: np.ndarray) -> np.ndarray:
    """Of each column what the row scores that is best on average over the others."""
    best = [np.delete(scores, i, axis=1).mean(axis=1).argmax() for i in range(scores.shape[1])]
    return scores[best, np.arange(scores.shape[1])]


def main(
    data: Data,
    sets: Annotated[str, typer.Option(help="Collections, comma-separated.")] = SETS,
    queries: Queries = 200,
    markdown: Markdown = False,
) -> None:
    """Print the table."""
    collections = [sampled(load_collection(data / name), queries) for name in sets.split(",")]
    scores = np.empty((len(SETTINGS), len(collections)))
    for row, (name, setting) in enumerate(SETTINGS.items()):
        with changed(setting):
            scores[row] = [by_words(collection) for collection in collections]
        print(name, scores[row].round(3).tolist(), file=sys.stderr, flush=True)
    rows = [*scores, left_out(scores), scores.max(axis=0)]
    names = [*SETTINGS, "left out", "the best of each"]
    usual = scores[0]
    table = [
        [
            name,
            f"{row.mean():.3f}",
            f"{(row - usual).mean():+.4f}",
            f"{(row - usual).min():+.3f} {sets.split(',')[int((row - usual).argmin())]}",
            f"{(row - usual).max():+.3f} {sets.split(',')[int((row - usual).argmax())]}",
        ]
        for name, row in zip(names, rows, strict=True)
    ]
    header = ["tokenizer", "mean", "over as it is", "least", "most"]
    print_table(f"nDCG@10 over {len(collections)} collections", header, table, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
