"""What another tenant's documents do to decisions, and what hits usually have as logits.

    python -m benchmarks.quality.tenants MANUALS
    python -m benchmarks.quality.tenants MANUALS --profiles

A tenant has some consecutive passages of a manual, around the first hit of a question in all of it.
Its questions are asked before and after another tenant's passages come in: those of the next
manual, with a filter on the tenant, and with `tenant=`; the index had only its passages before, or
those of a third tenant, too. With `--profiles`, the profiles are printed
that `confidence/shipped.json` has: the mean logits of the first 30 hits of the questions to all
manuals, divided by the temperature; of "words" and "fitted", and of "unfitted". That of
"multilingual" is measured on the smallest manual alone, and moved by as much as that of "words"
differs there from its own of all manuals.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from unittest.mock import patch

import numpy as np
import typer

from benchmarks.quality.first_week import corpora_of
from benchmarks.quality.shared import Manuals, cached, index_of, is_found, read_tables, shipped
from benchmarks.tables import print_table, run_script
from uec_rag import UEC
from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.model import NEAREST, shipped_model
from uec_rag.encoders import load_encoder
from uec_rag.retrieval import rankings
from uec_rag.retrieval.results import Result
from uec_rag.stores.passage import Passage

SIZES = (4, 20, 200)
MOST = 6  # questions to a manual
OTHERS = 300  # passages of the other tenant
THIRD = (0, 100)  # passages of a third one, which are there before


def pairs_of(
    corpora: Mapping[str, Sequence[Passage]], most: int
) -> Iterator[tuple[str, Sequence[Passage], list[dict[str, str]]]]:
    """Each manual with its passages and some of its questions."""
    rows = read_tables("first_week", "own_words")
    for name, passages in corpora.items():
        own = [row for row in rows if row["documents"] == name]
        yield name, passages, random.Random(0).sample(own, min(most, len(own)))


def profile(uec: UEC, corpora: Mapping[str, Sequence[Passage]], most: int) -> FloatArray:
    """The mean logits of the first hits of questions, divided by the temperature."""
    model, found = uec.fitted.confidence_model or shipped_model("unfitted"), list[FloatArray]()
    features = rankings.features

    def note(logits: FloatArray, *others: object) -> object:
        found.append(logits[0, :NEAREST])
        return features(logits, *others)

    with patch.object(rankings, "features", note):
        for _, passages, rows in pairs_of(corpora, most):
            index = index_of(uec, passages)
            for row in rows:
                index.search([row["question"]])
    whole = [one for one in found if len(one) == NEAREST and np.isfinite(one).all()]
    return np.mean(whole, axis=0) / model.temperature


def main(folder: Manuals, profiles: bool = False) -> None:
    """Print how many decisions another tenant's documents change, or the profiles."""
    corpora = corpora_of(folder)
    if profiles:
        alone = UEC([cached(load_encoder("arctic-embed-s"))])
        small = min(corpora, key=lambda name: len(corpora[name]))
        one = {small: corpora[small]}
        words, unfitted = (profile(uec, corpora, 100) for uec in (shipped(), alone))
        moved = words + profile(shipped("multilingual"), one, 100) - profile(shipped(), one, 100)
        for each in (words, unfitted, moved):
            typer.echo(each.round(2).tolist())
        return
    uec, rng, names = shipped(), random.Random(0), [*corpora]
    ways = {"filter=": "filter", "tenant=": "tenant"}
    told: dict[tuple[str, int, int], list[tuple[Result, Result, bool]]] = {}
    for number, (_, passages, rows) in enumerate(pairs_of(corpora, MOST)):
        others = [corpora[names[(number + step) % len(names)]] for step in (1, 2)]
        theirs, third = ([*one] for one in others)
        rng.shuffle(theirs), rng.shuffle(third)
        every = index_of(uec, passages)
        for row in rows:
            [first] = every.search([row["question"]])
            at = [passage.id for passage in passages].index(first.ids[0])
            for size, there in product(SIZES, THIRD):
                start = max(0, min(at - rng.randrange(size), len(passages) - size))
                mine = passages[start : start + size]
                index = index_of(uec, [*mine, *third[:there]])
                before, ids = dict[str, Result](), [passage.id for passage in mine]
                for way, option in ways.items():
                    options = {option: {"$id": ids}}
                    before[way] = index.search([row["question"]], **options)[0]
                index.add([passage.text for passage in theirs[:OTHERS]])
                for way, option in ways.items():
                    [after] = index.search([row["question"]], **{option: {"$id": ids}})
                    each = before[way], after, is_found(row, after)
                    told.setdefault((way, size, there), []).append(each)
    table = []
    for (way, size, third_), each in sorted(told.items()):
        actions = [(one.decision.action, two.decision.action) for one, two, _ in each]
        moved = [abs(one.decision.confidence - two.decision.confidence) for one, two, _ in each]
        there = np.array([is_there for *_, is_there in each])
        answered = np.array([action == "answer" for _, action in actions])
        shares = answered[there].mean(), answered[~there].mean()
        changed = sum(one != two for one, two in actions)
        row_ = [f"{changed} of {len(each)}", f"{max(moved):.2f}", *(f"{x:.2f}" for x in shares)]
        table.append([way, str(size), str(third_), *row_])
    columns = ["searched with", "passages", "of a third", "decisions changed", "most", "answered"]
    print_table("Another tenant's documents come in", [*columns, "of others"], table)


if __name__ == "__main__":
    run_script(main)
