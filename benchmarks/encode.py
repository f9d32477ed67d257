"""What encoding costs: UEC against sentence-transformers' own `encode`, precisions, the cache.

    python -m benchmarks.encode DATA --model MODEL --model MODEL --markdown

Times are of texts from the first collection, systems taking turns; ratios are medians over the
rounds, of the clock and of the processor's time, which other work on the machine disturbs less.
Every precision of the first model also answers the collections' queries. DATA is a folder of test
collections (see `benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import score_retrieval
from benchmarks.tables import print_table
from uec_rag import UEC
from uec_rag.encoders import CachedEncoder, Encoder, SentenceTransformerEncoder, load_encoder

_FIT_PAIRS = 64
_HITS = 4000  # texts looked up in the cache


@dataclass
class Times:
    """Seconds of a system's rounds."""

    clock: list[float]
    processor: list[float]

    def ratio(self, other: Times) -> tuple[float, float]:
        """How many times slower than another, round by round: by the clock, by the processor."""
        return (
            median(a / b for a, b in zip(self.clock, other.clock, strict=True)),
            median(a / b for a, b in zip(self.processor, other.processor, strict=True)),
        )


def take_turns(systems: dict[str, Callable[[], object]], rounds: int) -> dict[str, Times]:
    times = {name: Times([], []) for name in systems}
    for number in range(rounds):
        names = list(systems) if number % 2 == 0 else list(systems)[::-1]
        for name in names:
            clock, processor = time.perf_counter(), time.process_time()
            systems[name]()
            times[name].clock.append(time.perf_counter() - clock)
            times[name].processor.append(time.process_time() - processor)
    return times


class Stopwatch:
    """Seconds spent in some methods, which are wrapped while it runs."""

    def __init__(self) -> None:
        self.seconds = {"forward": 0.0, "preprocess": 0.0}

    def wrap(self, model: object) -> None:
        """Time the model's tokenising and its network."""
        for name in self.seconds:
            setattr(model, name, self._timed(name, getattr(model, name)))

    def _timed(self, name: str, function: Callable) -> Callable:
        def timed(*args: object, **kwargs: object) -> object:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - start

        return timed


def library(encoder: SentenceTransformerEncoder, texts: list[str]) -> np.ndarray:
    """sentence-transformers' own `encode`, with the same prompt and batch size."""
    return encoder.model.encode(
        texts, prompt=encoder.prompts["passage"], batch_size=encoder.batch_size
    )


def speed_row(
    encoders: list[SentenceTransformerEncoder], uec: UEC, texts: list[str], rounds: int
) -> list[str]:
    times = take_turns(
        {
            "library": lambda: [library(encoder, texts) for encoder in encoders],
            "UEC": lambda: uec.encode(texts, "passage"),
        },
        rounds,
    )
    watch = Stopwatch()
    for encoder in encoders:
        watch.wrap(encoder.model)
    start = time.perf_counter()
    uec.encode(texts, "passage")
    total = time.perf_counter() - start
    own = 1 - sum(watch.seconds.values()) / total
    clock, processor = times["library"].ratio(times["UEC"])
    difference = max(
        float(np.abs(library(e, texts[:32]) - e.encode(texts[:32], "passage").embedding).max())
        for e in encoders
    )
    return [
        ", ".join(encoder.name for encoder in encoders),
        f"{median(times['library'].clock):.1f}",
        f"{median(times['UEC'].clock):.1f}",
        f"{clock:.2f}",
        f"{processor:.2f}",
        f"{own:.1%}",
        f"{watch.seconds['preprocess'] / total:.1%}",
        f"{difference:.0e}",
    ]


def ndcg(encoder: Encoder, collection: Collection) -> float:
    """nDCG@10 of the cosine."""
    queries = encoder.encode(list(collection.queries.values()), "query").embedding
    passages = encoder.encode(list(collection.passages.values()), "passage").embedding
    similarities = queries @ passages.T
    ids = np.array(list(collection.passages))
    best = np.argsort(-similarities, axis=1)[:, :10]
    top = np.take_along_axis(similarities, best[:, :1], axis=1)[:, 0]
    return score_retrieval(collection, [list(row) for row in ids[best]], top).ndcg10


def precision_rows(
    model: str, texts: list[str], collections: list[Collection], rounds: int, batch_size: int
) -> list[list[str]]:
    encoders: dict[str, Encoder] = {
        "float32": load_encoder(model, batch_size=batch_size),
        "bfloat16": load_encoder(model, dtype="bfloat16", batch_size=batch_size),
    }
    plain = encoders["float32"]
    assert isinstance(plain, SentenceTransformerEncoder)
    systems: dict[str, Callable[[], object]] = {"library": lambda: library(plain, texts)}
    for name, encoder in encoders.items():
        systems[name] = lambda encoder=encoder: encoder.encode(texts, "passage")
    times = take_turns(systems, rounds)
    quality = {
        name: [ndcg(encoder, collection) for collection in collections]
        for name, encoder in encoders.items()
    }
    rows = []
    for name in encoders:
        clock, processor = times["library"].ratio(times[name])
        rows.append([name, f"{clock:.2f}", f"{processor:.2f}"])
        for value, reference in zip(quality[name], quality["float32"], strict=True):
            rows[-1] += [f"{value:.4f}", f"{value - reference:+.4f}"]
    return rows


def cache_row(width: int, texts: list[str], rounds: int) -> list[str]:
    """Hits per second, and the time of one query that is in the cache."""

    def quick(some: list[str]) -> np.ndarray:  # the model need not run for the cache to be timed
        return np.random.default_rng(0).standard_normal((len(some), width))

    many = [f"{text} {i}" for i in range(1 + _HITS // len(texts)) for text in texts][:_HITS]
    with tempfile.TemporaryDirectory() as folder:
        cached = CachedEncoder(load_encoder(quick), folder, revision="1")
        cached.encode(many, "passage")
        times = take_turns(
            {
                "all": lambda: cached.encode(many, "passage"),
                "one": lambda: [cached.encode([text], "passage") for text in many[:100]],
            },
            rounds,
        )
    one = 1000 * median(times["one"].clock) / 100
    return [str(width), f"{_HITS:,}", f"{_HITS / median(times['all'].clock):,.0f}", f"{one:.2f}"]


def main(
    data: Annotated[Path, typer.Argument(envvar="UEC_DATA", help="Folder of collections.")],
    model: Annotated[list[str], typer.Option(help="A model to take in; give it several times.")],
    sets: Annotated[str, typer.Option(help="Collections, comma-separated.")] = (
        "fiqa_small,belebele_en"
    ),
    texts: Annotated[int, typer.Option(help="How many are timed.")] = 96,
    rounds: Annotated[int, typer.Option(help="How often each system has its turn.")] = 3,
    batch_size: Annotated[int, typer.Option(help="For both sides.")] = 32,
    only: Annotated[str, typer.Option(help="Which tables.")] = "precisions,ensemble,cache",
    markdown: Annotated[bool, typer.Option(help="Print Markdown tables.")] = False,
) -> None:
    """Print the tables."""
    collections = [load_collection(data / name) for name in sets.split(",")]
    some = list(collections[0].passages.values())[:texts]
    if "precisions" in only:
        rows = precision_rows(model[0], some, collections, rounds, batch_size)
        header = ["precision", "times faster than the library, clock", "processor"]
        for collection in collections:
            header += [f"nDCG@10 {collection.name}", "change"]
        print_table(f"Precisions, {Path(model[0]).name}", header, rows, markdown=markdown)
    if "ensemble" in only:
        encoders = [load_encoder(name, batch_size=batch_size) for name in model]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few pairs: enough to time the posterior's work
            uec = UEC(encoders).fit(collections[0].pairs()[:_FIT_PAIRS])
        rows = [speed_row(encoders, uec, some, rounds)]
        header = ["encoders", "library, s", "UEC, s", "times faster, clock", "processor"]
        header += ["UEC's own part", "tokenising", "largest difference"]
        print_table(f"UEC.encode, {len(some)} texts", header, rows, markdown=markdown)
    if "cache" in only:
        rows = [cache_row(384, some, rounds)]
        header = ["width", "texts", "hits per second", "one query, ms"]
        print_table("Cache", header, rows, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
