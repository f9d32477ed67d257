"""The readings of a question, and P(it does not say which of them is meant).

A reading is a subject of some of the hits; several passages on one subject are one reading. A
question is underspecified if the corpus has different answers to several of its readings, and the
question does not say which of them is meant. In English, definite descriptions and pronouns without
a referent ("the loan", "it") are evidence of that.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from itertools import chain, islice
from pathlib import PurePath
from typing import Any

import numpy as np
import regex
import Stemmer
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.model import Calibrator
from uec_rag.confidence.wording import (
    FUNCTION_WORDS,
    WORD,
    asks_for_concept,
    asks_for_definition,
    lacks_referent,
    refers_back,
)

ASK = 0.72
"""The lowest P(underspecified) at which to ask for clarification."""

SUBJECT_KEYS = ("title", "heading", "header")
"""Metadata keys for the subject of a passage; the first one that a passage has is used.

Then the deepest of "Header 1", "Header 2" and so on, as LangChain's splitters of Markdown and HTML
call the headings, then a Markdown heading that begins the text, and then the source.
"""

SOURCE_KEYS = ("source", "file_path", "file_name", "url")
"""Metadata keys for the source of a passage: ours and LangChain's, LlamaIndex's, and a web page's.
"""

DOCUMENT_KEYS = ("document_title", "Header 1", "h1")
"""Metadata keys for the title of a passage's document: ours and LlamaIndex's, and LangChain's."""

FEATURES = ("rivals", "brief", "others", "referent", "namesakes", "named")
"""The names of the `features`: all but the last are evidence for an underspecified question."""

_ALIKE = 0.93  # cosine from which two passages without a subject in their metadata share one
_HEAD = 10  # number of first words of a passage that describe its subject, besides its title
_LACK = 4.0  # decay of a rival's weight per missing word, in units of an unseen word's idf
_FUNCTION = 0.25  # weight of a function word, which is rarer in manuals than in questions
_FULL = 0.3  # in_corpus from which readings are fully plausible
_SURE = 0.85  # confidence from which saying little is less and less of an objection to a question
_TITLED = 2.0  # log likelihood of a reading whose title has all that the question says
_NAMED = 0.5  # share of a question's idf that a title in it needs to be what is meant
_SEEN = 0.1  # share of the posterior that the passages under this title need
_TOPIC, _FEWEST = 0.15, 20  # share and number of the passages from which a word is their topic
_OF_OPTIONS = frozenset({"option", "options", "flag", "switch", "argument", "parameter"})
MOST_READINGS, LONGEST_LABEL = 5, 60
_LEAST = 0.02  # likelihood from which a reading is offered
_LABEL_FROM = 60  # number of first words of a passage to search for a label
_FEW_BEARERS = 3  # documents up to which a shared title is part of their names
_DEEPEST = 32  # number of parts of a path to tell it from others
_ENDS = " :?？"  # which a label does not end with
_SENTENCE = 25  # number of words up to which a passage is told from others by a few of its words
# With a dot: "7.5. Virtual packages", and not "3 Idiots".
_HEADING = re.compile(r"[Hh]eader [1-6]|h[1-6]")
_MARKDOWN_HEADING = re.compile(r"\s*#{1,6}[ \t]+(\S[^\r\n]*)")
_LINK, _MARKS = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)"), re.compile("[`*~]+")
_DOCUMENTS = (".md", ".markdown", ".mdx", ".rst", ".txt", ".html", ".htm", ".pdf", ".docx", ".epub")
_PAGE = re.compile(r"page \d+")  # the title of a passage without a heading
_MANUAL_PAGE = re.compile(r"\(\d\w*\)(?: Manual Page)?\Z")
_SECTION_NUMBER = re.compile(r"\A(?:[A-Z]\.\d|\d+\.)[\d.]*\s+")
_ARGUMENTS = re.compile(r"(?<=\w)\([^()]*\)\Z")  # of a function
_ASCII_WORD = re.compile(r"\w+", re.ASCII)  # equal to WORD for ASCII texts, in a third of the time


@dataclass(frozen=True)
class Reading:
    """One of the possible meanings of a question.

    Attributes
    ----------
    label : str
        A title, a heading, the beginning of a long passage, or a few words of a short one that
        distinguish it from the other readings.
    ids : tuple of str
        Ids of its passages, best first.
    probability : float
        Likelihood of the reading, see `readings`; that of all subjects sums to 1.
    """

    label: str
    ids: tuple[str, ...]
    probability: float

    @property
    def filter(self) -> dict[str, Any]:
        """The filter that restricts a search to the passages of this reading."""
        return {"$id": [*self.ids]}


@dataclass(frozen=True, eq=False)
class Candidates:
    """The first m hits of one question, best first, from which its readings are found.

    Attributes
    ----------
    ids, texts : sequence of m str
    titles : sequence of m str
        Subject of each hit by its metadata or heading (`subject_of`); "" if none.
    sources : sequence of m str
        Source of each hit; "" if not known.
    documents : sequence of m str
        Title of each hit's document; "" if not known.
    logits : array, shape (m,)
        Logits of the posterior over the hits, up to a constant.
    words : sequence of m collections of str
        Words of the question that each hit contains, spelled as in `idf`.
    idf : mapping of str to float
        Inverse document frequency of every word of the question, including those that no passage
        has: ``log(1 + (N - n + 1/2) / (n + 1/2))``.
    size : int
        N, the number of passages that were searched.
    vectors : array, shape (m, d), optional
        Stored vectors, to distinguish subjects without metadata; they need not be normalised.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    titles: Sequence[str]
    sources: Sequence[str]
    documents: Sequence[str]
    logits: FloatArray
    words: Sequence[Collection[str]]
    idf: Mapping[str, float]
    size: int
    vectors: FloatArray | None = None

    @cached_property
    def subject(self) -> NDArray[np.intp]:
        """The number of each hit's subject from 0, in the order of their first hits, shape (m,).

        Hits with the same title and source share a subject. A title that several sources have, or
        one in capitals, is a section like "OPTIONS": its subject is the source. So is that of hits
        under the title of their document, and of all hits in a file whose name has a word of the
        question. Hits without a title share a subject
        if they are as similar to each other as passages of one text.
        """
        alike: list[list[bool]] = []
        if self.vectors is not None:
            vectors = np.asarray(self.vectors, np.float32)
            norms = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
            unit = vectors / norms
            alike = (unit @ unit.T >= _ALIKE).tolist()
        numbers: dict[object, int] = {}
        leaders: list[int] = []
        found = []
        for row, (title, source) in enumerate(zip(self.titles, self.sources, strict=True)):
            is_section = self.sources_with[_plain(title)] > 1 or title.isupper()
            is_section |= _plain(title) == _plain(self.documents[row])
            of_source = source and (is_section or self.stems.keys() & self.pages[source])
            key: object = source if of_source else (title, source)
            if not title:
                leader = next((one for one in leaders if alike and alike[row][one]), row)
                if leader == row:
                    leaders.append(row)
                key = (leader,)
            found.append(numbers.setdefault(key, len(numbers)))
        return np.array(found, dtype=np.intp)

    @cached_property
    def mass(self) -> NDArray[np.float64]:
        """The posterior of each subject, summed over its hits."""
        shares = self.weights / self.weights.sum()
        return np.bincount(self.subject, shares).astype(np.float64)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The posterior of each hit, up to a factor, shape (m,)."""
        logits = np.asarray(self.logits, np.float64)
        weights: NDArray[np.float64] = np.exp(logits - logits.max())
        return weights

    @cached_property
    def rarity(self) -> NDArray[np.float64]:
        """The idf of each word of the question as a share of that of a word that no passage has.

        That of a function word is a quarter. Shape (w,).
        """
        unknown = float(np.log1p(2 * self.size + 1))
        telling = [_FUNCTION if word.casefold() in FUNCTION_WORDS else 1.0 for word in self.idf]
        rarity: NDArray[np.float64] = np.array([*self.idf.values()], np.float64) * telling / unknown
        return rarity

    @cached_property
    def said(self) -> NDArray[np.bool_]:
        """Whether each subject has each word in its texts, its heads and its titles.

        Shape (3, s, w). A head is a title and the first words of a text.
        """
        words_of = defaultdict[str, set[str]](set)
        for word in self.idf:
            for form in _forms(word):
                words_of[form].add(word)
        has = []
        for title, text, held in zip(self.titles, self.texts, self.words, strict=True):
            titled = _named(title, words_of).intersection(held)
            beginning = " ".join(text[:400].split(None, _HEAD)[:_HEAD])
            head = titled | _named(beginning, words_of).intersection(held)
            has.append([[word in some for word in self.idf] for some in (held, head, titled)])
        said = np.zeros((int(self.subject.max()) + 1, 3, len(self.idf)), dtype=bool)
        np.logical_or.at(said, self.subject, np.array(has, dtype=bool))
        return said.swapaxes(0, 1)

    @cached_property
    def stems(self) -> dict[str, float]:
        """The stems of the question's words except function words and options, with their idf."""
        rare: dict[str, float] = {}
        for word in filter(_is_content, self.idf):
            for stem in _stems(word):
                rare[stem] = max(self.idf[word], rare.get(stem, 0.0))
        return rare

    @cached_property
    def sources_with(self) -> Counter[str]:
        """The number of sources that have each title, by its `_plain` form."""
        pairs = {*zip(map(_plain, self.titles), self.sources, strict=True)}
        return Counter(title for title, _ in pairs)

    @cached_property
    def pages(self) -> dict[str, frozenset[str]]:
        """The stems in the name of each source's file, or of its folder if it is an index."""
        return {source: _page_stems(source) for source in {*self.sources}}

    @cached_property
    def names(self) -> dict[str, str]:
        """The name of each source: the title of its document, with the file if others have it.

        A title that more than three documents have is left out. A file is named by the end of its
        path that no other has, without ".md" and the like, and an index by its folder: "loans",
        "fees", "fees/2024".
        """
        titled = {*zip(self.sources, self.documents, strict=True)}
        of_source, of_title = Counter(s for s, _ in titled), Counter(_plain(t) for _, t in titled)
        paths = {source: PurePath(source) for source in {*self.sources} - {""}}
        # "docs//loans.md" is the same file as "docs/loans.md".
        ends = Counter(chain.from_iterable(map(_path_ends, {*paths.values()})))
        names = {"": ""}
        for source, path in paths.items():
            of_none_else = (end for end in _path_ends(path) if ends[end] == 1)
            names[source] = next(of_none_else, path.as_posix())
        for source, title in titled:
            bearers = of_title[_plain(title)]
            if source and title and of_source[source] == 1 and bearers <= _FEW_BEARERS:
                says_it = _stems(title) <= _stems(PurePath(names[source]).name)
                of_file = names[source] if says_it else f"{title} ({names[source]})"
                names[source] = title if bearers == 1 else of_file
        return names


@lru_cache(4096)
def _path_ends(path: PurePath) -> tuple[str, ...]:
    """List the ends of a path, shortest first, without a document's ending or an index's name."""
    stem = path.with_suffix("") if path.suffix.lower() in _DOCUMENTS else path
    parts = (stem.parent if _is_index(path) else stem).parts
    depths = range(1, min(max(len(parts), 1), _DEEPEST) + 1)
    return tuple(PurePath(*parts[-depth:]).as_posix() for depth in depths)


def subject_of(metadata: Mapping[str, Any], text: str = "") -> str:
    r"""Return the subject of a passage by its metadata or its heading; "" if there is none.

    Examples
    --------
    >>> subject_of({"file_name": "loans.md"}, "## Fees\nNone."), subject_of({"Header 2": "Fees"})
    ('Fees', 'Fees')
    >>> subject_of({"source": "loans.sh"}, "# Copyright")
    'loans.sh'
    """
    headings = sorted(filter(_HEADING.fullmatch, metadata), reverse=True)
    if title := _first_value(metadata, SUBJECT_KEYS):
        return title
    if title := _without_markup(_first_value(metadata, headings)):
        return title
    source = _first_value(metadata, SOURCE_KEYS)
    # LlamaIndex puts lines like "file_path: loans.md" before the text of a node.
    for _ in metadata:
        line, _, rest = text.partition("\n")
        text = rest.lstrip("\n") if line.partition(": ")[0] in metadata else text
    # In a script, it would be a comment.
    is_markdown = PurePath(source).suffix.lower() in ("", ".md", ".markdown", ".mdx")
    begins = _MARKDOWN_HEADING.match(text) if is_markdown else None
    return _without_markup(begins[1].partition(" {#")[0]) if begins else source


def source_of(metadata: Mapping[str, Any]) -> str:
    """Return the source of a passage by its metadata; "" if there is none."""
    return _first_value(metadata, SOURCE_KEYS)


def document_of(metadata: Mapping[str, Any]) -> str:
    """Return the title of a passage's document by its metadata; "" if there is none.

    Examples
    --------
    >>> document_of({"document_title": "2. Loans"}), document_of({"Header 1": "git-tag(1)"})
    ('Loans', 'git-tag')
    """
    # LlamaIndex's parser of Markdown has "/Loans/Fees/" for a section of "Fees".
    first = str(metadata.get("header_path") or "").lstrip("/").partition("/")[0]
    title = _without_markup(_first_value(metadata, DOCUMENT_KEYS) or first)
    return _MANUAL_PAGE.sub("", _SECTION_NUMBER.sub("", title))


def _without_markup(heading: str) -> str:
    """Return a heading in Markdown without links, emphasis and marks of code."""
    return _MARKS.sub("", _LINK.sub(r"\1", heading)).strip()


def _first_value(metadata: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((str(metadata[key]).strip() for key in keys if metadata.get(key)), "")


def features(question: str, candidates: Candidates, turns: Sequence[str] = ()) -> FloatArray:
    """Compute the evidence that a question does not say which reading is meant, shape (6,).

    `turns`: the turns before it, which may have its referent.

    rivals
        How many subjects match everything in the question:
        ``log(1 + sum_r exp(-4 (l_r + h_r)))`` over all subjects r except that of the best hit. l_r
        is the idf of the question's words that occur in the hits of the best subject, but not in
        those of r; h_r is the same for titles and first words.
    brief
        How little the question says: minus the log of the number of its words, without English
        function words; an option ("-n") counts once.
    others
        Log odds, by the posterior over the hits, of subjects other than that of the best hit.
    referent
        1 if `lacks_referent`, else 0; evidence in English only.
    namesakes
        How far the question is a name that several subjects share. For the best subject with a
        title and another one, it is the sum of squared idf of the question's words in the titles of
        both, minus that of the words that the other lacks in its titles and in its texts, divided
        by the sum over all words; the maximum over other subjects, at least 0. A title that the
        question contains in any inflection counts by its share, too, if the passages under longer
        ones with its words in two other sources are likelier ("Uninstalling on Windows"). Of an
        option about which nothing else is said ("What does -n do?"), it is the share of the
        posterior over the hits with it that is not of the likeliest subject.
    named
        1 if the question names its subject, else 0: it has all words of a title in one source, or
        of a file's name, in any inflection; they are half of its idf or more, and the passages
        under that title or in that file have a tenth of the posterior or more, and no less than
        those under such longer titles, and it has no pronoun without a referent. Or it asks what a
        concept is ("What is a gauge?"), for which any definition will do, or what the topic of the
        documents is, a term whose words are in 15 % of all passages or more.

    All idf are divided by that of a word that no passage has, so that the corpus size cancels; that
    of a function word counts a quarter.
    """
    words, idf, table = [*candidates.idf], candidates.rarity, candidates.said
    in_title = table[2]
    # The words of the first subject that each subject lacks.
    lacks_text, lacks_head, _ = (table[:, :1] & ~table).astype(np.float64)
    rivals = np.exp(-_LACK * (lacks_text + lacks_head) @ idf)[1:].sum()
    titles = zip(candidates.subject.tolist(), candidates.titles, strict=True)
    best_titled = next((number for number, title in titles if title), 0)
    lacks_text, _, lacks_title = (table[:, [best_titled]] & ~table).astype(np.float64)
    names = (in_title & in_title[best_titled]).astype(np.float64) - (lacks_title + lacks_text)
    shared = np.delete(names @ idf**2, best_titled)
    best = float(np.clip(candidates.mass[0], 1e-4, 1 - 1e-4))
    context = "\n".join([*turns, question])
    lacks = lacks_referent(context)
    named = asks_for_concept(question) or _asks_for_the_topic(question, candidates)
    # In "How do I move it?", a page on moving is not the subject.
    has_title, of_title = _titles_named(candidates)
    named |= has_title and not (lacks and refers_back(context))
    return np.array(
        [
            np.log1p(rivals),
            -np.log(max(sum(map(_is_content, words)), 1)),
            np.log1p(-best) - np.log(best),
            lacks,
            max(
                shared.max(initial=0.0) / max(float(idf @ idf), 1e-12),
                of_title,
                _shared_options(candidates),
            ),
            named,
        ],
        dtype=np.float32,
    )


def _is_content(word: str) -> bool:
    return not word.startswith("-") and word.casefold() not in FUNCTION_WORDS


def _forms(word: str) -> tuple[str, ...]:
    """Return a word as it is, in plural and in singular, in lower case."""
    form = word.casefold()
    return form, f"{form}s", form.removesuffix("s")


def _named(text: str, words_of: Mapping[str, Set[str]]) -> set[str]:
    """Return which words, given by their forms, a short text contains, whole or as a part.

    Only words that are not ASCII, such as Chinese ones, may be parts.
    """
    low = text.casefold()
    found = {word for form in words_of.keys() & {*_split(low)} for word in words_of[form]}
    if not low.isascii():
        words = {word: word.casefold() for word in set().union(*words_of.values())}
        found |= {word for word, form in words.items() if not form.isascii() and form in low}
    return found


def _titles_named(candidates: Candidates) -> tuple[bool, float]:
    """Return whether the question names a title or a file, and how much of it longer titles have.

    See "named" and "namesakes" of `features`.
    """
    idf, weights = candidates.stems, candidates.weights
    least, enough = _SEEN * weights.sum(), _NAMED * sum(idf.values())
    titled = [_stems(title) for title in candidates.titles]
    paged = [candidates.pages[source] for source in candidates.sources]
    named, shared = False, 0.0
    for names in (titled, paged):
        mass, bearers = Counter[frozenset[str]](), defaultdict[frozenset[str], set[str]](set)
        for stems, source, weight in zip(names, candidates.sources, weights, strict=True):
            mass[stems] += weight
            bearers[stems].add(source)
        for stems, sources in bearers.items():
            if not stems or not stems <= idf.keys() or mass[stems] < least:
                continue
            longer = [other for other in bearers if stems < other]
            elsewhere = set().union(*(bearers[other] for other in longer)) - sources
            if len(elsewhere) > 1 and sum(map(mass.__getitem__, longer)) > mass[stems]:
                shared = max(shared, sum(idf[stem] ** 2 for stem in stems))
            elif len(sources) == 1 and sum(map(idf.__getitem__, stems)) >= enough:
                named = True
    return named, shared / max(sum(value**2 for value in idf.values()), 1e-12)


def _shared_options(candidates: Candidates) -> float:
    """Return P(an option of another subject than the likeliest is meant); 0 if more is said."""
    options = {word for word in candidates.idf if word.startswith("-")}
    known = _OF_OPTIONS.union(option.lstrip("-").casefold() for option in options)
    if not options or any(_is_content(w) and w.casefold() not in known for w in candidates.idf):
        return 0.0
    mass = Counter[int]()
    for row, words in enumerate(candidates.words):
        if options <= {*words}:
            mass[int(candidates.subject[row])] += candidates.weights[row]
    return 1 - max(mass.values()) / mass.total() if mass else 0.0


def _asks_for_the_topic(question: str, candidates: Candidates) -> bool:
    """Return whether a question is like "What is Debian?", asked of Debian's manuals."""
    least = max(_TOPIC, _FEWEST / max(candidates.size, 1))
    common = all(idf <= -np.log(least) for idf in candidates.stems.values())
    return common and bool(candidates.stems) and asks_for_definition(question)


def _is_index(path: PurePath) -> bool:
    """Return whether a file is an index of its folder, whose name says what it is about."""
    return path.stem.lstrip("_").casefold() in ("index", "readme") and len(path.parts) > 1


@lru_cache(4096)
def _page_stems(source: str) -> frozenset[str]:
    path = PurePath(source)
    name = path.parent.name if _is_index(path) else path.stem
    return _stems(name.replace("_", " "))


@lru_cache(4096)
def _stems(text: str) -> frozenset[str]:
    words = [word for word in _split(text.casefold()) if word not in FUNCTION_WORDS]
    return frozenset(Stemmer.Stemmer("english").stemWords(words))


def _split(text: str) -> list[str]:
    return (_ASCII_WORD if text.isascii() else WORD).findall(text)


@cache
def shipped_underspecified() -> Calibrator:
    """Return the model of P(underspecified), learned by `benchmarks/quality/decisions.py`."""
    saved = files("uec_rag.confidence").joinpath("readings.json").read_text(encoding="utf-8")
    return Calibrator.restore(json.loads(saved)["underspecified"])


def underspecified(
    found: FloatArray,
    in_corpus: FloatArray,
    confidence: FloatArray,
    model: Calibrator | None = None,
) -> FloatArray:
    """Estimate P(the corpus answers several readings, the question does not say which), shape (n,).

    A question may say too little, or only a name that several subjects share: these two are
    combined by a noisy-or. The first is reduced if the hits answer the question with a confidence
    above 0.85, unless it lacks a referent, and the result if `in_corpus` is low, since asking back
    is useless if no reading has an answer. The result is 0 if the question names its subject.

    Parameters
    ----------
    found : array, shape (n, 6)
        `features` of each question.
    in_corpus : array, shape (n,)
        P(the corpus answers the question).
    confidence : array, shape (n,)
        P(the hits answer the question).
    model : Calibrator, optional
        Model of the first four features; the shipped one by default. "namesakes" is used as a
        probability.
    """
    known = np.asarray(found, np.float32)
    vague, (namesakes, named) = known[:, :-2], known[:, -2:].T
    doubt = np.minimum((1 - np.asarray(confidence, np.float32)) / np.float32(1 - _SURE), 1)
    doubt = np.maximum(doubt, known[:, FEATURES.index("referent")])
    said = 1 - (model or shipped_underspecified()).predict(vague) * doubt
    plausible: FloatArray = np.minimum(np.asarray(in_corpus, np.float32) / np.float32(_FULL), 1)
    unsaid: FloatArray = (1 - said * (1 - namesakes)) * (1 - named)
    return unsaid * plausible


def readings(candidates: Candidates) -> list[Reading]:
    """Find the readings of a question, most likely first.

    The likelihood of a subject is its posterior, times `exp(2 t)` if its titles say a share t of
    the question, by squared idf. The readings are the subjects of 2 % or more, but at least two (if
    there are two subjects) and at most five.
    """
    rarity, subject = candidates.rarity**2, candidates.subject
    titled = candidates.said[2] @ rarity / max(float(rarity.sum()), 1e-12)
    mass = candidates.mass * np.exp(_TITLED * titled)
    mass /= mass.sum()
    count = int((mass >= _LEAST).sum())
    chosen = np.argsort(-mass, kind="stable")[: min(max(count, 2), MOST_READINGS)].tolist()
    rows = {number: np.flatnonzero(subject == number).tolist() for number in chosen}
    labels = _labels(candidates, rows)
    return [
        Reading(
            labels[number],
            tuple(candidates.ids[row] for row in rows[number]),
            float(mass[number]),
        )
        for number in chosen
    ]


def _labels(candidates: Candidates, rows: Mapping[int, Sequence[int]]) -> dict[int, str]:
    """Find a label for each group of hits that distinguishes it from the others."""
    # A section that all have tells nothing, and several of one source are called by the source.
    alike = len({_plain(candidates.titles[some[0]]) for some in rows.values()}) == 1
    alike &= all(candidates.sources[some[0]] for some in rows.values())
    titles = {
        number: candidates.titles[some[0]]
        if len({candidates.titles[row] for row in some}) == 1 and not alike
        else candidates.sources[some[0]]
        for number, some in rows.items()
    }
    openings = {number: _shortened(candidates.texts[some[0]]) for number, some in rows.items()}
    beginning = Counter(openings.values())
    sources = {number: candidates.sources[some[0]] for number, some in rows.items()}
    headings = {
        number: candidates.names[title]
        if title == sources[number]
        else _SECTION_NUMBER.sub("", title)
        for number, title in titles.items()
    }
    documents = {number: candidates.documents[some[0]] for number, some in rows.items()}
    named = Counter(map(_plain, headings.values()))
    shown = {
        n: title if alike or named[_plain(title)] == 1 else titles[n]
        for n, title in headings.items()
    }
    sections = {
        number
        for number in rows
        if shown[number]
        and sources[number] not in ("", titles[number])
        and headings[number] != documents[number]
    }
    several = len({*sources.values()}) > 1
    repeated = {
        number
        for number, title in shown.items()
        for other in {*rows} - {number}
        if _plain(title) == _plain(titles[other])
        or (sources[number] != sources[other] and _plain(title) == _plain(documents[other]))
    } | {number for number, title in titles.items() if candidates.sources_with[_plain(title)] > 1}
    of_document = {number for number in repeated if shown[number]} | {
        number
        for number in sections
        if _says_little(candidates, shown[number], sources[number], several=several)
    }
    if of_document and several:  # the document may be what tells the others apart, too
        of_document |= {
            number
            for number in sections
            if candidates.names[sources[number]] in candidates.documents
            and not _stems(candidates.names[sources[number]]) <= _stems(shown[number])
        }
    labels: dict[int, str] = {}
    for number, some in rows.items():
        title, text = shown[number], candidates.texts[some[0]]
        name = candidates.names[sources[number]]
        if number in of_document and name:
            same = headings[number] == documents[number] and _stems(title) <= _stems(name)
            # A heading tells more than the title above it.
            room = max(LONGEST_LABEL - len(title) - 2, LONGEST_LABEL // 3)
            title = name if same else f"{_shortened(name, room)}: {title}"
        elif not title and beginning[openings[number]] == 1 and len(text.split()) > _SENTENCE:
            title = openings[number]
        elif not title:
            others = [row for other in rows for row in rows[other] if other != number]
            common = {word.casefold() for word in candidates.idf} | FUNCTION_WORDS
            common.update(*(_split(candidates.texts[row].casefold()) for row in others))
            title = _first_phrase(text, common)
        label = _shortened(title or candidates.ids[some[0]])
        labels[number] = f"{label} ({number + 1})" if label in labels.values() else label
    return labels


def _says_little(candidates: Candidates, title: str, source: str, *, several: bool) -> bool:
    """Return whether the title of a section means little without that of its document.

    A title in capitals is a section that every manual page has. If there are several documents,
    "Recap" tells nothing of the question, and a single word little.
    """
    if title.isupper() or _PAGE.fullmatch(title):
        return True
    said = _stems(title) - candidates.pages[source]
    unsaid = said == _stems(title) and said.isdisjoint(candidates.stems)
    return several and (unsaid or (bool(said) and len(title.split()) == 1))


def _first_phrase(text: str, common: Set[str]) -> str:
    """Return the first run of words of a text that are not in `common`; "" if there is none."""
    phrase: list[regex.Match[str]] = []
    for word in islice(WORD.finditer(text), _LABEL_FROM):
        tells = len(word[0]) > 1 and word[0].casefold() not in common
        if not phrase:
            phrase = [word] if tells else []
        elif tells and text[phrase[-1].end() : word.start()] in (" ", "-"):
            phrase.append(word)
        else:
            break
    return text[phrase[0].start() : phrase[-1].end()] if phrase else ""


def _plain(title: str) -> str:
    """Return a title in a form in which "Add a user?" equals "Add a User", and "read()" "read"."""
    return _ARGUMENTS.sub("", " ".join(title.split()).rstrip(_ENDS)).casefold()


def _shortened(label: str, most: int = LONGEST_LABEL) -> str:
    line = " ".join(label.split()).rstrip(_ENDS)
    if len(line) <= most:
        return line
    head = line[:most].rpartition(" ")[0]  # whole words, if they are not long themselves
    return f"{head if len(head) > most // 2 else line[: most - 1]}…"
