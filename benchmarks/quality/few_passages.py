"""What a filter that leaves few passages does to confidence, on the twelve manuals.

    python -m benchmarks.quality.few_passages MANUALS

Each question is searched among two, three, four or eight consecutive passages: around the first hit
of all, and drawn at random. An answer is right if one of the hits has the passage.
"""

from __future__ import annotations

import random

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.quality.first_week import corpora_of
from benchmarks.quality.shared import Manuals, index_of, is_found, read_tables, shipped
from benchmarks.tables import print_table, run_script

SIZES = (2, 3, 4, 8)


def main(folder: Manuals) -> None:
    """Print how often is answered, by where the passages are."""
    uec, rng = shipped(), random.Random(0)
    told: dict[str, list[tuple[bool, float, bool]]] = {"all passages": [], "around the first": []}
    told["at random"] = []
    rows = read_tables("first_week", "own_words")
    for name, passages in corpora_of(folder).items():
        index, ids = index_of(uec, passages), [passage.id for passage in passages]
        for row in (row for row in rows if row["documents"] == name):
            [first] = index.search([row["question"]])
            size = rng.choice(SIZES)
            for where in told:
                [result], most = [first], len(ids) - size
                if where != "all passages":
                    near = ids.index(first.ids[0]) - rng.randrange(size)
                    start = rng.randrange(most) if where == "at random" else min(max(near, 0), most)
                    some = {"$id": ids[start : start + size]}
                    [result] = index.search([row["question"]], filter=some)
                decision = result.decision
                is_answered = decision.action == "answer"
                told[where].append((is_found(row, result), decision.confidence, is_answered))
    table = []
    for where, each in told.items():
        there, sure, is_answered = map(np.array, zip(*each, strict=True))
        shares = [is_answered[there].mean(), is_answered[~there].mean()]
        auroc = roc_auc_score(there, sure)
        table.append([where, f"{there.mean():.3f}", *(f"{x:.3f}" for x in (*shares, auroc))])
    columns = ["searched", "have the passage", "of these answered", "of others answered", "AUROC"]
    print_table("Filters that leave few passages", columns, table)


if __name__ == "__main__":
    run_script(main)
