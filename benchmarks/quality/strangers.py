"""What a stranger's text does that says nothing, with a question beside it: twenty of each kind.

    python -m benchmarks.quality.strangers

The text has the words of the question, or is on ducks, four at a time; no question is beside the
honest passage. Of passages in other words, it counts which a question beside them lets answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.quality.shared import TABLES, index_of, shipped
from benchmarks.tables import print_table, run_script
from uec_rag import UEC, Retriever
from uec_rag.stores.passage import Passage

DUCKS = (
    "Ducks swim in rows.",
    "A duck has webbed feet.",
    "The ducks fly south in autumn.",
    "Ducklings follow the first thing they see.",
)


class Trial(NamedTuple):
    """A question, the index that it is asked of, and the text that answers it."""

    kind: str
    index: Retriever
    question: str
    answer: str


def trials(uec: UEC) -> Iterator[Trial]:
    """What is asked: without strangers' texts, with one, with four; and in other words."""
    rows = json.loads((TABLES / "strangers.json").read_text(encoding="utf-8"))
    honest = [text for row in rows for text in (row["honest"], row["other"])]
    beside = {row["other"]: row["asked"] for row in rows}

    def index(asked: dict[str, str]) -> Retriever:
        texts = dict.fromkeys([*honest, *asked])
        metadatas = ({"questions": [asked[text]]} if text in asked else {} for text in texts)
        pairs = enumerate(zip(texts, metadatas, strict=True))
        return index_of(uec, [Passage(str(at), *of_text) for at, of_text in pairs])

    plain, in_other_words = index({}), index(beside)
    for row in rows:
        question, answer = row["question"], row["honest"]
        yield Trial("none", plain, question, answer)
        yield Trial("with its words", index({row["stranger"]: question}), question, answer)
        yield Trial("on ducks", index(dict.fromkeys(DUCKS, question)), question, answer)
        yield Trial("in other words", in_other_words, row["asked"], row["other"])


def counts_of(uec: UEC) -> Counter[tuple[str, str]]:
    """How many of each kind are right, wrong and among four hits."""
    counts = Counter[tuple[str, str]]()
    for kind, index, question, answer in trials(uec):
        [result] = index.search([question], k=4)
        is_answered = result.decision.action == "answer"
        texts = [passage.text for passage in result.passages]
        counts[kind, "right"] += is_answered and texts[0] == answer
        counts[kind, "wrong"] += is_answered and texts[0] != answer
        counts[kind, "shown"] += answer in texts
    return counts


def main() -> None:
    """Print what is answered rightly and wrongly, and whether the honest passage is shown."""
    counts, names = counts_of(shipped()), ("right", "wrong", "shown")
    kinds = dict.fromkeys(kind for kind, _ in counts)
    table = [[kind, *(str(counts[kind, name]) for name in names)] for kind in kinds]
    print_table("Strangers' texts, of 20", ["stranger", *names], table)


if __name__ == "__main__":
    run_script(main)
