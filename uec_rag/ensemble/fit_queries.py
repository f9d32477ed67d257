"""Fit queries asked of the fit passages: what evidence and confidence are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import moments
from uec_rag.confidence.fit import FitView, fit_confidence
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.encoders.verifier import Verifier
from uec_rag.ensemble.evidence import EvidenceWeights
from uec_rag.ensemble.evidence_fit import (
    AskedElsewhere,
    CorpusView,
    corpus_views,
    fit_evidence_weights,
)
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.questions import Questions
from uec_rag.ensemble.similarity_summary import SimilaritySummary
from uec_rag.ensemble.verifier import FittedVerifier, Verification
from uec_rag.ensemble.verifier_fit import ReadViews, fit_verifier, read_views

CORPUS_SIZES = (150, 600, 2400)
"""Confidence is learned over corpora of these sizes, to hold for any."""

# Among a handful of passages one always stands out; only how near it is tells whether it answers.
_TINY, _TINY_CORPORA = 10, 30
_UNANSWERABLE = 0.2
_MOST_ASKED = 300  # questions of a corpus
_MOST_READ = 150  # where a verifier reads every hit


@dataclass(frozen=True, eq=False)
class FitQueries:
    """Questions, each encoder's Gaussians of them, and a corpus that they are asked of.

    Attributes
    ----------
    queries : list of Gaussian
        One batch of n per encoder.
    corpus : Gaussian
        The ensemble's, of N passages.
    own : list of K arrays, shape (n, N), or None
        Each encoder's cosines; None where no evidence is wanted.
    questions : Questions
        Their texts, and the places in the corpus of each one's answers.
    seed : int
        Of the smaller corpora that are cut out.
    """

    queries: list[Gaussian]
    corpus: Gaussian
    own: list[FloatArray] | None
    questions: Questions
    seed: int

    def among(self, members: Sequence[int]) -> FitQueries:
        """The same questions to some of the encoders, for `fit_evidence_weights`."""
        ends = np.cumsum([0, *(part.dimension for part in self.queries)])
        columns = [np.arange(ends[member], ends[member + 1]) for member in members]
        return replace(
            self,
            corpus=Gaussian.certain(self.corpus.mean[:, np.concatenate(columns)]),
            queries=[self.queries[member] for member in members],
            own=None if self.own is None else [self.own[member] for member in members],
        )

    def fit_evidence_weights(
        self, fitted: Fitted, beside: Sequence[AskedElsewhere] = ()
    ) -> EvidenceWeights:
        """Learn which evidence makes an encoder worth trusting; `beside` as there.

        With a prior per encoder: under the ridge it was measured to change nothing where all pairs
        are of one domain, and to be what tells languages apart where they are of several.
        """
        assert self.own is not None
        return fit_evidence_weights(
            self.own,
            self.questions.relevant,
            fitted.slopes,
            fitted.intercepts,
            fitted.standardised_traces(self.queries),
            learn_prior=True,
            seed=self.seed,
            beside=beside,
        )

    def fit_confidence(self, fitted: Fitted, weights: EvidenceWeights | None) -> ConfidenceModel:
        """Learn relevance and confidence, on corpora of several sizes that lack some answers."""
        return fit_confidence(self.views(fitted, weights))

    def some(self, rows: Sequence[int]) -> FitQueries:
        """Some of the questions, asked of the same corpus."""
        places = np.asarray(rows, dtype=np.intp)
        return replace(
            self,
            queries=[part[places] for part in self.queries],
            own=None if self.own is None else [similar[places] for similar in self.own],
            questions=self.questions.some(rows),
        )

    def views(
        self,
        fitted: Fitted,
        weights: EvidenceWeights | None,
        sizes: Sequence[int] = CORPUS_SIZES,
        verification: Verification | None = None,
    ) -> list[FitView]:
        """The questions asked of corpora of several sizes that lack some answers."""
        if verification is None:
            return [self._asked(cut, fitted, weights) for cut in self._cuts(sizes, _MOST_ASKED)]
        read = self._read(fitted, weights, sizes, verification.verifier, verification.fitted.k)
        return read.joined(verification.fitted.posterior, verification.fitted.weight)

    def fit_verifier(
        self,
        fitted: Fitted,
        weights: EvidenceWeights | None,
        verifier: Verifier,
        name: str,
        k: int,
    ) -> FittedVerifier:
        """Fit a verifier on what the ensemble finds for the questions."""
        read = self._read(fitted, weights, CORPUS_SIZES, verifier, k)
        return fit_verifier(name, k, read, len(fitted.names), self.seed)

    def _read(
        self,
        fitted: Fitted,
        weights: EvidenceWeights | None,
        sizes: Sequence[int],
        verifier: Verifier,
        k: int,
    ) -> ReadViews:
        cuts = self._cuts(sizes, _MOST_READ)
        views = [self._asked(cut, fitted, weights) for cut in cuts]
        return read_views(verifier, k, self.questions, cuts, views)

    def _cuts(self, sizes: Sequence[int], most: int) -> list[CorpusView]:
        cuts = corpus_views(
            self.questions.relevant,
            len(self.corpus),
            sizes=sizes,
            queries=most,
            unanswerable=_UNANSWERABLE,
            seed=self.seed + 1,
        )
        for number in range(_TINY_CORPORA):
            cuts += corpus_views(
                self.questions.relevant,
                len(self.corpus),
                sizes=(_TINY,),
                queries=_TINY,
                unanswerable=_UNANSWERABLE,
                seed=self.seed + 2 + number,
            )
        return cuts

    def coefficients(self, fitted: Fitted, weights: EvidenceWeights | None) -> FloatArray:
        """Coefficients of the questions, asked of the whole corpus, shape (n, K)."""
        if weights is None or self.own is None:
            return fitted.coefficients(self.queries, "query")
        summaries = [
            SimilaritySummary.of(own, slope)
            for own, slope in zip(self.own, fitted.slopes, strict=True)
        ]
        return fitted.weigh(weights, self.queries, summaries)

    def _asked(self, view: CorpusView, fitted: Fitted, weights: EvidenceWeights | None) -> FitView:
        asked = replace(
            self,
            queries=[part[view.queries] for part in self.queries],
            corpus=self.corpus[view.passages],
            own=None if self.own is None else [view.cut(own) for own in self.own],
        )
        pi = asked.coefficients(fitted, weights)
        mu, sigma2 = moments(fitted.combine(asked.queries, pi), asked.corpus)
        best = None
        if asked.own is not None and any(part.terms for part in asked.queries):
            best = fitted.best_logits(asked.own)
        return FitView(
            fitted.logits(mu, pi),
            fitted.logit_variance(sigma2),
            view.relevant,
            best,
        )
