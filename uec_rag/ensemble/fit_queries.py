"""Questions and corpora drawn from the fit pairs, to learn evidence weights and confidence."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import moments
from uec_rag.confidence.model import FitView, fit_confidence
from uec_rag.encoders.verifier import Verifier, bounded
from uec_rag.ensemble.convolution import EvidenceWeights
from uec_rag.ensemble.evidence_fit import (
    CorpusView,
    OtherCorpus,
    corpus_views,
    fit_evidence_weights,
)
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.verifier import FittedVerifier, Verification, Verified
from uec_rag.laplace.likelihood import bernoulli_map, predictive_nll
from uec_rag.laplace.pairs import Pairs
from uec_rag.laplace.posterior import PosteriorSummary

_HELD_OUT = 0.2


@dataclass(frozen=True, eq=False)
class ReadViews:
    """The scores of a verifier for the best hits of each view's queries.

    Attributes
    ----------
    views : list of FitView
        The ensemble's logits for the queries and passages of each view.
    hits : list of int arrays, shape (n, v)
        Indices of the view's passages that were read.
    pairs : list of int arrays, shape (n, v)
        Their indices in `scores`.
    scores : array, shape (p,)
        Scores of distinct pairs.
    query : int array, shape (p,)
        Index of each pair's question.
    labels : array, shape (p,)
        1 if the passage answers the question.
    """

    views: Sequence[FitView]
    hits: list[NDArray[np.intp]]
    pairs: list[NDArray[np.intp]]
    scores: FloatArray
    query: NDArray[np.int64]
    labels: FloatArray

    def joined(self, summary: PosteriorSummary, weight: float) -> list[FitView]:
        """Return the views with the verifier's scores added to their logits."""
        out = []
        for view, hits, pairs in zip(self.views, self.hits, self.pairs, strict=True):
            scores = self.scores[pairs.ravel()]
            read = Verified.of(summary, weight, scores, (hits.shape[0], hits.shape[1]))
            logits = view.logits + read.floor[:, None]
            logits[np.arange(len(hits))[:, None], hits] += read.gain
            out.append(replace(view, logits=logits))
        return out


def fit_pair_scores(
    scores: FloatArray, labels: FloatArray, query: NDArray[np.int64], seed: int
) -> PosteriorSummary:
    """Fit slope and intercept of a verifier's scores, ``P(answer) = sigmoid(a s + b)``.

    Their MAP estimates come from 80 % of the queries, and are evaluated on the others.

    Parameters
    ----------
    scores : array, shape (n,)
        Scores on any scale.
    labels : array, shape (n,)
        1 for an answer.
    query : int array, shape (n,)
        Index of each pair's query.
    seed : int
        Random seed of the split.

    Returns
    -------
    PosteriorSummary
        A summary without a variance. The slope is that of the raw scores; 0 if these are equal.
    """
    distinct = np.unique(query)
    order = np.random.default_rng(seed).permutation(distinct)
    held_out = np.isin(query, order[: round(len(distinct) * _HELD_OUT)])
    fitting = ~held_out
    slope, intercept = _line(scores[fitting], labels[fitting])
    truth = labels[held_out]
    _, free = _line(scores[held_out], truth, slope)
    nothing = np.zeros(len(truth), dtype=np.float32)
    nll = float(predictive_nll(scores[held_out], nothing, truth, slope, free).mean())
    return PosteriorSummary(slope, intercept, int(fitting.sum()), len(truth), nll, nll)


def _line(
    scores: FloatArray, labels: FloatArray, slope: float | None = None
) -> tuple[float, float]:
    """Fit slope and intercept by `bernoulli_map`, for scores on any scale."""
    centre, spread = float(scores.mean()), float(scores.std())
    if spread <= 1e-6 * max(1.0, abs(centre)):
        return 0.0, 0.0
    known = None if slope is None else slope * spread
    found, intercept = bernoulli_map((scores - centre) / np.float32(spread), labels, known)
    return found / spread, intercept - found * centre / spread


CORPUS_SIZES = (150, 600, 2400)
"""The sizes of the corpora over which confidence is learned, so that it generalises to others."""

# Among very few passages, one always stands out, and only its similarity is informative.
_TINY, _TINY_CORPORA = 10, 30
_UNANSWERABLE = 0.2
_MOST_ASKED = 300  # questions per corpus
_MOST_READ = 150  # questions per corpus with a verifier


@dataclass(frozen=True, eq=False)
class FitQueries:
    """Encoded questions with a corpus that contains their answers.

    Attributes
    ----------
    queries : list of Gaussian
        Gaussians of n questions from each encoder.
    corpus : Gaussian
        The ensemble's Gaussians of N passages.
    own : list of K arrays, shape (n, N), or None
        Cosines of each encoder; None in the shared space, which does not keep them.
    questions : Questions
        Their texts, and the indices of each question's answers in the corpus.
    seed : int
        Random seed of the smaller corpora.
    """

    queries: list[Gaussian]
    corpus: Gaussian
    own: list[FloatArray] | None
    questions: Questions
    seed: int

    def fit_evidence_weights(
        self, fitted: Fitted, beside: Sequence[OtherCorpus] = ()
    ) -> EvidenceWeights:
        """Learn the evidence weights; `beside` as in `evidence_fit.fit_evidence_weights`.

        A prior per encoder is learned: the ridge penalty makes it irrelevant for pairs of one
        domain, and it distinguishes languages if there are several.
        """
        assert self.own is not None
        return fit_evidence_weights(
            self.own,
            self.questions.relevant,
            fitted.slopes,
            fitted.intercepts,
            fitted.standardised_traces(self.queries),
            learn_prior=True,
            seed=self.seed,
            beside=beside,
        )

    def views(
        self,
        fitted: Fitted,
        sizes: Sequence[int] = CORPUS_SIZES,
        verification: Verification | None = None,
    ) -> list[FitView]:
        """Compute the logits of the questions over corpora of several sizes that lack answers."""
        if verification is None:
            return [self._asked(cut, fitted) for cut in self._cuts(sizes, _MOST_ASKED)]
        read = self._read(fitted, sizes, verification.verifier, verification.fitted.k)
        return read.joined(verification.fitted.summary, verification.fitted.weight)

    def fit_verifier(self, fitted: Fitted, verifier: Verifier, name: str, k: int) -> FittedVerifier:
        """Fit a verifier's slope and intercept to the ensemble's hits, and its confidence model."""
        read = self._read(fitted, CORPUS_SIZES, verifier, k)
        summary = fit_pair_scores(read.scores, read.labels, read.query, self.seed)
        weight = 1 / len(fitted.names)
        model = fit_confidence(read.joined(summary, weight))
        return FittedVerifier(name, k, weight, summary, model)

    def _read(self, fitted: Fitted, sizes: Sequence[int], verifier: Verifier, k: int) -> ReadViews:
        """Score the k best hits of every query of every view by a verifier, each pair once."""
        questions, size = self.questions, len(self.questions.corpus)
        cuts = self._cuts(sizes, _MOST_READ)
        views = [self._asked(cut, fitted) for cut in cuts]
        hits = [np.argsort(-view.logits, axis=1, kind="stable")[:, :k] for view in views]
        keys = [
            cut.queries[:, None].astype(np.int64) * size + cut.passages[columns]
            for cut, columns in zip(cuts, hits, strict=True)
        ]
        distinct, place = np.unique(np.concatenate([k.ravel() for k in keys]), return_inverse=True)
        query, passage = distinct // size, distinct % size
        rows, starts = np.unique(query, return_index=True)
        texts = [[questions.corpus[p] for p in of] for of in np.split(passage, starts[1:])]
        scores = bounded(verifier.score([questions.queries[row] for row in rows], texts))
        ends = np.cumsum([k.size for k in keys])[:-1]
        pairs = [part.reshape(k.shape) for part, k in zip(np.split(place, ends), keys, strict=True)]
        labels = [float(p in questions.relevant[q]) for q, p in zip(query, passage, strict=True)]
        return ReadViews(views, hits, pairs, scores, query, np.asarray(labels, dtype=np.float32))

    def _cuts(self, sizes: Sequence[int], most: int) -> list[CorpusView]:
        relevant, passages = self.questions.relevant, len(self.corpus)
        drawn = partial(corpus_views, relevant, passages, unanswerable=_UNANSWERABLE)
        cuts = drawn(sizes=sizes, queries=most, seed=self.seed + 1)
        for number in range(_TINY_CORPORA):
            cuts += drawn(sizes=(_TINY,), queries=_TINY, seed=self.seed + 2 + number)
        return cuts

    def coefficients(self, fitted: Fitted) -> FloatArray:
        """Compute the coefficients of the questions over the whole corpus, shape (n, K)."""
        if self.own is None:
            return fitted.coefficients(self.queries, "query")
        best = np.stack([own.max(axis=1) for own in self.own], axis=1)
        return fitted.weigh(fitted.evidence_weights, self.queries, self.own, best)

    def _asked(self, view: CorpusView, fitted: Fitted) -> FitView:
        smaller = replace(
            self,
            queries=[part[view.queries] for part in self.queries],
            corpus=self.corpus[view.passages],
            own=None if self.own is None else [view.cut(own) for own in self.own],
        )
        pi = smaller.coefficients(fitted)
        mu, sigma2 = moments(fitted.combine(smaller.queries, pi), smaller.corpus)
        members = None
        if smaller.own is not None:
            members = np.moveaxis(fitted.member_logits(np.stack(smaller.own, axis=-1)), -1, 0)
        slope, offset = fitted.logit_line(pi)
        return FitView(
            slope * mu + offset[:, None],
            slope**2 * sigma2,
            view.relevant,
            members,
            words=any(part.terms for part in smaller.queries),
        )


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
    for given in pairs:
        for query, found in zip(given.queries, given.positives, strict=True):
            if len(found):
                answers.setdefault(query, {}).update((given.passages[p], None) for p in found)
    rng = np.random.default_rng(seed)
    queries = list(answers)
    chosen = [queries[row] for row in rng.permutation(len(queries))[:_MOST_QUERIES]]
    corpus = {text: None for query in chosen for text in answers[query]}
    others = [text for given in pairs for text in given.passages if text not in corpus]
    corpus.update((others[row], None) for row in rng.permutation(len(others))[:_OTHER_PASSAGES])
    place = {text: row for row, text in enumerate(corpus)}
    relevant = [[place[text] for text in answers[query]] for query in chosen]
    return Questions(chosen, list(corpus), relevant)


# Fit questions in made-up languages teach what the evidence looks like if a model fails.
#
# Fit pairs are in languages and domains that the models know, so they teach little about failure.
# Permuted letters make a text on which every embedding model fails, while its words can still be
# distinguished, so that BM25 is right and the evidence against the others can be learned. Models
# fail differently on permuted letters, on letters of another script, and on ideographs without
# spaces; weights that are learned from all of these also hold for other scripts.


_CYRILLIC = "абвгдежзийклмнопрстуфхцчшщъыьэюя"  # letters of another script
_ARABIC = "ابتثجحخدذرزسشصضطظعغفقكلمنهوي"


@dataclass(frozen=True)
class Language:
    """A made-up language.

    Attributes
    ----------
    share : float
        Share of the words that are made up, from 0 to 1.
    letters : str
        The letters to write them with; empty for those of the original script.
    spaces : bool
        Whether words are separated by spaces; if not, a word becomes two ideographs.
    """

    share: float
    letters: str = ""
    spaces: bool = True


LANGUAGES = (
    Language(0.5),
    Language(1.0),
    Language(1.0, _CYRILLIC),
    Language(1.0, _ARABIC),
    Language(1.0, spaces=False),
)
"""The made-up languages: one that models may partly know, and others that they do not know."""

_QUERIES = 60
_OTHERS = 100
_USUAL = 0.995  # share of a script's letters in the texts
_IDEOGRAPHS = 1000
_WORD = re.compile(r"[^\W\d_]+")


def translated_to_made_up(questions: Questions, language: Language, seed: int) -> Questions:
    """Translate some questions and passages into a made-up language.

    `seed`: random seed of the sample and of the permutation of letters.

    Examples
    --------
    >>> asked = Questions(["Who came?"], ["He came late.", "Nobody came."], [[0]])
    >>> strange = translated_to_made_up(asked, Language(1.0), seed=1)
    >>> strange.relevant, strange.queries == asked.queries, len(strange.corpus)
    ([[0]], False, 2)
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(questions.queries))[:_QUERIES].tolist()
    wanted = {place for row in rows for place in questions.relevant[row]}
    others = rng.permutation(len(questions.corpus)).tolist()
    chosen = sorted({*wanted, *[place for place in others if place not in wanted][:_OTHERS]})
    new = {place: column for column, place in enumerate(chosen)}
    queries = [questions.queries[row] for row in rows]
    corpus = [questions.corpus[place] for place in chosen]
    table = _exchange([*queries, *corpus], rng, language.letters)

    def strange(word: re.Match[str]) -> str:
        # A hash of the word, so that it is translated in the same way in every text.
        number = zlib.crc32(word[0].casefold().encode())
        if number % 100 >= 100 * language.share:
            return word[0]
        return word[0].translate(table) if language.spaces else _ideographs(number)

    def text(given: str) -> str:
        made = _WORD.sub(strange, given)
        return made if language.spaces else made.replace(" ", "")

    return Questions(
        [text(query) for query in queries],
        [text(passage) for passage in corpus],
        [[new[place] for place in questions.relevant[row]] for row in rows],
    )


def _ideographs(number: int) -> str:
    first, second = divmod(number // 100 % _IDEOGRAPHS**2, _IDEOGRAPHS)
    return chr(ord("一") + first) + chr(ord("一") + second)


def _exchange(texts: Iterable[str], rng: np.random.Generator, letters: str) -> dict[int, str]:
    """Map each usual letter to one of `letters` if there are enough, else of its own script."""
    scripts: dict[str, Counter[str]] = {}
    for letter, count in Counter("".join(texts).lower()).items():
        if letter.isalpha():
            script = unicodedata.name(letter, "?").partition(" ")[0]
            scripts.setdefault(script, Counter())[letter] = count
    table: dict[int, str] = {}
    for counts in scripts.values():
        usual = _usual(counts)
        into = letters if len(letters) >= len(usual) else usual
        for letter, place in zip(usual, rng.permutation(len(into)).tolist(), strict=False):
            table[ord(letter)] = into[place]
            if len(letter.upper()) == 1 and letter.upper() != letter:
                table[ord(letter.upper())] = into[place].upper()
    return table


def _usual(counts: Counter[str]) -> list[str]:
    """Return the most frequent letters of a script, without those of loan words."""
    ordered = sorted(counts, key=lambda letter: (-counts[letter], letter))
    share = np.cumsum([counts[letter] for letter in ordered]) / counts.total()
    return ordered[: int(np.searchsorted(share, _USUAL)) + 1]
