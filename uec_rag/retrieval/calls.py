"""The searches of one call: for questions, perhaps among chosen passages, or for a vector."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from uec_rag.base import __version__
from uec_rag.base.gaussian import Gaussian, as_matrix
from uec_rag.confidence.counterevidence import learned_ratios
from uec_rag.confidence.decision import Decision, with_note
from uec_rag.confidence.languages import check_language, sentence
from uec_rag.confidence.model import JUDGED, shipped_model
from uec_rag.confidence.readings import Reading
from uec_rag.confidence.replies import UnknownReading, find_readings
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.hits import Hit, Result, SearchResult, diversify
from uec_rag.retrieval.learn import CorpusCalibration
from uec_rag.retrieval.metadata import without_findings
from uec_rag.retrieval.pending import Pending
from uec_rag.retrieval.query import Options, Query
from uec_rag.retrieval.search import Method, run
from uec_rag.stores.base import Filter, Store
from uec_rag.stores.filters import all_of

_Search: TypeAlias = Callable[..., list[Result]]


def method_of(
    fitted: Fitted,
    calibration: CorpusCalibration | None,
    language: str | None,
    filter: Filter | None = None,
) -> Method:
    """Return the method of a search: the ensemble and what was learned from the corpus.

    The model from logits to probabilities is the calibrated, the fitted or the default one. The
    basis is the hash of everything that turns a search's similarities into confidence, except
    the passages, and of the version, which may compute it otherwise.

    `filter`: the order of its keys is ignored, and of a callable, everything but its type.
    """
    model = None if calibration is None else calibration.model
    model = model or fitted.confidence_model or shipped_model("unfitted")
    weights = fitted.rule.evidence
    filtered = json.dumps(filter, sort_keys=True, default=_as_text)
    learned = model.fingerprint, weights and weights.fingerprint, learned_ratios()
    state = *learned, __version__, filtered
    basis = hashlib.sha256(repr(state).encode()).hexdigest()[:16]
    return Method(fitted, model, basis, calibration is None, check_language(language))


def _as_text(value: object) -> object:
    """Convert a part of a filter to what JSON writes the same way in every process."""
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    return type(value).__name__ if callable(value) else repr(value)


def search_queries(
    uec: UEC, store: Store, method: Method, queries: Sequence[Query], k: int, options: Options
) -> SearchResult:
    """Search for questions, each among the readings that were chosen, if there are any."""
    where, within = options.get("filter"), options.get("within")
    diversity = options.get("diversity")
    most = k if diversity is None else max(k, diversity.fetch_k)
    views = [view for query in queries for view in query.views.values()]
    texts = [view.text for view in views] + [turn for view in views for turn in view.turns]
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    parts = uec.encode([*rows], "query")

    def search(
        some: Sequence[Query], among: Filter | None, rest: Filter | None = None
    ) -> list[Result]:
        found = run(method, store, some, rows, parts, most, among, rest)
        is_filtered = among is not None and among is where
        return [_note_few(one, most, store) for one in found] if is_filtered else found

    if not any(query.replies for query in queries):
        results = search(queries, where)
    else:
        results = [
            _search_chosen(search, where, query, is_label=isinstance(within, str))
            for query in queries
        ]
    if not (within is None or isinstance(within, str) or any(one.passages for one in results)):
        raise UnknownReading(
            "within: none of the passages with these ids is in the index, or matches the "
            "filter; the index may have changed since it asked back: ask again without within."
        )
    found = SearchResult(results)
    if diversity is None:
        return found
    return diversify(store.vectors, found, k, diversity.lambda_mult)


def _search_chosen(
    search: _Search, where: Filter | None, query: Query, *, is_label: bool
) -> Result:
    """Search for a question among the chosen readings.

    All passages but those of the readings that were not chosen compete with the hits, so that a
    question that the corpus does not answer does not look answered. If a reply names none of
    the readings that the index has now, the question is asked back again; a label passed as
    `within` raises UnknownReading.
    """
    among, ruled_out, named = where, list[str](), list[Reading]()
    for choice in query.replies:
        [first] = search([query], among)
        offered = first.decision.readings
        try:
            named = _choose(choice, offered)
        except UnknownReading:
            if is_label:
                raise
            return first
        ids = choice
        if isinstance(choice, str):
            ids = tuple(id_ for reading in named or offered for id_ in reading.ids)
        condition: dict[str, Any] = {"$id": [*ids]}
        if not named and isinstance(choice, str):
            condition = {"$not": condition}
        among = all_of(condition, among)
        ruled_out += [id_ for reading in offered if reading not in named for id_ in reading.ids]
    [result] = search([query], among, {"$not": {"$id": ruled_out}} if ruled_out else None)
    if not query.replies:
        return result
    # A reading is part of the corpus that a gate was made for, not another corpus.
    decision = replace(result.decision, size=0)
    if len(named) > 1:  # asking back would repeat the same question
        clear = replace(decision, underspecified=0.0, readings=())
        decision = replace(result, decision=clear).decide(decision.threshold)
    return replace(result, decision=decision)


def _choose(choice: str | Sequence[str], offered: Sequence[Reading]) -> list[Reading]:
    """Return the readings that a reply names, or those with one of the chosen ids.

    UnknownReading if a reply names none, and does not decline all.
    """
    if isinstance(choice, str):
        return find_readings(choice, offered)
    return [reading for reading in offered if not {*choice}.isdisjoint(reading.ids)]


def _note_few(result: Result, k: int, store: Store) -> Result:
    """Note in the reason that a filter left fewer passages than are asked for and judged."""
    count, decision = len(result.passages), result.decision
    if not 0 < count < min(k, JUDGED):
        return result
    key = "few_candidates" if store.remote else "few_match"
    note = sentence(key, decision.language, count=str(count))
    return replace(result, decision=with_note(decision, note))


def settled_result(
    pending: Pending[Result], settled: Sequence[tuple[Decision, Result]], k: int
) -> SearchResult:
    """Return the first k hits of each question, or of its rewrite, with the final decisions."""
    most, results = pending.gate.hits_needed(k), list[Result]()
    rows = zip(pending.decisions, pending.found, settled, strict=True)
    for before, asked, (decision, found) in rows:
        one = replace(found, query=asked.query, decision=decision).first(most)
        if decision.advice_probability is not None:
            one = one.scaled(decision.confidence / max(before.confidence, 1e-7))
        results.append(one)
    return SearchResult(results)


def search_vector(
    uec: UEC, store: Store, embedding: Sequence[float], k: int, options: Options, language: str
) -> SearchResult:
    """Search for the mean of a query whose text is not known; see `Retriever.search_vector`."""
    diversity, fitted = options.get("diversity"), uec.fitted
    mean = as_matrix([embedding], "embedding")
    if mean.shape[1] != uec.dimension:
        raise ValueError(
            f"embedding: expected {uec.dimension} numbers, the ensemble's dimension, "
            f"got {mean.shape[1]}."
        )
    length = float(np.linalg.norm(mean))
    if not length:
        raise ValueError("embedding: expected a vector with a direction, got zeros.")
    if len(fitted.weights) == 1:
        mean = mean / np.float32(length)
    query, count = Gaussian(mean, np.zeros_like(mean)), len(fitted.names)
    most = k if diversity is None else max(k, diversity.fetch_k)
    hits = store.search(query, most, beta=fitted.options.beta, filter=options.get("filter"))
    mu, pi = hits.mu[0], np.full(count, 1 / count, dtype=np.float32)
    chance = np.clip(mu, 0, 1)
    best = float(chance.max(initial=0.0))
    told = Decision("answer", sentence("vector", language), (), best, best, language=language)
    numbers = (hits.scores[0], mu, hits.sigma2[0], np.zeros_like(mu), chance)
    rows = zip(hits.passages[0], *(each.tolist() for each in numbers), strict=True)
    found = tuple(Hit(without_findings(passage), *each) for passage, *each in rows)
    weights, at_k = fitted.weights_by_name(pi), np.maximum.accumulate(chance)
    made = Result("", told, weights, pi, found, at_k, hits.exact, judged=False)
    one = SearchResult([made])
    if diversity is None:
        return one
    return diversify(store.vectors, one, k, diversity.lambda_mult)
