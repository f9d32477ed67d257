"""Counterevidence: a first hit that lacks a name of the question, which other passages have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Literal

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.model import shipped


@cache
def learned_ratios() -> dict[str, float]:
    """Return the log likelihood ratios of rare lacks, and the numbers of `is_first_meant`."""
    return {name: float(value) for name, value in shipped("counterevidence.json").items()}


def log_likelihood_ratio(kind: Literal["unnamed", "outside"], share: float) -> float:
    """Return what it adds to the log odds of an answer that the first hit lacks a name.

    It was learned by `benchmarks/quality/counterevidence.py`, as a ratio a of likelihoods where the
    lack is rare. It tells the less, the more passages lack the name: with a share b of them,
    P(lack | no answer) is b and P(lack | an answer) is a b / (a b + 1 - b).

    Parameters
    ----------
    kind : {"unnamed", "outside"}
        Whether the name is any, or that of a folder.
    share : float
        b, from 0 to 1.
    """
    ratio = math.exp(learned_ratios()[kind])
    return math.log(ratio / (ratio * share + 1 - share))


def counterevidence(logits: FloatArray, lacks: Sequence[float]) -> float:
    """Compute what the first hits of a question add to the log odds of an answer.

    Another of the first texts may stand in for the first one: it costs what it is less similar.

    Parameters
    ----------
    logits : array, shape (m,)
        The logits of different texts, best first, divided by the temperature.
    lacks : sequence of float
        The log likelihood ratio of the names that each of the first texts lacks, 0 if none.
    """
    if not lacks[0]:  # as nearly always
        return 0.0
    return max(float(logits[at] - logits[0]) + one for at, one in enumerate(lacks))


def is_first_meant(gap: float, *, resembles: bool) -> bool:
    """Return whether the first of hits alike is likely meant by a word that none of them has.

    It is if it is nearer than any other by enough: by another name for what is in it.

    Parameters
    ----------
    gap : float
        By how much it is nearer than the second hit, as a share of its similarity.
    resembles : bool
        Whether it alone has a word like the one that is lacking.
    """
    learned = learned_ratios()
    return learned["gap"] * gap + learned["resembles"] * resembles > learned["least"]
