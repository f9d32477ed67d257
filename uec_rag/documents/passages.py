"""Splitting of documents into passages to search, and into pairs to fit an ensemble on."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import PurePath
from typing import TypeAlias

import regex

from uec_rag.base.text import DOCUMENT_KEYS, QUESTION_KEYS, SOURCE_KEYS, TITLE_KEYS, mentions
from uec_rag.documents.document import Document, Section
from uec_rag.documents.generated_questions import pairs_from_passages
from uec_rag.documents.plain_text import has_text, split_text
from uec_rag.documents.readers import READERS
from uec_rag.stores.passage import Passage

CHUNK_SIZE = 800
"""The default maximum length of a passage, in characters: about what small models can read."""

HASH = "file_sha256"
"""The metadata key of the SHA-256 of a passage's file at the time it was read."""

COUNT = "file_passages"
"""The metadata key of the number of passages of a passage's file. If fewer are stored, adding them
was interrupted."""

BOOKKEEPING = {HASH, COUNT}
"""The metadata keys by which an index keeps track of its files, useless to a model."""

FEWEST_CHARACTERS = 100
"""The smallest maximum length of a passage; shorter ones say too little to be found."""

_LONGEST_ANCHOR = 80  # characters
PLAIN = (".txt", ".csv", ".tsv", ".jsonl", ".ndjson")
"""The suffixes of files whose passages are without marks of Markdown."""

# The sentence before a list, and the list.
_ITEM = r"[ \t]*+(?:[-*+\u2022\u2013]|\(?(?:\d{1,3}|[A-Za-z])[.)])[ \t]++.*+"
_LEAD_IN = re.compile(
    r"(?<![^\n.!?\u3002])[ \t]*+([^\n.!?\u3002]{2,300}[:\uff1a][*_]*+)[ \t]*+\n++"
    rf"(?:{_ITEM}(?:\n++[ \t]++\S.*+)*+(?:\n++|\Z)){{2,}}"
)

# Metadata keys that mean something else here than in the front matter of a file.
_OURS = re.compile(
    f"{'|'.join(map(re.escape, (*TITLE_KEYS, *SOURCE_KEYS, *DOCUMENT_KEYS)))}"
    r"|page|start_index|file_(?:sha256|passages)|header_path|[Hh]eader [1-6]|h[1-6]|uec_.*"
)

# Keys of a document in a file that is not a user's: ours, and those that are read as instructions.
_OF_PROGRAMS = re.compile(rf"{_OURS.pattern.replace('|page|', '|')}|questions|_.*")


def passages_of(
    documents: Iterable[Document], *, size: int = CHUNK_SIZE, questions: bool = False
) -> list[Passage]:
    """Split documents into passages that do not span headings.

    A passage ends at the end of a paragraph if possible, else of a line, else of a word.

    Parameters
    ----------
    documents : iterable of Document
        Documents as returned by `read_folder`, with distinct sources.
    size : int
        Maximum length of a passage, in characters, without its heading and without what is repeated
        if a block of code in Markdown is split: its first and its last line.
    questions : bool
        Whether `questions` in the front matter of a file stand beside each of its passages, which
        are then found by them: only if you trust whoever writes the files.

    Returns
    -------
    list of Passage
        The text of each begins with its heading. Before it are the title of the document, else the
        name of the file, and the headings above that have no text, unless it has them: what a
        passage is about may be said there alone. The id is "source#heading", with the headings
        above it ("faq.md#returns/how-long"), and "-2" for the second passage of that name; without
        a heading, or below the title alone, it is "source#0", "source#1", ..., or "source#page-3".
        In an update of an index, a text keeps its id, and another text in its place gets another
        (`uec_rag.index.updates.with_ids_of`). The metadata are "source", "title" (the heading,
        else the page, the title of the document or the source) and, if they are known,
        "document_title", "page" and "start_index", where its own text begins in that of the file.
        The last is absent if the file does not have the text as it is: rows of csv and jsonl,
        operations of an interface, what a web page wraps or has tags in, subtitles of several
        lines, and files that are no text, such as pdf and docx.

    Raises
    ------
    ValueError
        If size is below 100, or two documents have the same source.
    """
    if size < FEWEST_CHARACTERS:
        raise ValueError(f"size: expected at least {FEWEST_CHARACTERS}, got {size}")
    sources, passages = set[str](), list[Passage]()
    for document in documents:
        if (source := document.source) in sources:
            raise ValueError(f"documents: expected different sources, got {source!r} twice")
        sources.add(source)
        passages += _passages(document, size, () if questions else QUESTION_KEYS)
    return passages


def _passages(document: Document, size: int, ignored: Sequence[str]) -> Iterator[Passage]:
    suffix = PurePath(document.source).suffix.lower()
    name = document.title or file_name(document.source)
    headings, has_text = document.headings, {section.path for section in document.sections}
    pairs = document.metadata.items()
    of_file = {k: v for k, v in pairs if k not in ignored and not _OURS.fullmatch(k)}
    chunks = [(part, *chunk) for part in document.sections for chunk in _split(part, suffix, size)]
    anchors = _anchors(section for section, *_ in chunks)
    for (section, chunk, start), mark in zip(chunks, anchors, strict=True):
        heading, path = headings[section.path], section.path
        page = f"page {section.page}" if section.page else ""
        facts = section.metadata
        name_of_part = facts.get("title") if isinstance(facts.get("title"), str) else ""
        title = heading or name_of_part or page or name or document.source
        known = {"page": section.page, "document_title": name or None, "start_index": start}
        above = [path[end] for end in range(len(path) - 1) if path[: end + 1] not in has_text]
        is_bare = chunk == section.heading  # a heading with nothing below it
        text = heading if is_bare else f"{heading}\n\n{chunk}".strip()
        for outer in reversed((name, *above)):
            if not mentions(text, outer):
                text = f"{outer}\n\n{text}"
        of_part = {key: facts[key] for key in facts if not _OF_PROGRAMS.fullmatch(key)}
        metadata = {**of_file, **of_part, "source": document.source, "title": title}
        metadata |= {key: value for key, value in known.items() if value is not None}
        yield Passage(f"{document.source}#{mark}", text.strip(), metadata)


def anchor(heading: str) -> str:
    """Return a heading as ids have it: its words in lower case, joined by hyphens.

    Examples
    --------
    >>> anchor("How do I *reset* a user's password?")
    'how-do-i-reset-a-users-password'
    """
    plain = re.sub("['\u2019]", "", heading.lower())
    # To `re`, the vowel signs of Indic scripts are no part of a word.
    return regex.sub(r"\W+", "-", plain)[:_LONGEST_ANCHOR].strip("-")


def _anchors(sections: Iterable[Section]) -> Iterator[str]:
    """Yield the parts of ids after "#", for the sections of a document's passages in turn."""
    marks, counts = set[str](), Counter[str]()
    for section in sections:
        name = "/".join(filter(None, map(anchor, section.path)))
        name = name or (f"page-{section.page}" if section.page else "")
        mark = None
        while mark is None or mark in marks:  # as the second "Step" after "Step 2"
            count = counts[name]
            counts[name] += 1
            mark = str(count) if not name else f"{name}-{count + 1}" if count else name
        marks.add(mark)
        yield mark


_Fence: TypeAlias = tuple[int, int, int, str, str]


def _fences(text: str, longest: int) -> Iterator[_Fence]:
    """Yield, for each block of code, the offsets of its head, code and tail, and these two lines.

    A head of more than `longest` characters is yielded without its language.
    """
    from markdown_it import MarkdownIt

    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    for token in MarkdownIt().disable("inline").parse(text):  # for speed
        if token.type == "fence" and token.map:
            top, bottom = token.map[0], token.map[1] - 1
            head, marks = lines[top], lines[bottom].strip(" \t>")
            if bottom > top and marks.startswith(token.markup) and len({*marks}) == 1:
                head = head if len(head) <= longest else token.markup
                yield starts[top], starts[top + 1], starts[bottom], head, lines[bottom]


def _with_fences(text: str, begin: int, end: int, fences: Iterable[_Fence]) -> str:
    """Return a chunk of a Markdown text with the fences of the code that it is part of."""
    whole = text[begin:end].strip()
    for start, code, end_of_code, head, tail in fences:
        if start <= begin and end <= code:
            return ""  # a head, which the next chunk repeats
        if start < begin < end_of_code:
            whole = f"{head}\n{text[max(begin, code) : end]}"
        if start < end <= end_of_code:
            whole += f"\n{tail}"
    return whole


def file_name(source: str) -> str:
    """Return what a document is called by its file, or by its folder if that is an index; else "".

    Numbers, single letters and sources without the extension of a file are no names.

    Examples
    --------
    >>> file_name("commands/script-load.md"), file_name("fees/index.html"), file_name("0012.txt")
    ('script load', 'fees', '')
    """
    path = PurePath(source.replace("\\", "/"))
    if path.suffix.lower() not in READERS or path.suffix[1:].isdigit():
        return ""
    is_index = path.stem.lstrip("_").casefold() in ("index", "readme")
    name = re.sub(r"[-_\s]+", " ", path.parent.name if is_index else path.stem).strip()
    return name if sum(character.isalpha() for character in name) > 1 else ""


def add_file_metadata(passages: Sequence[Passage], documents: Iterable[Document]) -> None:
    """Add `HASH` and `COUNT` to the metadata of passages."""
    hashes = {document.source: document.sha256 for document in documents}
    counts = Counter(passage.metadata["source"] for passage in passages)
    for passage in passages:
        source = passage.metadata["source"]
        passage.metadata.update({HASH: hashes[source], COUNT: counts[source]})


def fitting_pairs(
    documents: Iterable[Document], *, size: int = CHUNK_SIZE, limit: int = 1000
) -> list[tuple[str, str]]:
    """Make (query, passage) pairs from unlabelled documents, to fit an ensemble on.

    They are made as a first search makes them of an index: a heading of several words is the query
    for the text below it, else its first sentence for the rest.

    Parameters
    ----------
    documents : iterable of Document
        Documents as returned by `read_folder`.
    size : int
        Maximum length of a passage, in characters, as in `passages_of`, with its errors.
    limit : int
        Maximum number of pairs.

    Returns
    -------
    list of (str, str)
        Pairs in random order, in which no query and no passage occurs twice.

    Examples
    --------
    >>> from uec_rag.documents.document import Section
    >>> body = "Bread wants time. " + "Let the dough rest until it has doubled in size. " * 3
    >>> manual = Document("manual.txt", (Section(("Baking a loaf at home",), body),))
    >>> [(query, passage[:17]) for query, passage in fitting_pairs([manual])]
    [('Baking a loaf at home', 'Bread wants time.')]
    """
    pairs = pairs_from_passages(passages_of(documents, size=size), limit)
    query_of = {passage: query for query, passage in pairs}
    return [(query, passage) for passage, query in query_of.items()]


def _split(section: Section, suffix: str, size: int) -> Iterator[tuple[str, int | None]]:
    """Yield the parts of a section of a file with a suffix, and where they begin in the file."""
    text, spans, end = section.text, list[tuple[int, int]](), 0
    for chunk in filter(has_text, split_text(text, size)):
        start = text.find(chunk, end)
        end = start + len(chunk)
        spans.append((start, end))
    if len(spans) < 2:
        yield from ((text[start:end], section.place(start, end)) for start, end in spans)
        return
    leads = [*_leads(text, section.captions)]
    # A lead-in at the end begins the next chunk, too.
    spans = [
        (start, min([end, *(at for at, lead, _ in leads if start <= at < end <= at + len(lead))]))
        for start, end in spans
    ]
    has_code = suffix in READERS and suffix not in PLAIN and ("```" in text or "~~~" in text)
    fences = [*_fences(text, size // 3)] if has_code else []
    for start, end in spans:
        if whole := _with_fences(text, start, end, fences):
            above = [lead for at, lead, stop in leads if at + len(lead) < start < stop]
            yield "\n".join([*above[-1:], whole]), section.place(start, end)


def _leads(text: str, captions: Iterable[str]) -> Iterator[tuple[int, str, int]]:
    """Yield where sentences before lists and captions of tables begin, and where these end."""
    for list_found in _LEAD_IN.finditer(text):
        yield list_found.start(1), list_found[1].strip(), list_found.end()
    for caption in filter(None, captions):
        if (start := text.find(f"{caption}\n")) >= 0:
            end = text.find("\n\n", start)
            yield start, caption, len(text) if end < 0 else end
