"""Questions drawn from the fit pairs, asked of their passages to learn evidence and confidence."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import moments
from uec_rag.confidence.fit import FitView, fit_confidence
from uec_rag.encoders.verifier import Verifier, bounded
from uec_rag.ensemble.convolution import EvidenceWeights
from uec_rag.ensemble.evidence_fit import (
    AskedElsewhere,
    CorpusView,
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
    """The scores that a verifier gives the best hits of each view's queries.

    Attributes
    ----------
    cuts, views : list of CorpusView, of FitView
        Which queries were asked of which passages, and what the ensemble says.
    hits : list of int arrays, shape (n, v)
        The view's columns that were read.
    pairs : list of int arrays, shape (n, v)
        Where in `scores` each is.
    scores : array, shape (p,)
        Of distinct pairs.
    query : int array, shape (p,)
        Which question each pair is of.
    labels : array, shape (p,)
        1 if the passage answers it.
    """

    cuts: Sequence[CorpusView]
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


def read_views(
    verifier: Verifier,
    k: int,
    questions: Questions,
    cuts: Sequence[CorpusView],
    views: Sequence[FitView],
) -> ReadViews:
    """Have a verifier read the k best hits of every query of every view, each pair once.

    `questions`: their texts.
    """
    size = len(questions.corpus)
    hits = [np.argsort(-view.logits, axis=1, kind="stable")[:, :k] for view in views]
    keys = [
        cut.queries[:, None].astype(np.int64) * size + cut.passages[columns]
        for cut, columns in zip(cuts, hits, strict=True)
    ]
    distinct, place = np.unique(np.concatenate([k.ravel() for k in keys]), return_inverse=True)
    query, passage = distinct // size, distinct % size
    asked, starts = np.unique(query, return_index=True)
    read = [[questions.corpus[column] for column in own] for own in np.split(passage, starts[1:])]
    scores = bounded(verifier.score([questions.queries[row] for row in asked], read))
    ends = np.cumsum([k.size for k in keys])[:-1]
    labels = [float(p in questions.relevant[q]) for q, p in zip(query, passage, strict=True)]
    return ReadViews(
        cuts,
        views,
        hits,
        [part.reshape(k.shape) for part, k in zip(np.split(place, ends), keys, strict=True)],
        scores,
        query,
        np.asarray(labels, dtype=np.float32),
    )


def fit_pair_scores(
    scores: FloatArray,
    labels: FloatArray,
    query: NDArray[np.int64],
    seed: int,
) -> PosteriorSummary:
    """Fit slope and intercept of a verifier's scores, ``P(answer) = sigmoid(a s + b)``.

    They are put at their MAP on four fifths of the queries, and measured on the others.

    Parameters
    ----------
    scores : array, shape (n,)
        On any scale.
    labels : array, shape (n,)
        1 for an answer.
    query : int array, shape (n,)
        Which query each pair is of.
    seed : int
        Of the split.

    Returns
    -------
    PosteriorSummary
        Without a variance. The slope is that of the raw scores; 0 if these are all alike.
    """
    asked = np.unique(query)
    order = np.random.default_rng(seed).permutation(asked)
    held_out = np.isin(query, order[: round(len(asked) * _HELD_OUT)])
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
    """Fit the line of `bernoulli_map` to scores on any scale."""
    centre, spread = float(scores.mean()), float(scores.std())
    if spread <= 1e-6 * max(1.0, abs(centre)):
        return 0.0, 0.0
    known = None if slope is None else slope * spread
    found, intercept = bernoulli_map((scores - centre) / np.float32(spread), labels, known)
    return found / spread, intercept - found * centre / spread


CORPUS_SIZES = (150, 600, 2400)
"""Confidence is learned over corpora of these sizes, to hold for any."""

# Among a handful of passages one always stands out; only how near it is tells whether it answers.
_TINY, _TINY_CORPORA = 10, 30
_UNANSWERABLE = 0.2
_MOST_ASKED = 300  # questions of a corpus
_MOST_READ = 150  # if a verifier reads every hit


@dataclass(frozen=True, eq=False)
class FitQueries:
    """Questions, each encoder's Gaussians of them, and the corpus they are asked of.

    Attributes
    ----------
    queries : list of Gaussian
        One batch of n per encoder.
    corpus : Gaussian
        The ensemble's, of N passages.
    own : list of K arrays, shape (n, N), or None
        Each encoder's cosines; None in the shared space, which does not keep them.
    questions : Questions
        Their texts, and the places in the corpus of each one's answers.
    seed : int
        Of the smaller corpora that are cut out.
    """

    queries: list[Gaussian]
    corpus: Gaussian
    own: list[FloatArray] | None
    questions: Questions
    seed: int

    def among(self, members: Sequence[int]) -> FitQueries:
        """Return the same questions to some of the encoders, for `fit_evidence_weights`."""
        ends = np.cumsum([0, *(part.dimension for part in self.queries)])
        columns = [np.arange(ends[member], ends[member + 1]) for member in members]
        return replace(
            self,
            corpus=Gaussian.certain(self.corpus.mean[:, np.concatenate(columns)]),
            queries=[self.queries[member] for member in members],
            own=None if self.own is None else [self.own[member] for member in members],
        )

    def fit_evidence_weights(
        self, fitted: Fitted, beside: Sequence[AskedElsewhere] = ()
    ) -> EvidenceWeights:
        """Learn which evidence makes an encoder worth trusting; `beside` as there.

        With a prior per encoder: under the ridge it was measured to change nothing for pairs that
        are all of one domain, and to tell languages apart if they are of several.
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
        weights: EvidenceWeights | None,
        sizes: Sequence[int] = CORPUS_SIZES,
        verification: Verification | None = None,
    ) -> list[FitView]:
        """Ask the questions of corpora of several sizes that lack some answers."""
        if verification is None:
            return [self._asked(cut, fitted, weights) for cut in self._cuts(sizes, _MOST_ASKED)]
        read = self._read(fitted, weights, sizes, verification.verifier, verification.fitted.k)
        return read.joined(verification.fitted.summary, verification.fitted.weight)

    def fit_verifier(
        self,
        fitted: Fitted,
        weights: EvidenceWeights | None,
        verifier: Verifier,
        name: str,
        k: int,
    ) -> FittedVerifier:
        """Fit a verifier's line on what the ensemble finds for the questions; and confidence."""
        read = self._read(fitted, weights, CORPUS_SIZES, verifier, k)
        summary = fit_pair_scores(read.scores, read.labels, read.query, self.seed)
        weight = 1 / len(fitted.names)
        model = fit_confidence(read.joined(summary, weight))
        return FittedVerifier(name, k, weight, summary, model)

    def _read(
        self,
        fitted: Fitted,
        weights: EvidenceWeights | None,
        sizes: Sequence[int],
        verifier: Verifier,
        k: int,
    ) -> ReadViews:
        cuts = self._cuts(sizes, _MOST_READ)
        views = [self._asked(cut, fitted, weights) for cut in cuts]
        return read_views(verifier, k, self.questions, cuts, views)

    def _cuts(self, sizes: Sequence[int], most: int) -> list[CorpusView]:
        cuts = corpus_views(
            self.questions.relevant,
            len(self.corpus),
            sizes=sizes,
            queries=most,
            unanswerable=_UNANSWERABLE,
            seed=self.seed + 1,
        )
        for number in range(_TINY_CORPORA):
            cuts += corpus_views(
                self.questions.relevant,
                len(self.corpus),
                sizes=(_TINY,),
                queries=_TINY,
                unanswerable=_UNANSWERABLE,
                seed=self.seed + 2 + number,
            )
        return cuts

    def coefficients(self, fitted: Fitted, weights: EvidenceWeights | None) -> FloatArray:
        """Compute the coefficients of the questions, asked of the whole corpus, shape (n, K)."""
        if self.own is None:
            return fitted.coefficients(self.queries, "query")
        best = np.stack([own.max(axis=1) for own in self.own], axis=1)
        return fitted.weigh(weights, self.queries, self.own, best)

    def _asked(self, view: CorpusView, fitted: Fitted, weights: EvidenceWeights | None) -> FitView:
        asked = replace(
            self,
            queries=[part[view.queries] for part in self.queries],
            corpus=self.corpus[view.passages],
            own=None if self.own is None else [view.cut(own) for own in self.own],
        )
        pi = asked.coefficients(fitted, weights)
        mu, sigma2 = moments(fitted.combine(asked.queries, pi), asked.corpus)
        members = None
        if asked.own is not None:
            members = np.moveaxis(fitted.member_logits(np.stack(asked.own, axis=-1)), -1, 0)
        slope, offset = fitted.logit_line(pi)
        return FitView(
            slope * mu + offset[:, None],
            slope**2 * sigma2,
            view.relevant,
            members,
            words=any(part.terms for part in asked.queries),
        )


_MOST_QUERIES = 600  # more were not measured to change what is learned
_OTHER_PASSAGES = 3000


@dataclass(frozen=True)
class Questions:
    """Some of the fit queries, and a corpus that holds their answers among others.

    Attributes
    ----------
    relevant : list of list of int
        Places in `corpus` of each query's answers.
    """

    queries: list[str]
    corpus: list[str]
    relevant: list[list[int]]


def choose_questions(pairs: Sequence[Pairs], seed: int) -> Questions:
    """Draw questions from the positives of several lists of pairs."""
    answers: dict[str, dict[str, None]] = {}
    for own in pairs:
        for query, found in zip(own.queries, own.positives, strict=True):
            if len(found):
                answers.setdefault(query, {}).update((own.passages[p], None) for p in found)
    rng = np.random.default_rng(seed)
    asked = list(answers)
    chosen = [asked[row] for row in rng.permutation(len(asked))[:_MOST_QUERIES]]
    corpus = {text: None for query in chosen for text in answers[query]}
    others = [text for own in pairs for text in own.passages if text not in corpus]
    corpus.update((others[row], None) for row in rng.permutation(len(others))[:_OTHER_PASSAGES])
    place = {text: row for row, text in enumerate(corpus)}
    relevant = [[place[text] for text in answers[query]] for query in chosen]
    return Questions(chosen, list(corpus), relevant)


# Fit questions in a made-up language show the evidence of models that fail.
#
# Fit pairs are of languages and domains that the models know, and teach little of how it looks
# when one does not. Letters put in place of one another make a text that every embedding model is
# lost in, while its words can still be distinguished: there the words' member is right, and
# what gives the others away is learned. Models are lost in different ways in letters exchanged
# for one another, in letters of another script, and in ideographs without spaces: what is learned
# from all of these holds for scripts that are not among them.


_CYRILLIC = "абвгдежзийклмнопрстуфхцчшщъыьэюя"  # letters of another script
_ARABIC = "ابتثجحخدذرزسشصضطظعغفقكلمنهوي"


@dataclass(frozen=True)
class Language:
    """A made-up language.

    Attributes
    ----------
    share : float
        Of the words that are made up, from 0 to 1.
    letters : str
        What they are written with; empty for those of their own script.
    spaces : bool
        Without, a word is two ideographs.
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
"""The made-up languages: one that models may half know, and others that they do not."""

_QUERIES = 60
_OTHERS = 100
_USUAL = 0.995  # of a script's letters in the texts
_IDEOGRAPHS = 1000
_WORD = re.compile(r"[^\W\d_]+")


def made_up(questions: Questions, language: Language, seed: int) -> Questions:
    """Translate some questions and passages into a made-up language.

    `seed`: of the choice and of the exchange.

    Examples
    --------
    >>> asked = Questions(["Who came?"], ["He came late.", "Nobody came."], [[0]])
    >>> strange = made_up(asked, Language(1.0), seed=1)
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
        # By the word itself, so that it is the same in every text.
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
    """Choose a letter for each usual letter: of those given if they suffice, else of its script."""
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
    """Return the letters that most of a script's text is made of: those of loan words stay."""
    ordered = sorted(counts, key=lambda letter: (-counts[letter], letter))
    share = np.cumsum([counts[letter] for letter in ordered]) / counts.total()
    return ordered[: int(np.searchsorted(share, _USUAL)) + 1]
