"""The sets on which a piece of evidence is tried: of documents, and contexts in which it can tell.

Documents are manuals (`golden`), statements (questions/statements.json), and, of DATA, `absent`,
`logic` and `handbooks`. A context is a small set that was made so that some rule can fire: variants
of products, people, two questions in one, follow-ups to another thing, numbers in words, steps,
headings apart from what is below them, questions in messages, manuals in the folders of one index.
"""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, cycle, product
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.quality.first_week import passages_in
from benchmarks.quality.golden import KINDS, named
from benchmarks.quality.logic import corpora_of
from benchmarks.quality.shared import TABLES, index_of, numbered, read_tables, relevant_ids, shipped
from uec_rag import UEC, Retriever
from uec_rag.documents import passages_of, read_folder
from uec_rag.questions.query import TurnLike, turns_of
from uec_rag.retrieval.results import Result
from uec_rag.stores.passage import Passage

_ASKS = re.compile(r"(how|what|when|where|who|which|can|do|is|are)\b", re.IGNORECASE)
_WANTS = {"answer": "answer", "ask": "clarify", "refuse": "abstain", "hand": "abstain"}
_OF_ABSENT = {"nothing": "abstain", "vague": "clarify"}
_OF_HANDBOOKS = {"un": "abstain", "amb": "clarify"}
_OF_TRIES = {"far": "abstain", "near": "abstain", "thanks": "abstain", "ambiguous": "clarify"}
_OTHERS = ["Parcels leave on Fridays.", "Letters are read on the same day.", "The kiln is hot."]
FOLDERS = ("git", "cargo", "uv")
"""The manuals whose questions name their folder."""


class Asked(NamedTuple):
    """A question of a set, and what is right: an action, with a hit of each of some sets of ids."""

    set: str
    corpus: str
    index: Retriever
    question: str
    wants: str
    right: Sequence[set[str]] = ()
    before: Sequence[TurnLike] = ()
    kind: str = ""

    def is_right(self, result: Result) -> bool:
        """Whether what is decided is right, and the hits are."""
        return result.decision.action == self.wants and self.has_hits(result)

    def is_wrong(self, result: Result) -> bool:
        """Whether it is answered, though nothing answers it, or not with what does."""
        is_answer = self.wants == "answer" and self.has_hits(result)
        return result.decision.action == "answer" and not is_answer

    def has_hits(self, result: Result) -> bool:
        """Whether a hit of each set is there, if it is to be answered."""
        return self.wants != "answer" or (
            bool(self.right) and all(not ids.isdisjoint(result.ids) for ids in self.right)
        )


def results(rows: Sequence[Asked]) -> Iterator[tuple[Asked, Result]]:
    """Each question with its result, those of an index asked in one call."""
    for index in {id(row.index): row.index for row in rows}.values():
        some = [row for row in rows if row.index is index]
        history = [[*row.before] for row in some]
        found = index.search([row.question for row in some], history=history)
        yield from zip(some, found, strict=True)


def statements(uec: UEC, name: str = "statements") -> Iterator[Asked]:
    """The questions over our own statements, or over "names" that these have or have not."""
    for corpus in json.loads((TABLES / f"{name}.json").read_text(encoding="utf-8")):
        index = index_of(uec, numbered(corpus["texts"]))
        for row in corpus["questions"]:
            right = [{*map(str, row["right"])}]
            action = _OF_ABSENT.get(row["kind"], "answer")
            yield Asked(name, corpus["set"], index, row["q"], action, right, kind=row["kind"])


def absent(uec: UEC, folder: Path) -> Iterator[Asked]:
    """The questions of DATA/absent."""
    for name in ("plain", "nothing", "vague"):
        for corpus in _read(folder / "absent" / f"{name}.json"):
            index = index_of(uec, numbered(corpus["texts"]))
            for row in corpus["questions"]:
                kind = name if row.get("ask", True) else "one"
                action = _OF_ABSENT.get(kind, "answer")
                right = [{*map(str, row.get("right", ()))}]
                yield Asked("absent", corpus["set"], index, row["q"], action, right, kind=kind)


def logic(uec: UEC, folder: Path) -> Iterator[Asked]:
    """The questions of DATA/logic that no rule was made for."""
    for name in ("ordinary", "forms"):
        for place, (_, _, texts, rows) in enumerate(corpora_of(name, folder / "logic")):
            index = index_of(uec, numbered(texts))
            for row in rows:
                if action := _WANTS.get(row["right"], ""):
                    right = [{*map(str, row["passages"])}]
                    yield Asked("logic", f"{name} {place}", index, row["q"], action, right)


def handbooks(uec: UEC, folder: Path) -> Iterator[Asked]:
    """The questions of DATA/handbooks, and contexts made of them: double ones, headings apart."""
    for path in sorted(filter(Path.is_dir, (folder / "handbooks").iterdir())):
        passages, rows = passages_of(read_folder(path / "docs")), _read(path / "questions.json")
        index, ids = index_of(uec, passages), defaultdict[str, set[str]](set)
        for passage in passages:
            for key in ("title", "document_title"):
                ids[str(passage.metadata.get(key))].add(passage.id)
        right = {
            row["q"]: set().union(*(ids[name] for name in row["titles"] or ())) for row in rows
        }
        for row in rows:
            action = _OF_HANDBOOKS.get(row["kind"], "answer")
            messages = zip(cycle(("user", "assistant")), row["history"], strict=False)
            hits, before = [right[row["q"]]], turns_of(messages)
            yield Asked("handbooks", path.name, index, row["q"], action, hits, before)
        plain, absent = (
            [row["q"] for row in rows if row["kind"] == kind and _ASKS.match(row["q"])]
            for kind in ("easy", "un")
        )
        pairs = [(a, b) for a, b in combinations(plain, 2) if right[a].isdisjoint(right[b])]
        for head, tail in random.Random(0).sample(pairs, 40):
            both = [right[head], right[tail]]
            yield Asked("double", path.name, index, _joined(head, tail), "answer", both)
        for head, tail in product(plain[:10], absent[:3]):
            yield Asked("double", path.name, index, _joined(head, tail), "abstain")
        yield from elements(uec, path, rows)


def written(uec: UEC, folder: Path | None, *, has_questions: bool = True) -> Iterator[Asked]:
    """Questions to passages with written ones: "written", like these, and beside the point.

    They are of written/library.json and, of DATA, the handbooks. The set of each is its kind.

    `has_questions`: whether the written ones stand beside their passages.
    """
    here = _read(TABLES.parent / "written" / "library.json")
    sections = [
        (f"# {row['title']}\n\n{row['text']}", {"title": row["title"]}, row)
        for row in here["sections"]
    ]
    yield from _to_sections(uec, "library", sections, here["questions"], (), has_questions)
    for path in sorted((folder / "handbooks").glob("*/") if folder else ()):
        beside = {(row["source"], row["title"]): row for row in _read(path / "asked.json")}
        sections = []
        for passage in passages_of(read_folder(path / "docs")):
            known = passage.metadata
            key = known["source"], known.get("title") or known.get("document_title")
            sections.append((passage.text, known, beside.get(key)))
        pairs = [row for row in _read(path.parent / "pairs.json") if row["folder"] == path.name]
        rows = [row for row in _read(path / "questions.json") if not row["history"]]
        yield from _to_sections(uec, path.name, sections, pairs, rows, has_questions)


def _to_sections(
    uec: UEC,
    corpus: str,
    sections: Sequence[tuple[str, dict[str, Any], dict[str, Any] | None]],
    pairs: Sequence[dict[str, Any]],
    rows: Sequence[dict[str, Any]],
    has_questions: bool,
) -> Iterator[Asked]:
    index, ids, metadatas = Retriever(uec), defaultdict[str, set[str]](set), list[dict[str, Any]]()
    for at, (_, known, beside) in enumerate(sections):
        lines = (
            [*beside["questions"], ", ".join(beside["names"])] if beside and has_questions else []
        )
        metadatas.append({**known, "questions": lines})
        for key in ("title", "document_title"):
            ids[str(known.get(key))].add(str(at))
    index.add([text for text, *_ in sections], [*map(str, range(len(sections)))], metadatas)
    asked = [(row["kind"], row["q"], row["titles"] or ()) for row in rows]
    for row in pairs:
        titles = row.get("titles") or [row["title"]]
        asked += [
            (kind, row[kind], titles)
            for kind in ("words", "paraphrase", "neighbour")
            if kind in row
        ]
    for kind, question, titles in asked:
        right = [] if kind == "neighbour" else [set().union(*(ids[title] for title in titles))]
        wants = "abstain" if kind == "neighbour" else _OF_HANDBOOKS.get(kind, "answer")
        yield Asked(kind, corpus, index, question, wants, right)


def elements(uec: UEC, path: Path, rows: Sequence[dict[str, Any]]) -> Iterator[Asked]:
    """Single questions to headings and paragraphs apart, as some loaders give them."""
    texts, places = list[str](), defaultdict[str, set[str]](set)
    for file in sorted(path.glob("docs/**/*.md")):
        title = ""
        for line in filter(None, map(str.strip, file.read_text(encoding="utf-8").split("\n"))):
            if heading := re.match(r"#+\s+(.*)", line):
                title = heading[1].strip()
            else:
                places[title].add(str(len(texts)))
            texts.append(title if heading else line)
    index = index_of(uec, numbered(texts))
    for row in rows:
        if not row["history"] and row["kind"] != "amb":
            right = [set().union(*(places[name] for name in row["titles"] or ()))]
            action = _OF_HANDBOOKS.get(row["kind"], "answer")
            yield Asked("elements", path.name, index, row["q"], action, right)


def messages(asked: Sequence[Asked]) -> Iterator[Asked]:
    """Questions within messages, as people write them (questions/messages.json)."""
    frames = cycle(_read(TABLES / "messages.json"))
    for row, frame in zip(asked, frames, strict=False):
        parts = {"question": row.question, "lower": row.question[:1].lower() + row.question[1:]}
        yield row._replace(set="messages", question=frame.format(**parts))


def _joined(head: str, tail: str) -> str:
    return f"{head.rstrip('?')} and {tail[:1].lower()}{tail[1:]}"


def variants(uec: UEC) -> Iterator[Asked]:
    """Variants of products: those that are there, and others of the same values."""
    kinds, colours, sizes = ("desk", "floor", "wall"), ("grey", "red", "blue", "oak"), ("S", "L")
    rng, every = random.Random(1), [*product(kinds, colours, sizes)]
    there = rng.sample(every, 8)
    texts = [
        f"The {c} {k} lamp in size {s} costs {20 + 7 * n} euros."
        for n, (k, c, s) in enumerate(there)
    ]
    index = index_of(uec, numbered([*texts, *_OTHERS]))
    for kind, colour, size in every:
        question = f"How much is the {colour} {kind} lamp in size {size}?"
        is_there = (kind, colour, size) in there
        right = [{str(there.index((kind, colour, size)))}] if is_there else []
        yield Asked(
            "variants", "lamps", index, question, "answer" if is_there else "abstain", right
        )


def people(uec: UEC) -> Iterator[Asked]:
    """People whose names are like others', and names that nobody has."""
    there = (
        "Anna Berg, Ben Burg, Carl Lind, Dora Lindt, Ella Moor, Finn Moore, Gwen Hall, Hugo Holl"
    )
    absent = "Anna Burg, Ben Berg, Carl Lindt, Ella Moore, Ida Hall, Jan Hill, Dora Lund, Hugo Hale"
    names = there.split(", ")
    texts = [f"{name} sits in room {30 + at}." for at, name in enumerate(names)]
    index = index_of(uec, numbered([*texts, *_OTHERS]))
    for at, name in enumerate(names):
        yield Asked("people", "rooms", index, f"Where does {name} sit?", "answer", [{str(at)}])
    for name in absent.split(", "):
        yield Asked("people", "rooms", index, f"Where does {name} sit?", "abstain")


def follow_ups(uec: UEC) -> Iterator[Asked]:
    """Follow-ups to a thing that is there, to one that is not, and to another subject."""
    sets = [
        ("How long is the warranty of a {}?", "The warranty of a {} is {}.", "And a {}?",
         {"kettle": "two years", "toaster": "three years", "mixer": "one year", "oven": "a year"},
         ("fridge", "grill")),
        ("When does bus {} leave?", "Bus {} leaves {}.", "And bus {}?",
         {"12": "at noon", "14": "every hour", "20": "at night", "31": "on Sundays"}, ("17", "25")),
        ("What does {} weigh?", "{} weighs {} grams.", "What about {}?",
         {"Rye": "750", "Spelt": "500", "Oat": "400", "Wheat": "1000"}, ("Millet", "Barley")),
    ]  # fmt: skip
    for asks, states, follows, things, absent in sets:
        texts = [states.format(*thing) for thing in things.items()]
        index = index_of(uec, numbered([*texts, *_OTHERS]))
        for name, (at, thing) in product(things, enumerate(things)):
            before = [asks.format(name)]
            if name != thing:
                question = follows.format(thing)
                yield Asked("follow-ups", asks, index, question, "answer", [{str(at)}], before)
        for name, thing in product(things, absent):
            before = [asks.format(name)]
            yield Asked("follow-ups", asks, index, follows.format(thing), "abstain", (), before)
        for name in things:
            question, right = "When do parcels leave?", [{str(len(things))}]
            before = [asks.format(name)]
            yield Asked("follow-ups", asks, index, question, "answer", right, before)


def steps(uec: UEC) -> Iterator[Asked]:
    """What comes before or after a step, which no step says; and numbers in words."""
    texts = ["Open the lid.", "Fill the tank with water.", "Wait for ten minutes.", "Close it."]
    index = index_of(uec, numbered([*texts, *_OTHERS]))
    asked = ("What do I do after I fill the tank?", "What comes after opening the lid?")
    asked += ("What do I do before I wait?", "What is the next step after closing it?")
    for question in asked:
        yield Asked("steps", "tank", index, question, "abstain")
    facts = ["The tour of three hours costs 40 euros.", "The tour of 7 hours costs 90 euros."]
    facts += ["Hall 12 has two doors.", "Hall 15 has five doors."]
    index = index_of(uec, numbered([*facts, *_OTHERS]))
    asked = ("What does the tour of 3 hours cost?", "What does the tour of seven hours cost?")
    asked += ("How many doors has hall twelve?", "Which hall has 5 doors?")
    for at, question in enumerate(asked):
        yield Asked("numbers", "halls", index, question, "answer", [{str(at)}])


def manuals(uec: UEC, folder: Path) -> Iterator[Asked]:
    """The questions to manuals, and those that name one of several in the folders of one index."""
    tables, mixed, of_mixed = read_tables("first_week"), list[Passage](), list[dict[str, str]]()
    for name in sorted({row["documents"] for row in tables}):
        rows = [row for row in tables if row["documents"] == name]
        if not (passages := passages_in(folder, name)):
            continue
        index = index_of(uec, passages)
        for row, right in zip(rows, relevant_ids(passages, rows), strict=True):
            yield Asked("manuals", name, index, row["question"], KINDS[row["kind"]], [right])
        if name in FOLDERS:
            of_mixed += [row for row in rows if row["kind"] == "short"]
            for one in passages:
                source = f"{name}/{one.metadata.get('source', '')}"
                mixed.append(
                    Passage(f"{name}/{one.id}", one.text, one.metadata | {"source": source})
                )
    index = index_of(uec, mixed)
    rows = [row for row in named(of_mixed, FOLDERS) if not row.get("before")]
    for row, right in zip(rows, relevant_ids(mixed, rows), strict=True):
        wants = KINDS[row["kind"]]
        yield Asked("folders", "+".join(FOLDERS), index, row["question"], wants, [right])


def every(data: Path, folder: Path | None = None) -> list[Asked]:
    """All questions of DATA, of the contexts, and of a folder of manuals if there is one."""
    uec = shipped()
    asked = [*statements(uec), *statements(uec, "names")]
    for set_ in (absent, logic, handbooks):
        asked += set_(uec, data)
    contexts = (variants, people, follow_ups, steps, unfitted, first_tries, second_turns)
    for context in contexts:
        asked += context(uec)
    asked += first_tries(uec, "small_facts")
    whole = [row for row in asked if row.question.endswith("?") and not row.before]
    asked += messages([row for row in whole if row.set in ("handbooks", "statements")])
    return [*asked, *manuals(uec, folder), *short(uec, folder)] if folder else asked


def short(uec: UEC, folder: Path) -> Iterator[Asked]:
    """Questions of a few words to pytest's and Flask's documentation, whose clones FOLDER has.

    questions/short_sources.txt tells their commits, and the files that are read. A clone that is
    not there is passed over.
    """
    sources = (TABLES / "short_sources.txt").read_text(encoding="utf-8").split("\n")
    files, table = [line for line in sources if line.endswith(".rst")], read_tables("short")
    for name in filter(lambda name: (folder / name).is_dir(), ("pytest", "flask")):
        passages = passages_of(read_folder(folder / name, include=files))
        rows, index = [row for row in table if row["documents"] == name], index_of(uec, passages)
        for row, right in zip(rows, relevant_ids(passages, rows), strict=True):
            wants, kind = KINDS[row["kind"]], row["kind"]
            yield Asked("short", name, index, row["question"], wants, [right], kind=kind)


def unfitted(uec: UEC) -> Iterator[Asked]:
    """The questions over our own statements and first tries, to an ensemble that has no fit."""
    plain = UEC(uec.encoders)
    for row in [*statements(plain), *first_tries(plain)]:
        name = "unfitted" if row.set == "statements" else "tries, unfitted"
        yield row._replace(set=name)


def first_tries(uec: UEC, name: str = "first_tries") -> Iterator[Asked]:
    """What people type first, over ten sets of sentences of a shop, a pool, an API."""
    for corpus in _read(TABLES / f"{name}.json"):
        index = index_of(uec, numbered(corpus["texts"]))
        for row in corpus["questions"]:
            right, action = [{*map(str, row["right"])}], _OF_TRIES.get(row["kind"], "answer")
            yield Asked(
                corpus.get("context", "tries"),
                corpus["set"],
                index,
                row["q"],
                action,
                right,
                kind=row["kind"],
            )


def second_turns(uec: UEC) -> Iterator[Asked]:
    """Questions of `first_tries` that nothing answers, after one that was: the kind is its reply.

    Without one, a short one, a sentence, the passage. Last follow-ups, which are answered.
    """
    for corpus in _read(TABLES / "first_tries.json"):
        index = index_of(uec, numbered(corpus["texts"]))
        rows = [row for row in corpus["questions"] if row["kind"] in ("far", "near")]
        for at, row in enumerate(rows):
            first = corpus["first"][at % 2]
            passage = corpus["texts"][first["right"][0]]
            replies = {"none": "", **{key: first[key] for key in ("short", "sentence")}}
            for reply, text in (replies | {"passage": passage}).items():
                before = [("user", first["q"]), *([("assistant", text)] if text else [])]
                of = f"second, {row['kind']}"
                yield Asked(of, corpus["set"], index, row["q"], "abstain", (), before, reply)
        for row in corpus["follow_ups"]:
            before = [("user", row["before"][-1]), ("assistant", row["reply"])]
            right = [{*map(str, row["right"])}]
            yield Asked(
                "second", corpus["set"], index, row["q"], "answer", right, before, "follow-up"
            )


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
