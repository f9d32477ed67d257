"""What numbers that were set by hand are worth: each is replaced by its neighbours, one at a time.

    python -m benchmarks.quality.numbers MANUALS

The questions are those of `golden`; nothing is learned anew. Printed are, for each other value, the
mean over kinds of the share of right decisions on the manuals, that of the ambiguous questions, of
chats and of typed questions, and how many decisions become right and wrong. A number of which no
neighbour is worth less can go, or is for what these questions do not ask.
"""

from __future__ import annotations

from benchmarks.quality.golden import Line, ask, questions_of, shares
from benchmarks.quality.shared import Manuals, replaced
from benchmarks.tables import print_table, run_script

NUMBERS: dict[str, tuple[float, ...]] = {
    "confidence.decision._COST": (0.0, 1.0),
    "confidence.model.SURE": (0.5, 0.95),
    "clarify.outline._FUNCTION": (0.0, 1.0),
    "base.logistic.NEARLY": (0.8, 0.95),
    "clarify.readings._OFFERED": (0.01, 0.05),
    "ensemble.convolution._SHARE": (0.25, 0.5),
    "ensemble.convolution._SHARE_IF_REFERRED_TO": (1 / 3, 2 / 3),
    "retrieval.spelling._LIKELY": (0.0, 0.5),
}
"""The module of each number, its name, and the values to replace it by."""


def row(number: str, value: float | None, lines: list[Line], before: list[Line]) -> list[str]:
    """A row of the table."""
    found, pairs = shares(lines), [*zip(before, lines, strict=True)]
    manuals = [share for (part, _), (share, _) in found.items() if part == "manuals"]
    told = [sum(manuals) / len(manuals), found["manuals", "ambiguous"][0]]
    for part in ("chats", "typed"):
        own = [bool(one.right) for one in lines if one.part == part]
        told.append(sum(own) / len(own))
    won = sum(bool(new.right) > bool(old.right) for old, new in pairs)
    lost = sum(bool(new.right) < bool(old.right) for old, new in pairs)
    shown = "" if value is None else f"{value:g}"
    return [number, shown, *(f"{share:.3f}" for share in told), str(won), str(lost)]


def main(folder: Manuals) -> None:
    """Print the table."""
    other = [(number, value) for number, values in NUMBERS.items() for value in values]
    lines: list[list[Line]] = [[] for _ in (None, *other)]
    for asked in questions_of(folder):
        lines[0] += ask(*asked)
        for place, (number, value) in enumerate(other, 1):
            with replaced(number, value):
                lines[place] += ask(*asked)
    header = ["number", "value", "mean", "ambiguous", "chats", "typed", "won", "lost"]
    named: list[tuple[str, float | None]] = [("as they are", None), *other]
    told = zip(named, lines, strict=True)
    print_table("Right decisions", header, [row(*number, some, lines[0]) for number, some in told])


if __name__ == "__main__":
    run_script(main)
