"""Fitting an ensemble: encode the pairs once, fit every posterior, learn the evidence gate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, get_args

import numpy as np

from uec_rag.encoders import Encoded, Encoder, Role
from uec_rag.evidence import EvidenceGate
from uec_rag.evidence_fit import fit_gate
from uec_rag.laplace.fit import fit_posterior
from uec_rag.laplace.likelihood import Likelihood
from uec_rag.laplace.pairs import Pairs
from uec_rag.laplace.posterior import Posterior, Structure
from uec_rag.report import FitReport

ROLES: tuple[Role, ...] = get_args(Role)

_GATE_QUERIES = 600
_GATE_PASSAGES = 3000


@dataclass(frozen=True, eq=False)
class Fitted:
    """What fitting an ensemble gives.

    Attributes
    ----------
    posteriors : list of Posterior
        One per encoder.
    gate : EvidenceGate or None
        Where it was asked for.
    report : FitReport
    """

    posteriors: list[Posterior]
    gate: EvidenceGate | None
    report: FitReport


@dataclass(frozen=True, eq=False)
class _Encodings:
    """One encoder's encodings of distinct texts of one role, by text."""

    encoded: Encoded
    place: dict[str, int]

    @classmethod
    def of(cls, encoder: Encoder, pairs: Sequence[Pairs], role: Role, show_progress: bool) -> Self:
        texts = list(dict.fromkeys(text for own in pairs for text in _texts(own, role)))
        encoded = encoder.encode(texts, role, show_progress=show_progress)
        return cls(encoded, {text: row for row, text in enumerate(texts)})

    def select(self, texts: Sequence[str]) -> Encoded:
        rows = [self.place[text] for text in texts]
        return Encoded(self.encoded.embedding[rows], self.encoded.features[rows])


def fit_ensemble(
    encoders: Sequence[Encoder],
    names: Sequence[str],
    pairs: Sequence[Pairs],
    *,
    structure: Structure,
    likelihood: Likelihood,
    gated: bool,
    seed: int,
    show_progress: bool,
) -> Fitted:
    """Fit the posteriors of all encoders, each on its own pairs, and the gate on all of them.

    Parameters
    ----------
    encoders : sequence of Encoder
    names : sequence of str
    pairs : sequence of Pairs
        One per encoder; the same object where they share.
    structure, likelihood, seed
        As in `fit_posterior`.
    gated : bool
        Whether to learn an evidence gate; every encoder then encodes the pairs of all.
    show_progress : bool
    """
    start = time.perf_counter()
    distinct = list({id(own): own for own in pairs}.values())
    queries, passages = (
        [
            _Encodings.of(encoder, distinct if gated else [own], role, show_progress)
            for encoder, own in zip(encoders, pairs, strict=True)
        ]
        for role in ROLES
    )
    between = time.perf_counter()
    posteriors = [
        fit_posterior(
            own,
            q.select(own.queries),
            p.select(own.passages),
            encoder.gain,
            structure=structure,
            likelihood=likelihood,
            seed=seed,
        )
        for encoder, own, q, p in zip(encoders, pairs, queries, passages, strict=True)
    ]
    gate = _fit_gate(posteriors, distinct, queries, passages, seed) if gated else None
    report = FitReport(
        {name: post.summary for name, post in zip(names, posteriors, strict=True)},
        structure,
        likelihood,
        between - start,
        time.perf_counter() - between,
    )
    return Fitted(posteriors, gate, report)


def _fit_gate(
    posteriors: Sequence[Posterior],
    pairs: Sequence[Pairs],
    queries: Sequence[_Encodings],
    passages: Sequence[_Encodings],
    seed: int,
) -> EvidenceGate:
    """Learn the gate on some hundred queries of all pairs, among a few thousand passages."""
    answers: dict[str, set[str]] = {}
    for own in pairs:
        for query, found in zip(own.queries, own.positives, strict=True):
            answers.setdefault(query, set()).update(own.passages[row] for row in found)
    rng = np.random.default_rng(seed)
    asked = [query for query, found in answers.items() if found]
    chosen = [asked[row] for row in rng.permutation(len(asked))[:_GATE_QUERIES]]
    wanted = list(dict.fromkeys(text for query in chosen for text in sorted(answers[query])))
    known = set(wanted)
    others = [text for own in pairs for text in own.passages if text not in known]
    others = [others[row] for row in rng.permutation(len(others))[:_GATE_PASSAGES]]
    corpus = list(dict.fromkeys(wanted + others))
    place = {text: row for row, text in enumerate(corpus)}
    similarities, traces = [], []
    for posterior, q, p in zip(posteriors, queries, passages, strict=True):
        asking, answering = q.select(chosen), p.select(corpus)
        similarities.append(asking.embedding @ answering.embedding.T)
        gaussian = posterior.gaussian(asking.embedding, asking.features)
        traces.append(posterior.standardised_log_trace(gaussian))
    return fit_gate(
        similarities,
        [[place[text] for text in sorted(answers[query])] for query in chosen],
        [posterior.summary.slope for posterior in posteriors],
        [posterior.summary.intercept for posterior in posteriors],
        np.stack(traces, axis=1),
        seed=seed,
    )


def _texts(pairs: Pairs, role: Role) -> list[str]:
    return pairs.queries if role == "query" else pairs.passages
