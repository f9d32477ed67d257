"""What is said of questions over statements alike, which similarity cannot tell apart.

    python -m benchmarks.quality.logic DATA [--out FILE.jsonl] [--against OLD.jsonl]

DATA/logic has the sets: `questions` (exclusions, comparisons, superlatives, absent values, and
their plain forms), `traps` (plain questions with words of logic), `neighbours` (questions beside
those that a rule was made for), `ordinary` (written without having seen a rule) and `forms` (values
named in another form). English ones are asked of `UEC()`, others also of `UEC("multilingual")`.

Printed is what becomes of each kind. A record has a line for each question; `--against` another
prints the rows that differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.quality.shared import Data, index_of, numbered, shipped
from benchmarks.tables import Tally, print_table, run_script
from uec_rag.retrieval.results import Result

SETS = ("questions", "traps", "neighbours", "ordinary", "forms")
OUTCOMES = (
    *("answered", "answered wrongly", "asked", "asked wrongly"),
    *("uncertain, in 4", "uncertain, in 8", "uncertain", "refused"),
)
_NEEDS = {"any": "answer", "all": "answer", "none": "refuse"}


@dataclass(frozen=True)
class Row:
    """What is said of a question.

    `wants` is what is right: "answer", "ask", "refuse" (or uncertain), "hand" (uncertain, with all
    passages among eight) or "answer|hand".
    """

    set: str
    corpus: str
    preset: str
    kind: str
    question: str
    wants: str
    outcome: str
    right: bool
    confidence: float
    reason: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells the question from the others."""
        return self.set, self.corpus, self.preset, self.question


def corpora_of(name: str, folder: Path) -> Iterator[tuple[str, str, list[str], list[Any]]]:
    """Yield name, language, passages and questions of each corpus of a set, in one form."""
    read = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    if "questions" not in read:
        for one in read["corpora"]:
            yield one["name"], one["lang"], one["passages"], one["questions"]
        return
    for corpus, texts in read["corpora"].items():
        asked = [
            {
                "q": one["question"],
                "kind": "control" if one["control"] else one["kind"],
                "right": _NEEDS[one["need"]],
                "passages": [texts.index(good) for good in one["good"]],
                "all": one["need"] == "all",
            }
            for one in read["questions"]
            if one["corpus"] == corpus
        ]
        if asked:
            yield corpus, "en", texts, asked


def outcome_of(result: Result, fitting: set[str], *, every: bool = False) -> str:
    """What became of a question, of which some texts fit, or `every` one is needed."""
    decision, texts = result.decision, [passage.text for passage in result.passages]

    def has(some: list[str]) -> bool:
        return bool(fitting) and (fitting <= {*some} if every else not fitting.isdisjoint(some))

    if decision.action == "answer":
        return "answered" if has(texts[:4]) else "answered wrongly"
    if decision.action == "clarify":
        offered = {id_ for reading in decision.readings for id_ in reading.ids}
        shown = [one.text for one in result.passages if one.id in offered]
        return "asked wrongly" if every or fitting.isdisjoint(shown) else "asked"
    if decision.code != "uncertain":
        return "refused"
    return f"uncertain, in {4 if has(texts[:4]) else 8}" if has(texts[:8]) else "uncertain"


def is_right(wants: str, outcome: str, result: Result, fitting: set[str]) -> bool:
    """Whether what became of a question is what is wanted."""
    handed = fitting <= {passage.text for passage in result.passages[:8]}
    said = {
        "answer": outcome == "answered",
        "ask": outcome == "asked",
        "refuse": outcome.startswith(("uncertain", "refused")),
        "hand": outcome.startswith("uncertain") and handed,
    }
    return any(said[one] for one in wants.split("|"))


def ask(folder: Path) -> Iterator[Row]:
    """Ask all questions."""
    ensembles = cache(shipped)
    for name in SETS:
        for corpus, language, texts, asked in corpora_of(name, folder):
            for preset in ("english",) if language == "en" else ("english", "multilingual"):
                index = index_of(ensembles(preset), numbered(texts))
                found = index.search([one["q"] for one in asked], k=8)
                for one, result in zip(asked, found, strict=True):
                    fitting = {texts[at] for at in one["passages"]}
                    outcome = outcome_of(result, fitting, every=one.get("all", False))
                    if outcome == "answered wrongly" and not fitting and one["right"] == "answer":
                        outcome = "answered"
                    right = is_right(one["right"], outcome, result, fitting)
                    sure, reason = round(result.decision.confidence, 4), result.decision.reason
                    told = one["kind"], one["q"], one["right"], outcome, right, sure, reason
                    yield Row(name, corpus, preset, *told)


def main(
    folder: Data,
    out: Annotated[Path | None, typer.Option(help="File to write the record to.")] = None,
    against: Annotated[Path | None, typer.Option(help="A record to compare with.")] = None,
) -> None:
    """Print what becomes of the questions, and what changed."""
    rows = [*ask(folder / "logic")]
    tally = Tally()
    for row in rows:
        for kind in dict.fromkeys((row.kind, row.kind if row.kind == "control" else "all")):
            tally.note((row.set, row.preset, kind), row.outcome, *["right"] * row.right)
    heads = ["set", "preset", "kind", "n", "right", *OUTCOMES]
    print_table("Statements alike", heads, tally.rows("right", *OUTCOMES))
    if out is not None:
        lines = [json.dumps(asdict(row), ensure_ascii=False) for row in rows]
        out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if against is not None:
        old = [Row(**json.loads(line)) for line in against.read_text("utf-8").splitlines()]
        before = {row.key: row for row in old}
        for row in rows:
            was = before.get(row.key)
            if was is not None and (was.outcome, was.right) != (row.outcome, row.right):
                sign = "+" if row.right > was.right else "-" if row.right < was.right else " "
                print(
                    f"{sign} {row.set} {row.preset} {row.kind}: {row.question!r} wants "
                    f"{row.wants}: {was.outcome} {was.confidence} -> {row.outcome} {row.confidence}"
                )


if __name__ == "__main__":
    run_script(main)
