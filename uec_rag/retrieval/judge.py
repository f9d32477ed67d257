"""What to make of hits: how relevant each is, whether the query is answered, what to do."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.decision import Action, Decision, ambiguities, decide
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.encoders.lexical import letters_in, letters_of, writing_of, writings
from uec_rag.ensemble.evidence import EvidenceWeights
from uec_rag.ensemble.fitted import Fitted
from uec_rag.retrieval.result import SearchResult, without_findings
from uec_rag.retrieval.search import Asked, Hits, Scale, first_alike, first_evidence, ids_of
from uec_rag.stores.base import Filter, Found, Store

_LOOKED_AT = 64  # passages that tell in what a corpus is written


def foreign_corpus(
    fitted: Fitted, texts: Sequence[str], vectors: Sequence[FloatArray]
) -> str | None:
    """Say which encoders cannot tell passages apart because of their language; None where all can.

    `texts`: of the passages. `vectors`, sequence of K arrays, shape (m, d_k): each encoder's means
    of them.
    """
    training_profile = fitted.training_profile
    if training_profile is None:
        return None
    strange = training_profile.unseen_scripts(writings(texts[:_LOOKED_AT], least=0.5))
    lost = training_profile.weak_encoders(vectors) if strange else []
    if not lost:
        return None
    names = ", ".join(repr(fitted.names[member]) for member in lost)
    words = 0 in training_profile.distance
    so = "what is found is found by its words" if words else "its similarities say little"
    also = "" if words else ', or "bm25"'
    return (
        f"Most of these passages are in {strange[0]}, which the pairs of the fit were not, and to "
        f"{names} they look alike: {so}, and confidence is low. Take in an encoder that knows the "
        f"language{also}, and fit with pairs in it or self_calibrate."
    )


@dataclass(frozen=True)
class Foreign:
    """What is unlike the fit in n questions.

    Attributes
    ----------
    reasons : list of str
        In plain words; "" where nothing is.
    doubt : array, shape (n,)
        How far encoders that do not know the letters of a question count in it, from 0 to 1.
    """

    reasons: list[str]
    doubt: FloatArray


def foreign_questions(
    fitted: Fitted, asked: Asked, found: Found, queries: Sequence[str]
) -> Foreign:
    """Look whether questions are in letters or a language that no pair of the fit was in.

    In other letters an encoder's similarities are high whatever they are of; words are not misled.
    In another language of the same letters confidence was measured to be too low already, so that
    it is only said. That a question's variance is far from the fit's was tried and says nothing:
    3 to 4 standard deviations in Chinese to an English model, and as many in English of another
    subject.
    """
    training_profile = fitted.training_profile
    reasons, strange = [""] * len(queries), np.zeros(len(queries), dtype=bool)
    for row, (query, passages) in enumerate(zip(queries, found.passages, strict=True)):
        writing = writing_of(query)
        if training_profile is None or writing is None:
            continue
        letters = letters_of(writing)
        if writing not in training_profile.writings:
            reasons[row] = f"the question is in {writing}, which the ensemble was not fitted on"
            strange[row] = letters not in map(letters_of, training_profile.writings)
        # Of one hit, so that it does not rest on k; a table of numbers is in no letters.
        elif passages and letters_in(passages[0].text) not in (None, letters):
            reasons[row] = f"the question is in {writing}, and its first hit is not"
            strange[row] = True
    vectors = [bool(part.dimension) for part in asked.parts]
    return Foreign(reasons, strange * asked.coefficients[:, vectors].sum(axis=1))


def judge(
    fitted: Fitted,
    model: ConfidenceModel,
    store: Store,
    asked: Asked,
    hits: Hits,
    unanswerable: float | None = None,
    queries: Sequence[str] | None = None,
) -> SearchResult:
    """Turn similarities into probabilities and a decision.

    Passages of one text count as one: however often it is stored, confidence is that of the first
    k different ones, as if each were there once.

    Parameters
    ----------
    store : Store
        What was searched.
    unanswerable : float, optional
        Share of the questions that the corpus does not answer, where it is known.
    queries : sequence of str, optional
        The questions, to look whether they are unlike those of the fit; not where confidence was
        learned from labels of this corpus.
    """
    found, members, reread, copies = hits.found, hits.members, hits.reread, hits.copies
    if not found.scores.size:
        return unjudged(fitted, found, asked.coefficients, "abstain", "nothing was found")
    scale = Scale.of(fitted, model, store, asked)
    sums = asked.sums(scale.slope / model.temperature)
    if reread is not None:
        scale, sums = reread.scale(scale), reread.sums(sums, scale.slope / model.temperature)
    whole = sums
    if copies is not None:
        # The corpus has an answer or not, however many hits are looked at.
        whole = copies.left_of(sums, scale.slope / model.temperature, first=True)
        sums = copies.left_of(sums, scale.slope / model.temperature)
    summary = scale.summary(sums, model.temperature)
    logits = scale.logits(found.mu)
    posterior: FloatArray = np.exp(
        logits / np.float32(model.temperature) - summary.log_normaliser[:, None]
    )
    foreign = None if queries is None else foreign_questions(fitted, asked, found, queries)
    reasons = [""] * len(found.passages) if foreign is None else foreign.reasons
    own = None if members is None else members.similarities[:, : len(fitted.names)]
    best = None
    if model.by_member and own is not None and members is not None:
        evidence = first_evidence(asked.parts, own[:, :, 0], members.words, found.passages)
        best = fitted.best_logits(_heard(evidence, asked, foreign))
    mu, sigma2 = (found.mu, found.sigma2) if copies is None else (copies.different, copies.variance)
    sure = model.certainty(
        summary,
        scale.logits(mu),
        unanswerable,
        None if foreign is None else foreign.doubt,
        best,
        scale.variance(sigma2),
        scale.summary(whole, model.temperature),
    )
    relevance = sure.relevance
    if copies is not None:
        relevance = np.take_along_axis(relevance, copies.place, axis=1)
    # Which of equally similar texts comes first is chance.
    relevance = np.take_along_axis(relevance, first_alike(found.mu), axis=1)
    posteriors = _member_posterior(fitted, asked, own, found.mu.shape)
    if copies is not None:
        posterior, posteriors = posterior * ~copies.again, posteriors * copies.count[:, None]
    passages = [[*map(without_findings, row)] for row in found.passages]
    ambiguous = ambiguities(posterior, posteriors, ids_of(passages), sure.in_corpus, len(store))
    return SearchResult(
        queries=[*(queries or reasons)],
        passages=passages,
        scores=found.scores,
        mu=found.mu,
        within=found.sigma2,
        between=_between(fitted, asked, own, found.sigma2),
        relevance=relevance,
        coefficients=asked.coefficients,
        shares=fitted.shares(asked.coefficients),
        confidence=sure.confidence,
        in_corpus=sure.in_corpus,
        ambiguous=ambiguous,
        decisions=decide(sure.confidence, ambiguous, in_corpus=sure.in_corpus, unfamiliar=reasons),
        exact=found.exact,
        names=list(fitted.names),
        members=members,
        by_cutoff=sure.by_cutoff,
        unfamiliar=reasons,
        size=len(store),
    )


def _heard(own: FloatArray, asked: Asked, foreign: Foreign | None) -> list[FloatArray]:
    """Each encoder's similarity of the first hit, shape (n,), of (n, K).

    An encoder thinks much of whatever is in letters that it does not know: of a question in them
    only words are heard.
    """
    if foreign is None or not foreign.doubt.any():
        return list(own.T)
    vectors = np.array([not part.terms for part in asked.parts])
    return list(np.where((foreign.doubt > 0)[:, None] & vectors, -np.inf, own).T)


def unjudged(
    fitted: Fitted, found: Found, coefficients: FloatArray, action: Action, reason: str
) -> SearchResult:
    """What is made of hits where nothing is known: relevance is the similarity, from 0."""
    relevance = np.clip(found.mu, 0, 1)
    best = relevance.max(axis=1, initial=0.0)
    return SearchResult(
        queries=[""] * len(best),
        passages=[[*map(without_findings, row)] for row in found.passages],
        scores=found.scores,
        mu=found.mu,
        within=found.sigma2,
        between=np.zeros_like(found.sigma2),
        relevance=relevance,
        coefficients=coefficients,
        shares=fitted.shares(coefficients),
        confidence=best,
        in_corpus=best,
        ambiguous=[None] * len(best),
        decisions=[Decision(action, reason, (), float(sure), float(sure)) for sure in best],
        exact=found.exact,
        names=list(fitted.names),
        unfamiliar=[""] * len(best),
    )


def _member_posterior(
    fitted: Fitted, asked: Asked, own: FloatArray | None, hits: tuple[int, int]
) -> FloatArray:
    """Each encoder's softmax over the corpus, at the hits, shape (n, K, k); 0 where unknown."""
    count, k = hits
    if asked.summaries is None or own is None:
        return np.zeros((count, len(asked.parts), k), dtype=np.float32)
    logits = np.asarray(fitted.slopes, dtype=np.float32)[:, None] * own
    normalisers = np.stack([s.sums.log_normaliser for s in asked.summaries], axis=1)
    posterior: FloatArray = np.exp(np.minimum(logits - normalisers[:, :, None], 0))
    return posterior


def _between(
    fitted: Fitted, asked: Asked, own: FloatArray | None, within: FloatArray
) -> FloatArray:
    """The encoders' disagreement about the hits, shape (n, k) as `within`; 0 where unknown."""
    if asked.summaries is None or own is None:
        return np.zeros_like(within)
    best = np.stack([summary.sums.top for summary in asked.summaries], axis=1)
    return fitted.disagreement(own, best, asked.coefficients)


def basis_of(
    model: ConfidenceModel,
    weights: EvidenceWeights | None,
    unanswerable: float | None,
    filter: Filter | None,
    verifier: str | None,
) -> str:
    """Fingerprint of what turns a search's similarities into confidence.

    Parameters
    ----------
    model, weights
        In use.
    unanswerable : float or None
        Share of the questions that the corpus does not answer, where it is known.
    filter : mapping or callable, optional
        Keys may come in any order. All callables are one filter to it.
    verifier : str or None
        Fingerprint of who reads the first hits, if anybody does.

    Raises
    ------
    ValueError
        If the filter holds itself, or is nested that deep.
    """
    try:
        filtered = _as_text(filter)
    except RecursionError as error:
        raise ValueError("filter: expected values of finite depth, got one in itself.") from error
    state = (
        model.fingerprint,
        None if weights is None else weights.fingerprint,
        unanswerable,
        filtered,
        verifier,
    )
    return hashlib.sha256(repr(state).encode()).hexdigest()[:16]


def _as_text(filter: object) -> str:
    """A filter, or a part of one: the same text in every process."""
    if isinstance(filter, Mapping):
        parts = (f"{key!r}: {_as_text(filter[key])}" for key in sorted(filter, key=repr))
        return "{" + ", ".join(parts) + "}"
    if isinstance(filter, (list, tuple)):
        return "[" + ", ".join(map(_as_text, filter)) + "]"
    if isinstance(filter, (set, frozenset)):
        return "[" + ", ".join(sorted(map(_as_text, filter))) + "]"
    return type(filter).__name__ if callable(filter) or filter is None else repr(filter)
