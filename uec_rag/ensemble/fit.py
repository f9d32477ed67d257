"""Fit an ensemble: the posterior of each encoder, then evidence weights and confidence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from uec_rag.base.gaussian import Gaussian
from uec_rag.base.progress import progress_bar
from uec_rag.base.similarity import moments
from uec_rag.confidence.model import ConfidenceModel, fit_temperature, keep_level, shipped_model
from uec_rag.encoders import Encoded, Encoder, Role
from uec_rag.encoders.lexical import Lexical
from uec_rag.ensemble.convolution import check_one_space
from uec_rag.ensemble.evidence_fit import FitCorpus, fit_evidence_weights
from uec_rag.ensemble.fit_queries import (
    LANGUAGES,
    FitQueries,
    Questions,
    choose_questions,
    to_pseudo_language,
)
from uec_rag.ensemble.fitted import FitOptions, FitReport, Fitted, TrainingProfile
from uec_rag.ensemble.save import shipped_fit
from uec_rag.laplace.fit import fit_posterior
from uec_rag.laplace.pairs import Pairs, check_pairs
from uec_rag.laplace.posterior import Posterior

PairsLike = Iterable[Sequence[object]] | Mapping[str, Iterable[Sequence[object]]]
"""(query, passage[, label]) tuples for all encoders, or such a list for each encoder by name."""

# The line that turns the log odds of an answer, after a fit on questions made of the passages, into
# those that `UEC()` gives for such questions: benchmarks/quality/own_model.py level. These are
# harder than those of users, so that a fit on them is unsure.
_GENERATED_SLOPE, _GENERATED_OFFSET = 1.18, 0.47
_PROFILED = 300  # questions, and passages, whose writing is recorded


def fit(
    encoders: Sequence[Encoder],
    unfitted: Fitted,
    pairs: PairsLike,
    options: FitOptions,
    *,
    show_progress: bool | None = None,
    are_generated: bool = False,
) -> Fitted:
    """Fit an ensemble; see `UEC.fit`.

    Parameters
    ----------
    unfitted : Fitted
        The ensemble before the fit: names, space, rule and beta.
    pairs : iterable or mapping
        As in `UEC.fit`.
    are_generated : bool
        Whether the pairs were made of the passages that are to be searched. No other texts are
        encoded then, and confidence gets the level that is usual for such pairs.

    Returns
    -------
    Fitted
        `unfitted` with the posteriors, evidence weights, confidence model and report.
    """
    pairs_of_each = _pairs_of_each(unfitted.names, pairs)
    if unfitted.space == "shared":
        check_one_space([encoder.dimension for encoder in encoders])
    start, seed = time.perf_counter(), options.seed
    bar = progress_bar("Fitting", 3, show_progress)
    made = fit_posteriors(encoders, pairs_of_each, options, show_progress=show_progress)
    bar.update()
    fitted = replace(unfitted, posteriors=tuple(made.posteriors))
    asked = made.fit_queries(fitted, seed)
    if fitted.rule.name == "adaptive" and len(encoders) > 1:
        strange = list[FitCorpus]()
        if not are_generated:
            strange = _encode_pseudo_languages(
                encoders, fitted, made.questions, seed, show_progress
            )
        traces = fitted.standardise_traces(asked.queries)
        own = FitCorpus(asked.own, made.questions.relevant, traces)
        evidence = fit_evidence_weights(
            own, fitted.slopes, fitted.intercepts, seed=seed, others=strange
        )
        fitted = replace(fitted, rule=replace(fitted.rule, evidence=evidence))
    bar.update()
    known = shipped_fit(encoders, unfitted, options)
    model = _confidence_model(fitted, asked, made, known, are_generated)
    bar.close()
    shares = fitted.shares(fitted.encoder_coefficients(asked.queries, asked.coefficients(fitted)))
    posteriors = zip(fitted.names, made.posteriors, strict=True)
    report = FitReport(
        {name: posterior.summary for name, posterior in posteriors},
        time.perf_counter() - start,
        source=f"fitted without labels on {len(pairs_of_each[0].queries)} questions made of the "
        "passages"
        if are_generated
        else "",
        pairs=tuple(int((each.labels == 1).sum()) for each in pairs_of_each),
        shares=tuple(shares.mean(axis=0).tolist()),
    )
    texts = made.questions
    known_pairs = [
        (query, texts.corpus[rows[0]])
        for query, rows in zip(texts.queries[:_PROFILED], texts.relevant, strict=False)
    ]
    profile = TrainingProfile.from_pairs(known_pairs)
    return replace(fitted, confidence_model=model, report=report, training_profile=profile)


def _confidence_model(
    fitted: Fitted,
    asked: FitQueries,
    made: FittedPosteriors,
    known: Fitted | None,
    are_generated: bool,
) -> ConfidenceModel:
    """Adapt the shipped model of confidence to an ensemble.

    `known`: the shipped fit of the same encoders, if there is one. `are_generated`: as in `fit`.
    """
    views = asked.views(fitted)
    if known is not None and known.confidence_model is not None:
        temperature = known.confidence_model.temperature * fitted.slope / known.slope
        before = made.fit_queries(known, asked.seed).views(known)
        return keep_level(known.confidence_model, before, views, temperature)
    shipped = shipped_model("words" if any(part.terms for part in made.queries) else "fitted")
    model = replace(shipped, temperature=fit_temperature(views))
    if not are_generated:
        return model
    in_corpus = model.in_corpus.with_line(_GENERATED_SLOPE, _GENERATED_OFFSET)
    return replace(model, in_corpus=in_corpus)


def _encode_pseudo_languages(
    encoders: Sequence[Encoder],
    fitted: Fitted,
    questions: Questions,
    seed: int,
    show_progress: bool | None,
) -> list[FitCorpus]:
    """Make questions in made-up languages, which BM25 answers and dense models do not.

    Returns none unless the ensemble has both kinds of members.
    """
    if len({isinstance(encoder, Lexical) for encoder in encoders}) < 2:
        return []
    out = []
    for number, language in enumerate(LANGUAGES):
        strange = to_pseudo_language(questions, language, seed + number)
        sides: tuple[tuple[list[str], Role], ...]
        sides = (strange.queries, "query"), (strange.corpus, "passage")
        queries, corpus = (
            fitted.gaussians([e.encode(some, role, show_progress=show_progress) for e in encoders])
            for some, role in sides
        )
        similarities = [moments(q, c)[0] for q, c in zip(queries, corpus, strict=True)]
        traces = fitted.standardise_traces(queries)
        out.append(FitCorpus(similarities, strange.relevant, traces))
    return out


def _pairs_of_each(names: Sequence[str], pairs: PairsLike) -> list[Pairs]:
    if not isinstance(pairs, Mapping):
        return [check_pairs(pairs)] * len(names)
    if set(pairs) != set(names):
        raise ValueError(
            f"pairs: expected a list for each of the encoders {list(names)}, got {list(pairs)}."
        )
    return [check_pairs(pairs[name], f"pairs[{name!r}]") for name in names]


@dataclass(frozen=True, eq=False)
class FittedPosteriors:
    """The posteriors, and the encoded questions that evidence and confidence are learned from.

    Attributes
    ----------
    posteriors : list of Posterior
        One per encoder.
    queries, corpus : list of Gaussian
        Gaussians of questions and of a corpus that contains their answers, from each encoder.
    questions : Questions
        Their texts, and the indices of each question's answers in the corpus.
    """

    posteriors: list[Posterior]
    queries: list[Gaussian]
    corpus: list[Gaussian]
    questions: Questions

    def fit_queries(self, fitted: Fitted, seed: int) -> FitQueries:
        """Return the questions as an ensemble of these encoders asks them, whatever its fit."""
        queries, passages = fitted.blocks(self.queries), fitted.blocks(self.corpus)
        own = [moments(q, c)[0] for q, c in zip(queries, passages, strict=True)]
        corpus = fitted.combine_as(passages, "passage")
        return FitQueries(queries, corpus, own, self.questions, seed)


def _encoded(
    encoder: Encoder, texts: Sequence[str], role: Role, show_progress: bool | None
) -> Callable[[Sequence[str]], Encoded]:
    """Encode distinct texts; return a function that looks the encodings of some texts up."""
    row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    encoded = encoder.encode([*row_of], role, show_progress=show_progress)
    return lambda some: encoded[[row_of[text] for text in some]]


def fit_posteriors(
    encoders: Sequence[Encoder],
    pairs: Sequence[Pairs],
    options: FitOptions,
    *,
    show_progress: bool | None,
) -> FittedPosteriors:
    """Fit the posteriors of all encoders, each on its own pairs.

    `pairs`: one item per encoder, the same object if they share it.
    """
    questions = choose_questions(list({id(each): each for each in pairs}.values()), options.seed)
    sides = [
        (
            _encoded(encoder, [*given.queries, *questions.queries], "query", show_progress),
            _encoded(encoder, [*given.passages, *questions.corpus], "passage", show_progress),
        )
        for encoder, given in zip(encoders, pairs, strict=True)
    ]
    posteriors, queries, corpus = list[Posterior](), list[Gaussian](), list[Gaussian]()
    names = ("structure", "likelihood", "negatives", "scaled", "seed")
    settings: dict[str, Any] = {name: getattr(options, name) for name in names}
    for encoder, given, (asked, answers) in zip(encoders, pairs, sides, strict=True):
        own = asked(given.queries), answers(given.passages)
        posterior = fit_posterior(given, *own, encoder.gain, **settings)
        posteriors.append(posterior)
        queries.append(posterior.gaussian(asked(questions.queries)))
        corpus.append(posterior.gaussian(answers(questions.corpus)))
    return FittedPosteriors(posteriors, queries, corpus, questions)
