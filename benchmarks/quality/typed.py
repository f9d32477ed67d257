"""Questions as people type them: with typos, after other text, two in one, comparing.

    python -m benchmarks.quality.typed FOLDER

FOLDER has the manuals of `first_week`, whose questions with an answer ("ordinary", "short") are
asked of `UEC()` as it comes

- as they are;
- with a letter missing from each of the two longest words, and the same with those corrected that
  are neither names nor codes, which is the most that correcting them could do;
- after a message of 1,000 characters: sentences of another manual, and a blank line;
- in pairs, joined by "and": two of a manual, or one with one that has no answer there ("absent");

and of every manual, "What is the difference between A and B?" for titles of its sections and, in
half of them, one title of another manual. Right is an answer with the passage among four hits; of a
pair, with that of each. All that is drawn is drawn with one seed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from benchmarks.quality.first_week import corpora_of, manuals_of
from benchmarks.quality.shared import Manuals, index_of, is_found, shipped
from benchmarks.tables import Tally, print_table, run_script
from uec_rag import Retriever
from uec_rag.evidence.words import names_in
from uec_rag.retrieval.results import Result
from uec_rag.stores.passage import Passage

SEED, MESSAGE, COMPARED = 0, 1000, 20
Row = dict[str, str]


def mistyped(question: str, rng: random.Random) -> str:
    """A question in which the two longest words lack a letter that is not their first."""
    words = question.split(" ")
    for place in sorted(range(len(words)), key=lambda at: -len(words[at]))[:2]:
        word = words[place]
        if len(word.rstrip("?.!,")) > 3:
            gone = rng.randrange(1, len(word.rstrip("?.!,")))
            words[place] = word[:gone] + word[gone + 1 :]
    return " ".join(words)


def corrected(question: str, typed: str) -> str:
    """A mistyped question whose words are put right, but for names and codes."""
    words = [word.strip("?.,!") for word in question.split(" ")]
    names = names_in(question, words)
    written = zip(question.split(" "), typed.split(" "), words, strict=True)
    return " ".join(
        own if plain.isalpha() and plain not in names else mistaken
        for own, mistaken, plain in written
    )


def message(passages: Sequence[Passage], rng: random.Random) -> str:
    """The beginning of a message: 1,000 characters of passages, on one line."""
    texts = rng.sample([" ".join(passage.text.split()) for passage in passages], 30)
    return " ".join(texts)[:MESSAGE].replace("?", ".")


def titles(passages: Sequence[Passage]) -> list[str]:
    """The titles of sections, of one to three words."""
    found = dict.fromkeys(str(passage.metadata.get("title", "")) for passage in passages)
    return [one for one in found if 1 <= len(one.split()) <= 3 and one.replace(" ", "").isalpha()]


def joined(one: str, other: str) -> str:
    """Two questions in one."""
    return f"{one.rstrip('?. ')} and {other[:1].lower()}{other[1:]}"


def ask(
    index: Retriever,
    name: str,
    corpora: Mapping[str, Sequence[Passage]],
    rows: Sequence[Row],
    tally: Tally,
) -> None:
    """Ask all kinds of questions of a manual."""
    rng = random.Random(f"{SEED} {name}")
    plain = [row for row in rows if row["kind"] in ("ordinary", "short")]
    absent = [row["question"] for row in rows if row["kind"] == "absent"]
    others = [other for other in corpora if other != name]
    asked = [row["question"] for row in plain]
    kinds = {
        "plain": asked,
        "typos": (typos := [mistyped(question, rng) for question in asked]),
        "typos, corrected": [*map(corrected, asked, typos)],
        "message": [
            f"{message(corpora[rng.choice(others)], rng)}.\n\n{question}" for question in asked
        ],
    }
    for kind, questions in kinds.items():
        for row, result in zip(plain, index.search(questions), strict=True):
            count(tally, kind, result, is_found(row, result))
    whole = [row for row in plain if row["kind"] == "ordinary"] or plain
    pairs = [*zip(whole, rng.sample(whole, len(whole)), strict=True)]
    pairs = [(one, other) for one, other in pairs if one is not other]
    for pair in pairs:
        [result] = index.search([joined(*(row["question"] for row in pair))])
        count(tally, "double", result, all(is_found(row, result) for row in pair))
    for question, row in zip(absent, rng.choices(whole, k=len(absent)), strict=True):
        [result] = index.search([joined(row["question"], question)])
        count(tally, "double, half absent", result, found=False)
    own, foreign = titles(corpora[name]), titles(corpora[rng.choice(others)])
    foreign = [title for title in foreign if title not in own]
    for _ in range(COMPARED if len(own) > 1 and foreign else 0):
        one, other = rng.sample(own, 2)
        for kind, right in (("comparing", other), ("comparing, half absent", rng.choice(foreign))):
            [result] = index.search([f"What is the difference between {one} and {right}?"])
            hit = {str(passage.metadata.get("title", "")) for passage in result.passages}
            count(tally, kind, result, {one, right} <= hit)


def count(tally: Tally, kind: str, result: Result, found: bool) -> None:
    """Count a question, its decision, and whether it is right as a question with an answer."""
    action = result.decision.action
    tally.note((kind,), action, *["found"] * found, *["right"] * (found and action == "answer"))


def main(folder: Manuals) -> None:
    """Print the decisions by kind of question."""
    corpora, tally, uec = corpora_of(folder), Tally(), shipped()
    for name, passages, rows in manuals_of(folder, "first_week"):
        ask(index_of(uec, passages), name, corpora, rows, tally)
    columns = ("answer", "clarify", "abstain", "found", "right")
    table = tally.rows(*columns, shares=True)
    print_table("Questions as they are typed", ["kind", "questions", *columns], table)


if __name__ == "__main__":
    run_script(main)
