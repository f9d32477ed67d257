"""Fit the embedded ensemble, and put that fit into the package.

    python -m benchmarks.quality.shipped_fit DATA [--rank 64] [--write]

Fitted on the training pairs of TyDi QA GoldP in English (Apache-2.0), judged on collections that
nothing was fitted on: whole posteriors beside those of a few kilobytes (`CompactPosterior`), and
beside an ensemble fitted on half of the collection's own questions, both asked the other half.
With --write the compact ones of `--rank` go to `uec_rag/ensemble/shipped.*`. DATA is a folder of
test collections (see `benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from scipy.stats import spearmanr

import uec_rag.ensemble
from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import mean_ndcg
from benchmarks.quality.members import sampled
from benchmarks.quality.options import CACHE, Cache, Data, Markdown, Queries
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever
from uec_rag.encoders import EMBEDDED, CachedEncoder
from uec_rag.encoders.base import WithoutVectors
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.save import fingerprint
from uec_rag.ensemble.shipped import ShippedFit
from uec_rag.laplace.posterior import CompactPosterior, compact

FIT, LICENCE = "tydiqa_goldp_en", "TyDi QA GoldP, English, train; Apache-2.0"
SETS = (
    "fiqa_small,cranfield,claude_docs_rag,cisi,chroma_chunking,belebele_en,squad_sample,"
    "belebele_de,xquad_zh,xquad_ru"
)
# Of these half the questions give pairs enough to fit on.
OWN = "fiqa_small,chroma_chunking,cranfield,claude_docs_rag,squad_sample,xquad_ru"
RANKS = (0, 8, 16, 32, 64, 128)
_K = 10


@dataclass(frozen=True, eq=False)
class Found:
    """What an ensemble makes of a collection's questions.

    Attributes
    ----------
    ndcg : float
    within, relevance : array, shape (n, k)
    relevant : array of bool, shape (n, k)
    confidence : array, shape (n,)
        Of the first four hits.
    """

    ndcg: float
    within: np.ndarray
    relevance: np.ndarray
    relevant: np.ndarray
    confidence: np.ndarray

    @property
    def right(self) -> np.ndarray:
        """Whether one of the first four is relevant."""
        return self.relevant[:, :4].any(axis=1)

    def brier(self) -> tuple[float, float]:
        """Of relevance and of confidence."""
        return (
            float(np.mean((self.relevance - self.relevant) ** 2)),
            float(np.mean((self.confidence - self.right) ** 2)),
        )


def search(uec: UEC, collection: Collection) -> Found:
    """Index a collection and ask its questions."""
    retriever = Retriever(uec)
    retriever.add(list(collection.passages.values()), ids=list(collection.passages))
    result = retriever.search(list(collection.queries.values()), k=_K)
    wanted = collection.relevant.values()
    relevant = [[i in own for i in ids] for ids, own in zip(result.ids, wanted, strict=True)]
    return Found(
        mean_ndcg(collection, result.ids),
        result.within,
        result.relevance,
        np.array(relevant),
        result.by_cutoff[:, 3],
    )


def compacted(uec: UEC, queries: Sequence[str], rank: int) -> list[CompactPosterior]:
    """Posteriors at a rank, which know what is usual for the questions of the fit."""
    assert uec.posteriors is not None
    out = []
    for posterior, encoder in zip(uec.posteriors, uec.encoders, strict=True):
        small = compact(posterior, rank)
        if not isinstance(encoder, WithoutVectors):
            encoded = encoder.encode(queries, "query")
            trace = small.posterior().gaussian(encoded.embedding, encoded.features).trace
            usual = float(np.log(trace).mean()), max(float(np.log(trace).std()), 1e-4)
            summary = replace(small.summary, log_trace_mean=usual[0], log_trace_sd=usual[1])
            small = replace(small, summary=summary)
        out.append(small)
    return out


def with_posteriors(fitted: Fitted, small: Sequence[CompactPosterior]) -> Fitted:
    """An ensemble with compact posteriors in place of its own."""
    return replace(fitted, posteriors=tuple(one.posterior() for one in small))


def compare(
    uec: UEC, collections: Sequence[Collection], queries: Sequence[str]
) -> Iterator[list[str]]:
    """Rows of the first table: the whole posteriors, then the compact ones."""
    whole = uec.fitted
    first = [search(uec, collection) for collection in collections]
    size = sum(array.nbytes for p in whole.posteriors or () for array in p.arrays().values())
    yield _row("whole", size, first, first)
    for rank in RANKS:
        small = compacted(uec, queries, rank)
        uec.fitted = with_posteriors(whole, small)
        found = [search(uec, collection) for collection in collections]
        uec.fitted = whole
        yield _row(str(rank), sum(p.directions.nbytes for p in small), first, found)


def _row(name: str, size: int, first: Sequence[Found], found: Sequence[Found]) -> list[str]:
    gains = [new.ndcg - old.ndcg for old, new in zip(first, found, strict=True)]
    order = [
        spearmanr(old.within.ravel(), new.sigma2.ravel())[0]
        for old, new in zip(first, found, strict=True)
    ]
    moved = [abs(o.confidence - n.confidence).mean() for o, n in zip(first, found, strict=True)]
    briers = np.mean([one.brier() for one in found], axis=0)
    return [
        name,
        f"{size / 1000:.0f}",
        f"{np.mean([one.ndcg for one in found]):.4f}",
        f"{min(gains):+.4f}",
        *(f"{value:.4f}" for value in briers),
        f"{np.mean(moved):.4f}",
        f"{np.mean(order):.3f}",
    ]


def halves(collection: Collection) -> list[Collection]:
    """The collection with one half of its questions, and with the other."""
    names = list(collection.queries)
    order = np.random.default_rng(0).permutation(len(names))
    return [
        replace(
            collection,
            queries={names[i]: collection.queries[names[i]] for i in sorted(part)},
            relevant={names[i]: collection.relevant[names[i]] for i in sorted(part)},
        )
        for part in (order[::2], order[1::2])
    ]


def own_pairs(uec: UEC, collection: Collection) -> list[str]:
    """A row of the second table: as shipped, and fitted on half the questions, asked the rest."""
    shipped = uec.fitted
    known, asked = halves(collection)
    found = [search(uec, asked)]
    uec.fit(known.pairs())
    found.append(search(uec, asked))
    uec.fitted = shipped
    cells = [collection.name, str(len(known.pairs()))]
    cells += [f"{one.ndcg:.3f}" for one in found]
    cells += [f"{one.confidence.mean() - one.right.mean():+.2f}" for one in found]
    return cells + [f"{one.brier()[1]:.3f}" for one in found]


def main(
    data: Data,
    rank: Annotated[int, typer.Option(help="Directions that are kept of a posterior.")] = 64,
    sets: Annotated[str, typer.Option(help="Collections that posteriors are judged on.")] = SETS,
    own: Annotated[str, typer.Option(help="Collections that are fitted on in part.")] = OWN,
    queries: Queries = 300,
    cache: Cache = CACHE,
    write: Annotated[bool, typer.Option(help="Write the fit into the package.")] = False,
    markdown: Markdown = False,
) -> None:
    """Print the tables; with --write put the fit into the package."""
    warnings.simplefilter("ignore")
    uec = UEC(EMBEDDED)
    uec.encoders = [
        encoder if isinstance(encoder, WithoutVectors) else CachedEncoder(encoder, cache)
        for encoder in uec.encoders
    ]
    pairs = load_collection(data / FIT, "train").pairs()
    asked = list(dict.fromkeys(query for query, _ in pairs))
    uec.fit(pairs)
    print(uec.report)
    small = compacted(uec, asked, rank)
    if write:
        fitted = with_posteriors(uec.fitted, small)
        save(uec, fitted, small, len(pairs))
    names = [name for name in sets.split(",") if name]
    if names:
        collections = [sampled(load_collection(data / name), queries) for name in names]
        header = ["rank", "kB", "nDCG@10", "worst", "Brier, relevance", "confidence"]
        header += ["moved by", "order of sigma_s^2"]
        table = list(compare(uec, collections, asked))
        print_table("Whole posteriors and compact ones", header, table, markdown=markdown)
    uec.fitted = UEC().fitted
    names = [name for name in own.split(",") if name]
    if names:
        table = [own_pairs(uec, load_collection(data / name)) for name in names]
        header = ["collection", "pairs", "nDCG@10, shipped", "own", "level, shipped", "own"]
        header += ["Brier, shipped", "own"]
        print_table("As shipped, and fitted on pairs of its own", header, table, markdown=markdown)


def save(uec: UEC, fitted: Fitted, small: Sequence[CompactPosterior], pairs: int) -> None:
    """Write the fit into the package."""
    assert fitted.evidence_weights is not None
    assert fitted.confidence_model is not None
    assert fitted.training_profile is not None
    ShippedFit(
        source=f"as it comes with uec-rag, fitted on {pairs:,} pairs ({LICENCE})",
        options={
            "space": fitted.space,
            "structure": uec.options.structure,
            "likelihood": uec.options.likelihood,
            "negatives": uec.options.negatives,
            "scaled": uec.options.scaled,
            "last_layer": uec.options.last_layer,
        },
        encoders=[
            {"name": name, "revision": encoder.revision}
            for name, encoder in zip(fitted.names, uec.encoders, strict=True)
        ],
        posteriors=tuple(small),
        weights=fitted.evidence_weights,
        temperature=fitted.confidence_model.temperature,
        training_profile=fitted.training_profile,
        fingerprint=fingerprint(uec.encoders, fitted, uec.options.last_layer),
    ).write(Path(uec_rag.ensemble.__file__).parent)


if __name__ == "__main__":
    typer.run(main)
