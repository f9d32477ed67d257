"""Questions drawn from the fit pairs, and a corpus to ask them of."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from uec_rag.laplace.pairs import Pairs

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

    def some(self, rows: Sequence[int]) -> Questions:
        """Return some of the questions, with the same corpus."""
        relevant = [self.relevant[row] for row in rows]
        return Questions([self.queries[row] for row in rows], self.corpus, relevant)


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
# lost in, while its words are still told from one another: there the words' member is right, and
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
