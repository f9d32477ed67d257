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
from benchmarks.quality.shared import Data, ask_all, unfitted, with_questions
from benchmarks.tables import print_table
from uec_rag import UEC
from uec_rag.confidence.model import ConfidenceModel, shipped_model
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
    level : float
        How far mean confidence in four hits is above the share that has a relevant one.
    brier : float
        Of that confidence.
    """

    ndcg: float
    level: float
    brier: float

    @classmethod
    def of(cls, uec: UEC, collection: Collection) -> Found:
        """Ask the questions."""
        result = ask_all(uec, collection, _K)
        wanted, sure = collection.relevant.values(), result.confidence_at_k[:, 3]
        right = np.array(
            [
                not own.keys().isdisjoint(ids[:4])
                for ids, own in zip(result.ids, wanted, strict=True)
            ]
        )
        brier = float(np.mean((sure - right) ** 2))
        return cls(mean_ndcg(collection, result.ids), float(sure.mean() - right.mean()), brier)


def halves(collection: Collection) -> list[Collection]:
    """The collection with one half of its questions, and with the other."""
    names = list(collection.queries)
    order = np.random.default_rng(0).permutation(len(names))
    return [
        with_questions(collection, [names[i] for i in sorted(part)])
        for part in (order[::2], order[1::2])
    ]


def own_pairs(uec: UEC, collection: Collection) -> list[str]:
    """A row of the table: as shipped, and fitted on half the questions, asked the rest."""
    shipped = uec.fitted
    known, asked = halves(collection)
    found = [Found.of(uec, asked)]
    uec.fit(known.pairs())
    found.append(Found.of(uec, asked))
    uec.fitted = shipped
    cells = [collection.name, str(len(known.pairs()))]
    cells += [f"{one.ndcg:.3f}" for one in found]
    cells += [f"{one.level:+.2f}" for one in found]
    return cells + [f"{one.brier:.3f}" for one in found]


def main(
    data: Data,
    own: Annotated[str, typer.Option(help="Collections that are fitted on in part.")] = OWN,
    write: Annotated[bool, typer.Option(help="Write the fit into the package.")] = False,
) -> None:
    """Print the table; with --write put the fit into the package."""
    warnings.simplefilter("ignore")
    uec = unfitted(PRESETS["english"])
    pairs = load_collection(data / FIT, "train").pairs()
    with patch("uec_rag.ensemble.fit.shipped_fit", return_value=None):  # it has no level to keep
        uec.fit(pairs)
    print(uec.report)
    if write:
        model = replace(shipped_model("words"), temperature=uec.fitted.confidence_model.temperature)
        save_fit("english", uec, model, f"{len(pairs):,} pairs ({LICENCE})")
    uec.fitted = UEC().fitted
    names = [name for name in own.split(",") if name]
    if names:
        table = [own_pairs(uec, load_collection(data / name)) for name in names]
        header = ["collection", "pairs", "nDCG@10, shipped", "own", "level, shipped", "own"]
        header += ["Brier, shipped", "own"]
        print_table("As shipped, and fitted on pairs of its own", header, table)


def save_fit(preset: str, uec: UEC, model: ConfidenceModel, pairs: str) -> None:
    """Write a fit into the package, with a confidence model and what it was fitted on."""
    assert uec.report is not None
    source = f"as it comes with uec-rag, fitted on {pairs}"
    report = replace(uec.report, seconds=0.0, source=source, pairs=(), shares=())
    fitted, folder = (
        replace(uec.fitted, report=report, confidence_model=model),
        SHIPPED_FITS / preset,
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_ensemble(folder, uec.encoders, fitted, uec.options)


if __name__ == "__main__":
    typer.run(main)
