"""Learning by an index: from its passages, without labels, and from labelled queries.

Without labels, an ensemble is fitted on questions made of the passages: their headings, and the
first sentence of one, which the rest of it answers. That such questions are answered says little
about those of users, so that confidence is set to the level that it has for `UEC()` on such
questions, see `uec_rag.ensemble.fit.fit`. With labels, confidence is calibrated on the corpus.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from uec_rag.base.counts import Frequencies
from uec_rag.base.errors import NoFit, warn
from uec_rag.base.gaussian import Gaussian
from uec_rag.base.progress import progress_bar
from uec_rag.base.records import Memory, Recent, Record
from uec_rag.confidence.model import ConfidenceModel, Examples, shipped_model
from uec_rag.documents.generated_questions import pairs_from_passages
from uec_rag.encoders.base import PROBES, Encoder, TermEncoder
from uec_rag.encoders.black_box import BlackBoxEncoder
from uec_rag.ensemble.ensemble_file import fit_of_twin
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.uec import UEC
from uec_rag.gates.labelled_search import warn_of_lost
from uec_rag.laplace.pairs import MINIMUM
from uec_rag.questions.phrasing import Phrasing
from uec_rag.retrieval.rankings import Method, find
from uec_rag.stores.base import Searched
from uec_rag.stores.passage import Passage
from uec_rag.stores.source import SourceStore

ENOUGH = 64
"""The smallest number of passages to fit an ensemble on."""

FEWEST = 20
"""The smallest number of labelled questions to learn from."""

_LEAST_SLOPE = 0.5  # of the best encoder; of 110 passages and more, cut anyhow, it was above 1.5

_log = logging.getLogger("uec_rag")


def fit_key(uec: UEC, store: Searched) -> tuple[int, ...]:
    """Return what is the same of the same models and store, as long as these are there."""
    below = store.source.origin or store.source if isinstance(store, SourceStore) else store
    return *map(id, _models_of(uec)[0]), id(below)


def fit_own(uec: UEC, store: Searched) -> tuple[UEC, Sequence[Passage]] | None:
    """Return a fit of an ensemble on the passages of its store, and these; None without one.

    If a fit over the same store is known, it is taken without passages; and for a model that comes
    with a fit, under whichever name, that one, as `UEC()` has it.
    """
    if isinstance(store, SourceStore) and (match := _recall_over(uec, store)):
        return match, ()
    if not uec.dimension:
        return None
    _log.warning("uec_rag: the first search fits the ensemble, once: it reads some passages.")
    passages = store.examples()
    twin = fit_of_twin(uec.encoders, uec.fitted)
    if twin is not None and are_plain(uec.encoders[:1], PROBES[0]):
        fitted = uec.with_cache()
        fitted.fitted = twin
        _log.info("uec_rag: %s is a model that comes with a fit.", uec.names[0])
        return fitted, passages
    if len(passages) < ENOUGH:
        return None
    if isinstance(store, SourceStore):
        store.encode(passages[:1])  # vectors of another model are refused before the work
    try:
        return fit_without_labels(uec, passages), passages
    except NoFit as error:
        warn(f"This UEC is not fitted, so its confidence is unreliable. {error}")
        return None


def fit_without_labels(
    uec: UEC, passages: Sequence[Passage], *, show_progress: bool | None = None
) -> UEC:
    """Return a copy of an ensemble that is fitted on questions made of passages.

    The same models fitted again on the same questions get the fit that is known, if it is recent.
    NoFit if fewer than 32 questions can be made or these tell nothing, or an encoder has another
    last layer than the identity, so that stored vectors do not determine its Gaussians.
    """
    from uec_rag.ensemble.fit import fit

    _log.info("uec_rag: fitting: questions are made of %s passages.", f"{len(passages):,}")
    pairs = pairs_from_passages(passages)
    fitted = uec.with_cache()
    dense = [encoder for encoder in fitted.encoders if not isinstance(encoder, TermEncoder)]
    different = len({answer for _, answer in pairs})
    if different < MINIMUM:
        raise NoFit(
            f"passages: expected {MINIMUM} or more of which a question can be made, got "
            f"{different} among {len(passages):,}. A question is a title in the metadata, a "
            "heading, or the first sentence of a passage that goes on after it: give titles, make "
            "the passages longer, or fit the ensemble on pairs of your own with UEC.fit(pairs)."
        )
    sources, models = _models_of(uec)
    # Of a store, which knows no questions yet, some passages have to be read: it is asked last.
    for candidate in sorted(_FITS.of(sources[0]), key=lambda candidate: not candidate.pairs):
        if candidate.models == models and candidate.questions == pairs:
            fitted.fitted = candidate.fitted
            return fitted
    questions = hash((tuple(pairs), *map(repr, models)))
    if reason := _REFUSALS.of(sources[0]).use(questions):
        raise NoFit(reason)
    if not dense or not are_plain(dense, pairs[0][1]) or not uec.fitted.is_direct:
        raise NoFit(
            "uec: expected a model whose last layer is the identity, in a direct sum, got "
            f"{', '.join(uec.names)}; fit it on pairs of your own with UEC.fit(pairs)."
        )
    start = time.perf_counter()
    _log.warning(
        "uec_rag: fitting on %s questions made of the passages: %s texts are embedded by %s, once.",
        len(pairs),
        2 * len(pairs),
        " and ".join(encoder.name for encoder in dense),
    )
    fitted.fitted = fit(
        fitted.encoders, uec.fitted, pairs, show_progress=show_progress, are_generated=True
    )
    if max(fitted.fitted.slopes) < _LEAST_SLOPE:
        reason = (
            f"passages: {len(pairs)} questions made of them are no nearer to what answers them "
            "than to other passages. A question is a title in the metadata, a heading, or the "
            "first sentence of a passage: cut the passages at headings or between sentences, or "
            "fit the ensemble on pairs of your own with UEC.fit(pairs)."
        )
        _REFUSALS.of(sources[0]).keep(questions, reason)
        raise NoFit(reason)
    _FITS.of(sources[0]).append(_RecentFit(models, sources[1:], fitted.fitted, pairs))
    _log.warning("uec_rag: fitted in %.0f s.", time.perf_counter() - start)
    return fitted


def are_plain(encoders: Sequence[Encoder], text: str) -> bool:
    """Return whether the last layer of all encoders is the identity, as they encode a text."""
    unknown = [e for e in encoders if not isinstance(getattr(e, "uncached", e), BlackBoxEncoder)]
    return all(encoder.encode([text], "passage").is_plain for encoder in unknown)


def _models_of(uec: UEC) -> tuple[tuple[object, ...], list[object]]:
    """Return the models of an ensemble, or None, and what a fit depends on besides questions."""
    dense = [encoder for encoder in uec.encoders if not isinstance(encoder, TermEncoder)]
    sources = tuple(getattr(encoder, "source", encoder) for encoder in dense) or (None,)
    rule = replace(uec.fitted.rule, evidence=None)  # which a fit learns
    return sources, [*map(id, sources), uec.fitted.names, uec.fitted.options, rule]


class _RecentFit(NamedTuple):
    """A recent fit, for another retriever with its models: over its store, or on its questions."""

    models: list[object]
    sources: tuple[object, ...]  # kept, so that no other model gets the identity of one
    fitted: Fitted
    pairs: Sequence[tuple[str, str]] = ()
    words: Sequence[Frequencies] = ()
    store: Callable[[], SourceStore | None] = lambda: None

    @property
    def questions(self) -> Sequence[tuple[str, str]]:
        """The questions that it was made of, or that are made of its store while this is there."""
        store = self.store()
        return self.pairs if store is None else pairs_from_passages(store.examples())


_REFUSALS = Memory(partial(Recent[int, str], 8))  # of questions that tell nothing, by their hash
_FITS = Memory(partial(deque[_RecentFit], maxlen=8))  # of stores, and of the first of its models


def remember(uec: UEC, store: SourceStore, fitted: Fitted) -> None:
    """Note the fit that an ensemble was given over a store, for other retrievers over it."""
    sources, models = _models_of(uec)
    recent = _RecentFit(models, sources, fitted, words=store.frequencies)
    _FITS.of(store.source.origin).append(recent)
    recent = recent._replace(sources=sources[1:], store=weakref.ref(store))
    _FITS.of(sources[0]).append(recent)


def _recall_over(uec: UEC, store: SourceStore) -> UEC | None:
    """Return an ensemble with the last fit noted over a store, which gets its words; or None."""
    _, models = _models_of(uec)
    for recent in [*_FITS.of(store.source.origin)][::-1]:
        if recent.models == models:
            twin, store.frequencies = uec.with_cache(), [*recent.words]
            twin.fitted = recent.fitted
            return twin
    return None


@dataclass(frozen=True)
class CorpusCalibration(Record):
    """The parameters learned on a corpus.

    Attributes
    ----------
    queries : int
        Number of queries.
    k : int
        Number of hits that confidence is about.
    size : int
        Number of passages.
    """

    model: ConfidenceModel
    queries: int
    k: int
    size: int

    def __str__(self) -> str:
        """Describe the calibration in a sentence."""
        return (
            f"Calibrated on {self.queries} labelled queries: relevance and confidence, for the "
            f"first {self.k} hits. {self.model.unanswerable:.0%} of the questions are assumed to "
            "be unanswerable."
        )


def calibrate_with_labels(
    uec: UEC,
    store: Searched,
    queries: Sequence[str],
    answers: Sequence[frozenset[str]],
    *,
    unanswerable_rate: float,
    k: int,
) -> CorpusCalibration:
    """Fit the probabilities to labelled queries over the corpus that is to be searched.

    The log odds of three events are rescaled linearly (Platt scaling): the corpus answers the
    query, the first hits do, given that, with a weight for the number of hits, and a hit is
    relevant. The model is that of the fitted ensemble; an unfitted ensemble uses the shipped model.

    Parameters
    ----------
    uec, store
        The ensemble, and the store to search.
    queries : sequence of str
    answers : sequence of frozenset of str
        Ids of relevant passages, as `check_labels` returns them.
    unanswerable_rate : float
        Share of queries that the corpus will not answer. If all labelled queries have answers,
        each is repeated with its answers hidden, weighted to make up this share.
    k : int
        Number of hits that confidence is about.
    """
    base = uec.fitted.confidence_model
    model = shipped_model("unfitted") if base is None else base
    method, parts = Method(uec.fitted, model, check_familiar=False), uec.encode(queries, "query")
    examples = labelled_examples(method, store, queries, parts, answers, k)
    if not examples:
        raise ValueError("queries: nothing was found for any of them; check the index and filter.")
    warn_of_lost(store, answers)
    if unanswerable_rate > 0 and all(answers):
        hidden = without_answers(method, store, queries, parts, answers, k)
        odds = np.float32(unanswerable_rate / (1 - unanswerable_rate))
        examples += [replace(example, weight=odds * example.weight) for example in hidden]
    model = model.recalibrate(Examples.concatenate(examples))
    return CorpusCalibration(model, len(queries), k, len(store))


def labelled_examples(
    method: Method,
    store: Searched,
    queries: Sequence[str],
    parts: Sequence[Gaussian],
    answers: Sequence[Collection[str]],
    k: int,
) -> list[Examples]:
    """Compute the features of queries as a search does, with the label of each hit.

    Queries for which nothing is found are left out.

    Parameters
    ----------
    parts : sequence of K Gaussian
        Gaussians of the queries from each encoder.
    answers : sequence of n collections of str
        Ids of the passages that answer each query; empty if none does.
    k : int
        Number of hits with distinct texts.
    """
    examples = []
    with progress_bar("Searching", len(queries)) as bar:
        results = find(method, store, [*map(Phrasing.of, queries)], parts, k)
        for result, ids in zip(results, answers, strict=True):
            bar.update()
            if result is None:
                continue
            relevant = np.zeros((1, len(result.distinct)), dtype=bool)
            for at, passage in result.passages.items():
                relevant[0, result.numbers[at]] |= passage.id in ids
            weight = np.ones(1, dtype=np.float32)
            answerable = np.array([bool(ids)])
            examples.append(Examples(result.features.first(k), relevant[:, :k], answerable, weight))
    return examples


def without_answers(
    method: Method,
    store: Searched,
    queries: Sequence[str],
    parts: Sequence[Gaussian],
    answers: Sequence[Collection[str]],
    k: int,
) -> list[Examples]:
    """Compute the same for each query over the corpus without its answers."""
    examples = []
    with progress_bar("Searching", len(answers)) as bar:
        for row, ids in enumerate(answers):
            view = store.snapshot({"$not": {"$id": sorted(ids)}})
            of_query = [part[row : row + 1] for part in parts]
            examples += labelled_examples(method, view, [queries[row]], of_query, [()], k)
            bar.update()
    return examples


def report_of(uec: UEC, calibration: CorpusCalibration | None) -> str:
    """Describe how relevance and confidence were learned, and their limitations."""
    if calibration is not None:
        return str(calibration)
    if uec.fitted.confidence_model is None:
        return (
            "The ensemble is not fitted, so confidence is unreliable: it comes from a model "
            "that was learned on other ensembles' similarities, standardised over the corpus. "
            "Call fit_from(passages), which needs 32 questions made of them and no labels, or "
            "calibrate."
        )
    source = f"The ensemble is {uec.report.source}. " if uec.report and uec.report.source else ""
    return (
        f"{source}Confidence was learned on other collections and may be off on this one; with "
        "labels, calibrate corrects it."
    )
