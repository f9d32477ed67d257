"""Calibrating on the user's own corpus, with labelled queries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np

from uec_rag.base.checks import check_texts
from uec_rag.base.gaussian import Gaussian
from uec_rag.base.records import Record, current_or
from uec_rag.confidence.model import ConfidenceModel, Examples, shipped_model
from uec_rag.ensemble.convolution import EvidenceWeights
from uec_rag.ensemble.uec import UEC
from uec_rag.ensemble.views import Turn
from uec_rag.retrieval.pipeline import Method, find
from uec_rag.stores.base import CALIBRATION, SharedState, Store, put_shared_state

_ENOUGH = 100  # labels that teach an ensemble that was never fitted more than what is shipped

FEWEST = 20
"""Labelled queries, or questions of its own, that a calibration is made on at least."""


@dataclass(frozen=True)
class CorpusCalibration(Record):
    """The parameters learned on a corpus.

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
        Fingerprint of the verifier that read the first hits; None without one.
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

    @classmethod
    def current(cls, metadata: Mapping[str, object]) -> Self | None:
        """Rebuild it from `metadata`; None, with a warning, if it was learned on other features."""
        return current_or(
            None,
            lambda: cls.restore(metadata),
            "what was calibrated on this corpus is not used. Calibrate again.",
        )

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
        Ids that answer each query; empty if the corpus does not.

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
    """Hash every passage's id and text."""
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
    among the first hits, and of a hit being relevant: of the fitted ensemble's model, or of the one
    that comes with the package if it is not fitted, which learns from a hundred labels alone. Being
    among the first hits has a weight of their number, too.

    Parameters
    ----------
    uec, weights, store
        What is searched, and how.
    queries : sequence of str
    parts : sequence of K Gaussian
        Each encoder's Gaussians of the questions.
    wanted : sequence of frozenset of str
        As `check_labels` returns them.
    unanswerable : float
        Share of queries that the corpus will not answer. If the labels have none, every query
        is asked once more with its answers hidden, and these count as much.
    k : int
        Hits that count.
    fingerprint : str
        Of the corpus.
    """
    known = uec.confidence_model
    model = shipped_model("unfitted") if known is None else known
    verification = uec.verification and replace(uec.verification, on_error="raise")
    method = Method(uec.fitted, weights, model, verification, check_familiar=False)
    examples = [labelled_examples(method, store, queries, parts, wanted, k)]
    if unanswerable > 0 and all(wanted):
        gone = without_answers(method, store, queries, parts, wanted, k)
        odds = np.float32(unanswerable / (1 - unanswerable))
        examples += [replace(one, weight=odds * one.weight) for one in gone]
    every = Examples.joined(examples)
    enough = known is None and len(queries) >= _ENOUGH and not every.answerable.all()
    model = model.relearned(every) if enough else model.recalibrated(every)
    own = None if weights is uec.fitted.evidence_weights else weights
    reader = None if verification is None else verification.fingerprint
    return CorpusCalibration(model, own, "labels", len(queries), k, fingerprint, verifier=reader)


def labelled_examples(
    method: Method,
    store: Store,
    queries: Sequence[str],
    parts: Sequence[Gaussian],
    wanted: Sequence[Collection[str]],
    k: int,
) -> Examples:
    """Compute the features of questions as a search does, with the label of each hit.

    Parameters
    ----------
    parts : sequence of K Gaussian
        Each encoder's Gaussians of the questions.
    wanted : sequence of n collections of str
        Ids that answer each question; empty if the corpus does not.
    k : int
        Different texts that count.
    """
    examples, start = [], 0
    for found in find(method, store, [*map(Turn, queries)], parts, k):
        labels = wanted[start : start + len(found.asked)]
        start += len(found.asked)
        if found.features is None:
            continue
        relevant = found.hits.holding(labels)
        examples.append(
            Examples(
                found.features.first(k),
                relevant[:, :k],
                np.array([bool(ids) for ids in labels]),
                np.ones(len(labels), dtype=np.float32),
            )
        )
    return Examples.joined(examples)


def without_answers(
    method: Method,
    store: Store,
    queries: Sequence[str],
    parts: Sequence[Gaussian],
    wanted: Sequence[Collection[str]],
    k: int,
) -> list[Examples]:
    """Compute the same for each question, asked of the corpus without its answers."""
    examples = []
    for row, ids in enumerate(wanted):
        others = store.snapshot({"$not": {"$id": sorted(ids)}})
        if len(others):
            own = [part[row : row + 1] for part in parts]
            asked = [queries[row]]
            examples.append(labelled_examples(method, others, asked, own, [frozenset()], k))
    return examples


class Published(NamedTuple):
    """A calibration that a store keeps.

    Attributes
    ----------
    calibration : CorpusCalibration or None
        None if it was learned on other features.
    written : str
        State of the store that it was learned on, or that it was last seen not to be of.
    current : bool
        Whether that is the store's state; False once for every other state.
    """

    version: str
    calibration: CorpusCalibration | None
    written: str
    current: bool = True


def publish(store: Store, calibration: CorpusCalibration, written: str) -> Published | None:
    """Publish a calibration in a store that processes share; in others do nothing.

    `written`: state of the store that it was learned on.
    """
    if not isinstance(store, SharedState):
        return None
    state = {"calibration": calibration.metadata(), "written": written}
    version = put_shared_state(store, CALIBRATION, json.dumps(state).encode())
    return Published(version, calibration, written)


def published(store: SharedState, known: Published | None) -> Published | None:
    """Read the calibration that a store keeps; the known one if it is the same or there is none."""
    stamp = store.stamp()
    version = stamp.kept.get(CALIBRATION)
    if version is not None and (known is None or known.version != version):
        found = store.get_state(CALIBRATION)
        if found is not None:
            state = json.loads(found[1])
            calibration = CorpusCalibration.current(state["calibration"])
            known = Published(found[0], calibration, state["written"])
    if known is None:
        return None
    return known._replace(written=stamp.written, current=known.written == stamp.written)


def written(store: Store) -> str:
    """Return the state of a store that several processes share; "" for others."""
    return store.stamp().written if isinstance(store, SharedState) else ""
