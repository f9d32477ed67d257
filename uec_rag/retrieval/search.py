"""Searching a store for questions, as arrays over a block of them, from Gaussians to probabilities.

find          finds the hits of phrasings, in blocks; yields a `Found` for each
view_for      looks at the passages; in a remote store, at the candidates of its question
compare       computes the similarity of every encoder to every column
top_k         finds the columns with the highest s_hat, and their passages
words_of      looks up which words of the questions the hits have
features_of   computes the features from which probabilities are estimated

What follows is about one question at a time: `uec_rag.retrieval.assess`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.similarity import cosines_of_pairs
from uec_rag.base.text import FUNCTION_WORDS, telling_words
from uec_rag.confidence.counterevidence import (
    counterevidence,
    is_first_meant,
    learned_ratios,
)
from uec_rag.confidence.model import (
    NEAREST,
    ConfidenceModel,
    Features,
    Probabilities,
    features,
    shipped_model,
)
from uec_rag.confidence.readings import CLARIFY_FROM
from uec_rag.ensemble.convolution import block_scales
from uec_rag.ensemble.fitted import Fitted
from uec_rag.questions.languages import check_language, sentence
from uec_rag.retrieval.phrasings import Phrasing
from uec_rag.retrieval.words import Rarity, Words
from uec_rag.stores.base import Filter, Passage, Searched, Top
from uec_rag.stores.candidates import CandidateStore
from uec_rag.stores.local import View
from uec_rag.stores.local.scan import Compared

_METHOD = 1
"""The version of how confidence is computed: another one voids guarantees of gates made before.

Raise it with each change by which the same similarities get another confidence.
"""

_HALF = 0.5  # share of the question's words that a first hit has, before anything was learned
_BLOCK = 2**26  # similarities held at a time, over questions, passages and encoders
_FEWEST = 4  # candidates to fetch from a remote store for each hit
_MOST_LOOKED_AT = 1024  # hits to search for different texts


@dataclass(frozen=True)
class Method:
    """The method of a search, the same at all its stages.

    Attributes
    ----------
    fitted : Fitted
    model : ConfidenceModel
    basis : str
        Fingerprint of everything that confidence depends on.
    check_familiar : bool
        Whether to detect questions unlike those of the fit; False after `calibrate`.
    language : str or None
        The language in which decisions are told; None for that of each question.
    caveat : tuple of str
        The key of a sentence on why the search is not what it usually is, and what it names; empty
        if it is.
    rarity : callable or None
        How rare a word is in general, see `UEC.rarity`.
    clarify_from : float
        The lowest P(underspecified) at which to ask for clarification.
    """

    fitted: Fitted
    model: ConfidenceModel
    basis: str = ""
    check_familiar: bool = True
    language: str | None = None
    caveat: tuple[str, str] | tuple[()] = ()
    rarity: Rarity | None = field(default=None, repr=False, compare=False)
    clarify_from: float = CLARIFY_FROM

    def is_unlike(self, words: Words) -> bool:
        """Return whether nothing was learned and the first hit lacks most of a question's words."""
        return self.model.standardised and words.of_first < _HALF

    def caveat_in(self, language: str) -> str:
        """Return the caveat in a language; "" if there is none."""
        return sentence(self.caveat[0], language, name=self.caveat[1]) if self.caveat else ""


def method_of(
    fitted: Fitted,
    calibrated: ConfidenceModel | None,
    language: str | None,
    filter: Filter | None = None,
) -> Method:
    """Return the method of a search: the ensemble and what was learned from the corpus.

    The model from logits to probabilities is the calibrated, the fitted or the default one. The
    basis is the hash of everything that turns a search's similarities into confidence, except
    the passages, and of the version of the method, which a patch release leaves as it is.

    `filter`: the order of its keys is ignored, and of a callable, everything but its type.
    """
    model = calibrated or fitted.confidence_model or shipped_model("unfitted")
    weights = fitted.rule.evidence
    filtered = json.dumps(filter, sort_keys=True, default=_as_text)
    learned = model.fingerprint, weights and weights.fingerprint, learned_ratios()
    state = *learned, _METHOD, filtered
    basis = hashlib.sha256(repr(state).encode()).hexdigest()[:16]
    return Method(fitted, model, basis, calibrated is None, check_language(language))


def _as_text(value: object) -> object:
    """Convert a part of a filter to what JSON writes the same way in every process."""
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    return type(value).__name__ if callable(value) else repr(value)


@dataclass(frozen=True, eq=False)
class Block:
    """The hits of n questions that are compared with one view of C columns.

    Attributes
    ----------
    method : Method
    view : View
    asked : sequence of n Phrasing
    parts : sequence of K Gaussian
        The Gaussians of the questions in each block (`Fitted.blocks`).
    coefficients : array, shape (n, K)
    top : Top
        The best m columns, best first, with their scores.
    passages : list of n lists of m Passage
    numbers : array, shape (n, m)
        The number of each hit's text, from 0, best first; copies of a text share its number.
    distinct : array, shape (n, m)
        The first position of each different text, padded with -1.
    to_hits : array, shape (n, K, m)
        Each block's similarity to a hit.
    unfamiliar : sequence of n pairs of str and bool
        How each question differs from those of the fit, "" if it does not, and whether it is in a
        script that no encoder knows.
    """

    method: Method
    view: View
    asked: Sequence[Phrasing]
    parts: Sequence[Gaussian]
    coefficients: FloatArray
    top: Top
    passages: list[list[Passage]]
    numbers: NDArray[np.intp]
    distinct: NDArray[np.intp]
    to_hits: FloatArray
    unfamiliar: Sequence[tuple[str, bool]]


@dataclass(frozen=True, eq=False)
class Found:
    """The m passages found for one phrasing of a question, best first.

    Attributes
    ----------
    method : Method
    asked : Phrasing
    passages : list of m Passage
    numbers : list of m int
        The number of each hit's text, from 0; copies of a text share its number.
    distinct : array
        The first position of each different text.
    scores, mu, model_variance, disagreement : array, shape (m,)
        As in `uec_rag.retrieval.hits.Hit`.
    to_hits : array, shape (K, m)
        Each block's similarity to a hit.
    leading : list of K arrays
        The highest similarities of each block to a passage.
    coefficients : array, shape (K,)
        Those of the blocks.
    of_encoders : array, shape (E,)
        Those of the encoders.
    words : Words
        Those of the question, and which of the different hits have them.
    unfamiliar : str
        How the question differs from those of the fit; "" if it does not.
    features : Features
        The features of confidence, of this question alone.
    probabilities : Probabilities
        What the model of confidence makes of them.
    looked_at : int
        The number of passages that were compared.
    """

    method: Method
    asked: Phrasing
    passages: list[Passage]
    numbers: list[int]
    distinct: NDArray[np.intp]
    scores: FloatArray
    mu: FloatArray
    model_variance: FloatArray
    disagreement: FloatArray
    to_hits: FloatArray
    leading: list[FloatArray]
    coefficients: FloatArray
    of_encoders: FloatArray
    words: Words
    unfamiliar: str
    features: Features
    probabilities: Probabilities
    looked_at: int


@dataclass(frozen=True)
class Rivals:
    """The competitors of passages that are few, of which the first would look like an answer.

    Attributes
    ----------
    store : Searched or None
        What the caller may see, besides them.
    profile : {"absolute", "relative", ""}
        Whether the logits that the hits of a question usually have compete, too, up to `NEAREST`:
        as they are, or from that of the first hit. Nothing that the caller may not see does.
    """

    store: Searched | None
    profile: Literal["absolute", "relative", ""] = ""


def find(
    method: Method,
    store: Searched,
    asked: Sequence[Phrasing],
    parts: Sequence[Gaussian],
    k: int,
    rivals: Rivals | None = None,
) -> Iterator[Found | None]:
    """Find the hits of questions and their features, from which `calibrate` learns, too.

    Yields what was found for each, None if there are no passages. A block has as many questions as
    fit in memory. In a remote store, it has one, since the candidates differ between questions.

    `rivals`: what competes with the passages of `store`, if these are few.
    """
    step = 1
    if not isinstance(store, CandidateStore):
        step = max(1, _BLOCK // max(1, len(store) * (len(parts) + 1)))
    for start in range(0, len(asked), step):
        some = slice(start, start + step)
        own = parts if len(asked) <= step else [part[some] for part in parts]
        view = view_for(method, store, asked[some], own, k)
        if len(view):
            yield from _find_in(method, store, view, asked[some], own, k, rivals)
        else:
            yield from [None] * len(asked[some])


def _find_in(
    method: Method,
    store: Searched,
    view: View,
    asked: Sequence[Phrasing],
    parts: Sequence[Gaussian],
    k: int,
    rivals: Rivals | None,
) -> Iterator[Found]:
    """Find the hits of a block of questions in a view with passages."""
    fitted, compared = method.fitted, compare(method.fitted, view, parts)
    best = np.stack([of_block[:, 0] for of_block in compared.leading], axis=1)
    pi = fitted.weigh(parts, compared.leading, best)
    query, weights = fitted.combine(parts, pi), pi * fitted.weights
    top, passages, numbers, distinct = top_k(
        fitted, view, query, compared, weights, max(k, NEAREST)
    )
    near = [np.take_along_axis(to_all, top.columns, axis=1) for to_all in compared.similarities]
    to_hits = np.stack(near, axis=1).astype(np.float32, copy=False)
    unfamiliar = [("", False)] * len(asked)
    if method.check_familiar and (profile := fitted.training_profile) is not None:
        # By one hit only, so that the result does not depend on k.
        unfamiliar = [
            profile.unfamiliar(one.text, hits[0].text, method.language or one.language)
            for one, hits in zip(asked, passages, strict=True)
        ]
    hits = top, passages, numbers, distinct, to_hits
    block = Block(method, view, asked, parts, pi, *hits, unfamiliar)
    tables = words_of(block)
    seen = features_of(block, store, tables, rivals if len(view) < NEAREST else None)
    apart, sure = fitted.disagreement(to_hits, best, pi), method.model.probabilities(seen)
    of_encoders = fitted.encoder_coefficients(parts, pi)
    for row, one in enumerate(asked):
        distinct = block.distinct[row]
        yield Found(
            method,
            one,
            passages[row],
            block.numbers[row].tolist(),
            distinct[distinct >= 0],
            top.scores[row],
            top.mu[row],
            top.sigma2[row],
            apart[row],
            to_hits[row],
            [of_block[row] for of_block in compared.leading],
            pi[row],
            of_encoders[row],
            tables[row],
            unfamiliar[row][0],
            seen.row(row),
            sure.row(row),
            len(view),
        )


def view_for(
    method: Method, store: Searched, asked: Sequence[Phrasing], parts: Sequence[Gaussian], k: int
) -> View:
    """Return the passages of a store; of a remote one, the candidates for the only question."""
    if not isinstance(store, CandidateStore):
        return cast(View, store.snapshot())
    [one], combined = asked, method.fitted.combine_as(parts, "query")
    return store.fetch(one.lines, combined, _FEWEST * max(k, NEAREST))


def compare(fitted: Fitted, view: View, parts: Sequence[Gaussian]) -> Compared:
    """Compare the Gaussians of the questions with the passages, block by block."""
    # With this scale, products with the stored blocks are cosines.
    blocks: list[FloatArray | Terms] = []
    for part, scale in zip(parts, block_scales(fitted.weights), strict=True):
        blocks.append(part.terms[0].scale_by(1 / scale) if part.terms else part.mean / scale)
    return view.compare(blocks)


def top_k(
    fitted: Fitted,
    view: View,
    query: Gaussian,
    compared: Compared,
    weights: FloatArray,
    different: int,
) -> tuple[Top, list[list[Passage]], NDArray[np.intp], NDArray[np.intp]]:
    """Find the best columns until they hold `different` different texts.

    The search ends at `_MOST_LOOKED_AT` columns, if these are more. Returns `top`, `passages`,
    `numbers` and `distinct` of a `Block`.
    """
    size = len(view)
    count = min(size, different)
    while True:
        beta = fitted.options.beta
        top = view.top_k(query, count, beta=beta, compared=compared, weights=weights)
        passages = view.gather(top.columns)
        text_number = np.empty((len(weights), count), dtype=np.intp)
        for numbers, of_query in zip(text_number, passages, strict=True):
            seen: dict[str, int] = {}
            numbers[:] = [seen.setdefault(passage.text, len(seen)) for passage in of_query]
        fewest = text_number.max(axis=1).min() + 1
        if fewest >= different or count == size or count >= max(different, _MOST_LOOKED_AT):
            break
        count = min(size, 2 * count)
    distinct = np.full_like(text_number, -1)
    for row, of_row in zip(distinct, text_number.tolist(), strict=True):
        first: dict[int, int] = {}
        for place, number in enumerate(of_row):
            first.setdefault(number, place)
        row[: len(first)] = [*first.values()]
    return top, passages, text_number, distinct


def words_of(block: Block) -> list[Words]:
    """Look up which words of each question its different hits have, and what each adds."""
    terms, size = [one for part in block.parts for one in part.terms], block.view.corpus_size
    near = [places[places >= 0].tolist() for places in block.distinct]
    hits = [[row[at] for at in places] for row, places in zip(block.passages, near, strict=True)]
    if not terms:
        return [
            Words.match(one, of[:NEAREST], size) for one, of in zip(block.asked, hits, strict=True)
        ]
    tables, found = list[Words](), block.view.contributions(terms, block.top.columns)
    for row, (one, places) in enumerate(zip(block.asked, near, strict=True)):
        rarity = dict[str, float]()
        matched: list[dict[str, float]] = [{} for _ in places]
        for counted, (added, rarities) in zip(terms, found, strict=True):
            if counted.labels is None:
                continue
            keys = counted.keys[counted.starts[row] : counted.starts[row + 1]].tolist()
            labels = [*map(counted.labels[row].get, keys)]  # None for a part of a word
            for word, idf in zip(labels, rarities[row].tolist(), strict=True):
                if word is not None:
                    rarity[word] = max(rarity.get(word, 0.0), idf)
            of_hits = added[row][places]
            places_of, numbers = np.nonzero(of_hits > 0)
            amounts = of_hits[places_of, numbers].tolist()
            for hit, number, amount in zip(
                places_of.tolist(), numbers.tolist(), amounts, strict=True
            ):
                if (word := labels[number]) is not None:
                    matched[hit][word] = amount
        tables.append(Words(one, hits[row], matched, rarity, size))
    return tables


def meant_by(method: Method, tables: Sequence[Words], mu: FloatArray) -> FloatArray:
    """Compute P(the first hits are those that a question means, if they are near), shape (n,).

    It is 1 but of a family that the question does not tell apart, unless the first of it stands
    out; of a first hit with another name that is like the question's; and of one without half of
    the question's words, while nothing was learned.

    `mu`: similarities of different hits, best first, shape (n, m), padded with -inf.
    """
    meant = np.ones(len(tables), dtype=np.float32)
    for row, table in enumerate(tables):
        is_told, family = not method.is_unlike(table), table.family
        if family is not None:
            gap = float((mu[row, 0] - mu[row, 1]) / max(float(mu[row, 0]), 1e-7))
            stands_out = is_first_meant(gap, resembles=family.resembles)
            is_told = is_told and stands_out and not family.operates
        if not is_told or table.misnames(method.rarity):
            meant[row] = learned_ratios()["untold"]
    return meant


def features_of(
    block: Block, store: Searched, tables: Sequence[Words], rivals: Rivals | None = None
) -> Features:
    """Compute the features of the first different texts of n questions.

    Parameters
    ----------
    block : Block
    store : Searched
        What was searched.
    tables : sequence of n Words
    rivals : Rivals, optional
        What competes with the hits.
    """
    method, fitted, pi = block.method, block.method.fitted, block.coefficients
    mu, to_hits, positions = block.top.mu, block.to_hits, block.distinct
    is_unfitted = method.model.standardised
    line = unfitted_logit_line(store, block.parts) if is_unfitted else None
    slope, offset = line or fitted.logit_line(block.parts, pi)
    if any(one.turns for one in block.asked):
        # The mean of several texts is shorter, which lowers all similarities to it, and the
        # confidence model was fitted on single texts.
        to_hits = block.to_hits / mean_lengths(block)[:, :, None]
        mu = mu + ((pi * fitted.weights)[:, :, None] * (to_hits - block.to_hits)).sum(axis=1)
    mu = np.where(positions >= 0, np.take_along_axis(mu, positions, axis=1), -np.inf)
    sigma2 = np.take_along_axis(block.top.sigma2, positions, axis=1)
    logits = (slope * mu + offset[:, None]).astype(np.float32)
    members, others = logits[:, :1], None
    if not is_unfitted:
        members = member_evidence(block, tables, to_hits[:, :, 0].copy())
    if rivals is not None:
        near = None if rivals.store is None else left_out(block, rivals.store)
        known = None if near is None else (slope * near + offset[:, None]).astype(np.float32)
        others = with_profile(logits, known, method.model, rivals)
    temperature = method.model.temperature
    words = np.array([table.evidence() for table in tables], dtype=np.float32)
    lacks = zip(logits / temperature, (table.lacks() for table in tables), strict=True)
    against = np.array([counterevidence(*each) for each in lacks], dtype=np.float32)
    meant = meant_by(method, tables, mu)
    variance = slope**2 * sigma2
    return features(logits, variance, members, temperature, words, others, against, meant)


def with_profile(
    logits: FloatArray, others: FloatArray | None, model: ConfidenceModel, rivals: Rivals
) -> FloatArray:
    """Return the logits of what competes with hits, shape (n, `NEAREST`), padded with -inf.

    `logits`, `others`: of different hits, and of what else the caller may see, padded likewise.
    """
    made = np.full((len(logits), NEAREST), -np.inf, dtype=np.float32)
    usual = np.array(model.profile, dtype=np.float32) * np.float32(model.temperature)
    for row, own in enumerate(logits):
        near = () if others is None else others[row, np.isfinite(others[row])]
        made[row, : len(near)] = near
        known = int(np.isfinite(own).sum()) + len(near)
        if rivals.profile and known < len(usual):
            start = own[0] - usual[0] if rivals.profile == "relative" else 0
            made[row, len(near) : len(near) + len(usual) - known] = usual[known:] + start
    return made


def left_out(block: Block, store: Searched) -> FloatArray:
    """Return mu_s of the nearest passages of a store that are not among the hits, shape (n, m).

    With the different texts of the hits, they are `NEAREST`; rows are padded with -inf.
    """
    fitted, pi = block.method.fitted, block.coefficients
    view = view_for(block.method, store, block.asked, block.parts, NEAREST)
    if not len(view):
        return np.full((len(pi), NEAREST), -np.inf, dtype=np.float32)
    compared = compare(fitted, view, block.parts)
    query, weights = fitted.combine(block.parts, pi), pi * fitted.weights / mean_lengths(block)
    top, passages, _, distinct = top_k(fitted, view, query, compared, weights, 2 * NEAREST)
    others = np.full((len(pi), NEAREST), -np.inf, dtype=np.float32)
    for row, columns in enumerate(distinct.tolist()):
        found = {passage.text for passage in block.passages[row]}
        new = [at for at in columns if at >= 0 and passages[row][at].text not in found]
        new = new[: max(0, NEAREST - len(found))]
        others[row, : len(new)] = top.mu[row, new]
    return others


def mean_lengths(block: Block) -> FloatArray:
    """Return the length of each question's mean in each block, shape (n, K); 1 without turns."""
    lengths = np.stack([np.linalg.norm(part.mean, axis=1) for part in block.parts], axis=1)
    lengths[[not one.turns for one in block.asked]] = 1
    lengths[lengths == 0] = 1  # lexical encoders
    return lengths


_UNRELATED = 64  # passages to compare with each other
_USUAL_PAIRS, _USUAL_MEAN, _USUAL_DEVIATION = 2, 0.2, 0.1


def unfitted_logit_line(
    store: Searched, parts: Sequence[Gaussian]
) -> tuple[np.float32, FloatArray]:
    """Return slope and offset, shape (n,), of the logits ``slope * mu_s + offset`` without a fit.

    They standardise similarities by the mean and standard deviation between passages of the corpus,
    that is, of unrelated texts, above which that of an answering passage stands out. A typical
    encoder serves as a prior worth a few pairs. To a lexical encoder, unrelated texts are assumed
    to have a similarity of 0.
    """
    cosine = cosines_of_pairs(store.sample(_UNRELATED).mean[: 2 * _UNRELATED])
    count = len(cosine) + _USUAL_PAIRS
    centre = (cosine.sum() + _USUAL_PAIRS * _USUAL_MEAN) / count
    square = ((cosine - centre) ** 2).sum() + _USUAL_PAIRS * _USUAL_DEVIATION**2
    words = sum(bool(part.terms) for part in parts) / len(parts)
    mean = float(centre * (1 - words))
    deviation = float(np.sqrt(square / count) * max(1 - words, 0.5))
    offset = np.full(len(parts[0]), -mean / deviation, dtype=np.float32)
    return np.float32(1 / deviation), offset


def member_evidence(block: Block, tables: Sequence[Words], similarities: FloatArray) -> FloatArray:
    """Compute the logit of each encoder for the first hit, shape (n, K), as evidence of an answer.

    That a passage has "what" and "of" is no evidence: of the matched words' weight, the share of
    English function words does not count. To an encoder, all texts in a script that it does not
    know are similar, so only lexical evidence counts for a question in such a script.

    `similarities`: each encoder's similarity to the first hit, shape (n, K); it is overwritten.
    """
    by_words = np.array([bool(part.terms) for part in block.parts])
    for row, table in enumerate(tables if by_words.any() else ()):
        if matched := table.matched[0]:
            says = [matched[word] for word in telling_words(matched, FUNCTION_WORDS)]
            similarities[row, by_words] *= np.float32(sum(says) / sum(matched.values()))
    logits = block.method.fitted.member_logits(block.parts, similarities)
    foreign = np.array([is_foreign for _, is_foreign in block.unfamiliar])
    if foreign.any() and by_words.any():
        heard = logits[:, by_words].max(axis=1, keepdims=True)
        logits = np.where(foreign[:, None] & ~by_words, heard, logits)
    return logits
