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

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import moments
from uec_rag.confidence.model import FitView
from uec_rag.ensemble.evidence_fit import CorpusView, corpus_views
from uec_rag.ensemble.fitted import Fitted
from uec_rag.laplace.pairs import Pairs

# The sizes of the corpora over which confidence is learned, so that it generalises to others.
_CORPUS_SIZES = (150, 600, 2400)

# Among very few passages, one always stands out, and only its similarity is informative.
_TINY, _TINY_CORPORA = 10, 30
_UNANSWERABLE = 0.2
_MOST_ASKED = 300  # questions per corpus


@dataclass(frozen=True, eq=False)
class FitQueries:
    """Encoded questions with a corpus that contains their answers.

    Attributes
    ----------
    queries : list of Gaussian
        Gaussians of n questions in each block.
    corpus : Gaussian
        The ensemble's Gaussians of N passages.
    own : list of K arrays, shape (n, N)
        Cosines of each block.
    questions : Questions
        Their texts, and the indices of each question's answers in the corpus.
    seed : int
        Random seed of the smaller corpora.
    """

    queries: list[Gaussian]
    corpus: Gaussian
    own: list[FloatArray]
    questions: Questions
    seed: int

    def views(self, fitted: Fitted) -> list[FitView]:
        """Compute the logits of the questions over corpora of several sizes that lack answers."""
        relevant, passages = self.questions.relevant, len(self.corpus)
        drawn = partial(corpus_views, relevant, passages, unanswerable=_UNANSWERABLE)
        cuts = drawn(sizes=_CORPUS_SIZES, queries=_MOST_ASKED, seed=self.seed + 1)
        for number in range(_TINY_CORPORA):
            cuts += drawn(sizes=(_TINY,), queries=_TINY, seed=self.seed + 2 + number)
        return [self._over(cut, fitted) for cut in cuts]

    def coefficients(self, fitted: Fitted) -> FloatArray:
        """Compute the coefficients of the questions over the whole corpus, shape (n, K)."""
        best = np.stack([own.max(axis=1) for own in self.own], axis=1)
        return fitted.weigh(fitted.evidence_weights, self.queries, self.own, best)

    def _over(self, view: CorpusView, fitted: Fitted) -> FitView:
        """Compute the logits of some questions over some passages."""
        queries = [part[view.queries] for part in self.queries]
        corpus, own = self.corpus[view.passages], [view.cut(each) for each in self.own]
        pi = replace(self, queries=queries, corpus=corpus, own=own).coefficients(fitted)
        mu, _ = moments(fitted.combine(queries, pi), corpus)
        slope, offset = fitted.logit_line(queries, pi)
        members = fitted.member_logits(queries, np.stack(own, axis=-1))
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
    for given in pairs:
        for query, positives in zip(given.queries, given.positives, strict=True):
            if len(positives):
                answers.setdefault(query, {}).update((given.passages[p], None) for p in positives)
    rng = np.random.default_rng(seed)
    queries = list(answers)
    chosen = [queries[row] for row in rng.permutation(len(queries))[:_MOST_QUERIES]]
    corpus = {text: None for query in chosen for text in answers[query]}
    others = [text for given in pairs for text in given.passages if text not in corpus]
    corpus.update((others[row], None) for row in rng.permutation(len(others))[:_OTHER_PASSAGES])
    row_of = {text: row for row, text in enumerate(corpus)}
    relevant = [[row_of[text] for text in answers[query]] for query in chosen]
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


def to_pseudo_language(questions: Questions, language: Language, seed: int) -> Questions:
    """Translate some questions and passages into a made-up language.

    `seed`: random seed of the sample and of the permutation of letters.

    Examples
    --------
    >>> asked = Questions(["Who came?"], ["He came late.", "Nobody came."], [[0]])
    >>> strange = to_pseudo_language(asked, Language(1.0), seed=1)
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

    def text(source: str) -> str:
        made = _WORD.sub(strange, source)
        return made if language.spaces else made.replace(" ", "")

    return Questions(
        [text(query) for query in queries],
        [text(passage) for passage in corpus],
        [[new[place] for place in questions.relevant[row]] for row in rows],
    )


def _ideographs(number: int) -> str:
    pair = divmod(number // 100 % _IDEOGRAPHS**2, _IDEOGRAPHS)
    return "".join(chr(ord("一") + place) for place in pair)


def _exchange(texts: Iterable[str], rng: np.random.Generator, letters: str) -> dict[int, str]:
    """Map each usual letter to one of `letters` if there are enough, else of its own script."""
    scripts: dict[str, Counter[str]] = {}
    for letter, count in Counter("".join(texts).lower()).items():
        if letter.isalpha():
            script = unicodedata.name(letter, "?").partition(" ")[0]
            scripts.setdefault(script, Counter())[letter] = count
    table: dict[int, str] = {}
    for counts in scripts.values():
        # The most frequent letters, without those of loan words.
        ordered = sorted(counts, key=lambda letter: (-counts[letter], letter))
        share = np.cumsum([counts[letter] for letter in ordered]) / counts.total()
        usual = ordered[: int(np.searchsorted(share, _USUAL)) + 1]
        into = letters if len(letters) >= len(usual) else usual
        for letter, position in zip(usual, rng.permutation(len(into)).tolist(), strict=False):
            table[ord(letter)] = into[position]
            if len(letter.upper()) == 1 and letter.upper() != letter:
                table[ord(letter.upper())] = into[position].upper()
    return table
