"""What to make of hits: how relevant each is, whether the query is answered, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.decision import Action, Ambiguity, Decision, ambiguities, decide
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.ensemble.fitted import Fitted
from uec_rag.retrieval.foreign import Foreign, foreign_questions
from uec_rag.retrieval.result import Members, SearchResult
from uec_rag.retrieval.search import Asked, Scale
from uec_rag.retrieval.verify import Reread
from uec_rag.stores.base import Found, Store


@dataclass(frozen=True, eq=False)
class Judgement:
    """What is made of the hits of n queries.

    Attributes
    ----------
    relevance : array, shape (n, k)
    confidence, in_corpus : array, shape (n,)
    ambiguous : list of Ambiguity or None
    decisions : list of Decision
    by_cutoff : array, shape (n, k), or None
        Confidence of the first 1, 2, ... k hits, where anything is known.
    unfamiliar : list of str
        What makes each query unlike those that confidence was learned from; "" where nothing does.
    """

    relevance: FloatArray
    confidence: FloatArray
    in_corpus: FloatArray
    ambiguous: list[Ambiguity | None]
    decisions: list[Decision]
    by_cutoff: FloatArray | None = None
    unfamiliar: list[str] = field(default_factory=list)


def judge(
    fitted: Fitted,
    model: ConfidenceModel,
    store: Store,
    asked: Asked,
    found: Found,
    members: Members | None,
    unanswerable: float | None = None,
    queries: Sequence[str] | None = None,
    reread: Reread | None = None,
) -> Judgement:
    """Turn similarities into probabilities and a decision.

    Parameters
    ----------
    fitted : Fitted
    model : ConfidenceModel
    store : Store
        What was searched.
    asked : Asked
    found : Found
    members : Members or None
        As `members_at` gives them.
    unanswerable : float, optional
        Share of the questions that the corpus does not answer, where it is known.
    queries : sequence of str, optional
        The questions, to look whether they are unlike those of the fit; not where confidence was
        learned from labels of this corpus.
    reread : Reread, optional
        What a verifier makes of the hits, which `found` and `members` are in the order of.
    """
    if not found.scores.size:
        return unjudged(found, "abstain", "nothing was found")
    scale = Scale.of(fitted, model, store, asked)
    sums = asked.sums(scale.slope / model.temperature)
    if reread is not None:
        scale, sums = reread.scale(scale), reread.sums(sums, scale.slope / model.temperature)
    summary = scale.summary(sums, model.temperature)
    logits = scale.logits(found.mu)
    posterior: FloatArray = np.exp(
        logits / np.float32(model.temperature) - summary.log_normaliser[:, None]
    )
    ids = [[passage.id for passage in row] for row in found.passages]
    foreign = None if queries is None else foreign_questions(fitted, asked, found, queries)
    told = [""] * len(ids) if foreign is None else foreign.told
    own = None if members is None else members.among(len(fitted.names)).similarities
    sure = model.certainty(
        summary,
        logits,
        unanswerable,
        None if foreign is None else foreign.doubt,
        None if own is None else fitted.best_logits(_heard(own[:, :, 0], asked, foreign)),
    )
    posteriors = _member_posterior(fitted, asked, own, found.mu.shape)
    ambiguous = ambiguities(posterior, posteriors, ids, sure.in_corpus, len(store))
    return Judgement(
        model.hit_relevance(logits, scale.variance(found.sigma2), summary),
        sure.confidence,
        sure.in_corpus,
        ambiguous,
        decide(sure.confidence, ambiguous, in_corpus=sure.in_corpus, unfamiliar=told),
        sure.by_cutoff,
        told,
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


def unjudged(found: Found, action: Action, reason: str) -> Judgement:
    """What is made of hits where nothing is known: relevance is the similarity, from 0."""
    relevance = np.clip(found.mu, 0, 1)
    best = relevance.max(axis=1, initial=0.0)
    decisions = [Decision(action, reason, (), float(sure), float(sure)) for sure in best]
    nothing = [""] * len(best)
    return Judgement(relevance, best, best, [None] * len(best), decisions, unfamiliar=nothing)


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


def as_result(
    fitted: Fitted,
    queries: list[str],
    found: Found,
    coefficients: FloatArray,
    judged: Judgement,
    members: Members | None = None,
) -> SearchResult:
    """The result of a search: what was found for each query, and what is made of it."""
    return SearchResult(
        queries=queries,
        passages=found.passages,
        scores=found.scores,
        mu=found.mu,
        sigma2=found.sigma2,
        relevance=judged.relevance,
        coefficients=coefficients,
        shares=fitted.shares(coefficients),
        confidence=judged.confidence,
        in_corpus=judged.in_corpus,
        by_cutoff=judged.by_cutoff,
        ambiguous=judged.ambiguous,
        decisions=judged.decisions,
        unfamiliar=judged.unfamiliar,
        exact=found.exact,
        names=list(fitted.names),
        members=members,
    )
