"""What belongs into the evidence: nDCG@10 with and without the trace, and of more than 30 leaders.

    python -m benchmarks.quality.trace DATA --ensemble arctic-embed-s,bm25 --ensemble A,B,bm25
        [--leaders 100 --leaders 300 --leaders 1000000]

Every ensemble is fitted on the training pairs of one collection, and asked others, by coefficients
that are all alike, by the evidence as `UEC` learns it, by evidence that learns a weight for the
trace as well, and by evidence of so many of each member's highest similarities, learned on as many.
DATA is a folder of test collections (see `benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import Annotated

import numpy as np
import typer

from benchmarks.paper.data import load_collection
from benchmarks.quality.bundled import ENGLISH, OTHERS
from benchmarks.quality.members import sampled
from benchmarks.quality.options import CACHE, FITTED_ON, Cache, Data, Fit, Markdown, Queries
from benchmarks.quality.retrieval import evaluate
from benchmarks.tables import print_table
from uec_rag import UEC
from uec_rag.encoders import CachedEncoder, load_encoder
from uec_rag.encoders.base import TermEncoder
from uec_rag.ensemble import convolution, fit_queries
from uec_rag.ensemble.convolution import FEATURES, LEADERS, CoefficientRule, Uniform
from uec_rag.ensemble.evidence_fit import fit_evidence_weights


def main(
    data: Data,
    ensemble: Annotated[list[str], typer.Option(help="Members, comma-separated.")],
    leaders: Annotated[list[int] | None, typer.Option(help="To look at in place of 30.")] = None,
    fit: Fit = FITTED_ON,
    english: Annotated[str, typer.Option(help="English collections.")] = ENGLISH,
    others: Annotated[str, typer.Option(help="Those in other languages.")] = OTHERS,
    queries: Queries = 300,
    cache: Cache = CACHE,
    markdown: Markdown = False,
) -> None:
    """Print a table for each ensemble."""
    kinds = {"English": english.split(","), "other languages": others.split(",")}
    names = [name for kind in kinds.values() for name in kind]
    collections = {name: sampled(load_collection(data / name), queries) for name in names}
    pairs = load_collection(data / fit, "train").pairs()
    for row in ensemble:
        loaded = [load_encoder(member) for member in row.split(",")]
        uec = UEC([e if isinstance(e, TermEncoder) else CachedEncoder(e, cache) for e in loaded])
        convolution.LEADERS = LEADERS
        rules: dict[str, CoefficientRule] = {"all alike": Uniform()}
        rules["evidence"] = uec.fit(pairs).fitted.rule
        fit_queries.fit_evidence_weights = partial(fit_evidence_weights, features=FEATURES)
        rules["evidence and trace"] = uec.fit(pairs).fitted.rule
        fit_queries.fit_evidence_weights = fit_evidence_weights
        looked_at = dict.fromkeys(rules, LEADERS)
        for count in leaders or ():
            convolution.LEADERS = count
            rules[f"of {count:,}"] = uec.fit(pairs).fitted.rule
            looked_at[f"of {count:,}"] = count
        scores = {}
        for name, collection in collections.items():
            scores[name] = []
            for label, rule in rules.items():
                convolution.LEADERS = looked_at[label]
                uec.fitted = replace(uec.fitted, rule=rule)
                scores[name].append(evaluate(uec, collection).ndcg10)
            print(row, name, scores[name], file=sys.stderr, flush=True)
        table = [[name, *(f"{score:.3f}" for score in found)] for name, found in scores.items()]
        for kind, mine in kinds.items():
            means = np.mean([scores[name] for name in mine], axis=0)
            table.append([f"mean, {kind}", *(f"{mean:.3f}" for mean in means)])
        print_table(row, ["collection", *rules], table, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
