"""The options and results of a fit, and the computations that need no encoders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypedDict, get_args

import numpy as np

from uec_rag.base.checks import check_beta, check_type, did_you_mean
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.properties import cached_property
from uec_rag.base.records import Record
from uec_rag.base.similarity import cosines_of_pairs
from uec_rag.confidence.languages import ENGLISH
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.confidence.sentences import sentence
from uec_rag.encoders.base import Encoded, LastLayers, Role
from uec_rag.encoders.lexical import letters_in, letters_of, writing_of, writings
from uec_rag.ensemble import convolution
from uec_rag.ensemble.convolution import CoefficientRule, Evidence, EvidenceWeights, Space, Uniform
from uec_rag.laplace.likelihood import Likelihood
from uec_rag.laplace.pairs import Negatives
from uec_rag.laplace.posterior import Posterior, PosteriorSummary, Structure

_ENOUGH = 300  # pairs; with fewer, a prior dominates the fit
_IGNORED = 0.02  # mean share below which a member has no effect
_CONSTANT = 0.01  # standard deviation of the shares below which they do not depend on the query


class Chosen(TypedDict, total=False):
    """The fields of `FitOptions`, as arguments of `UEC`."""

    space: Space
    structure: Structure
    temperature: float | None
    likelihood: Likelihood
    negatives: Negatives
    scaled: bool
    last_layer: LastLayers
    beta: float
    seed: int


@dataclass(frozen=True)
class FitOptions(Record):
    """The embedding space and how encoders are fitted.

    The defaults suit all uses except the reproduction of the paper.

    Attributes
    ----------
    space : {"direct", "shared"}
        "direct" stacks the encoders' embeddings, whose dimensions may differ; "shared" averages
        them as the paper does.
    structure : {"kron", "diag"}
        Structure of the Laplace posterior over each last layer.
    temperature : float, optional
        T of "trace" (paper eq. 4), in units of raw traces; 1.5 by default.
    likelihood : {"pairs", "in_batch"}
        Likelihood of the posterior: of labelled pairs, or a softmax over the passages of a batch.
    negatives : {"hard", "random"}
        Negatives of a query: a random and a hard passage, or only a random one.
    scaled : bool
        Whether to scale the variance of a posterior to the held-out pairs.
    last_layer : {"projection", "ffn", "auto"}
        Layer of the posterior; "ffn" needs a transformer with accessible weights, and "auto" falls
        back to "projection" with a warning.
    beta : float
        How strongly sigma_s^2 lowers a score (paper eq. 6).
    seed : int
        Seed of the held-out split and of the mining of negatives.

    Raises
    ------
    ValueError
        If a value is not one of these.
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
                advice = did_you_mean(value, allowed) or "."
                raise ValueError(f"{name}: expected one of {allowed}, got {value!r}{advice}")
        object.__setattr__(self, "beta", check_beta(self.beta))

    @classmethod
    def from_keywords(cls, options: FitOptions | None, chosen: Mapping[str, Any]) -> FitOptions:
        """Return `options`, or the defaults, with some of them replaced by name.

        Raises
        ------
        TypeError
            If `options` has another type, or a name is not that of an option.
        """
        check_type(options, FitOptions | None, "options", "FitOptions")
        names = [field.name for field in fields(cls)]
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise TypeError(
                f"UEC: there is no parameter {unknown[0]!r}; besides its own, it takes the "
                f"fields of FitOptions: {', '.join(names)}"
                f"{did_you_mean(unknown[0], (*_OWN, *names)) or '.'}"
            )
        return replace(options or cls(), **chosen)

    @property
    def posterior_options(self) -> dict[str, Any]:
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

# The other parameters of `UEC`.
_OWN = ("encoders", "coefficients", "options", "device", "dtype", "batch_size")

PAPER = FitOptions(
    space="shared", structure="diag", negatives="random", scaled=False, last_layer="auto", beta=0.01
)
"""Options of `UEC.paper`."""


@dataclass(frozen=True)
class FitReport(Record):
    """The report of `UEC.fit`.

    Attributes
    ----------
    encoders : dict
        Maps the name of each encoder to its `PosteriorSummary` (slope, prior precision, scale,
        pairs, held-out NLL).
    structure, likelihood : str
        How the posteriors were fitted.
    encoding_seconds, fitting_seconds : float
        Time spent in the encoders, and in everything else.
    source : str
        What the ensemble was fitted on if not fitted by the user, as that of `UEC()`.
    pairs : tuple of K int
        Number of distinct pairs of a query and its passage that each encoder was fitted on; empty,
        as are the two below, for the fit that comes with the package.
    shares, deviations : tuple of K float
        Mean and standard deviation of the share of each encoder in the fit queries.
    """

    encoders: dict[str, PosteriorSummary]
    structure: str
    likelihood: str
    encoding_seconds: float
    fitting_seconds: float
    source: str = ""
    pairs: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()

    def __str__(self) -> str:
        """Return a table with a line per encoder, and the notes."""
        head = ("encoder", "pairs", "slope", "prior prec.", "scale", "NLL", "without var.")
        rows = [head]
        rows += [
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
        first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
        form = "  ".join([f"{{:<{first}}}", *(f"{{:>{width}}}" for width in others)])
        lines = [form.format(*row) for row in rows]
        took = f"encoding {self.encoding_seconds:.1f} s, fitting {self.fitting_seconds:.1f} s"
        how = f"{self.structure} posterior, {self.likelihood} likelihood"
        lines.append(f"{how}; {self.source or took}")
        return "\n".join([*lines, *self.notes])

    @property
    def notes(self) -> list[str]:
        """The warnings about the fit, as sentences."""
        return [*self._pair_warnings(), *self.share_warnings]

    def _pair_warnings(self) -> Iterator[str]:
        fewest = min(self.pairs, default=_ENOUGH)
        if fewest < _ENOUGH:
            yield (
                f"Fitted on {fewest} pairs: with fewer than {_ENOUGH}, slopes, variances and "
                "confidence depend on priors as much as on the pairs. Give more if you can."
            )
        for what in ("slope", "variance"):
            names = [name for name, s in self.encoders.items() if what in s.by_prior]
            if names:
                yield (
                    f"The {what} of {', '.join(names)} was determined by the prior rather than "
                    "by the pairs. Give more pairs."
                )

    @property
    def share_warnings(self) -> list[str]:
        """The warnings about the weights of the encoders."""
        if len(self.shares) < 2:
            return []
        shares = list(zip(self.encoders, self.shares, strict=True))
        notes = []
        if max(self.deviations) < _CONSTANT:
            weights = ", ".join(f"{name} {share:.2f}" for name, share in shares)
            notes.append(f"The encoders count the same in every query: {weights}.")
        return notes + [
            f"{name} is almost ignored: its weight is {share:.1%} on average. Leave it out, or "
            "check whether it suits these texts."
            for name, share in shares
            if share < _IGNORED
        ]


ENOUGH_PASSAGES = 16
"""The number of passages from which to estimate the distance between those of a corpus."""

_COMPARED = 64

# Fraction of the distance between fit passages. It is .57 to .85 in corpora on one subject, and .04
# to .63 in a language that an encoder does not know (six encoders, twelve English and eight other
# corpora).
_ALIKE = 0.7


@dataclass(frozen=True)
class TrainingProfile(Record):
    """A summary of the texts that an ensemble was fitted on.

    Attributes
    ----------
    writings : tuple of str
        Writings of the questions and passages, see `uec_rag.encoders.lexical`.
    distance : tuple of float
        1 minus the mean cosine of two fit passages, by each block; 0 for one without vectors.
    crosses_scripts : bool
        Whether passages answer questions in other scripts, in 5 % of the pairs or more. The models
        are then multilingual, and no script is unknown to them.
    """

    writings: tuple[str, ...]
    distance: tuple[float, ...]
    crosses_scripts: bool = False

    @classmethod
    def from_pairs(cls, pairs: Sequence[tuple[str, str]], passages: Sequence[Gaussian]) -> Self:
        """Summarise fit pairs, given each block's Gaussians of the passages among them."""
        scripts = [{letters_in(text) for text in pair} - {None} for pair in pairs]
        return cls(
            writings(text for pair in pairs for text in pair),
            tuple(distance(part.mean) for part in passages),
            sum(len(pair) > 1 for pair in scripts) >= _CROSSES * len(scripts),
        )

    def unfamiliar(self, question: str, first: str, language: str = ENGLISH) -> tuple[str, bool]:
        """Return how a question differs from those of the fit, "" if it does not, and if by script.

        In an unknown script, all similarities of an encoder are high, but not those of a lexical
        one. In another language of a known script, confidence tends to be too low rather than too
        high, so the difference is only reported. Multilingual models support all of them.

        `first`: text of the best hit; "" if there is none. `language`: that of the difference.
        """
        writing = writing_of(question)
        if writing is None or self.crosses_scripts:
            return "", False
        letters = letters_of(writing)
        if writing not in self.writings:
            reason = sentence("unknown_writing", language, writing=writing)
            return reason, letters not in map(letters_of, self.writings)
        # A table of numbers has no letters.
        if letters_in(first) not in (None, letters):
            return sentence("other_writing", language, writing=writing), True
        return "", False

    def weak_encoders(self, vectors: Sequence[FloatArray]) -> list[int]:
        """Return the positions of the blocks that hardly distinguish the given passages.

        `vectors`: each block's vectors of the same passages, arrays of shape (m, d_k).
        """
        return [
            block
            for block, (usual, means) in enumerate(zip(self.distance, vectors, strict=True))
            if usual and distance(means) < _ALIKE * usual
        ]


_CROSSES = 0.05  # share of pairs


def distance(vectors: FloatArray) -> float:
    """Compute 1 minus the mean cosine of two different texts; 0 if there are no vectors."""
    cosines = cosines_of_pairs(vectors[:_COMPARED])
    return float(1 - cosines.mean()) if vectors.shape[1] and len(cosines) else 0.0


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted ensemble without its encoders, as needed to search and calibrate.

    Attributes
    ----------
    names : tuple of K str
        Names of the encoders.
    space : {"direct", "shared"}
    beta : float
        How strongly sigma_s^2 lowers a score.
    posteriors : tuple of K Posterior, or None
        None before `UEC.fit`, when variances are 0 and slopes 1.
    training_profile : TrainingProfile or None
        Summary of the texts of the fit; None if not known.
    """

    names: tuple[str, ...]
    space: Space
    rule: CoefficientRule
    beta: float = 1.0
    posteriors: tuple[Posterior, ...] | None = None
    confidence_model: ConfidenceModel | None = None
    report: FitReport | None = None
    training_profile: TrainingProfile | None = None

    @property
    def block_names(self) -> tuple[str, ...]:
        """The names of the blocks: the encoders', or one for all in the shared space."""
        return self.names if self.space == "direct" else ("+".join(self.names),)

    @cached_property
    def slopes(self) -> list[float]:
        """The slope a_k of each block's logit a_k s_k + b_k; 1 before `UEC.fit`."""
        if self.posteriors is None:
            return [1.0] * len(self.block_names)
        slopes = [posterior.summary.slope for posterior in self.posteriors]
        return slopes if self.space == "direct" else [float(np.mean(slopes))]

    @cached_property
    def intercepts(self) -> list[float]:
        """The intercept b_k of each encoder's logit a_k s_k + b_k; 0 before `UEC.fit`."""
        if self.posteriors is None:
            return [0.0] * len(self.names)
        return [posterior.summary.intercept for posterior in self.posteriors]

    @cached_property
    def slope(self) -> float:
        """The slope of the ensemble's logit: the mean of the blocks' slopes."""
        return float(np.mean(self.slopes))

    @cached_property
    def weights(self) -> FloatArray:
        """The weight w_k of each block's cosine: its slope divided by the mean slope."""
        return convolution.block_weights(self.slopes)

    @property
    def evidence_weights(self) -> EvidenceWeights | None:
        """The weights of the rule "adaptive"; None for another rule."""
        return self.rule.weights if isinstance(self.rule, Evidence) else None

    def foreign_corpus(self, texts: Sequence[str], vectors: Sequence[FloatArray]) -> str | None:
        """Return a warning if encoders cannot distinguish passages due to their language, or None.

        `texts`: texts of the passages. `vectors`: each block's means of them, arrays of shape
        (m, d_k).
        """
        profile = self.training_profile
        if profile is None:
            return None
        most = writings(texts[:_COMPARED], least=0.5)
        strange = [name for name in most if name not in profile.writings]
        weak = profile.weak_encoders(vectors) if strange else []
        if not weak:
            return None
        names = ", ".join(repr(self.block_names[block]) for block in weak)
        words = 0 in profile.distance
        so = "what is found is found by its words" if words else "its similarities say little"
        also = "" if words else ', or "bm25"'
        return (
            f"Most of these passages are in {strange[0]}, which the fit pairs did not contain, "
            f"and {names} cannot tell them apart: {so}, and confidence is low. Add an encoder "
            f"that knows the language{also}, and fit it on pairs in that language."
        )

    def gaussians(self, encoded: Sequence[Encoded]) -> list[Gaussian]:
        """Compute the `blocks` of texts that the encoders have encoded."""
        if self.posteriors is None:
            return self.blocks([Gaussian.certain(each.embedding, each.blocks) for each in encoded])
        pairs = zip(self.posteriors, encoded, strict=True)
        return self.blocks([posterior.gaussian(encoding) for posterior, encoding in pairs])

    def blocks(self, parts: Sequence[Gaussian]) -> list[Gaussian]:
        """Return the Gaussians that are searched, given each encoder's.

        They are the same, side by side in the direct sum. The shared space is one block: the
        encoders' convolution, with their coefficients by the rule (paper eqs. 1 and 4).
        """
        if self.space == "direct":
            return [*parts]
        return [convolution.convolve_shared(parts, self._apply_rule(parts))]

    def _apply_rule(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Return the rule's coefficients; uniform ones if it needs evidence from a corpus."""
        return (self.rule if callable(self.rule) else Uniform())(parts)

    def coefficients(self, parts: Sequence[Gaussian], role: Role) -> FloatArray:
        """Compute the coefficients of blocks from their Gaussians alone, shape (n, K).

        Those of passages are uniform: coefficients that differ from those of the query reduced the
        quality of retrieval. `weigh` computes coefficients from a corpus.
        """
        if role == "passage" or len(parts) == 1:
            return Uniform()(parts)
        return self._apply_rule(parts)

    def weigh(
        self,
        weights: EvidenceWeights | None,
        parts: Sequence[Gaussian],
        own: Sequence[FloatArray],
        best: FloatArray,
    ) -> FloatArray:
        """Compute the coefficients of queries from the evidence of a corpus, shape (n, K).

        A lexical encoder is left out if no passage has any word of the query.

        Parameters
        ----------
        weights : EvidenceWeights or None
            If None, the rule of the ensemble determines the coefficients.
        parts : sequence of K Gaussian
            Each encoder's Gaussians of the queries.
        own : sequence of K arrays, shape (n, N)
            Each block's similarities to the searched corpus.
        best : array, shape (n, K)
            The maximum of these similarities.
        """
        if weights is None:
            pi = self.coefficients(parts, "query")
        else:
            traces = self.standardise_traces(parts)
            evidence = convolution.corpus_evidence(own, self.slopes, self.intercepts, traces)
            pi = weights.coefficients(evidence)
        words = np.array([bool(part.terms) for part in parts])
        left = np.where((best > 0) | ~words, pi, np.float32(0))
        total = left.sum(axis=1, keepdims=True)
        # If no encoder is left, the coefficients stay unchanged.
        shares: FloatArray = np.where(total > 0, left / np.maximum(total, 1e-30), pi)
        return shares.astype(np.float32)

    def combine_as(self, parts: Sequence[Gaussian], role: Role) -> Gaussian:
        """Combine the blocks by the `coefficients` of texts in this role."""
        return self.combine(parts, self.coefficients(parts, role))

    def combine(self, parts: Sequence[Gaussian], coefficients: FloatArray) -> Gaussian:
        """Combine the blocks with given coefficients, in the direct sum of their spaces."""
        if self.space == "shared":
            return parts[0]  # a single block, which has the encoders' coefficients
        return convolution.direct_sum(parts, coefficients, self.weights)

    def encoder_coefficients(
        self, parts: Sequence[Gaussian], coefficients: FloatArray
    ) -> FloatArray:
        """Return the encoders' coefficients of texts, given those of their blocks, shape (n, K)."""
        if self.space == "direct":
            return coefficients
        [block] = parts
        assert block.coefficients is not None  # as `blocks` made it
        return block.coefficients

    def block_intercepts(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Return the intercept of each block's logit for texts, shape (n, K)."""
        intercepts = np.asarray(self.intercepts, np.float32)
        if self.space == "direct":
            return np.tile(intercepts, (len(parts[0]), 1))
        ones = np.ones((len(parts[0]), 1), dtype=np.float32)
        of_block: FloatArray = self.encoder_coefficients(parts, ones) @ intercepts
        return of_block[:, None]

    def logit_line(
        self, parts: Sequence[Gaussian], coefficients: FloatArray
    ) -> tuple[np.float32, FloatArray]:
        """Return slope and offset (n,) of ``sum_k pi_k (a_k s_k + b_k)`` as a function of mu_s."""
        offset: FloatArray = (coefficients * self.block_intercepts(parts)).sum(axis=1)
        return np.float32(self.slope), offset

    def member_logits(self, parts: Sequence[Gaussian], own: FloatArray) -> FloatArray:
        """Compute each block's logits ``a_k s_k + b_k`` of its similarities, shape (n, ..., K)."""
        intercepts = self.block_intercepts(parts)
        logits: FloatArray = np.asarray(self.slopes, np.float32) * own
        return logits + (intercepts if own.ndim == 2 else intercepts[:, None])

    def disagreement(
        self, own: FloatArray, best: FloatArray, coefficients: FloatArray
    ) -> FloatArray:
        """Compute the between-encoder variance, shape (n, k).

        It is ``sum_k pi_k (o_k - sum_j pi_j o_j)^2``, the variance of the encoders' opinions, the
        between-group term of the law of total variance. An encoder's opinion of a passage is the
        ratio of its odds to those of the best passage in the corpus, o_k = exp(l_k - max l_k) from
        0 to 1, since logits have an offset that depends on the query and not on the passage. The
        variance is 0 for one encoder, and before `UEC.fit`.

        Parameters
        ----------
        own : array, shape (n, K, k)
            Each encoder's similarities to the hits.
        best : array, shape (n, K)
            Each encoder's highest similarity to the corpus.
        coefficients : array, shape (n, K)
        """
        if self.posteriors is None or own.shape[1] == 1:
            return np.zeros((len(own), own.shape[2]), dtype=np.float32)
        slopes = np.asarray(self.slopes, np.float32)[:, None]
        odds = np.exp(np.minimum(slopes * (own - best[:, :, None]), 0))
        pi = coefficients[:, :, None]
        mean = (pi * odds).sum(axis=1, keepdims=True)
        spread: FloatArray = (pi * (odds - mean) ** 2).sum(axis=1)
        return spread

    def standardise_traces(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Compute the log total variance of queries, standardised per encoder, shape (n, K)."""
        if self.posteriors is None:
            return np.zeros((len(parts[0]), len(parts)), dtype=np.float32)
        traces = np.empty((len(parts[0]), len(parts)), dtype=np.float32)
        for member, (posterior, part) in enumerate(zip(self.posteriors, parts, strict=True)):
            traces[:, member] = posterior.standardise_log_trace(part)
        return traces

    def shares(self, coefficients: FloatArray) -> FloatArray:
        """Compute each encoder's share, ``pi_k w_k`` normalised to a sum of 1, shape (n, K).

        In the direct sum, a similarity is ``sum_k pi_k w_k s_k``, so an encoder with slope 0 has no
        effect, whatever its coefficient is.
        """
        counted = coefficients * self.weights
        total = np.maximum(counted.sum(axis=1, keepdims=True), np.float32(1e-30))
        shares: FloatArray = counted / total
        return shares
