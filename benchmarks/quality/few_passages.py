"""What a filter that leaves few passages does to confidence, on the twelve manuals.

    python -m benchmarks.quality.few_passages MANUALS

Each question is searched among two, three, four or eight consecutive passages: around the first hit
of all, and drawn at random. An answer is right if one of the hits has the passage.
"""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from sklearn.metrics import roc_auc_score

from benchmarks.quality.advisor import OWN_WORDS
from benchmarks.quality.first_hour import has_any
from benchmarks.quality.first_week import QUESTIONS, corpora_of, named, questions_of
from benchmarks.quality.hybrid import shipped
from benchmarks.quality.options import CACHE
from benchmarks.tables import print_table
from uec_rag import Retriever

SIZES = (2, 3, 4, 8)


def main(
    folder: Annotated[Path, typer.Argument(metavar="MANUALS", help="Folder of the manuals.")],
    markdown: Annotated[bool, typer.Option(help="Print as Markdown.")] = False,
) -> None:
    """Print how often is answered, by where the passages are."""
    warnings.simplefilter("ignore")
    uec, rng = shipped(CACHE), random.Random(0)
    told: dict[str, list[tuple[bool, float, bool]]] = {"all passages": [], "around the first": []}
    told["at random"] = []
    rows = questions_of(QUESTIONS, OWN_WORDS)
    for name, passages in corpora_of(folder).items():
        index = Retriever(uec, fit=False)
        ids = index.add(
            [p.text for p in passages], [p.id for p in passages], [p.metadata for p in passages]
        )
        for row in (row for row in rows if row["documents"] == name):
            expected = [text.strip() for text in row["passage"].split("|") if text.strip()]
            [first] = index.search([row["question"]])
            size = rng.choice(SIZES)
            for where in told:
                [result], most = [first], len(ids) - size
                if where != "all passages":
                    near = ids.index(first.ids[0]) - rng.randrange(size)
                    start = rng.randrange(most) if where == "at random" else min(max(near, 0), most)
                    some = {"$id": ids[start : start + size]}
                    [result] = index.search([row["question"]], filter=some)
                right = bool(expected) and any(has_any(named(p), expected) for p in result.passages)
                decision = result.decision
                told[where].append((right, decision.confidence, decision.action == "answer"))
    table = []
    for where, each in told.items():
        there, sure, is_answered = map(np.array, zip(*each, strict=True))
        shares = [is_answered[there].mean(), is_answered[~there].mean()]
        auroc = roc_auc_score(there, sure)
        table.append([where, f"{there.mean():.3f}", *(f"{x:.3f}" for x in (*shares, auroc))])
    columns = ["searched", "have the passage", "of these answered", "of others answered", "AUROC"]
    print_table("Filters that leave few passages", columns, table, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
