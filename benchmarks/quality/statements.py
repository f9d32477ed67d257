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

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Annotated

import typer
from scipy.special import expit, logit

import uec_rag.evidence
from benchmarks.quality.contexts import Asked, absent, results, statements
from benchmarks.quality.shared import Data, shipped, write_learned
from benchmarks.tables import Tally, print_table, run_script
from uec_rag.confidence.decision import CLARIFY_FROM
from uec_rag.confidence.model import ANSWER_ABOVE
from uec_rag.evidence.table import weights
from uec_rag.retrieval.results import Result

OUTCOMES = ("right", "wrong", "asked", "handed over", "uncertain", "refused")
THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8)
SHIFTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)  # of the log odds of P(underspecified)


Pair = tuple[Asked, Result]


def outcome(pair: Pair, threshold: float, clarify_from: float = CLARIFY_FROM) -> str:
    """What becomes of a question at a threshold, and where it is asked back from."""
    asked, result = pair
    right, decision = asked.right[0], result.decide(threshold, clarify_from=clarify_from)
    if decision.action == "clarify":
        return "asked"
    if decision.action == "answer":
        is_right = result.ids[0] in right and asked.kind in ("plain", "one")
        return "right" if is_right else "wrong"
    if decision.code != "uncertain":
        return "refused"
    return "handed over" if right and right <= {*result.ids} else "uncertain"


def print_thresholds(pairs: Sequence[Pair], name: str) -> None:
    """Print what each threshold does to a set."""
    tally = Tally()
    for threshold, kind in product(THRESHOLDS, ("plain", "nothing", "vague", "one")):
        for pair in pairs:
            if (pair[0].set, pair[0].kind) == (name, kind):
                tally.note((f"{threshold:.2f}", kind), outcome(pair, threshold))
    heads = ["above", "kind", "n", *OUTCOMES]
    print_table(f"{name.capitalize()}, by threshold", heads, tally.rows(*OUTCOMES))


def print_shifts(pairs: Sequence[Pair]) -> float:
    """Print what becomes of the questions if P(underspecified) is higher; return the best shift."""
    rows, right, ours = list[list[str]](), dict[float, int](), "statements"
    for shift in SHIFTS:
        # As much lower is the number from which it is asked back.
        bound = expit(logit(CLARIFY_FROM) - shift + weights()["statements"])
        for name in dict.fromkeys(asked.set for asked, _ in pairs):
            some = [pair for pair in pairs if pair[0].set == name]
            counts = Counter((p[0].kind, outcome(p, ANSWER_ABOVE, float(bound))) for p in some)
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
    uec = shipped()
    pairs = [*results([*statements(uec), *absent(uec, folder)])]
    learned = {"statements": print_shifts(pairs)}
    print(f"\nLearned: {learned}")
    if write:
        write_learned("weights.json", learned, uec_rag.evidence)
    for name in dict.fromkeys(asked.set for asked, _ in pairs):
        print_thresholds(pairs, name)


if __name__ == "__main__":
    run_script(main)
