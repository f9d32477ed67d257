"""Learn what it says against a first hit that it lacks a name of the question.

    python -m benchmarks.quality.counterevidence FOLDER

FOLDER has the three further manuals (`benchmarks.quality.manuals`), none of which is reported. The
questions are those made of the passages, headings and first sentences. Each is asked of the three
manuals at once, of its own by name ("... in Caddy?") and of another. Counted is how often the first
hit lacks the name where it has the answer to the former, and where the latter is asked: with the
manuals in folders of their names ("outside"), and with no name in a path ("unnamed"). "siblings"
are statements alike, none of which fits the question: those of `siblings` are planted among the
manuals' passages in each of its languages, as sentences and as rows, and counted is how often the
first hit is one where the answer is there, of the manuals' questions and the planted ones, and
where it is not.

The log of the ratio of both is written to `uec_rag/confidence/counterevidence.json`, of names such
as `log_likelihood_ratio` derives it from the share of passages without them; one more of each kind,
spread over all questions, keeps them finite.
"""

from __future__ import annotations

import json
import math
import random
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import typer

from benchmarks.quality.first_week import passages_in
from benchmarks.quality.shared import Manuals, index_of, shipped
from benchmarks.quality.siblings import Asked, passages, planted, questions
from benchmarks.tables import print_table
from uec_rag import Retriever
from uec_rag.confidence.model import NEAREST
from uec_rag.documents.questions import pairs_from_passages
from uec_rag.retrieval.siblings import siblings
from uec_rag.stores.base import Passage

FURTHER = ("restic", "madetech", "caddy")
OUT = Path(__file__).parents[2] / "uec_rag" / "confidence" / "counterevidence.json"


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


def alike(manuals: dict[str, list[Passage]]) -> dict[str, list[float]]:
    """Learn what it says that the first hits are statements alike, with or without one that fits.

    That one fits is counted among the planted questions that compare or exclude.
    """
    others = [replace(p, id=f"{name} {p.id}") for name, of in manuals.items() for p in of]
    pairs = [query for name in manuals for query, _ in pairs_from_passages(manuals[name])]
    ensembles = {name: shipped(name) for name in ("english", "multilingual")}
    counts, asked = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()

    def count(index: Retriever, some: Sequence[Asked], language: str) -> None:
        found = index.search([one.question for one in some], k=NEAREST)
        for one, result in zip(some, found, strict=True):
            told = siblings(one.question, [hit.text for hit in result.passages], language)
            right = bool(one.good)
            asked["siblings", right] += 1
            counts["siblings", right] += told is not None and not told.fits and 0 in told.family
            if one.kind in ("fitting", "none"):
                asked["fitting", right] += 1
                counts["fitting", right] += told is not None and bool(told.fits)

    index = index_of(ensembles["english"], others)
    count(index, [Asked("plain", query, ("any",)) for query in pairs], "en")
    for one, form in product(planted(), ("sentences", "rows")):
        language = one["language"]
        ensemble = ensembles["english" if language == "en" else "multilingual"]
        count(index_of(ensemble, [*others, *passages(one, form)]), [*questions(one)], language)
    learned = {}
    for kind in ("siblings", "fitting"):
        right, wrong = ((counts[kind, of], asked[kind, of]) for of in (True, False))
        learned[kind] = log_ratio(right, wrong)
    return learned


def has_name(passage: Passage, name: str) -> bool:
    """Whether a passage or its path has a name."""
    return name in passage.with_source.casefold()


def main(folder: Manuals) -> None:
    """Print how often each kind of text is first, and write what that says."""
    warnings.simplefilter("ignore")
    manuals = {name: passages_in(folder, name) for name in FURTHER}
    learned = {
        "unnamed": names(manuals, "page.html"),
        "outside": names(manuals, "{}/page.html"),
        **alike(manuals),
    }
    rows = [[kind, f"{r:.4f}", f"{w:.4f}", f"{log:+.2f}"] for kind, (r, w, log) in learned.items()]
    print_table("First hits", ["kind", "right", "wrong", "log ratio"], rows)
    ratios = {kind: round(log, 2) for kind, (_, _, log) in learned.items()}
    OUT.write_text(json.dumps(ratios) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
