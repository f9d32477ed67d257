"""Learn what a first hit that states nothing says about an answer.

    python -m benchmarks.quality.statements FOLDER

FOLDER has the three further manuals (`benchmarks.quality.manuals`), none of which is reported. To
each are added contents (the headings of a file, as a list in one of several forms) and tickets
(a question without a reply): one file in four and one question in four has them. The questions are
those made of the passages, headings and first sentences. For each form of text, the log of the
ratio of how often it is the first hit where that has the answer, and where it has not, is written
to `uec_rag/confidence/statements.json`; one more of each form, spread over all questions, keeps
them finite.
"""

from __future__ import annotations

import json
import math
import random
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import typer

from benchmarks.quality.first_week import passages_in
from benchmarks.quality.shared import Manuals, index_of, shipped
from benchmarks.tables import print_table
from uec_rag.confidence.statements import kind_of_text
from uec_rag.documents.questions import pairs_from_passages
from uec_rag.stores.base import Passage

FURTHER = ("restic", "madetech", "caddy")
CONTENTS = ("Contents: {}", "Table of contents\n\n- {}", "In this section\n\n{}", "{}")
BETWEEN = (" ", "\n- ", "\n", ", ")
TICKETS = ("Ticket {}: {} Status: open.", "#{} (open)\n\n{}", "[{}] anna: {}", "{}. {}")
OUT = Path(__file__).parents[2] / "uec_rag" / "confidence" / "statements.json"


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


def main(folder: Manuals) -> None:
    """Print how often each form is first, and write what that says."""
    warnings.simplefilter("ignore")
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
    learned, rows = dict[str, float](), []
    for kind in ("asks", "lists"):
        right, wrong = (
            (counts[kind, is_right] + 1) / (asked[is_right] + 1) for is_right in (True, False)
        )
        learned[kind] = round(math.log(right / wrong), 2)
        rows.append([kind, f"{right:.4f}", f"{wrong:.4f}", f"{learned[kind]:+.2f}"])
    print_table("First hits", ["form", "right", "wrong", "log ratio"], rows)
    OUT.write_text(json.dumps(learned) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
