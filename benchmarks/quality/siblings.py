"""Statements that differ in one place, and questions that similarity cannot read.

    python -m benchmarks.quality.siblings [MANUALS]

Planted are the statements of questions/siblings.toml, as sentences, as rows of a table ("Cabin:
Otter, Price in euros: 35") of which each is a passage, and as one table of a file that is cut into
passages. Asked is for values that are there (plain), for values that nothing is said of (absent),
for what is more or less than a value or an exception (fitting), and for what none is (none).

Printed is what becomes of the questions with and without reading siblings. With the manuals of
`counterevidence`, what it says that the first hits are siblings none of which fits is learned, as
the log of the ratio of how often that is so where the answer is there, of questions made of the
manuals' passages and those planted, and where it is not.
"""

from __future__ import annotations

import tomllib
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from unittest.mock import patch

import typer

from benchmarks.quality.shared import index_of, shipped
from benchmarks.tables import print_table
from uec_rag import UEC
from uec_rag.documents import passages_of
from uec_rag.documents.document import Content, Document, Page, Table, cut
from uec_rag.retrieval.words import Words
from uec_rag.stores.base import Passage

DATA = Path(__file__).with_name("questions") / "siblings.toml"
FORMS = ("sentences", "rows", "table")
KINDS = ("plain", "absent", "fitting", "none")
OUTCOMES = ("right", "wrong", "asked back", "handed over")


class Asked(NamedTuple):
    """A question, and words of which a passage that answers has any; empty if none does."""

    kind: str
    question: str
    good: tuple[str, ...]


def planted() -> list[dict[str, Any]]:
    """Read the sets of statements."""
    found: list[dict[str, Any]] = tomllib.loads(DATA.read_text(encoding="utf-8"))["planted"]
    return found


def passages(one: dict[str, Any], form: str) -> list[Passage]:
    """The passages of a set in a form."""
    named = [*zip(one["names"], one["values"], strict=True)]
    last = one["names"][-1]
    if form == "sentences":
        said = [one["statement"].format(name=name, value=value) for name, value in named]
        said += [
            one["exception" if name == last else "usual"].format(name=name) for name, _ in named
        ]
        return [Passage(str(at), text) for at, text in enumerate(said)]
    rows = [(name, str(value), one["cells"][name == last]) for name, value in named]
    table = Table((), tuple(one["columns"]), tuple(rows))
    if form == "rows":
        return [Passage(str(at), text) for at, text in enumerate(table.text().splitlines())]
    _, sections = cut(Content([Page([table])]))
    return passages_of([Document("prices.csv", sections)], size=200)


def questions(one: dict[str, Any]) -> Iterator[Asked]:
    """The questions on a set, with what answers them."""
    names, values = one["names"], one["values"]
    for name in names[::2]:
        yield Asked("plain", one["plain"].format(name=name), (name,))
    for name in one["absent"]:
        yield Asked("absent", one["plain"].format(name=name), ())
    yield Asked("fitting", one["more"].format(value=values[-3]), (*names[-2:],))
    yield Asked("fitting", one["less"].format(value=values[2]), (*names[:2],))
    yield Asked("fitting", one["not"], (names[-1],))
    yield Asked("none", one["none"], ())


def outcome(asked: Asked, result: Any) -> str:
    """What became of a question; right if a hit that answers is among those answered from."""
    texts = [passage.text for passage in result.passages[:4]]
    fits = any(
        word in text for word in asked.good for text in texts[: 1 if asked.kind == "fitting" else 4]
    )
    if result.decision.action == "answer":
        return "right" if fits else "wrong"
    if result.decision.action == "clarify":
        return "asked back" if fits else "wrong"
    return "handed over"


def ask(
    ensembles: dict[str, UEC], others: list[Passage]
) -> dict[tuple[str, str, str], Counter[str]]:
    """Ask all questions; count outcomes by form, language and kind."""
    counts = defaultdict[tuple[str, str, str], Counter[str]](Counter)
    for form in FORMS:
        for one in planted():
            preset = "english" if one["language"] == "en" else "multilingual"
            index = index_of(ensembles[preset], [*others, *passages(one, form)])
            asked = [*questions(one)]
            found = index.search([each.question for each in asked], k=4).results
            for each, result in zip(asked, found, strict=True):
                counts[form, one["language"], each.kind][outcome(each, result)] += 1
    return counts


def main(others: Annotated[Path | None, typer.Argument()] = None) -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    uec = {preset: shipped(preset) for preset in ("english", "multilingual")}
    told = {"siblings read": ask(uec, [])}
    with patch.object(Words, "tell_apart", lambda self: self):
        told["similarity alone"] = ask(uec, [])
    for place, label in ((0, "form"), (1, "language")):
        rows = []
        for way, counts in told.items():
            for name in dict.fromkeys(key[place] for key in counts):
                for kind in KINDS:
                    total = sum(
                        (c for key, c in counts.items() if key[place] == name and key[2] == kind),
                        Counter[str](),
                    )
                    rows.append([way, name, kind, *(str(total[each]) for each in OUTCOMES)])
        print_table(f"By {label}", ["", label, "kind", *OUTCOMES], rows)


if __name__ == "__main__":
    typer.run(main)
