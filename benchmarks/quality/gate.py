"""How many questions a gate answers, by what bounds the risk: simulated, and on real confidences.

    python benchmarks/quality/gate.py [DATA --model MODEL --model MODEL]

Prints Markdown tables: for each way to bound the risk the share answered over an oracle's, which
knows the risk of every threshold, and how often the target is exceeded. Simulated, it is exceeded
where the true risk is; on collections, where other questions show more wrong answers. DATA is a
folder of collections; the ensemble is fitted on the train split of tydiqa_goldp_en.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from scipy.special import bdtr, expit

from uec_rag import UEC, Retriever
from uec_rag.confidence import risk as ours
from uec_rag.paper.collections import load_collection

Counts = NDArray[np.integer]
PValue = Callable[[Counts, Counts, float], NDArray[np.float64]]

SPLITS = 200
DELTA = 0.05
SETS = "fiqa_small,chroma_chunking,claude_docs_rag,belebele_en,boolq_dev,squad_sample"


def binomial(wrong: Counts, answered: Counts, risk: float) -> NDArray[np.float64]:
    """The exact tail of the risk itself; of what the next batch shows nothing is promised."""
    return np.asarray(bdtr(wrong, answered, risk))


def betting(wrong: Counts, answered: Counts, risk: float) -> NDArray[np.float64]:
    """One over the capital of bets that the risk is below its target, mixed over their stakes.

    (Waudby-Smith and Ramdas, 2024.) For stakes s the capital is (1 + s risk)^right times
    (1 - s (1 - risk))^wrong.
    """
    stakes = np.linspace(0.05, 0.95, 19)[:, None] / (1 - risk)
    right = answered - wrong
    log = right * np.log1p(stakes * risk) + wrong * np.log1p(-stakes * (1 - risk))
    capital = np.exp(np.minimum(log, 700)).mean(axis=0)
    return np.minimum(1 / np.maximum(capital, 1e-300), 1.0)


def one_start(p: NDArray[np.float64], answered: NDArray[np.float64], delta: float) -> int | None:
    """Fixed sequence that starts where a quarter is answered."""
    start = int(np.searchsorted(answered, 0.25))
    failed = np.flatnonzero(p[start:] > delta)
    end = start + int(failed[0]) if len(failed) else len(p)
    return end - 1 if end > start else None


WAYS = {
    "four starts (what `Gate` does)": (ours._p_value, ours._last_rejected),
    "one start": (ours._p_value, one_start),
    "four starts, risk alone": (binomial, ours._last_rejected),
    "four starts, betting": (betting, ours._last_rejected),
}


def threshold(way: str, sure: NDArray[np.float64], right: NDArray[np.bool_], risk: float) -> float:
    """The confidence to answer above; infinity: never."""
    p_value, search = WAYS[way]
    order = np.argsort(-sure, kind="stable")
    ranked, wrong = sure[order], np.cumsum(~right[order])
    above = np.append(np.flatnonzero(np.diff(ranked) < 0) + 1, len(ranked))
    limits = np.append(ranked, -np.inf)[above]
    last = search(p_value(wrong[above - 1], above, risk), above / len(sure), DELTA)
    return np.inf if last is None else float(limits[last])


def oracle(sure: NDArray[np.float64], chance: NDArray[np.float64], risk: float) -> float:
    """Most questions that can be answered, by falling confidence, at no more than the risk."""
    order = np.argsort(-sure, kind="stable")
    mean = np.cumsum(1 - chance[order]) / np.arange(1, len(sure) + 1)
    within = np.flatnonzero(mean <= risk)
    return (int(within[-1]) + 1) / len(sure) if len(within) else 0.0


def simulated() -> Iterable[Sequence[object]]:
    """Logistic confidence of three accuracies and two strengths."""
    yield "queries", "risk", *(f"{way}: {what}" for way in WAYS for what in ("answered", "over"))
    rng = np.random.default_rng(0)
    for count in (100, 200, 500, 1000):
        for risk in (0.05, 0.1, 0.2):
            rows = []
            for accuracy in (0.0, 1.0, 2.0):
                for strength in (1.5, 3.0):
                    every = rng.normal(size=20_000)
                    chance = expit(accuracy + strength * every)
                    best = oracle(every, chance, risk)
                    for _ in range(SPLITS // 4):
                        drawn = rng.integers(len(every), size=count)
                        right = rng.random(count) < chance[drawn]
                        rows.append([best])
                        for way in WAYS:
                            taken = every > threshold(way, every[drawn], right, risk)
                            over = taken.any() and (1 - chance[taken]).mean() > risk
                            rows[-1] += [taken.mean(), over]
            yield count, risk, *_relative(rows)


def real(data: Path, models: Sequence[str]) -> Iterable[Sequence[object]]:
    """Random halves of collections: the threshold is set on one and looked at on the other."""
    yield "collection", "risk", *(f"{way}: {what}" for way in WAYS for what in ("answered", "over"))
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
        sure = result.confidence.astype(np.float64)
        for risk in (0.05, 0.1, 0.2):
            rows = []
            for seed in range(SPLITS):
                order = np.random.default_rng(seed).permutation(len(right))
                mine, other = order[: len(order) // 2], order[len(order) // 2 :]
                rows.append([oracle(sure[other], right[other].astype(float), risk)])
                for way in WAYS:
                    taken = sure[other] > threshold(way, sure[mine], right[mine], risk)
                    over = taken.any() and (~right[other][taken]).mean() > risk
                    rows[-1] += [taken.mean(), over]
            yield name, risk, *_relative(rows)


def _relative(rows: Sequence[Sequence[float]]) -> list[float]:
    """Shares answered over the oracle's, and shares of draws over the target."""
    best, *others = np.mean(rows, axis=0)
    return [
        value / max(best, 1e-9) if place % 2 == 0 else value for place, value in enumerate(others)
    ]


def main(
    data: Annotated[Path | None, typer.Argument(help="Folder of collections.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="A member; several times.")] = None,
) -> None:
    """Print the tables."""
    _print(simulated())
    if data is not None and model:
        _print(real(data, model))


def _print(rows: Iterable[Sequence[object]]) -> None:
    seen = []
    for number, row in enumerate(rows):
        cells = [f"{v:.3f}" if isinstance(v, float) else str(v) for v in row]
        print("| " + " | ".join(cells) + " |", flush=True)
        if not number:
            print("|" + "---|" * len(cells))
        else:
            seen.append(row)
    for risk in sorted({row[1] for row in seen}):
        mean = np.mean([row[2:] for row in seen if row[1] == risk], axis=0)
        print(f"| mean | {risk} | " + " | ".join(f"{v:.3f}" for v in mean) + " |")
    print()


if __name__ == "__main__":
    typer.run(main)
