"""Documents cut into passages to search, and into pairs to fit an ensemble on."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict

from uec_rag.base.environment import missing_extra
from uec_rag.corpora.document import Document, has_words
from uec_rag.corpora.questions import question_of, stands_in
from uec_rag.stores.base import Passage

CHUNK_SIZE = 800
"""Characters in a passage, at most: about what small embedding models read of one text."""

HASH = "file_sha256"
"""Metadata of a passage: the SHA-256 of the file that it is from, when it was read."""

COUNT = "file_passages"
"""Metadata of a passage: how many passages its file has. If fewer are stored, somebody was
stopped while they were added."""

CUT = "file_cut"
"""Metadata of a passage: "300/40" if its file was cut into 300 tokens at most, 40 of them shared;
none if it was cut into `CHUNK_SIZE` characters."""

FEWEST_CHARACTERS, FEWEST_TOKENS = 100, 20
"""The least that a passage may hold at most; shorter ones say too little to be found."""

_SHORTEST_BODY = 150  # characters of a passage that is fitted on


class Chunks(TypedDict, total=False):
    """The options of `passages_of`."""

    size: int
    overlap: int
    length: Callable[[str], int]


def passages_of(
    documents: Iterable[Document],
    *,
    size: int = CHUNK_SIZE,
    overlap: int = 0,
    length: Callable[[str], int] = len,
) -> list[Passage]:
    """Cut documents into passages that never cross a heading.

    They end with a paragraph if one fits, else with a line, else with a word.

    Parameters
    ----------
    documents
        As `read_folder` returns them; no two of one source.
    size
        Characters in a passage at most, not counting its heading.
    overlap
        Characters at its end that a passage may share with the next of its section.
    length
        Counts something else than characters, for both: `token_counter(uec.encoders)` of
        `uec_rag.encoders.base`, tokens.

    Returns
    -------
    list of Passage
        The text of each begins with its heading. The id, "source#position", stays the same when
        the text changes, so that adding it anew replaces it. Metadata: "source", "title" (the
        heading, else the page, else the source), "position" (0, 1, ... in the document) and, in a
        document that has pages, "page" (or slide).

    Raises
    ------
    ValueError
        If size is below 100 characters or 20 of what `length` counts, overlap not below half of
        it, or two documents have one source.
    ImportError
        If langchain-text-splitters is missing.
    """
    documents = list(documents)
    counts = Counter(document.source for document in documents)
    if counts and counts.most_common(1)[0][1] > 1:
        source = counts.most_common(1)[0][0]
        raise ValueError(f"documents: expected different sources, got {source!r} more than once")
    split = _splitter(size, overlap, length)
    passages = []
    for document in documents:
        chunks = [(part, chunk) for part in document.sections for chunk in split(part.text)]
        for position, (section, chunk) in enumerate(chunks):
            page = f"page {section.page}" if section.page else ""
            title = section.heading or page or document.source
            metadata = {"source": document.source, "title": title, "position": position}
            passages.append(
                Passage(
                    id=f"{document.source}#{position}",
                    # Some readers give NUL characters, which no store keeps.
                    text=f"{section.heading}\n\n{chunk}".replace("\0", " ").strip(),
                    metadata=metadata | ({"page": section.page} if section.page else {}),
                )
            )
    return passages


def bookkeeping(passage: Passage) -> set[str]:
    """Select the metadata by which an index keeps track of its files, which no model needs.

    A "position" of the user's own is none.

    Examples
    --------
    >>> known = {"source": "a.md", "title": "Locks", "position": 0, "file_passages": 1}
    >>> sorted(bookkeeping(Passage("a.md#0", "Locks turn.", known)))
    ['file_passages', 'position']
    """
    known = passage.metadata
    ours = passage.id == f"{known.get('source')}#{known.get('position')}"
    return known.keys() & {HASH, COUNT, CUT, *(["position"] if ours else [])}


def note_states(passages: Sequence[Passage], documents: Iterable[Document], cut: str = "") -> None:
    """Note on each passage the hash of its file, how many passages the file has, and the cut."""
    hashes = {document.source: document.sha256 for document in documents}
    counts = Counter(passage.metadata["source"] for passage in passages)
    for passage in passages:
        source = passage.metadata["source"]
        passage.metadata.update({HASH: hashes[source], COUNT: counts[source]})
        if cut:
            passage.metadata[CUT] = cut


def fitting_pairs(
    documents: Iterable[Document],
    *,
    size: int = CHUNK_SIZE,
    limit: int = 1000,
    seed: int = 0,
) -> list[tuple[str, str]]:
    """Make (query, passage) pairs out of documents alone, to fit an ensemble on.

    A heading of several words asks for the text under it; elsewhere a first sentence asks for
    what follows: of the section or, if there are no headings, of each passage. (Under a heading
    a later passage begins in the middle of a thought; pairs of these were measured to spoil the
    fit.) A query that stands word for word in its passage is left out: finding it there would
    teach nothing.

    Parameters
    ----------
    documents
        As `read_folder` returns them.
    size
        Characters in a passage at most.
    limit
        Pairs at most; if there are more, a sample.
    seed
        Of the sample.

    Returns
    -------
    list of (str, str)
        No query and no passage occurs twice.

    Raises
    ------
    ValueError
        If size is below 100.
    ImportError
        If langchain-text-splitters is missing.

    Examples
    --------
    >>> from uec_rag.corpora.document import Section
    >>> body = "Bread wants time. " + "Let the dough rest until it has doubled in size. " * 3
    >>> manual = Document("manual.txt", (Section("Baking a loaf at home", body),))
    >>> [(query, passage[:17]) for query, passage in fitting_pairs([manual])]
    [('Baking a loaf at home', 'Bread wants time.')]
    """
    split = _splitter(size)
    sections = [section for document in documents for section in document.sections]
    headings = Counter(section.heading for section in sections)
    passage_of: dict[str, str] = {}
    for section in sections:
        # "Example" under every function stands for none of them.
        telling = headings[section.heading] == 1
        chunks = split(section.text)
        for chunk in chunks[:1] if section.heading else chunks:
            pair = question_of([section.heading] if telling else [], chunk, _SHORTEST_BODY)
            # In lower case it is the rest of a sentence that began on the page before.
            if pair is not None and not pair[0][0].islower() and not stands_in(*pair):
                passage_of.setdefault(*pair)
    query_of = {passage: query for query, passage in passage_of.items()}
    pairs = [(query, passage) for passage, query in query_of.items()]
    return pairs if len(pairs) <= limit else random.Random(seed).sample(pairs, limit)


def check_chunks(
    size: int, overlap: int, fewest: int, arguments: tuple[str, str] = ("size", "overlap")
) -> None:
    """Check how documents are to be cut; ValueError says which of the arguments is wrong."""
    if size < fewest:
        raise ValueError(f"{arguments[0]}: expected at least {fewest}, got {size}")
    if not 0 <= overlap <= size // 2:
        raise ValueError(
            f"{arguments[1]}: expected from 0 to half of {arguments[0]}, {size // 2}, got {overlap}"
        )


def _splitter(
    size: int, overlap: int = 0, length: Callable[[str], int] = len
) -> Callable[[str], list[str]]:
    check_chunks(size, overlap, FEWEST_CHARACTERS if length is len else FEWEST_TOKENS)
    try:
        from langchain_text_splitters import RecursiveCharacterTextSplitter
    except ImportError as error:
        raise ImportError(missing_extra("langchain-text-splitters", "documents")) from error
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=size, chunk_overlap=overlap, length_function=length
    )
    return lambda text: [chunk for chunk in splitter.split_text(text) if has_words(chunk)]
