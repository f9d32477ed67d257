"""Which evidence earns an encoder its weight: nDCG@10 against the best member, rule by rule.

    python -m benchmarks.quality.coefficients DATA --model MODEL --model MODEL [--fit NAME[:SPLIT]]

Prints a Markdown table: uniform average of cosines, the direct sum of slope-scaled blocks, the
paper's trace rule, and gates learned from one kind of evidence, from all, and with a prior per
encoder; each as the difference to the best single member of a collection. Everything is fitted on
--fit (give it several times for a union) and reported on other collections. DATA may be UEC_DATA.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import mean_ndcg
from benchmarks.quality.options import Data, Models
from uec_rag import UEC
from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders import CachedEncoder, Encoder, load_encoder
from uec_rag.encoders.bundled.packages import cache_folder
from uec_rag.ensemble.convolution import FEATURES, CoefficientRule, Evidence, Fixed, Trace, Uniform
from uec_rag.ensemble.evidence_fit import fit_evidence_weights
from uec_rag.ensemble.fit import fit_posteriors
from uec_rag.laplace.pairs import check_pairs
from uec_rag.retrieval import Retriever

SETS = (
    "cranfield,cisi,medline,fiqa_small,chroma_chunking,claude_docs_rag,belebele_en,tydiqa_goldp_en"
)


def main(
    data: Data,
    model: Models,
    fit: Annotated[list[str], typer.Option(help="Collection[:split] to fit on.")],
    sets: Annotated[str, typer.Option(help="Collections, comma-separated.")] = SETS,
) -> None:
    """Print the table."""
    cache = cache_folder() / "embeddings"
    encoders: list[Encoder] = [CachedEncoder(load_encoder(name), cache) for name in model]
    pairs = [
        pair
        for name, _, split in (part.partition(":") for part in fit)
        for pair in load_collection(data / name, split or None).pairs()
    ]
    uec = UEC(encoders, beta=0.0).fit(pairs)
    rules = _rules(uec, pairs)
    print(f"Members: {', '.join(uec.names)}; fitted on {len(pairs)} pairs of {', '.join(fit)}.\n")
    print("| collection | best member | " + " | ".join(rules) + " |")
    print("|---|---|" + "---|" * len(rules))
    gains = []
    for name in sets.split(","):
        collection = load_collection(data / name)
        members = [_ndcg(uec, Fixed(tuple(row)), collection) for row in np.eye(len(encoders))]
        best = max(members)
        gains.append([_ndcg(uec, rule, collection) - best for rule in rules.values()])
        cells = " | ".join(f"{gain:+.3f}" for gain in gains[-1])
        print(f"| {name} | {best:.3f} | {cells} |", flush=True)
    for title, row in (("mean", np.mean(gains, axis=0)), ("worst", np.min(gains, axis=0))):
        print(f"| {title} | | " + " | ".join(f"{gain:+.4f}" for gain in row) + " |")


def _rules(uec: UEC, pairs: Sequence[tuple[str, str]]) -> dict[str, CoefficientRule]:
    """Every way to weigh the members; the gates are learned anew from the same fit queries."""
    own = check_pairs(pairs)
    fitted = fit_posteriors(
        uec.encoders,
        [own] * len(uec.encoders),
        uec.options,
        show_progress=False,
    )
    similarities: list[FloatArray] = [
        q.mean @ c.mean.T for q, c in zip(fitted.queries, fitted.corpus, strict=True)
    ]
    traces = uec.fitted.standardised_traces(fitted.queries)

    def gate(features: Sequence[str], learn_prior: bool = False) -> Evidence:
        return Evidence(
            fit_evidence_weights(
                similarities,
                fitted.questions.relevant,
                uec.fitted.slopes,
                uec.fitted.intercepts,
                traces,
                features=features,
                learn_prior=learn_prior,
                seed=uec.options.seed,
            )
        )

    cosine = Fixed(tuple((1 / uec.fitted.weights).tolist()))  # undoes the slopes
    return {
        "uniform cosine": cosine,
        "slopes": Uniform(),
        "paper's trace rule": Trace(1.5),
        "trace only": gate(["trace"]),
        "entropy only": gate(["entropy"]),
        "base only": gate(["base"]),
        "prior only": gate([], learn_prior=True),
        "all": gate(FEATURES),
        "all + prior": gate(FEATURES, learn_prior=True),
    }


def _ndcg(uec: UEC, rule: CoefficientRule, collection: Collection) -> float:
    uec.fitted = replace(uec.fitted, rule=rule)
    retriever = Retriever(uec)
    retriever.add(list(collection.passages.values()), ids=list(collection.passages))
    return mean_ndcg(collection, retriever.search(list(collection.queries.values()), 10).ids)


if __name__ == "__main__":
    typer.run(main)
