"""Step 2: the coefficients of the encoders, and the convolution of their Gaussians.

The Gaussians are combined in the direct sum of their spaces, or in a shared one. A rule computes
the weight of each encoder for a text, from its variance or from the evidence of a corpus.

A variance depends on the query alone. That an encoder is unreliable for a query shows in its
similarities to the corpus: no passage stands out, or every passage looks relevant.
`corpus_evidence` measures this on the best passages, and `EvidenceWeights` maps it to coefficients.

A question with turns before it is their convolution, too (`in_context`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from uec_rag.base.checks import LARGEST, did_you_mean
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms, together
from uec_rag.base.records import Record
from uec_rag.base.similarity import softmax
from uec_rag.questions import grammar
from uec_rag.questions.phrasing import Phrasing

Space = Literal["direct", "shared"]


def block_weights(slopes: Sequence[float]) -> FloatArray:
    """Compute the weight of each encoder's cosine in a direct sum, shape (K,), mean 1.

    The slope a_k converts a cosine of encoder k to a logit. Dividing by the mean slope keeps the
    ensemble's similarity on the scale of a cosine.

    Examples
    --------
    >>> block_weights([20.0, 60.0]).tolist()
    [0.5, 1.5]
    """
    slopes_ = np.asarray(slopes, dtype=np.float64)
    weights: FloatArray = (slopes_ / slopes_.mean()).astype(np.float32)
    return weights


def direct_sum(
    parts: Sequence[Gaussian], coefficients: FloatArray, weights: FloatArray
) -> Gaussian:
    """Convolve the encoders' Gaussians in the direct sum of their spaces.

    ``z = [c_1 pi_1 z_1; ...; c_K pi_K z_K]`` with ``c_k = sqrt(K w_k)``. This is eq. 1 of the
    paper, but each encoder has its own axes, so that dimensions may differ and cross terms vanish.
    With uniform coefficients and weights w of mean 1, the mean has norm 1. With query coefficients
    pi and passage coefficients 1/K, the similarity is the weighted sum of those of the encoders,
    ``mu_s = sum_k pi_k w_k s_k``.

    Parameters
    ----------
    parts : sequence of Gaussian
        One batch per encoder, each of n texts.
    coefficients : array, shape (n, K)
        Convex weights pi of each text.
    weights : array, shape (K,)
        Weight w_k of each encoder's similarity, mean 1 (see `block_weights`).

    Returns
    -------
    Gaussian
        n Gaussians of dimension sum_k d_k, with these `coefficients` and the d_k as `widths`. The
        sparse blocks of encoders without vectors are scaled in the same way.
    """
    profiles = [part.profile for part in parts if part.profile is not None]
    factored = len(profiles) == len(parts)
    widths, means, spreads, terms = [], [], [], []
    for part, factor in zip(parts, block_scales(weights, coefficients).T, strict=True):
        means.append(part.mean * factor[:, None])
        spreads.append((part.scales if factored else part.variance) * (factor**2)[:, None])
        terms += [block.scale_by(factor) for block in part.terms]
        if part.mean.shape[1]:
            widths.append(part.mean.shape[1])
    mean, spread = np.concatenate(means, 1), np.concatenate(spreads, 1)
    if not factored:
        return Gaussian(mean, spread, coefficients, widths or [0], terms)
    # A block-diagonal matrix of the profiles.
    profile = np.zeros((spread.shape[1], mean.shape[1]), np.float32)
    row = column = 0
    for block in profiles:
        height, width = block.shape
        profile[row : row + height, column : column + width] = block
        row, column = row + height, column + width
    return Gaussian.from_checked(mean, spread, profile, coefficients, widths or [0], terms)


def block_scales(weights: FloatArray, coefficients: FloatArray | None = None) -> FloatArray:
    """Compute the length of each encoder's block in a direct sum, ``c_k pi_k``, shape (n, K).

    By default, the coefficients are those of every passage, 1 / K, and the shape is (K,).
    """
    pi = np.float32(1 / len(weights)) if coefficients is None else coefficients
    scales: FloatArray = np.sqrt(len(weights) * np.asarray(weights, dtype=np.float32)) * pi
    return scales


def convolve_shared(parts: Sequence[Gaussian], coefficients: FloatArray) -> Gaussian:
    """Convolve Gaussians in one shared space, and scale means to length 1 (paper eq. 1).

    The result is ``N(sum pi_k mu_k, sum pi_k^2 Sigma_k)``. As in the paper, the mean is normalised
    before scoring; the variance is scaled accordingly.

    `coefficients`: array, shape (n, K), as in `direct_sum`.
    """
    weighed = list(zip(parts, coefficients.T, strict=True))
    mean = sum((part.mean * pi[:, None] for part, pi in weighed), np.float32(0))
    norm = np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), np.float32(1e-12))
    variance = sum(part.variance * (pi[:, None] ** 2 / norm**2) for part, pi in weighed)
    return Gaussian(mean / norm, variance, coefficients)


def check_one_space(dimensions: Sequence[int]) -> None:
    """Raise ValueError unless encoders of these dimensions can share a space."""
    if len(set(dimensions)) > 1 or not all(dimensions):
        raise ValueError(
            "space: 'shared' averages vectors of one dimension, and words have none, got "
            f"{list(dimensions)}; use space='direct'."
        )


@dataclass(frozen=True)
class Rule(Record):
    """A rule for the convex weights of the encoders.

    Attributes
    ----------
    name : {"adaptive", "trace", "uniform", "fixed"}
        "adaptive" weighs by each encoder's similarities to the corpus: a search uses `evidence`.
        Without a corpus, and before `UEC.fit` has learned it, all encoders weigh the same. "trace"
        is the paper's rule: a softmax of the negative total variances (paper eq. 4).
    temperature : float
        T > 0 of "trace", in the unit of the traces, which depends on the encoder and the fit. Small
        values favour the encoder of the lowest variance; large values give nearly equal weights.
    weights : tuple of K floats
        Those of "fixed", at least 0, with a positive sum; they need not sum to 1.
    evidence : EvidenceWeights, optional
        The weights of "adaptive".

    Examples
    --------
    >>> low, high = Gaussian([[1.0]], [[0.1]]), Gaussian([[1.0]], [[2.3]])
    >>> bool(np.allclose(Rule("trace", temperature=1.0)([low, high]), [[0.9, 0.1]], atol=1e-3))
    True
    """

    name: Literal["adaptive", "trace", "uniform", "fixed"]
    temperature: float = 1.5
    weights: tuple[float, ...] = ()
    evidence: EvidenceWeights | None = None

    def __call__(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Compute the weights of n texts from the encoders' Gaussians, shape (n, K)."""
        if self.name == "trace":
            traces = np.stack([part.trace for part in parts], axis=1)
            return softmax(-traces / np.float32(self.temperature))
        weights = np.asarray(self.weights or [1.0] * len(parts))
        return np.tile((weights / weights.sum()).astype(np.float32), (len(parts[0]), 1))


def make_rule(
    spec: str | Sequence[float] | Mapping[str, float] | None,
    names: Sequence[str],
    temperature: float | None = None,
    space: Space = "direct",
) -> Rule:
    """Make a rule from the argument `coefficients` of `UEC`.

    Parameters
    ----------
    spec : str, sequence, mapping or None
        "adaptive", "trace", "uniform", one weight per encoder, or a mapping of encoder names to
        weights. None means "adaptive" in the direct sum and "trace" in the shared space.
    names : sequence of str
        Names of the encoders, in order.
    temperature : float, optional
        T of "trace", 1.5 by default.
    space : {"direct", "shared"}

    Raises
    ------
    TypeError, ValueError
        If `spec` is of another type, a name is unknown, the number of weights is not that of the
        encoders, or the rule cannot be used in the space.
    """
    if spec is None:
        spec = "adaptive" if space == "direct" else "trace"
    if isinstance(spec, str):
        if spec not in _NAMES:
            raise ValueError(f"{_EXPECTED}, got {spec!r}{did_you_mean(spec, _NAMES) or '.'}")
        if spec == "adaptive" and space == "shared":
            raise ValueError(
                "coefficients: 'adaptive' needs the similarities of each encoder, which a shared "
                "space does not keep; use space='direct', or coefficients='trace'."
            )
        scale = 1.5 if temperature is None else float(temperature)
        if not 0 < scale <= LARGEST:
            raise ValueError(f"temperature: expected a number > 0, got {temperature!r:.60}.")
        return Rule(cast(Any, spec), scale)
    if isinstance(spec, Mapping):
        if set(spec) != set(names):
            raise ValueError(
                f"coefficients: expected a weight for each of {list(names)}, got {list(spec)}."
            )
        spec = [spec[name] for name in names]
    if not isinstance(spec, Iterable):
        raise TypeError(f"{_EXPECTED}, got {spec!r}.")
    weights = tuple(spec)
    are_valid = all(0 <= weight <= LARGEST for weight in weights) and sum(weights) > 0
    if len(weights) != len(names) or not are_valid:
        raise ValueError(
            f"coefficients: expected {len(names)} weights >= 0, one per encoder, with a positive "
            f"sum, within the range of float32, got {weights!r:.200}."
        )
    return Rule("fixed", weights=tuple(map(float, weights)))


_NAMES = ("adaptive", "trace", "uniform")
_EXPECTED = (
    "coefficients: expected 'adaptive', 'trace', 'uniform', one weight per encoder or a mapping "
    "from encoder name to weight"
)


LEADERS = 30
"""The number of highest similarities of each encoder that evidence is computed from."""

_NEXT = 10  # number of highest logits that the gap is computed from

FEATURES = ("entropy", "gap", "top", "base", "deviation")
"""The evidence of each encoder on a query, from its `LEADERS` highest logits a_k s_k + b_k:

- entropy: entropy of their softmax, divided by the log of their number;
- gap: log(1 + top logit - mean of the next nine);
- top: log of the distance of the top logit from their mean, in standard deviations;
- base: their mean, which is high if all passages look similar to an encoder, as in a language that
  it does not know;
- deviation: log of their standard deviation. If an encoder is uninformative, a large deviation adds
  noise to the sum.
"""

_STANDARD_RANGE = 6.0


def corpus_evidence(
    similarities: Sequence[FloatArray], slopes: Sequence[float], intercepts: Sequence[float]
) -> FloatArray:
    """Compute the evidence on every encoder for every query.

    Parameters
    ----------
    similarities : sequence of K arrays, shape (n, N)
        Similarities of n queries to N passages for each encoder: all, or a superset of the
        `LEADERS` highest.
    slopes, intercepts : sequence of K floats
        Slope and intercept of each encoder's logit, ``a_k s_k + b_k``.

    Returns
    -------
    array, shape (n, K, F)
        Features in the order of `FEATURES`.

    Examples
    --------
    >>> import numpy as np
    >>> clear, flat = np.eye(4, dtype="f4")[:1], np.full((1, 4), 0.5, "f4")
    >>> evidence = corpus_evidence([clear, flat], [20, 20], [-10, -10])
    >>> dict(zip(FEATURES, evidence[0, 1].round(2).tolist()))["entropy"]
    1.0
    """
    count = min(LEADERS, similarities[0].shape[1])
    # By `partition`, since sorting all passages would take longer than comparing them.
    best = np.stack([np.partition(values, -count, axis=1)[:, -count:] for values in similarities])
    slope, intercept = (
        np.reshape(np.array(of, np.float32), (len(similarities), 1, 1))
        for of in (slopes, intercepts)
    )
    logits = slope * -np.sort(-best, axis=2) + intercept
    mean, spread = logits.mean(axis=2), np.maximum(logits.std(axis=2), np.float32(1e-3))
    share = softmax(logits)
    entropy = -(share * np.log(np.maximum(share, np.float32(1e-30)))).sum(axis=2)
    lead, following = logits[:, :, 0], logits[:, :, 1:_NEXT]
    gap = np.log1p(lead - following.mean(axis=2)) if count > 1 else np.zeros_like(lead)
    top = np.maximum((lead - mean) / spread, np.float32(0.01))
    of_members = [
        np.minimum(entropy / np.log(max(count, 2)), 1),
        gap,
        np.log(top),
        mean,
        np.log(spread),
    ]
    return np.stack([of_each.T for of_each in of_members], axis=2).astype(np.float32)


@dataclass(frozen=True)
class EvidenceWeights(Record):
    """The weights that map evidence to coefficients: a softmax of linear scores of the encoders.

    Attributes
    ----------
    weights : tuple of F floats
        Weights of the standardised features, the same for all encoders.
    location, spread : tuple of F floats
        Features are standardised as ``(feature - location) / spread``.
    prior : tuple of K floats
        Constant term of each encoder's score.
    """

    weights: tuple[float, ...]
    location: tuple[float, ...]
    spread: tuple[float, ...]
    prior: tuple[float, ...]

    def coefficients(self, evidence: FloatArray) -> FloatArray:
        """Compute the convex weights of each query, shape (n, K), from evidence (n, K, F)."""
        standard = standardise(evidence, self.location, self.spread)
        # Not a matrix product: BLAS may raise the flag of an invalid value for so small a matrix.
        scores = (standard * np.asarray(self.weights, np.float32)).sum(axis=-1)
        return softmax(scores + np.asarray(self.prior, np.float32))


def standardise(
    evidence: FloatArray, location: Sequence[float], spread: Sequence[float]
) -> FloatArray:
    """Compute ``(evidence - location) / spread``, clipped to limit the effect of outliers."""
    centred = (evidence - np.asarray(location, np.float32)) / np.asarray(spread, np.float32)
    return np.clip(centred, -_STANDARD_RANGE, _STANDARD_RANGE)


# Total weight of the turns before a question, and the same if the question refers to them ("Where
# was it built?", "And the price?"). They were not learned; see benchmarks/results/conversation.md.
_SHARE, _SHARE_IF_REFERRED_TO = 1 / 3, 1 / 2
_DECAY = 0.7  # weight of a turn relative to the next: subjects change
_ANSWER = 0.4  # weight of the answer to the last turn relative to the turns: small


def in_context(
    phrasings: Sequence[Phrasing], rows: Mapping[str, int], parts: Sequence[Gaussian]
) -> list[Gaussian]:
    """Combine each of n questions with the turns before it, for each encoder, by convolution.

    The Gaussian is ``N(sum_j c_j mu_j, sum_j c_j^2 Sigma_j)`` over a question (j = 0) and the turns
    before it (the j-th one back). The coefficient of the question is 2/3, or 1/2 if it refers back;
    those of the turns are proportional to ``0.7^j`` and sum to the rest. The answer to the last
    turn takes 2/5 of this rest, off all in proportion. In the bag of words, the
    weight of a term is ``sum_j c_j w_j |w_0| / |w_j|``, where |w| is the number of terms in a bag,
    so that a long turn does not outweigh a short question.

    Parameters
    ----------
    phrasings : sequence of n Phrasing
    rows : mapping of str to int
        The row of each text, of questions and of their turns, in `parts`.
    parts : sequence of K Gaussian
        Each encoder's Gaussians of the texts.
    """
    firsts = [rows[phrasing.text] for phrasing in phrasings]
    if not any(phrasing.turns for phrasing in phrasings):
        is_same = firsts == [*range(len(parts[0]))]
        return [part if is_same else part[firsts] for part in parts]
    shares = np.zeros((len(phrasings), len(parts[0])), dtype=np.float32)
    for of_question, place, phrasing in zip(shares, firsts, phrasings, strict=True):
        share = 0.0
        if phrasing.turns:
            share = _SHARE_IF_REFERRED_TO if grammar.refers_back(phrasing.text) else _SHARE
            by_age = _DECAY ** np.arange(len(phrasing.turns))[::-1]
            np.add.at(
                of_question, [rows[turn] for turn in phrasing.turns], share * by_age / by_age.sum()
            )
        of_question[place] += 1 - share
        if phrasing.answer:
            of_question *= 1 - _ANSWER * share
            of_question[rows[phrasing.answer]] += _ANSWER * share
    mixed = []
    for part in parts:
        mean, scales = shares @ part.mean, shares**2 @ part.scales
        terms = [
            together([_mix_bags(block, *pair) for pair in zip(firsts, shares, strict=True)])
            for block in part.terms
        ]
        mixed.append(Gaussian.from_factors(mean, scales, part.profile, terms=terms))
    return mixed


def _mix_bags(terms: Terms, row: int, shares: FloatArray) -> Terms:
    """Combine the bags of words with a nonzero share; `row` is the question's.

    A word is written as in the question or else the latest turn, whatever else is asked beside it.
    """
    order = np.argsort(-shares, kind="stable")[: np.count_nonzero(shares)]
    rows = np.array([row, *order[order != row]])
    bags = terms[rows]
    sizes = np.diff(bags.starts)
    # A question without words is given the size of the largest turn.
    size = np.float32(sizes[0] or sizes.max())
    factor = len(rows) * shares[rows] * size / np.maximum(sizes, 1)
    return bags.weigh_terms(np.repeat(factor, sizes).astype(np.float32)).average
