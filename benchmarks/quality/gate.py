"""How many questions a gate answers, by what bounds the risk: simulated, and on real confidences.

    python -m benchmarks.quality.gate [DATA --model MODEL --model MODEL]
    python -m benchmarks.quality.gate --grouped

Prints Markdown tables: for each way to bound the risk the share answered over an oracle's, which
knows the risk of every threshold, and how often the target is exceeded. Simulated, it is exceeded
where the true risk is; on collections, where other questions show more wrong answers. Last come
what is possible: the best single threshold, which only who knows the risks could choose, tested by
all of delta; and what would be answered if every threshold could be shown by the best of those
below it, each tested by all of delta. With --grouped, simulated: questions that come in groups
which fail together, and how soon a gate warns that other questions come. DATA is a folder of
collections; the ensemble is fitted on the train split of tydiqa_goldp_en.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from scipy.special import bdtr, expit

from benchmarks.paper.data import load_collection
from uec_rag import UEC, Retriever
from uec_rag.confidence import risk as ours

Counts = NDArray[np.integer]
Floats = NDArray[np.float64]

SPLITS = 200
DELTA = 0.05
STARTS = (1 / 8, 1 / 4, 1 / 2, 1)
SHARES = (2 / 9, 2 / 9, 2 / 9, 1 / 3)
SETS = "fiqa_small,chroma_chunking,claude_docs_rag,belebele_en,boolq_dev,squad_sample"


@dataclass(frozen=True, eq=False)
class Draw:
    """Questions that a threshold is chosen on, and those that it is looked at with."""

    sure: Floats
    right: NDArray[np.bool_]
    asked: Floats
    wrong: Floats


def binomial(wrong: Counts, answered: Counts, risk: float) -> Floats:
    """The exact tail of the risk."""
    return np.asarray(bdtr(wrong, answered, risk))


def betting(wrong: Counts, answered: Counts, risk: float) -> Floats:
    """One over the capital of bets that the risk is below its target, mixed over their stakes.

    (Waudby-Smith and Ramdas, 2024.) For stakes s the capital is (1 + s risk)^right times
    (1 - s (1 - risk))^wrong.
    """
    stakes = np.linspace(0.05, 0.95, 19)[:, None] / (1 - risk)
    right = answered - wrong
    log = right * np.log1p(stakes * risk) + wrong * np.log1p(-stakes * (1 - risk))
    capital = np.exp(np.minimum(log, 700)).mean(axis=0)
    return np.minimum(1 / np.maximum(capital, 1e-300), 1.0)


def four_starts(p: Floats, answered: Floats) -> int | None:
    """Fixed sequences from four starts, which leave their share of delta to the next."""
    edges = [*np.searchsorted(answered, STARTS).tolist(), len(p)]
    last, level = None, 0.0
    for start, end, share in zip(edges[:-1], edges[1:], SHARES, strict=True):
        level += share * DELTA
        failed = np.flatnonzero(p[start:end] > level)
        reached = start + int(failed[0]) if len(failed) else end
        last = reached - 1 if reached > start else last
        level = level if reached == end else 0.0
    return last


def one_start(p: Floats, answered: Floats) -> int | None:
    """Fixed sequence that starts where a quarter is answered."""
    start = int(np.searchsorted(answered, 0.25))
    failed = np.flatnonzero(p[start:] > DELTA)
    end = start + int(failed[0]) if len(failed) else len(p)
    return end - 1 if end > start else None


WAYS: dict[str, Callable[[Counts, Counts, float], int | None]] = {
    "fixed sequence (what `Gate` does)": lambda w, n, risk: ours._lowest_passed(w, n, risk, DELTA),
    "four starts": lambda w, n, risk: four_starts(binomial(w, n, risk), n / n[-1]),
    "one start": lambda w, n, risk: one_start(binomial(w, n, risk), n / n[-1]),
    "four starts, betting": lambda w, n, risk: four_starts(betting(w, n, risk), n / n[-1]),
}


def steps(sure: Floats, right: NDArray[np.bool_]) -> tuple[Counts, Counts, Floats]:
    """Wrong and answered above each distinct threshold, downwards, and the thresholds."""
    order = np.argsort(-sure, kind="stable")
    ranked, wrong = sure[order], np.cumsum(~right[order])
    above = np.append(np.flatnonzero(np.diff(ranked) < 0) + 1, len(ranked))
    return wrong[above - 1], above, np.append(ranked, -np.inf)[above]


def oracle(sure: NDArray[np.float64], chance: NDArray[np.float64], risk: float) -> float:
    """Most questions that can be answered, by falling confidence, at no more than the risk."""
    order = np.argsort(-sure, kind="stable")
    mean = np.cumsum(1 - chance[order]) / np.arange(1, len(sure) + 1)
    within = np.flatnonzero(mean <= risk)
    return (int(within[-1]) + 1) / len(sure) if len(within) else 0.0


def figures(draws: Sequence[Draw], risk: float) -> list[float]:
    """An oracle's share answered, each way's and how often it is over, and the two limits."""
    rows, count = [], len(draws[0].sure)
    shown, beyond = np.zeros(count), np.zeros(count)
    for draw in draws:
        wrong, answered, limits = steps(draw.sure, draw.right)
        row = [oracle(draw.asked, 1 - draw.wrong, risk)]
        for way in WAYS.values():
            last = way(wrong, answered, risk)
            taken = draw.asked > (np.inf if last is None else limits[last])
            row += [taken.mean(), taken.any() and draw.wrong[taken].mean() > risk]
        rows.append(row)
        ranked = np.sort(draw.asked)
        above = 1 - np.searchsorted(ranked, limits, "right") / len(ranked)
        shown[answered - 1] += binomial(wrong, answered, risk) <= DELTA
        beyond += np.interp(np.arange(1, count + 1), answered, above)
    power, reach = shown / len(draws), beyond / len(draws)
    best = np.maximum.accumulate(power[::-1])[::-1]
    limit = float(best @ np.diff(reach, prepend=0.0))
    return [*np.mean(rows, axis=0).tolist(), float((power * reach).max()), limit]


def header(first: str) -> list[str]:
    """Of a table."""
    ways = [f"{way}: {what}" for way in WAYS for what in ("answered", "over")]
    return [first, "risk", *ways, "best single threshold", "limit"]


def simulated() -> Iterable[Sequence[object]]:
    """Logistic confidence of three accuracies and two strengths."""
    yield header("queries")
    rng = np.random.default_rng(0)
    for count in (50, 100, 200, 500, 1000):
        for risk in (0.05, 0.1, 0.2):
            rows = []
            for accuracy in (0.0, 1.0, 2.0):
                for strength in (1.5, 3.0):
                    every = rng.normal(size=20_000)
                    chance = expit(accuracy + strength * every)
                    draws = []
                    for _ in range(SPLITS // 4):
                        drawn = rng.integers(len(every), size=count)
                        right = rng.random(count) < chance[drawn]
                        draws.append(Draw(every[drawn], right, every, 1 - chance))
                    rows.append(figures(draws, risk))
            yield count, risk, *relative(np.mean(rows, axis=0).tolist())


def halves(sure: Floats, right: NDArray[np.bool_]) -> list[Draw]:
    """Random halves: the threshold is set on one and looked at on the other."""
    draws = []
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(right))
        mine, other = order[: len(order) // 2], order[len(order) // 2 :]
        draws.append(Draw(sure[mine], right[mine], sure[other], (~right[other]).astype(float)))
    return draws


def real(data: Path, models: Sequence[str]) -> Iterable[Sequence[object]]:
    """Random halves of collections."""
    yield header("collection")
    uec = UEC(models).fit(load_collection(data / "tydiqa_goldp_en", "train").pairs()[:1500])
    for name in SETS.split(","):
        collection = load_collection(data / name)
        retriever = Retriever(uec)
        retriever.add(list(collection.passages.values()), ids=list(collection.passages))
        result = retriever.search(list(collection.queries.values()), 4)
        wanted = collection.relevant.values()
        right = np.array(
            [any(i in ids for i in row) for row, ids in zip(result.ids, wanted, strict=True)]
        )
        draws = halves(result.confidence.astype(np.float64), right)
        for risk in (0.05, 0.1, 0.2):
            yield name, risk, *relative(figures(draws, risk))


def grouped() -> Iterable[Sequence[object]]:
    """Groups that are all right or all wrong with a probability of one half; share the same risk.

    At every threshold the risk is a hundredth above the target, so that any answer is one too many.
    """
    yield "questions", "risk", "group of", "all taken: over", "one of each group: over"
    rng = np.random.default_rng(0)
    for size in (1, 2, 5):
        for risk in (0.1, 0.2):
            over = np.zeros(2)
            for _ in range(1000):
                alike = rng.random(200 // size) < 0.5
                wrong = rng.random((200 // size, size)) < 1.01 * risk
                wrong = np.where(alike[:, None], wrong[:, :1], wrong)
                sure = rng.random(wrong.shape)
                for place, many in enumerate((size, 1)):
                    some = sure[:, :many].ravel(), ~wrong[:, :many].ravel()
                    over[place] += ours.risk_threshold(*some, risk, DELTA).is_controlled
            yield 200, risk, size, *(over / 1000).tolist()


def drifting() -> Iterable[Sequence[object]]:
    """Logistic confidence, and questions without an answer among those asked later."""
    yield "calibration questions", "risk", "unanswerable since", "warned in 2,000", "after (median)"
    rng = np.random.default_rng(0)
    for count in (100, 200, 400):
        for share in (0.0, 0.3, 0.5):
            after = []
            for _ in range(SPLITS):
                drift = ours.Drift(_logistic(rng, count, 0.0))
                asked = _logistic(rng, 2000, share)
                seen = (n for n in range(8, 2001, 8) if drift.record(asked[n - 8 : n]))
                after.append(next(seen, None))
            warned = [n for n in after if n is not None]
            yield count, "", share, len(warned) / SPLITS, float(np.median(warned or [np.nan]))


def _logistic(rng: np.random.Generator, count: int, unanswerable: float) -> Floats:
    mean = np.where(rng.random(count) < unanswerable, -1.0, 1.5)
    return np.asarray(expit(rng.normal(mean, 1.5)))


def relative(row: Sequence[float]) -> list[float]:
    """Shares answered over the oracle's; how often the target is exceeded stays as it is."""
    best, *others = row
    overs = range(1, 2 * len(WAYS), 2)
    return [
        value if place in overs else value / max(best, 1e-9) for place, value in enumerate(others)
    ]


def main(
    data: Annotated[Path | None, typer.Argument(help="Folder of collections.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="A member; several times.")] = None,
    in_groups: Annotated[bool, typer.Option("--grouped", help="Groups and drift alone.")] = False,
) -> None:
    """Print the tables."""
    if in_groups:
        _print(grouped(), means=False)
        _print(drifting(), means=False)
        return
    _print(simulated())
    if data is not None and model:
        _print(real(data, model))


def _print(rows: Iterable[Sequence[object]], *, means: bool = True) -> None:
    seen = []
    for number, row in enumerate(rows):
        cells = [f"{v:.3f}" if isinstance(v, float) else str(v) for v in row]
        print("| " + " | ".join(cells) + " |", flush=True)
        if not number:
            print("|" + "---|" * len(cells))
        else:
            seen += [row] * means
    for risk in sorted({row[1] for row in seen}):
        mean = np.mean([row[2:] for row in seen if row[1] == risk], axis=0)
        print(f"| mean | {risk} | " + " | ".join(f"{v:.3f}" for v in mean) + " |")
    print()


if __name__ == "__main__":
    typer.run(main)
