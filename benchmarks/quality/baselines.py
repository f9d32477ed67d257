"""What people would use otherwise: a cutoff of a score, chosen in hindsight, beside confidence.

    python -m benchmarks.quality.baselines FOLDER [--markdown]

FOLDER is that of `first_week.py`. The questions are its own without the ambiguous ones, and those
in people's own words (`advisor.py`). In each set of documents, every score gets the threshold that
is best for these very labels: each member's similarity, the score of reciprocal rank fusion and of
relative scores, a logistic model of the members' best scores, and confidence. "Confidence above
0.5" has no label. Right is an answer with a relevant passage among the four hits, or none if the
documents have none. Means over the questions; AUROC, of whether the four hits have the answer, over
the sets.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.quality.advisor import OWN_WORDS
from benchmarks.quality.first_hour import has_any
from benchmarks.quality.first_week import QUESTIONS, corpora_of, named, questions_of
from benchmarks.quality.hybrid import shipped
from benchmarks.quality.options import CACHE
from benchmarks.tables import print_table
from uec_rag import Retriever
from uec_rag.confidence.model import JUDGED
from uec_rag.evaluation.simpler import baselines, search_by_each_member
from uec_rag.retrieval.labelled import confidence_at
from uec_rag.stores.base import Passage


def labels_of(row: dict[str, str], passages: list[Passage]) -> set[str]:
    """The ids of the passages that have a text that the list names."""
    texts = [text.strip() for text in row["passage"].split("|") if text.strip()]
    return {one.id for one in passages if texts and has_any(named(one), texts)}


def main(
    folder: Annotated[Path, typer.Argument(help="With folders git, debian and so on.")],
    depth: Annotated[int, typer.Option(help="Hits of each member that are fused.")] = 100,
    markdown: Annotated[bool, typer.Option(help="Print as Markdown.")] = False,
) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    rows = [row for row in questions_of(QUESTIONS, OWN_WORDS) if row["kind"] != "ambiguous"]
    uec, found, sizes = shipped(CACHE), [], []
    for name, passages in corpora_of(folder).items():
        index = Retriever(uec)
        index.add(
            [p.text for p in passages], [p.id for p in passages], [p.metadata for p in passages]
        )
        some = [row for row in rows if row["documents"] == name]
        queries = [row["question"] for row in some]
        members = search_by_each_member(index, queries, depth)
        result = index.search(queries)
        relevant = [labels_of(row, passages) for row in some]
        found.append(baselines(members, result, confidence_at(result, JUDGED), relevant))
        sizes.append(len(some))
    table = []
    for name in found[0]:
        shares = [
            np.average([one[name][key] for one in found], weights=sizes)
            for key in ("right", "wrong")
        ]
        auroc = np.mean([one[name]["auroc"] for one in found])
        table.append([name, *(f"{share:.3f}" for share in shares), f"{auroc:.3f}"])
    header = [f"{sum(sizes)} questions", "right", "wrong", "AUROC"]
    print_table("Decisions by scores", header, table, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
