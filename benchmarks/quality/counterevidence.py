"""Learn what it says against a first hit that it lacks a name of the question.

    python -m benchmarks.quality.counterevidence FOLDER

FOLDER has the three further manuals (`benchmarks.quality.manuals`), none of which is reported. The
questions are those made of the passages, headings and first sentences. Each is asked of the three
manuals at once, of its own by name ("... in Caddy?") and of another. Counted is how often the first
hit lacks the name where it has the answer to the former, and where the latter is asked: with the
manuals in folders of their names ("outside"), and with no name in a path ("unnamed").

The log of the ratio of both, negated, is written to `uec_rag/evidence/weights.json`, of names such
as `log_likelihood_ratio` derives it from the share of passages without them; one more of each kind,
spread over all questions, keeps them finite.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import uec_rag.evidence
from benchmarks.quality.first_week import passages_in
from benchmarks.quality.shared import Manuals, index_of, shipped, write_learned
from benchmarks.tables import print_table, run_script
from uec_rag.documents.generated_questions import pairs_from_passages
from uec_rag.stores.passage import Passage

FURTHER = ("restic", "madetech", "caddy")


def log_ratio(right: tuple[int, int], wrong: tuple[int, int], share: float = 0.0) -> list[float]:
    """Compute both likelihoods of a kind of first hit, and the log of their ratio if it were rare.

    `right`, `wrong`: how many first hits are of the kind, and how many there are. `share`: of all
    passages that are of it.
    """
    of_right, of_wrong = ((count + 1) / (of + 1) for count, of in (right, wrong))
    ratio = of_right / of_wrong
    return [of_right, of_wrong, math.log(ratio * (1 - share) / (1 - ratio * share))]


def names(manuals: dict[str, list[Passage]], path: str) -> list[float]:
    """Learn what it says that a first hit lacks the name of its manual; `path`: of passages."""
    rng = random.Random(0)
    passages = [
        replace(one, id=f"{name} {one.id}", metadata=one.metadata | {"source": path.format(name)})
        for name, of_manual in manuals.items()
        for one in of_manual
    ]
    index, counts, asked = index_of(shipped(), passages), Counter[bool](), Counter[bool]()
    shares = {
        name: sum(has_name(one, name) for one in passages) / len(passages) for name in manuals
    }
    for own, of_manual in manuals.items():
        pairs = pairs_from_passages(of_manual)
        for name in [own, *rng.choices([other for other in manuals if other != own])]:
            questions = [f"{q.rstrip('?. ')} in {name.capitalize()}?" for q, _ in pairs]
            for (_, answer), result in zip(pairs, index.search(questions), strict=True):
                first = result.passages[0]
                if name != own or answer[:80] in first.text:
                    asked[name == own] += 1
                    counts[name == own] += not has_name(first, name)
    share = 1 - sum(shares.values()) / len(shares)
    return log_ratio((counts[True], asked[True]), (counts[False], asked[False]), share)


def has_name(passage: Passage, name: str) -> bool:
    """Whether a passage or its path has a name."""
    return name in passage.with_source.casefold()


def main(folder: Manuals) -> None:
    """Print how often each kind of text is first, and write what that says."""
    manuals = {name: passages_in(folder, name) for name in FURTHER}
    learned = {"unnamed": names(manuals, "page.html"), "outside": names(manuals, "{}/page.html")}
    rows = [[kind, f"{r:.4f}", f"{w:.4f}", f"{log:+.2f}"] for kind, (r, w, log) in learned.items()]
    print_table("First hits", ["kind", "right", "wrong", "log ratio"], rows)
    ratios = {kind: round(-log, 2) for kind, (_, _, log) in learned.items()}
    write_learned("weights.json", ratios, uec_rag.evidence)


if __name__ == "__main__":
    run_script(main)
