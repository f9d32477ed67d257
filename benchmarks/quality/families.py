"""Families of statements alike: which of them is meant is learned, and who reads them gets it.

    python -m benchmarks.quality.families DATA [--write]

Learned is when the first of a family is meant by a word that none of it has ("couch" of a sofa): by
how much it is nearer than the second, and whether it alone has a word like that. Where it is not,
the log odds of what is meant is how often one of the first four answers. The questions are those of
`logic` but `ordinary` and `forms`, on which the result is printed.

Printed is also in how many families of twelve what fits a comparison is among four and eight hits.
`--write` writes what was learned to `uec_rag/evidence/weights.json`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from scipy.special import logit

import uec_rag.evidence
from benchmarks.quality.logic import SETS, corpora_of
from benchmarks.quality.shared import Data, index_of, numbered, read_tables, shipped, write_learned
from benchmarks.tables import print_table, run_script
from uec_rag.base.logistic import fit_logistic
from uec_rag.confidence.model import JUDGED, NEAREST
from uec_rag.evidence.family import family_of
from uec_rag.evidence.table import AGAINST
from uec_rag.retrieval.results import read_by_model

REPORTED = ("ordinary", "forms")
MEANT = [row.name for row in AGAINST if row.of == "meant"]
NAMES = [
    *("Amber", "Birch", "Cedar", "Delta", "Ember", "Fjord"),
    *("Grove", "Haven", "Indigo", "Jasper", "Kestrel", "Lagoon"),
]


class Case(NamedTuple):
    """A question that tells no member of a family.

    `names`: whether it has words that none of these has, and no operator. `is_first`, `is_near`:
    whether the first hit answers it, and one of those that confidence is about.
    """

    set: str
    gap: float
    resembles: bool
    names: bool
    is_first: bool
    is_near: bool


def cases(folder: Path) -> Iterator[Case]:
    """Ask the questions of `logic`, and note those that are such."""
    uec = shipped()
    for name in SETS:
        for _, language, texts, asked in corpora_of(name, folder / "logic"):
            index = index_of(uec, numbered(texts))
            found = index.search([one["q"] for one in asked], k=NEAREST)
            for one, result in zip(asked, found, strict=True):
                hits = sorted(result.hits, key=attrgetter("mu"), reverse=True)
                family = family_of(one["q"], [hit.passage.text for hit in hits], language)
                if family is None or one["right"] == "ask":
                    continue
                gap = (hits[0].mu - hits[1].mu) / max(hits[0].mu, 1e-7)
                fits = [hit.passage.text in [texts[at] for at in one["passages"]] for hit in hits]
                names = bool(family.missing) and not family.operates
                yield Case(name, gap, family.resembles, names, fits[0], any(fits[:JUDGED]))


def learn(some: Sequence[Case]) -> dict[str, float]:
    """Learn when the first of a family stands out, and the log odds of what is meant if not."""
    named = [one for one in some if one.names]
    features = np.array([[one.gap, one.resembles] for one in named])
    right = np.array([one.is_first for one in named])
    spread = np.maximum(features.std(axis=0), 1e-3)
    counts = np.ones(len(named))
    weights, bias = fit_logistic(features / spread, right, counts, np.zeros(2), 1.0, 0.0)
    gap, resembles = weights / spread
    learned = {"gap": 1.0, "resembles": resembles / gap, "least": -bias / gap}
    untold = np.mean([one.is_near for one in some if not meant(one, learned)])
    learned |= dict.fromkeys(MEANT, -logit(untold))
    return {name: round(float(of), 3) for name, of in learned.items()}


def meant(one: Case, learned: Mapping[str, float]) -> bool:
    """Whether the first hit is taken for what is meant; see `uec_rag.evidence.table.family`."""
    return (
        one.names
        and learned["gap"] * one.gap + learned["resembles"] * one.resembles > learned["least"]
    )


def planted() -> Iterator[tuple[list[str], str, set[str]]]:
    """Yield texts of a family of twelve, a comparison, and the texts that fit it.

    A row of questions/families.csv has a statement, the step from one value to the next, and
    questions of which few fit.
    """
    for row in read_tables("families"):
        statement, asked = row["statement"], (row["more"], row["most"], row["less"])
        values = [int(row["step"]) * (at + 2) for at in range(len(NAMES))]
        texts = [
            statement.format(name=name, n=n, year=1950 + n, hour=n + 5)
            for name, n in zip(NAMES, values, strict=True)
        ]
        low, high = values[1], values[-3]
        said = {"low": low, "next": values[2], "high": high}
        said |= {"late": 1950 + high, "early": 1950 + values[2]}
        said |= {"evening": high + 6, "morning": values[1] + 5}
        for question, fit in zip(
            asked, (texts[-2:], [texts[0], texts[-1]], texts[:2]), strict=True
        ):
            yield texts, question.format(**said), {*fit}


def main(folder: Data, write: Annotated[bool, typer.Option()] = False) -> None:
    """Print what is learned, and how many families are handed over with what fits."""
    every, uec = [*cases(folder)], shipped()
    learned = learn([one for one in every if one.set not in REPORTED])
    rows = []
    for name, some in (("learned from", False), ("not learned from", True)):
        own = [one for one in every if one.names and (one.set in REPORTED) == some]
        counts = Counter((one.is_first, meant(one, learned)) for one in own)
        rows.append(
            [name, str(len(own)), *(str(counts[of]) for of in product((True, False), repeat=2))]
        )
    heads = ["meant, taken", "meant, not taken", "not meant, taken", "not meant, not taken"]
    print_table("The first of a family", ["questions", "n", *heads], rows)
    print(f"\nLearned: {learned}")
    found, total = Counter[int](), 0
    for texts, question, fit in planted():
        index = index_of(uec, numbered(texts))
        with read_by_model():
            hits = [hit.text for hit in index.search([question]).results[0].passages]
        found.update(count for count in (4, 8) if fit & {*hits[:count]})
        total += 1
    print_table(
        "Families of twelve",
        ["n", "among 4", "among 8"],
        [[str(of) for of in (total, found[4], found[8])]],
    )
    if write:
        write_learned("weights.json", learned, uec_rag.evidence)


if __name__ == "__main__":
    run_script(main)
