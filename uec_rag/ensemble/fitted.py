"""The options and results of a fit, and the computations that need no encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypedDict, get_args

import numpy as np

from uec_rag.base.checks import check_beta, did_you_mean
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.records import Record, cached_property
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.encoders.base import Encoded, LastLayer, Role
from uec_rag.encoders.notations import letters_in, letters_of, writing_of, writings
from uec_rag.ensemble import convolution
from uec_rag.ensemble.convolution import Rule, Space
from uec_rag.laplace.pairs import Negatives
from uec_rag.laplace.posterior import Posterior, PosteriorSummary, Structure
from uec_rag.questions.languages import ENGLISH, sentence


class FitKeywords(TypedDict, total=False):
    """The fields of `FitOptions` as keywords of `UEC`."""

    space: Space
    structure: Structure
    temperature: float | None
    negatives: Negatives
    scaled: bool
    last_layer: LastLayer
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
    negatives : {"hard", "random"}
        Negatives of a query: a random and a hard passage, or only a random one.
    scaled : bool
        Whether to scale the variance of a posterior to the held-out pairs.
    last_layer : {"projection", "ffn"}
        Layer of the posterior; "ffn" needs a transformer with accessible weights, and falls back to
        "projection" with a warning.
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
    negatives: Negatives = "hard"
    scaled: bool = True
    last_layer: LastLayer = "projection"
    beta: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, choices in _ALLOWED.items():
            value = getattr(self, name)
            if value not in choices:
                advice = did_you_mean(value, choices) or "."
                raise ValueError(f"{name}: expected one of {choices}, got {value!r}{advice}")
        object.__setattr__(self, "beta", check_beta(self.beta))


_ALLOWED = {
    "space": get_args(Space),
    "structure": get_args(Structure),
    "negatives": get_args(Negatives),
    "last_layer": get_args(LastLayer),
}

PAPER: Mapping[str, Any] = {
    "space": "shared",
    "structure": "diag",
    "negatives": "random",
    "scaled": False,
    "last_layer": "ffn",
    "beta": 0.01,
}
"""The options of `UEC.paper`, by name."""


@dataclass(frozen=True)
class FitReport(Record):
    """The report of `UEC.fit`.

    Attributes
    ----------
    encoders : dict
        Maps the name of each encoder to its `PosteriorSummary` (slope, prior precision, scale,
        pairs, held-out NLL).
    seconds : float
        Time that the fit took.
    source : str
        What the ensemble was fitted on if not fitted by the user, as that of `UEC()`.
    """

    encoders: dict[str, PosteriorSummary]
    seconds: float
    source: str = ""

    def __str__(self) -> str:
        """Return a line per encoder, and what it was fitted on or how long that took."""
        lines = [
            f"{name}: slope {s.slope:.1f}, prior precision {s.prior_precision:.2g}, scale "
            f"{s.scale:.2g}, held-out NLL {s.nll:.4f} ({s.nll_deterministic:.4f} without variance)"
            for name, s in self.encoders.items()
        ]
        return "\n".join([*lines, self.source or f"fitted in {self.seconds:.1f} s"])


_CROSSES = 0.05  # share of pairs


@dataclass(frozen=True)
class TrainingProfile(Record):
    """A summary of the texts that an ensemble was fitted on.

    Attributes
    ----------
    writings : tuple of str
        Writings of the questions and passages, see `uec_rag.encoders.lexical`.
    crosses_scripts : bool
        Whether passages answer questions in other scripts, in 5 % of the pairs or more. The models
        are then multilingual, and no script is unknown to them.
    """

    writings: tuple[str, ...]
    crosses_scripts: bool = False

    @classmethod
    def from_pairs(cls, pairs: Sequence[tuple[str, str]]) -> Self:
        """Summarise fit pairs."""
        scripts = [{letters_in(text) for text in pair} - {None} for pair in pairs]
        return cls(
            writings(text for pair in pairs for text in pair),
            sum(len(pair) > 1 for pair in scripts) >= _CROSSES * len(scripts),
        )

    def unfamiliar(self, question: str, passage: str, language: str = ENGLISH) -> tuple[str, bool]:
        """Return how a question differs from those of the fit, "" if it does not, and if by script.

        In an unknown script, all similarities of an encoder are high, but not those of a lexical
        one. In another language of a known script, confidence tends to be too low rather than too
        high, so the difference is only reported. Multilingual models support all of them.

        `passage`: text of the best hit; "" if there is none. `language`: that of the difference.
        """
        writing = writing_of(question)
        if writing is None or self.crosses_scripts:
            return "", False
        letters = letters_of(writing)
        if writing not in self.writings:
            reason = sentence("unknown_writing", language, writing=writing)
            return reason, letters not in map(letters_of, self.writings)
        # A table of numbers has no letters.
        if letters_in(passage) not in (None, letters):
            return sentence("other_writing", language, writing=writing), True
        return "", False


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted ensemble without its encoders, as needed to search and calibrate.

    Attributes
    ----------
    names : tuple of K str
        Names of the encoders.
    options : FitOptions
    rule : Rule
    posteriors : tuple of K Posterior, or None
        None before `UEC.fit`, when variances are 0 and slopes 1.
    training_profile : TrainingProfile or None
        Summary of the texts of the fit; None if not known.
    """

    names: tuple[str, ...]
    options: FitOptions
    rule: Rule
    posteriors: tuple[Posterior, ...] | None = None
    confidence_model: ConfidenceModel | None = None
    report: FitReport | None = None
    training_profile: TrainingProfile | None = None

    @cached_property
    def is_direct(self) -> bool:
        """True if the Gaussians are side by side in a direct sum."""
        return self.options.space == "direct"

    @cached_property
    def block_names(self) -> tuple[str, ...]:
        """The names of the blocks: the encoders', or one for all in the shared space."""
        return self.names if self.is_direct else ("+".join(self.names),)

    @cached_property
    def slopes(self) -> list[float]:
        """The slope a_k of each block's logit a_k s_k + b_k; 1 before `UEC.fit`."""
        if self.posteriors is None:
            return [1.0] * len(self.block_names)
        slopes = [posterior.summary.slope for posterior in self.posteriors]
        return slopes if self.is_direct else [float(np.mean(slopes))]

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

    @cached_property
    def lengths(self) -> FloatArray:
        """The factor of each block of passages' vectors in their means."""
        return convolution.block_scales(self.weights)

    def gaussians(self, encoded: Sequence[Encoded]) -> list[Gaussian]:
        """Compute the `blocks` of texts that the encoders have encoded."""
        if self.posteriors is None:
            parts = [Gaussian.certain(part.embedding, part.blocks) for part in encoded]
        else:
            pairs = zip(self.posteriors, encoded, strict=True)
            parts = [posterior.gaussian(encoding) for posterior, encoding in pairs]
        return parts if self.is_direct else self.blocks(parts)

    def blocks(self, parts: Sequence[Gaussian]) -> list[Gaussian]:
        """Return the Gaussians that are searched, given each encoder's.

        They are the same, side by side in the direct sum. The shared space is one block: the
        encoders' convolution, with their coefficients by the rule (paper eqs. 1 and 4).
        """
        if self.is_direct:
            return [*parts]
        convolution.check_one_space([part.dimension for part in parts])
        return [convolution.convolve_shared(parts, self.rule(parts))]

    def coefficients(self, parts: Sequence[Gaussian], role: Role) -> FloatArray:
        """Compute the coefficients of blocks from their Gaussians alone, shape (n, K).

        Those of passages are uniform: coefficients that differ from those of the query reduced the
        quality of retrieval. `weigh` computes coefficients from a corpus.
        """
        if role == "passage" or len(parts) == 1:
            return Rule("uniform")(parts)
        return self.rule(parts)

    def weigh(
        self, parts: Sequence[Gaussian], similarities: Sequence[FloatArray], best: FloatArray
    ) -> FloatArray:
        """Compute the coefficients of queries from the evidence of a corpus, shape (n, K).

        Before evidence weights are learned, they are those of the rule. A lexical encoder is left
        out if no passage has any word of the query, and one that failed, whose means are zeros.

        Parameters
        ----------
        parts : sequence of K Gaussian
            Each encoder's Gaussians of the queries.
        similarities : sequence of K arrays, shape (n, N)
            Each block's similarities to the searched corpus: all, or the highest.
        best : array, shape (n, K)
            The maximum of these similarities.
        """
        if (weights := self.rule.evidence) is None:
            pi = self.coefficients(parts, "query")
        else:
            evidence = convolution.corpus_evidence(similarities, self.slopes, self.intercepts)
            pi = weights.coefficients(evidence)
        may_lack = np.array([bool(part.terms) or not part.mean.any() for part in parts])
        portions = np.where((best > 0) | ~may_lack, pi, np.float32(0))
        total = portions.sum(axis=1, keepdims=True)
        # If no encoder is left, the coefficients stay unchanged.
        shares: FloatArray = np.where(total > 0, portions / np.maximum(total, 1e-30), pi)
        return shares.astype(np.float32)

    def combine_as(self, parts: Sequence[Gaussian], role: Role) -> Gaussian:
        """Combine the blocks by the `coefficients` of texts in this role."""
        return self.combine(parts, self.coefficients(parts, role))

    def passages(self, encodings: Sequence[Encoded]) -> Gaussian:
        """Compute the Gaussians of passages from what each encoder made of them."""
        return self.combine_as(self.gaussians(encodings), "passage")

    def as_query(self, parts: Sequence[Gaussian], coefficients: FloatArray) -> Gaussian:
        """Return queries whose products with passages' vectors, side by side, are about mu_s."""
        if not self.is_direct:  # nearly: the means of passages have length 1
            count = len(self.names)
            return Gaussian.certain(np.tile(parts[0].mean / np.float32(count), count))
        weighed = [*zip(parts, (coefficients * self.weights).T, strict=True)]
        means = [part.mean * weight[:, None] for part, weight in weighed]
        terms = [block.scale_by(weight) for part, weight in weighed for block in part.terms]
        return Gaussian.certain(np.concatenate(means, axis=1), terms)

    def combine(self, parts: Sequence[Gaussian], coefficients: FloatArray) -> Gaussian:
        """Combine the blocks with given coefficients, in the direct sum of their spaces."""
        if not self.is_direct:
            return parts[0]  # a single block, which has the encoders' coefficients
        return convolution.direct_sum(parts, coefficients, self.weights)

    def encoder_coefficients(
        self, parts: Sequence[Gaussian], coefficients: FloatArray
    ) -> FloatArray:
        """Return the encoders' coefficients of texts, given those of their blocks, shape (n, K)."""
        if self.is_direct:
            return coefficients
        made_with = parts[0].coefficients  # by `blocks`; of a mixture with turns, not known
        return Rule("uniform")([parts[0]] * len(self.names)) if made_with is None else made_with

    def _intercepts_of(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Return the intercept of each block's logit for texts, shape (n, K)."""
        intercepts = np.asarray(self.intercepts, np.float32)
        if self.is_direct:
            return np.tile(intercepts, (len(parts[0]), 1))
        of_block: FloatArray = self.encoder_coefficients(parts, intercepts) @ intercepts
        return of_block[:, None]

    def logit_line(
        self, parts: Sequence[Gaussian], coefficients: FloatArray
    ) -> tuple[np.float32, FloatArray]:
        """Return slope and offset (n,) of ``sum_k pi_k (a_k s_k + b_k)`` as a function of mu_s."""
        offset: FloatArray = (coefficients * self._intercepts_of(parts)).sum(axis=1)
        return np.float32(self.slope), offset

    def member_logits(self, parts: Sequence[Gaussian], similarities: FloatArray) -> FloatArray:
        """Compute each block's logits ``a_k s_k + b_k`` of its similarities, shape (n, ..., K)."""
        intercepts = self._intercepts_of(parts)
        logits: FloatArray = np.asarray(self.slopes, np.float32) * similarities
        return logits + (intercepts if similarities.ndim == 2 else intercepts[:, None])

    def disagreement(
        self, similarities: FloatArray, best: FloatArray, coefficients: FloatArray
    ) -> FloatArray:
        """Compute the between-encoder variance, shape (n, k).

        It is ``sum_k pi_k (o_k - sum_j pi_j o_j)^2``, the variance of the encoders' opinions, the
        between-group term of the law of total variance. An encoder's opinion of a passage is the
        ratio of its odds to those of the best passage in the corpus, o_k = exp(l_k - max l_k) from
        0 to 1, since logits have an offset that depends on the query and not on the passage. The
        variance is 0 for one encoder, and before `UEC.fit`.

        Parameters
        ----------
        similarities : array, shape (n, K, k)
            Each encoder's similarities to the hits.
        best : array, shape (n, K)
            Each encoder's highest similarity to the corpus.
        coefficients : array, shape (n, K)
        """
        if self.posteriors is None or similarities.shape[1] == 1:
            return np.zeros((len(similarities), similarities.shape[2]), dtype=np.float32)
        slopes = np.asarray(self.slopes, np.float32)[:, None]
        odds = np.exp(np.minimum(slopes * (similarities - best[:, :, None]), 0))
        pi = coefficients[:, :, None]
        mean = (pi * odds).sum(axis=1, keepdims=True)
        spread: FloatArray = (pi * (odds - mean) ** 2).sum(axis=1)
        return spread

    def weights_by_name(self, coefficients: FloatArray) -> dict[str, float]:
        """Return each encoder's share in the scores of a text, ``pi_k w_k`` normalised to sum to 1.

        In the direct sum, a similarity is ``sum_k pi_k w_k s_k``, so an encoder with slope 0 has no
        effect, whatever its coefficient is.

        `coefficients`: array, shape (K,).
        """
        products = coefficients * self.weights
        shares = products / np.maximum(products.sum(), np.float32(1e-30))
        return dict(zip(self.names, shares.tolist(), strict=True))
