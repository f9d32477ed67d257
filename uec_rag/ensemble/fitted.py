"""The options and results of a fit, and all that is computed from them without encoders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, get_args

import numpy as np

from uec_rag.base.checks import check_beta
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.records import Record
from uec_rag.base.similarity import cosines_of_pairs
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.encoders.base import Encoded, LastLayers, Role
from uec_rag.encoders.lexical import letters_in, letters_of, writing_of, writings
from uec_rag.ensemble.convolution import (
    CoefficientRule,
    Evidence,
    EvidenceWeights,
    Space,
    StandardisedTrace,
    Uniform,
    block_weights,
    corpus_evidence,
    direct_sum,
    present,
    shared,
    without_missing,
)
from uec_rag.ensemble.verifier import FittedVerifier
from uec_rag.laplace.likelihood import Likelihood
from uec_rag.laplace.pairs import Negatives
from uec_rag.laplace.posterior import Posterior, PosteriorSummary, Structure

_ENOUGH = 300  # pairs; with fewer a prior decides much of what a fit finds
_IGNORED = 0.02  # a member's mean share, below which it counts for nothing
_CONSTANT = 0.01  # standard deviation of the shares, below which queries do not matter
# Variance of a member's own error, at which two standard deviations hold the similarity of a hit's
# kind for 95 % of the hits of three ensembles; see `benchmarks/quality/variance.py`.
OWN_ERROR = 0.0065


@dataclass(frozen=True)
class FitOptions(Record):
    """The embedding space and how encoders are fitted; only the paper needs other values.

    Attributes
    ----------
    space : {"direct", "shared"}
        "direct" stacks the encoders' embeddings, whose dimensions may differ; "shared" averages
        them as the paper does.
    structure : {"kron", "diag"}
        Of the Laplace posterior over each last layer.
    temperature : float, optional
        T of "trace" (paper eq. 4), in the unit of raw traces, 1.5 by default; of
        "standardised_trace", in standard deviations over the fit's held-out queries, 1 by default.
    likelihood : {"pairs", "in_batch"}
        What the posterior is fitted on: labelled pairs, or the softmax over a batch's passages.
    negatives : {"hard", "random"}
        The negatives of a query: a random and a hard passage, or a random one alone.
    scaled : bool
        Whether to scale a posterior's variance to the held-out pairs, or leave it as Laplace gives
        it.
    last_layer : {"projection", "ffn", "auto"}
        Which layer the posterior is about; "ffn" needs a transformer with its weights at hand,
        "auto" falls back to "projection", with a warning.
    beta : float
        How strongly sigma_s^2 lowers a score (paper eq. 6).
    seed : int
        Seed of the held-out split and of mining negatives.

    Raises
    ------
    ValueError
        If a value is none of the above.
    """

    space: Space = "direct"
    structure: Structure = "kron"
    temperature: float | None = None
    likelihood: Likelihood = "pairs"
    negatives: Negatives = "hard"
    scaled: bool = True
    last_layer: LastLayers = "projection"
    beta: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in _ALLOWED.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name}: expected one of {allowed}, got {value!r}.")
        object.__setattr__(self, "beta", check_beta(self.beta))

    @classmethod
    def of(cls, options: FitOptions | None, chosen: Mapping[str, Any]) -> FitOptions:
        """Make options, some of them chosen by name.

        Raises
        ------
        TypeError
            If `options` is something else, or a name is not one of them.
        """
        if not isinstance(options, FitOptions | None):
            raise TypeError(f"options: expected FitOptions, got {type(options).__name__}.")
        names = [field.name for field in fields(cls)]
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise TypeError(
                f"UEC: there is no parameter {unknown[0]!r}; beside its own it takes the fields of "
                f"FitOptions: {', '.join(names)}."
            )
        return replace(options or cls(), **chosen)

    @property
    def of_posterior(self) -> dict[str, Any]:
        """The options of `fit_posterior`, by name."""
        names = ("structure", "likelihood", "negatives", "scaled", "seed")
        return {name: getattr(self, name) for name in names}


_ALLOWED = {
    "space": get_args(Space),
    "structure": get_args(Structure),
    "likelihood": get_args(Likelihood),
    "negatives": get_args(Negatives),
    "last_layer": get_args(LastLayers),
}

PAPER = FitOptions(
    space="shared",
    structure="diag",
    negatives="random",
    scaled=False,
    last_layer="auto",
    beta=0.01,
)
"""Options of `UEC.paper`."""


@dataclass(frozen=True)
class FitFacts(Record):
    """The facts of a fit beside its posteriors.

    Attributes
    ----------
    pairs : tuple of K int
        Distinct pairs of a query and its passage that each encoder was fitted on.
    shares, deviations : tuple of K float
        How much each encoder counted in the fit queries: mean and standard deviation.
    unanswerable : float
        Share of the questions without an answer that confidence was learned with.
    own_confidence : bool
        Whether confidence was learned from these pairs alone, since they clearly contradict
        the many collections that it rests on elsewhere.
    """

    pairs: tuple[int, ...]
    shares: tuple[float, ...]
    deviations: tuple[float, ...]
    unanswerable: float
    own_confidence: bool

    @classmethod
    def of(
        cls, pairs: Sequence[int], shares: FloatArray, unanswerable: float, own_confidence: bool
    ) -> FitFacts:
        """Summarise a fit from each fit query's shares (n, K)."""
        mean, deviation = (tuple(v.tolist()) for v in (shares.mean(axis=0), shares.std(axis=0)))
        return cls(tuple(pairs), mean, deviation, unanswerable, own_confidence)


@dataclass(frozen=True)
class FitReport:
    """The report of `UEC.fit`.

    Attributes
    ----------
    encoders : dict
        Encoder name -> `PosteriorSummary` (slope, prior precision, scale, pairs, held-out NLL);
        a verifier's, too.
    structure, likelihood : str
        How the posteriors were fitted.
    encoding_seconds, fitting_seconds : float
        Time in the encoders, and in everything else.
    source : str
        What it was fitted on if not by the user, as of `UEC()`.
    facts : FitFacts or None
        None for the fit that comes with the package.
    """

    encoders: dict[str, PosteriorSummary]
    structure: str
    likelihood: str
    encoding_seconds: float
    fitting_seconds: float
    source: str = ""
    facts: FitFacts | None = None

    def __str__(self) -> str:
        """Return a table, one line per encoder, and the notes."""
        head = ("encoder", "pairs", "slope", "prior prec.", "scale", "NLL", "without var.")
        rows = [
            (
                name,
                str(s.pairs),
                f"{s.slope:.1f}",
                f"{s.prior_precision:.2g}",
                f"{s.scale:.2g}",
                f"{s.nll:.4f}",
                f"{s.nll_deterministic:.4f}",
            )
            for name, s in self.encoders.items()
        ]
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in (head, *rows)
        ]
        took = f"encoding {self.encoding_seconds:.1f} s, fitting {self.fitting_seconds:.1f} s"
        how = f"{self.structure} posterior, {self.likelihood} likelihood"
        lines.append(f"{how}; {self.source or took}")
        return "\n".join([*lines, *self.notes])

    @property
    def notes(self) -> list[str]:
        """Return warnings about the fit, as sentences."""
        return [*self._of_pairs(), *self.of_shares, *self._of_confidence()]

    def _of_pairs(self) -> Iterator[str]:
        fewest = min(self.facts.pairs) if self.facts else _ENOUGH
        if fewest < _ENOUGH:
            yield (
                f"Fitted on {fewest} pairs: below {_ENOUGH} slopes, variances and confidence rest "
                "on what is usual as much as on the pairs. Give more where you can."
            )
        for what in ("slope", "variance"):
            names = [name for name, s in self.encoders.items() if what in s.by_prior]
            if names:
                yield (
                    f"The {what} of {', '.join(names)} is what is usual more than what the pairs "
                    "tell: a prior decided."
                )

    @property
    def of_shares(self) -> list[str]:
        """Return warnings about the encoders' weights."""
        if self.facts is None or len(self.facts.shares) < 2:
            return []
        # A verifier comes after the encoders, and has no share: it reads the first hits only.
        shares = list(zip(self.encoders, self.facts.shares, strict=False))
        notes = []
        if max(self.facts.deviations) < _CONSTANT:
            weights = ", ".join(f"{name} {share:.2f}" for name, share in shares)
            notes.append(f"The encoders count the same in every query: {weights}.")
        return notes + [
            f"{name} is as good as ignored: it counts for {share:.1%} on average. Leave it out, or "
            "look whether it suits these texts."
            for name, share in shares
            if share < _IGNORED
        ]

    def _of_confidence(self) -> Iterator[str]:
        if self.facts is None:
            return
        rests = (
            "these pairs alone, which clearly contradict other collections"
            if self.facts.own_confidence
            else "many collections, its level in part on these pairs"
        )
        yield (
            f"Confidence rests on {rests}; {self.facts.unanswerable:.0%} of the questions asked "
            "had no answer."
        )


ENOUGH_PASSAGES = 16
"""Passages that tell how far apart an encoder holds a corpus."""

_COMPARED = 64

# Of the distance of fit passages. Corpora of one subject keep .57 to .85 of it, those in a language
# that an encoder does not know .04 to .63 (six encoders, twelve English and eight other corpora).
_ALIKE = 0.7


@dataclass(frozen=True)
class TrainingProfile(Record):
    """A summary of the texts that an ensemble was fitted on.

    Attributes
    ----------
    writings : tuple of str
        In what the questions and passages are written, see `uec_rag.encoders.lexical`.
    distance : tuple of K floats
        1 less the mean cosine of two fit passages, to each encoder; 0 to one without vectors.
    """

    writings: tuple[str, ...]
    distance: tuple[float, ...]

    @classmethod
    def of(cls, texts: Iterable[str], passages: Sequence[Gaussian]) -> Self:
        """Summarise fit texts and each encoder's Gaussians of the passages among them."""
        return cls(writings(texts), tuple(distance(part.mean) for part in passages))

    def unseen_scripts(self, found: Iterable[str]) -> list[str]:
        """Return the writings that no fit text was in."""
        return [name for name in found if name not in self.writings]

    def unfamiliar(self, question: str, first: str) -> tuple[str, bool]:
        """Say how a question differs from those of the fit, "" if not at all; if by its letters.

        In other letters an encoder's similarities are high whatever they are of; words are not
        misled. In another language of the same letters confidence was measured to be too low
        already, so that it is only said.

        `first`: the text of its best hit; "" if there is none.
        """
        writing = writing_of(question)
        if writing is None:
            return "", False
        letters = letters_of(writing)
        if writing not in self.writings:
            reason = f"the question is in {writing}, which the ensemble was not fitted on"
            return reason, letters not in map(letters_of, self.writings)
        # A table of numbers is in no letters.
        if letters_in(first) not in (None, letters):
            return f"the question is in {writing}, and its first hit is not", True
        return "", False

    def weak_encoders(self, vectors: Sequence[FloatArray]) -> list[int]:
        """Return the encoders that hardly distinguish the given passages.

        `vectors`, sequence of K arrays, shape (m, d_k): of the same passages.
        """
        return [
            member
            for member, (usual, means) in enumerate(zip(self.distance, vectors, strict=True))
            if usual and distance(means) < _ALIKE * usual
        ]


def distance(vectors: FloatArray) -> float:
    """Compute 1 less the mean cosine of two different texts; 0 if there are no vectors."""
    cosines = cosines_of_pairs(vectors[:_COMPARED])
    return float(1 - cosines.mean()) if vectors.shape[1] and len(cosines) else 0.0


@dataclass(frozen=True, eq=False)
class Fitted:
    """An ensemble without its encoders: what searching, judging and calibrating take.

    Attributes
    ----------
    names : tuple of K str
        The encoders'.
    space : {"direct", "shared"}
    beta : float
        How strongly sigma_s^2 lowers a score.
    posteriors : tuple of K Posterior, or None
        None before `UEC.fit`: variances are 0 and slopes 1.
    training_profile : TrainingProfile or None
        What the fit's texts were like; None if that is not known.
    verifier : FittedVerifier or None
        Of a verifier beside the encoders.
    """

    names: tuple[str, ...]
    space: Space
    rule: CoefficientRule
    beta: float = 1.0
    posteriors: tuple[Posterior, ...] | None = None
    confidence_model: ConfidenceModel | None = None
    report: FitReport | None = None
    training_profile: TrainingProfile | None = None
    verifier: FittedVerifier | None = None

    @cached_property
    def slopes(self) -> list[float]:
        """The slope a_k of each encoder's logit a_k s_k + b_k; 1 before `UEC.fit`."""
        if self.posteriors is None:
            return [1.0] * len(self.names)
        return [posterior.summary.slope for posterior in self.posteriors]

    @cached_property
    def intercepts(self) -> list[float]:
        """The intercept b_k of each encoder's logit a_k s_k + b_k; 0 before `UEC.fit`."""
        if self.posteriors is None:
            return [0.0] * len(self.names)
        return [posterior.summary.intercept for posterior in self.posteriors]

    @cached_property
    def slope(self) -> float:
        """The logits per unit of the ensemble's similarity: the mean of the encoders' slopes."""
        return float(np.mean(self.slopes))

    @cached_property
    def weights(self) -> FloatArray:
        """The weight w_k of each encoder's cosine, mean 1: its slope over the mean slope."""
        return block_weights(self.slopes)

    @property
    def evidence_weights(self) -> EvidenceWeights | None:
        """The weights of the rule "evidence"; None for another rule."""
        return self.rule.weights if isinstance(self.rule, Evidence) else None

    def among(self, members: Sequence[int]) -> Fitted:
        """Return the fit of some encoders, without what was learned for all together."""
        posteriors = self.posteriors
        return Fitted(
            tuple(self.names[member] for member in members),
            self.space,
            Uniform(),
            self.beta,
            None if posteriors is None else tuple(posteriors[member] for member in members),
        )

    def foreign_corpus(self, texts: Sequence[str], vectors: Sequence[FloatArray]) -> str | None:
        """Say which encoders cannot tell passages apart because of their language; None if all can.

        `texts`: of the passages. `vectors`, sequence of K arrays, shape (m, d_k): each encoder's
        means of them.
        """
        profile = self.training_profile
        if profile is None:
            return None
        strange = profile.unseen_scripts(writings(texts[:_COMPARED], least=0.5))
        weak = profile.weak_encoders(vectors) if strange else []
        if not weak:
            return None
        names = ", ".join(repr(self.names[member]) for member in weak)
        words = 0 in profile.distance
        so = "what is found is found by its words" if words else "its similarities say little"
        also = "" if words else ', or "bm25"'
        return (
            f"Most of these passages are in {strange[0]}, which the pairs of the fit were not, and "
            f"to {names} they look alike: {so}, and confidence is low. Take in an encoder that "
            f"knows the language{also}, and fit with pairs in it or self_calibrate."
        )

    def gaussians(self, encoded: Sequence[Encoded]) -> list[Gaussian]:
        """Compute each encoder's Gaussians of the texts that it has encoded."""
        parts = []
        for member, one in enumerate(encoded):
            terms = blocks_of(one)
            if self.posteriors is None:
                parts.append(Gaussian.certain(one.embedding, terms))
            else:
                posterior = self.posteriors[member]
                parts.append(posterior.gaussian(one.embedding, one.features, terms))
        return parts

    def coefficients(self, parts: Sequence[Gaussian], role: Role) -> FloatArray:
        """Compute the coefficients of texts from the encoders' Gaussians alone, shape (n, K).

        In the direct sum passages are stored with uniform ones: coefficients of their own, which
        differ from the query's, were measured to hurt. For those that a corpus gives, see `weigh`.
        """
        there = present([part.mean for part in parts])
        if role == "passage" and self.space == "direct":
            # The others keep theirs: their blocks must stay as long as in every other passage.
            return np.where(there, Uniform()(parts), np.float32(0))
        if role == "query" and isinstance(self.rule, StandardisedTrace) and self.posteriors:
            return without_missing(self.rule.of(self.standardised_traces(parts)), there)
        # A rule that is no callable of Gaussians needs more than is known here.
        rule = self.rule if callable(self.rule) else Uniform()
        return without_missing(rule(parts), there)

    def weigh(
        self,
        weights: EvidenceWeights | None,
        parts: Sequence[Gaussian],
        own: Sequence[FloatArray],
        best: FloatArray,
    ) -> FloatArray:
        """Compute the coefficients of queries from a corpus's evidence, shape (n, K).

        Encoders of words that no passage holds are left out.

        Parameters
        ----------
        weights : EvidenceWeights or None
            None: the coefficients of the rule.
        parts : sequence of K Gaussian
            Each encoder's Gaussians of the queries.
        own : sequence of K arrays, shape (n, N)
            Each encoder's similarities to the corpus that is searched; none in the shared space.
        best : array, shape (n, K)
            The highest of them.
        """
        if weights is None or not own:
            pi = self.coefficients(parts, "query")
        else:
            traces = self.standardised_traces(parts)
            evidence = corpus_evidence(own, self.slopes, self.intercepts, traces)
            there = present([part.mean for part in parts])
            pi = without_missing(weights.coefficients(evidence), there)
        if not own:
            return pi
        words = np.array([bool(part.terms) for part in parts])
        left = np.where((best > 0) | ~words, pi, np.float32(0))
        total = left.sum(axis=1, keepdims=True)
        # If no encoder knows the query the coefficients stay as they are.
        known: FloatArray = np.where(total > 0, left / np.maximum(total, 1e-30), pi)
        return known.astype(np.float32)

    def combine(self, parts: Sequence[Gaussian], coefficients: FloatArray) -> Gaussian:
        """Convolve the encoders' Gaussians with given coefficients."""
        if self.space == "shared":
            return shared(parts, coefficients)
        return direct_sum(parts, coefficients, self.weights)

    def logit_line(self, coefficients: FloatArray) -> tuple[np.float32, FloatArray]:
        """Return slope and offset (n,) of the logits ``sum_k pi_k (a_k s_k + b_k)`` by mu_s."""
        return np.float32(self.slope), coefficients @ np.asarray(self.intercepts, np.float32)

    def member_logits(self, own: FloatArray) -> FloatArray:
        """Compute each encoder's own logits ``a_k s_k + b_k`` of its similarities, shape (n, K)."""
        logits: FloatArray = np.asarray(self.slopes, np.float32) * own
        return logits + np.asarray(self.intercepts, np.float32)

    def disagreement(
        self, own: FloatArray, best: FloatArray, coefficients: FloatArray
    ) -> FloatArray:
        """Compute the variance that lies between the encoders, shape (n, k).

        ``sum_k pi_k (o_k - sum_j pi_j o_j)^2 + OWN_ERROR sum_k pi_k^2``: how far they disagree, the
        second half of the law of total variance, and the errors that each makes on its own, which
        average out the more encoders count. What an encoder says of a passage is its odds over
        those of the best in the corpus, o_k = exp(l_k - max l_k) from 0 to 1: each logit has an
        offset of its own in each query, which says nothing of a passage. 0 for one encoder, and
        before `UEC.fit`.

        Parameters
        ----------
        own : array, shape (n, K, k)
            Each encoder's similarities of the hits.
        best : array, shape (n, K)
            The highest of each encoder's similarities to the corpus.
        coefficients : array, shape (n, K)
        """
        if self.posteriors is None or len(self.names) == 1:
            return np.zeros((len(own), own.shape[2]), dtype=np.float32)
        slopes = np.asarray(self.slopes, np.float32)[:, None]
        odds = np.exp(np.minimum(slopes * (own - best[:, :, None]), 0))
        pi = coefficients[:, :, None]
        mean = (pi * odds).sum(axis=1, keepdims=True)
        spread: FloatArray = (pi * (odds - mean) ** 2 + np.float32(OWN_ERROR) * pi**2).sum(axis=1)
        return spread

    def standardised_traces(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Return each query's log total variance, standardised by encoder, shape (n, K)."""
        if self.posteriors is None:
            return np.zeros((len(parts[0]), len(parts)), dtype=np.float32)
        traces = np.empty((len(parts[0]), len(parts)), dtype=np.float32)
        for member, (posterior, part) in enumerate(zip(self.posteriors, parts, strict=True)):
            traces[:, member] = posterior.standardised_log_trace(part)
        return traces

    def shares(self, coefficients: FloatArray) -> FloatArray:
        """Return each encoder's share ``pi_k w_k``, rows summing to 1, shape (n, K).

        In the direct sum a similarity is ``sum_k pi_k w_k s_k``: an encoder of slope 0 counts for
        nothing whatever its coefficient.
        """
        if self.space == "shared":
            return coefficients
        counted = coefficients * self.weights
        total = np.maximum(counted.sum(axis=1, keepdims=True), np.float32(1e-30))
        shares: FloatArray = counted / total
        return shares


def blocks_of(encoded: Encoded) -> tuple[Terms, ...]:
    """Return the sparse blocks of an encoder's output."""
    return () if encoded.terms is None else (encoded.terms,)
