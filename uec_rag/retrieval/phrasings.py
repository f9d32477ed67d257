"""The ways of asking a question: a row for each, of which one is chosen, or two are joined.

`phrasings` lists the rows of a `Query`. Each kind is a function in `MAKERS`; what it makes is
searched as it is, and `uec_rag.retrieval.assess.choose` takes the row that is understood best.
Every encoder encodes each text by itself; what is searched is a convex combination of a question
and the turns before it, a Gaussian in each encoder's space and a bag of words in BM25
(`in_context`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian, Terms, together
from uec_rag.questions import grammar
from uec_rag.questions.languages import ENGLISH, language_of
from uec_rag.retrieval.query import Query

# Total weight of the turns before a question, and the same if the question refers to them ("Where
# was it built?", "And the price?"). They were not learned; see benchmarks/results/conversation.md.
_SHARE, _SHARE_IF_REFERRED_TO = 1 / 3, 1 / 2
_DECAY = 0.7  # weight of a turn relative to the next: subjects change

Role: TypeAlias = Literal[
    "written", "spelled", "half", "possible_half", "alone", "carried", "latest"
]

HALVES: tuple[Role, ...] = ("half", "possible_half")
"""The roles of the questions that a question may be at once."""


@dataclass(frozen=True)
class Phrasing:
    """A way of asking a question, as it is searched.

    Attributes
    ----------
    text : str
    turns : sequence of str
        The turns before it that are searched with it, oldest first.
    role : {"written", "spelled", "half", "possible_half", "alone", "carried", "latest"}
        As the user wrote it; with the words as the index writes them; one of the two questions that
        it is, or of which only the documents tell whether it is two; without its turns; the
        question before, about what a follow-up goes on to; or with the turns since the latest that
        does not refer back.
    prior : float
        How likely it is what was meant, before it is searched.
    language : str
        The code of the language to reply in.
    """

    text: str
    turns: Sequence[str] = ()
    role: Role = "written"
    prior: float = 1.0
    language: str = ENGLISH

    @classmethod
    def of(cls, text: str) -> Phrasing:
        """Return a question as it is written, without turns."""
        return cls(text, language=language_of(text) or ENGLISH)

    @property
    def lines(self) -> str:
        """The turns, followed by the question, one per line."""
        return "\n".join([*self.turns, self.text])


Row: TypeAlias = tuple[str, Sequence[str], float]  # text, turns and prior


def _as_written(query: Query) -> Iterator[Row]:
    yield query.text, query.turns, 1.0


def _as_spelled(query: Query) -> Iterator[Row]:
    if query.spelled:
        yield query.spelled, query.turns, query.likely


def _halves(split: Callable[[str], tuple[str, ...]], query: Query) -> Iterator[Row]:
    if not query.replies:
        for part in split(query.spelled or query.text):
            yield part, (), 1.0


def _alone(query: Query) -> Iterator[Row]:
    # A complete question is searched without a conjunction before it.
    if query.turns and (complete := grammar.complete_question(query.text)):
        yield complete, (), 1.0


def _since_latest(query: Query) -> Iterator[Row]:
    whole = [at for at, turn in enumerate(query.turns) if not grammar.refers_back(turn)]
    if whole and whole[-1]:  # other subjects are before it
        yield query.text, query.turns[whole[-1] :], 1.0


def _carried_over(query: Query) -> Iterator[Row]:
    if before := latest_whole(query.turns):
        for text in grammar.switched(query.text, before):
            yield text, (), 1.0


MAKERS: dict[Role, Callable[[Query], Iterator[Row]]] = {
    "spelled": _as_spelled,
    "half": partial(_halves, grammar.parts_of),
    "possible_half": partial(_halves, grammar.possible_parts),
    "alone": _alone,
    "carried": _carried_over,
    "latest": _since_latest,
    "written": _as_written,
}
"""The makers of the rows of each role; of rows that are understood as well, the first is taken."""


def phrasings(query: Query) -> list[Phrasing]:
    r"""List the ways of asking a question; there is none of a blank text.

    Examples
    --------
    >>> query = Query.parse("How much is it?", ["My door opener broke.", "Can it be fixed?"])
    >>> [(row.role, row.lines) for row in phrasings(query)]
    [('written', 'My door opener broke.\nCan it be fixed?\nHow much is it?')]
    >>> query = Query.parse("And in Borg?", ["How do I make a backup in restic?"])
    >>> [row.text for row in phrasings(query)]
    ['How do I make a backup in Borg?', 'And in Borg?']
    """
    if not query.text.strip():
        return []
    before = language_of("\n".join(query.history)) or ENGLISH
    return [
        Phrasing(text, turns, role, prior, language_of(text) or before)
        for role, make in MAKERS.items()
        for text, turns, prior in make(query)
    ]


def latest_whole(turns: Sequence[str]) -> str:
    """Return the latest turn that does not refer back; "" if there is none."""
    return next((turn for turn in reversed(turns) if not grammar.refers_back(turn)), "")


def in_context(
    asked: Sequence[Phrasing], rows: Mapping[str, int], parts: Sequence[Gaussian]
) -> list[Gaussian]:
    """Combine each of n questions with the turns before it, for each encoder, by convolution.

    The Gaussian is ``N(sum_j c_j mu_j, sum_j c_j^2 Sigma_j)`` over a question (j = 0) and the turns
    before it (the j-th one back). The coefficient of the question is 2/3, or 1/2 if it refers back;
    those of the turns are proportional to ``0.7^j`` and sum to the rest. In the bag of words, the
    weight of a term is ``sum_j c_j w_j |w_0| / |w_j|``, where |w| is the number of terms in a bag,
    so that a long turn does not outweigh a short question.

    Parameters
    ----------
    asked : sequence of n Phrasing
    rows : mapping of str to int
        The row of each text, of questions and of their turns, in `parts`.
    parts : sequence of K Gaussian
        Each encoder's Gaussians of the texts.
    """
    firsts = [rows[one.text] for one in asked]
    if not any(one.turns for one in asked):
        same = firsts == [*range(len(parts[0]))]
        return [part if same else part[firsts] for part in parts]
    shares = np.zeros((len(asked), len(parts[0])), dtype=np.float32)
    for of_question, first, one in zip(shares, firsts, asked, strict=True):
        share = 0.0
        if one.turns:
            share = _SHARE_IF_REFERRED_TO if grammar.refers_back(one.text) else _SHARE
            by_age = _DECAY ** np.arange(len(one.turns))[::-1]
            np.add.at(
                of_question, [rows[turn] for turn in one.turns], share * by_age / by_age.sum()
            )
        of_question[first] += 1 - share
    mixed = []
    for part in parts:
        mean, scales = shares @ part.mean, shares**2 @ part.scales
        terms = [
            together([_mix_bags(block, *each) for each in zip(firsts, shares, strict=True)])
            for block in part.terms
        ]
        mixed.append(Gaussian.from_factors(mean, scales, part.profile, terms=terms))
    return mixed


def _mix_bags(terms: Terms, first: int, shares: FloatArray) -> Terms:
    """Combine the bags of words with a nonzero share; `first` is the question's."""
    others = np.flatnonzero(shares)
    some = np.array([first, *others[others != first]])
    bags = terms[some]
    sizes = np.diff(bags.starts)
    # A question without words is given the size of the largest turn.
    size = np.float32(sizes[0] or sizes.max())
    factor = len(some) * shares[some] * size / np.maximum(sizes, 1)
    return bags.weigh_terms(np.repeat(factor, sizes).astype(np.float32)).average
