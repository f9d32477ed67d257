"""Short statements about things alike: what is answered of them, and what speaks against it.

    python -m benchmarks.quality.statements DATA [--write]

Asked is `UEC()` over fourteen corpora as real documents put them (questions/statements.json,
written by somebody who had seen no rule: 140 plain questions, 140 that nothing answers, 84 that
several passages answer and 56 of their shape that one answers), and over the sets of DATA/absent.
Printed is what becomes of each kind, and how the threshold trades false answers for right ones.

Learned is by how much P(underspecified) is higher of statements, in log odds: the most with which
as many of our own questions that one passage answers are answered rightly; not on DATA/absent,
which tells what that does to others. `--write` writes it to `uec_rag/evidence/weights.json`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from scipy.special import expit, logit

import uec_rag.evidence
from benchmarks.quality.shared import (
    TABLES,
    Data,
    index_of,
    numbered,
    shipped,
    write_learned,
)
from benchmarks.tables import print_table, run_script
from uec_rag import UEC
from uec_rag.confidence.decision import CLARIFY_FROM, Decision
from uec_rag.confidence.model import ANSWER_ABOVE
from uec_rag.evidence.table import weights
from uec_rag.retrieval.results import Result

OUTCOMES = ("right", "wrong", "asked", "handed over", "uncertain", "refused")
THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8)
SHIFTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)  # of the log odds of P(underspecified)


class Asked(NamedTuple):
    """A question of a set, and its result."""

    set: str
    corpus: str
    kind: str
    right: frozenset[str]
    result: Result

    @property
    def decision(self) -> Decision:
        """The decision."""
        return self.result.decision

    @property
    def is_first(self) -> bool:
        """Whether the first hit answers it."""
        return bool(self.right) and self.result.ids[0] in self.right

    def outcome(self, threshold: float, clarify_from: float = CLARIFY_FROM) -> str:
        """What becomes of it at a threshold, and where it is asked back from."""
        decision = self.result.decide(threshold, clarify_from=clarify_from)
        if decision.action == "clarify":
            return "asked"
        if decision.action == "answer":
            return "right" if self.is_first and self.kind in ("plain", "one") else "wrong"
        if decision.code != "uncertain":
            return "refused"
        has_all = bool(self.right) and self.right <= {*self.result.ids}
        return "handed over" if has_all else "uncertain"


def corpora(folder: Path) -> Iterator[tuple[str, str, list[str], list[dict[str, Any]]]]:
    """Yield set, corpus, texts and questions of our statements and of DATA/absent."""
    for one in json.loads((TABLES / "statements.json").read_text(encoding="utf-8")):
        yield "statements", one["set"], one["texts"], one["questions"]
    for name in ("plain", "nothing", "vague"):
        path = folder / "absent" / f"{name}.json"
        for one in json.loads(path.read_text(encoding="utf-8")):
            rows = [
                row | {"kind": name if row.get("ask", True) else "one"} for row in one["questions"]
            ]
            yield "absent", one["set"], one["texts"], rows


def ask(uec: UEC, folder: Path) -> Iterator[Asked]:
    """Ask all questions."""
    for name, corpus, texts, rows in corpora(folder):
        index = index_of(uec, numbered(texts))
        for row, result in zip(rows, index.search([row["q"] for row in rows]), strict=True):
            right = frozenset(map(str, row["right"]))
            yield Asked(name, corpus, row["kind"], right, result)


def print_thresholds(asked: Sequence[Asked], name: str) -> None:
    """Print what each threshold does to a set."""
    rows = []
    for threshold in THRESHOLDS:
        for kind in ("plain", "nothing", "vague", "one"):
            some = [one for one in asked if (one.set, one.kind) == (name, kind)]
            counts = Counter(one.outcome(threshold) for one in some)
            numbers = [str(counts[outcome] or "") for outcome in OUTCOMES]
            rows.append([f"{threshold:.2f}", kind, str(len(some)), *numbers])
    print_table(f"{name.capitalize()}, by threshold", ["above", "kind", "n", *OUTCOMES], rows)


def print_shifts(asked: Sequence[Asked]) -> float:
    """Print what becomes of the questions if P(underspecified) is higher; return the best shift."""
    rows, right, ours = list[list[str]](), dict[float, int](), "statements"
    for shift in SHIFTS:
        # As much lower is the number from which it is asked back.
        bound = expit(logit(CLARIFY_FROM) - shift + weights()["statements"])
        for name in {one.set: 0 for one in asked}:
            some = [one for one in asked if one.set == name and one.kind != "nothing"]
            counts = Counter((one.kind, one.outcome(ANSWER_ABOVE, float(bound))) for one in some)
            single = counts["plain", "right"] + counts["one", "right"]
            needless = counts["plain", "asked"] + counts["one", "asked"]
            several = (counts["vague", outcome] for outcome in ("asked", "handed over", "wrong"))
            rows.append([f"{shift:.1f}", name, *map(str, (single, needless, *several))])
            right |= {shift: single} if name == ours else {}
    heads = ["shift", "set", "one answers: right", "asked", "several: asked", "handed over"]
    print_table("Statements, by the shift of P(underspecified)", [*heads, "wrong"], rows)
    return max(shift for shift in SHIFTS if right[shift] >= right[0.0])


def main(folder: Data, write: Annotated[bool, typer.Option()] = False) -> None:
    """Print what becomes of the questions, and learn the shift."""
    asked = [*ask(shipped(), folder)]
    learned = {"statements": print_shifts(asked)}
    print(f"\nLearned: {learned}")
    if write:
        write_learned("weights.json", learned, uec_rag.evidence)
    for name in dict.fromkeys(one.set for one in asked):
        print_thresholds(asked, name)


if __name__ == "__main__":
    run_script(main)
