"""Download files from the package indexes of pip and uv, according to their settings.

Neither program is run. Indexes implement the simple repository API (PEP 503 and 691):
https://packaging.python.org/en/latest/specifications/simple-repository-api/
"""

import base64
import configparser
import hashlib
import json
import os
import re
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from http.client import HTTPException
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import truststore

from uec_rag.base.checks import one_line
from uec_rag.base.regular import open_regular
from uec_rag.base.retries import is_transient, retried
from uec_rag.base.version import __version__

_PUBLIC = "https://pypi.org/simple"
_ACCEPTED = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_TIMEOUT = 30.0  # seconds without data
_LONGEST_PAGE = 2**25  # bytes of a list of files; the longest on PyPI has a tenth of that
_AT_ONCE = 2**16  # bytes read at a time
_LINK = re.compile(r"""<a\s[^<>]*href\s*=\s*["']([^"']+)""", re.IGNORECASE)


class PackageIndex:
    """The package indexes that pip and uv would use.

    The settings are index-url, extra-index-url, proxy, cert and trusted-host in pip's files and
    environment variables, and the variables UV_DEFAULT_INDEX, UV_INDEX_URL, UV_INDEX and
    UV_EXTRA_INDEX_URL of uv. Passwords are in the addresses or in netrc.

    Raises
    ------
    OSError
        If one of pip's files cannot be read.
    """

    def __init__(self) -> None:
        self._settings = settings = _pip_settings()

        def addresses(name: str, *variables: str) -> list[str]:
            texts = (settings.get(name, ""), *(os.environ.get(name, "") for name in variables))
            parts = [part for text in texts for part in re.split(r"[\s,]+", text) if part]
            return [re.sub(r"^[\w-]+=", "", part) for part in parts]  # uv allows a name before it

        given = addresses("index-url", "UV_DEFAULT_INDEX", "UV_INDEX_URL") or [_PUBLIC]
        given += addresses("extra-index-url", "UV_INDEX", "UV_EXTRA_INDEX_URL")
        self._indexes = [_without_login(address) for address in given]
        self._logins = {
            urlsplit(index).netloc: f"{unquote(part.username)}:{unquote(part.password or '')}"
            for index, address in zip(self._indexes, given, strict=True)
            if (part := urlsplit(address)).username
        }

    def download(self, package: str, wheel: str, sha256: str, size: int, path: Path) -> None:
        """Download a wheel of `size` bytes from the first index that has it.

        Raises OSError, with the reason for each index, if none has.
        """
        problems = []
        for index in self._indexes:
            page = f"{index.rstrip('/')}/{package}/"
            try:
                if address := retried(self._find, page, wheel):
                    return self.fetch(address, sha256, size, path)
                problems.append(f"{page} does not list it")
            except OSError as error:
                problems.append(str(error))
        raise OSError("; ".join(problems))

    def fetch(self, address: str, sha256: str, size: int, path: Path, newline: str = "") -> None:
        """Download a file of at most `size` bytes, and convert its line endings to `newline`.

        Raises OSError, and removes the file, if it is not available or its hash is wrong.
        """
        try:
            retried(self._receive, address, size, path)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        if newline:
            path.write_bytes(path.read_bytes().replace(b"\n", newline.encode()))
        found = sha256_of(path)
        if found != sha256:
            path.unlink()
            raise OSError(
                f"{address} has sha256 {found}, expected {sha256}: the file differs from the "
                "pinned one; it was not used"
            )

    def _find(self, page: str, wheel: str) -> str | None:
        """Find the address of a file that a page lists."""
        with self._open(page, Accept=_ACCEPTED) as answer:
            content = answer.read(_LONGEST_PAGE)
            if answer.headers.get_content_type().endswith("json"):
                files = [(f["filename"], f["url"]) for f in json.loads(content)["files"]]
            else:
                links = map(unescape, _LINK.findall(content.decode("utf-8", "replace")))
                files = [(unquote(urlsplit(a).path).rpartition("/")[2], a) for a in links]
            found = (urljoin(answer.url, link) for name, link in files if name == wheel)
            # Only http, so that a page cannot link to local files.
            allowed = (a for a in found if a.startswith(("http:", "https:")))
            return urldefrag(next(allowed, "")).url or None

    def _receive(self, address: str, size: int, path: Path) -> None:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        with self._open(address) as answer, path.open("wb") as file:
            length = int(answer.headers.get("Content-Length", 0))
            left = -1 if length > size else size
            total = length or None
            with tqdm.wrapattr(file, "write", total, desc=path.name, disable=None) as shown:
                while left >= 0 and (piece := answer.read(min(left + 1, _AT_ONCE))):
                    shown.write(piece)
                    left -= len(piece)
            if left < 0:
                raise OSError(
                    f"it has more than the {size:,} bytes of the pinned file; it was not used"
                )
            if file.tell() < length:
                raise ConnectionError("the connection was cut off")

    @contextmanager
    def _open(self, address: str, **headers: str) -> Iterator[Any]:
        """Open an address; convert errors until it is closed to an OSError with the address."""
        # Use the certificates of the system, since those of OpenSSL may be missing.
        tls: ssl.SSLContext = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if cert := self._settings.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE"):
            tls.load_verify_locations(cert)
        host = urlsplit(address)
        if {host.hostname, host.netloc} & {*self._settings.get("trusted-host", "").split()}:
            tls = ssl.create_default_context()
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        proxy = self._settings.get("proxy")
        opener = build_opener(
            ProxyHandler({"http": proxy, "https": proxy} if proxy else None),
            HTTPSHandler(context=tls),
        )
        opener.addheaders = [("User-Agent", f"uec-rag/{__version__}")]
        request = Request(address, headers=headers)
        if login := self._login(host.netloc, host.hostname or ""):
            basic = f"Basic {base64.b64encode(login.encode()).decode()}"
            request.add_unredirected_header("Authorization", basic)
        try:
            with opener.open(request, timeout=_TIMEOUT) as answer:
                yield answer
        except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
            passing = isinstance(error, HTTPException) or is_transient(error)
            why = str(error).removeprefix("<urlopen error ").strip(">") or type(error).__name__
            raise (ConnectionError if passing else OSError)(f"{address}: {why}") from error

    def _login(self, place: str, host: str) -> str | None:
        """Return "user:password" of a host, from its address or else from netrc."""
        if place in self._logins:
            return self._logins[place]
        try:
            known = netrc(os.environ.get("NETRC")).authenticators(host)
        except (OSError, NetrcParseError):  # no such file, or unsafe permissions
            return None
        return f"{known[0]}:{known[2]}" if known else None


def _pip_settings() -> dict[str, str]:
    """Read pip's settings by the long names of options; variables take precedence over files."""
    own, home = os.environ.get("PIP_CONFIG_FILE", ""), Path.home()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    mac = "Library/Application Support/pip"
    places = ("/etc/xdg/pip", "/etc", f"/{mac}", home / ".pip", config / "pip", home / mac)
    files = [Path(place) / "pip.conf" for place in (*places, sys.prefix)]
    parser = configparser.RawConfigParser()
    try:
        parser.read([] if own == os.devnull else [*files, own])
    except (configparser.Error, UnicodeDecodeError) as error:
        raise OSError(f"pip's settings cannot be read: {one_line(str(error))}") from error
    found: dict[str, str] = {}
    for section in ("global", "install", "download"):
        found |= dict(parser[section]) if parser.has_section(section) else {}
    found |= {
        k.removeprefix("PIP_"): v for k, v in os.environ.items() if k.startswith("PIP_") and v
    }
    return {name.lower().replace("_", "-"): value for name, value in found.items()}


def sha256_of(path: Path) -> str:
    """Compute the SHA-256 (hex) of a regular file; OSError if it cannot be read as one."""
    with open_regular(path, follow_symlinks=True) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _without_login(address: str) -> str:
    part = urlsplit(address)
    return part._replace(netloc=part.netloc.rpartition("@")[2]).geturl()
