"""What people would use otherwise: a cutoff of a score, chosen in hindsight, beside confidence.

    python -m benchmarks.quality.baselines FOLDER

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

import numpy as np
import typer

from benchmarks.quality.first_week import corpora_of
from benchmarks.quality.shared import (
    Manuals,
    expected_texts,
    has_any,
    index_of,
    read_tables,
    shipped,
)
from benchmarks.tables import print_table
from uec_rag.confidence.model import JUDGED
from uec_rag.evaluation.simpler import baselines, search_by_each_member
from uec_rag.retrieval.labelled import confidence_at

_DEPTH = 100  # hits of each member that are fused


def main(folder: Manuals) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    rows = [row for row in read_tables("first_week", "own_words") if row["kind"] != "ambiguous"]
    uec, found, sizes = shipped(), [], []
    for name, passages in corpora_of(folder).items():
        index = index_of(uec, passages)
        some = [row for row in rows if row["documents"] == name]
        queries = [row["question"] for row in some]
        members = search_by_each_member(index, queries, _DEPTH)
        result = index.search(queries)
        relevant = [
            {one.id for one in passages if has_any(one, texts)}
            for texts in map(expected_texts, some)
        ]
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
    print_table(
        "Decisions by scores", [f"{sum(sizes)} questions", "right", "wrong", "AUROC"], table
    )


if __name__ == "__main__":
    typer.run(main)
