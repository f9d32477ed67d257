"""The golden record: what is said of each question, to the fifth digit, and what a change moved.

    python -m benchmarks.quality.golden record MANUALS FILE.jsonl [--preset static]
    python -m benchmarks.quality.golden compare OLD.jsonl NEW.jsonl
    python -m benchmarks.quality.golden asking MANUALS  # when to ask back: in docs/decisions.md

A line for each question to `UEC()` over the manuals of `first_week`: the decision and its code,
the hits, the confidence, the readings with their passages, and what was searched in its place.
Asked are

- the 820 questions of the first week and in people's own words;
- chats: follow-ups (questions/follow_ups.csv), and questions behind another one to the same manual,
  with "And" and without;
- questions as they are typed: with typos, after other text, two in one, as `typed` makes them;
- the ambiguous and some ordinary questions of three manuals at a time, in one index, and there some
  that name a manual: their own, another, which has no answer, and their own after another ("How do
  I add a tag in Cargo?", "And in Git?").

A commit that means to change nothing has an equal record; one that means to names its rows.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.quality.first_week import KINDS, corpora_of
from benchmarks.quality.shared import Manuals, index_of, is_found, read_tables, shipped
from benchmarks.quality.typed import joined, message, mistyped
from benchmarks.tables import print_table, run_script
from uec_rag import Gate, Retriever
from uec_rag.encoders.packages import DEFAULT_PRESET
from uec_rag.retrieval.results import Result
from uec_rag.stores.passage import Passage

SEED, DIGITS = 0, 5
ASKING = (0.72, 0.7, 0.68, 0.65, 0.6)
TYPED, BEHIND, CLEAR = 6, 8, 5  # questions of each manual: of each form, behind another, and clear
MIXES = (("git", "cargo", "uv"), ("fastapi", "celery", "redis"), ("debian", "jekyll", "material"))
Row = dict[str, str]


@dataclass(frozen=True)
class Line:
    """What is said of a question; `right` is None if no table says what is right."""

    part: str
    documents: str
    kind: str
    question: str
    action: str
    code: str
    confidence: float
    in_corpus: float
    underspecified: float
    hits: list[str]
    readings: list[tuple[str, list[str]]]
    searched_as: str
    right: bool | None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells the question from the others."""
        return self.part, self.documents, self.kind, self.question


def line_of(part: str, documents: str, row: Row, said: str, result: Result) -> Line:
    """Note what is said of a question that a row of a table is about."""
    decision, expected = result.decision, KINDS[row["kind"]]
    right = decision.action == expected and (expected != "answer" or is_found(row, result))
    numbers = (decision.confidence, decision.in_corpus, decision.underspecified)
    rounded = (round(float(number), DIGITS) for number in numbers)
    offered = decision.readings if decision.action == "clarify" else ()
    readings = [(one.title, [*one.ids]) for one in offered]
    asked = part, documents, row["kind"], said, decision.action, decision.code
    return Line(*asked, *rounded, result.ids, readings, decision.searched_as, right)


def chats(rows: Sequence[Row], follow_ups: Sequence[Row], rng: random.Random) -> list[Row]:
    """The questions with a turn before them."""
    asked = [row | {"kind": "ordinary"} for row in follow_ups]
    plain = [row for row in rows if row["kind"] == "ordinary"]
    for row in plain[:BEHIND] if len(plain) > 1 else []:
        before = rng.choice([other["question"] for other in plain if other is not row])
        question = row["question"]
        asked += [
            row | {"before": before},
            row | {"before": before, "question": f"And {question[:1].lower()}{question[1:]}"},
        ]
    return asked


def typed(
    name: str, rows: Sequence[Row], corpora: Mapping[str, Sequence[Passage]], rng: random.Random
) -> list[Row]:
    """Questions as people type them."""
    plain = [row for row in rows if row["kind"] in ("ordinary", "short")]
    plain = rng.sample(plain, min(TYPED, len(plain)))
    others = [other for other in corpora if other != name]
    made = [row | {"question": mistyped(row["question"], rng)} for row in plain]
    for row in plain:
        text = message(corpora[rng.choice(others)], rng)
        made.append(row | {"question": f"{text}.\n\n{row['question']}"})
    for row, other in zip(plain, [*plain[1:], *plain[:1]], strict=True):
        made.append(row | {"question": joined(row["question"], other["question"])})
    return made


def named(rows: Sequence[Row], mix: Sequence[str]) -> list[Row]:
    """Some questions to a manual by its name, by that of another, and by its own after that."""
    made = list[Row]()
    for row in rows:
        own, asked = row["documents"], row["question"].rstrip("?. ")
        made.append(row | {"question": f"{asked} in {own.capitalize()}?"})
        for other in (name for name in mix if name != own):
            before = f"{asked} in {other.capitalize()}?"
            made.append(row | {"question": before, "kind": "absent"})
            after = f"And in {own.capitalize()}?"
            told = {"kind": "short", "told": f"{before} {after}"}
            made.append(row | told | {"before": before, "question": after})
    return made


def ask(index: Retriever, part: str, name: str, rows: Sequence[Row]) -> Iterator[Line]:
    """Ask an index all rows."""
    asked = [row["question"] for row in rows]
    history = [[row["before"]] if row.get("before") else [] for row in rows]
    for row, said, result in zip(rows, asked, index.search(asked, history=history), strict=True):
        yield line_of(part, name, row, row.get("told", said), result)


def lines(folder: Path, preset: str = DEFAULT_PRESET) -> Iterator[Line]:
    """Ask all questions."""
    for asked in questions_of(folder, preset):
        yield from ask(*asked)


def questions_of(
    folder: Path, preset: str = DEFAULT_PRESET
) -> Iterator[tuple[Retriever, str, str, list[Row]]]:
    """All questions, with the index that they are asked of, their part, and its name."""
    uec, corpora = shipped(preset), corpora_of(folder)
    tables, follow_ups = read_tables("first_week", "own_words"), read_tables("follow_ups")
    for name, passages in corpora.items():
        rng, index = random.Random(f"{SEED} {name}"), index_of(uec, passages)
        rows = [row for row in tables if row["documents"] == name]
        yield index, "manuals", name, rows
        further = [row for row in follow_ups if row["documents"] == name]
        yield index, "chats", name, chats(rows, further, rng)
        yield index, "typed", name, typed(name, rows, corpora, rng)
    for mix in MIXES:
        passages = [
            Passage(f"{name}/{one.id}", one.text, one.metadata | {"source": f"{name}/{source}"})
            for name in mix
            for one in corpora.get(name, [])
            for source in [one.metadata.get("source", "")]
        ]
        rows = [
            row
            for name in mix
            for kind, most in (("ambiguous", None), ("ordinary", CLEAR))
            for row in [r for r in tables if (r["documents"], r["kind"]) == (name, kind)][:most]
        ]
        index = index_of(uec, passages)
        yield index, "mixes", "+".join(mix), rows
        yield (
            index,
            "named",
            "+".join(mix),
            named([r for r in rows if r["kind"] != "ambiguous"], mix),
        )


def record(
    folder: Manuals,
    out: Annotated[Path, typer.Argument(help="Write the record here.")],
    preset: Annotated[str, typer.Option(help="Of `UEC`.")] = DEFAULT_PRESET,
) -> None:
    """Ask all questions, and write what is said of them."""
    with out.open("w", encoding="utf-8") as file:
        for line in lines(folder, preset):
            file.write(json.dumps(asdict(line), ensure_ascii=False) + "\n")
    print_shares(read(out))


def read(path: Path) -> list[Line]:
    """Read a record."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Line(**{**row, "readings": [(t, ids) for t, ids in row["readings"]]}) for row in rows]


def shares(record: Sequence[Line]) -> dict[tuple[str, str], tuple[float, int]]:
    """The share of right decisions of each part and kind, and their number."""
    right = defaultdict[tuple[str, str], list[bool]](list)
    for line in record:
        right[line.part, line.kind].append(bool(line.right))
    return {key: (sum(each) / len(each), len(each)) for key, each in right.items()}


def print_shares(new: Sequence[Line], old: Sequence[Line] = ()) -> None:
    """Print the shares of right decisions, beside those of an older record."""
    before, table = shares(old), list[list[str]]()
    for key, (share, count) in shares(new).items():
        known = [f"{before[key][0]:.3f}"] if key in before else []
        table.append([*key, str(count), f"{share:.3f}", *known])
    manuals = [share for (part, _), (share, _) in shares(new).items() if part == "manuals"]
    table.append(["manuals", "mean of the kinds", "", f"{sum(manuals) / len(manuals):.4f}"])
    print_table("Right decisions", ["part", "kind", "questions", "now", "before"], table)


def moved(old: Line, new: Line) -> list[str]:
    """The names of the fields that differ; confidences by more than rounding."""
    fields = []
    for name, before in asdict(old).items():
        after = getattr(new, name)
        is_number = isinstance(before, float)
        differs = abs(before - after) > 1.5 * 10**-DIGITS if is_number else before != after
        if name == "readings":
            differs = [*map(list, before)] != [*map(list, after)]
        if differs:
            fields.append(name)
    return fields


def compare(
    old: Annotated[Path, typer.Argument(help="An older record.")],
    new: Annotated[Path, typer.Argument(help="A newer one.")],
    most: Annotated[int, typer.Option(help="Rows to print at most.")] = 60,
) -> None:
    """Print what differs between two records."""
    before, after = {one.key: one for one in read(old)}, {one.key: one for one in read(new)}
    rows, counts = list[list[str]](), Counter[str]()
    for key, line in after.items():
        if key not in before or not (fields := moved(before[key], line)):
            continue
        counts.update(fields)
        was = before[key]
        if {"action", "code", "right", "hits", "readings", "searched_as"} & {*fields}:
            told = (
                f"{one.action} {one.confidence:.3f} {'+' if one.right else '-'}"
                for one in (was, line)
            )
            rows.append([*key[:3], key[3][-70:], *told, " ".join(fields)])
    print_shares([*after.values()], [*before.values()])
    if rows:
        columns = ["part", "documents", "kind", "question", "before", "now", "fields"]
        print_table("Moved", columns, rows[:most])
    print(f"{len(before.keys() ^ after.keys())} questions are in one record alone.")
    print(f"{len(rows)} of {len(after)} differ in more than numbers; by field: {dict(counts)}.")


def asking(folder: Manuals) -> None:
    """Print what becomes of the questions to the manuals by the number from which it asks back.

    Needless are clarifying questions to an answerable one: of those with a confidence above 0.5.
    """
    lines = defaultdict[float, list[Line]](list)
    for index, part, name, rows in questions_of(folder):
        for least in ASKING if part == "manuals" else ():
            index.gate = Gate(clarify_from=least)
            lines[least] += ask(index, part, name, rows)
    table = list[list[str]]()
    for least, told in lines.items():
        right = {kind: share for (_, kind), (share, _) in shares(told).items()}
        sure = [one for one in told if KINDS[one.kind] == "answer" and one.confidence > 0.5]
        needless = sum(one.action == "clarify" for one in sure) / len(sure)
        mean = sum(right.values()) / len(right)
        numbers = (right["ambiguous"], right["ordinary"], needless, mean)
        table.append([f"{least:.2f}", *(f"{share:.3f}" for share in numbers), str(len(sure))])
    columns = ["from", "ambiguous ones asked back", "full questions answered", "needless"]
    print_table("Asking back", [*columns, "mean of the kinds", "confident"], table)


if __name__ == "__main__":
    run_script(record, compare, asking)
