"""The twelve manuals of the first week and three more, as they were frozen: built and verified.

    python -m benchmarks.quality.manuals MANUALS --clones CLONES    # build, then verify
    python -m benchmarks.quality.manuals MANUALS                    # verify
    python -m benchmarks.quality.manuals UNSEEN --table unseen --clones CLONES    # six others

CLONES is a folder of clones or mirrors, with or without a work tree, of the repositories in
`sources.csv`: "cargo", "rust-lang+cargo" or "rust-lang+cargo/repo". Files are those of a commit,
whatever is checked out. Debian's packages are downloaded with `apt-get`, after an `apt-get update`,
unless CLONES has them ("git-doc_*.deb"). Beside the script, `manuals.csv` names each file that is
taken, with its SHA-256, and last the Python whose documentation is gathered, with that of all its
texts: no other will do, since docstrings change from version to version.

What is left out beside what `first_week` names was chosen so that the manuals have as many passages
as in results/first_week.md: of FastAPI also links to others, the newsletter and two pages for
translators, of git the text sources of the how-tos, and whatever a search does not read, such as
images. Of TTS the three pages in HTML are in. Of the three more, the handbook is without its roles
and book club.

The six of `unseen.csv` are of documents that no rule has seen, and must stay so: no rule
is thought of, no number fitted and no example taken while looking at them or at what is found in
them. Only `unseen` reads them. Of Syncthing what is for users is in (users, intro, advanced), of
Traefik what is for administrators of one (its start, set-up and reference of HTTP), of Mattermost
the guide for users, of mutt the chapters without the reference.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import platform
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.tables import run_script
from uec_rag.documents.python_docs import gather_corpus

PYTHON = "python"


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of a table beside this script."""
    path = Path(__file__).parent / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


def sources(table: str = "manuals") -> dict[str, tuple[str, str, str]]:
    """A repository on GitHub or package of Debian -> manual, commit or version, folder of it."""
    rows = [row for row in rows_of("sources") if row["table"] == table]
    return {row["source"]: (row["manual"], row["version"], row["root"]) for row in rows}


def names(table: str = "manuals") -> list[str]:
    """The folders of the manuals."""
    return list(dict.fromkeys(manual for manual, *_ in sources(table).values()))


def frozen(table: str = "manuals") -> list[tuple[str, str, str]]:
    """Source, path in the manual and SHA-256 of each file; last `PYTHON`, its version and texts."""
    return [(row["source"], row["path"], row["sha256"]) for row in rows_of(table)]


def build(folder: Path, clones: Path, table: str = "manuals") -> None:
    """Write the files of all sources into a folder, which must be new or empty.

    Raises
    ------
    FileExistsError, FileNotFoundError
        If there is something in the folder, or a repository is not among the clones.
    subprocess.CalledProcessError
        If a commit or a version of a package is not there.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"folder: {str(folder)!r} must be new or empty.")
    for source, (manual, version, root) in sources(table).items():
        paths = [path for of, path, _ in frozen(table) if of == source]
        if "/" in source:
            content = archive_of_clone(source, version, root, clones)
        else:
            content = archive_of_package(source, version, clones)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            members = {str(Path(member.name)): member for member in archive}
            for path in paths:
                member = members.get(str(Path(root, path)))
                data = archive.extractfile(member) if member else None
                if data is None:
                    raise FileNotFoundError(f"{source} {version}: no file {root}/{path}.")
                file = folder / manual / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data.read())


def archive_of_clone(name: str, commit: str, root: str, clones: Path) -> bytes:
    """All files of a folder of a repository at a commit."""
    joined = name.replace("/", "+")
    places = [clones / joined / "repo", clones / joined, clones / name.split("/")[1]]
    for place in places:
        if (place / "objects").is_dir() or (place / ".git").exists():
            return _output("git", "-C", str(place), "archive", "--format=tar", commit, root)
    raise FileNotFoundError(f"clones: none of {[*map(str, places)]} is a clone of {name}.")


def archive_of_package(name: str, version: str, clones: Path) -> bytes:
    """All files of a package of Debian, which is downloaded unless it lies there."""
    with tempfile.TemporaryDirectory() as place:
        found = [*clones.glob(f"{name}_*.deb")]
        if not found:
            _output("apt-get", "download", f"{name}={version}", place=place)
            found = [*Path(place).glob("*.deb")]
        return _output("dpkg-deb", "--fsys-tarfile", str(found[0]))


def _output(*command: str, place: str | None = None) -> bytes:
    return subprocess.run(command, cwd=place, check=True, stdout=subprocess.PIPE).stdout


def verify(folder: Path, table: str = "manuals") -> None:
    """Check that a folder has the manuals as they were frozen, and no other Python runs.

    Raises
    ------
    ValueError
        If a file differs, is missing or is not in the list, or Python's texts differ.
    """
    manual_of = {source: manual for source, (manual, *_) in sources(table).items()}
    listed = frozen(table)
    expected = {(manual_of.get(source, PYTHON), path): sha for source, path, sha in listed}
    found = {}
    if any(source == PYTHON for source, *_ in listed):
        found[PYTHON, platform.python_version()] = hash_of_python()
    for manual in manual_of.values():
        for file in filter(Path.is_file, (folder / manual).rglob("*")):
            path = file.relative_to(folder / manual).as_posix()
            found[manual, path] = hashlib.sha256(file.read_bytes()).hexdigest()
    wrong = [
        f"{'/'.join(key)} " + ("is not frozen" if key not in expected else "differs or is missing")
        for key in sorted(expected.keys() | found.keys())
        if expected.get(key) != found.get(key)
    ]
    if wrong:
        raise ValueError(
            f"{str(folder)!r}: {len(wrong)} files are not as in {table}.csv; build it again:\n"
            + "\n".join(wrong)
        )


def hash_of_python() -> str:
    """SHA-256 of the documentation gathered from the Python that runs."""
    texts = [
        [document.source, [[section.heading, section.text] for section in document.sections]]
        for document in gather_corpus(3000)
    ]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def main(
    folder: Annotated[Path, typer.Argument(metavar="MANUALS", help="Folder of the manuals.")],
    clones: Annotated[Path | None, typer.Option(help="Build the manuals from this folder.")] = None,
    table: Annotated[str, typer.Option(help="Which manuals: manuals, unseen.")] = "manuals",
) -> None:
    """Build the manuals, and verify them."""
    if clones is not None:
        build(folder, clones, table)
    verify(folder, table)
    print(f"{len(frozen(table))} files are as in {table}.csv.")


if __name__ == "__main__":
    run_script(main)
