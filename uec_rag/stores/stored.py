"""The vectors and the words of another package's store, in place of encoding its texts again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress, zip_longest
from operator import attrgetter
from typing import Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.counts import Counts, Frequencies, LookedUp, Words
from uec_rag.base.errors import NoDirection, warn_once
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.records import Memory, Recent
from uec_rag.encoders.base import (
    Encoded,
    Encoder,
    SilentEncoder,
    TermEncoder,
    are_same,
    check_vectors,
)
from uec_rag.stores.base import Filter, Probes
from uec_rag.stores.filters import comparable, key_of, matching, parse
from uec_rag.stores.local import View
from uec_rag.stores.passage import Passage

_MOST_LISTED = 20_000  # passages whose words are counted
_MOST_OF_TENANTS, _LEAST = 3 * _MOST_LISTED, 100  # passages whose words are kept; of one tenant
_FEW_OF_TENANT = 256  # passages that are all candidates
_COMPARED = 8  # texts from which it is learned how alike a model's vectors of one are

_log = logging.getLogger("uec_rag")

Vectors = Callable[[list[str]], Mapping[str, Sequence[float] | None]]
"""A function from ids to the stored vectors, by id; of some there may be none."""


@dataclass(frozen=True)
class Source:
    """Another package's vector store or retriever, as functions.

    Attributes
    ----------
    name : str
        Which one it is, for messages, and to tell one from another.
    find : callable(question, filter) -> sequence of Passage
        The candidates for a question, best first. It may apply the filter, which is None if there
        is none, or ignore it: candidates are filtered once more. See `Search`.
    vectors : Vectors or None
        Returns the vectors that the encoders made, see `Mirror`.
    get : callable(ids) -> sequence of Passage, or None
        Returns the passages with some ids, leaving out unknown ones.
    sample : callable(count) -> sequence of Passage, or None
        Returns up to `count` passages, to fit the ensemble on and to count their words.
    find_by_vector : callable(vector, filter) -> sequence of Passage, or None
        As `find`, for a question's vector by the source's own embedding.
    embedding : embedding or None
        The source's own embedding.
    stored : Vectors or None
        Returns the vectors that are there: of this embedding, and perhaps of the encoders.
    origin : object
        The store or retriever itself, by which a fit over it is found again.
    embedded : callable(passage) -> str
        Returns the text of a passage that the source's embedding saw.
    is_by_encoder : bool
        Whether `find` embeds questions by the first encoder.
    size : callable() -> int, or None
        Returns how many passages it has, by which it is noticed that there are others.
    select : callable(filter, count) -> sequence of Passage, or None
        Returns up to `count` passages, among which are those that match a filter, to count the
        words of a tenant; by default those of `sample`.
    is_retriever : bool
        Whether `find` decides itself how many candidates there are, and runs no filter.
    """

    name: str
    find: Callable[[str, Filter | None], Sequence[Passage]]
    vectors: Vectors | None = None
    get: Callable[[list[str]], Sequence[Passage]] | None = None
    sample: Callable[[int], Sequence[Passage]] | None = None
    find_by_vector: Callable[[Sequence[float], Filter | None], Sequence[Passage]] | None = None
    embedding: object = None
    stored: Vectors | None = None
    origin: object = None
    embedded: Callable[[Passage], str] = attrgetter("text")
    is_by_encoder: bool = False
    size: Callable[[], int] | None = None
    select: Callable[[Filter, int], Sequence[Passage]] | None = None
    is_retriever: bool = False


@dataclass(eq=False)
class Mirror:
    """The knowledge of a source, for all views of it: its vectors, its words and what was said.

    A stored vector is that of the first encoder with vectors, or those of all of them in their
    order, as `UEC.embed` joins them; it may have any length. The first one ever is compared with
    what the encoders make of its text.

    Attributes
    ----------
    source : Source
    are_of_these : bool or None
        Whether its vectors are those of the encoders, once compared.
    unusable : set of (str, str)
        The ids and texts of passages that are left out, since their vectors have no direction.
    words : Listed or None
        The words of its passages, once listed.
    strays : set of str
        The ids of passages that were found and cannot be listed as they were found.
    probes : Probes or None
        The vectors of a few texts by its own embedding, once found.
    warnings : set
        What was said of the store.
    """

    source: Source
    are_of_these: bool | None = None
    unusable: set[tuple[str, str]] = field(default_factory=set)
    words: Listed | None = None
    strays: set[str] = field(default_factory=set)
    probes: Probes | None = None
    warnings: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        source, sample = self.source, self.source.sample
        self._tenants = _TENANTS.of(source.origin)
        self._vectors, self._are_ours = source.vectors or source.stored, source.vectors is not None
        self._sample = sample if source.get is not None else None

    def encode(self, encoders: Sequence[Encoder], passages: Sequence[Passage]) -> list[Encoded]:
        """Encode passages without their words, of which only what is not known here is encoded.

        Models see the texts alone, which are to answer. Errors as in `read`.
        """
        blocks, texts = self.read(encoders, passages), list[str]()
        encoded, nothing = list[Encoded](), np.zeros((len(passages), 0), dtype=np.float32)
        for position, encoder in enumerate(encoders):
            if isinstance(encoder, TermEncoder):
                encoded.append(Encoded(nothing, nothing))
                continue
            if position not in blocks:
                texts = texts or [passage.text for passage in passages]
            encoded.append(blocks.get(position) or encoder.encode(texts, "passage"))
        return encoded

    def listed(
        self,
        encoders: Sequence[Encoder],
        hits: Sequence[Passage] = (),
        tenant: Filter | None = None,
    ) -> Listed | None:
        """Return the words of its passages, for all views and later retrievers over it.

        What is new among those found is counted at once, as is what the store's own number of
        passages tells. None if it cannot list any.

        `tenant`: selects the passages of a tenant, which are counted by themselves: nothing of
        others tells when, nor how many there are.
        """
        terms = [encoder for encoder in encoders if isinstance(encoder, TermEncoder)]
        keys = tuple(encoder.revision for encoder in terms)
        if tenant is not None:
            return self._listed_of(encoders, keys, tenant, hits)
        listed = _WORDS.of(self.source.origin).get(keys) or self.words
        if listed is None:
            listed = self._count(encoders, keys, None)
        elif listed.is_whole:
            news = listed.news(hits) - self.strays
            size = self.source.size
            if news or (size is not None and size() != listed.size):
                listed = self._count(encoders, keys, listed)
                self.strays |= news if listed is None else news & listed.news(hits)
        self.words = listed
        return listed

    def _count(
        self, encoders: Sequence[Encoder], keys: tuple[str, ...], before: Listed | None
    ) -> Listed | None:
        words = _WORDS.of(self.source.origin)
        words.pop(keys, None)
        size = None if self.source.size is None else self.source.size()
        passages = self._sample(_MOST_LISTED) if self._sample and keys else []
        if (listed := Listed.of(passages, encoders, before)) is not None:
            listed = words[keys] = replace(listed, size=size)
        return listed

    def _listed_of(
        self,
        encoders: Sequence[Encoder],
        keys: tuple[str, ...],
        tenant: Filter,
        hits: Sequence[Passage],
    ) -> Listed | None:
        """Return the words of a tenant's passages; None if they cannot be told from all.

        A function is no tenant that is known again, so that its passages are not counted.
        """
        condition = parse(tenant)
        sample, select = self._sample, self.source.select
        if sample is None or not keys or (key := key_of(condition)) is None:
            return None
        name, count = (keys, key), self._tenants.use((keys, key))
        if count is None or (news := count.news(hits)):
            passages = select(tenant, _MOST_LISTED) if select else sample(_MOST_LISTED)
            matches = matching(condition, passages)
            is_known = len(passages) < _MOST_LISTED or len(matches) == len(passages)
            before = None if count is None else count.listed
            listed = Listed.of(matches, encoders, before) if is_known else None
            listed = listed and replace(listed, is_tenants=True)
            strays = set[str]() if count is None else count.strays | news
            count = TenantWords(listed, is_known=is_known)
            count.strays = strays & count.news(hits)
            self._tenants.keep(name, count)
        return count.listed

    def read(self, encoders: Sequence[Encoder], passages: Sequence[Passage]) -> dict[int, Encoded]:
        """Return what encoders made of the passages, by their positions; not all are known.

        Texts without a vector are encoded.

        Raises
        ------
        TypeError, ValueError
            If the vectors are said to be of these encoders, and are not.
        """
        without = SilentEncoder | TermEncoder
        if all(isinstance(encoder, without) for encoder in encoders):
            return {}
        if self._vectors is None or self.are_of_these is False:
            return {}
        stored, trouble = dict[str, Sequence[float] | None](), ""
        try:
            stored = {**self._vectors([passage.id for passage in passages])}
        except Exception as error:
            trouble = f" ({type(error).__name__}: {str(error).strip():.100})"
        rows = [stored.get(passage.id) for passage in passages]
        vectors = [row for row in rows if row is not None]
        is_known = np.array([row is not None for row in rows])
        misses = [self.source.embedded(passage) for passage in compress(passages, ~is_known)]
        if misses:
            note = f"vectors are missing for {len(misses)} of {len(passages)} candidates{trouble}"
            note = f"{self.source.name}: {note}. Their texts are encoded, and remembered."
            if self._are_ours or vectors:
                warn_once(self.warnings, "vectors", note)
        if not vectors:
            return {}
        units = self._split(encoders, vectors)
        silent = {at for at, encoder in enumerate(encoders) if isinstance(encoder, SilentEncoder)}
        if self.are_of_these is None and not silent:
            self.are_of_these = self._are_of(encoders, units, [*compress(passages, is_known)])
            if not self.are_of_these:
                _log.info(
                    "uec_rag: %s: its vectors are of another model, so that texts are encoded, and "
                    "remembered.",
                    self.source.name,
                )
        results = dict[int, Encoded]()
        for position in units.keys() - silent if self.are_of_these else ():
            matrix = units[position]
            if misses:
                unit, matrix = matrix, np.empty((len(passages), matrix.shape[1]), dtype=np.float32)
                matrix[is_known] = unit
                matrix[~is_known] = encoders[position].encode(misses, "passage").embedding
            results[position] = Encoded(matrix, matrix)
        return results

    def _split(
        self, encoders: Sequence[Encoder], rows: Sequence[Sequence[float]]
    ) -> dict[int, FloatArray]:
        """Return the unit vectors of each encoder, by its position, that stored vectors hold."""
        dense = [at for at, encoder in enumerate(encoders) if not isinstance(encoder, TermEncoder)]
        widths, lengths = [encoders[at].dimension for at in dense], {*map(len, rows)}
        if lengths == {*widths[:1]}:
            dense, widths = dense[:1], widths[:1]
        if lengths != {sum(widths)}:
            if self._are_ours and dense:
                raise ValueError(
                    f"vectors: expected {widths[0]} numbers each, as {encoders[dense[0]].name!r} "
                    f"makes, got {sorted(lengths)}."
                )
            return {}
        name = encoders[dense[0]].name
        try:
            matrix = check_vectors(rows, rows=len(rows), encoder=name)
        except NoDirection as error:
            raise NoDirection(name, error.count, 0, (), self.source.name) from None
        if len(dense) == 1:
            return {dense[0]: matrix}
        parts = np.split(matrix, np.cumsum(widths)[:-1], axis=1)
        return {
            at: check_vectors(part, rows=len(rows), encoder=encoders[at].name)
            for at, part in zip(dense, parts, strict=True)
        }

    def _are_of(
        self,
        encoders: Sequence[Encoder],
        units: Mapping[int, FloatArray],
        passages: Sequence[Passage],
    ) -> bool:
        """Return whether the first vector is what the encoders make of its text."""
        texts = [*map(self.source.embedded, passages[:_COMPARED])]
        for position, unit in units.items():
            if _is_maker(encoder := encoders[position], texts, unit[:1]):
                continue
            if self._are_ours:
                raise ValueError(
                    f"vectors: expected those of the first encoder, {encoder.name!r}, got those of "
                    f"another model in the store (for {texts[0][:40]!r}), or of one whose last "
                    "layer is not the identity. Embed the store's texts again, pass the "
                    "embedding that made them, or vectors=lambda ids: {} to encode its texts."
                )
            return False
        return bool(units)

    def has_others(self, encoder: Encoder, passages: Sequence[Passage]) -> bool:
        """Return whether passages have vectors, and others than an encoder makes of their texts."""
        stored = self._vectors([p.id for p in passages]) if self._vectors and passages else {}
        pairs = [
            (self.source.embedded(p), row)
            for p in passages
            if (row := stored.get(p.id)) is not None
        ]
        units = self._split([encoder], [row for _, row in pairs]) if pairs else {}
        texts = [text for text, _ in pairs]
        return bool(pairs) and not (units and _is_maker(encoder, texts, units[0]))


@dataclass(eq=False)
class TenantWords:
    """The words of a tenant's passages in another's store.

    Attributes
    ----------
    listed : Listed or None
        None if there are none.
    is_known : bool
        Whether the store tells them from those of others.
    strays : set of str
        The ids of those that were found and cannot be listed as they were found.
    """

    listed: Listed | None
    is_known: bool
    strays: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return 0 if self.listed is None else len(self.listed.rows)

    def news(self, hits: Sequence[Passage]) -> set[str]:
        """Return the ids of the passages that were found and that have not been counted."""
        if not self.is_known or len(self) >= _MOST_LISTED:
            return set()
        ids = {p.id for p in hits} if self.listed is None else self.listed.news(hits)
        return ids - self.strays


def _recent() -> Recent[Hashable, TenantWords]:
    return Recent(_MOST_OF_TENANTS, lambda words: max(len(words), _LEAST))


_TENANTS = Memory(_recent)  # of stores, by encoders and conditions
_WORDS = Memory(dict[tuple[str, ...], "Listed"])  # of stores, by the encoders that counted them


def _is_maker(encoder: Encoder, texts: Sequence[str], unit: FloatArray) -> bool:
    """Return whether vectors are those that an encoder makes of the first of some texts.

    They are not if its last layer is not the identity: its features are unknown then.
    """
    encoded = encoder.encode(texts[: len(unit)], "passage")
    return encoded.is_plain and are_same(encoder, texts, encoded.embedding, unit)


def encode_words(encoders: Sequence[Encoder], passages: Sequence[Passage]) -> list[Encoded]:
    """Count the words of passages, also of their titles and sources, for each encoder of words."""
    texts = [passage.counted for passage in passages]
    term_encoders = [encoder for encoder in encoders if isinstance(encoder, TermEncoder)]
    return [encoder.encode(texts, "passage") for encoder in term_encoders]


def _says_the_same(before: Passage, now: Passage) -> bool:
    """Return whether two passages have the same words; their headings take long to join."""
    if before.text == now.text and before.metadata == now.metadata:
        return True
    return before.counted == now.counted


def _leading(scores: FloatArray, count: int) -> NDArray[np.int64]:
    """Return the places of the highest scores above 0, of equal ones the first; few are sorted."""
    places = np.flatnonzero(scores > 0)
    if 0 < count < len(places):
        above = scores[places]
        places = places[above >= np.partition(above, -count)[-count]]
    return places[np.argsort(-scores[places], kind="stable")][:count]


@dataclass(frozen=True, eq=False)
class Listed:
    """The words of passages, by which a store is searched beside its vectors.

    Attributes
    ----------
    encoded : sequence of Encoded
        What `encode_words` returned.
    rows : dict of str to (int, Passage)
        The passages, by their ids.
    view : View
        The same, with words alone.
    frequencies : sequence of Frequencies
        The rarity of words among them, for each encoder of words.
    is_tenants : bool
        Whether they are those of a tenant.
    size : int or None
        How many passages the store said to have.
    """

    encoded: Sequence[Encoded]
    rows: dict[str, tuple[int, Passage]]
    view: View
    frequencies: Sequence[Frequencies]
    is_tenants: bool = False
    size: int | None = None

    def news(self, passages: Sequence[Passage]) -> set[str]:
        """Return the ids of the passages that are not listed, or with another text."""
        before = ((p, self.rows.get(p.id)) for p in passages)
        return {p.id for p, row in before if row is None or row[1].text != p.text}

    @property
    def is_whole(self) -> bool:
        """True if the store has no others, as far as is known."""
        return len(self.rows) < _MOST_LISTED

    @classmethod
    def of(
        cls, passages: Sequence[Passage], encoders: Sequence[Encoder], before: Listed | None = None
    ) -> Self | None:
        """Count the words of passages of another's store; None if none has a text.

        `before`: of some of them, what was counted before.
        """
        texts = [passage for passage in passages if passage.text.strip()]
        copies = [Passage(p.id, p.text, comparable(p.metadata)) for p in texts]
        return cls.count(copies, encoders, before) if copies else None

    @classmethod
    def count(
        cls, passages: Sequence[Passage], encoders: Sequence[Encoder], before: Listed | None = None
    ) -> Self:
        """Count the words of passages; `before`: of some of them, what was counted before."""
        encode = encode_words if before is None else before.encode
        encoded = encode(encoders, passages)
        view, terms = View.from_passages(passages, encoded), (part.blocks for part in encoded)
        rows = {passage.id: (row, passage) for row, passage in enumerate(passages)}
        return cls(encoded, rows, view, [*map(Frequencies.from_terms, chain(*terms))])

    def encode(self, encoders: Sequence[Encoder], passages: Sequence[Passage]) -> list[Encoded]:
        """Return what `encode_words` does, which counts the words of new passages alone."""
        rows, news = self._find(passages)
        if not news:
            return [block[rows] for block in self.encoded]
        pairs = zip(self.encoded, encode_words(encoders, news), strict=True)
        return [Encoded.join(pair)[rows] for pair in pairs]

    def among(
        self,
        encoders: Sequence[Encoder],
        passages: Sequence[Passage],
        lookups: Sequence[LookedUp] = (),
    ) -> list[Words]:
        """Return the words of passages, and of those that are listed, for each encoder of words.

        `lookups`: of each, what `nearest` has looked up.
        """
        rows, news = self._find(passages)
        parts = [[*words.parts] for words in self.view.state.words]
        if news:
            lookups = ()
            for counts, addition in zip(parts, encode_words(encoders, news), strict=True):
                counts += map(Counts.from_terms, addition.blocks)
        pairs = zip_longest(parts, lookups)
        return [
            Words(1.0, counts, [None] * len(counts), None, rows, lookup) for counts, lookup in pairs
        ]

    def _find(self, passages: Sequence[Passage]) -> tuple[NDArray[np.int64], list[Passage]]:
        """Return the rows of passages, those of new ones behind all others, and the new ones."""
        rows, news = list[int](), list[Passage]()
        for passage in passages:
            row, namesake = self.rows.get(passage.id, (0, None))
            if namesake is None or not _says_the_same(namesake, passage):
                row = len(self.view) + len(news)
                news.append(passage)
            rows.append(row)
        return np.array(rows, dtype=np.int64), news

    def nearest(
        self, query: Gaussian, count: int, filter: Filter | None, exclusions: Collection[str]
    ) -> tuple[list[str], list[LookedUp]]:
        """Return the ids of the passages nearest to queries by their words, of those not known.

        They are up to `count` for each. Of a tenant's few, all: an approximate index may miss other
        ones where there are others. Beside them, what was looked up of each encoder of words.
        """
        view = self.view.snapshot(filter)
        if self.is_tenants and len(view) <= _FEW_OF_TENANT:
            return [p.id for p in view.passages() if p.id not in exclusions], []
        if not query.terms or not len(view):
            return [], []
        lookups, scores = list[LookedUp](), list[FloatArray]()
        for words, terms in zip(view.lexicon.words, query.terms, strict=True):
            looked_up = words.look_up(replace(terms, scale=np.ones_like(terms.scale)))
            similarities = words.similarities(looked_up)
            scores.append(similarities * terms.scale[:, None])
            lookups.append(replace(looked_up, similarities=similarities, counts=terms.weights))
        best = [_leading(row, count) for row in view.state.take(np.sum(scores, axis=0))]
        ids = dict.fromkeys(passage.id for hits in view.gather(best) for passage in hits)
        return [id_ for id_ in ids if id_ not in exclusions], lookups
