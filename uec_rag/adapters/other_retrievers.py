"""The hits of other retrievers: judged, noted, and decided on when they are handed on."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

from uec_rag.base.records import Recent
from uec_rag.confidence.decision import Decision, Evidence, decide
from uec_rag.ensemble.uec import UEC
from uec_rag.gates.gate import Gate
from uec_rag.gates.rulings import Judged, Pending
from uec_rag.index.retriever import Retriever
from uec_rag.questions.languages import Code
from uec_rag.retrieval.results import (
    KEY,
    PARTS,
    SearchResult,
    hits_in,
    read_by_model,
    surest_decision,
)
from uec_rag.stores.passage import Passage, distinct
from uec_rag.stores.source import SourceStore
from uec_rag.stores.stored import Source

_MOST_CONVERTED = 2**22  # bytes of hits whose passages are kept


class Converted(Recent[Hashable, tuple[bytes, Passage]]):
    """The passages that were made of another package's hits, with all that these had."""

    def __init__(self) -> None:
        super().__init__(_MOST_CONVERTED, lambda entry: len(entry[0]) + len(entry[1].text))

    def of(self, key: Hashable, state: object, convert: Callable[[], Passage]) -> Passage:
        """Return the passage of a hit, which must not be changed.

        It is the one from before if all that the hit has is the same to the last bit; what does not
        pickle is converted again.
        """
        try:
            data = pickle.dumps(state)
        except Exception:
            return convert()
        if (entry := self.get(key)) is None or entry[0] != data:
            entry = data, convert()
            self.keep(key, entry)
        return entry[1]


def judge(uec: UEC, question: str, passages: Sequence[Passage]) -> SearchResult:
    """Judge the passages that another retriever has found for a question, in its order.

    The question and the passages are encoded, those of late only once. Confidence is unreliable if
    there are fewer than thirty, or if the ensemble is not fitted.

    Examples
    --------
    >>> found = [Passage("dogs", "Dogs bark.", {}), Passage("cats", "Cats purr.", {})]
    >>> judge(UEC(["bm25"]), "Why do cats purr?", found).ids
    [['dogs', 'cats']]
    """
    passages = distinct(passages)
    source = Source("what another retriever found", lambda *_: passages)
    index = Retriever(uec, SourceStore(uec.with_cache().encoders, source), fit=False)
    [result] = index.search([question], max(len(passages), 1))
    place = {passage.id: at for at, passage in enumerate(passages)}
    order = sorted(range(len(result.ids)), key=lambda at: place[result.ids[at]])
    return SearchResult([result.select(order)])


_H = TypeVar("_H", bound=Any)  # a document of LangChain, or a node of LlamaIndex


class Hits(list[_H]):
    """Hits with the decision on them, which counts also if there are none.

    Attributes
    ----------
    decision : Decision
    """

    decision: Decision


def decision_on(hits: Sequence[Any], expected: str, question: str | None = None) -> Decision:
    """Read the decision on hits from their metadata; to abstain if there are no hits.

    Frameworks lose the decision if there are none, so that it tells of a blank `question`.

    If they come from several searches, as in a fusion, it is the one with the highest confidence.
    ValueError if none has a decision; `expected` says which hits have.
    """
    if isinstance(hits, Hits):
        return hits.decision
    if not hits:
        is_blank = question is not None and not question.rpartition("\n")[2].strip()
        code: Code = "no_question" if is_blank else "nothing_found"
        return decide(Evidence(code=code, in_corpus=0.0))
    decision = surest_decision(hit.metadata for hit in hits)
    if decision is None:
        raise ValueError(f"none has uec_decision and uec_confidence in its metadata; {expected}")
    return decision


Noted: TypeAlias = list[tuple[str, Mapping[str, Any]]]
_noted: ContextVar[Noted | None] = ContextVar("_noted", default=None)


@contextmanager
def keeping_findings(
    text_of: Callable[[_H], str], add: Callable[[_H, dict[str, Any]], _H]
) -> Iterator[Callable[[list[_H]], list[_H]]]:
    """Note the text and metadata of all hits of the block, also of those in threads.

    Retrievers that merge hits into a longer passage take this from elsewhere, without what was
    found: LlamaIndex's `AutoMergingRetriever`, or LangChain's `ParentDocumentRetriever`. The
    function that the block gets returns hits with the metadata of those whose place they have
    taken: of each, of the most relevant hit whose text is a part of its own.
    """
    noted: Noted = []

    def keep(hits: list[_H]) -> list[_H]:
        copies = []
        for hit in hits:
            text = "" if f"{KEY}decision" in hit.metadata else " ".join(text_of(hit).split())
            findings = [metadata for part, metadata in noted if part in text]
            best = max(findings, key=lambda note: note[f"{KEY}relevance"], default=None)
            parts = [[note[f"{KEY}score"], note[f"{KEY}relevance"]] for note in findings]
            copies.append(hit if best is None else add(hit, {**best, PARTS: parts}))
        return hits if isinstance(hits, Hits) else copies

    token = _noted.set(noted)
    try:
        with read_by_model():
            yield keep
    finally:
        _noted.reset(token)


def note(result: SearchResult, texts: Sequence[str]) -> None:
    """Note the hits of a question, given their texts, where the caller of the search wants it."""
    if (noted := _noted.get()) is not None and result[0].judged:
        noted += [(" ".join(text.split()), result[0].metadata(at)) for at, text in enumerate(texts)]


def pending_on(
    hits: list[_H],
    gate: Gate | None,
    question: str | None,
    text_of: Callable[[_H], str],
    expected: str,
    search: Callable[[str], list[_H]] | None = None,
) -> Pending[list[_H]]:
    """Decide at the threshold on hits that another retriever or a reranker hands on.

    Parameters
    ----------
    hits : list
        What was found for one question.
    gate : Gate or None
        None leaves the decision of the search.
    question : str or None
        The question with the turns before it, for an advisor; None if it is not known.
    text_of : callable(hit) -> str
    expected : str
        For the error message: which hits have a decision.
    search : callable(question) -> list of hits, optional
        Searches for an advisor's rewrite.
    """

    def at_threshold(hits: list[_H]) -> Decision:
        decision = decision_on(hits, expected, question)
        count = len(hits_in(hit.metadata for hit in hits))
        return decision if gate is None or not hits else gate.decide_again(decision, count)

    def judge(rows: Iterable[list[_H]]) -> list[Judged[list[_H]]]:
        return [Judged(at_threshold(row), row, [*map(text_of, row)]) for row in rows]

    again = None if search is None else lambda rewrites: judge(map(search, rewrites))
    return Pending(gate or Gate(), judge([hits]), [question or ""], again)
