"""What encoding costs: UEC against sentence-transformers' own `encode`, and precisions.

    python -m benchmarks.encode DATA --model MODEL --model MODEL

Times are of texts from the first collection, systems taking turns; ratios are medians over the
rounds, of the clock and of the processor's time, which other work on the machine disturbs less.
Every precision of the first model also answers the collections' queries. DATA is a folder of test
collections (see `benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from sentence_transformers import SentenceTransformer

from benchmarks.paper.data import load_collection
from benchmarks.quality.shared import Data, Models, Sets, ndcg10
from benchmarks.tables import print_table
from benchmarks.timing import take_turns
from uec_rag import UEC
from uec_rag.encoders import SentenceTransformerEncoder, load_encoder

_FIT_PAIRS = 64


def library(encoder: SentenceTransformerEncoder, texts: list[str]) -> np.ndarray:
    """sentence-transformers' own `encode`, with the same prompt."""
    return encoder.model.encode(texts, prompt=encoder.prompts["passage"])


def times_faster(systems: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[str]]:
    """How many times faster than the last system the others are, by the clock, by the processor."""
    turns = dict(reversed(systems.items()))
    found = [take_turns(turns, rounds, clock) for clock in (time.perf_counter, time.process_time)]
    return {name: [f"{1 / each[name][1]:.2f}" for each in found] for name in systems}


def main(
    data: Data,
    model: Models,
    sets: Sets = "fiqa_small,belebele_en",
    texts: Annotated[int, typer.Option(help="How many are timed.")] = 96,
    rounds: Annotated[int, typer.Option(help="How often each system has its turn.")] = 3,
) -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")  # few pairs: enough to time the posterior's work
    collections = [load_collection(data / name) for name in sets.split(",")]
    some = [*collections[0].passages.values()][:texts]
    encoders = {"float32": load_encoder(model[0])}
    encoders["bfloat16"] = load_encoder(
        SentenceTransformer(model[0], model_kwargs={"dtype": "bfloat16"})
    )
    systems = {name: lambda e=e: e.encode(some, "passage") for name, e in encoders.items()}
    ratios = times_faster(systems | {"library": lambda: library(encoders["float32"], some)}, rounds)
    rows = []
    for name, encoder in encoders.items():
        scores = [ndcg10(UEC([encoder], coefficients="uniform"), one) for one in collections]
        rows.append([name, *ratios[name], *(f"{score:.4f}" for score in scores)])
    header = ["precision", "times faster, clock", "processor"]
    header += [f"nDCG@10 {collection.name}" for collection in collections]
    print_table(f"{Path(model[0]).name} against the library in float32", header, rows)

    members = [load_encoder(name) for name in model]
    uec = UEC(members).fit(collections[0].pairs()[:_FIT_PAIRS])
    systems = {"UEC": lambda: uec.encode(some, "passage")}
    systems["library"] = lambda: [library(encoder, some) for encoder in members]
    ratios = times_faster(systems, rounds)
    differences = [
        np.abs(library(e, some[:32]) - e.encode(some[:32], "passage").embedding).max()
        for e in members
    ]
    names = ", ".join(encoder.name for encoder in members)
    header = ["encoders", "times faster, clock", "processor", "largest difference"]
    rows = [[names, *ratios["UEC"], f"{max(differences):.0e}"]]
    print_table(f"UEC.encode, {len(some)} texts", header, rows)


if __name__ == "__main__":
    typer.run(main)
