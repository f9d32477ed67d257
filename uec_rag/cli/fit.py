"""`uec-rag fit`: an ensemble fitted on the user's own pairs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from uec_rag.cli.building import build_ensemble, check_output, fit_if_better
from uec_rag.cli.console import Json, Models, print_json, print_text, say
from uec_rag.cli.values import path
from uec_rag.corpora.tables import read_pairs

_NO_SLOPE = 0.05  # of a report, where it is shown as 0.0


def fit(
    pairs: Annotated[
        Path,
        typer.Argument(
            metavar="PAIRS",
            parser=path,
            help="A .jsonl, .csv or .tsv file: query, passage and perhaps label.",
        ),
    ],
    to: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FITTED", parser=path, help="Folder for the fitted ensemble."
        ),
    ],
    model: Models = None,
    json: Json = False,
) -> None:
    """Fit an ensemble on questions and the passages that answer them.

    Without --model the ensemble is `UEC()`; the new fit replaces its shipped one only if it is
    better on questions held out from PAIRS. A label says whether the passage answers the query (1,
    the default) or not (0).

    Example: uec-rag fit pairs.jsonl --out fitted
    """
    check_output(to)
    given = read_pairs(pairs)
    uec = build_ensemble(model)
    taken = fit_if_better(uec, given)
    if lost := [n for n, a in zip(uec.names, uec.fitted.slopes, strict=True) if a < _NO_SLOPE]:
        raise ValueError(
            f"PAIRS: {', '.join(lost)} cannot distinguish these passages from others (slope 0), "
            "so nothing is saved; expected texts that answer, not ids, in a language that the "
            "model knows"
        )
    uec.save(to)
    assert uec.report is not None
    if json:
        report = asdict(uec.report)
        print_json({"path": str(to), "pairs": len(given), "taken": taken, "report": report})
    else:
        print_text(str(uec.report))
        say(f"Saved in {to}. Use it: uec-rag index DOCUMENTS --out idx --uec {to}")
