"""The words of a text, and the subject, source and document that a passage names.

A new language needs its function words here (`FUNCTION_WORDS`), its table in
questions/languages.toml, and words that tell it from English in encoders/function_words.txt.
"""

from __future__ import annotations

import re
import sys
import threading
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from html import unescape
from pathlib import PurePath
from typing import Any, ParamSpec, Self, TypeVar, cast
from urllib.parse import unquote

import regex
import Stemmer

from uec_rag.base.records import remembered

_P = ParamSpec("_P")
_T = TypeVar("_T")

TITLE_KEYS = ("title", "heading", "header")
"""Metadata keys for the title of a passage; the first one that a passage has is used."""

SOURCE_KEYS = ("source", "file_path", "file_name", "url")
"""Metadata keys for the source of a passage: ours and LangChain's, LlamaIndex's, and a web page's.
"""

DOCUMENT_KEYS = ("document_title", "Header 1", "h1")
"""Metadata keys for the title of a passage's document: ours and LlamaIndex's, and LangChain's."""

_LINES = regex.compile(r"[^\n]*+\n++|[^\n]++")
_INLINE_TAG = regex.compile(
    r"</?(?:abbr|a|b|br|code|div|em|font|h[1-6]|i|mark|p|small|span|strong|su[bp]|u|wbr)\b[^<>]*+>",
    regex.IGNORECASE,
)
_TITLED = frozenset([*TITLE_KEYS, *DOCUMENT_KEYS])
QUESTION_KEYS = ("questions", "questions_this_excerpt_can_answer")
"""Metadata keys for what people ask or call a passage: ours, and that of LlamaIndex's extractor."""

MOST_QUESTIONS, LONGEST_QUESTION, MOST_NAMES = 10, 200, 30
"""Bounds of what stands beside a passage: questions, their characters, and everyday names."""

_LOOKED_AT_BESIDE = 12_000  # characters, more than what is within these bounds
_NAMES, _QUESTION_MARKS = regex.compile("[,;、，،]"), tuple("?？؟")
_FEW_WORDS, _LONG_WORD = 5, 12  # words of a name; characters, where no space parts words

MARKDOWN = (".md", ".markdown", ".mdx")
"""The suffixes of files in Markdown."""

LONGEST_ASKED = 4096
"""The number of characters up to which a text is looked at as something that a user says."""

_LONGEST_STATEMENT, _WIDTH = 400, 4  # letters; those that a character without spaces stands for

SPACELESS = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
"""A pattern of the characters in scripts without spaces between words."""

HAS_SPACELESS = regex.compile(SPACELESS)
_SPACELESS_RUN = regex.compile(f"{SPACELESS}+")
WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+")
_ASCII_WORD = re.compile(r"\w+", re.ASCII)  # equal to WORD for ASCII texts, but faster
# A mark before white space or, in Chinese and Japanese, before anything; or a blank line.
SENTENCE_END = regex.compile(r"(?<=[.!?])[\"')\]]?\s+|(?<=[。！？])|\n\s*\n")
_DECORATED = regex.compile(
    "[\u2460-\u24ff\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f"
    "\U0001d400-\U0001d7ff\U0001f100-\U0001f16c]+"
)
_HEADING = regex.compile(r"[Hh]eader [1-6]|h[1-6]")
# A comment in code stands above another one, or what it is on.
_COMMENTS = r"(?!\r?\n(?:\1[ \t]|[\w.'\"\[\]-]++\s*+=))"
_MARKDOWN_HEADING = regex.compile(r"\s*+(#{1,6})[ \t]++(\S[^\r\n]*+)" + _COMMENTS)
_LINK, _MARKS = regex.compile(r"!?\[([^\[\]]*+)\]\([^()]*+\)"), regex.compile("[`*~]+")
ATTRIBUTES = regex.compile(r"(?<!\s)\s*\{(?::?\s*(?:[#.]|data-[\w-]+=)[^{}]*|/\*[^{}]*\*/)\}\s*\Z")
"""The attributes at the end of a heading in Markdown: "{#fees}", "{: .no_toc}"."""

# The suffixes that the name of a document is shown without.
_DOCUMENT = regex.compile(
    r"(?<=.)\.(?:markdown|mdx?|rst|txt|x?html?|pdf|docx?|od[tps]|rtf|epub|adoc|qmd|ipynb|pptx?|xlsx?"
    r"|[ct]sv|eml|msg|php|aspx?|jsp)\Z",
    regex.IGNORECASE,
)
_SEPARATORS, _QUERY = regex.compile(r"[\\/]+"), regex.compile(r"[?#].*")
# Of an article in an address, of a page that was exported, and of a copy ("fees (1)").
_HASH = r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-)?[0-9a-f]{12,}"
_IDS = regex.compile(rf"\A(?:\d{{5,}}|{_HASH})[ _-]|[ _-](?:{_HASH}|\(\d{{1,2}}\))\Z")
# The number or the mark of a line in a list.
_ITEM = re.compile(r"\A\s*+(?:\d{1,2}[.)]|[-*+\u2022])\s++")
_VERSION_KEYS = ("version", "release")
_VERSION = regex.compile(
    r"(?<![^\W_])(?:v\d+(?:\.\d+)*|\d+(?:\.\d+)+)(?![^\W_]|\.\d)", regex.IGNORECASE
)
_MANUAL_PAGE = regex.compile(r"\(\d\w*+\)(?: Manual Page)?\Z")
# With a dot: "7.5. Virtual packages", and not "3 Idiots".
_SECTION_NUMBER = regex.compile(r"\A(?:[A-Z]\.\d|\d+\.)[\d.]*\s+")
PAGE = regex.compile(r"page \d+", regex.IGNORECASE)
"""The title of a passage without a heading."""

# What programs put before the name of a file, and write where there is no title.
_PRODUCER = regex.compile(r"\AMicrosoft (?:Word|PowerPoint|Excel) - ")
_NO_TITLE = regex.compile(
    r"[\W_]*+(?:\d{0,3}+|anonymous|n/?a|nan|nil|none|null|undefined|unknown|powerpoint.presentation"
    r"|(?:untitled|unnamed|unbenannt|(?:no|kein|ohne) tite?le?|sans titre|sin título|senza titolo)"
    r"(?:[ _-]\p{L}++)?[ _-]?\d*+"
    r"|(?:book|chart|doc|document|dokument|folie|layout|mappe|presentation|präsentation|sheet|slide"
    r"|tabelle|workbook)[ _-]?\d++)(?:\.\p{L}{2,4}x?)?[\W_]*+",
    regex.IGNORECASE,
)
_LONGEST_HEADING = 500  # characters
_of_thread = threading.local()  # its stemmer, which costs more to make than a title to stem
# Characters and words at the beginning of a passage; the first ones usually have these words.
_LOOKED_AT, _NEAR, _OPENING = 400, 120, 10

_ENGLISH = """\
a an and are as at be been but by can could did do does for from had has have he her his how i if in
into is it its not of on or our she should that the their them there these they this those to we
were what when where which who whose why will with would you your"""
# Of these, other languages have some ("was", "also"), and texts without sentences hardly any.
_FURTHER = """\
about after also am any before being between during explain get got happen happened happens just
many may me mean means might much must my over per please shall so some tell than then under us use
used was"""

ENGLISH_WORDS = frozenset(_ENGLISH.split())
"""Function words by which a text is recognised as English."""

FUNCTION_WORDS = ENGLISH_WORDS | frozenset(_FURTHER.split())
"""English words that say little about the subject of a question."""

_GENERAL = (
    "about|before you begin|background|conclusion|contents|details|example|examples|faq|"
    "further reading|general|getting started|how it works|important|introduction|learn more|links|"
    "more information|next steps|note|notes|options|other options|overview|prerequisites|"
    "quick start|reference|related|requirements|resources|see also|settings|steps|summary|"
    "table of contents|tips|troubleshooting|usage|what's next|where to go next"
)
GENERAL_TITLES = frozenset(_GENERAL.split("|"))
"""Titles of sections of any document, which do not tell what it is about."""


def is_statement(text: str) -> bool:
    """Return whether a text is short enough to be one of statements alike: some seventy words.

    Examples
    --------
    >>> [is_statement(text) for text in ("A lamp costs 9 euros.", "lamp " * 99, "灯" * 150)]
    [True, False, False]
    """
    length = len(text)
    if length <= _LONGEST_STATEMENT and not text.isascii():
        length += (_WIDTH - 1) * sum(map(len, _SPACELESS_RUN.findall(text)))
    return length <= _LONGEST_STATEMENT


ADDRESS = regex.compile(
    r"(?:https?://|www\.)\S+|(?<![\w.+-])[\w.+-]++@[\w-]++\.[\w.-]+"
    r"|(?<![\w.-])[\w-]++(?:\.[\w-]++)++/\S*"
)
"""A URL or an address of mail, which is in no language."""


def undecorated(text: str) -> str:
    """Return a text with plain letters and digits for mathematical, circled and wide ones.

    Examples
    --------
    >>> undecorated("\uff32efund: \U0001d7cf\U0001d7d2 \u24d3ays")
    'Refund: 14 days'
    """
    if text.isascii():
        return text
    return str(_DECORATED.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text))


def telling_words(words: Iterable[str], function_words: Collection[str]) -> list[str]:
    """Return the words of a question that are no function words, or abbreviations as "IT" is.

    Examples
    --------
    >>> telling_words(["Is", "it", "for", "IT"], {"is", "it", "for"})
    ['IT']
    """
    return [w for w in words if w.casefold() not in function_words or is_abbreviation(w)]


def is_abbreviation(word: str) -> bool:
    """Return whether a word is in capitals, of which there are several."""
    return len(word) > 1 and word.isupper()


def skip_long_texts(otherwise: Any) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:  # noqa: ANN401
    """Let a function of texts return `otherwise`, without work, if one has over `LONGEST_ASKED`."""

    def limit(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(function)
        def skip(*texts: _P.args, **keywords: _P.kwargs) -> _T:
            for text in (*texts, *keywords.values()):
                if isinstance(text, str) and len(text) > LONGEST_ASKED:
                    return cast(_T, otherwise)
            return function(*texts, **keywords)

        return skip

    return limit


def first_value(metadata: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return the first value that metadata have under one of several keys; "" if none.

    What stands for no title is none, and so is a number as a source. Of a list, or of a dict of
    languages, it is the first text; of the title of a site, what its markup shows.

    Examples
    --------
    >>> [first_value({"title": title}, TITLE_KEYS) for title in (["Bags", "A"], "<b>A</b> &amp; B")]
    ['Bags', 'A & B']
    >>> titles = "Microsoft Word - Document1", "Untitled", "None", "Microsoft Word - Fees"
    >>> [first_value({"title": title}, TITLE_KEYS) for title in titles]
    ['', '', '', 'Fees']
    """
    for key in keys:
        value = metadata.get(key)
        while isinstance(value, list | tuple | dict):
            inner = [*value.values()] if isinstance(value, dict) else value
            value = next(filter(None, inner), "")
        if value := str(value or "").strip():
            if key not in _TITLED:
                if not value.isdecimal():
                    return value
                continue
            if "</" in value:
                value = _INLINE_TAG.sub("", value)
            value = unescape(value) if "&" in value else value
            if not _NO_TITLE.fullmatch(title := _PRODUCER.sub("", value)):
                return str(title)
    return ""


def questions_in(metadata: Mapping[str, Any]) -> list[str]:
    r"""Return the questions and everyday names in metadata, each once, up to their bounds.

    They are a list of strings, or a string with a line for each; any other value is something else.

    Examples
    --------
    >>> questions_in({"questions": ["May I keep a cat?", "pets"], "title": "Animals"})
    ['May I keep a cat?', 'pets']
    >>> questions_in({"questions_this_excerpt_can_answer": "1. May I?\n2. Who feeds it?"})
    ['May I?', 'Who feeds it?']
    """
    return _within_bounds(_lines_beside(metadata, _LOOKED_AT_BESIDE))


def bounded_questions(metadata: Mapping[str, Any]) -> tuple[Mapping[str, Any], int]:
    """Return metadata with its first questions and names, and how many lines are left out.

    These are the questions beyond `MOST_QUESTIONS`, or of over `LONGEST_QUESTION` characters, and
    the names beyond `MOST_NAMES`. The metadata is the same if there are none.

    Examples
    --------
    >>> bounded_questions({"questions": ["May I?", "x" * 999], "n": 1})
    ({'questions': ['May I?'], 'n': 1}, 1)
    """
    lines = [] if metadata.keys().isdisjoint(QUESTION_KEYS) else _lines_beside(metadata)
    if (bounded := questions_in(metadata) if lines else lines) == lines:
        return metadata, 0
    key, *extras = (key for key in QUESTION_KEYS if key in metadata)
    values = {name: bounded if name == key else value for name, value in metadata.items()}
    rest = {name: value for name, value in values.items() if name not in extras}
    return rest, len({*lines} - {*bounded})


def _lines_beside(metadata: Mapping[str, Any], room: int = sys.maxsize) -> list[str]:
    """Return what stands beside a text, each line once, of so many characters that are read."""
    lines = dict[str, None]()
    for key in QUESTION_KEYS:
        value = metadata.get(key)
        for text in value[:room] if isinstance(value, list | tuple) else [value]:
            if isinstance(text, str) and room > 0:
                items = (_ITEM.sub("", line).strip() for line in text[:room].splitlines())
                lines |= dict.fromkeys(items)
                room -= len(text) + 1
    return [*filter(None, lines)]


def _within_bounds(lines: Iterable[str]) -> list[str]:
    """Return the first of lines beside a text, without those that are too long or too many."""
    bounded, asks, names = list[str](), 0, 0
    for line in lines:
        if is_asked(line):
            asks += len(line) <= LONGEST_QUESTION
            bounded += [line] * (len(line) <= LONGEST_QUESTION and asks <= MOST_QUESTIONS)
        else:
            parts = [*map(str.strip, _NAMES.split(line))]
            short = [part for part in parts if len(part) <= LONGEST_QUESTION][: MOST_NAMES - names]
            names += len(short)
            bounded += [line if len(short) == len(parts) else ", ".join(short)] * bool(short)
    return bounded


def is_asked(line: str) -> bool:
    """Return whether a line beside a text is a question, and not everyday names.

    Without a question mark, a few words are a name, and so is each between commas.

    Examples
    --------
    >>> [is_asked(text) for text in ("may I keep a cat", "cats, my dogs", "house rules", "pets?")]
    [True, False, False, True]
    """
    sizes = [len(split_words(part)) for part in _NAMES.split(line)]
    limit = _FEW_WORDS if sizes[1:] else _FEW_WORDS - 2
    is_long = sizes == [1] and len(line) > _LONG_WORD and HAS_SPACELESS.search(line) is not None
    return line.endswith(_QUESTION_MARKS) or max(sizes) > limit or is_long


@remembered(50_000)
def stems(text: str) -> frozenset[str]:
    """Return the stems of the words of an English text that are no function words."""
    if (stemmer := getattr(_of_thread, "stemmer", None)) is None:
        stemmer = _of_thread.stemmer = Stemmer.Stemmer("english")
    words = [word for word in split_words(text.casefold()) if word not in FUNCTION_WORDS]
    return frozenset(stemmer.stemWords(words))


def split_words(text: str) -> list[str]:
    """Split a text into words, as `WORD` does."""
    words: list[str] = (_ASCII_WORD if text.isascii() else WORD).findall(text)
    return words


def singular_and_plural(words: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return English words, each as it is, in the plural and in the singular."""
    return [(word, f"{word}s", word.removesuffix("s")) for word in words]


def in_nfc(name: str) -> str:
    """Return a name as most systems write it: macOS writes the accents of files' names apart.

    Examples
    --------
    >>> in_nfc("Gebu\u0308hren.md") == "Geb\u00fchren.md"
    True
    """
    return unicodedata.normalize("NFC", name)


IN_WORD = regex.compile(
    r"(?V1)[\w--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]{2}"
)
"""Two characters of a word, in a script that parts words."""


def find_words(text: str, words: str, start: int = 0, end: int | None = None) -> int:
    """Return where words begin in a part of a text, or -1; whole ones where their script has such.

    Examples
    --------
    >>> find_words("The version of an ion", "ion"), find_words("\u8d39\u7528\u8bf4\u660e", "\u7528")
    (18, 1)
    """
    while (start := text.find(words, start, end)) >= 0:
        edges = (text[max(at - 1, 0) : at + 1] for at in (start, start + len(words)))
        if not any(map(IN_WORD.fullmatch, edges)):
            break
        start += 1
    return start


def mentions(text: str, title: str) -> bool:
    """Return whether a text has a title, whatever the case.

    Examples
    --------
    >>> mentions("The version is 2.", "Ion"), mentions("The ion moves.", "Ion")
    (False, True)
    """
    return find_words(text.casefold(), title.casefold()) >= 0


def is_index_page(path: PurePath) -> bool:
    """Return whether a file is an index of its folder, whose name says what it is about."""
    return path.stem.lstrip("_").casefold() in ("index", "readme") and len(path.parts) > 1


@remembered(20_000)
def path_parts(source: str) -> tuple[str, ...]:
    """Return the folders of a path and its file."""
    return PurePath(source).parts


def first_difference(paths: Iterable[Sequence[str]]) -> tuple[int, tuple[str, ...]]:
    """Return the first parts in which paths differ, after their depth from 1; (0, ()) if none.

    Examples
    --------
    >>> first_difference([("docs", "restic", "a.md"), ("docs", "borg", "a.md")])
    (2, ('restic', 'borg'))
    """
    levels = enumerate(zip(*paths, strict=False), start=1)
    return next(((depth, parts) for depth, parts in levels if len({*parts}) > 1), (0, ()))


@remembered(20_000)
def path_names(source: str) -> tuple[tuple[str, ...], str]:
    r"""Return the names of the folders above a file, outermost first, and what the file is called.

    It is called without the suffix of a document, the number of an article and the id of an export,
    and an index as its folder. The host of a URL is a folder.

    Examples
    --------
    >>> path_names("docs/fees/index.md"), path_names("loans.sh")
    ((('docs',), 'fees'), ((), 'loans.sh'))
    >>> path_names("https://example.com/help/115002217-laptop?lang=en")
    (('example.com', 'help'), 'laptop')
    >>> path_names(r"C:\\docs\\Laptop 1a2b3c4d5e6f.md")[1]
    'Laptop'
    """
    plain = unquote(_QUERY.sub("", source)) if "://" in source else source
    parts = [part for part in _SEPARATORS.split(plain) if part and not part.endswith(":")]
    if not parts:
        return (), source
    path = PurePath(*parts)
    if is_index_page(path):
        *parts, _ = parts
    else:
        parts[-1] = _DOCUMENT.sub("", path.name)
    *folders, file = parts
    return tuple(folders), _IDS.sub("", file) or file


@remembered(20_000)
def _suffix(source: str) -> str:
    return PurePath(source).suffix.lower()


@dataclass(frozen=True, slots=True)
class About:
    r"""The subject and place of a passage, by its metadata and the heading that begins its text.

    A passage derives it at the first access, and keeps it.

    Attributes
    ----------
    subject : str
        A title in the metadata (`TITLE_KEYS`), else the deepest of "Header 1", "Header 2" and so
        on, as LangChain's splitters of Markdown and HTML call the headings, else a Markdown heading
        that begins the text, else the source; "" if there is none.
    source : str
        Its source (`SOURCE_KEYS`); "" if not known.
    document : str
        The title of its document (`DOCUMENT_KEYS`, or LlamaIndex's "header_path"); "" if not known.
    opening : str
        The first ten words of its text, casefolded, a space around each: what it is about, too.
    above : str
        The heading above the subject and below the title of the document, as splitters of both
        frameworks note it; "" if none is known.

    Examples
    --------
    >>> About.from_passage({"file_name": "loans.md"}, "## Fees\nNone.").subject
    'Fees'
    >>> About.from_passage({"source": "loans.sh"}, "# Copyright").subject
    'loans.sh'
    >>> About.from_passage({"document_title": "2. Loans"}).document
    'Loans'
    >>> headers = {"Header 1": "Loans", "Header 2": "Books {#books}", "Header 3": "Fees"}
    >>> About.from_passage(headers).above
    'Books'
    """

    subject: str
    source: str
    document: str
    opening: str
    above: str = ""

    @property
    def title(self) -> str:
        """The subject, unless that is but the source."""
        return "" if self.subject == self.source else self.subject

    @classmethod
    def from_passage(cls, metadata: Mapping[str, Any], text: str = "") -> Self:
        """Derive what a passage is about from its metadata and text."""
        text = own_text(metadata, text)
        words = split_words(text[:_NEAR].casefold())
        if len(words) <= _OPENING and len(text) > _NEAR:  # the last one may be cut
            words = split_words(text[:_LOOKED_AT].casefold())
        opening = f" {' '.join(words[:_OPENING])} "
        if not metadata:  # every new hit is looked at
            return cls(_heading_of(text), "", "", opening)
        source = first_value(metadata, SOURCE_KEYS)
        headings = headings_of(metadata)
        # LlamaIndex's parser of Markdown has "/Loans/Fees/" for a section below "Fees".
        outer = str(metadata.get("header_path") or "").strip("/").split("/")
        document = first_value(metadata, DOCUMENT_KEYS) or outer[0]
        if document:
            title = _SECTION_NUMBER.sub("", without_markup(document))
            document = _MANUAL_PAGE.sub("", title)
        subject, above = first_value(metadata, TITLE_KEYS), ""
        if not subject and headings:
            subject, above = headings[-1], "".join(headings[1:-1][-1:])
        elif not subject and _suffix(source) in ("", *MARKDOWN):
            subject = _heading_of(text)  # in a script, it would be a comment
            above = without_markup("".join(outer[1:][-1:])) if subject else ""
        return cls(subject or source, source, document, opening, above)


def with_headings(metadata: Mapping[str, Any], text: str) -> str:
    r"""Return a text after the title and the headings in its metadata, unless it has them.

    A title that only names a page or the source is left out. The version that the metadata or the
    path name is part of the title.

    Examples
    --------
    >>> with_headings({"title": "Sketch P-003", "source": "sketch.docx"}, "Holds a degree.")
    'Sketch P-003\n\nHolds a degree.'
    >>> with_headings({"Header 1": "Loans", "Header 2": "Books", "Header 3": "Fees"}, "None.")
    'Loans\n\nBooks: Fees\n\nNone.'
    >>> with_headings({"title": "Installation", "source": "docs/v2/install.md"}, "Run it.")
    'Installation (version v2)\n\nRun it.'
    """
    if not metadata:
        return text
    headings, title = headings_of(metadata), without_markup(first_value(metadata, TITLE_KEYS))
    source = first_value(metadata, SOURCE_KEYS)
    if title == source or PAGE.fullmatch(title):
        title = ""
    version = first_value(metadata, _VERSION_KEYS) or _version_in(source)
    if version and version.casefold() not in f"{headings} {title} {text}".casefold():
        title = f"{title or ''.join(headings[-1:])} (version {version})".strip()
    return _below(headings, title, text)


@remembered(20_000)
def _version_in(source: str) -> str:
    """Return the last version in a path, else ""."""
    path = PurePath(source)
    versions = [match for part in (*path.parts[:-1], path.stem) for match in _VERSION.findall(part)]
    return "".join(versions[-1:])


def _below(headings: Sequence[str], title: str, text: str) -> str:
    """Return a text after its headings, outermost first, and its title, unless it has them."""
    if not headings and not title:
        return text
    outermost, *path = headings or [""]
    for heading in filter(None, (": ".join(path), outermost, title)):
        if not mentions(text, heading):
            text = f"{heading}\n\n{text}"
    return text


def headings_of(metadata: Mapping[str, Any]) -> list[str]:
    """Return the headings above a passage, outermost first, without markup.

    They are "Header 1", "Header 2" and so on, as LangChain's splitters of Markdown and HTML have
    them.
    """
    if not (keys := sorted(filter(_HEADING.fullmatch, metadata))):
        return []
    return [heading for key in keys if (heading := without_markup(str(metadata[key] or "")))]


def is_heading(metadata: Mapping[str, Any], text: str) -> bool:
    """Return whether a text is nothing but its own heading in the metadata.

    Examples
    --------
    >>> is_heading({"h1": "Loans", "h2": "Fees"}, "Fees"), is_heading({"h1": "Loans"}, "None.")
    (True, False)
    """
    return without_markup(text.strip()) in headings_of(metadata)[-1:]


def own_text(metadata: Mapping[str, Any], text: str) -> str:
    r"""Return a text without the lines of metadata that LlamaIndex puts before that of a node.

    Examples
    --------
    >>> own_text({"file_path": "loans.md", "page_label": "4"}, "page_label: 4\n\nNo fees.")
    'No fees.'
    """
    at = 0  # no text is cut for each line, which would take its length
    for line in _LINES.finditer(text):
        if line[0].rstrip("\n").partition(": ")[0] not in metadata:
            break
        at = line.end()
    return text[at:] or text


def _heading_of(text: str) -> str:
    begins = _MARKDOWN_HEADING.match(text)
    return without_markup(begins[2]) if begins else ""


def without_markup(heading: str) -> str:
    """Return a heading in Markdown without attributes, links, emphasis and marks of code."""
    plain = ATTRIBUTES.sub("", heading[:_LONGEST_HEADING])
    return str(_MARKS.sub("", _LINK.sub(r"\1", plain))).strip()


def without_number(title: str) -> str:
    """Return a title without the number of its section.

    Examples
    --------
    >>> without_number("7.5. Virtual packages"), without_number("3 Idiots")
    ('Virtual packages', '3 Idiots')
    """
    return str(_SECTION_NUMBER.sub("", title))
