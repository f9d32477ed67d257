"""What should count beside similarity: one source not to crowd out others, recent or popular ones.

A boost is a log-odds term. For a passage of metadata ``m`` it states how much more often relevant
passages look like that than passages do at large, ``log P(m | relevant) / P(m)``; then Bayes' rule
adds it to the log-odds that the passage is relevant. Boosts are normalised so that this ratio has
the mean 1 over the corpus, as a ratio of probabilities has: relevance stays a probability as far as
the weights are right. The score grows by the same term in units of a similarity, divided by the
ensemble's slope.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from uec_rag.base.checks import check_k
from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.decision import Ambiguity, decide
from uec_rag.retrieval.result import SearchResult
from uec_rag.stores.base import Passage

_SECONDS_A_DAY = 86400.0
_MOST = 100.0  # log-odds of a boost


@dataclass(frozen=True)
class Boost:
    """A preference for some passages over others.

    Attributes
    ----------
    of : callable
        From a passage to a number from 0 to 1.
    weight : float
        Log-odds at 1 against 0: log 2 = 0.69 says that a passage at 1 is relevant twice as often.

    Raises
    ------
    ValueError
        If the weight is beyond 100: its odds could not be summed up over a corpus.
    """

    of: Callable[[Passage], float]
    weight: float

    def __post_init__(self) -> None:
        if not -_MOST <= self.weight <= _MOST:
            raise ValueError(
                f"weight: expected log-odds from {-_MOST} to {_MOST}, got {self.weight!r:.60}."
            )

    def at(self, passage: Passage) -> float:
        """Log-odds of a passage, before they are normalised; ValueError if not from 0 to 1."""
        value = float(self.of(passage))
        if not 0 <= value <= 1:
            raise ValueError(
                f"boosts: expected a number from 0 to 1 for passage {passage.id!r}, got {value}."
            )
        return self.weight * value


def recency(key: str, half_life_days: float, weight: float, now: datetime | None = None) -> Boost:
    """Make a boost of recent passages: it halves with every so many days of age.

    Parameters
    ----------
    key : str
        Metadata with an ISO date or time, or a `datetime`; a passage without it gets no boost.
    half_life_days : float
    weight : float
        Log-odds of a passage of today against one of long ago.
    now : datetime, optional
        Today by default.

    Examples
    --------
    >>> today = datetime(2026, 7, 31, tzinfo=UTC)
    >>> boost = recency("date", half_life_days=30, weight=1.0, now=today)
    >>> boost.at(Passage("a", "text", {"date": "2026-07-01"}))
    0.5
    """
    if not half_life_days > 0:
        raise ValueError(f"half_life_days: expected a number above 0, got {half_life_days}.")

    def value(passage: Passage) -> float:
        written = passage.metadata.get(key)
        if written is None:
            return 0.0
        time = written if isinstance(written, datetime) else datetime.fromisoformat(str(written))
        time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        age = ((now or datetime.now(UTC)) - time).total_seconds() / _SECONDS_A_DAY
        return float(0.5 ** (max(0.0, age) / half_life_days))

    return Boost(value, weight)


@dataclass(frozen=True)
class Preferences:
    """What counts beside similarity; for `Retriever.search` and the adapters' retrievers.

    Attributes
    ----------
    max_per_source : int or None
        So many hits of one source at most; None: as many as there are.
    source_key : str
        Metadata that names a passage's source; a passage without it is a source of its own.
    boosts : tuple of Boost

    Raises
    ------
    TypeError, ValueError
        If max_per_source is no count.
    """

    max_per_source: int | None = None
    source_key: str = "source"
    boosts: tuple[Boost, ...] = ()

    def __post_init__(self) -> None:
        if self.max_per_source is not None:
            check_k(self.max_per_source)
        boosts = tuple(self.boosts)
        if not all(isinstance(boost, Boost) for boost in boosts):
            raise TypeError(f"boosts: expected Boost objects, got {self.boosts!r:.60}.")
        object.__setattr__(self, "boosts", boosts)

    def at(self, passage: Passage) -> float:
        """Log-odds of all boosts, before they are normalised."""
        return sum(boost.at(passage) for boost in self.boosts)

    def level(self, passages: Iterable[Passage]) -> float:
        """What normalises the log-odds: log of the mean of their ratios over a corpus."""
        values = np.array([self.at(passage) for passage in passages])
        return float(np.log(np.exp(values).mean())) if len(values) else 0.0

    def highest(self) -> float:
        """The highest log-odds that a passage may have, before they are normalised."""
        return sum(max(0.0, boost.weight) for boost in self.boosts)


def preferred(
    search: Callable[[int], SearchResult],
    k: int,
    prefer: Preferences,
    *,
    slope: float,
    level: float,
) -> SearchResult:
    """Find the k hits that are best with what counts beside similarity.

    As many hits are looked at as it takes to know that none further down belongs among the k: what
    is left out scores less than the last that was looked at, by whose score and the highest boost
    it is bounded.

    Parameters
    ----------
    search : callable
        From a number of hits to the result of searching for as many.
    k : int
    prefer : Preferences
    slope : float
        Logits per unit of similarity, of the ensemble.
    level : float
        As `Preferences.level` gives it.
    """
    count, highest = max(4 * k, 50), prefer.highest() - level
    while True:
        result = search(count)
        boosts = np.array(
            [[prefer.at(passage) - level for passage in row] for row in result.passages],
            dtype=np.float32,
        ).reshape(result.scores.shape)
        scores = result.scores + boosts / np.float32(slope)
        places = [
            _chosen(row, s, k, prefer) for row, s in zip(result.passages, scores, strict=True)
        ]
        if result.scores.shape[1] < count or all(
            len(chosen) == k and s[chosen[-1]] >= last + highest / slope
            for chosen, s, last in zip(places, scores, result.scores[:, -1], strict=True)
        ):
            break
        count *= 4
    if prefer.boosts:
        result = replace(result, scores=scores, relevance=_moved(result.relevance, boosts))
    fewest = min(map(len, places), default=0)
    return _among_kept(result.taking([chosen[:fewest] for chosen in places]))


def _chosen(row: Sequence[Passage], scores: FloatArray, k: int, prefer: Preferences) -> list[int]:
    places: list[int] = np.argsort(-scores, kind="stable").tolist()
    if prefer.max_per_source is None:
        return places[:k]
    taken, chosen = Counter[object](), list[int]()
    for place in places:
        # Metadata may be of any kind: its representation tells two values apart.
        source = row[place].metadata.get(prefer.source_key)
        name = repr(source) if source is not None else place
        if taken[name] < prefer.max_per_source:
            taken[name] += 1
            chosen.append(place)
        if len(chosen) == k:
            break
    return chosen


def _moved(relevance: FloatArray, log_odds: FloatArray) -> FloatArray:
    """Probabilities whose log-odds have grown; 0 and 1 stay."""
    odds = relevance * np.exp(log_odds)
    moved: FloatArray = odds / (odds + 1 - relevance)
    return moved


def _among_kept(result: SearchResult) -> SearchResult:
    """The result as if nothing but its hits competed."""
    ambiguous: list[Ambiguity | None] = []
    for ids, ambiguity in zip(result.ids, result.ambiguous, strict=True):
        kept = () if ambiguity is None else tuple(i for i in ambiguity.candidates if i in ids)
        if ambiguity is not None and kept == ambiguity.candidates:
            ambiguous.append(ambiguity)
        elif len(kept) > 1:
            ambiguous.append(Ambiguity(f"{len(kept)} passages compete", kept))
        else:
            ambiguous.append(None)
    if ambiguous == result.ambiguous:
        return result
    decisions = decide(
        result.confidence,
        ambiguous,
        in_corpus=result.in_corpus,
        unfamiliar=result.unfamiliar,
    )
    return replace(result, ambiguous=ambiguous, decisions=decisions)
