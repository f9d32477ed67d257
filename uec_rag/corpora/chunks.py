"""Splitting of a text at the ends of paragraphs, lines and words."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

_ENDS = ("\n\n", "\n", " ")  # of a paragraph, a line, a word


def split_text(
    text: str, size: int, overlap: int = 0, length: Callable[[str], int] = len
) -> list[str]:
    r"""Split a text into chunks: at paragraphs if possible, else at lines, words or characters.

    The chunks are those of LangChain's `RecursiveCharacterTextSplitter`, without its libraries.

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

    def split(text: str, ends: tuple[str, ...]) -> Iterator[str]:
        place = next((place for place, end in enumerate(ends) if end in text), len(ends))
        pieces, inner = [*text], None
        if place < len(ends):
            first, *others = text.split(ends[place])
            pieces = [first, *(ends[place] + other for other in others)]
            inner = ends[place + 1 :]
        short = list[str]()
        for piece in filter(None, pieces):
            if length(piece) < size:
                short.append(piece)
                continue
            yield from _merged(short, size, overlap, length)
            short = []
            yield from [piece] if inner is None else split(piece, inner)
        yield from _merged(short, size, overlap, length)

    return list(split(text, _ENDS))


def _merged(
    pieces: Iterable[str], size: int, overlap: int, length: Callable[[str], int]
) -> Iterator[str]:
    """Join consecutive pieces to chunks."""
    held, total = deque[str](), 0
    for piece in pieces:
        new = length(piece)
        if total + new > size and held:
            yield from filter(None, ["".join(held).strip()])
            while total > overlap or (total + new > size and total > 0):
                total -= length(held.popleft())
        held.append(piece)
        total += new
    yield from filter(None, ["".join(held).strip()])
