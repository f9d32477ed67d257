"""Parts of a text in an encoding that nobody reads: images, keys, certificates, drawings."""

import re
from collections import Counter
from dataclasses import replace

from uec_rag.documents.document import Block, Heading

_NAME = "piece of encoded data"
_SHORTEST, _LEFT_OUT = 64, "\0"  # a character that no text has
_LONG = 56  # characters without a blank
_RUN = (
    r"(?<![\w+/-])(?=[\w+/-]{0,99}[a-z])(?=[\w+/-]{0,99}[A-Z])(?=[\w+/-]{0,99}[0-9])"
    r"(?:[A-Za-z0-9+/_-]|\\/){240,}+={0,2}|\b(?=[0-9A-Fa-f]{0,99}[A-Fa-f])[0-9A-Fa-f]{240,}+\b"
)
_NUMBER = r"-?\d++\.\d++(?:[Ee][+-]?\d++)?"  # of an embedding
_LINES = (
    r"^[ \t>]*+[A-Za-z0-9+/]{56,100}+={0,2}[ \t]*+\n(?:[ \t>]*+[A-Za-z0-9+/]{56,100}+={0,2}[ \t]*+"
    r"(?:\n|\Z)){3,}+(?:[ \t>]*+[A-Za-z0-9+/]{1,100}+={0,2}[ \t]*+$)?"
)
_ENCODED = re.compile(
    r"(?<!\]\()(?<!\]: )\bdata:[\w.+-]+\\?/[\w.+-]+(?:;[\w.+-]+(?:=[\w.+-]+)?)*+"
    r",(?:[^\s\"'<>()\\]|\\/){64,}+"
    r"|-----BEGIN ([A-Z0-9 ]{1,60})-----(?:(?!-----BEGIN)[^-]|-(?!----))*+-----END \1-----"
    rf"|{_LINES}|{_RUN}|(?<![\d.]){_NUMBER}(?:,\s?{_NUMBER}){{127,}}+",
    re.MULTILINE,
)
# What all of these have: a long word of data, or numbers in a row. To look for it takes a tenth.
_LONG_WORD = re.compile(r"data:|[A-Za-z0-9+/]{56}|[A-Za-z0-9+/_\\-]{240}")
_NUMBERS = re.compile(rf"\.\d++(?:[Ee][+-]?\d++)?,\s?{_NUMBER},\s?{_NUMBER}")
_DRAWING = re.compile(
    r"(?P<code>^[ \t>]*+(?P<fence>`{3,}|~{3,})(?s:.*?)(?:^[ \t>]*+(?P=fence)|\Z))"
    r"|(?P<span>(?<!`)`++[^`\n]++`++)|<svg\b(?:(?!</?svg\b)[\s\S])*+</svg\s*>",
    re.MULTILINE,
)
_SHOWN = re.compile(r"<(title|desc|text|tspan)\b[^<>]*>([^<>]++)")


def without_encoded(text: str, left_out: Counter[str]) -> tuple[str, str]:
    r"""Return a text without encoded data and drawings in SVG, which are counted.

    What a drawing says stays, and so does code that draws. Second is the text as long as it was,
    with blanks in the place of what is left out.

    Examples
    --------
    >>> left_out = Counter()
    >>> image = f'<img src="data:image/png;base64,{"iVBOR0" * 12}">'
    >>> text = f"The {image} and <svg><title>old</title><path d='M1 1'/></svg> mill."
    >>> without_encoded(text, left_out)[0], left_out
    ('The <img src=""> and old mill.', Counter({'piece of encoded data': 2}))
    """
    if len(text) < _SHORTEST:
        return text, text

    def shown(match: re.Match[str]) -> str:
        if match["code"] or match["span"]:
            return match[0]
        left_out[_NAME] += 1
        says = " ".join(says.strip() for _, says in _SHOWN.findall(match[0]))
        return says.ljust(len(match[0]), _LEFT_OUT)

    count = 0
    if _may_be_encoded(text):
        text, count = _ENCODED.subn(lambda match: _LEFT_OUT * len(match[0]), text)
    text = _DRAWING.sub(shown, text) if "<svg" in text else text
    left_out[_NAME] += count
    return text.replace(_LEFT_OUT, ""), text.replace(_LEFT_OUT, " ")


def _may_be_encoded(text: str) -> bool:
    long = [word for word in text.split() if len(word) >= _LONG]
    has_long = "-----BEGIN" in text or any(map(_LONG_WORD.search, long))
    return has_long or ("," in text and _NUMBERS.search(text) is not None)


def clean(block: Block, left_out: Counter[str]) -> Block:
    """Return a part of a page without encoded data, which is counted."""
    if isinstance(block, Heading):
        return block
    if isinstance(block, str):
        return without_encoded(block, left_out)[0]
    rows = [tuple(without_encoded(cell, left_out)[0] for cell in row) for row in block.rows]
    return replace(block, rows=tuple(rows))
