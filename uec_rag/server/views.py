"""What the explorer's page shows of an index, as values that JSON has."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import PurePath
from typing import Any, TypeAlias

import numpy as np

from uec_rag.base.checks import one_line, visible
from uec_rag.confidence.risk import reliability, risk_over_coverage
from uec_rag.encoders.lexical import marked
from uec_rag.evaluation.alternatives import disagreement, fused, members_alone, plain_cosine
from uec_rag.evaluation.inspection import Probe, inspect, neighbours, writing
from uec_rag.retrieval import Gate, Retriever
from uec_rag.retrieval.gate import LabelledSearch, shared_answers
from uec_rag.stores.base import Passage

View: TypeAlias = dict[str, Any]
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called as `progress(stage, done, total)`."""

SHOWN = 2_000
"""Characters of a passage that the page shows."""

RISKS = [percent / 100 for percent in range(1, 51)]
"""What the slider can be set to."""

_FUSED = 100  # hits of each member that are fused
_POINTS = 200  # of a curve
_MOST_ROWS = 2_000  # questions whose decisions the page lists
_LISTED = 15
_WORDS = re.compile(r"\w+")
_PLACES = ("page", "slide", "sheet")


def passage_view(passage: Passage, words: Collection[str] = ()) -> View:
    """A passage as the page shows it: cut, without what a terminal obeys, some words marked."""
    known = passage.metadata
    source = one_line(str(known.get("source", passage.id)))
    if PurePath(source).is_absolute():  # of this machine: nobody's business
        source = PurePath(source).name
    title = one_line(str(known.get("title", "")))
    return {
        "id": visible(passage.id),
        "source": source[:200],
        "place": one_line(", ".join(f"{at} {known[at]}" for at in _PLACES if at in known))[:100],
        "title": "" if title == source else title[:200],
        "parts": marked(visible(passage.text[:SHOWN]), words),
        "characters": len(passage.text),
        "cut": len(passage.text) > SHOWN,
    }


def number(value: float) -> float | None:
    """A number that JSON has; None for infinity."""
    return value if math.isfinite(value) else None


def ask_view(retriever: Retriever, question: str, k: int, gate: Gate | None) -> View:
    """One question: the decision, the hits, and what other ways to search would have found."""
    [asked] = retriever.corrected([question])
    parts = retriever.uec.encode([asked], "query")
    result = retriever.search_encoded([asked], parts, max(k, gate.fewest_hits if gate else 1))
    if gate is not None:
        result = result.deciding(gate.decide(result))
    found = result[0]
    decision, words = found.decision, found.members and found.members.words
    own = {id_: place for place, id_ in enumerate(result.ids[0], 1)}
    hits = []
    for rank, passage in enumerate(result.passages[0]):
        known = found.metadata(rank, details=True)
        hit = passage_view(passage, words[rank] if words else _WORDS.findall(question))
        hit |= {name: known.get(f"uec_{name}") for name in ("score", "mu", "relevance", "members")}
        hit |= {"sigma": math.sqrt(known["uec_sigma2"]), "place_here": rank + 1}
        hits.append(hit | {"is_candidate": passage.id in decision.candidates})
    shares = dict(zip(result.names, result.shares[0].tolist(), strict=True))
    view = {
        "question": visible(question),
        "decision": decision.action,
        "reason": visible(decision.reason),
        "confidence": decision.confidence,
        "in_corpus": decision.in_corpus,
        "threshold": 0.5 if gate is None else number(gate.threshold.threshold),
        "shares": shares,
        "exact": result.exact,
        "hits": hits,
        "sigma": hits[0]["sigma"] if hits else None,
    }
    rankings = members_alone(retriever, [question], parts, _FUSED)
    if not rankings or not hits:
        return view | {"others": [], "disagreement": None}
    first = max(shares, key=lambda name: shares[name])
    others = {
        f"{first} alone": rankings[first][0],
        "Reciprocal rank fusion": fused([*rankings.values()])[0],
    }
    if cosine := plain_cosine(retriever, [question], parts, k):
        others["Plain cosine"] = cosine[0]
    columns = [
        {"name": name, "hits": [passage_view(p) | {"place_here": own.get(p.id)} for p in found[:k]]}
        for name, found in others.items()
    ]
    return view | {"others": columns, "disagreement": disagreement(rankings)[0]}


def tune_view(name: str, searched: LabelledSearch) -> View:
    """Curve, reliability, what each risk allows, and what became of each question."""
    sure, right = searched.confidence, searched.right
    order = np.argsort(-sure, kind="stable")
    coverage, risk = (values.tolist() for values in risk_over_coverage(sure, right))
    places = np.unique(np.linspace(0, len(sure) - 1, _POINTS).round().astype(int)).tolist()
    decisions = searched.result.decide(0.5, searched.k)
    promises = {
        "wrongs": [searched.threshold(wrong=share) for share in RISKS],
        "risks": [searched.threshold(share) for share in RISKS],
    }
    return {
        "name": visible(name),
        "questions": len(sure),
        "k": searched.k,
        "alike": len(sure) - len(set(shared_answers(searched.relevant))),
        "chosen_on": len(searched.rows),
        "curve": [[coverage[place], risk[place]] for place in places],
        "reliability": [asdict(one) for one in reliability(sure, right)],
        **{
            name: [found.metadata() | {"report": found.report} for found in thresholds]
            for name, thresholds in promises.items()
        },
        "rows": [
            {
                "question": visible(searched.result.queries[row])[:300],
                "confidence": float(sure[row]),
                "right": bool(right[row]),
                "answerable": bool(searched.relevant[row]),
                "asked_back": decisions[row].action == "clarify",
            }
            for row in order[:_MOST_ROWS].tolist()
        ],
    }


def inspect_view(retriever: Retriever, asked: Sequence[str], progress: Progress) -> View:
    """Where variance is highest, where encoders disagree, and what comes up for everything.

    Questions of the session and such as can be made from the passages are asked.

    `asked`: the session's questions.
    """
    seen = inspect(retriever, asked, listed=_LISTED, progress=progress)

    def highest(key: Callable[[Probe], float]) -> list[View]:
        return [
            {
                "question": visible(one.question),
                "share": one.disagreement,
                "sigma": one.sigma,
                "firsts": {name: passage_view(passage) for name, passage in one.firsts.items()},
            }
            for one in sorted(seen.probes, key=key, reverse=True)[:_LISTED]
            if key(one)
        ]

    return {
        "questions": len(seen.probes),
        "looked_at": len(seen.variances),
        "variances": [
            passage_view(passage) | {"variance": variance}
            for passage, variance in seen.variances[:_LISTED]
            if variance > 0
        ],
        "uncertain": highest(lambda one: one.sigma),
        "disagreeing": highest(lambda one: one.disagreement),
        "fair": seen.fair,
        "hubs": [passage_view(passage) | {"times": times} for passage, times in seen.hubs],
    }


def neighbours_view(retriever: Retriever, id_: str) -> View:
    """What a passage is near, to each encoder and to the ensemble.

    Raises KeyError if it is not there.
    """
    near = neighbours(retriever, id_)
    [passage] = retriever.get([id_])
    return {
        "passage": passage_view(passage),
        "columns": [
            {"name": name or "All together", "hits": [passage_view(one) for one in found]}
            for name, found in near.items()
        ],
    }


def index_view(retriever: Retriever) -> View:
    """What an index is: size, encoders, what confidence rests on, language and familiarity."""
    uec, store = retriever.uec, retriever.store
    return {
        "passages": len(retriever),
        "store": type(store).__name__,
        "exact": not store.remote,
        "encoders": [
            {"name": visible(name), "weight": float(weight)}
            for name, weight in zip(uec.names, uec.weights, strict=True)
        ],
        "report": visible(retriever.report),
        **asdict(writing(retriever)),
    }
