"""Fit queries asked of the fit passages: what evidence and confidence are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import moments
from uec_rag.confidence.fit import FitView, fit_confidence
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.ensemble.evidence import EvidenceWeights, some_of
from uec_rag.ensemble.evidence_fit import (
    AskedElsewhere,
    CorpusView,
    corpus_views,
    fit_evidence_weights,
)
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.similarity_summary import SimilaritySummary
from uec_rag.laplace.pairs import Pairs

_MOST_QUERIES = 600  # more were not measured to change what is learned
_OTHER_PASSAGES = 3000
CORPUS_SIZES = (150, 600, 2400)
"""Confidence is learned over corpora of these sizes, to hold for any."""

# Among a handful of passages one always stands out; only how near it is tells whether it answers.
_TINY, _TINY_CORPORA = 10, 30
_UNANSWERABLE = 0.2


@dataclass(frozen=True)
class Questions:
    """Some of the fit queries, and a corpus that holds their answers among others.

    Attributes
    ----------
    queries, corpus : list of str
    relevant : list of list of int
        Places in `corpus` of each query's answers.
    """

    queries: list[str]
    corpus: list[str]
    relevant: list[list[int]]


def choose_questions(pairs: Sequence[Pairs], seed: int) -> Questions:
    """Draw questions from the positives of several lists of pairs."""
    answers: dict[str, dict[str, None]] = {}
    for own in pairs:
        for query, found in zip(own.queries, own.positives, strict=True):
            if len(found):
                answers.setdefault(query, {}).update((own.passages[p], None) for p in found)
    rng = np.random.default_rng(seed)
    asked = list(answers)
    chosen = [asked[row] for row in rng.permutation(len(asked))[:_MOST_QUERIES]]
    corpus = {text: None for query in chosen for text in answers[query]}
    others = [text for own in pairs for text in own.passages if text not in corpus]
    corpus.update((others[row], None) for row in rng.permutation(len(others))[:_OTHER_PASSAGES])
    place = {text: row for row, text in enumerate(corpus)}
    relevant = [[place[text] for text in answers[query]] for query in chosen]
    return Questions(chosen, list(corpus), relevant)


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
    relevant : list of list of int
        Places in the corpus of each query's answers.
    seed : int
        Of the smaller corpora that are cut out.
    """

    queries: list[Gaussian]
    corpus: Gaussian
    own: list[FloatArray] | None
    relevant: list[list[int]]
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
            self.relevant,
            fitted.slopes,
            fitted.intercepts,
            fitted.standardised_traces(self.queries),
            fitted.common(self.queries, some_of(self.corpus.mean)),
            learn_prior=True,
            seed=self.seed,
            beside=beside,
        )

    def fit_confidence(
        self,
        fitted: Fitted,
        weights: EvidenceWeights | None,
        sizes: Sequence[int] = CORPUS_SIZES,
        k: int = 10,
    ) -> ConfidenceModel:
        """Learn relevance and confidence, on corpora of several sizes that lack some answers."""
        return fit_confidence(self.views(fitted, weights, sizes), k)

    def some(self, rows: Sequence[int]) -> FitQueries:
        """Some of the questions, asked of the same corpus."""
        places = np.asarray(rows, dtype=np.intp)
        return replace(
            self,
            queries=[part[places] for part in self.queries],
            own=None if self.own is None else [similar[places] for similar in self.own],
            relevant=[self.relevant[row] for row in rows],
        )

    def views(
        self, fitted: Fitted, weights: EvidenceWeights | None, sizes: Sequence[int] = CORPUS_SIZES
    ) -> list[FitView]:
        """The questions asked of corpora of several sizes that lack some answers."""
        views = corpus_views(
            self.relevant,
            len(self.corpus),
            sizes=sizes,
            unanswerable=_UNANSWERABLE,
            seed=self.seed + 1,
        )
        for number in range(_TINY_CORPORA):
            views += corpus_views(
                self.relevant,
                len(self.corpus),
                sizes=(_TINY,),
                queries=_TINY,
                unanswerable=_UNANSWERABLE,
                seed=self.seed + 2 + number,
            )
        return [self._asked(view, fitted, weights) for view in views]

    def _asked(self, view: CorpusView, fitted: Fitted, weights: EvidenceWeights | None) -> FitView:
        queries = [part[view.queries] for part in self.queries]
        if weights is None or self.own is None:
            pi = fitted.coefficients(queries, "query")
        else:
            summaries = [
                SimilaritySummary.of(view.cut(own), slope)
                for own, slope in zip(self.own, fitted.slopes, strict=True)
            ]
            sample = some_of(self.corpus.mean[view.passages])
            pi = fitted.weigh(weights, queries, summaries, sample)
        mu, sigma2 = moments(fitted.combine(queries, pi), self.corpus[view.passages])
        return FitView(fitted.logits(mu, pi), fitted.logit_variance(sigma2), view.relevant)
