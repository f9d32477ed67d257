"""Calibrating on the user's own corpus, with labelled queries."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_texts
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.records import Record
from uec_rag.base.softmax_sums import Digest
from uec_rag.confidence.features import relevance_features
from uec_rag.confidence.fit import FitView, fit_confidence
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.ensemble.evidence import EvidenceWeights
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.search import Asked, ask, queries_at_once
from uec_rag.stores.base import Store

FEWEST = 20
"""Labelled queries, or questions of its own, that a calibration is made on at least."""


@dataclass(frozen=True)
class CorpusCalibration(Record):
    """What was learned on a corpus.

    Attributes
    ----------
    model : ConfidenceModel
    evidence_weights : EvidenceWeights or None
        Coefficients learned on this corpus; None: the ensemble's.
    source : {"labels", "self"}
        Whether from a user's labels or from questions made of the passages.
    queries : int
        How many there were.
    k : int
        Hits that count.
    corpus : str
        Fingerprint of the corpus.
    """

    model: ConfidenceModel
    evidence_weights: EvidenceWeights | None
    source: Literal["labels", "self"]
    queries: int
    k: int
    corpus: str

    def __str__(self) -> str:
        """Say in plain words what was done."""
        made = {
            "labels": f"{self.queries} labelled queries",
            "self": f"{self.queries} questions made from the corpus itself, without labels",
        }[self.source]
        learned = "relevance and confidence"
        if self.source == "self" and self.evidence_weights is not None:
            learned += ", and which encoders to trust here"
        return f"Calibrated on {made}: {learned}, for the first {self.k} hits."

    def metadata(self) -> dict[str, object]:
        """JSON-able state, for saving; the evidence weights by the name they had in version 0.1."""
        state = super().metadata()
        return {"gate": state.pop("evidence_weights"), **state}

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`; ValueError if something is missing."""
        named = {"evidence_weights" if k == "gate" else k: v for k, v in metadata.items()}
        return super().restore(named)


def check_labels(
    queries: Sequence[str],
    relevant_ids: Sequence[Collection[str]],
    store: Store,
    fewest: int = FEWEST,
) -> list[frozenset[str]]:
    """Check labelled queries before anything is encoded.

    Returns
    -------
    list of frozenset of str
        Ids that answer each query; empty where the corpus does not.

    Raises
    ------
    TypeError, ValueError
        If there is not one collection of ids per query, an id is not in the index, no query has
        any, or there are fewer than `fewest` queries.
    """
    check_texts(queries, "queries")
    if isinstance(relevant_ids, str):
        raise TypeError(
            "relevant_ids: expected a list of collections of ids, one per query, got one string "
            f"{relevant_ids!r:.40}."
        )
    if len(relevant_ids) != len(queries):
        raise ValueError(
            f"relevant_ids: expected {len(queries)} collections of ids, one per query, got "
            f"{len(relevant_ids)}."
        )
    for row, ids in enumerate(relevant_ids):
        if isinstance(ids, str) or not isinstance(ids, Collection):
            raise TypeError(
                f"relevant_ids[{row}]: expected a collection of ids, got {ids!r:.40}; "
                "write [id] for one, [] for none."
            )
    wanted = [frozenset(ids) for ids in relevant_ids]
    every = sorted(frozenset().union(*wanted), key=str)
    known = {passage.id for passage in store.get(every)}
    unknown = [id_ for id_ in every if id_ not in known]
    if unknown:
        raise ValueError(
            f"relevant_ids: {len(unknown)} of {len(every)} ids are not in the index, first "
            f"{unknown[0]!r}; use the ids that `add` returned."
        )
    if not every:
        raise ValueError(
            "relevant_ids: no query has a relevant passage; expected at least one with. Queries "
            "without are welcome beside them: they show what the corpus does not answer."
        )
    if len(queries) < fewest:
        raise ValueError(
            f"queries: expected at least {fewest} to calibrate on, got {len(queries)}."
        )
    return wanted


def corpus_fingerprint(store: Store) -> str:
    """Hash of every passage's id and text."""
    digest = hashlib.sha256()
    for passage in store.passages():
        digest.update(f"{len(passage.id)}:{passage.id}{len(passage.text)}:{passage.text}".encode())
    return digest.hexdigest()[:32]


def calibrate_with_labels(
    uec: UEC,
    weights: EvidenceWeights | None,
    store: Store,
    queries: Sequence[str],
    wanted: Sequence[frozenset[str]],
    *,
    unanswerable: float,
    k: int,
    fingerprint: str,
) -> CorpusCalibration:
    """Fit probabilities to labelled queries of the corpus that is to be searched.

    With a fitted ensemble a line on top of its log odds is fitted (Platt scaling); an unfitted one
    learns relevance and confidence from the labels alone.

    Parameters
    ----------
    uec, weights, store
        What is searched, and how.
    queries : sequence of str
    wanted : sequence of frozenset of str
        As `check_labels` returns them.
    unanswerable : float
        Share of queries that the corpus will not answer. Where the labels have none, every query
        is asked once more with its answers hidden, and these count as much.
    k : int
        Hits that count.
    fingerprint : str
        Of the corpus.
    """
    parts = uec.encode(queries, "query")
    hide = unanswerable > 0 and all(wanted)
    if uec.confidence_model is None:
        model = _learned(uec.fitted, store, parts, wanted, hide, k)
    else:
        rows = queries_at_once(len(store), len(parts))
        place = _places(store)
        examples = [
            example
            for start in range(0, len(queries), rows)
            for example in _examples(
                uec.fitted,
                ask(uec.fitted, weights, store, [part[start : start + rows] for part in parts]),
                store,
                wanted[start : start + rows],
                place,
                hide,
                k,
            )
        ]
        share = unanswerable / (1 - unanswerable)
        model = uec.confidence_model.recalibrated(
            np.concatenate([e.hits for e in examples]),
            np.concatenate([e.relevant for e in examples]),
            np.concatenate([e.query for e in examples]),
            np.concatenate([e.relevant.any(axis=1) for e in examples]),
            np.concatenate([np.full(len(e.query), share if e.hidden else 1.0) for e in examples]),
        )
    kept = None if weights is uec.fitted.evidence_weights else weights
    return CorpusCalibration(model, kept, "labels", len(queries), k, fingerprint)


@dataclass(frozen=True, eq=False)
class _Examples:
    """Features of the hits (n, k, F) and of the queries (n, F), and which hits are relevant."""

    hits: FloatArray
    query: FloatArray
    relevant: NDArray[np.bool_]
    hidden: bool


def _examples(
    fitted: Fitted,
    asked: Asked,
    store: Store,
    wanted: Sequence[frozenset[str]],
    place: Mapping[str, int],
    hide: bool,
    k: int,
) -> Iterator[_Examples]:
    """Queries asked of the corpus and, to `hide`, of the corpus without their answers."""
    model = fitted.confidence_model
    assert model is not None
    pi, similarities = asked.coefficients, asked.similarities
    answers = _answers(place, wanted)
    lowest = similarities.min(axis=1, keepdims=True)
    for hidden in (False, True)[: 1 + hide]:
        mu = np.where(answers, lowest, similarities) if hidden else similarities
        found = store.search(asked.query, k, beta=fitted.beta, mu=mu)
        sums = Digest.of(mu).softmax(fitted.slope / model.temperature)
        summary = fitted.corpus_summary(sums, pi, model.temperature)
        hits = relevance_features(
            fitted.logits(found.mu, pi),
            fitted.logit_variance(found.sigma2),
            summary.log_normaliser,
            model.temperature,
        )
        right = [
            [not hidden and passage.id in ids for passage in row]
            for row, ids in zip(found.passages, wanted, strict=True)
        ]
        yield _Examples(hits, summary.features(), np.array(right, dtype=bool), hidden)


def _places(store: Store) -> dict[str, int]:
    """The column of each passage's similarities, by id."""
    return {passage.id: column for column, passage in enumerate(store.passages())}


def _answers(place: Mapping[str, int], wanted: Sequence[frozenset[str]]) -> NDArray[np.bool_]:
    """Which passages answer which query, shape (n, N)."""
    out = np.zeros((len(wanted), len(place)), dtype=bool)
    for row, ids in enumerate(wanted):
        out[row, [place[id_] for id_ in ids]] = True
    return out


def _learned(
    fitted: Fitted,
    store: Store,
    parts: Sequence[Gaussian],
    wanted: Sequence[frozenset[str]],
    hide: bool,
    k: int,
) -> ConfidenceModel:
    """A model from labels alone, for an ensemble that was never fitted: its variance is 0."""
    asked = ask(fitted, None, store, parts)
    logits = fitted.logits(asked.similarities, asked.coefficients)
    relevant = _answers(_places(store), wanted)
    views = [FitView(logits, np.zeros_like(logits), relevant)]
    if hide:
        gone = np.where(relevant, logits.min(axis=1, keepdims=True), logits)
        views.append(FitView(gone, np.zeros_like(logits), np.zeros_like(relevant)))
    return fit_confidence(views, k)
