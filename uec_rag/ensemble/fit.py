"""Fitting: posteriors, each encoder on its own pairs; then evidence weights and confidence."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import moments
from uec_rag.confidence.shipped import shipped_model
from uec_rag.encoders import Encoded, Encoder, Role
from uec_rag.encoders.lexical import Lexical
from uec_rag.encoders.verifier import Verifier
from uec_rag.ensemble.coefficients import Evidence
from uec_rag.ensemble.convolution import check_one_space
from uec_rag.ensemble.evidence_fit import AskedElsewhere
from uec_rag.ensemble.familiar import Familiar
from uec_rag.ensemble.fit_queries import FitQueries
from uec_rag.ensemble.fitted import Fitted, blocks_of
from uec_rag.ensemble.made_up_language import LANGUAGES, made_up
from uec_rag.ensemble.questions import Questions, choose_questions
from uec_rag.ensemble.report import FitFacts, FitReport
from uec_rag.ensemble.verifier import VERIFY_K, verifier_name
from uec_rag.laplace.fit import Curvature, fit_posterior, require_laplace
from uec_rag.laplace.likelihood import Likelihood
from uec_rag.laplace.pairs import Negatives, Pairs, check_pairs
from uec_rag.laplace.posterior import Posterior, Structure
from uec_rag.laplace.terms import fit_terms

PairsLike = Iterable[Sequence[object]] | Mapping[str, Iterable[Sequence[object]]]
"""(query, passage[, label]) tuples for all encoders, or a list of them for each by name."""

_LOOKED_AT = 300  # questions, and passages, that tell in what a fit's texts are written


def fit(
    encoders: Sequence[Encoder],
    unfitted: Fitted,
    pairs: PairsLike,
    *,
    structure: Structure,
    likelihood: Likelihood,
    negatives: Negatives = "hard",
    scaled: bool = True,
    seed: int,
    verifier: Verifier | None = None,
    verify_k: int = VERIFY_K,
    show_progress: bool = False,
    curvature: Curvature | None = None,
) -> Fitted:
    """Fit an ensemble; see `UEC.fit`.

    Parameters
    ----------
    encoders : sequence of K Encoder
    unfitted : Fitted
        What is known before: names, space, rule and beta.
    pairs : iterable or mapping
        As in `UEC.fit`.
    structure, likelihood, negatives, scaled, seed
        As in `fit_posterior`.
    verifier, verify_k
        As in `UEC`.
    show_progress : bool
    curvature : callable, optional
        As in `fit_posterior`.

    Returns
    -------
    Fitted
        `unfitted` with the posteriors and what is learned on top of them.
    """
    given = _pairs_of_each(unfitted.names, pairs)
    # Whatever else can go wrong must do so before hours of encoding, not after.
    require_laplace()
    if unfitted.space == "shared":
        check_one_space([encoder.dimension for encoder in encoders])
    start = time.perf_counter()
    found = fit_posteriors(
        encoders,
        given,
        structure=structure,
        likelihood=likelihood,
        negatives=negatives,
        scaled=scaled,
        seed=seed,
        show_progress=show_progress,
        curvature=curvature,
    )
    fitted = replace(unfitted, posteriors=tuple(found.posteriors))
    by_evidence = isinstance(fitted.rule, Evidence) and len(encoders) > 1
    questions = FitQueries(
        found.queries,
        fitted.combine(found.corpus, fitted.coefficients(found.corpus, "passage")),
        [moments(q, c)[0] for q, c in zip(found.queries, found.corpus, strict=True)]
        if by_evidence
        else None,
        found.questions,
        seed,
    )
    if by_evidence:
        strange = _in_no_language(encoders, fitted, found.questions, seed)
        weights = questions.fit_evidence_weights(fitted, strange)
        fitted = replace(fitted, rule=Evidence(weights))
    model = questions.fit_confidence(fitted, fitted.evidence_weights)
    known = shipped_model("words" if model.by_member else "fitted")
    summaries = {n: post.summary for n, post in zip(fitted.names, found.posteriors, strict=True)}
    checked = None
    if verifier is not None:
        name = verifier_name(fitted.names, verifier)
        checked = questions.fit_verifier(fitted, fitted.evidence_weights, verifier, name, verify_k)
        summaries[name] = checked.posterior.summary
    seconds = time.perf_counter() - start - found.encoding_seconds
    report = FitReport(
        summaries,
        structure,
        likelihood,
        found.encoding_seconds,
        seconds,
        facts=FitFacts.of(
            [sum(map(len, own.positives)) for own in given],
            fitted.shares(questions.coefficients(fitted, fitted.evidence_weights)),
            model.unanswerable,
            model.in_corpus.weights != known.in_corpus.weights,
        ),
    )
    texts = [*found.questions.queries[:_LOOKED_AT], *found.questions.corpus[:_LOOKED_AT]]
    return replace(
        fitted,
        confidence_model=model,
        report=report,
        familiar=Familiar.of(texts, found.corpus),
        verifier=checked,
    )


def _in_no_language(
    encoders: Sequence[Encoder], fitted: Fitted, questions: Questions, seed: int
) -> list[AskedElsewhere]:
    """Questions that words answer and models do not, where there are both."""
    if len({isinstance(encoder, Lexical) for encoder in encoders}) < 2:
        return []
    out = []
    for number, language in enumerate(LANGUAGES):
        strange = made_up(questions, language, seed + number)
        queries = fitted.gaussians([e.encode(strange.queries, "query") for e in encoders])
        corpus = fitted.gaussians([e.encode(strange.corpus, "passage") for e in encoders])
        similarities = [moments(q, c)[0] for q, c in zip(queries, corpus, strict=True)]
        traces = fitted.standardised_traces(queries)
        out.append(AskedElsewhere(similarities, strange.relevant, traces))
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
    """Posteriors, and encoded questions for what is learned on top of them.

    Attributes
    ----------
    posteriors : list of Posterior
        One per encoder.
    queries, corpus : list of Gaussian
        Each encoder's, of some questions and a corpus that holds their answers: for what is
        learned on top of the posteriors.
    questions : Questions
        Their texts, and the places in the corpus of each query's answers.
    encoding_seconds : float
        Time in the encoders.
    """

    posteriors: list[Posterior]
    queries: list[Gaussian]
    corpus: list[Gaussian]
    questions: Questions
    encoding_seconds: float


@dataclass(frozen=True, eq=False)
class _Encodings:
    """One encoder's encodings of distinct texts of one role, by text."""

    encoded: Encoded
    place: dict[str, int]

    @classmethod
    def of(cls, encoder: Encoder, texts: Sequence[str], role: Role, show_progress: bool) -> Self:
        distinct = list(dict.fromkeys(texts))
        encoded = encoder.encode(distinct, role, show_progress=show_progress)
        return cls(encoded, {text: row for row, text in enumerate(distinct)})

    def select(self, texts: Sequence[str]) -> Encoded:
        rows = [self.place[text] for text in texts]
        found = self.encoded
        terms = None if found.terms is None else found.terms[rows]
        return Encoded(found.embedding[rows], found.features[rows], terms)

    def gaussians(self, texts: Sequence[str], posterior: Posterior) -> Gaussian:
        encoded = self.select(texts)
        gaussian = posterior.gaussian(encoded.embedding, encoded.features)
        return gaussian.with_terms(blocks_of(encoded))


def fit_posteriors(
    encoders: Sequence[Encoder],
    pairs: Sequence[Pairs],
    *,
    structure: Structure,
    likelihood: Likelihood,
    negatives: Negatives = "hard",
    scaled: bool = True,
    seed: int,
    show_progress: bool,
    curvature: Curvature | None = None,
) -> FittedPosteriors:
    """Fit the posteriors of all encoders, each on its own pairs.

    Parameters
    ----------
    encoders : sequence of Encoder
    pairs : sequence of Pairs
        One per encoder; the same object where they share.
    structure, likelihood, negatives, scaled, seed, curvature
        As in `fit_posterior`.
    show_progress : bool
    """
    start = time.perf_counter()
    questions = choose_questions(list({id(own): own for own in pairs}.values()), seed)
    queries, passages = [], []
    for encoder, own in zip(encoders, pairs, strict=True):
        asked = [*own.queries, *questions.queries]
        found = [*own.passages, *questions.corpus]
        queries.append(_Encodings.of(encoder, asked, "query", show_progress))
        passages.append(_Encodings.of(encoder, found, "passage", show_progress))
    encoding_seconds = time.perf_counter() - start
    posteriors = [
        _fit_one(
            own,
            q.select(own.queries),
            p.select(own.passages),
            encoder.gain,
            structure=structure,
            likelihood=likelihood,
            negatives=negatives,
            scaled=scaled,
            seed=seed,
            curvature=curvature,
        )
        for encoder, own, q, p in zip(encoders, pairs, queries, passages, strict=True)
    ]
    return FittedPosteriors(
        posteriors,
        [q.gaussians(questions.queries, p) for q, p in zip(queries, posteriors, strict=True)],
        [p.gaussians(questions.corpus, post) for p, post in zip(passages, posteriors, strict=True)],
        questions,
        encoding_seconds,
    )


def _fit_one(
    pairs: Pairs,
    queries: Encoded,
    passages: Encoded,
    gain: FloatArray,
    *,
    structure: Structure,
    likelihood: Likelihood,
    negatives: Negatives,
    scaled: bool,
    seed: int,
    curvature: Curvature | None,
) -> Posterior:
    """Fit one encoder, with vectors or without; parameters as in `fit_posterior`."""
    if queries.terms is None or passages.terms is None:
        return fit_posterior(
            pairs,
            queries,
            passages,
            gain,
            structure=structure,
            likelihood=likelihood,
            negatives=negatives,
            scaled=scaled,
            seed=seed,
            curvature=curvature,
        )
    return fit_terms(pairs, queries.terms, passages.terms, structure=structure, seed=seed)
