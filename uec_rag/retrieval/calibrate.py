"""Calibrate confidence on the user's corpus, with labelled queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from uec_rag.base.checks import check_texts
from uec_rag.base.errors import warn
from uec_rag.base.gaussian import Gaussian
from uec_rag.base.progress import progress_bar
from uec_rag.base.records import Record
from uec_rag.confidence.model import ConfidenceModel, Examples, shipped_model
from uec_rag.documents.questions import make_questions
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.request import Query
from uec_rag.retrieval.search import Method, rank
from uec_rag.stores.base import Passage, Store
from uec_rag.stores.local import LocalStore

FEWEST = 20
"""The smallest number of queries, labelled or generated, for a calibration."""


@dataclass(frozen=True)
class CorpusCalibration(Record):
    """The parameters learned on a corpus.

    Attributes
    ----------
    queries : int
        Number of queries.
    k : int
        Number of hits that confidence is about.
    corpus : str
        Fingerprint of the corpus.
    """

    model: ConfidenceModel
    queries: int
    k: int
    corpus: str

    def __str__(self) -> str:
        """Describe the calibration in a sentence."""
        return (
            f"Calibrated on {self.queries} labelled queries: relevance and confidence, for the "
            f"first {self.k} hits. {self.model.unanswerable:.0%} of the questions are assumed to "
            "be unanswerable."
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
        Ids of the passages that answer each query; empty if none does.

    Raises
    ------
    TypeError, ValueError
        If there is not one collection of ids per query, an id is not in the index, all collections
        are empty, or there are fewer than `fewest` queries.
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
    unknown = list[str]()
    if store.can_look_up:
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
            "Queries that the corpus does not answer may be included."
        )
    if len(queries) < fewest:
        raise ValueError(
            f"queries: expected at least {fewest} to calibrate on, got {len(queries)}."
        )
    return wanted


def calibrate_with_labels(
    uec: UEC,
    store: Store,
    queries: Sequence[str],
    parts: Sequence[Gaussian],
    wanted: Sequence[frozenset[str]],
    *,
    unanswerable_rate: float,
    k: int,
    fingerprint: str,
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
    parts : sequence of K Gaussian
        Gaussians of the queries from each encoder.
    wanted : sequence of frozenset of str
        Ids of relevant passages, as `check_labels` returns them.
    unanswerable_rate : float
        Share of queries that the corpus will not answer. If all labelled queries have answers,
        each is repeated with its answers hidden, weighted to make up this share.
    k : int
        Number of hits that confidence is about.
    fingerprint : str
        Fingerprint of the corpus.
    """
    known = uec.fitted.confidence_model
    model = shipped_model("unfitted") if known is None else known
    weights = uec.fitted.evidence_weights
    method = Method(uec.fitted, weights, model, check_familiar=False)
    examples = labelled_examples(method, store, queries, parts, wanted, k)
    if not examples:
        raise ValueError("queries: nothing was found for any of them; check the index and filter.")
    warn_of_lost(store, wanted)
    if unanswerable_rate > 0 and all(wanted):
        hidden = without_answers(method, store, queries, parts, wanted, k)
        odds = np.float32(unanswerable_rate / (1 - unanswerable_rate))
        examples += [replace(each, weight=odds * each.weight) for each in hidden]
    model = model.recalibrate(Examples.concatenate(examples))
    return CorpusCalibration(model, len(queries), k, fingerprint)


def labelled_examples(
    method: Method,
    store: Store,
    queries: Sequence[str],
    parts: Sequence[Gaussian],
    wanted: Sequence[Collection[str]],
    k: int,
) -> list[Examples]:
    """Compute the features of queries as a search does, with the label of each hit.

    Queries for which nothing is found are left out.

    Parameters
    ----------
    parts : sequence of K Gaussian
        Gaussians of the queries from each encoder.
    wanted : sequence of n collections of str
        Ids of the passages that answer each query; empty if none does.
    k : int
        Number of hits with distinct texts.
    """
    examples, start = [], 0
    with progress_bar("Searching", len(queries)) as bar:
        for ranking in rank(method, store, [*map(Query, queries)], parts, k):
            labels = wanted[start : start + len(ranking.queries)]
            start += len(ranking.queries)
            bar.update(len(ranking.queries))
            if ranking.features is None:
                continue
            relevant = ranking.relevant_texts(labels)
            examples.append(
                Examples(
                    ranking.features.first(k),
                    relevant[:, :k],
                    np.array([bool(ids) for ids in labels]),
                    np.ones(len(labels), dtype=np.float32),
                )
            )
    return examples


def warn_of_lost(store: Store, wanted: Sequence[Collection[str]]) -> None:
    """Warn if a source of candidates has not found some of the passages that are labelled.

    `store`: the view that was searched.
    """
    every = frozenset[str]().union(*wanted)
    if lost := store.missed(every):
        warn(
            f"{len(lost)} of {len(every)} labelled passages are not among the candidates that the "
            f"store finds ({store.contents}): no answer can come from these. Ask it for more."
        )


def without_answers(
    method: Method,
    store: Store,
    queries: Sequence[str],
    parts: Sequence[Gaussian],
    wanted: Sequence[Collection[str]],
    k: int,
) -> list[Examples]:
    """Compute the same for each query over the corpus without its answers."""
    examples = []
    with progress_bar("Searching", len(wanted)) as bar:
        for row, ids in enumerate(wanted):
            others = store.snapshot({"$not": {"$id": sorted(ids)}})
            if others.remote or len(others):
                of_query = [part[row : row + 1] for part in parts]
                unanswered = [frozenset[str]()]
                examples += labelled_examples(
                    method, others, [queries[row]], of_query, unanswered, k
                )
            bar.update()
    return examples


_UNANSWERED = 5  # every fifth question has no answer
_MOST_PASSAGES = 3000


def make_trial(
    uec: UEC, store: Store, most: int = 300, seed: int = 0
) -> tuple[list[str], list[set[str]], LocalStore]:
    """Make questions from the passages, to evaluate a search without labels.

    Parameters
    ----------
    uec, store
        The ensemble, and the store to search.
    most : int
        Maximum number of questions.
    seed : int
        Random seed of the sample.

    Returns
    -------
    questions : list of str
        Headings or first sentences, which are harder to answer than the questions of users.
    relevant : list of set of str
        Ids of the passages that answer each question; none for every fifth question.
    trial : LocalStore
        The passages, or a sample of them, to ask the questions of. Passages that a question was
        made from only have the text that answers it, and the answers of every fifth question are
        left out.

    Raises
    ------
    ValueError
        If fewer than `FEWEST` questions can be made.
    """
    passages = list(store.passages())
    chosen = np.random.default_rng(seed).permutation(len(passages))[:_MOST_PASSAGES]
    sample = [passages[row] for row in chosen]
    made = make_questions(sample, most)
    if len(made.questions) < FEWEST:
        raise ValueError(
            f"only {len(made.questions)} questions could be made from {len(store):,} passages, "
            f"expected at least {FEWEST}; give labelled questions."
        )
    texts = [made.answers.get(position, passage.text) for position, passage in enumerate(sample)]
    gaussians = _with_answers(uec, store, sample, made.answers, texts)
    gone = {position for answers in made.relevant[::_UNANSWERED] for position in answers}
    there = [position for position in range(len(sample)) if position not in gone]
    tried = LocalStore()
    tried.bind(uec.fingerprint)
    tried.add(
        [replace(sample[position], text=texts[position]) for position in there], gaussians[there]
    )
    answers = [{sample[position].id for position in {*answer} - gone} for answer in made.relevant]
    return made.questions, answers, tried


def _with_answers(
    uec: UEC,
    store: Store,
    sample: Sequence[Passage],
    answers: Mapping[int, str],
    texts: Sequence[str],
) -> Gaussian:
    """Return the Gaussians of sampled passages, with only the answers of generated questions."""
    corpus = store.vectors([passage.id for passage in sample])
    corpus = corpus.with_terms(uec.embed_terms(texts))
    columns = [position for position, answer in answers.items() if answer != sample[position].text]
    if not columns:
        return corpus
    new = uec.embed([answers[column] for column in columns], "passage")
    mean, scales = corpus.mean.copy(), corpus.scales.copy()
    mean[columns], scales[columns] = new.mean, new.scales
    return Gaussian.from_factors(
        mean, scales, corpus.profile, widths=corpus.widths, terms=corpus.terms
    )
