"""All the readable files of a folder."""

import os
import warnings
from pathlib import Path

from uec_rag.corpora.document import Document, has_words
from uec_rag.corpora.readers import READERS


def read_folder(folder: str | Path, *, show_progress: bool = False) -> list[Document]:
    """Read every txt, md, rst, html and pdf file in a folder and in the folders inside it.

    Parameters
    ----------
    folder
        Hidden files and folders in it (".git") are left out.
    show_progress
        Draw a progress bar on stderr.

    Returns
    -------
    list of Document
        In the order of their paths.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        If there is no such folder.
    ValueError
        If there is no file of these kinds in it, or none that holds text.
    ImportError
        If the library for a kind of file that is there is missing.

    Warns
    -----
    UserWarning
        For each file that cannot be read or holds no text; the others are read.
    """
    from rich.console import Console
    from rich.progress import track

    root = Path(folder).expanduser()
    files = _readable_files(root)
    documents = []
    for path in track(
        files,
        description="Reading files",
        console=Console(stderr=True),
        transient=True,
        disable=not show_progress,
    ):
        document = _read(path, path.relative_to(root).as_posix())
        if document is not None:
            documents.append(document)
    if not documents:
        raise ValueError(f"none of the {len(files)} files in {str(root)!r} holds text to index")
    return documents


def _read(path: Path, source: str) -> Document | None:
    try:
        sections = READERS[path.suffix.lower()](path)
    except ImportError:
        raise
    except Exception as error:  # a damaged file breaks its parser in any way it likes
        reason = str(error) or type(error).__name__
        warnings.warn(f"left out {source}, which cannot be read: {reason}", stacklevel=3)
        return None
    kept = tuple(section for section in sections if has_words(section.text))
    if not kept:
        scan = "; is it a scan?" if path.suffix.lower() == ".pdf" else ""
        warnings.warn(f"left out {source}, which holds no text{scan}", stacklevel=3)
        return None
    return Document(source, kept)


def _readable_files(root: Path) -> list[Path]:
    if not root.exists():
        raise FileNotFoundError(f"no such folder: {str(root)!r}")
    if not root.is_dir():
        raise NotADirectoryError(f"expected a folder, got the file {str(root)!r}")
    files = []
    for here, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [
            Path(here, name)
            for name in names
            if not name.startswith(".") and Path(name).suffix.lower() in READERS
        ]
    if not files:
        raise ValueError(
            f"no readable files in {str(root)!r}; expected some that end in {', '.join(READERS)}"
        )
    return sorted(files)
