"""The proof: decisions, ranking, conversations and removed answers, recorded and compared.

    python -m benchmarks.quality.proof DATA MANUALS --out FILE.json [--against OLD.json]

`UEC()` as it comes, threshold 0.5. Recorded are

- of each of the 820 questions to the twelve manuals, those of the first week and those in people's
  own words: the decision and its code, confidence, P(ambiguous), whether one of the four hits has
  the passage, and whether that is right as `first_week` says;
- of each of fourteen retrieval collections, at most 1,000 questions as `hybrid` draws them: nDCG@10
  and a hash of each question's first ten hits;
- of three sets of conversations: nDCG@10 behind the turns before, which `conversation` calls
  "ours", of turns that depend on these and of turns that stand alone;
- of the four collections that confidence was not learned from (`HELD_OUT` of
  `shipped_confidence`), up to 200 questions as they are, and the first 100 of these without their
  answers (`decisions.ordinary_set`): the AUROC of answerable over removed questions, and the shares
  with a confidence above 0.5.

With --against, what changed since an older record, and each question whose decision flipped, or
which is right in one of the two alone. MANUALS is verified first, see `manuals`.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from sklearn.metrics import roc_auc_score

from benchmarks.paper.data import load_collection
from benchmarks.paper.metrics import mean_ndcg
from benchmarks.quality import conversation, manuals
from benchmarks.quality.decisions import ordinary_set
from benchmarks.quality.first_week import KINDS, ask, manuals_of
from benchmarks.quality.hybrid import searched
from benchmarks.quality.shared import Data, Manuals, sampled, shipped
from benchmarks.quality.shipped_confidence import HELD_OUT
from benchmarks.tables import print_table, run_script
from uec_rag import UEC

SETS = "fiqa_small,cranfield,claude_docs_rag,medline,cisi,chroma_chunking,belebele_en"
SETS += ",tydiqa_goldp_en,squad_sample,xquad_en,xquad_ru,xquad_zh,xquad_ar,belebele_de"
THRESHOLD = 0.5
MOST = 1000  # questions of a collection
MOST_REMOVED = 200  # the same where answers are removed
_HASH = 4  # digits of a question's hash: of 65,536 changes one is not seen

Figures = dict[str, dict[str, float]]


class Answer(NamedTuple):
    """What became of a question to a manual."""

    manual: str
    kind: str
    question: str
    action: str
    code: str
    found: bool
    right: bool
    confidence: float
    underspecified: float

    @property
    def outcome(self) -> str:
        """The decision, and whether it is right."""
        return f"{self.action}, {'right' if self.right else 'wrong'}, {self.confidence:.2f}"


def answers(uec: UEC, folder: Path) -> list[Answer]:
    """Ask the twelve manuals."""
    told = []
    for manual, passages, rows in manuals_of(folder, "first_week", "own_words"):
        for one in ask(uec, passages, rows):
            decision = one.decision
            numbers = (round(float(p), 4) for p in (decision.confidence, decision.underspecified))
            asked = (manual, one.kind, one.question, decision.action, decision.code)
            told.append(Answer(*asked, one.found, one.right, *numbers))
    return told


def rankings(uec: UEC, data: Path) -> dict[str, dict[str, Any]]:
    """nDCG@10, and the hash of each question's first ten hits, of each collection."""
    ranked = {}
    for name in SETS.split(","):
        collection = sampled(load_collection(data / name), MOST)
        ids = [list(hits) for hits in searched(uec, collection)]
        hashes = "".join(_hash(row[:10]) for row in ids)
        ranked[name] = {"ndcg10": mean_ndcg(collection, ids), "hashes": hashes}
    return ranked


def _hash(ids: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:_HASH]


def conversations(uec: UEC, data: Path) -> dict[str, float]:
    """nDCG@10 of later turns, by set and kind."""
    found = {}
    for name in conversation.SETS.split(","):
        some = conversation.load_conversations(data / name)
        scores = conversation.ours(uec, some, [turn.history for turn in some.turns])
        for kind, chosen in some.kinds.items():
            found[f"{name}, {kind}"] = float(scores[chosen].mean())
    return found


def removed_answers(uec: UEC, data: Path) -> dict[str, dict[str, float]]:
    """How far answerable questions are told from the same without their answers, by collection."""
    told = {}
    for name in HELD_OUT:
        examples = ordinary_set(uec, data / name, MOST_REMOVED)
        there = np.array([one.label == "answerable" for one in examples])
        sure = np.array([one.confidence for one in examples])
        held = np.array([one.in_corpus for one in examples])
        told[name] = {
            "AUROC of in_corpus": float(roc_auc_score(there, held)),
            "AUROC of confidence": float(roc_auc_score(there, sure)),
            "answerable answered": float((sure[there] > THRESHOLD).mean()),
            "removed answered": float((sure[~there] > THRESHOLD).mean()),
        }
    return told


def record(data: Path, folder: Path) -> dict[str, Any]:
    """Measure everything; the seconds of each part go to standard error."""
    uec = shipped()
    parts = {
        "questions": partial(answers, uec, folder),
        "ranking": partial(rankings, uec, data),
        "conversations": partial(conversations, uec, data),
        "removed": partial(removed_answers, uec, data),
    }
    made = {name: version(name) for name in ("numpy", "onnxruntime", "tokenizers")}
    measured: dict[str, Any] = {"made with": {"python": python_version(), **made}}
    for name, measure in parts.items():
        start = time.perf_counter()
        measured[name] = measure()
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return measured


def write(measured: Mapping[str, Any], path: Path) -> None:
    """Write a record, a line for each question and collection, so that versions can be compared."""
    parts = []
    for name, part in measured.items():
        if isinstance(part, list):
            rows, ends = [json.dumps(row, ensure_ascii=False) for row in part], "[]"
        else:
            rows, ends = [f"{json.dumps(key)}: {json.dumps(part[key])}" for key in part], "{}"
        parts.append(f"{json.dumps(name)}: {ends[0]}\n" + ",\n".join(rows) + f"\n{ends[1]}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """Read a record."""
    measured = json.loads(path.read_text(encoding="utf-8"))
    return {**measured, "questions": [Answer(*row) for row in measured["questions"]]}


def figures(measured: Mapping[str, Any]) -> Figures:
    """What a record comes to, by title and name."""
    asked: list[Answer] = measured["questions"]
    of_kind = {kind: [one.right for one in asked if one.kind == kind] for kind in KINDS}
    shares = {kind: float(np.mean(right)) for kind, right in of_kind.items() if right}
    ranked = {name: float(one["ndcg10"]) for name, one in measured["ranking"].items()}
    removed: dict[str, dict[str, float]] = measured["removed"]
    measures = dict.fromkeys(measure for row in removed.values() for measure in row)
    return {
        "Share of correct decisions": shares | {"mean of the kinds": _mean(shares)},
        "nDCG@10": ranked | {"mean": _mean(ranked)},
        "nDCG@10 of later turns": dict(measured["conversations"]),
        "Removed answers": {
            f"{measure}, {name}": value
            for measure in measures
            for of_set in [{name: row[measure] for name, row in removed.items()}]
            for name, value in (of_set | {"mean": _mean(of_set)}).items()
        },
    }


def _mean(values: Mapping[str, float]) -> float:
    return float(np.mean([*values.values()]))


def flips(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[Answer, Answer]]:
    """Each question that is decided otherwise, or is right in one record alone."""
    known = {one[:3]: one for one in before["questions"]}
    pairs = [(known[one[:3]], one) for one in after["questions"] if one[:3] in known]
    return [(a, b) for a, b in pairs if (a.action, a.right) != (b.action, b.right)]


def reranked(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, int]:
    """How many questions of each collection have other hits, or another order of them."""
    old, new = before["ranking"], after["ranking"]
    return {name: _differing(old[name]["hashes"], new[name]["hashes"]) for name in new}


def _differing(old: str, new: str) -> int:
    places = range(0, max(len(old), len(new)), _HASH)
    return sum(old[place : place + _HASH] != new[place : place + _HASH] for place in places)


def print_record(after: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
    """Print the tables of a record, beside those of an older one."""
    known = figures(before) if before else {}
    for title, values in figures(after).items():
        rows = []
        for name, value in values.items():
            old = known.get(title, {}).get(name)
            compared = [] if old is None else [f"{old:.4f}", _signed(value - old)]
            rows.append([name, f"{value:.4f}", *compared])
        header = ["", "now", *(["before", "difference"] if before else [])]
        print_table(title, header, rows)
    if before is None:
        return
    old, new = known["nDCG@10"], figures(after)["nDCG@10"]
    name = max(new, key=lambda name: abs(new[name] - old[name]))
    count = sum(reranked(before, after).values())
    print(f"\nThe largest difference in nDCG@10 is {_signed(new[name] - old[name])} ({name}).")
    print(f"{count} questions to the collections have other first ten hits, or another order.")
    changed = flips(before, after)
    print(f"{len(changed)} questions to the manuals are decided otherwise, or right in one alone.")
    rows = [[a.manual, a.kind, a.question, a.outcome, b.outcome] for a, b in changed]
    print_table("Flips", ["manual", "kind", "question", "before", "now"], rows)


def _signed(difference: float) -> str:
    if not difference:
        return "0"
    return f"{difference:+.4f}" if abs(difference) >= 5e-5 else f"{difference:+.0e}"


def main(
    data: Data,
    folder: Manuals,
    out: Annotated[Path, typer.Option(help="Write the record here, as JSON.")],
    against: Annotated[Path | None, typer.Option(help="An older record.")] = None,
) -> None:
    """Record everything, and compare it."""
    before = read(against) if against else None
    manuals.verify(folder)
    after = record(data, folder)
    write(after, out)
    print_record(after, before)


if __name__ == "__main__":
    run_script(main)
