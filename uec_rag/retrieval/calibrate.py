"""Calibrating on the user's own corpus, with labelled queries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_texts
from uec_rag.base.gaussian import Gaussian
from uec_rag.base.records import Record
from uec_rag.base.sums import Digest
from uec_rag.confidence.fit import joined_examples
from uec_rag.confidence.model import ConfidenceModel, HitExamples, relevance_features, shipped_model
from uec_rag.ensemble.evidence import EvidenceWeights
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.search import (
    NOBODY,
    Asked,
    Reading,
    Scale,
    ask,
    first_evidence,
    first_hits,
    ids_of,
    matched,
    own_at,
    queries_at_once,
    terms_at,
)
from uec_rag.stores.base import CALIBRATION, Found, SharedState, Store, put_shared_state

_ENOUGH = 100  # labels that teach an ensemble that was never fitted more than what is shipped

FEWEST = 20
"""Labelled queries, or questions of its own, that a calibration is made on at least."""


@dataclass(frozen=True)
class CorpusCalibration(Record):
    """What was learned on a corpus.

    Attributes
    ----------
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
    of_fit : bool
        Whether the model is the fit's.
    verifier : str or None
        Fingerprint of who read the first hits; None where nobody did.
    """

    model: ConfidenceModel
    evidence_weights: EvidenceWeights | None
    source: Literal["labels", "self"]
    queries: int
    k: int
    corpus: str
    of_fit: bool = False
    verifier: str | None = None
    _saved_as: ClassVar[Mapping[str, str]] = {"evidence_weights": "gate", "of_fit": "kept"}

    def __str__(self) -> str:
        """Say in plain words what was done."""
        made = {
            "labels": f"{self.queries} labelled queries",
            "self": f"{self.queries} questions made from the corpus itself, without labels",
        }[self.source]
        own = self.source == "self" and self.evidence_weights is not None
        learned = [] if self.of_fit else ["relevance and confidence"]
        learned += ["which encoders to trust here"] if own else []
        done = f"Calibrated on {made}: {', and '.join(learned) or 'nothing was changed'}"
        if self.of_fit:
            return f"{done}; relevance and confidence stay those of the fit."
        return (
            f"{done}, for the first {self.k} hits. {self.model.unanswerable:.0%} of the questions "
            "are taken to have no answer."
        )


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
            "relevant_ids: no query has a relevant passage; expected at least one that has. "
            "Queries that the corpus does not answer may be added to these."
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
    parts: Sequence[Gaussian],
    wanted: Sequence[frozenset[str]],
    *,
    unanswerable: float,
    k: int,
    fingerprint: str,
) -> CorpusCalibration:
    """Fit probabilities to labelled queries of the corpus that is to be searched.

    Lines on top of the log odds are fitted (Platt scaling), of an answer being in the corpus, then
    among the first hits, and of a hit being relevant: of the fitted ensemble's, or of what comes
    with the package for one that is not; such a one learns from a hundred labels alone. Being among
    the first hits has a weight of their number, too.

    Parameters
    ----------
    uec, weights, store
        What is searched, and how.
    queries : sequence of str
    parts : sequence of K Gaussian
        Each encoder's Gaussians of the queries, as `UEC.encode` returns them.
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
    hide = unanswerable > 0 and all(wanted)
    known = uec.confidence_model
    model = shipped_model("unfitted") if known is None else known
    rows = queries_at_once(len(store), len(parts))
    place = places(store)
    verification = uec.verification and replace(uec.verification, on_error="raise")
    examples = [
        example
        for start in range(0, len(queries), rows)
        for example in examples_of(
            uec.fitted,
            model,
            ask(uec.fitted, weights, store, [part[start : start + rows] for part in parts]),
            store,
            wanted[start : start + rows],
            place,
            unanswerable / (1 - unanswerable) if hide else 0.0,
            k,
            Reading(verification, queries[start : start + rows]),
        )
    ]
    every = joined_examples(examples)
    enough = known is None and len(queries) >= _ENOUGH and not every.answerable.all()
    model = model.relearned(every) if enough else model.recalibrated(every)
    own = None if weights is uec.fitted.evidence_weights else weights
    reader = None if verification is None else verification.fingerprint
    return CorpusCalibration(model, own, "labels", len(queries), k, fingerprint, verifier=reader)


def examples_of(
    fitted: Fitted,
    model: ConfidenceModel,
    asked: Asked,
    store: Store,
    wanted: Sequence[frozenset[str]],
    place: Mapping[str, int],
    hidden: float,
    k: int,
    reading: Reading = NOBODY,
) -> Iterator[HitExamples]:
    """Queries asked of the corpus and, of weight `hidden`, of the corpus without their answers.

    Parameters
    ----------
    fitted, model, store
        What is searched, and what will judge it.
    asked : Asked
        Of the whole corpus.
    wanted : sequence of frozenset of str
        Ids that answer each query.
    place : mapping of str to int
        The column of each passage, by id.
    hidden : float
        0: no answers are hidden.
    k : int
        Hits that count.
    reading : Reading
        Who reads the first hits of the queries.
    """
    similarities = asked.similarities
    answers = _answers(place, wanted)
    plain = Scale.of(fitted, model, store, asked)
    lowest = similarities.min(axis=1, keepdims=True)
    for weight in (1.0, hidden)[: 1 + (hidden > 0)]:
        gone = weight is hidden
        mu = np.where(answers, lowest, similarities) if gone else similarities
        found = store.search(asked.query, reading.fetched(k), beta=fitted.beta, mu=mu)
        right = _right(found, wanted)
        if gone:
            # A store that scores its candidates anew knows nothing of what was hidden.
            found = replace(found, mu=np.where(right, lowest, found.mu))
        scale, sums = plain, Digest.of(mu).softmax(plain.slope / model.temperature)
        reread = reading.reread(fitted, found, right if gone else None)
        if reread is not None:
            found = first_hits(reread.found, k)
            right = _right(found, wanted)
            scale, sums = reread.scale(plain), reread.sums(sums, plain.slope / model.temperature)
        summary = scale.summary(sums, model.temperature)
        logits = scale.logits(found.mu)
        best = None
        if model.by_member:
            first = right.argmin(axis=1) if gone else np.zeros(len(right), dtype=np.intp)
            hits = [row[i : i + 1] for row, i in zip(found.passages, first.tolist(), strict=True)]
            ids, parts = ids_of(hits), asked.parts
            added = terms_at(fitted, store, parts, ids)
            own = np.concatenate(own_at(fitted, store, parts, ids, added), axis=1)
            evidence = first_evidence(parts, own, matched(parts, ids, added), hits)
            best = fitted.best_logits(list(evidence.T))
        yield HitExamples(
            relevance=relevance_features(
                logits, scale.variance(found.sigma2), summary.log_normaliser, model.temperature
            ),
            query=model.query_features(summary, best),
            found=model.found_features(summary, logits),
            relevant=right & (not gone),
            answerable=np.array([not gone and bool(ids) for ids in wanted]),
            weight=np.full(len(wanted), weight, dtype=np.float32),
        )


def _right(found: Found, wanted: Sequence[frozenset[str]]) -> NDArray[np.bool_]:
    """Which hits answer their query, shape (n, k)."""
    return np.array(
        [
            [passage.id in ids for passage in row]
            for row, ids in zip(found.passages, wanted, strict=True)
        ],
        dtype=bool,
    )


def places(store: Store) -> dict[str, int]:
    """The column of each passage's similarities, by id."""
    return {passage.id: column for column, passage in enumerate(store.passages())}


def _answers(place: Mapping[str, int], wanted: Sequence[frozenset[str]]) -> NDArray[np.bool_]:
    """Which passages answer which query, shape (n, N)."""
    out = np.zeros((len(wanted), len(place)), dtype=bool)
    for row, ids in enumerate(wanted):
        out[row, [place[id_] for id_ in ids]] = True
    return out


class Published(NamedTuple):
    """A calibration that a store keeps.

    Attributes
    ----------
    written : str
        State of the store that it was learned on, or that it was last seen not to be of.
    current : bool
        Whether that is the store's state; False once for every other state.
    """

    version: str
    calibration: CorpusCalibration
    written: str
    current: bool = True


def publish(store: Store, calibration: CorpusCalibration, written: str) -> Published | None:
    """Keep a calibration in a store, where that keeps anything.

    `written`: state of the store that it was learned on.
    """
    if not isinstance(store, SharedState):
        return None
    state = {"calibration": calibration.metadata(), "written": written}
    version = put_shared_state(store, CALIBRATION, json.dumps(state).encode())
    return Published(version, calibration, written)


def published(store: SharedState, known: Published | None) -> Published | None:
    """The calibration that a store keeps; the known one, where it is that or there is none."""
    stamp = store.stamp()
    version = stamp.kept.get(CALIBRATION)
    if version is not None and (known is None or known.version != version):
        found = store.get_state(CALIBRATION)
        if found is not None:
            state = json.loads(found[1])
            calibration = CorpusCalibration.restore(state["calibration"])
            known = Published(found[0], calibration, state["written"])
    if known is None:
        return None
    return known._replace(written=stamp.written, current=known.written == stamp.written)


def written(store: Store) -> str:
    """The state of a store that several processes write; of others nothing."""
    return store.stamp().written if isinstance(store, SharedState) else ""
