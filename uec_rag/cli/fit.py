"""`uec-rag fit`: an ensemble fitted on the user's own pairs."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from uec_rag.cli.building import build_ensemble, check_output, fit_ensemble
from uec_rag.cli.console import out, print_json, say
from uec_rag.cli.options import Json, Models
from uec_rag.cli.tables import read_rows

_LABELS = {"1": 1, "true": 1, "0": 0, "false": 0}


def fit(
    pairs: Annotated[
        Path,
        typer.Argument(
            metavar="PAIRS", help="A .jsonl, .csv or .tsv file: query, passage and perhaps label."
        ),
    ],
    to: Annotated[
        Path, typer.Option("--out", metavar="FITTED", help="Folder for the fitted ensemble.")
    ],
    model: Models = None,
    json: Json = False,
) -> None:
    """Fit an ensemble on questions and the passages that answer them.

    A label says whether the passage answers the query (1, the default) or not (0).

    Example: uec-rag fit pairs.jsonl --out fitted
    """
    check_output(to)
    given = read_pairs(pairs)
    uec = build_ensemble(model)
    fit_ensemble(uec, given)
    uec.save(to)
    assert uec.report is not None
    if json:
        print_json({"path": str(to), "pairs": len(given), "report": asdict(uec.report)})
    else:
        out.print(str(uec.report), markup=False, soft_wrap=True)
        say(f"Saved in {to}. Use it: uec-rag index DOCUMENTS --out idx --uec {to}")


def read_pairs(path: Path) -> list[tuple[str, str] | tuple[str, str, int]]:
    """Read fitting pairs from a file.

    Parameters
    ----------
    path
        JSON lines, or a table with a header, in UTF-8: query, passage and, in all rows or some,
        label (0 or 1).

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is of another kind, or a row is not what it must be; says which.
    """
    rows = read_rows(path, ("query", "passage"), "PAIRS")
    return [_pair(row, f"{path.name}, line {line}") for line, row in rows]


def _pair(row: Mapping[str, object], where: str) -> tuple[str, str] | tuple[str, str, int]:
    texts = []
    for key in ("query", "passage"):
        value = row.get(key)
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{where}: expected some text as {key}, got {value!r}")
        texts.append(value)
    label = row.get("label")
    if label is None or label == "":
        return texts[0], texts[1]
    if str(label).lower() not in _LABELS:
        raise ValueError(f"{where}: expected 0 or 1 as label, got {label!r}")
    return texts[0], texts[1], _LABELS[str(label).lower()]
