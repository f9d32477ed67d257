"""Fit the embedded ensemble, and put that fit into the package.

    python -m benchmarks.quality.shipped_fit DATA [--write]

Fitted on the training pairs of TyDi QA GoldP in English (Apache-2.0), judged on collections that
nothing was fitted on, beside an ensemble fitted on half of the collection's own questions, both
asked the other half. With --write the fit goes to `uec_rag/ensemble/shipped/english`. DATA is a
folder of test collections (see `benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Annotated
from unittest.mock import patch

import numpy as np
import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import mean_ndcg
from benchmarks.quality.options import CACHE, Cache, Data, Markdown
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever
from uec_rag.confidence.model import shipped_model
from uec_rag.encoders import CachedEncoder
from uec_rag.encoders.base import TermEncoder
from uec_rag.encoders.packages import PRESETS
from uec_rag.ensemble.save import SHIPPED_FITS, write_ensemble

FIT, LICENCE = "tydiqa_goldp_en", "TyDi QA GoldP, English, train; Apache-2.0"
# Of these half the questions give pairs enough to fit on.
OWN = "fiqa_small,chroma_chunking,cranfield,claude_docs_rag,squad_sample,xquad_ru"
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
        result.model_variance,
        result.relevance,
        np.array(relevant),
        result.confidence_at_k[:, 3],
    )


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
    """A row of the table: as shipped, and fitted on half the questions, asked the rest."""
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
    own: Annotated[str, typer.Option(help="Collections that are fitted on in part.")] = OWN,
    cache: Cache = CACHE,
    write: Annotated[bool, typer.Option(help="Write the fit into the package.")] = False,
    markdown: Markdown = False,
) -> None:
    """Print the table; with --write put the fit into the package."""
    warnings.simplefilter("ignore")
    uec = UEC(PRESETS["english"])
    uec.encoders = [
        encoder if isinstance(encoder, TermEncoder) else CachedEncoder(encoder, cache)
        for encoder in uec.encoders
    ]
    pairs = load_collection(data / FIT, "train").pairs()
    with patch("uec_rag.ensemble.fit.shipped_fit", return_value=None):  # it has no level to keep
        uec.fit(pairs)
    print(uec.report)
    if write:
        save(uec, len(pairs))
    uec.fitted = UEC().fitted
    names = [name for name in own.split(",") if name]
    if names:
        table = [own_pairs(uec, load_collection(data / name)) for name in names]
        header = ["collection", "pairs", "nDCG@10, shipped", "own", "level, shipped", "own"]
        header += ["Brier, shipped", "own"]
        print_table("As shipped, and fitted on pairs of its own", header, table, markdown=markdown)


def save(uec: UEC, pairs: int) -> None:
    """Write the fit into the package, with the confidence model that `UEC()` uses."""
    assert uec.report is not None
    assert uec.fitted.confidence_model is not None
    source = f"as it comes with uec-rag, fitted on {pairs:,} pairs ({LICENCE})"
    report = replace(
        uec.report,
        encoding_seconds=0.0,
        fitting_seconds=0.0,
        source=source,
        pairs=(),
        shares=(),
        deviations=(),
    )
    temperature = uec.fitted.confidence_model.temperature
    model = replace(shipped_model("words"), temperature=temperature)
    fitted = replace(uec.fitted, report=report, confidence_model=model)
    write_ensemble(SHIPPED_FITS / "english", uec.encoders, fitted, uec.options)


if __name__ == "__main__":
    typer.run(main)
