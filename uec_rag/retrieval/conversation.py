"""Conversations: the turns that are relevant to a question, and their mixture with it.

Every encoder encodes each turn by itself, so that turns it has cached need not be encoded again.
What is searched is a convex combination of the question and the turns before it, a Gaussian in each
encoder's space and a bag of words in BM25. The question weighs two thirds, less if it refers back
(`in_context`). `uec_rag.retrieval.search` chooses with how many turns a question is searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian, Terms, together
from uec_rag.confidence.replies import extract_clarifying_question
from uec_rag.confidence.wording import refers_back
from uec_rag.retrieval.request import Query

# Total weight of the turns before a question, and the same if the question refers to them ("Where
# was it built?", "And the price?"). They were not learned; see benchmarks/results/conversation.md.
_SHARE_IF_REFERRED_TO = 1 / 2
_DECAY = 0.7  # weight of a turn relative to the next: subjects change

SHARE = 1 / 3
"""The total weight of the turns before a question that does not refer to them."""


def turns_of(messages: Iterable[tuple[str, str]]) -> list[str]:
    """List the turns of a conversation that are relevant to the next question, oldest first.

    These are the user's turns and the answers that ask back, of this package ("Do you mean A or
    B?") or of a language model ("Which year?"), without which a reply says little. Other answers,
    system prompts and results of tools are left out.

    Parameters
    ----------
    messages : iterable of (str, str)
        Speaker ("user", "assistant" or any other) and text, oldest first.

    Examples
    --------
    >>> turns_of([("system", "Be brief."), ("user", "Who pays?"), ("assistant", "The tenant.")])
    ['Who pays?']
    """
    turns = []
    for who, text in messages:
        if who == "user":
            turns.append(text)
        elif who == "assistant" and (asked := extract_clarifying_question(text)) is not None:
            turns.append(asked)
    return turns


def rows_of(texts: Sequence[str], parts: Sequence[Gaussian]) -> dict[str, int]:
    """Return the row of each text in its Gaussians; ValueError if there are more or fewer rows."""
    for part in parts:
        if len(part) != len(texts):
            raise ValueError(f"parts: expected Gaussians of {len(texts)} texts, got {len(part)}.")
    return {text: row for row, text in enumerate(texts)}


def in_context(
    queries: Sequence[Query], rows: Mapping[str, int], parts: Sequence[Gaussian]
) -> list[Gaussian]:
    """Combine each of n questions with the turns before it, for each encoder, by convolution.

    The Gaussian is ``N(sum_j c_j mu_j, sum_j c_j^2 Sigma_j)`` over a question (j = 0) and the turns
    before it (the j-th one back). The coefficient of the question is 2/3, or 1/2 if it refers back;
    those of the turns are proportional to ``0.7^j`` and sum to the rest. For a turn that does not
    refer back, j only counts later turns that do not, either: follow-ups keep to their subject. In
    the bag of words, the weight of a term is ``sum_j c_j w_j |w_0| / |w_j|``, where |w| is the
    number of terms in a bag, so that a long turn does not outweigh a short question.

    Parameters
    ----------
    queries : sequence of n Query
    rows : mapping of str to int
        The row of each question and turn in `parts`, as `rows_of` returns them.
    parts : sequence of K Gaussian
        Each encoder's Gaussians of the texts.

    Raises
    ------
    ValueError
        If a question or a turn was not encoded.
    """
    try:
        firsts = [rows[query.text] for query in queries]
        before = [[rows[turn] for turn in query.turns] for query in queries]
    except KeyError as error:
        raise ValueError(f"parts: there is no Gaussian of {error}; encode it, too.") from None
    if not any(before):
        same = firsts == [*range(len(parts[0]))]
        return [part if same else part[firsts] for part in parts]
    shares = np.zeros((len(queries), len(parts[0])), dtype=np.float32)
    for of_query, first, turns, query in zip(shares, firsts, before, queries, strict=True):
        share = 0.0
        if turns:
            share = _SHARE_IF_REFERRED_TO if refers_back(query.text) else SHARE
            by_age = _DECAY ** _ages(query.turns)
            np.add.at(of_query, turns, share * by_age / by_age.sum())
        of_query[first] += 1 - share
    mixed = []
    for part in parts:
        mean, scales = shares @ part.mean, shares**2 @ part.scales
        terms = [
            together([_mix_bags(block, *each) for each in zip(firsts, shares, strict=True)])
            for block in part.terms
        ]
        mixed.append(Gaussian.from_factors(mean, scales, part.profile, terms=terms))
    return mixed


def _ages(turns: Sequence[str]) -> NDArray[np.intp]:
    """Return how many turns are later; for one that does not refer back, only of its kind."""
    whole = np.array([not refers_back(turn) for turn in turns], dtype=bool)
    later = np.cumsum(whole[::-1])[::-1] - whole
    return np.where(whole, later, np.arange(len(turns))[::-1])


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
