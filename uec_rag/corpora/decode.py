"""The bytes of a text file become text."""

from pathlib import Path


def decoded(path: Path) -> str:
    """Decode as UTF-8, as UTF-16 where it says so, else as what old Windows files are in."""
    data = path.read_bytes()
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16")
    if b"\0" in data:
        raise ValueError("it is not a text file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")
