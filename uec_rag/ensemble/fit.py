"""Fit an ensemble: the posterior of each encoder, then evidence weights and confidence.

Evidence weights are learned to rank the relevant passages of the fit queries first; confidence from
the same questions over corpora that lack some of the answers.
"""

from __future__ import annotations

import logging
import re
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.progress import Progress, progress_bar, span
from uec_rag.base.records import cached_property
from uec_rag.base.similarity import means
from uec_rag.confidence.fit_view import FitView, fit_profile, fit_temperature, level_of, with_level
from uec_rag.confidence.model import shipped_model
from uec_rag.encoders import Encoded, Encoder, Role
from uec_rag.encoders.base import encode_texts
from uec_rag.encoders.lexical import Lexical
from uec_rag.ensemble.convolution import (
    FEATURES,
    EvidenceWeights,
    check_one_space,
    corpus_evidence,
    standardise,
)
from uec_rag.ensemble.ensemble_file import shipped_fit
from uec_rag.ensemble.fitted import FitOptions, FitReport, Fitted, TrainingProfile
from uec_rag.laplace.fit_posterior import fit_posterior
from uec_rag.laplace.pairs import Pairs, check_pairs
from uec_rag.laplace.posterior import Posterior

PairsLike = Iterable[Sequence[object]] | Mapping[str, Iterable[Sequence[object]]]
"""(query, passage[, label]) tuples for all encoders, or such a list for each encoder by name."""

# Mean and deviation of the log odds of an answer that `UEC()` gives for questions made of passages,
# over ten collections: benchmarks/quality/own_model.py level. How hard these questions are for an
# ensemble that is fitted on them says little about those of users.
_GENERATED_LEVEL = 1.65, 1.81
# Questions made of a passage share more words with it than those of users, which halves the odds of
# words: chosen on three manuals, see benchmarks/results/own_model.md.
_FEWER_WORDS = float(np.log(0.5))
_log = logging.getLogger("uec_rag")
_PROFILED = 300  # questions, and passages, whose writing is recorded


def fit(
    encoders: Sequence[Encoder],
    unfitted: Fitted,
    pairs: PairsLike,
    *,
    show_progress: bool | None = None,
    are_generated: bool = False,
) -> Fitted:
    """Fit an ensemble; see `UEC.fit`.

    Parameters
    ----------
    unfitted : Fitted
        The ensemble before the fit: names, options and rule.
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
    with span("fit"), progress_bar("Fitting", 3, show_progress) as bar:
        return _fit(encoders, unfitted, pairs, bar, show_progress, are_generated)


def _fit(
    encoders: Sequence[Encoder],
    unfitted: Fitted,
    pairs: PairsLike,
    bar: Progress,
    show_progress: bool | None,
    are_generated: bool,
) -> Fitted:
    pairs_of_each = _pairs_of_each(unfitted.names, pairs)
    if not unfitted.is_direct:
        check_one_space([encoder.dimension for encoder in encoders])
    start, options = time.perf_counter(), unfitted.options
    seed = options.seed
    posteriors, encoded = fit_posteriors(encoders, pairs_of_each, options, show_progress)
    texts, fitted = encoded.questions, replace(unfitted, posteriors=tuple(posteriors))
    _log.info("uec_rag: fitting: the posteriors of %s are fitted.", ", ".join(unfitted.names))
    bar.update()
    fit_corpus = encoded.asked_by(fitted)
    if fitted.rule.name == "adaptive" and len(encoders) > 1:
        strange = list[FitCorpus]()
        kinds = {isinstance(encoder, Lexical) for encoder in encoders}
        # A service is paid by the text, and ranks other languages as well without them.
        is_paid = any(getattr(encoder, "waits", False) for encoder in encoders)
        if len(kinds) > 1 and not (are_generated or is_paid):
            strange = _encode_pseudo_languages(encoders, fitted, texts, seed)
        lines = fitted.slopes, fitted.intercepts
        evidence = fit_evidence_weights(fit_corpus, *lines, seed=seed, extras=strange)
        if are_generated:
            says_less = [_FEWER_WORDS * isinstance(encoder, Lexical) for encoder in encoders]
            prior = np.add(evidence.prior, says_less)
            evidence = replace(evidence, prior=tuple(prior.tolist()))
        fitted = replace(fitted, rule=replace(fitted.rule, evidence=evidence))
    _log.info("uec_rag: fitting: the weights of the models are fitted; confidence is left.")
    bar.update()
    preset = shipped_fit(encoders, unfitted)
    views = encoded.asked_by(fitted).views(fitted, seed)
    if preset is not None and preset.confidence_model is not None:
        temperature = preset.confidence_model.temperature * fitted.slope / preset.slope
        level = level_of(preset.confidence_model, encoded.asked_by(preset).views(preset, seed))
        model = replace(preset.confidence_model, temperature=temperature)
        model = with_level(model, views, *level)
    else:
        model = shipped_model("words" if any(part.terms for part in encoded.queries) else "fitted")
        model = replace(model, temperature=fit_temperature(views))
        if are_generated:
            model = with_level(model, views, *_GENERATED_LEVEL)
    model = replace(model, profile=fit_profile(views, model.temperature) or model.profile)
    bar.update()
    source = f"fitted without labels on {len(pairs_of_each[0].queries)} questions made of the "
    report = FitReport(
        {name: posterior.summary for name, posterior in zip(fitted.names, posteriors, strict=True)},
        time.perf_counter() - start,
        source=f"{source}passages" if are_generated else "",
    )
    profiled = zip(texts.queries[:_PROFILED], texts.relevant, strict=False)
    profile = TrainingProfile.from_pairs([(q, texts.corpus[rows[0]]) for q, rows in profiled])
    return replace(fitted, confidence_model=model, report=report, training_profile=profile)


def _pairs_of_each(names: Sequence[str], pairs: PairsLike) -> list[Pairs]:
    if not isinstance(pairs, Mapping):
        return [check_pairs(pairs)] * len(names)
    if set(pairs) != set(names):
        raise ValueError(
            f"pairs: expected a list for each of the encoders {list(names)}, got {list(pairs)}."
        )
    return [check_pairs(pairs[name], f"pairs[{name!r}]") for name in names]


@dataclass(frozen=True, eq=False)
class EncodedQuestions:
    """The encoded questions that evidence and confidence are learned from.

    Attributes
    ----------
    queries, corpus : list of Gaussian
        Gaussians of questions and of a corpus that contains their answers, from each encoder.
    questions : Questions
        Their texts, and the indices of each question's answers in the corpus.
    """

    queries: list[Gaussian]
    corpus: list[Gaussian]
    questions: Questions

    @cached_property
    def _similarities(self) -> list[FloatArray]:
        return [*map(means, self.queries, self.corpus)]

    def asked_by(self, fitted: Fitted) -> FitCorpus:
        """Return the questions as an ensemble of these encoders asks them, whatever its fit."""
        queries, passages = fitted.blocks(self.queries), fitted.blocks(self.corpus)
        similarities = self._similarities if fitted.is_direct else [*map(means, queries, passages)]
        corpus = fitted.combine_as(passages, "passage")
        return FitCorpus(similarities, self.questions.relevant, queries, corpus)


def _encoded(
    encoder: Encoder, texts: Sequence[str], role: Role, show_progress: bool | None
) -> Callable[[Sequence[str]], Encoded]:
    """Encode distinct texts; return a function that looks the encodings of some texts up."""
    row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    encoded = encode_texts(encoder, [*row_of], role, show_progress)
    return lambda texts: encoded[[row_of[text] for text in texts]]


def fit_posteriors(
    encoders: Sequence[Encoder],
    pairs: Sequence[Pairs],
    options: FitOptions,
    show_progress: bool | None = None,
) -> tuple[list[Posterior], EncodedQuestions]:
    """Fit the posteriors of all encoders, each on its own pairs, and encode questions with them.

    While a service embeds, other encoders are fitted.

    `pairs`: one item per encoder, the same object if they share it.
    """
    questions = choose_questions(list({id(part): part for part in pairs}.values()), options.seed)
    names = ("structure", "negatives", "scaled", "seed")
    settings: dict[str, Any] = {name: getattr(options, name) for name in names}

    def encode(at: int) -> list[Callable[[Sequence[str]], Encoded]]:
        encoder, sample = encoders[at], pairs[at]
        passages = [*sample.passages, *questions.corpus]
        queries = [*sample.queries, *questions.queries]
        sides: list[tuple[Sequence[str], Role]] = [(passages, "passage"), (queries, "query")]
        return [_encoded(encoder, texts, role, show_progress) for texts, role in sides]

    def fit_one(
        at: int, sides: Sequence[Callable[[Sequence[str]], Encoded]]
    ) -> tuple[Posterior, Gaussian, Gaussian]:
        (answers, encode_queries), encoder, sample = sides, encoders[at], pairs[at]
        encoded = encode_queries(sample.queries), answers(sample.passages)
        posterior = fit_posterior(sample, *encoded, encoder.gain, **settings)
        queries = posterior.gaussian(encode_queries(questions.queries))
        return posterior, queries, posterior.gaussian(answers(questions.corpus))

    waiting = [at for at, encoder in enumerate(encoders) if getattr(encoder, "waits", False)]
    fits = dict[int, tuple[Posterior, Gaussian, Gaussian]]()
    with ThreadPoolExecutor(max(1, len(waiting))) as pool:
        begun = {at: pool.submit(copy_context().run, encode, at) for at in waiting}
        for at in sorted(range(len(encoders)), key=begun.__contains__):
            fits[at] = fit_one(at, begun[at].result() if at in begun else encode(at))
    posteriors, queries, corpus = zip(*(fits[at] for at in range(len(encoders))), strict=True)
    return [*posteriors], EncodedQuestions([*queries], [*corpus], questions)


# The sizes of the corpora over which confidence is learned, so that it generalises to others.
_CORPUS_SIZES = (150, 600, 2400)

# Among very few passages, one always stands out, and only its similarity is informative.
_TINY, _TINY_CORPORA = 10, 30
_UNANSWERABLE = 0.2
_MOST_DRAWN = 300  # questions per corpus


@dataclass(frozen=True, eq=False)
class FitCorpus:
    """Encoded questions with a corpus that contains their answers.

    Attributes
    ----------
    similarities : sequence of K arrays, shape (n, N)
        Similarities of n questions to N passages in each block.
    relevant : sequence of n collections of int
        Indices of each question's answers in the corpus.
    queries : list of Gaussian
        Gaussians of the questions in each block.
    corpus : Gaussian
        The ensemble's Gaussians of the passages.
    """

    similarities: Sequence[FloatArray]
    relevant: Sequence[Collection[int]]
    queries: list[Gaussian]
    corpus: Gaussian

    def views(self, fitted: Fitted, seed: int) -> list[FitView]:
        """Compute the logits of the questions over corpora of several sizes that lack answers."""
        passages, share = len(self.corpus), _UNANSWERABLE
        drawn = partial(corpus_views, self.relevant, passages, unanswerable=share)
        cuts = drawn(sizes=_CORPUS_SIZES, queries=_MOST_DRAWN, seed=seed + 1)
        for number in range(_TINY_CORPORA):
            cuts += drawn(sizes=(_TINY,), queries=_TINY, seed=seed + 2 + number)
        return [self._over(cut, fitted) for cut in cuts]

    def _over(self, view: CorpusView, fitted: Fitted) -> FitView:
        """Compute the logits of some questions over some passages."""
        queries = [part[view.queries] for part in self.queries]
        cuts = [view.cut(cut) for cut in self.similarities]
        pi = fitted.weigh(queries, cuts, np.stack([cut.max(axis=1) for cut in cuts], axis=1))
        mu = means(fitted.combine(queries, pi), self.corpus[view.passages])
        slope, offset = fitted.logit_line(queries, pi)
        members = fitted.member_logits(queries, np.stack(cuts, axis=-1))
        return FitView(slope * mu + offset[:, None], view.relevant, members)


_MOST_QUERIES = 600  # more did not change the result, as measured
_OTHER_PASSAGES = 3000


@dataclass(frozen=True)
class Questions:
    """Some of the fit queries, and a corpus that contains their answers and other passages.

    Attributes
    ----------
    relevant : list of list of int
        Indices in `corpus` of each query's answers.
    """

    queries: list[str]
    corpus: list[str]
    relevant: list[list[int]]


def choose_questions(pairs: Sequence[Pairs], seed: int) -> Questions:
    """Draw questions from the positives of several lists of pairs."""
    answers: dict[str, dict[str, None]] = {}
    for part in pairs:
        for query, positives in zip(part.queries, part.positives, strict=True):
            if len(positives):
                answers.setdefault(query, {}).update((part.passages[p], None) for p in positives)
    rng = np.random.default_rng(seed)
    queries = list(answers)
    sample = [queries[row] for row in rng.permutation(len(queries))[:_MOST_QUERIES]]
    corpus = {text: None for query in sample for text in answers[query]}
    extras = [text for part in pairs for text in part.passages if text not in corpus]
    corpus.update((extras[row], None) for row in rng.permutation(len(extras))[:_OTHER_PASSAGES])
    row_of = {text: row for row, text in enumerate(corpus)}
    relevant = [[row_of[text] for text in answers[query]] for query in sample]
    return Questions(sample, list(corpus), relevant)


# The bounds of the weights. More evidence of failure must never increase an encoder's coefficient,
# even if a small or biased fit set suggests it.
#
# The trace of the variance is no evidence: learned from made-up languages, it mistakes a new domain
# for one, which cost .02 to .04 nDCG@10 on questions about finance (docs/measurements). The
# deviation gains .002 with made-up languages; learned only on texts that all encoders were fitted
# on, it costs .01 to .02, so that without other corpora it is left out.
_OUT, _POSITIVE, _NEGATIVE = (0.0, 0.0), (0.0, None), (None, 0.0)
_BOUNDS: dict[str, tuple[float | None, float | None]] = {
    "entropy": _NEGATIVE,
    "gap": _POSITIVE,
    "top": _POSITIVE,
    "base": _NEGATIVE,
    "deviation": _NEGATIVE,
}
_PENALTY = 0.03  # factor of the ridge penalty


@dataclass(frozen=True, eq=False)
class CorpusView:
    """A subset of the fit passages as a smaller corpus, with queries.

    Weights must generalise to corpora of any size, so they are learned on several sizes.

    Attributes
    ----------
    queries : array of int, shape (n,)
        Indices of the fit queries.
    passages : array of int, shape (N,)
        Indices of the fit passages.
    relevant : array of bool, shape (n, N)
        Whether a passage answers a query; a row without any True is an unanswerable query.
    """

    queries: NDArray[np.intp]
    passages: NDArray[np.intp]
    relevant: NDArray[np.bool_]

    def cut(self, matrix: FloatArray) -> FloatArray:
        """Select the view's rows and columns of a (queries, passages) matrix."""
        return matrix[np.ix_(self.queries, self.passages)]


def corpus_views(
    relevant: Sequence[Collection[int]],
    passages: int,
    *,
    sizes: Sequence[int] = (150, 600),
    queries: int = 300,
    unanswerable: float = 0.0,
    seed: int = 0,
) -> list[CorpusView]:
    """Draw corpora of several sizes from the fit passages.

    Parameters
    ----------
    relevant : sequence of n collections of int
        Indices of each fit query's relevant passages, at least one each.
    passages : int
        Number of fit passages.
    sizes : sequence of int
        Number of passages of each view in addition to the relevant ones, if there are enough.
    queries : int
        Largest number of queries in a view.
    unanswerable : float
        Share of a view's queries whose relevant passages are removed from it.
    """
    rng = np.random.default_rng(seed)
    views = []
    for size in sizes:
        rows = rng.permutation(len(relevant))[:queries]
        answers = np.unique([p for row in rows for p in relevant[row]])
        hidden = _choose_hidden([{*relevant[row]} for row in rows], round(unanswerable * len(rows)))
        extras = np.setdiff1d(rng.permutation(passages)[: size + len(answers)], answers)
        columns = np.setdiff1d(
            np.concatenate([rng.permutation(extras)[:size], answers]), np.array([*hidden], np.intp)
        )
        mask = np.zeros((len(rows), passages), dtype=bool)
        for position, row in enumerate(rows):
            mask[position, [*relevant[row]]] = True
        if len(columns):
            views.append(CorpusView(rows, columns.astype(np.intp), mask[:, columns]))
    return views


def _choose_hidden(answers: Sequence[Set[int]], limit: int) -> Set[int]:
    """Choose passages to remove until `limit` queries have lost all of their answers.

    Queries that share answers may lose some or all of theirs as well.
    """
    hidden = set[int]()
    for passages in answers:
        if sum(map(hidden.issuperset, answers)) >= limit:
            break
        hidden |= passages
    return hidden


def fit_evidence_weights(
    fit_corpus: FitCorpus,
    slopes: Sequence[float],
    intercepts: Sequence[float],
    *,
    seed: int = 0,
    extras: Sequence[FitCorpus] = (),
) -> EvidenceWeights:
    """Learn the weights that maximise the relevant passages' share of the fused posterior.

    Minimises the listwise negative log-likelihood of the relevant passages in
    ``softmax_c(sum_k pi_k l_k(c) / T)`` over small and larger views of the fit passages, with a
    ridge penalty towards equal weights, by L-BFGS with bounds. This takes a few seconds. A prior
    per encoder is learned: the penalty makes it irrelevant for pairs of one domain, and it
    distinguishes languages if there are several.

    Parameters
    ----------
    fit_corpus : FitCorpus
        The fit queries and passages; a few hundred queries are enough.
    slopes, intercepts
        As in `corpus_evidence`.
    seed : int
        Random seed of the views.
    extras : sequence of FitCorpus
        Queries over other corpora, to learn from in addition.
    """
    from scipy.optimize import minimize

    drawn, encoders = [], len(slopes)
    for corpus in (fit_corpus, *extras):
        size = corpus.similarities[0].shape[1]
        views = partial(corpus_views, corpus.relevant, size)
        for view in views(seed=seed) if corpus is fit_corpus else views(sizes=(size,)):
            cut = np.stack([view.cut(values) for values in corpus.similarities])
            evidence = corpus_evidence([*cut], slopes, intercepts)
            drawn.append((cut, evidence, view.relevant))
    pooled = np.concatenate([evidence.reshape(-1, len(FEATURES)) for _, evidence, _ in drawn])
    location = pooled.mean(axis=0)
    # A feature that hardly varies over the fit queries must not be huge for others.
    spread = np.maximum(pooled.std(axis=0), 0.05)
    # The intercept is the same for all passages of a query, so the softmax ignores it.
    factor = np.reshape(np.array(slopes, np.float32), (encoders, 1, 1))
    problems = [
        (factor * cut, standardise(evidence, location, spread).astype(np.float64), relevant)
        for cut, evidence, relevant in drawn
    ]
    loss = partial(_penalised_loss, problems=problems, encoders=encoders)
    of_features = _BOUNDS if extras else {**_BOUNDS, "deviation": _OUT}
    bounds = [*(of_features[name] for name in FEATURES), (-4.0, 6.0)]
    bounds += [(None, None)] * encoders
    start = np.zeros(len(bounds))
    solution = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return EvidenceWeights(
        weights=tuple(solution[: len(FEATURES)].tolist()),
        location=tuple(location.tolist()),
        spread=tuple(spread.tolist()),
        prior=tuple(solution[-encoders:].tolist()),
    )


def _penalised_loss(
    parameters: NDArray[np.float64],
    problems: Sequence[tuple[FloatArray, NDArray[np.float64], NDArray[np.bool_]]],
    encoders: int,
) -> tuple[float, NDArray[np.float64]]:
    """Compute the mean loss of all views' queries with its ridge penalty, and the gradient.

    `problems`: logits, standardised evidence and relevant passages of each view, as in `_loss`.
    The scale is not penalised.
    """
    count = sum(len(relevant) for *_, relevant in problems)
    shrunk = np.concatenate([parameters[: len(FEATURES)], [0.0], parameters[-encoders:]])
    total = _PENALTY * float(shrunk @ shrunk)
    gradient = 2 * _PENALTY * shrunk
    for problem in problems:
        value, slope = _loss(parameters, *problem)
        total += value / count
        gradient += slope / count
    return total, gradient


def _loss(
    parameters: NDArray[np.float64],
    logits: FloatArray,
    evidence: NDArray[np.float64],
    relevant: NDArray[np.bool_],
) -> tuple[float, NDArray[np.float64]]:
    """Compute the negative log-likelihood of one view and its gradient.

    `parameters`: weights, log scale and prior. `logits`: array, shape (K, n, N). `evidence`:
    standardised, shape (n, K, F). `relevant`: shape (n, N).
    """
    features = evidence.shape[2]
    scale = np.exp(parameters[features])
    scores = evidence @ parameters[:features] + parameters[features + 1 :]
    pi = np.exp(scores - scores.max(axis=1, keepdims=True))
    pi /= pi.sum(axis=1, keepdims=True)
    fused = np.einsum("nk,knc->nc", (scale * pi).astype(np.float32), logits)
    mass = np.exp(fused - fused.max(axis=1, keepdims=True))
    posterior = mass / mass.sum(axis=1, keepdims=True)
    right = np.maximum(np.where(relevant, posterior, 0).sum(axis=1), 1e-30)
    target = np.where(relevant, posterior, 0) / right[:, None]
    pull = np.einsum("nc,knc->nk", posterior - target, logits).astype(np.float64)
    drift = scale * pi * (pull - (pi * pull).sum(axis=1, keepdims=True))
    gradient = np.concatenate(
        [np.einsum("nk,nkf->f", drift, evidence), [scale * (pi * pull).sum()], drift.sum(axis=0)]
    )
    return -float(np.log(right).sum()), gradient


# Fit questions in made-up languages teach what the evidence looks like if a model fails.
#
# Fit pairs are in languages and domains that the models know, so they teach little about failure.
# Made-up words make a text on which every embedding model fails, while they can still be
# distinguished, so that BM25 is right and the evidence against the others can be learned. Models
# fail differently on words of their own script, on those of another, and on ideographs without
# spaces; weights that are learned from all of these also hold for other scripts.

_SCRIPTS = {
    "Latin": "abcdefghijklmnopqrstuvwxyz",
    "Cyrillic": "абвгдежзийклмнопрстуфхцчшщъыьэюя",
    "Arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "ideographs": "".join(map(chr, range(0x4E00, 0x4E00 + 1000))),
}
LANGUAGES = (
    ("Latin", 0.5),
    ("Latin", 1.0),
    ("Cyrillic", 1.0),
    ("Arabic", 1.0),
    ("ideographs", 1.0),
)
"""The made-up languages: a script, and the share of words that are translated."""

_QUERIES = 60
_OTHERS = 100
_STEM = 4  # letters by whose hash a word begins, so that words of one stem stay alike
_WORD = re.compile(r"[^\W\d_]+")


def to_pseudo_language(questions: Questions, script: str, share: float, seed: int) -> Questions:
    """Translate some questions and passages into a made-up language.

    Its words are hashes of those of the texts. Ideographs have two to a word, and no spaces.

    `script`, `share`: as in `LANGUAGES`. `seed`: random seed of the sample.

    Examples
    --------
    >>> asked = Questions(["Who came?"], ["He came late.", "Nobody came."], [[0]])
    >>> strange = to_pseudo_language(asked, "Latin", 1.0, seed=1)
    >>> strange.relevant, strange.queries == asked.queries, len(strange.corpus)
    ([[0]], False, 2)
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(questions.queries))[:_QUERIES].tolist()
    answers = {place for row in rows for place in questions.relevant[row]}
    extras = rng.permutation(len(questions.corpus)).tolist()
    columns = sorted({*answers, *[place for place in extras if place not in answers][:_OTHERS]})
    column_of = {place: column for column, place in enumerate(columns)}
    letters, spaces = _SCRIPTS[script], script != "ideographs"

    @cache
    def strange(word: str) -> str:
        source = word.casefold()
        if zlib.crc32(source.encode()) % 100 >= 100 * share:
            return word
        if not spaces:
            return _letters(source, letters, 2)
        stem, end = source[:_STEM], source[_STEM:]
        return _letters(stem, letters, len(stem)) + _letters(end, letters, len(end))

    def text(source: str) -> str:
        result = _WORD.sub(lambda word: strange(word[0]), source)
        return result if spaces else result.replace(" ", "")

    return Questions(
        [text(questions.queries[row]) for row in rows],
        [text(questions.corpus[place]) for place in columns],
        [[column_of[place] for place in questions.relevant[row]] for row in rows],
    )


@lru_cache(2**16)  # of the texts of a fit, and a generator takes long to make
def _letters(word: str, letters: str, count: int) -> str:
    """Return letters drawn by the hash of a word."""
    drawn = np.random.default_rng(zlib.crc32(word.encode())).integers(len(letters), size=count)
    return "".join(letters[place] for place in drawn)


def _encode_pseudo_languages(
    encoders: Sequence[Encoder], fitted: Fitted, questions: Questions, seed: int
) -> list[FitCorpus]:
    """Ask in made-up languages, which BM25 answers and dense models do not."""
    out = []
    for number, (script, share) in enumerate(LANGUAGES):
        strange = to_pseudo_language(questions, script, share, seed + number)
        queries = fitted.gaussians([model.encode(strange.queries, "query") for model in encoders])
        corpus = fitted.gaussians([model.encode(strange.corpus, "passage") for model in encoders])
        out.append(EncodedQuestions(queries, corpus, strange).asked_by(fitted))
    return out
