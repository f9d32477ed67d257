"""Learn what speaks against a first hit: that it states nothing, or lacks a name of the question.

    python -m benchmarks.quality.counterevidence FOLDER

FOLDER has the three further manuals (`benchmarks.quality.manuals`), none of which is reported. The
questions are those made of the passages, headings and first sentences.

- To each manual are added contents (the headings of a file, as a list in one of several forms) and
  tickets (a question without a reply): one file in four and one question in four has them. For each
  form of text, counted is how often it is the first hit where that has the answer, and where not.
- Each question is asked of the three manuals at once, of its own by name ("... in Caddy?") and of
  another. Counted is how often the first hit lacks the name where it has the answer to the former,
  and where the latter is asked: with the manuals in folders of their names ("outside"), and with
  no name in a path ("unnamed").

The log of the ratio of both is written to `uec_rag/confidence/counterevidence.json`, of names such
as `log_likelihood_ratio` derives it from the share of passages without them; one more of each kind,
spread over all questions, keeps them finite.
"""

from __future__ import annotations

import json
import math
import random
import warnings
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import typer

from benchmarks.quality.first_week import passages_in
from benchmarks.quality.shared import Manuals, index_of, shipped
from benchmarks.tables import print_table
from uec_rag.confidence.counterevidence import kind_of_text
from uec_rag.documents.questions import pairs_from_passages
from uec_rag.stores.base import Passage

FURTHER = ("restic", "madetech", "caddy")
CONTENTS = ("Contents: {}", "Table of contents\n\n- {}", "In this section\n\n{}", "{}")
BETWEEN = (" ", "\n- ", "\n", ", ")
TICKETS = ("Ticket {}: {} Status: open.", "#{} (open)\n\n{}", "[{}] anna: {}", "{}. {}")
OUT = Path(__file__).parents[2] / "uec_rag" / "confidence" / "counterevidence.json"


def planted(passages: list[Passage], questions: list[str]) -> list[str]:
    """Contents of one file in four, and tickets of one question in four."""
    rng, titles = random.Random(0), defaultdict[str, list[str]](list)
    for passage in passages:
        if passage.about.subject not in titles[passage.about.source]:
            titles[passage.about.source].append(passage.about.subject)
    lists = [of_file[:20] for of_file in titles.values() if len(of_file) > 2]
    texts = list[str]()
    for of_file in rng.sample(lists, len(lists) // 4):
        form = rng.randrange(len(CONTENTS))
        numbered = [f"{at} {title}" for at, title in enumerate(of_file, 1)]
        texts.append(CONTENTS[form].format(BETWEEN[form].join(of_file if form else numbered)))
    for number, question in enumerate(rng.sample(questions, len(questions) // 4)):
        ask = question if question.endswith("?") else f"What about {question}?"
        texts.append(rng.choice(TICKETS).format(number, ask))
    return texts


def log_ratio(right: tuple[int, int], wrong: tuple[int, int], share: float = 0.0) -> list[float]:
    """Compute both likelihoods of a kind of first hit, and the log of their ratio if it were rare.

    `right`, `wrong`: how many first hits are of the kind, and how many there are. `share`: of all
    passages that are of it.
    """
    of_right, of_wrong = ((count + 1) / (of + 1) for count, of in (right, wrong))
    ratio = of_right / of_wrong
    return [of_right, of_wrong, math.log(ratio * (1 - share) / (1 - ratio * share))]


def forms(folder: Path) -> dict[str, list[float]]:
    """Learn what the form of a first hit says."""
    counts, asked = Counter[tuple[str, bool]](), Counter[bool]()
    for name in FURTHER:
        passages = passages_in(folder, name)
        pairs = pairs_from_passages(passages)
        more = [
            Passage(f"planted {n}", text)
            for n, text in enumerate(planted(passages, [question for question, _ in pairs]))
        ]
        index = index_of(shipped(), [*passages, *more])
        for (_, answer), result in zip(pairs, index.search([q for q, _ in pairs]), strict=True):
            first = result.passages[0]
            is_right = answer[:80] in first.text
            asked[is_right] += 1
            counts[kind_of_text(first.text), is_right] += 1
    return {
        kind: log_ratio(*((counts[kind, right], asked[right]) for right in (True, False)))
        for kind in ("asks", "lists")
    }


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
    warnings.simplefilter("ignore")
    manuals = {name: passages_in(folder, name) for name in FURTHER}
    learned = forms(folder)
    learned["unnamed"] = names(manuals, "page.html")
    learned["outside"] = names(manuals, "{}/page.html")
    rows = [[kind, f"{r:.4f}", f"{w:.4f}", f"{log:+.2f}"] for kind, (r, w, log) in learned.items()]
    print_table("First hits", ["kind", "right", "wrong", "log ratio"], rows)
    ratios = {kind: round(log, 2) for kind, (_, _, log) in learned.items()}
    OUT.write_text(json.dumps(ratios) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
