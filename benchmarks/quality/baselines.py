"""What people would use otherwise: a cutoff of a score, chosen in hindsight, beside confidence.

    python -m benchmarks.quality.baselines FOLDER

FOLDER is that of `first_week.py`. The questions are its own without the ambiguous ones, and those
in people's own words (`advisor.py`). In each set of documents, every score gets the threshold that
is best for these very labels: each member's similarity, the score of reciprocal rank fusion and of
relative scores, a logistic model of the members' best scores, and confidence. "Confidence above
0.5" has no label. Right is an answer with a relevant passage among the four hits, or none if the
documents have none. Means over the questions; AUROC, of whether the four hits have the answer, over
the sets.

The second table is of 30 and 60 labels: so many questions are drawn from all sets, and one
threshold, or one logistic model and its threshold, is chosen for them; the shares are of the other
questions, the mean of 200 draws.

The third is of a language model: a judge whose verdict on the four hits decides each question, and
an advisor that is asked in doubt. Its replies are those of `advisor.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.quality.advisor import read_replies
from benchmarks.quality.first_week import manuals_of
from benchmarks.quality.hybrid import fused, reciprocal_ranks, relative_scores
from benchmarks.quality.shared import Manuals, fit_calibrator, index_of, relevant_ids, shipped
from benchmarks.tables import print_table, run_script
from uec_rag import Advice, Gate, Retriever, SearchResult
from uec_rag.confidence.model import JUDGED
from uec_rag.evaluation.evaluate import search_by_each_member

Scores = dict[str, tuple[Sequence[Sequence[str]], np.ndarray]]
"""By name: the hits of each question, best first, and its best score."""

DEPTH = 100  # hits of each member that are fused
_LABELS, _DRAWS = (30, 60), 200


def main(folder: Manuals) -> None:
    """Print the table."""
    uec, found, sizes, asked = shipped(), [], [], []
    replies, judged = read_replies(), Counter[tuple[str, str]]()
    for _, passages, rows in manuals_of(folder, "first_week", "own_words"):
        index = index_of(uec, passages)
        some = [row for row in rows if row["kind"] != "ambiguous"]
        queries = [row["question"] for row in some]
        members = search_by_each_member(index, queries, DEPTH)
        result = index.search(queries)
        relevant = relevant_ids(passages, some)
        sure = np.array([one.confidence_at(JUDGED) for one in result], dtype=np.float64)
        scores = plain_scores(members) | {"confidence": (result.ids, sure)}
        right = np.array([finds(ids, relevant) for ids, _ in scores.values()])
        absent = np.array([not wanted for wanted in relevant])
        found.append(measured(scores, right, absent))
        sizes.append(len(some))
        asked.append((np.array([best for _, best in scores.values()]), right, absent))
        judged += with_a_model(index, queries, result, relevant, replies)
    table = []
    for name in found[0]:
        shares = [
            np.average([one[name][key] for one in found], weights=sizes)
            for key in ("right", "wrong")
        ]
        auroc = np.mean([one[name]["auroc"] for one in found])
        table.append([name, *(f"{share:.3f}" for share in shares), f"{auroc:.3f}"])
    header = [f"{sum(sizes)} questions", "right", "wrong", "AUROC"]
    print_table("Decisions by scores", header, table)
    best, right, absent = (np.concatenate(parts, axis=-1) for parts in zip(*asked, strict=True))
    few = [
        [name, *with_labels(best[[at]], right[at], absent, logistic=False)]
        for at, name in enumerate(scores)
    ]
    both = [*scores].index("relative scores")
    few.insert(-1, ["logistic model", *with_labels(best[:2], right[both], absent, logistic=True)])
    header = ["", *(f"{of} with {n} labels" for n in _LABELS for of in ("right", "wrong"))]
    print_table("Decisions with few labels", header, few)
    of_all = {key: f"{count / sum(sizes):.3f}" for key, count in judged.items()}
    ways, kinds = dict.fromkeys(way for way, _ in judged), ("right", "wrong", "calls")
    models = [[way, *(of_all.get((way, kind), "0") for kind in kinds)] for way in ways]
    print_table("Decisions with a language model", ["", *kinds], models)


def finds(ids: Sequence[Sequence[str]], relevant: Sequence[set[str]]) -> np.ndarray:
    """Whether the hits that are judged of each question include one that is relevant."""
    pairs = zip(ids, relevant, strict=True)
    return np.array([not wanted.isdisjoint(hits[:JUDGED]) for hits, wanted in pairs])


def plain_scores(members: Mapping[str, SearchResult]) -> Scores:
    """Each member's similarity, and the scores of their two fusions."""
    runs = {
        name: [dict(zip(one.ids, one.mu.tolist(), strict=True)) for one in found]
        for name, found in members.items()
    }
    both = [*runs.values()]
    runs["reciprocal rank fusion"] = fused(both, reciprocal_ranks)
    runs["relative scores"] = fused(both, relative_scores)
    best = {name: [max(row.values(), default=-1.0) for row in run] for name, run in runs.items()}
    return {name: ([*map(list, run)], np.array(best[name])) for name, run in runs.items()}


def measured(scores: Scores, right: np.ndarray, absent: np.ndarray) -> dict[str, dict[str, float]]:
    """Measure decisions with the threshold that is best for these very labels, and with 0.5."""
    told, rights = {}, dict(zip(scores, right, strict=True))
    for name, (_, score) in scores.items():
        told[name] = _measured(score, rights[name], absent)
    given = np.stack([score for _, score in scores.values()][:2], axis=1).astype(np.float32)
    found, sure = rights["relative scores"], scores["confidence"][1]
    told["logistic model"] = _measured(fit_calibrator(given, found).predict(given), found, absent)
    return told | {"confidence above 0.5": _measured(sure, rights["confidence"], absent, 0.5)}


def _measured(
    score: np.ndarray, right: np.ndarray, absent: np.ndarray, threshold: float | None = None
) -> dict[str, float]:
    above = score > (best_threshold(score, right, absent) if threshold is None else threshold)
    decided, wrong = np.where(above, right, absent).mean(), (above & ~right).mean()
    return {"right": decided, "wrong": wrong, "auroc": roc_auc_score(right, score)}


def best_threshold(score: np.ndarray, right: np.ndarray, absent: np.ndarray) -> float:
    """The threshold of a score above which most decisions are right."""
    thresholds = [-np.inf, *np.unique(score).tolist()]
    return max(thresholds, key=lambda least: np.mean(np.where(score > least, right, absent)))


def with_a_model(
    index: Retriever,
    queries: Sequence[str],
    result: SearchResult,
    relevant: Sequence[set[str]],
    replies: Mapping[str, Advice],
) -> Counter[tuple[str, str]]:
    """Count right decisions, wrong answers and calls of a judge of all hits, and of an advisor."""
    counts, no = Counter[tuple[str, str]](), Advice("no")
    gate = Gate(advisor=lambda question, texts: replies.get(question))
    advised = gate.search(index, queries)
    ways = {
        "a judge of every question": (
            [replies.get(question, no).verdict == "answer" for question in queries],
            result,
            len(queries),
        ),
        "an advisor in doubt": (
            [one.decision.action == "answer" for one in advised],
            advised,
            sum(gate.is_doubted(one.decision) for one in result),
        ),
    }
    for way, (answers, hits, calls) in ways.items():
        found = finds(hits.ids, relevant)
        for answered, is_found, wanted in zip(answers, found, relevant, strict=True):
            counts[way, "right"] += bool(is_found) if answered else not wanted
            counts[way, "wrong"] += answered and not is_found
        counts[way, "calls"] += calls
    return counts


def with_labels(
    features: np.ndarray, right: np.ndarray, absent: np.ndarray, *, logistic: bool
) -> list[str]:
    """Shares of right decisions and wrong answers with a threshold chosen on a few labels."""
    cells, rng = [], np.random.default_rng(0)
    for count in _LABELS:
        shares = []
        for _ in range(_DRAWS):
            order = rng.permutation(len(right))
            known, other = order[:count], order[count:]
            score = features[0]
            if logistic:
                given = features.T.astype(np.float32)
                score = fit_calibrator(given[known], right[known]).predict(given)
            least = best_threshold(score[known], right[known], absent[known])
            answered = score[other] > least
            decided = np.where(answered, right[other], absent[other]).mean()
            shares.append((decided, (answered & ~right[other]).mean()))
        cells += [*map("{:.3f}".format, np.mean(shares, axis=0))]
    return cells


if __name__ == "__main__":
    run_script(main)
