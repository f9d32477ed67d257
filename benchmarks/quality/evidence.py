"""Learn what it says against a statement that it lacks a word, and that another hit has it.

    python -m benchmarks.quality.evidence DATA [--write]

Learned are the weights of those rows of `uec_rag.evidence.EVIDENCE` together, on statements, the
sets of DATA (absent, logic, handbooks, and these as elements of a loader), variants and people,
with their natural shares of what is not there (`contexts`); a set counts at most three times as
much as the smallest. From nearness and all other evidence, as it is, an answer is told from none.
A false answer costs `PRICE` right ones.

Printed is what becomes of each corpus, with weights that the others taught, and what is learned.
`--write` writes it to `uec_rag/evidence/weights.json`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

import uec_rag.evidence
from benchmarks.quality.contexts import (
    Asked,
    absent,
    handbooks,
    logic,
    people,
    results,
    statements,
    variants,
)
from benchmarks.quality.shared import Data, shipped, write_learned
from benchmarks.tables import print_table, run_script
from uec_rag.confidence.model import ANSWER_ABOVE
from uec_rag.evidence.table import AGAINST, OF_HITS, WORDS, weigh
from uec_rag.retrieval.results import Result

ROWS = ("lacks_word", "replaces")
PRICE = 3.5  # of a false answer, if one that is handed over in its place costs 1
RIDGE = 2.0
MOST = 3  # times that a set counts, of the smallest


class Example(NamedTuple):
    """A question that is decided by its evidence: the log odds without the rows, and these."""

    set: str
    corpus: str
    is_right: bool
    odds: float
    rest: float
    rows: tuple[float, ...]


def example(asked: Asked, result: Result) -> Example | None:
    """What is learned from a question; None if something else than these rows decides it."""
    parts, is_there = result.explanation, asked.wants == "answer"
    is_first = is_there and bool(asked.right) and result.ids[:1] and result.ids[0] in asked.right[0]
    if parts is None or result.decision.action == "clarify":
        return None
    if not (is_first or asked.wants == "abstain"):
        return None
    values = parts.evidence[len(WORDS) : len(OF_HITS)]
    pairs = zip(AGAINST, values, strict=True)
    others = [0.0 if row.name in ROWS else value for row, value in pairs]
    against, meant = weigh(others)
    if meant < 1 or result.decision.searched_as:
        return None
    rest = result.decision.confidence / max(result.decision.in_corpus, 1e-9)
    rows = [value for row, value in zip(AGAINST, values, strict=True) if row.name in ROWS]
    odds = sum(parts.contributions) + against
    return Example(asked.set, asked.corpus, is_there, odds, rest, tuple(rows))


def learn(examples: Sequence[Example]) -> NDArray[np.float64]:
    """Learn the weights of the rows, at least 0."""
    rows, odds = np.array([of.rows for of in examples]), np.array([of.odds for of in examples])
    right, sizes = np.array([of.is_right for of in examples]), Counter(of.set for of in examples)
    most = MOST * min(sizes.values())
    counts = np.array([min(most, sizes[of.set]) / sizes[of.set] for of in examples])
    counts *= np.where(right, 1.0, PRICE) * rows.any(axis=1)

    def loss(weights: NDArray[np.float64]) -> float:
        told = odds - rows @ weights
        value = counts @ (np.logaddexp(0, told) - told * right)
        return float(value + RIDGE * weights @ weights)

    bounds = [(0, None)] * len(ROWS)
    return minimize(loss, np.zeros(len(ROWS)), method="L-BFGS-B", bounds=bounds).x


def main(folder: Data, write: Annotated[bool, typer.Option()] = False) -> None:
    """Learn, and print what becomes of each set without having learned from its corpus."""
    uec = shipped()
    asked = [*statements(uec), *variants(uec), *people(uec)]
    for set_ in (absent, logic, handbooks):
        asked += [row for row in set_(uec, folder) if row.set != "double" and not row.before]
    told = [example(*pair) for pair in results(asked)]
    corpora = defaultdict[tuple[str, str], list[Example]](list)
    for of in filter(None, told):
        corpora[of.set, of.corpus].append(of)
    counts = defaultdict[tuple[str, str], list[int]](lambda: [0, 0, 0])
    for key, examples in corpora.items():
        weights = learn([of for other, rest in corpora.items() if other != key for of in rest])
        for of in examples:
            count = counts[of.set, "answerable" if of.is_right else "not there"]
            for at, row_odds in enumerate((0.0, float(np.dot(of.rows, weights)))):
                count[at + 1] += bool(expit(of.odds - row_odds) * of.rest > ANSWER_ABOVE)
            count[0] += 1
    rows = [[*key, *map(str, count)] for key, count in counts.items()]
    print_table("Answered", ["set", "questions", "n", "without", "with"], rows)
    learned = dict(zip(ROWS, learn([*chain(*corpora.values())]).round(2).tolist(), strict=True))
    print(f"\nLearned: {learned}")
    if write:
        write_learned("weights.json", learned, uec_rag.evidence)


if __name__ == "__main__":
    run_script(main)
