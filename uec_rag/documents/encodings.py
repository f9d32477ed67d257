"""Decoding of text files, whose encoding may have to be guessed."""

from __future__ import annotations

import re

# Of what is not UTF-8 nearly all is one of these; those that are named first win a draw.
_LEGACY = (
    *("cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255", "cp1256"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)
_OF_CP1250 = ("Croatian", "Czech", "Hungarian", "Polish", "Slovak", "Slovene")
_WITHIN_WORD = re.compile(r"[^\W\d_][^\w\s\-'’.,:;/()\u2010-\u201f]+[^\W\d_]")
_GUESSED_FROM = 50_000  # bytes
_BAD = "\ufffd"


def decode(data: bytes, declared: str | None = None) -> tuple[str, list[str]]:
    r"""Decode a text: as its byte order mark says, as UTF-8, as declared, or as it most likely is.

    If only few bytes are not UTF-8, these alone are replaced.

    Parameters
    ----------
    data : bytes
    declared : str, optional
        The encoding that the text itself declares.

    Returns
    -------
    text : str
        With "\n" at the end of each line.
    notes : list of str
        That bytes were replaced, or that the encoding is a guess; empty if all is certain.

    Raises
    ------
    ValueError
        If the data contains a null byte and no mark of UTF-16, or the mark alone.
    """
    text, notes = _decode(data, declared)
    return text.replace("\r\n", "\n").replace("\r", "\n"), notes


def _decode(data: bytes, declared: str | None) -> tuple[str, list[str]]:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode("utf-16"), []
        except UnicodeDecodeError:
            raise ValueError("it begins as UTF-16 does, and goes on otherwise") from None
    if b"\0" in data:
        raise ValueError("it is not a text file")
    for encoding in filter(None, ("utf-8-sig", declared)):
        try:
            return data.decode(encoding), []
        except (UnicodeDecodeError, LookupError):
            pass
    text = data.decode("utf-8-sig", errors="replace")
    bad, good = text.count(_BAD), sum(character > "\x7f" for character in text)
    # 0xFE and 0xFF alone are letters of no western text.
    if 2 * bad < good or (bad == good == data.count(b"\xfe") + data.count(b"\xff") and bad < 4):
        return text, [f"has {bad:,} bytes that are not UTF-8, which were replaced"]
    encoding = _guess(data)
    return data.decode(encoding, errors="replace"), [f"is not UTF-8 and was read as {encoding}"]


def _guess(data: bytes) -> str:
    """Return the likeliest encoding of what is not UTF-8."""
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    lines = [line for line in data.splitlines() if not line.isascii()]
    some = b"\n".join(lines)[:_GUESSED_FROM]
    best = from_bytes(some, cp_isolation=[*_LEGACY]).best()
    if best is None:
        return "cp1252"
    # Western texts often read as well in cp1250, where "à" is "ŕ".
    if best.encoding in ("cp1250", "cp1254") and best.language not in (*_OF_CP1250, "Turkish"):
        as_western = some.decode("cp1252", errors="replace")
        if _BAD not in as_western and not _WITHIN_WORD.search(as_western):
            return "cp1252"
    return best.encoding
