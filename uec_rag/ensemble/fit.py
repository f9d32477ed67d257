"""Fit an ensemble: the posterior of each encoder, then evidence weights and confidence."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from uec_rag.base.gaussian import Gaussian
from uec_rag.base.progress import progress_bar
from uec_rag.base.similarity import moments
from uec_rag.confidence.model import (
    ConfidenceModel,
    FitView,
    fit_temperature,
    keep_level,
    shipped_model,
)
from uec_rag.encoders import Encoded, Encoder, Role
from uec_rag.encoders.lexical import Lexical
from uec_rag.ensemble.convolution import Evidence, EvidenceWeights, check_one_space
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
    start = time.perf_counter()
    bar = progress_bar("Fitting", 3, show_progress)
    posteriors = fit_posteriors(encoders, pairs_of_each, options, show_progress=show_progress)
    bar.update()
    fitted = replace(unfitted, posteriors=tuple(posteriors.posteriors))
    questions = posteriors.fit_queries(fitted, options.seed)
    if isinstance(fitted.rule, Evidence) and len(encoders) > 1:
        strange = list[FitCorpus]()
        if not are_generated:
            strange = _encode_pseudo_languages(
                encoders, fitted, questions.questions, options.seed, show_progress
            )
        weights = _evidence_weights(fitted, questions, options.seed, strange)
        fitted = replace(fitted, rule=Evidence(weights))
    bar.update()
    known = shipped_fit(encoders, unfitted, options)
    views = questions.views(fitted)
    model = _confidence_model(fitted, views, posteriors, known, options.seed, are_generated)
    bar.close()
    summaries = {
        n: post.summary for n, post in zip(fitted.names, posteriors.posteriors, strict=True)
    }
    coefficients = fitted.encoder_coefficients(questions.queries, questions.coefficients(fitted))
    shares = fitted.shares(coefficients)
    seconds = time.perf_counter() - start - posteriors.encoding_seconds
    report = FitReport(
        summaries,
        options.structure,
        options.likelihood,
        posteriors.encoding_seconds,
        seconds,
        source=f"fitted without labels on {len(pairs_of_each[0].queries)} questions made of the "
        "passages"
        if are_generated
        else "",
        pairs=tuple(sum(map(len, each.positives)) for each in pairs_of_each),
        shares=tuple(shares.mean(axis=0).tolist()),
        deviations=tuple(shares.std(axis=0).tolist()),
    )
    profile = _profile(posteriors.questions, fitted.blocks(posteriors.corpus))
    return replace(fitted, confidence_model=model, report=report, training_profile=profile)


def _profile(questions: Questions, passages: Sequence[Gaussian]) -> TrainingProfile:
    """Summarise the questions of a fit, given each block's Gaussians of their corpus."""
    pairs = [
        (query, questions.corpus[rows[0]])
        for query, rows in zip(questions.queries[:_PROFILED], questions.relevant, strict=False)
    ]
    return TrainingProfile.from_pairs(pairs, passages)


def _evidence_weights(
    fitted: Fitted, questions: FitQueries, seed: int, strange: Sequence[FitCorpus]
) -> EvidenceWeights:
    """Learn the evidence weights of the questions of a fit, and of those over other corpora."""
    traces = fitted.standardise_traces(questions.queries)
    return fit_evidence_weights(
        FitCorpus(questions.own, questions.questions.relevant, traces),
        fitted.slopes,
        fitted.intercepts,
        seed=seed,
        others=strange,
    )


def _confidence_model(
    fitted: Fitted,
    views: Sequence[FitView],
    posteriors: FittedPosteriors,
    known: Fitted | None,
    seed: int,
    are_generated: bool,
) -> ConfidenceModel:
    """Adapt the shipped model of confidence to an ensemble.

    `known`: the shipped fit of the same encoders, if there is one. `are_generated`: as in `fit`.
    """
    if known is None or known.confidence_model is None:
        words = any(part.terms for part in posteriors.queries)
        shipped = shipped_model("words" if words else "fitted")
        model = replace(shipped, temperature=fit_temperature(views))
        if not are_generated:
            return model
        in_corpus = model.in_corpus.with_line(_GENERATED_SLOPE, _GENERATED_OFFSET)
        return replace(model, in_corpus=in_corpus)
    model, before = known.confidence_model, posteriors.fit_queries(known, seed).views(known)
    temperature = model.temperature * fitted.slope / known.slope
    return keep_level(model, before, views, temperature)


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
        shown = {"show_progress": show_progress}
        queries = fitted.gaussians([e.encode(strange.queries, "query", **shown) for e in encoders])
        corpus = fitted.gaussians([e.encode(strange.corpus, "passage", **shown) for e in encoders])
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
    encoding_seconds : float
        Time spent in the encoders.
    """

    posteriors: list[Posterior]
    queries: list[Gaussian]
    corpus: list[Gaussian]
    questions: Questions
    encoding_seconds: float

    def fit_queries(self, fitted: Fitted, seed: int) -> FitQueries:
        """Return the questions as an ensemble of these encoders asks them, whatever its fit."""
        queries, passages = fitted.blocks(self.queries), fitted.blocks(self.corpus)
        own = [moments(q, c)[0] for q, c in zip(queries, passages, strict=True)]
        corpus = fitted.combine_as(passages, "passage")
        return FitQueries(queries, corpus, own, self.questions, seed)


@dataclass(frozen=True, eq=False)
class _Encodings:
    """The output of an encoder for distinct texts in one role, by text."""

    encoded: Encoded
    place: dict[str, int]

    @classmethod
    def from_encoder(
        cls, encoder: Encoder, texts: Sequence[str], role: Role, show_progress: bool | None
    ) -> Self:
        distinct = list(dict.fromkeys(texts))
        encoded = encoder.encode(distinct, role, show_progress=show_progress)
        return cls(encoded, {text: row for row, text in enumerate(distinct)})

    def select(self, texts: Sequence[str]) -> Encoded:
        return self.encoded[[self.place[text] for text in texts]]


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
    start = time.perf_counter()
    questions = choose_questions(list({id(each): each for each in pairs}.values()), options.seed)
    queries, passages = [], []
    for encoder, given in zip(encoders, pairs, strict=True):
        texts = [*given.queries, *questions.queries], [*given.passages, *questions.corpus]
        queries.append(_Encodings.from_encoder(encoder, texts[0], "query", show_progress))
        passages.append(_Encodings.from_encoder(encoder, texts[1], "passage", show_progress))
    encoding_seconds = time.perf_counter() - start
    posteriors = []
    for encoder, given, query, passage in zip(encoders, pairs, queries, passages, strict=True):
        sides = query.select(given.queries), passage.select(given.passages)
        posteriors.append(fit_posterior(given, *sides, encoder.gain, **options.posterior_options))

    def gaussians(sides: list[_Encodings], texts: list[str]) -> list[Gaussian]:
        pairs = zip(posteriors, sides, strict=True)
        return [posterior.gaussian(side.select(texts)) for posterior, side in pairs]

    own = gaussians(queries, questions.queries), gaussians(passages, questions.corpus)
    return FittedPosteriors(posteriors, *own, questions, encoding_seconds)
