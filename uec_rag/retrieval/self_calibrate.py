"""Calibration on the user's corpus without labels, with questions made from its passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from uec_rag.base.gaussian import Gaussian
from uec_rag.base.similarity import moments
from uec_rag.confidence.model import fit_confidence
from uec_rag.corpora.questions import OwnQuestions, make_questions
from uec_rag.ensemble.convolution import Evidence, EvidenceWeights, blocks
from uec_rag.ensemble.fit_queries import FitQueries, Questions
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.calibrate import FEWEST, CorpusCalibration
from uec_rag.stores.base import Passage, Store
from uec_rag.stores.memory import MemoryStore

# Share of the learned change of weights that is applied. If the questions mislead, the full change
# costs 0.004 of nDCG@10 and half of it 0.002.
_FOLLOWED = 0.5
_MOST_QUESTIONS = 300
_MOST_PASSAGES = 3000


def self_calibrate(
    uec: UEC, store: Store, k: int, fingerprint: str, seed: int
) -> CorpusCalibration:
    """Learn evidence weights, and confidence if there is none, from questions made from passages.

    Passages that a question was made from are replaced in the corpus by the text that answers it
    (see `make_questions`). A fifth of the questions is asked of a corpus without their answers.

    Parameters
    ----------
    uec, store
        The ensemble, and the store to search.
    k : int
        Number of hits that confidence is about.
    fingerprint : str
        Fingerprint of the corpus.
    seed : int
        Random seed of the samples.

    Raises
    ------
    ValueError
        If fewer than `FEWEST` questions can be made.
    """
    fitted = uec.fitted
    sample, made = _own_questions(store, _MOST_QUESTIONS, seed)
    if len(made.questions) < FEWEST:
        raise ValueError(
            f"self_calibrate: made {len(made.questions)} questions from {len(store)} passages, "
            f"expected at least {FEWEST}; calibrate with labelled queries."
        )
    # The confidence of the fit is kept. On Python's documentation, 18 of 20 natural questions were
    # answered with it, and none after confidence was learned from first sentences, for which the
    # rest is harder to find (docs/measurements).
    known = fitted.confidence_model
    calibrated = partial(
        CorpusCalibration,
        source="self",
        queries=len(made.questions),
        k=k,
        corpus=fingerprint,
    )
    if known is not None and fitted.evidence_weights is None:  # nothing to learn
        return calibrated(model=known, evidence_weights=None, of_fit=True)
    texts = [made.answers.get(place, passage.text) for place, passage in enumerate(sample)]
    corpus = _with_answers(uec, store, sample, made.answers, texts)
    parts = uec.encode(made.questions, "query")
    own = None
    if fitted.space == "direct":
        members = blocks(corpus.mean, [part.dimension for part in parts], fitted.weights)
        terms = iter(corpus.terms)
        own = [
            moments(part, Gaussian.certain(member, [next(terms).unscaled] if part.terms else []))[0]
            for part, member in zip(parts, members, strict=True)
        ]
    questions = Questions(made.questions, texts, made.relevant)
    fit_queries = FitQueries(parts, corpus, own, questions, seed)
    weights = None if fitted.evidence_weights is None else _learned_weights(fit_queries, fitted)
    model = known
    if model is None:
        sizes = len(sample) // 4, len(sample)
        used = fitted if weights is None else replace(fitted, rule=Evidence(weights))
        model = fit_confidence(fit_queries.views(used, sizes), k, same_corpora=True)
    return calibrated(model=model, evidence_weights=weights, of_fit=known is not None)


def _own_questions(store: Store, most: int, seed: int) -> tuple[list[Passage], OwnQuestions]:
    """Sample passages, and make questions from them."""
    passages = list(store.passages())
    chosen = np.random.default_rng(seed).permutation(len(passages))[:_MOST_PASSAGES]
    sample = [passages[row] for row in chosen]
    return sample, make_questions(sample, most)


_UNANSWERED = 5  # every fifth question has no answer


def make_trial(
    uec: UEC, store: Store, most: int = _MOST_QUESTIONS, seed: int = 0
) -> tuple[list[str], list[set[str]], MemoryStore]:
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
    trial : MemoryStore
        The passages, or a sample of them, to ask the questions of. Passages that a question was
        made from only have the text that answers it, and the answers of every fifth question are
        left out.

    Raises
    ------
    ValueError
        If fewer than `FEWEST` questions can be made.
    """
    sample, made = _own_questions(store, most, seed)
    if len(made.questions) < FEWEST:
        raise ValueError(
            f"only {len(made.questions)} questions could be made from {len(store):,} passages, "
            f"expected at least {FEWEST}; give labelled questions."
        )
    texts = [made.answers.get(place, passage.text) for place, passage in enumerate(sample)]
    gaussians = _with_answers(uec, store, sample, made.answers, texts)
    gone = {place for places in made.relevant[::_UNANSWERED] for place in places}
    there = [place for place in range(len(sample)) if place not in gone]
    tried = MemoryStore()
    tried.bind(uec.fingerprint)
    tried.add([replace(sample[place], text=texts[place]) for place in there], gaussians[there])
    answers = [{sample[place].id for place in {*found} - gone} for found in made.relevant]
    return made.questions, answers, tried


def _learned_weights(asked: FitQueries, fitted: Fitted) -> EvidenceWeights | None:
    """Learn evidence weights; None to keep those of the ensemble.

    Questions made from a passage's own words are biased towards encoders that match words. The
    weights of these encoders are kept, and only the relative weights of the others are learned.
    Since such questions also differ from those of users, only half of the change is applied.
    """
    wordwise = [bool(part.terms) for part in asked.queries]
    if not any(wordwise):
        return asked.fit_evidence_weights(fitted)
    others = [member for member, words in enumerate(wordwise) if not words]
    known = fitted.evidence_weights
    if known is None or len(others) < 2:
        return None
    found = asked.among(others).fit_evidence_weights(fitted.among(others))
    prior = np.array(known.prior)
    learned = prior[others].mean() + np.array(found.prior) - np.mean(found.prior)
    prior[others] += _FOLLOWED * (learned - prior[others])
    return replace(known, prior=tuple(prior.tolist()))


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
    columns = [place for place, answer in answers.items() if answer != sample[place].text]
    if not columns:
        return corpus
    new = uec.embed([answers[column] for column in columns], "passage")
    mean, scales = corpus.mean.copy(), corpus.scales.copy()
    mean[columns], scales[columns] = new.mean, new.scales
    return Gaussian.factored(mean, scales, corpus.profile, terms=corpus.terms)
