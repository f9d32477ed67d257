"""A second opinion: what a decision model's probability over ten passages is worth.

    python -m benchmarks.quality.opinion MANUALS               # the tables
    python -m benchmarks.quality.opinion MANUALS --write DATA  # learn the default from DATA first

The questions are those of `advisor.py` to the twelve manuals, and those to the three further ones.
The probabilities (questions/opinions.json) are a language model's, which read ten passages of each
borderline question in random order, and gave for each P(it contains the answer), and P(the question
is ambiguous); it saw neither the kind of the question nor what was expected. It also read the
passages of questions made of each manual, and of questions to four collections, with and without
those that answer them. So they are those of a strong reader, an upper bound: "noise" adds a normal
number to its log odds, and "flipped" turns a tenth of them round. A passage that it did not read
counts as 0.02.

"default" are the weights that come with the package, which were learned on the four collections
with noise, so that the AUROC is what the real Jev was measured at (0.69 to 0.83); "fitted" are
those of `Gate.fit_from` on questions made of the manual, with the same noise; "0.5" answers above a
probability of 0.5 by the model alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import random
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import typer

from benchmarks.paper.data import load_collection
from benchmarks.quality.advisor import read_replies, shares
from benchmarks.quality.first_week import KINDS, corpora_of, passages_in
from benchmarks.quality.shared import (
    TABLES,
    Manuals,
    index_collection,
    index_of,
    is_found,
    read_tables,
    sampled,
    shipped,
)
from benchmarks.tables import print_table
from uec_rag import Advice, Gate, Retriever
from uec_rag.advice.ask import Advisor
from uec_rag.advice.learn import OwnCase, auroc, fit_opinion
from uec_rag.advice.opinion import READ, OpinionModel, odds_of, share_of, shipped_opinion_model
from uec_rag.confidence import model as models
from uec_rag.confidence.model import fit_logistic, log_odds
from uec_rag.documents.questions import questions_of
from uec_rag.retrieval.gate import own_cases
from uec_rag.retrieval.hits import Result, SearchResult
from uec_rag.retrieval.pending import pending_on_results
from uec_rag.retrieval.policy import DOUBT
from uec_rag.stores.base import Passage

FURTHER = ("restic", "madetech", "caddy")
LEARNED_ON = ("squad_sample", "chroma_chunking", "fiqa_small", "boolq_dev")
QUESTIONS = 30  # of each collection
DRAWS = 5
OWN = 26  # questions made of each of the twelve manuals
JEV = 0.76  # AUROC, the middle of what the real one was measured at
UNREAD = 0.02
ALONE = OpinionModel(confidence=0.0, contains=1.0, bias=0.0)


@dataclass(frozen=True)
class Judgement:
    """What the language model said of a question: P(ambiguous), and P(answers) by passage."""

    unclear: float
    passages: Mapping[str, float]

    def shares(self, texts: Sequence[str]) -> list[float]:
        """P(each text contains the answer)."""
        return [self.passages.get(hash_of(text), UNREAD) for text in texts]


def hash_of(text: str) -> str:
    """The key of a passage, whatever its layout."""
    return hashlib.sha1(" ".join(text.split()).encode(), usedforsecurity=False).hexdigest()[:10]


Judgements = Mapping[str, Mapping[str, Judgement]]


def read_judgements() -> Judgements:
    """The judgements by documents and question."""
    made = defaultdict[str, dict[str, Judgement]](dict)
    for row in json.loads((TABLES / "opinions.json").read_text(encoding="utf-8")):
        made[row["documents"]][row["question"]] = Judgement(row["unclear"], row["passages"])
    return made


class Reader:
    """A decision model that replays the judgements, with noise in their log odds."""

    def __init__(
        self,
        judgements: Mapping[str, Judgement],
        noise: float = 0.0,
        flipped: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.judgements, self.noise, self.flipped, self.seed = judgements, noise, flipped, seed
        self.calls = Counter[str]()

    def __call__(self, state: Mapping[str, Any], questions: Mapping[str, Any]) -> object:
        """Answer a request."""
        question, texts = state["question"], [*state["passages"].values()]
        self.calls[question] += 1
        known = self.judgements.get(question)
        if known is None:
            return {}
        rng = random.Random(f"{self.seed} {question} {[*map(hash_of, texts)]}")
        each = known.shares(texts)
        sign = -1 if rng.random() < self.flipped else 1
        yes = share_of(sign * odds_of(max(each)) + rng.gauss(0, self.noise))
        weights = [math.exp(odds_of(one) + rng.gauss(0, self.noise)) for one in each]
        told = {str(at): yes * one / sum(weights) for at, one in enumerate(weights, start=1)}
        answers = {
            "contains": {"type": "noul", "noul": yes},
            "passage": {"type": "choice", "probabilities": told | {"none": 1 - yes}},
        }
        if "meaning" in questions:
            unclear = share_of(odds_of(known.unclear) + rng.gauss(0, self.noise))
            names = [*questions["meaning"]["criteria"]][:-1]
            told = dict.fromkeys(names, (1 - unclear) / len(names)) | {"unclear": unclear}
            answers["meaning"] = {"type": "choice", "probabilities": told}
        return {"answers": answers}


def chat_model(
    judgements: Mapping[str, Judgement], replies: Mapping[str, Advice]
) -> Callable[[str, Sequence[str]], Advice | None]:
    """The verdicts of the same reader as a chat model gives them, with the options it once gave."""

    def advise(question: str, texts: Sequence[str]) -> Advice | None:
        known, reply = judgements.get(question), replies.get(question, Advice("no"))
        if known is None:
            return None
        each = known.shares(texts[:READ])
        if known.unclear > 0.5:
            return Advice("clarify", reply.options)
        if max(each) > 0.5:
            return Advice("answer", passage=1 + each.index(max(each)))
        return Advice("no", rewrite=reply.rewrite)

    return advise


@dataclass(frozen=True)
class Manual:
    """A manual with its questions and what a search finds for them."""

    index: Retriever
    rows: list[dict[str, str]]
    found: SearchResult
    own: list[OwnCase]

    def decide(self, gate: Gate) -> list[Result]:
        """What a gate makes of the questions."""
        pending = pending_on_results(gate, self.found, self.found.queries, self.search)
        pairs = pending.finish()
        return [replace(found, decision=decision).first(4) for decision, found in pairs]

    def search(self, queries: Sequence[str]) -> SearchResult:
        """Search for rewrites."""
        return self.index.search(queries, READ)


def manuals_of(folder: Path, names: Sequence[str] = ()) -> dict[str, Manual]:
    """The twelve manuals, or others, with their questions."""
    uec, tables = shipped(), ("further",) if names else ("first_week", "own_words")
    corpora = {name: passages_in(folder, name) for name in names} or corpora_of(folder)
    made = {}
    for name, passages in corpora.items():
        rows = [row for row in read_tables(*tables) if row["documents"] == name]
        index = index_of(uec, passages)
        found = index.search([row["question"] for row in rows], READ)
        made[name] = Manual(index, rows, found, [] if names else judged_cases(index, name))
    return made


def judged_cases(index: Retriever, name: str) -> list[OwnCase]:
    """The questions made of a manual that were judged; a passage more would draw others."""
    judged = read_judgements()[name]

    def chosen(passages: Sequence[Passage], most: int) -> dict[str, list[str]]:
        made = questions_of(passages, len(passages))
        return dict([one for one in made.items() if one[0] in judged][:most])

    with patch("uec_rag.retrieval.gate.questions_of", chosen):
        return own_cases(index, OWN, 4)


def table_of(
    manuals: Mapping[str, Manual], gates: Mapping[str, Callable[[str, int], Gate]], draws: int
) -> list[list[str]]:
    """Right by kind, wrong answers and calls of each gate, the means of several draws."""
    rows = [row for manual in manuals.values() for row in manual.rows]
    table = []
    for name, make in gates.items():
        several = []
        for seed in range(draws if "noise" in name or "flipped" in name else 1):
            found, calls = list[Result](), Counter[str]()
            for documents, manual in manuals.items():
                gate = make(documents, seed)
                results = manual.decide(gate)
                found += results
                asked = zip(manual.rows, results, strict=True)
                calls.update({row["question"]: one.decision.advice_calls for row, one in asked})
            several.append(shares(rows, found, calls))
        means = np.array(several, dtype=float).mean(axis=0)
        kinds, last = len(KINDS), means[-1]
        cells = [f"{mean:.2f}" for mean in means[:kinds]]
        table.append(
            [name, *cells, f"{means[kinds]:.3f}", f"{means[kinds + 1]:.0f}", f"{last:.2f}"]
        )
    return table


def gates_for(
    manuals: Mapping[str, Manual], judgements: Judgements
) -> dict[str, Callable[[str, int], Gate]]:
    """The gates to compare, each made for a manual and a draw."""
    replies = read_replies()

    def chat(documents: str, *, rewrites: bool) -> Advisor:
        advise = chat_model(judgements[documents], replies)

        def advisor(question: str, texts: Sequence[str]) -> Advice | None:
            advice = advise(question, texts)
            return advice if rewrites or advice is None else replace(advice, rewrite="")

        return advisor

    def rewriter(question: str, texts: Sequence[str]) -> Advice | None:
        reply = replies.get(question)
        return None if reply is None else Advice("no", rewrite=reply.rewrite)

    def fixed(model: OpinionModel | None, **noise: float) -> Callable[[str, int], Gate]:
        return lambda documents, seed: Gate(
            advisor=Reader(judgements[documents], **noise, seed=seed), opinion=model
        )

    def fitted(second: Advisor | None = None, **noise: float) -> Callable[[str, int], Gate]:
        def make(documents: str, seed: int) -> Gate:
            reader = Reader(judgements[documents], **noise, seed=seed)
            model = fit_opinion(shipped_opinion_model(), reader, manuals[documents].own, 30.0)
            return Gate(advisor=reader, rewriter=second, opinion=model)

        return make

    made: dict[str, Callable[[str, int], Gate]] = {
        "without": lambda documents, seed: Gate(),
        "chat model, verdict": lambda documents, seed: Gate(
            advisor=chat(documents, rewrites=False)
        ),
        "chat model, verdict and rewrite": lambda documents, seed: Gate(
            advisor=chat(documents, rewrites=True)
        ),
    }
    for title, noise in {
        "as judged": {},
        "noise 2": {"noise": 2.0},
        "noise 4": {"noise": 4.0},
        "flipped": {"flipped": 0.1},
    }.items():
        made |= {
            f"0.5, {title}": fixed(ALONE, **noise),
            f"default, {title}": fixed(None, **noise),
            f"fitted, {title}": fitted(**noise),
            f"fitted, {title}, and a rewrite": fitted(rewriter, **noise),
        }
    return made


def with_labels(
    manuals: Mapping[str, Manual], judgements: Judgements, draws: int = 100
) -> list[list[str]]:
    """`max_wrong=0.1` from a hundred labelled questions: answered and wrong of the others."""
    rows = [(name, at) for name, one in manuals.items() for at in range(len(one.rows))]
    table = []
    for name, noise in {"without": None, "as judged": 0.0, "noise 2": 2.0, "noise 4": 4.0}.items():
        score, bad = list[float](), list[bool]()
        for documents, manual in manuals.items():
            gate = Gate(0.0)
            if noise is not None:
                reader = Reader(judgements[documents], noise)
                model = fit_opinion(shipped_opinion_model(), reader, manual.own, 30.0)
                gate = Gate(0.0, advisor=reader, opinion=model)
            for row, one in zip(manual.rows, manual.decide(gate), strict=True):
                clear = one.decision.action == "answer"
                score.append(one.decision.confidence if clear else -math.inf)
                bad.append(not is_found(row, one))
        values, harmful = np.array(score), np.array(bad)
        answered, wrong = list[float](), list[float]()
        for seed in range(draws):
            order = np.random.default_rng(seed).permutation(len(rows))
            some, others = order[:100], order[100:]
            limit = opinions_threshold(values[some], harmful[some])
            above = values[others] > limit
            answered.append(float(above.mean()))
            wrong.append(float((above & harmful[others]).mean()))
        table.append([name, f"{np.mean(answered):.2f}", f"{np.mean(wrong):.3f}"])
    return table


def opinions_threshold(score: np.ndarray, harmful: np.ndarray) -> float:
    """The threshold that keeps a tenth of all questions from a wrong answer."""
    from uec_rag.confidence.risk import conformal_threshold

    return conformal_threshold(score, harmful, 0.1).threshold


def learn(data: Path, judgements: Judgements) -> OpinionModel:
    """Learn the default of the collections, with the noise at which the AUROC is the real one's."""
    uec, cases = shipped(), list[tuple[str, list[str], float, bool]]()
    known = {q: one for name in LEARNED_ON for q, one in judgements[name].items()}
    for name in LEARNED_ON:
        collection = sampled(load_collection(data / name), QUESTIONS)
        index = index_collection(uec, collection)
        for key, question in collection.queries.items():
            ids = [*collection.relevant[key]]
            for among in (None, {"$not": {"$id": ids}}):
                [one] = index.search([question], READ, filter=among)
                texts = [hit.searched for hit in one.passages]
                sure = float(one.decision.confidence)
                if DOUBT[0] < sure <= DOUBT[1]:  # others are not asked about
                    cases.append((question, texts, sure, any(one.finds(ids))))
    confidence = np.array([case[2] for case in cases])
    truth = np.array([case[3] for case in cases])

    def odds(noise: float, seed: int) -> np.ndarray:
        reader = Reader(known, noise, seed=seed)
        told = [reader({"question": q, "passages": dict(enumerate(t))}, {}) for q, t, *_ in cases]
        yes = [one["answers"]["contains"]["noul"] for one in told]  # type: ignore[index]
        return np.array([odds_of(share) for share in yes])

    noise = next(
        level
        for level in np.arange(0, 20, 0.25)
        if np.mean([auroc(odds(level, seed), truth) for seed in range(DRAWS)]) <= JEV
    )
    drawn = np.concatenate([odds(float(noise), seed) for seed in range(DRAWS)])
    own, right_ = np.tile(log_odds(confidence), DRAWS), np.tile(truth, DRAWS)
    usual, counts = float(own.mean()), np.ones(len(own))
    both = np.column_stack([own - usual, drawn])
    weights, bias = fit_logistic(both, right_, counts, np.array([0.5, 0.5]), 1.0, 1.0)
    made = OpinionModel(float(weights[0]), float(weights[1]), bias, usual)
    scores = made.log_odds(np.tile(confidence, DRAWS), drawn)
    # Cautious: no more of those without an answer are answered than by the confidence alone.
    allowed = int((own[~right_] > 0).sum())
    most = float(np.sort(scores[~right_])[::-1][allowed])
    made = replace(made, bias=made.bias - max(most, 0.0))
    print(
        f"noise {noise}: AUROC {auroc(own, right_):.3f} alone, {auroc(drawn, right_):.3f} model, "
    )
    print(f"{auroc(scores, right_):.3f} together; {made}")
    return made


def main(
    folder: Manuals,
    write: Annotated[Path | None, typer.Option(help="Learn the default from DATA.")] = None,
) -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    logging.getLogger("uec_rag").setLevel(logging.ERROR)
    judgements = read_judgements()
    if write is not None:
        learned = learn(write, judgements).metadata()
        kept = {
            name: round(learned[name], 4) for name in ("confidence", "contains", "bias", "usual")
        }
        target = Path(models.__file__).with_name("opinion.json")
        target.write_text(json.dumps(kept) + "\n", encoding="utf-8")
        shipped_opinion_model.cache_clear()
    head = ["", *KINDS, "mean", "wrong answers", "calls a question"]
    twelve = manuals_of(folder)
    print_table("Twelve manuals", head, table_of(twelve, gates_for(twelve, judgements), DRAWS))
    print_table("max_wrong=0.1", ["", "answered", "wrong"], with_labels(twelve, judgements))
    three = manuals_of(folder, FURTHER)
    gates = gates_for(three, judgements)
    unread = ("fitted", "chat model, verdict and")  # no questions of theirs, no rewrites
    gates = {name: make for name, make in gates.items() if not name.startswith(unread)}
    print_table("Three further manuals", head, table_of(three, gates, DRAWS))


if __name__ == "__main__":
    typer.run(main)
