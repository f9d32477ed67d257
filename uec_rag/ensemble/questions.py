"""Questions drawn from the fit pairs, and a corpus to ask them of."""

from __future__ import annotations

from collections.abc import Sequence
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
    queries, corpus : list of str
    relevant : list of list of int
        Places in `corpus` of each query's answers.
    """

    queries: list[str]
    corpus: list[str]
    relevant: list[list[int]]

    def some(self, rows: Sequence[int]) -> Questions:
        """Some of the questions, and the same corpus."""
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
