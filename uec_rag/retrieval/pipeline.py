"""One query, from top to bottom.

    encode     each encoder's Gaussians of the questions (`UEC.encode`), in a conversation also
               mixed with the turns before them (`search`)
    view       the passages that the questions are compared with, in columns that do not change
    compare    every encoder's similarities to every column
    weigh      the coefficients: how far each encoder counts in each question (`Fitted.weigh`)
    fuse       the ensemble's mean similarities mu_s
    top_k      the columns of the highest s_hat, and what they hold
    rerank     the verifier's scores of the first texts, if there is one
    attribute  each encoder's contribution to each hit
    features   the numbers that probabilities rest on
    estimate   P(the corpus answers), P(these hits do), P(this hit is relevant)
    decide     answer, ask back or abstain: one `Result` for each question

`search` calls these in turn, for all questions that are compared with one view.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian, Terms, probit
from uec_rag.base.similarity import largest, weighted_sum
from uec_rag.base.spans import span
from uec_rag.confidence import readings
from uec_rag.confidence.decision import decide_one, outcome
from uec_rag.confidence.model import (
    JUDGED,
    NEAREST,
    ConfidenceModel,
    Features,
    Probabilities,
    features,
)
from uec_rag.confidence.readings import Candidates, Reading
from uec_rag.confidence.wording import named_words
from uec_rag.encoders.lexical import LATIN, whole_share, writing_of
from uec_rag.ensemble.convolution import EvidenceWeights, block_scales
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.verifier import Verification
from uec_rag.ensemble.views import Turn, in_context
from uec_rag.retrieval.result import Members, Result, SearchResult, without_findings
from uec_rag.stores.base import Passage, RemoteStore, Store, View

_BLOCK = 2**26  # similarities held at a time, over questions, passages and encoders
_FEWEST = 4  # candidates to fetch from a remote store for each hit
_MOST_LOOKED_AT = 1024  # hits in which different texts are looked for
_RANKED = 100  # of each encoder's best passages, whose place is told
_NEEDS_NO_TURNS = 0.8  # confidence in the hits of a question alone above which it stands alone
_WORTH_ASKING = 0.05  # P(underspecified) below which no threshold asks back
_EQUAL = np.float32(1e-5)  # similarities that rounding alone may have parted
# Off the log odds of an answer: if no encoder knows the question's letters; and if none of the
# first passages has all names that a question says (`benchmarks/quality/decisions.py` judges it).
_STRANGE_LETTERS, _MISSING_NAME = np.float32(2.0), np.float32(1.0)
_NAMING = 20  # words; a longer question names more than a passage that answers it need have


@dataclass(frozen=True)
class Method:
    """The method of a search: an ensemble, and what was learned on the corpus.

    Attributes
    ----------
    fitted : Fitted
    weights : EvidenceWeights or None
        From evidence of the corpus to coefficients; None: the ensemble's rule.
    model : ConfidenceModel
    verification : Verification or None
        The reader of the first hits.
    unread_model : ConfidenceModel or None
        The model if the verifier failed, and may.
    basis, unread_basis : str
        Fingerprint of all that confidence depends on; and of that if the verifier failed.
    unanswerable : float or None
        Share of the questions that the corpus does not answer, if it is known.
    check_familiar : bool
        Whether to look for questions unlike those of the fit: not after `calibrate`.
    """

    fitted: Fitted
    weights: EvidenceWeights | None
    model: ConfidenceModel
    verification: Verification | None = None
    unread_model: ConfidenceModel | None = None
    basis: str = ""
    unread_basis: str = ""
    unanswerable: float | None = None
    check_familiar: bool = True

    @property
    def without_verifier(self) -> Method:
        """The same method without a verifier."""
        return replace(self, verification=None, model=self.unread_model or self.model)


def search(
    method: Method, store: Store, asked: Sequence[Turn], parts: Sequence[Gaussian], k: int
) -> SearchResult:
    """Search a store, or a filtered view of it, for the k best passages of each question.

    A question with turns before it is compared alone, and mixed with them. If it is surely answered
    alone, it needs no turns. Else P(the corpus answers) is of what it finds alone as well: turns on
    another subject are not held against it, and do not answer it either. If the turns have not
    helped to an answer, it is as underspecified as alone.

    Parameters
    ----------
    asked : sequence of n Turn
    parts : sequence of K Gaussian
        Each encoder's Gaussians of `uec_rag.ensemble.views.texts_of` these.
    """
    results: list[Result] = []
    alone: deque[tuple[Probabilities | None, Ambiguity, Result | None]] = deque()
    to_come = sum(turn.follows for turn in asked)
    with span("search", queries=len(asked), k=k, passages=len(store)) as note:
        if to_come:
            compared = compare_with_turns(method, store, asked, parts, k)
        else:
            compared = zip(repeat(method), find(method, store, asked, parts, k), strict=False)
        for how, found in compared:
            sure = estimate(how, found)
            for row, ambiguity in enumerate(ambiguities(found, sure)):
                own = None if sure is None else sure.of(row)
                if to_come:
                    to_come -= 1
                    one = None
                    if own is not None and own.confidence[0] > _NEEDS_NO_TURNS:
                        one = decide(how, found, row, own, ambiguity, k, len(store))
                        one = one if one.decision.action == "answer" else None
                    alone.append((own, ambiguity, one))
                    continue
                place = len(results)
                turn, one = asked[place], None
                if turn.follows:
                    before, unresolved, one = alone.popleft()
                    own, ambiguity = with_alone(own, ambiguity, before, unresolved, turn.share)
                if one is None:
                    one = decide(how, found, row, own, ambiguity, k, len(store))
                elif method.verification is not None:  # which has not read what it finds alone
                    own_parts = [part[place : place + 1] for part in parts]
                    [one] = search(method, store, [Turn(turn.question)], own_parts, k)
                results.append(one)
        shown = results[0].traced if len(results) == 1 else dict
        note(shown, **outcome([result.decision for result in results]))
    return SearchResult(results)


def compare_with_turns(
    method: Method, store: Store, asked: Sequence[Turn], parts: Sequence[Gaussian], k: int
) -> Iterator[tuple[Method, Found]]:
    """Find the hits of the questions with turns, each alone, then of all, mixed with their turns.

    Yields each with its method: the verifier does not read what they find alone.
    """
    following = [row for row, turn in enumerate(asked) if turn.follows]
    turns = [*(Turn(asked[row].question) for row in following), *asked]
    rows = [*following, *range(len(parts[0]))]
    mixed = [in_context(turns, part[rows]) for part in parts]
    # The mean of several vectors is shorter than they are, and all that it finds less similar.
    lengths = np.stack([np.linalg.norm(part.mean, axis=1) for part in mixed], axis=1)
    lengths[lengths == 0] = 1  # words, and encoders that failed
    lengths[[not turn.follows for turn in turns]] = 1
    unread = slice(0, 0 if method.verification is None else len(following))
    for how, some in (
        (method.without_verifier, unread),
        (method, slice(unread.stop, len(turns))),
    ):
        own = [part[some] for part in mixed]
        for found in find(how, store, turns[some], own, k, lengths[some]) if turns[some] else ():
            yield how, found


def with_alone(
    sure: Probabilities | None,
    ambiguity: Ambiguity,
    alone: Probabilities | None,
    before: Ambiguity,
    share: float,
) -> tuple[Probabilities | None, Ambiguity]:
    """Take what a question finds alone into what is estimated of it behind its turns.

    It is as underspecified as alone, less if it is surely answered. `share`: of the turns.
    """
    if sure is None or alone is None:
        return sure, ambiguity
    # Up to even odds of an answer the turns do not show what is meant.
    left = min(1, 2 * (1 - float(sure.confidence[0])))
    unresolved = replace(before, underspecified=before.underspecified * left)
    ambiguity = max(ambiguity, unresolved, key=attrgetter("underspecified"))
    return sure.mixed(alone.in_corpus, 1 - share), ambiguity


@dataclass(frozen=True, eq=False)
class Found:
    """The findings for n questions compared with one view, which is None if it is empty.

    `model`: of confidence; another one if the verifier failed on the hits.
    """

    view: View | None
    asked: Sequence[Turn]
    coefficients: FloatArray
    similarities: Similarities
    hits: Hits
    attribution: Attribution
    unfamiliar: list[str]
    doubt: FloatArray
    features: Features | None
    model: ConfidenceModel
    exact: bool

    @classmethod
    def nothing(
        cls, asked: Sequence[Turn], coefficients: FloatArray, model: ConfidenceModel
    ) -> Self:
        """Make the findings of a search among no passages."""
        count = len(asked)
        none = np.zeros((count, 0), dtype=np.float32)
        place = np.zeros((count, 0), dtype=np.int64)
        hits = Hits(place, none, none, none, [[]] * count, place, none, none, none.sum(axis=1))
        return cls(
            None,
            asked,
            coefficients,
            Similarities([], none),
            hits,
            Attribution(none[:, :, None], None, [{} for _ in asked]),
            [""] * count,
            hits.floor,
            None,
            model,
            exact=True,
        )


def find(
    method: Method,
    store: Store,
    asked: Sequence[Turn],
    parts: Sequence[Gaussian],
    k: int,
    lengths: FloatArray | None = None,
) -> Iterator[Found]:
    """Find the hits of questions, and the features of them; `calibrate` learns from the same.

    `lengths`, array, shape (n, K): of the means in `parts`, 1 by default; the features are as of
    means of length 1, which confidence has learned from.
    """
    fitted = method.fitted
    step = 1  # question at a time: in a remote store each has candidates of its own
    if not store.remote:  # as many as memory takes
        step = max(1, _BLOCK // max(1, len(store) * (len(parts) + 1)))
    for start in range(0, len(asked), step):
        rows = slice(start, start + step)
        turns, own = asked[rows], [part[rows] for part in parts]
        view = cast(View, store)
        if store.remote:
            query = fitted.combine(own, fitted.coefficients(own, "query"))
            view = cast(RemoteStore, store).fetch(
                turns[0].context, query, _FEWEST * max(k, NEAREST)
            )
        if not len(view):
            plain = fitted.coefficients(own, "query")
            yield Found.nothing(turns, plain, method.model)
            continue
        similarities = compare(fitted, view, own)
        coefficients = fitted.weigh(method.weights, own, similarities.own, similarities.best)
        query = fitted.combine(own, coefficients)
        mu = fuse(fitted, view, query, similarities, coefficients)
        hits = top_k(fitted, view, query, mu, k)
        if method.verification is not None:
            hits = rerank(fitted, method.verification, turns, hits)
        model = method.model if hits.verified else method.unread_model or method.model
        attribution = attribute(view, own, similarities, hits, k)
        reasons, strange = unfamiliar_questions(method, turns, hits)
        vectors = np.array([part.mean.shape[1] > 0 for part in own])
        doubt = _STRANGE_LETTERS * strange * coefficients[:, vectors].sum(axis=1)
        seen = hits, attribution
        if lengths is not None and attribution.own.size:
            whole = attribution.own / lengths[rows, :, None]
            gain = (coefficients * fitted.weights)[:, :, None] * (whole - attribution.own)
            seen = replace(hits, mu=hits.mu + gain.sum(axis=1)), replace(attribution, own=whole)
        unnamed = lacks_names(turns, hits, attribution)
        yield Found(
            view,
            turns,
            coefficients,
            similarities,
            hits,
            attribution,
            reasons,
            doubt,
            observe(method, model, store, own, coefficients, *seen, strange, unnamed),
            model,
            exact=not store.remote or 0 < len(store) <= len(view),  # an engine may not know
        )


@dataclass(frozen=True, eq=False)
class Similarities:
    """The similarities of n questions to the C columns of a view.

    Attributes
    ----------
    own : list of K arrays, shape (n, C)
        Each encoder's: cosines, BM25 from 0 to 1. In the shared space, which does not keep them,
        there are none.
    best : array, shape (n, K)
        The highest of each.
    """

    own: list[FloatArray]
    best: FloatArray


def compare(fitted: Fitted, view: View, parts: Sequence[Gaussian]) -> Similarities:
    """Compare each encoder's Gaussians of the questions with its own block of the passages."""
    if fitted.space == "shared":
        return Similarities([], np.zeros((len(parts[0]), 0), dtype=np.float32))
    # Scaled so that products with the stored blocks are each encoder's cosines.
    blocks: list[FloatArray | Terms] = []
    for part, scale in zip(parts, block_scales(fitted.weights), strict=True):
        blocks.append(part.terms[0].scaled(1 / scale) if part.terms else part.mean / scale)
    own = view.compare(blocks)
    best = [similarities.max(axis=1, initial=-np.inf) for similarities in own]
    return Similarities(own, np.stack(best, axis=1))


def fuse(
    fitted: Fitted, view: View, query: Gaussian, similarities: Similarities, pi: FloatArray
) -> FloatArray:
    """Compute the ensemble's mu_s to every column, ``sum_k pi_k w_k s_k``, shape (n, C)."""
    if not similarities.own:
        [mu] = view.compare([query.mean])
        return mu
    return weighted_sum(similarities.own, pi * fitted.weights)


@dataclass(frozen=True, eq=False)
class Hits:
    """The best m columns of a view for n questions, best first; arrays are of shape (n, m).

    Attributes
    ----------
    columns, scores, mu, sigma2 : array
    passages : list of lists of Passage
    text : int array
        Place of the best hit with the same text.
    read : array
        The verifier's own score, NaN if it has not read the hit.
    gain : array
        The similarity that the verifier has added.
    floor : array, shape (n,)
        Logits that every passage gains by the verifier: those of the worst that it has read.
    verified : bool
        False if the verifier failed.
    """

    columns: NDArray[np.int64]
    scores: FloatArray
    mu: FloatArray
    sigma2: FloatArray
    passages: list[list[Passage]]
    text: NDArray[np.intp]
    read: FloatArray
    gain: FloatArray
    floor: FloatArray
    verified: bool = True

    def distinct(self, most: int) -> NDArray[np.intp]:
        """Return the places of the first different texts, shape (n, most); -1 behind the last."""
        again = self.text < np.arange(self.text.shape[1])
        places = np.argsort(again, axis=1, kind="stable")[:, :most]
        return np.where(np.take_along_axis(again, places, axis=1), -1, places)

    def holding(self, wanted: Sequence[Collection[str]]) -> NDArray[np.bool_]:
        """Tell which different texts have a wanted id, or a copy that has one, shape (n, m)."""
        right = np.array(
            [
                [passage.id in ids for passage in row]
                for row, ids in zip(self.passages, wanted, strict=True)
            ]
        )
        of_text = np.zeros_like(right)
        np.logical_or.at(of_text, (np.arange(len(right))[:, None], self.text), right)
        places = self.distinct(right.shape[1])
        return np.where(places >= 0, np.take_along_axis(of_text, places, axis=1), False)


def top_k(fitted: Fitted, view: View, query: Gaussian, mu: FloatArray, k: int) -> Hits:
    """Find the best k columns, and as many more as it takes to see `NEAREST` different texts."""
    count = min(len(view), max(k, NEAREST))
    while True:
        top = view.top_k(query, count, beta=fitted.beta, mu=mu)
        passages = view.gather(top.columns)
        text = _first_of_text(passages, count)
        different = (text == np.arange(count)).sum(axis=1).min()
        if different >= NEAREST or count == len(view) or count >= max(k, _MOST_LOOKED_AT):
            break
        count = min(len(view), 4 * count)
    unread = np.full(top.mu.shape, np.nan, dtype=np.float32)
    nothing, none = np.zeros_like(top.mu), np.zeros(len(top.mu), dtype=np.float32)
    return Hits(*top, passages, text, unread, nothing, none)


def _first_of_text(passages: Sequence[Sequence[Passage]], count: int) -> NDArray[np.intp]:
    """Find the place of the best hit with the same text as each hit, shape (n, count)."""
    first = np.zeros((len(passages), count), dtype=np.intp)
    for place, row in zip(first, passages, strict=True):
        best: dict[str, int] = {}
        place[:] = [best.setdefault(passage.text, i) for i, passage in enumerate(row)]
    return first


def rerank(fitted: Fitted, verification: Verification, asked: Sequence[Turn], hits: Hits) -> Hits:
    """Have a verifier read the first different texts, and order these by its scores.

    A score holds for every hit of its text. None of those that were read falls behind the others:
    its score is at least that of the last of them before.
    """
    places = hits.distinct(verification.fitted.k)
    texts = [
        [row[place].text for place in chosen if place >= 0]
        for row, chosen in zip(hits.passages, places.tolist(), strict=True)
    ]
    verified = verification.verify([turn.context for turn in asked], texts)
    if verified is None:
        return replace(hits, verified=False)
    shape = hits.mu.shape
    gain, own = np.zeros(shape, np.float32), np.full(shape, np.nan, np.float32)
    last = np.empty((shape[0], 1), dtype=np.float32)
    for row, chosen in enumerate(places):
        there = chosen[chosen >= 0]
        place = np.full(shape[1], -1)
        place[there] = np.arange(len(there))
        of_text = place[hits.text[row]]
        read = of_text >= 0
        gain[row, read] = verified.gain[row, of_text[read]] / np.float32(fitted.slope)
        own[row, read] = verified.scores[row, of_text[read]]
        last[row] = hits.scores[row, there].min()
    read = ~np.isnan(own)
    mu = hits.mu + gain
    raised = np.maximum(probit(mu, hits.sigma2, fitted.beta), last)
    scores = np.where(read, raised, hits.scores)
    order = np.argsort(np.where(read, -scores, np.inf), axis=1, kind="stable")
    columns, scores, mu, sigma2, own, gain = (
        np.take_along_axis(values, order, axis=1)
        for values in (hits.columns, scores, mu, hits.sigma2, own, gain)
    )
    passages = [
        [row[place] for place in places]
        for row, places in zip(hits.passages, order.tolist(), strict=True)
    ]
    text = _first_of_text(passages, shape[1])
    return Hits(columns, scores, mu, sigma2, passages, text, own, gain, verified.floor)


@dataclass(frozen=True, eq=False)
class Attribution:
    """Each encoder's contribution to the hits of n questions.

    Attributes
    ----------
    own : array, shape (n, K, m)
        Its own similarity to a hit; no encoders in the shared space.
    words : list of n lists of dict of str to float, or None
        Words of the question that a hit holds, and the similarity that each adds, the most first;
        of the first k hits, or the first `NEAREST`.
    rarity : list of n dict of str to float
        Inverse document frequency of the words of each question; none without a member of words.
    """

    own: FloatArray
    words: list[list[dict[str, float]]] | None
    rarity: list[dict[str, float]]


def attribute(
    view: View, parts: Sequence[Gaussian], similarities: Similarities, hits: Hits, k: int
) -> Attribution:
    """Look up each encoder's similarity to the hits, and the words that count in the first."""
    columns = hits.columns
    own = np.empty((len(columns), len(similarities.own), columns.shape[1]), dtype=np.float32)
    for member, of_all in enumerate(similarities.own):
        own[:, member] = np.take_along_axis(of_all, columns, axis=1)
    terms = [block for part in parts for block in part.terms]
    rarity: list[dict[str, float]] = [{} for _ in columns]
    if not terms:
        return Attribution(own, None, rarity)
    some, words = columns[:, : max(k, NEAREST)], list[list[dict[str, float]]]()
    found = view.contributions(terms, some)
    for row, known in enumerate(rarity):
        hits_words: list[dict[str, float]] = [{} for _ in some[row]]
        for block, (added, rarities) in zip(terms, found, strict=True):
            if block.labels is None:
                continue
            # The words of the question by the places of their terms, without parts of words.
            labels, keys = block.labels[row], block.keys[block.starts[row] : block.starts[row + 1]]
            names = {place: labels[key] for place, key in enumerate(keys.tolist()) if key in labels}
            for term, word in names.items():
                known[word] = max(known.get(word, 0.0), float(rarities[row][term]))
            for rank, term in np.argwhere(added[row] > 0).tolist():
                if term in names:
                    hits_words[rank][names[term]] = float(added[row][rank, term])
        most_first = [sorted(hit.items(), key=itemgetter(1), reverse=True) for hit in hits_words]
        words.append([*map(dict, most_first)])
    return Attribution(own, words, rarity)


def unfamiliar_questions(
    method: Method, asked: Sequence[Turn], hits: Hits
) -> tuple[list[str], NDArray[np.bool_]]:
    """Compare questions with the fit's: how each differs, "" if not, and if by its letters."""
    reasons, strange = [""] * len(asked), np.zeros(len(asked), dtype=bool)
    profile = method.fitted.training_profile if method.check_familiar else None
    if profile is not None:
        for row, (turn, passages) in enumerate(zip(asked, hits.passages, strict=True)):
            # Of one hit, so that it does not rest on k.
            first = passages[0].text if passages else ""
            reasons[row], strange[row] = profile.unfamiliar(turn.question, first)
    return reasons, strange


def observe(
    method: Method,
    model: ConfidenceModel,
    store: Store,
    parts: Sequence[Gaussian],
    coefficients: FloatArray,
    hits: Hits,
    attribution: Attribution,
    strange: NDArray[np.bool_],
    unnamed: NDArray[np.bool_],
) -> Features | None:
    """Compute the features of n questions' first different texts; None if nothing was found.

    `strange`, `unnamed`: which questions are in letters that no encoder knows, and which say a name
    that no first text has.
    """
    fitted = method.fitted
    if not hits.mu.size:
        return None
    slope, offset = scale(method, store, parts, coefficients)
    offset = offset + hits.floor
    places = hits.distinct(hits.mu.shape[1])
    mu = np.where(places >= 0, np.take_along_axis(hits.mu, places, axis=1), -np.inf)
    sigma2 = np.take_along_axis(hits.sigma2, places, axis=1)
    logits = (slope * mu + offset[:, None]).astype(np.float32)
    members = logits[:, :1]
    if not model.standardised and attribution.own.size:
        members = member_evidence(fitted, parts, attribution, hits, strange)
    variance, doubt = slope**2 * sigma2, _MISSING_NAME * unnamed
    return features(logits, variance, members, model.temperature, doubt)


def scale(
    method: Method, store: Store, parts: Sequence[Gaussian], coefficients: FloatArray
) -> tuple[np.float32, FloatArray]:
    """Return slope and offset (n,) of the logits ``slope * mu_s + offset`` of similarities.

    The fitted ones, or similarities standardised over unrelated passages.
    """
    fitted, count = method.fitted, len(coefficients)
    if not method.model.standardised:
        zero = np.zeros((count, 1), dtype=np.float32)
        return np.float32(fitted.slope), fitted.logits(zero, coefficients)[:, 0]
    mean, deviation = unrelated(store, sum(bool(part.terms) for part in parts) / len(parts))
    return np.float32(1 / deviation), np.full(count, -mean / deviation, dtype=np.float32)


_UNRELATED = 64  # passages that are compared with one another
_SAME = 0.999  # cosines above it are of one text twice
_USUAL_PAIRS, _USUAL_MEAN, _USUAL_DEVIATION = 2, 0.2, 0.1


def unrelated(store: Store, words: float = 0.0) -> tuple[float, float]:
    """Estimate mean and deviation of the similarity of a corpus's passages to one another.

    To encoders that were never fitted, texts with nothing but a corpus in common are as similar: a
    passage that answers stands out from it. A few pairs of a usual encoder count as seen before;
    words are taken to have nothing in common.

    `words`: share of the encoders that look at words.
    """
    mean = store.sample(_UNRELATED).mean[: 2 * _UNRELATED]
    unit = mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), np.float32(1e-12))
    cosine = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
    cosine = cosine[cosine < _SAME]
    count = len(cosine) + _USUAL_PAIRS
    centre = (cosine.sum() + _USUAL_PAIRS * _USUAL_MEAN) / count
    square = ((cosine - centre) ** 2).sum() + _USUAL_PAIRS * _USUAL_DEVIATION**2
    deviation = np.sqrt(square / count)
    return float(centre * (1 - words)), float(deviation * max(1 - words, 0.5))


def lacks_names(asked: Sequence[Turn], hits: Hits, attribution: Attribution) -> NDArray[np.bool_]:
    """Tell of which questions none of the first texts has all names, shape (n,).

    Names, numbers, identifiers and quotations, as `named_words` finds them. False if a question is
    long, not in English or has none, and without a member of words.
    """
    lacks = np.zeros(len(asked), dtype=bool)
    if attribution.words is None:
        return lacks
    for row, places in enumerate(hits.distinct(JUDGED).tolist()):
        query = asked[row].question
        # In German every noun has a capital.
        naming = len(query.split()) <= _NAMING and writing_of(query) == LATIN
        said = named_words(query) if naming else frozenset()
        names = {word for word in attribution.rarity[row] if word.casefold() in said}
        lacks[row] = bool(names)
        for place in places:
            if place >= 0 and names <= attribution.words[row][place].keys():
                lacks[row] = False
    return lacks


def member_evidence(
    fitted: Fitted,
    parts: Sequence[Gaussian],
    attribution: Attribution,
    hits: Hits,
    strange: NDArray[np.bool_],
) -> FloatArray:
    """Compute each encoder's logit of the first hit, shape (n, K), as evidence of an answer.

    What orders passages may rest on stems and on parts of words; whether there is an answer at all
    rests on whole words, see `whole_share`. Encoders find whatever is in letters that they do not
    know similar: of a question in such letters words alone are evidence.
    """
    own, words = attribution.own[:, :, 0].copy(), attribution.words
    by_words = np.array([bool(part.terms) for part in parts])
    for member, part in enumerate(parts):
        if words is not None and part.terms and part.terms[0].saturation is not None:
            pairs = zip(words, hits.passages, strict=True)
            own[:, member] *= [whole_share(found[0], row[0].text) for found, row in pairs]
    logits = fitted.member_logits(own)
    if strange.any() and by_words.any():
        heard = logits[:, by_words].max(axis=1, keepdims=True)
        logits = np.where(strange[:, None] & ~by_words, heard, logits)
    return logits


def estimate(method: Method, found: Found) -> Probabilities | None:
    """Estimate relevance, confidence and `in_corpus`; None if nothing was found."""
    if found.features is None:
        return None
    return found.model.probabilities(found.features, method.unanswerable, found.doubt)


@dataclass(frozen=True, eq=False)
class Ambiguity:
    """An estimate of whether a question says which of its readings it means.

    Attributes
    ----------
    underspecified : float
        P(it does not say).
    competing : Candidates or None
        The texts among which its readings are found; None if there are none.
    subject : int array
        Of each of these.
    """

    underspecified: float = 0.0
    competing: Candidates | None = None
    subject: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))


def ambiguities(found: Found, sure: Probabilities | None) -> list[Ambiguity]:
    """Estimate how underspecified each question is, by its nearest different texts.

    Not at all without a member of words, and if nothing was found.
    """
    hits, words = found.hits, found.attribution.words
    if found.view is None or found.features is None or words is None or sure is None:
        return [Ambiguity() for _ in found.asked]
    # At the scale that confidence has: the raw similarities of an ensemble that was not fitted
    # would be nearly alike.
    shares, reach = found.features.relevance[..., 1], len(words[0])
    estimates = []
    for row, places in enumerate(hits.distinct(NEAREST)):
        near = places[(places >= 0) & (places < reach)]
        passages = [hits.passages[row][place] for place in near]
        titles = [readings.subject_of(passage.metadata) for passage in passages]
        competing = Candidates(
            [passage.id for passage in passages],
            [passage.text for passage in passages],
            titles,
            [str(passage.metadata.get("source") or "") for passage in passages],
            shares[row, : len(near)],
            [words[row][place] for place in near],
            found.attribution.rarity[row],
            len(found.view),
            None if all(titles) else found.view.means(hits.columns[row, near]),
        )
        subject = readings.subjects(competing)
        unsaid = readings.features(found.asked[row].context, competing, subject)[None]
        [probability] = readings.underspecified(unsaid, sure.in_corpus[row : row + 1]).tolist()
        estimates.append(Ambiguity(probability, competing, subject))
    return estimates


def decide(
    method: Method,
    found: Found,
    row: int,
    sure: Probabilities | None,
    ambiguity: Ambiguity,
    k: int,
    size: int,
) -> Result:
    """Decide on one of the questions, and assemble its result.

    `sure`: of this question. `size`: how many passages were searched.
    """
    fitted, hits, one = method.fitted, found.hits, slice(row, row + 1)
    query, pi = found.asked[row].question, found.coefficients[one]
    basis = method.basis if hits.verified else method.unread_basis
    [shares] = fitted.shares(pi)
    if sure is None:
        return Result.of_nothing(query, pi[0], shares, fitted.names, basis)
    kept = slice(0, min(k, hits.mu.shape[1]))
    between, members = np.zeros_like(hits.sigma2[row, kept]), None
    own = found.attribution.own[one, :, kept]
    if own.size:
        [between] = fitted.disagreement(own, found.similarities.best[one], pi)
        members = _members(method, found, row, kept)
    meant: list[Reading] = []
    if ambiguity.competing is not None and ambiguity.underspecified >= _WORTH_ASKING:
        meant = readings.readings(ambiguity.competing, ambiguity.subject)
    decision = decide_one(
        float(sure.confidence[0]),
        ambiguity.underspecified,
        tuple(meant),
        in_corpus=float(sure.in_corpus[0]),
        unfamiliar=found.unfamiliar[row],
    )
    return Result(
        query,
        [*map(without_findings, hits.passages[row][kept])],
        hits.scores[row, kept],
        hits.mu[row, kept],
        hits.sigma2[row, kept],
        between,
        at_hits(sure.relevance[0], hits.text[row], hits.mu[row])[kept],
        pi[0],
        shares,
        sure.by_cutoff[0],
        replace(decision, basis=basis, hits=JUDGED, size=size),
        exact=found.exact,
        names=fitted.names,
        members=members,
        verified=hits.verified,
    )


def at_hits(of_texts: FloatArray, text: NDArray[np.intp], mu: FloatArray) -> FloatArray:
    """Spread numbers of different texts over one question's hits, shape (m,).

    Copies of a text have its number, and equally similar texts that of the first of them: which
    comes first is chance. `text`: see `Hits`.
    """
    again = text < np.arange(len(text))
    found = of_texts[(np.cumsum(~again) - 1)[text]]
    first = np.arange(len(found))
    close = np.abs(np.diff(mu)) <= _EQUAL
    # Not of the one before alone: of many hits each may be close to the next.
    for place in np.flatnonzero(close).tolist():
        if abs(mu[place + 1] - mu[first[place]]) <= _EQUAL:
            first[place + 1] = first[place]
    spread: FloatArray = found[first]
    return spread


def _members(method: Method, found: Found, row: int, kept: slice) -> Members:
    """Gather the members' contributions to one question's hits, the verifier's among them."""
    fitted, hits, words = method.fitted, found.hits, found.attribution.words
    own = found.attribution.own[row, :, kept]
    counted = (found.coefficients[row] * fitted.weights)[:, None] * own
    names = fitted.names
    places = np.zeros(own.shape, dtype=np.int64)
    for member, of_all in enumerate(found.similarities.own):
        similarities = of_all[row]
        best = similarities[largest(similarities, min(_RANKED, len(similarities)))]
        above = best > similarities[hits.columns[row, kept]][:, None]
        places[member] = above.sum(axis=1) + 1
    places[places > _RANKED] = 0  # not known
    if method.verification is not None and hits.verified:
        read, score = ~np.isnan(hits.read[row]), hits.read[row]
        # Texts that occur twice were read once; equal scores share a place, as encoders' do.
        scores = np.sort(-score[read & (hits.text[row] == np.arange(len(score)))])
        place = np.searchsorted(scores, -score[kept]) + 1
        names = (*names, method.verification.fitted.name)
        own = np.concatenate([own, score[None, kept]])
        places = np.concatenate([places, np.where(read[kept], place, 0)[None]])
        counted = np.concatenate([counted, hits.gain[row, None, kept]])
    return Members(names, own, places, counted, None if words is None else words[row][kept])
