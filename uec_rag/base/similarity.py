"""Step 3: similarity between Gaussians: its moments, and the score s_hat.

`moments` and `score` take queries q (n, d) and candidates c (m, d) and return (n, m) matrices. For
divergences and distances in place of the score see `benchmarks/paper`.
"""

from __future__ import annotations

from uec_rag.base.gaussian import FloatArray, Gaussian, probit
from uec_rag.base.postings import Corpus, Postings


def moments(query: Gaussian, candidate: Gaussian) -> tuple[FloatArray, FloatArray]:
    """Compute the mean and variance of the inner product s = q.c of two Gaussians (paper eq. 5).

    ``mu_s = mu_q.mu_c`` and ``sigma_s^2 = mu_q' S_c mu_q + mu_c' S_q mu_c + tr(S_q S_c)``. The
    three terms of the variance are two matrix products:
    ``<var_c, mu_q^2 + var_q> + <mu_c^2, var_q>``. Sparse blocks add to the mean, with the
    candidates as the corpus that tells how rare a term is.

    Parameters
    ----------
    query : Gaussian, n texts
    candidate : Gaussian, m texts

    Returns
    -------
    mu : array, shape (n, m)
    sigma2 : array, shape (n, m)

    Raises
    ------
    ValueError
        If the two live in spaces of different dimension.

    Examples
    --------
    >>> q = Gaussian([[1.0, 0.0]], [[0.1, 0.1]])
    >>> c = Gaussian([[0.6, 0.8]], [[0.2, 0.2]])
    >>> mu, sigma2 = moments(q, c)
    >>> round(float(mu[0, 0]), 4), round(float(sigma2[0, 0]), 4)
    (0.6, 0.34)
    """
    if query.dimension != candidate.dimension:
        raise ValueError(
            f"candidate: expected dimension {query.dimension}, the query's, "
            f"got {candidate.dimension}."
        )
    if len(query.terms) != len(candidate.terms):
        raise ValueError(
            f"candidate: expected {len(query.terms)} blocks of terms, the query's, "
            f"got {len(candidate.terms)}."
        )
    mu: FloatArray = query.mean @ candidate.mean.T
    for asked, held in zip(query.terms, candidate.terms, strict=True):
        mu += Postings.of(held).similarities(asked, Corpus(len(held)))
    second = query.mean**2 + query.variance
    weights = second if candidate.profile is None else second @ candidate.profile.T
    sigma2: FloatArray = weights @ candidate.scales.T + query.variance @ (candidate.mean**2).T
    return mu, sigma2


def score(query: Gaussian, candidate: Gaussian, beta: float = 1.0) -> FloatArray:
    """Compute the paper's s_hat of n queries and m candidates, shape (n, m)."""
    return probit(*moments(query, candidate), beta)
