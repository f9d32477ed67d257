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

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import typer

from benchmarks.quality.advisor import read_replies
from benchmarks.quality.first_week import corpora_of
from benchmarks.quality.shared import (
    Manuals,
    expected_texts,
    has_any,
    index_of,
    read_tables,
    shipped,
)
from benchmarks.tables import print_table
from uec_rag import Advice, Gate, Retriever, SearchResult
from uec_rag.confidence.model import JUDGED, fit_calibrator
from uec_rag.evaluation.evaluate import (
    baselines,
    best_threshold,
    finds,
    plain_scores,
    search_by_each_member,
)

_DEPTH = 100  # hits of each member that are fused
_LABELS, _DRAWS = (30, 60), 200


def main(folder: Manuals) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    rows = [row for row in read_tables("first_week", "own_words") if row["kind"] != "ambiguous"]
    uec, found, sizes, asked = shipped(), [], [], []
    replies, judged = read_replies(), Counter[tuple[str, str]]()
    for name, passages in corpora_of(folder).items():
        index = index_of(uec, passages)
        some = [row for row in rows if row["documents"] == name]
        queries = [row["question"] for row in some]
        members = search_by_each_member(index, queries, _DEPTH)
        result = index.search(queries)
        relevant = [
            {one.id for one in passages if has_any(one, texts)}
            for texts in map(expected_texts, some)
        ]
        sure = np.array([one.confidence_at(JUDGED) for one in result], dtype=np.float64)
        found.append(baselines(members, result, sure, relevant))
        sizes.append(len(some))
        scores = plain_scores(members)
        scores["confidence"] = result.ids, sure
        right = np.array([finds(ids, relevant, JUDGED) for ids, _ in scores.values()])
        absent = np.array([not wanted for wanted in relevant])
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
    print_table(
        "Decisions by scores", [f"{sum(sizes)} questions", "right", "wrong", "AUROC"], table
    )
    best, right, absent = (np.concatenate(parts, axis=-1) for parts in zip(*asked, strict=True))
    few = [
        [name, *with_labels(best[[at]], right[at], absent, logistic=False)]
        for at, name in enumerate(scores)
    ]
    both = [*scores].index("relative scores")
    few.insert(-1, ["logistic model", *with_labels(best[:2], right[both], absent, logistic=True)])
    header = [f"{of} with {count} labels" for count in _LABELS for of in ("right", "wrong")]
    print_table("Decisions with few labels", ["", *header], few)
    of_all = {key: f"{count / sum(sizes):.3f}" for key, count in judged.items()}
    ways, kinds = dict.fromkeys(way for way, _ in judged), ("right", "wrong", "calls")
    models = [[way, *(of_all.get((way, kind), "0") for kind in kinds)] for way in ways]
    print_table("Decisions with a language model", ["", *kinds], models)


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
        found = finds(hits.ids, relevant, JUDGED)
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
        cells += [f"{share:.3f}" for share in np.mean(shares, axis=0)]
    return cells


if __name__ == "__main__":
    typer.run(main)
