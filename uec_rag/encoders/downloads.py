"""Wheels from the package index and files from public places, as data: nothing is installed or run.

What comes is checked by whoever asked for it, against hashes that are written in this package.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

_TIMEOUT = 30.0  # seconds without a byte
_HUB = "https://huggingface.co"


def download_wheel(requirement: str, options: tuple[str, ...], folder: Path) -> Path:
    """Download one wheel with pip, which knows mirrors and proxies.

    Parameters
    ----------
    requirement
        As "name==version".
    options
        Further options for `pip download`.
    folder
        An empty one. pip also runs in it, isolated: a `pip.py` in the user's own folder is not
        what answers to `-m pip`.

    Raises
    ------
    ImportError
        If there is no pip.
    OSError
        If there is no such wheel or the index is out of reach; says how to do the same by hand.
    """
    if importlib.util.find_spec("pip") is None:
        raise ImportError(
            f"fetching {requirement} needs pip, which {sys.executable} does not have; "
            "install it with: python -m ensurepip"
        )
    folder = folder.resolve()
    command = [sys.executable, "-I", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--quiet", "--disable-pip-version-check", "--dest", str(folder)]
    command += [*options, requirement]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    wheels = list(folder.glob("*.whl"))
    if result.returncode or len(wheels) != 1:
        reason = result.stderr.strip().splitlines()[-1:] or ["pip gave no reason"]
        raise OSError(
            f"{requirement} from the package index: {reason[0]}. Check the network and pip's "
            f"configuration; the same by hand: {' '.join(command)}"
        )
    return wheels[0]


def download_file(url: str, path: Path) -> None:
    """Download a file; "hf:owner/model@revision/file" is one of the hub, or of its `HF_ENDPOINT`.

    Raises
    ------
    OSError
        If it cannot be had, or `HF_HUB_OFFLINE` is set.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise OSError(f"{url}: HF_HUB_OFFLINE is set")
    address = _address(url)
    try:
        request = Request(address, headers={"User-Agent": "uec-rag"})
        with urlopen(request, timeout=_TIMEOUT) as answer, path.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (URLError, OSError, ValueError) as error:
        raise OSError(f"{address}: {error}") from error


def _address(url: str) -> str:
    if not url.startswith("hf:"):
        return url
    model, _, rest = url.removeprefix("hf:").partition("@")
    revision, _, file = rest.partition("/")
    endpoint = os.environ.get("HF_ENDPOINT", _HUB).rstrip("/")
    return f"{endpoint}/{model}/resolve/{revision}/{file}"
