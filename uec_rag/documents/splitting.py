"""Cutting of a text into chunks."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator

# Of a paragraph, a line, a sentence, a word. What separates two pieces begins the second.
_ENDS = tuple(
    map(re.compile, (r"(?=\n\n)", r"(?=\n)", r"(?<=[.!?;])(?= )|(?<=[。！？；])", r"(?= )"))
)


def split_text(
    text: str, size: int, overlap: int = 0, length: Callable[[str], int] = len
) -> list[str]:
    r"""Split a text into chunks: at paragraphs, else lines, sentences, words or characters.

    Parameters
    ----------
    text : str
    size : int
        Maximum length of a chunk.
    overlap : int
        Maximum length of what consecutive chunks share.
    length : callable
        Function that measures a text.

    Examples
    --------
    >>> split_text("Locks turn.\n\nKeys do not turn.", 12)
    ['Locks turn.', 'Keys do not', 'turn.']
    """

    def split(text: str, ends: tuple[re.Pattern[str], ...]) -> Iterator[str]:
        pieces, inner = [*text], None
        for index, end in enumerate(ends):
            if len(parts := end.split(text)) > 1:
                pieces, inner = parts, ends[index + 1 :]
                break
        short = list[str]()
        for piece in filter(None, pieces):
            if length(piece) < size:
                short.append(piece)
                continue
            yield from _merge(short, size, overlap, length)
            short = []
            yield from [piece] if inner is None else split(piece, inner)
        yield from _merge(short, size, overlap, length)

    return list(split(text, _ENDS))


def _merge(
    pieces: Iterable[str], size: int, overlap: int, length: Callable[[str], int]
) -> Iterator[str]:
    """Join consecutive pieces to chunks."""
    buffer, total = deque[str](), 0
    for piece in pieces:
        new = length(piece)
        if total + new > size and buffer:
            yield from filter(None, ["".join(buffer).strip()])
            while total > overlap or (total + new > size and total > 0):
                total -= length(buffer.popleft())
        buffer.append(piece)
        total += new
    yield from filter(None, ["".join(buffer).strip()])
