"""Search over another package's vector store, which finds candidates for the ensemble to rank.

Nothing is written to the store. Its candidates for a question are the corpus that is searched: the
ensemble ranks and judges them as it would passages of its own. If the store gives the vectors that
it has, and they are those of the ensemble's models, these encode nothing but the question. If it
lists its passages, words find candidates, too, and are as rare as in all of them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self

from uec_rag.base.counts import Frequencies, LookedUp, Words
from uec_rag.base.errors import EncoderFailed, NoDirection, as_corrupted, warn, warn_once
from uec_rag.base.files import DATABASE
from uec_rag.base.gaussian import Gaussian
from uec_rag.base.loops import waiting
from uec_rag.confidence.model import NEAREST
from uec_rag.encoders.base import PROBES, Encoded, Encoder, probe
from uec_rag.encoders.black_box import BlackBoxEncoder, is_langchain, is_llama_index
from uec_rag.encoders.cache import cached
from uec_rag.encoders.calls import BUGS, kind_of
from uec_rag.stores.base import Filter, Probes
from uec_rag.stores.candidates import CandidateStore
from uec_rag.stores.comparisons import Compare
from uec_rag.stores.filters import (
    Condition,
    all_of,
    ids_of,
    is_of_tenant,
    key_of,
    leaves,
    matching,
    mismatches,
    parse,
)
from uec_rag.stores.local import View
from uec_rag.stores.passage import Passage, copy_value, distinct
from uec_rag.stores.stored import Mirror, Source, encode_words

_MANY = 1000  # candidates that are filtered here if the store cannot run a filter
_ALL = 2**20  # that are looked at for the passages of a tenant
_FEW = 3  # stored vectors that are compared for a gate

_OF_SERVICES = ("busy", "away", "forbidden")  # failures that are not of the question

_FOREIGN = (0.0,)  # in place of what `probe` returns of a model


@dataclass(eq=False)
class Search:
    """A search of another package's store, which may refuse a filter, or run it differently.

    If too few of the candidates that it finds with a filter match, more are asked for without it,
    and filtered here. A store that refuses a number is asked for fewer, as many as it gives. A
    store that returns fewer than it was asked for has not said that there are
    no more: it is asked without its index, or for what is near something else. What this says about
    the store is said once for each kind of filter.

    Attributes
    ----------
    name : str
        The store's, for messages.
    ask : callable(question, own, count) -> sequence of Passage
        Searches for a question, or its vector, with a filter of the store's own, or None.
    translate : callable(filter) -> Any
        Returns what the store's own filters can say of a filter: at least what must hold. None if
        that is nothing.
    count : int
        The number of candidates.
    place : callable() -> str
        Returns where the store reads texts from, for messages.
    list_all : callable() -> sequence of Passage, or None
        Lists all passages, if they are in this process.
    exact : callable(question, own, count) -> sequence of Passage, or None
        As `ask`, without an index that may return fewer than there are.
    """

    name: str
    ask: Callable[[Any, Any, int], Sequence[Passage]]
    translate: Callable[[Filter], Any]
    count: int
    place: Callable[[], str]
    list_all: Callable[[], Sequence[Passage]] | None = None
    exact: Callable[[Any, Any, int], Sequence[Passage]] | None = None
    _limit: float = math.inf  # that the store was seen to give at once
    _sound: set[str] = field(default_factory=set)  # filters seen to leave out nothing
    _warnings: set[object] = field(default_factory=set)

    def __call__(self, question: Any, filter: Filter | None) -> Sequence[Passage]:  # noqa: ANN401
        """Return the candidates for a question, or its vector, that match a filter.

        They are `Incomplete` if others may match. ValueError if no candidate has a text.
        """
        if not filter:
            return self._unfiltered(question)
        if is_of_tenant(filter):
            return self._of_tenant(question, filter)
        condition, many, trouble = parse(filter), max(_MANY, self.count), ""
        hits, terms, is_all = list[Passage](), None, True
        try:
            terms = self.translate(filter)
            for count in () if terms is None else (self.count, many):
                pool = self._ask(question, terms, count)
                hits, is_all = matching(condition, pool), len(pool) < min(count, self._limit)
                if len(hits) >= self.count or is_all:
                    break
        except Exception as error:
            trouble = f"refuses it ({type(error).__name__}: {str(error).strip():.100})"
        key = _written(filter, condition)
        is_sound = terms is not None and is_all and not trouble and key in self._sound
        if len(hits) >= self.count or is_sound:
            return hits[: self.count]
        pool = self.list_all() if self.list_all else self._plain(question, many)
        ids = {p.id for p in hits}
        misses = [p for p in matching(condition, pool) if p.id not in ids]
        is_few = len(ids) + len(misses) < self.count  # else the nearest that match are known
        if not trouble and misses and terms is not None:
            trouble = f"leaves out {len(misses)} passages that match"
        elif not trouble and (not is_all or terms is None) and len(pool) >= many and is_few:
            trouble = "cannot run all of it"
        elif not trouble and is_few and self._is_cut(question, pool, many):
            trouble = f"returns {len(pool)} passages of {many} that it is asked for, and has more"
        self._say_mismatch(condition, [] if ids or misses else pool)
        if trouble:
            self._say(condition, trouble, len(pool), len(ids) + len(misses))
        elif key is not None and len(self._sound) < _MANY:
            self._sound.add(key)
        # All of those that are in this process, since their order is that of nothing.
        best = [*hits, *misses][: many if self.list_all else self.count]
        return Incomplete(best) if trouble and not self.list_all else best

    def _unfiltered(self, question: Any) -> Sequence[Passage]:  # noqa: ANN401
        pool = self._plain(question, self.count)
        if self._is_cut(question, pool, self.count):
            warn_once(self._warnings, "cut", _CUT.format(self.name, len(pool), self.count))
            return Incomplete(pool)
        return pool

    def _of_tenant(self, question: Any, filter: Filter) -> Sequence[Passage]:  # noqa: ANN401
        """Return the candidates of a tenant alone, however many nearer ones others have.

        They are `Incomplete` if the store neither runs the filter nor gives all of its passages.
        """
        condition, most = parse(filter), max(_MANY, self.count)
        hits, is_all, trouble = list[Passage](), False, "cannot run all of it"
        try:
            if (terms := self.translate(filter)) is not None:
                hits, _, is_all = self._look_for(condition, partial(self._ask, question, terms))
        except Exception as error:
            trouble = f"refuses it ({type(error).__name__}: {str(error).strip():.100})"
        key = _written(filter, condition)
        if len(hits) >= self.count or (is_all and key in self._sound):
            return hits[: self.count]
        plain, has_all = partial(self._plain, question), True
        pool = self.list_all() if self.list_all else plain(most)
        ids = {passage.id for passage in hits}
        misses = [p for p in matching(condition, pool) if p.id not in ids]
        if is_all and not misses:
            if key is not None and len(self._sound) < _MANY:
                self._sound.add(key)
        else:
            if not self.list_all:
                _, pool, has_all = self._look_for(condition, plain)
                has_all &= not self._is_cut(question, pool, len(pool) + 1)
            matches = matching(condition, pool)
            names = {passage.id for passage in matches}
            hits = [*matches, *(hit for hit in hits if hit.id not in names)]
            trouble = f"leaves out {len(misses)} passages that match" if is_all else trouble
            self._say(condition, trouble, len(pool), len(hits))
        self._say_mismatch(condition, [] if hits else pool)
        best = hits[: most if self.list_all else self.count]
        return best if has_all or len(best) >= self.count else Incomplete(best)

    def _look_for(
        self, condition: Condition, ask: Callable[[int], Sequence[Passage]]
    ) -> tuple[list[Passage], Sequence[Passage], bool]:
        """Ask for more and more until enough match; return these, all, and whether that is all."""
        count = self.count
        while True:
            pool = ask(count)
            hits, is_all = matching(condition, pool), len(pool) < min(count, self._limit)
            if len(hits) >= self.count or is_all or count >= min(_ALL, self._limit):
                return hits, pool, is_all
            count = max(_MANY, count * 8)

    def _plain(self, question: Any, count: int) -> Sequence[Passage]:  # noqa: ANN401
        return _with_text(self._ask(question, None, count), self.name, self.place)

    def _ask(self, question: Any, translation: Any, count: int) -> Sequence[Passage]:  # noqa: ANN401
        passages = self._ask_for(question, translation, count)
        if len(passages) < count and self.exact is not None:
            passages = self.exact(question, translation, count)
        return passages

    def _ask_for(self, question: Any, translation: Any, count: int) -> Sequence[Passage]:  # noqa: ANN401
        """Ask for a number of candidates or, if the store refuses it, for as many as it gives.

        It may give no more than it has, or than its service allows. What is known of that is tried
        first, with one more, since it may have grown.
        """
        limit = int(min(self._limit, count))
        passages: Sequence[Passage] = []
        guess, floor, ceiling, trouble = min(limit + 1, count), 0, count + 1, None
        while ceiling - floor > 1:
            try:
                passages, floor = self.ask(question, translation, guess), guess
            except Exception as error:
                trouble = trouble or error
                if guess == 1:  # so it is not the number
                    raise trouble from None
                ceiling = guess
            if ceiling > count:
                guess = count
            elif floor:
                guess = (floor + ceiling) // 2
            else:
                guess = limit if limit < ceiling else 1
        if trouble or floor > self._limit:
            self._limit = floor if trouble else math.inf
        return passages

    def _is_cut(self, question: Any, passages: Sequence[Passage], count: int) -> bool:  # noqa: ANN401
        """Return whether there are more passages than the fewer ones that a search returned.

        Then what is near another question is not among them.
        """
        if len(passages) >= count or self.exact or self.list_all:
            return False
        contrast: Any = PROBES[0]
        if hasattr(question, "embedding"):  # LlamaIndex's
            contrast = replace(question, embedding=[-number for number in question.embedding])
        elif not isinstance(question, str):
            contrast = [-number for number in question]
        ids = {passage.id for passage in passages}
        return any(passage.id not in ids for passage in self._ask_for(contrast, None, count))

    def _say_mismatch(self, condition: Condition, pool: Sequence[Passage]) -> None:
        """Say which comparisons are with values of another kind than passages have."""
        for note in mismatches(condition, pool):
            warn_once(self._warnings, note, note)

    def _say(self, condition: Condition, trouble: str, looked: int, match: int) -> None:
        pairs = [(p.keys, p.operator) for p in leaves(condition) if isinstance(p, Compare)]
        keys = ", ".join(sorted({repr(".".join(path)) for path, _ in pairs})) or "a function"
        warn_once(
            self._warnings,
            (trouble[:6], *pairs),
            f"filter by {keys}: {self.name} {trouble}, so {looked} of its passages were looked at "
            f"without it and filtered here; {match} match. Farther ones are not found; if it has "
            "an approximate index, let that look at more, or filter before it searches.",
        )


_CUT = (
    "{} returns {} passages of {} that it is asked for, and has more, which are not found: let its "
    "approximate index look at more (ef_search, nprobe, num_candidates)."
)


class Incomplete(list[Passage]):
    """Candidates of a store that may have others, so that none of them says nothing."""


def _written(filter: Filter, condition: Condition) -> str | None:
    """Return a filter as it is written, to know it again by; None if a function is part of it.

    Two that mean the same may become others in a store: 5.0 finds there what [5.0] leaves out.
    """
    return None if key_of(condition) is None else repr(filter)


def _with_text(
    passages: Sequence[Passage], name: str, place: Callable[[], str] = lambda: "it"
) -> Sequence[Passage]:
    """Return passages, of which one at least must have a text; `place`: where it is read from."""
    if passages and not any(passage.text.strip() for passage in passages):
        raise ValueError(
            f"theirs: no candidate of {name} has a text, which is read from {place()}. Name the "
            "key that has it when you make the store."
        )
    return passages


def source_of_retriever(name: str, find: Callable[[str], Sequence[Passage]]) -> Source:
    """Make the source of a retriever, which decides itself how many candidates it finds.

    With fewer than 30, the search warns.
    """

    def enough(question: str, _: Filter | None) -> Sequence[Passage]:
        passages = _with_text(find(question), name)
        if 0 < len({passage.id for passage in passages}) < NEAREST:
            warn(
                f"Fewer than {NEAREST} of {name} were found, so that confidence is unreliable. "
                f"Let it find more, such as {NEAREST} by each of its parts."
            )
        return passages

    return Source(name, enough, is_retriever=True)


class SourceStore(CandidateStore):
    """The store of a `Retriever` over a source of candidates.

    A question costs one search of the source (in a conversation, up to three) and, unless they were
    encoded recently or their vectors are known, the encoding of the texts that it finds.

    Parameters
    ----------
    encoders : sequence of Encoder
        Those of the retriever's `UEC.encoders`.
    source : Source
    """

    def __init__(self, encoders: Sequence[Encoder], source: Source) -> None:
        self.encoders, self.source = [*map(cached, encoders)], source
        self.can_look_up = source.get is not None
        self.frequencies: list[Frequencies] = []  # those of each sparse block, once learned
        self._filter: Filter | None = None
        self._condition = parse({})
        self._tenant: Filter | None = None  # in a view of a tenant, a part of the filter
        self._narrower: Filter | None = None  # and the other part
        self._mirror = Mirror(source)  # shared by views
        self._memory: dict[str, Passage] | None = None  # in a view, those that were found
        self._is_by_words = False  # while its embedding fails

    def __str__(self) -> str:
        return self.source.name

    def __len__(self) -> int:
        """Return 0, since the size of the other store is not known."""
        return 0

    def fetch(self, questions: Sequence[str], query: Gaussian, count: int) -> View:
        """Return the candidates for a question, each once, that match the filter.

        For each way of asking it, they are those of the source and, if it can list its passages, as
        many by their words.
        """
        if not any(questions):
            self._refuse()
        get, ids = self.source.get, ids_of(self._condition)
        with waiting():
            if get is not None and ids:
                pools = [get(ids)]
            else:
                pools = [*map(self._ask, dict.fromkeys(questions))]
        self.is_incomplete = any(isinstance(pool, Incomplete) for pool in pools)
        candidates = [passage for pool in pools for passage in pool]
        # First, since what others have may have the same ids.
        pool = (
            distinct(candidates) if self._filter is None else matching(self._condition, candidates)
        )
        hits = candidates if self._tenant is None else pool
        listed = self._mirror.listed(self.encoders, hits, self._tenant)
        if self._tenant is not None and listed is None:
            self._check_complete(pool)
        lookups: Sequence[LookedUp] = ()
        if get is not None and listed is not None and not ids:
            names = {passage.id for passage in pool}
            number = count if self._is_by_words else max(map(len, pools))
            narrower = self._filter if self._tenant is None else self._narrower
            nearest, lookups = listed.nearest(query, number, narrower, names)
            pool = [*pool, *get(nearest)] if nearest else pool
        unusable = self._mirror.unusable
        stored = {p.id: p for p in pool if p.text.strip()}
        if lost := [p for p in stored.values() if (p.id, p.text) in unusable] if unusable else []:
            unusable.difference_update((p.id, p.text) for p in _usable(self.encode, lost))  # mended
            stored = {p.id: p for p in stored.values() if (p.id, p.text) not in unusable}
        if self._memory is not None:
            self._memory |= stored
        passages = [*stored.values()]
        if self._filter is not None:
            passages = matching(self._condition, passages)
            for note in () if passages else mismatches(self._condition, candidates):
                warn_once(self._mirror.warnings, note, note)
        passages, encodings = self._encode_usable(passages)
        if not passages:
            return View.empty()
        if listed is not None:
            frequencies, words = listed.frequencies, listed.among(self.encoders, passages, lookups)
        else:
            words = [
                Words.from_terms(block)
                for part in encode_words(self.encoders, passages)
                for block in part.blocks
            ]
            # Those of a fit are of the words of all.
            frequencies = self.frequencies if self._tenant is None else ()
        return View.from_passages(passages, encodings, frequencies, words)

    def _check_complete(self, pool: Sequence[Passage]) -> None:
        """Raise ValueError if what others have decides which of a tenant's passages are found."""
        if self.is_incomplete or (self.source.is_retriever and not pool):
            raise ValueError(
                f"tenant: {self.source.name} cannot be searched for a tenant alone: what runs no "
                "such filter, and gives no more passages, hides the tenant's behind those of "
                "others. Let it filter itself, or keep the passages in an index of this package."
            )

    def _ask(self, question: str) -> Sequence[Passage]:
        """Return what the source finds; EncoderFailed if its embedding fails, and words are left.

        Without the source, nothing: words have found less than there is.
        """
        if self._is_by_words:
            return Incomplete()
        try:
            return self.source.find(question, self._filter)
        except Exception as error:
            is_service = not isinstance(error, BUGS) and kind_of(error) in _OF_SERVICES
            if isinstance(error, EncoderFailed) or not is_service or not self._lists_words:
                raise
            note = f"{type(error).__name__}: {str(error).strip():.200}"
            text = f"store: {self.source.name} failed to search ({note}); try again."
            raise EncoderFailed(text, self.source.name) from error

    @property
    def _lists_words(self) -> bool:
        """True if words find passages without the source's search."""
        listed = self._mirror.listed(self.encoders, tenant=self._tenant)
        return self.can_look_up and listed is not None

    def without(self, name: str, encoder: Encoder | None) -> Self | None:
        """Return the store as it is searched while an encoder, or its own search, fails.

        Parameters
        ----------
        name : str
            What failed.
        encoder : Encoder or None
            That encoder; None if it is the search.

        Returns
        -------
        SourceStore or None
            By its words alone, if its own embedding is what failed; None if these are not known.
        """
        failed = getattr(encoder, "source", None)
        if name != self.source.name and (failed is None or failed is not self.source.embedding):
            return self
        if not self._lists_words:
            return None
        store = copy(self)
        store._is_by_words = True
        return store

    def texts_to_embed(self, questions: Sequence[str]) -> Sequence[str]:
        """Return the questions, if the source is asked by their vectors."""
        return questions if self.source.is_by_encoder and not self._is_by_words else ()

    @property
    def vocabulary(self) -> View | None:
        """The listed passages that match the filter; None unless all passages are listed."""
        listed = self._mirror.listed(self.encoders, tenant=self._tenant)
        if listed is None or not listed.is_whole:
            return None
        narrower = self._filter if self._tenant is None else self._narrower
        return listed.view if narrower is None else listed.view.of_tenant(narrower)

    def _encode_usable(self, passages: list[Passage]) -> tuple[list[Passage], list[Encoded]]:
        """Encode the passages whose vector has a direction; NoDirection if of several none has."""
        try:
            return passages, self.encode(passages) if passages else []
        except NoDirection:
            usable = _usable(self.encode, passages)
            if not usable and len(passages) > 1:
                raise
        names = {passage.id for passage in usable}
        lost = {passage.id for passage in passages} - names
        self._mirror.unusable |= {(p.id, p.text) for p in passages if p.id in lost}
        note = f"{len(lost)} whose vector is zeros or no number are left out, first {min(lost)!r}"
        warn_once(self._mirror.warnings, "zeros", f"{self.source.name}: {note}.")
        return usable, self.encode(usable) if usable else []

    def encode(self, passages: Sequence[Passage]) -> list[Encoded]:
        """Encode passages without their words, of the text that the store's embedding saw.

        If the store has no vectors of theirs, models see the texts alone.

        Raises
        ------
        TypeError, ValueError
            If the source's vectors are not those of the first encoder.
        """
        return self._mirror.encode(self.encoders, passages)

    def learn_words(self, passages: Sequence[Passage]) -> None:
        """Take the rarity of words from passages, in place of that among each question's hits."""
        self.frequencies = [
            Frequencies.from_terms(block)
            for encoded in encode_words(self.encoders, passages)
            for block in encoded.blocks
        ]

    def with_encoders(self, encoders: Sequence[Encoder]) -> Self:
        """See `Searched`."""
        store = copy(self)
        store.encoders = [*map(cached, encoders)]
        return store

    @property
    def probes(self) -> Probes:
        """The vectors of a few texts by the source's own embedding, found once for all views.

        Of a store that has vectors of another model than its embedding, they are like no model's.
        """
        if self._mirror.probes is None:
            model, stored = self.source.embedding, self.source.stored
            probes: Probes = ()
            if is_langchain(model) or is_llama_index(model):
                encoder, texts = BlackBoxEncoder(model), self.examples(_FEW) if stored else []
                theirs = Mirror(replace(self.source, vectors=None))
                is_other = theirs.has_others(encoder, texts)
                probes = (_FOREIGN if is_other else probe(encoder),)
            self._mirror.probes = probes
        return self._mirror.probes

    def snapshot(self, filter: Filter | None = None) -> Self:
        """Return a view whose searches keep the candidates that match a filter.

        TypeError or ValueError if the filter is invalid.
        """
        view = copy(self)
        view._filter = all_of(self._filter, filter)
        view._narrower = all_of(self._narrower, filter)
        if filter is not None:
            view._condition = parse(view._filter or {})
        view._memory = {} if self._memory is None else self._memory
        return view

    def of_tenant(self, filter: Filter) -> Self:
        """Return a view of a tenant's passages, among which words are counted.

        They are those that the source lists for the filter, else the candidates.
        """
        view = self.snapshot(filter)
        view._tenant, view._narrower = view._filter, None
        return view

    def bind(self, fingerprint: str) -> None:
        """Do nothing: nothing is stored there."""

    def sample(self, count: int) -> list[Encoded]:
        """Return nothing: candidates are not a sample of the passages."""
        return []

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages with the given ids, leaving out unknown ones.

        Of a source that cannot look up ids, these are passages that this view has found.
        """
        memory = self._memory or {}
        passages = {id_: memory[id_] for id_ in ids if id_ in memory}
        missing = [id_ for id_ in ids if id_ not in passages]
        if missing and self.source.get is not None:
            passages |= {passage.id: passage for passage in self.source.get(missing)}
        if self._filter is not None:
            passages = {p.id: p for p in matching(self._condition, [*passages.values()])}
        # Those that were found are looked at by other searches.
        return [
            replace(p, metadata=copy_value(p.metadata))
            for p in map(passages.get, ids)
            if p is not None
        ]

    def fingerprints(self, ids: Sequence[str]) -> dict[str, str]:
        """Hash the texts that the source has now."""
        view = copy(self)
        view._memory = None
        return CandidateStore.fingerprints(view, ids)

    def vectors(self, ids: Sequence[str]) -> list[Encoded]:
        """See `Searched`."""
        passages = self.get(ids)
        if missing := {*ids} - {passage.id for passage in passages}:
            raise KeyError(f"{sorted(missing)[0]!r} is not in {self.source.name}.")
        return self.encode(passages)

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Return no passages: a source finds them, and need not be able to list them."""
        return iter(())

    def missed(self, ids: Collection[str]) -> set[str]:
        """Return those of the ids that this view has not found."""
        return {*ids} - {*(self._memory or {})}

    def examples(self, limit: int = 2000) -> list[Passage]:
        """Return up to `limit` passages; none if the source cannot list them."""
        sample = [] if self.source.sample is None else [*self.source.sample(limit)]
        return sample if self._filter is None else [*matching(self._condition, sample)]

    def corpus(self) -> str:
        """Return the hash of the source's name, by which a gate notices that it is another."""
        return hashlib.sha256(self.source.name.encode()).hexdigest()[:32]

    def describe(self) -> dict[str, Any]:
        """Return which source it is, with the rarity of words."""
        words = [
            [block.passages, block.length, {str(k): n for k, n in block.document_frequency.items()}]
            for block in self.frequencies
        ]
        return {"store": "source", "address": self.source.name, "words": words}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take the rarity of words from an index; warn if it is of another source.

        IndexCorrupted if it is damaged.
        """
        if (name := state.get("address")) != self.source.name:
            warn(
                f"store: this index was saved over {name!r:.100}, and is loaded over "
                f"{self.source.name!r:.100}: its fit and its gate may not suit."
            )
        with as_corrupted(Path(DATABASE)):
            self.frequencies = [
                Frequencies(int(size), float(length), {int(k): int(n) for k, n in counts.items()})
                for size, length, counts in state.get("words", [])
            ]

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise ValueError(
            f"this index is over {self.source.name}, which only supplies candidates: write to it "
            "directly; to search by vector, add its passages to a Retriever of their own."
        )

    add = delete = _refuse


def _usable(encode: Callable[[list[Passage]], object], passages: list[Passage]) -> list[Passage]:
    """Find the passages that can be encoded, by halving."""
    half = len(passages) // 2
    try:
        encode(passages)
    except NoDirection:
        return _usable(encode, passages[:half]) + _usable(encode, passages[half:]) if half else []
    return passages
