"""Text: its encoding, the characters that are seen, and its cutting into chunks."""

import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress

import regex

# Of what is not UTF-8 nearly all is one of these; those that are named first win a draw.
_LEGACY = "cp1252 cp1250 cp1251 koi8_r cp1253 cp1254 cp1255 cp1256 cp932 euc_jp gb18030 big5 cp949"
# Western texts often read as well in cp1250 and cp1254, which these languages have.
_NOT_WESTERN = ("Croatian", "Czech", "Hungarian", "Polish", "Slovak", "Slovene", "Turkish")
_GUESSED_FROM = 50_000  # bytes
_LONGEST_ADDRESS = 200  # characters, beyond which it holds data
_LONGEST_MARK = 5  # characters of a mark of a note
_BAD = "\ufffd"

# Hyphens that are only shown at the end of a line, marks that have no width, and control
# characters that not every store can hold.
_UNSEEN = regex.compile("[\u00ad\u200b\u2060\ufeff\x00-\x08\x0b\x0c\x0e-\x1f]")
_BLANK = regex.compile("[\u00a0\u2007\u202f]")
_LIGATURE = regex.compile("[\ufb00-\ufb06]")

_TRAILING = re.compile(r"(?<![ \t])[ \t]++$", re.MULTILINE)
_EMPTY_LINES = re.compile(r"\n{3,}")

# Of a paragraph, a line, a sentence, a word. What separates two pieces begins the second.
_ENDS = tuple(
    map(re.compile, (r"(?=\n\n)", r"(?=\n)", r"(?<=[.!?;])(?= )|(?<=[。！？；])", r"(?= )"))
)


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
    is_utf_16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in data and not is_utf_16:
        raise ValueError("it is not a text file")
    notes = list[str]()
    for encoding in ("utf-16",) if is_utf_16 else ("utf-8-sig", declared or "utf-8"):
        with suppress(UnicodeDecodeError, LookupError):
            text = data.decode(encoding)
            break
    else:
        if is_utf_16:
            raise ValueError("it begins as UTF-16 does, and goes on otherwise")
        text, notes = _guess(data)
    return text.replace("\r\n", "\n").replace("\r", "\n"), notes


def _guess(data: bytes) -> tuple[str, list[str]]:
    text = data.decode("utf-8-sig", errors="replace")
    bad, good = text.count(_BAD), sum(character > "\x7f" for character in text)
    # 0xFE and 0xFF alone are letters of no western text.
    if 2 * bad < good or (bad == good == data.count(b"\xfe") + data.count(b"\xff") and bad < 4):
        return text, [f"has {bad:,} bytes that are not UTF-8, which were replaced"]
    encoding = "cp1252"
    with suppress(ImportError):
        from charset_normalizer import from_bytes

        lines = (line for line in data.splitlines() if not line.isascii())
        best = from_bytes(b"\n".join(lines)[:_GUESSED_FROM], cp_isolation=_LEGACY.split()).best()
        is_western = best is None or best.encoding in ("cp1250", "cp1254")
        if best is not None and (not is_western or best.language in _NOT_WESTERN):
            encoding = best.encoding
    return data.decode(encoding, errors="replace"), [f"is not UTF-8 and was read as {encoding}"]


def plain(text: str) -> str:
    r"""Return a text without characters that are not seen and would part a word from itself.

    Examples
    --------
    >>> plain("Re\u00adimburse\u00adment of\u00a0o\ufb03ce costs")
    'Reimbursement of office costs'
    """
    # Of a pair of surrogates a PDF may have one.
    text = _BLANK.sub(" ", _UNSEEN.sub("", text.encode("utf-8", "replace").decode()))
    text = _LIGATURE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return unicodedata.normalize("NFC", text)


def raised(before: str, text: str) -> str:
    """Write a superscript apart from what is before it, but for ordinals and signs.

    Examples
    --------
    >>> [raised(*pair) for pair in (("10", "6"), ("x", "n+1"), ("1", "st"), ("fee.", "2"))]
    ['^6', '^(n+1)', 'st', '[2]']
    """
    mark = text.strip()
    is_ordinal = mark.isalpha() and (len(mark) > 1 or (before[-1:].isdigit() and mark in "aeo"))
    if not has_text(mark) or is_ordinal or mark[0] in "[(":
        return text
    if not before[-1:].isalnum() and before[-1:] not in (")", "]"):
        return text if len(mark) > _LONGEST_MARK else f"[{mark}]"
    simple = re.fullmatch(r"[-\u2212\u2013+]?\w+", mark)
    return f"^{mark}" if simple else f"^({mark})"


def struck(text: str) -> str:
    """Mark a text that is crossed out, as Markdown does; what is marked stays.

    Examples
    --------
    >>> struck(" 80 euros "), struck("~~80~~")
    (' ~~80 euros~~ ', '~~80~~')
    """
    words = text.strip()
    return text.replace(words, f"~~{words}~~") if words and not words.startswith("~~") else text


def linked(text: str, address: str) -> str:
    """Write a link as Markdown does, if its address is not in its text.

    Examples
    --------
    >>> linked("here ", "https://example.com/b 17"), linked("a@b.org", "mailto:a@b.org")
    ('[here](https://example.com/b%2017) ', 'a@b.org')
    """
    label, bare = text.strip(), address.removeprefix("mailto:").removeprefix("tel:")
    if not has_text(label) or bare in label or len(address) > _LONGEST_ADDRESS:
        return text
    return text.replace(label, f"[{label}]({address.replace(' ', '%20')})")


def tidy_lines(text: str) -> str:
    """Return a text without blanks at the ends of lines, and with one empty line at most."""
    return _EMPTY_LINES.sub("\n\n", _TRAILING.sub("", text))


def has_text(text: str) -> bool:
    """Return whether a text contains a letter or a digit."""
    return any(character.isalnum() for character in text)


def to_integer(value: object, usual: int = 0) -> int:
    """Return a whole number of up to five digits that a text is; the usual one if it is none."""
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 6 else usual


def shown_of_role(text: str) -> str:
    """Return what Sphinx shows for a role: "run" for "~Task.run", "here" for "here <target>"."""
    text = text.strip()
    text = (text.rpartition(" <")[0] if text.endswith(">") else "") or text
    return text.rpartition(".")[2] if text.startswith("~") else text.lstrip("!@")


def fenced(code: str) -> str:
    """Return code as a block of Markdown; "" if there is none."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{fence}\n{code}\n{fence}" if code.strip() else ""


def split_text(text: str, size: int) -> list[str]:
    r"""Split a text into chunks of at most `size` characters.

    A chunk ends at the end of a paragraph, else of a line, a sentence, a word.

    Examples
    --------
    >>> split_text("Locks turn.\n\nKeys do not turn.", 12)
    ['Locks turn.', 'Keys do not', 'turn.']
    """
    return [*filter(None, map(str.strip, _split(text, size, _ENDS)))]


def _split(text: str, size: int, ends: Sequence[re.Pattern[str]]) -> list[str]:
    chunks, short = list[str](), ""
    for part in ends[0].split(text) if ends else text:
        if len(part) >= size and ends:
            chunks += [short, *_split(part, size, ends[1:])]
            short = ""
        elif len(short) + len(part) > size:
            chunks.append(short)
            short = part
        else:
            short += part
    return [*chunks, short]
