"""Files of a wheel from the user's package index, fetched by pip or uv with their own settings."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from packaging.utils import parse_wheel_filename

from uec_rag.base.checks import one_line

_PIP = (
    *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input"),
    *("--retries", "1", "--ignore-requires-python", "--dest"),
)
_UV = ("pip", "install", "--python", sys.executable, "--target")
_SAFE = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement")
_LONGEST_REASON = 500  # characters


@contextmanager
def wheel_files(wheel: str, sha256: str) -> Iterator[Callable[[str], bytes]]:
    """Download a wheel, and yield a function that reads one of its files by its path.

    Nothing in the wheel is run. With uv, which cannot download a wheel, it is unpacked.

    Raises OSError if neither program is there, or the index refuses the wheel, does not have it, or
    has another file under its name.
    """
    name, version, _, tags = parse_wheel_filename(wheel)
    with tempfile.TemporaryDirectory() as into:
        target, wanted = Path(into) / "wheel", Path(into) / "requirements.txt"
        wanted.write_text(f"{name}=={version} --hash=sha256:{sha256}\n")
        options = [str(target), *_SAFE, str(wanted)]
        tag = min(tags, key=str)
        compiled = tag.platform != "any"
        python = re.sub(r"^\D+(\d)", r"\1.", tag.interpreter).rstrip(".")
        for_tag: list[str] = []
        if importlib.util.find_spec("pip") is not None:
            if compiled:
                for_tag = ["--implementation", "cp", "--abi", tag.abi, "--platform", tag.platform]
                for_tag += ["--python-version", python]
            _run([*_PIP, *options, *for_tag])
            with zipfile.ZipFile(target / wheel) as archive:
                yield archive.read
        elif uv := shutil.which("uv"):
            if compiled:
                platform = f"{tag.platform.partition('_')[2]}-manylinux2014"
                for_tag = ["--python-platform", platform, "--python-version", python]
            _run([uv, *_UV, *options, *for_tag])
            yield lambda member: (target / member).read_bytes()
        else:
            raise OSError("neither pip nor uv is installed")


def _run(command: list[str]) -> None:
    """Run a program whose progress is shown on a terminal; OSError with its reasons if it fails."""
    shown = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=shown, stderr=subprocess.PIPE, check=False
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace")
        reasons = re.findall(r"(?:ERROR: |WARNING: Retrying.*?: )(.+)", said) or [said]
        raise OSError(one_line("; ".join(dict.fromkeys(reasons)))[:_LONGEST_REASON])
