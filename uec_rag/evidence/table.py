"""The table of evidence: what words tell of an answer, a row for each piece, with its weight.

P(a question is answered) is the product of three probabilities: that the passages answer it, that
the answer is among the first hits, and that these are what is meant. A row of `EVIDENCE` is
evidence of the first, and adds to its log odds, or of the last; or of whether the question leaves
open which of several readings is meant (`uec_rag.clarify.outline`). Nothing else that reads
words adds to log odds or multiplies a probability.

A row comes in if without it three more questions are wrong than right on two kinds of documents, of
which nobody thought of one when it was written, and goes when that is no longer so:
`benchmarks.quality.worth` switches each off.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.logistic import EVEN
from uec_rag.base.records import cached_property
from uec_rag.clarify import readings
from uec_rag.clarify.outline import Node
from uec_rag.confidence.model import JUDGED, UNLIKELY, WORDS
from uec_rag.encoders import lexical
from uec_rag.encoders.notations import LATIN, letters_in
from uec_rag.evidence.asked import Asked
from uec_rag.evidence.family import are_statements
from uec_rag.evidence.words import QuestionWords


@dataclass(frozen=True, eq=False)
class Comparison:
    """A question compared with its different hits: what rows of evidence are computed from.

    Attributes
    ----------
    words : QuestionWords
        Those of the question, and which of the hits have them.
    logits : array, shape (m,)
        The logits of the hits, best first, divided by the temperature.
    gap : float
        By how much the first hit is nearer than the second, as a share of its similarity.
    unheard : tuple of str
        The names of the question that no passage has, see `uec_rag.evidence.absence`.
    likeness : Asked or None
        The question compared with those that were written for the hits; None if there are none.
    same : float
        Whether what was written for one of the first hits is the same question, see `sameness`.
    is_learned : bool
        False if the ensemble has no fit.
    """

    words: QuestionWords
    logits: FloatArray
    gap: float = 1.0
    unheard: tuple[str, ...] = ()
    likeness: Asked | None = None
    same: float = 0.0
    is_learned: bool = True

    @property
    def is_known(self) -> bool:
        """True if it is known which words of the question its hits have.

        It is not if no encoder counts words, if the question is in another script than the first
        hit and not in Latin letters, or if it has no content word.
        """
        words, script = self.words, letters_in(self.words.phrasing.text)
        is_foreign = script not in (LATIN, letters_in(words.hits[0].with_source))
        return words.are_counted and bool(words.content) and not is_foreign

    @cached_property
    def lacks(self) -> frozenset[str]:
        """The content words that the first of some statements lacks; empty of other texts.

        What is spelled or carried by the turns before is there.
        """
        words = self.words
        is_as_written = words.phrasing.role != "spelled" and not words.phrasing.turns
        if not (is_as_written and words.are_counted and words.content):
            return frozenset()
        missing = words.content.keys() - words.bags[0][0]
        return frozenset(
            missing if missing and are_statements([hit.text for hit in words.hits]) else ()
        )


@dataclass(frozen=True, eq=False)
class Openness:
    """A question with its readings: what rows of what it leaves open are computed from.

    Attributes
    ----------
    comparison : Comparison
    node : Node
        The readings.
    is_meant : bool
        Whether no row speaks against that the first hits are meant.
    """

    comparison: Comparison
    node: Node
    is_meant: bool


@dataclass(frozen=True)
class Row:
    """A piece of evidence.

    Attributes
    ----------
    name : str
    of : {"answer", "meant", "open"}
        The event: that the passages answer, that the first hits are meant, or that the question
        leaves open which reading is.
    value : callable
        Computes it from a `Comparison`, or an `Openness`: 0 if it says nothing, NaN if it is not
        known.
    sign : {1, -1}
        Whether more of it speaks for the event or against it.
    learned : str
        The module of `benchmarks.quality` by which its weight was learned.
    context : str
        The set of `benchmarks.quality.worth` in which it can tell.
    sentence : str
        What `uec_why` tells.
    """

    name: str
    of: Literal["answer", "meant", "open"]
    value: Callable[[Any], float]
    sign: Literal[1, -1]
    learned: str
    context: str
    sentence: str


_rows = list[Row]()


def row(
    of: Literal["answer", "meant", "open"],
    sign: Literal[1, -1],
    learned: str,
    context: str,
    sentence: str,
) -> Callable[[Callable[[Any], float]], Callable[[Any], float]]:
    """Make a function the value of a row of `EVIDENCE`, which has its name; see `Row`."""

    def add(value: Callable[[Any], float]) -> Callable[[Any], float]:
        _rows.append(Row(value.__name__, of, value, sign, learned, context, sentence))
        return value

    return add


@row(
    *("answer", 1, "shipped_confidence", "collections"),
    "words: one hit has {value:.0%} of the question's",
)
def coverage(comparison: Comparison) -> float:
    """Return the share of the idf of the question's content words that one hit has, at most."""
    if not comparison.is_known:
        return np.nan
    return comparison.words.share_in_hits


@row("answer", 1, "shipped_confidence", "collections", "names: {absence}")
def names(comparison: Comparison) -> float:
    """Return whether a hit has all names, numbers and identifiers of the question; 1 of none.

    The only content word of a question counts as a name.
    """
    if not comparison.is_known:
        return np.nan
    words = comparison.words
    terms = words.names if len(words.content) > 1 else {*words.content}
    pairs = zip(words.marks_with_source, words.bags, strict=False)
    return float(
        any(
            terms <= bag and lexical.has_all_words(hit.parts, terms - implied)
            for hit, (bag, implied) in pairs
        )
    )


@row(
    *("answer", -1, "counterevidence", "variants"),
    "against it: the first hit lacks a name that the question has",
)
def unnamed(comparison: Comparison) -> float:
    """Return what it says against the first hit that it lacks a name of the question."""
    words = comparison.words
    return lowest_ratio(comparison, words.names - words.folder_names, "unnamed")


@row(
    *("answer", -1, "counterevidence", "folders"),
    "against it: the first hit is not in the folder that the question names",
)
def outside(comparison: Comparison) -> float:
    """Return what it says against the first hit that it is not in the folder that is named.

    A product's folder is a name in any case: who asks for it means what is in there.
    """
    return lowest_ratio(comparison, comparison.words.folder_names, "outside")


def lowest_ratio(
    comparison: Comparison, names: set[str], kind: Literal["unnamed", "outside"]
) -> float:
    """Return which part of its weight it tells that the first hit lacks a name; 0 if it lacks none.

    It is that of the name which tells the most. Another of the first hits may stand in for the
    first: it costs what it is less near and, if it has all names, as much of the first one's ratio
    as it has less of the other words.
    """
    words, rarity = comparison.words, comparison.words.content
    names = {name for name in names if name in rarity and name not in words.tables[0]}
    if not (words.are_counted and names):
        return 0.0
    costs = {name: log_likelihood_ratio(kind, words.share_without(name)) for name in names}
    ratios, highest = list[float](), 0.0
    for hit, (bag, _) in zip(words.marks_with_source, words.bags, strict=False):
        content = sum(rarity[word] for word in rarity.keys() & bag - names)
        highest = highest or max(content, 1e-9)
        missing = {w for w in names - bag if not lexical.has_all_words(hit.parts, [w])}
        remainder = ratios[0] * max(1 - content / highest, 0.0) if ratios else 0.0
        ratios.append(min((costs[word] for word in missing), default=remainder))
    behind = (comparison.logits[: len(ratios)] - comparison.logits[0]).tolist()
    ratio = max(map(sum, zip(behind, ratios, strict=True))) if ratios[0] else 0.0
    return -ratio / weights()[kind]


@row(
    *("answer", -1, "evidence", "statements"),
    "against it: the first hit, a short statement, lacks a word of the question",
)
def lacks_word(comparison: Comparison) -> float:
    """Return the share of the question's words, by idf, that the first of some statements lacks."""
    rarity = comparison.words.content
    amount = sum(rarity[word] for word in sorted(comparison.lacks))
    return amount / sum(rarity.values()) if amount else 0.0


@row("answer", -1, "evidence", "statements", "against it: another hit has what it lacks")
def replaces(comparison: Comparison) -> float:
    """Return whether another statement has what the first lacks, in place of what this has."""
    words, missing = comparison.words, comparison.lacks
    shared = words.content.keys() & words.bags[0][0] if missing else set()
    rivals = (table.keys() for table in words.tables[1:JUDGED])
    return float(any(missing & rival and shared - rival for rival in rivals))


@row(
    *("answer", 1, "asked", "written"),
    "written for one of the first hits: the same question, {value:.0%}",
)
def asked(comparison: Comparison) -> float:
    """Return whether what was written for one of the first hits is the same question."""
    return comparison.same


def sameness(likeness: Asked) -> float:
    """Return whether what was written for one of the first hits is the same question, 0 to 1.

    It is if it is alike, as no question of another hit is, and has the content of what is asked;
    and if the text of that hit may be an answer by itself.
    """
    learned, share = weights(), 1.0
    for name in ("alike", "ahead", "covered"):
        start, end = learned[f"{name}_least"], learned[f"{name}_most"]
        share *= min(max((getattr(likeness, name) - start) / (end - start), 0.0), 1.0)
    return share if share and likeness.is_sound else 0.0


@row(
    *("meant", -1, "families", "variants"),
    "against it: nothing tells which of several hits alike is meant",
)
def family(comparison: Comparison) -> float:
    """Return whether the question does not tell hits alike apart, and the first does not stand out.

    It does if it is nearer than any other by enough: by another name for what is in it.
    """
    alike = comparison.words.family
    if alike is None:
        return 0.0
    learned = weights()
    advance = learned["gap"] * comparison.gap + learned["resembles"] * alike.resembles
    return float(alike.operates or advance <= learned["least"])


@row("meant", -1, "families", "names", "against it: no passage has a name that the question has")
def unheard(comparison: Comparison) -> float:
    """Return whether the question has a name that no passage has: the nearest is another's."""
    return float(bool(comparison.unheard))


@row(
    *("meant", -1, "families", "steps"),
    "against it: the first hit does not say what comes before or after",
)
def order(comparison: Comparison) -> float:
    """Return whether the first hit is the step before or after the one that is asked for."""
    return float(comparison.words.leaves_order)


@row(
    *("meant", -1, "families", "follow-ups"),
    "against it: the first hit lacks what the question goes on to",
)
def goal(comparison: Comparison) -> float:
    """Return whether the first hit lacks what a follow-up goes on to: "And a tablet?"."""
    return float(comparison.words.lacks_goal)


@row(
    *("meant", -1, "families", "unfitted"),
    "against it: the first hit lacks half of the question's words, and nothing was learned",
)
def half(comparison: Comparison) -> float:
    """Return whether nothing was learned and the first hit lacks most of the question's words."""
    return float(not comparison.is_learned and comparison.words.of_first < EVEN)


@row("open", 1, "statements", "statements", "asking back: statements without titles")
def statements(openness: Openness) -> float:
    """Return whether the readings are statements without titles, which leave it open more often."""
    outline = openness.node.outline
    has_titles = any(outline.titles)
    return float(not has_titles and outline.are_statements(range(len(outline.texts))))


@row("open", -1, "families", "variants", "asking back: what is meant may not be there")
def untold(openness: Openness) -> float:
    """Return whether to ask which is meant would be in vain, since what is meant may not be there.

    A family is asked about all the same if the question names nothing in place of its members.
    """
    alike = openness.comparison.words.family
    may_ask = alike is not None and alike.is_vague and not half(openness.comparison)
    return float(not openness.is_meant and not may_ask)


@row("open", 1, "decisions", "people", "asking back: several have the name")
def namesakes(openness: Openness) -> float:
    """Return whether several things have the name that the question says."""
    return float(openness.is_meant and bool(openness.comparison.words.namesakes))


@row("open", -1, "decisions", "short", "asking back: the question says which is meant")
def says_which(openness: Openness) -> float:
    """Return whether the question says which readings it means, or these say the same.

    It also does if it asks for several ("Which halls have a stage?"), if it goes on to what the
    first hit alone has, has a name or a number that is there alone, or names another of a family,
    from which the first hit stands out.
    """
    words = openness.comparison.words
    if not openness.is_meant or words.namesakes:
        return 0.0
    if words.asks_for_several:
        return 1.0
    is_named = words.family is not None and not words.family.is_vague
    tells = is_named or words.tells_goal or words.tells_name
    return float(tells or readings.says_which(openness.node))


EVIDENCE = tuple(_rows)
"""All evidence of words. The first rows are the `WORDS`, whose weights are a confidence model's."""

OF_HITS = tuple(row for row in EVIDENCE if row.of != "open")
"""The rows that are computed from the hits alone."""

AGAINST = OF_HITS[len(WORDS) :]
"""Those of them whose weights are the same for all models."""

OPEN = EVIDENCE[len(OF_HITS) :]
"""The rows of what a question leaves open."""


@cache
def weights() -> Mapping[str, float]:
    """Return the weight of each row, and the other numbers that rows were learned with.

    Of what is evidence of an answer, or for what is left open, it is in log odds; of what is meant,
    it is the log odds where the row speaks, of which the lowest counts.
    """
    file = files("uec_rag.evidence").joinpath("weights.json")
    learned: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))
    return learned


def weigh(values: Sequence[float]) -> tuple[float, float]:
    """Return what the rows of `AGAINST` add to the log odds of an answer, and P(meant).

    Parameters
    ----------
    values : sequence of float
        The value of each row.
    """
    learned, odds, lowest = weights(), 0.0, math.inf
    for row, value in zip(AGAINST, values, strict=True):
        if not value:
            continue
        if row.of == "answer":
            odds += row.sign * learned[row.name] * value
        else:
            lowest = min(lowest, row.sign * learned[row.name] * value)
    return odds, 1 / (1 + math.exp(-lowest))


def weigh_open(chance: float, openness: Openness) -> tuple[float, list[float]]:
    """Return P(a question leaves open which reading is meant), and the value of each row of `OPEN`.

    What speaks for it adds to its log odds. Of what speaks against it, from 0 to 1, the remainder
    is its factor; it is 0 where there is hardly anything to lower.

    Parameters
    ----------
    chance : float
        P before, see `uec_rag.clarify.outline.underspecified`.
    openness : Openness
    """
    values = list[float]()
    for row in OPEN:
        value = row.value(openness) if row.sign > 0 or chance >= UNLIKELY else 0.0
        if row.sign > 0:
            ratio = math.exp(weights()[row.name] * value)
            chance = ratio * chance / (1 - chance + ratio * chance)
        else:
            chance *= 1 - value
        values.append(value)
    return chance, values


_NEARNESS = (
    "first hit: how far it stands out from the others",
    "nearness: of the first hit, by the model that finds it nearest",
    "agreement: nearness of the first hit by all models",
)
_TOLD = 0.05  # log odds below which a part is told as nothing


@dataclass(frozen=True)
class Explanation:
    """The parts of the log odds that the documents answer one question.

    Attributes
    ----------
    contributions : sequence of 4 + W floats
        What the mean and each feature add, see `uec_rag.base.logistic.Calibrator.contributions`;
        the last are those of the `WORDS`.
    evidence : sequence of floats
        The value of each row of `EVIDENCE`; without those of `OPEN` if nothing was in question.
    slope : float
        What the weights of `AGAINST` are multiplied by.
    log_odds : float
        What all of it comes to.
    missing : tuple of str
        The words of the question that none of its first hits has.
    """

    contributions: Sequence[float]
    evidence: Sequence[float]
    slope: float
    log_odds: float
    missing: Sequence[str]

    @property
    def lines(self) -> tuple[str, ...]:
        """The parts in words, a line for each that says something."""
        base, *parts = self.contributions
        nearness = zip(_NEARNESS, parts, strict=False)
        lines = [f"usual question: {base:+z.1f}", *(f"{text}: {of:+z.1f}" for text, of in nearness)]
        lacked = f"{' and '.join(self.missing) or 'a name'} {'are' if self.missing[1:] else 'is'}"
        learned, fitted = weights(), dict(zip(WORDS, parts[-len(WORDS) :], strict=True))
        for row, value in zip(EVIDENCE, self.evidence, strict=False):
            if math.isnan(value) or not (value or row.name in fitted):
                continue
            amount = fitted.get(row.name, row.sign * learned.get(row.name, 0.0) * value)
            absence = "none is missing" if value else f"{lacked} in no hit"
            effect = f"{amount if row.name in fitted else self.slope * amount:+z.1f}"
            if row.of == "meant":
                effect = f"times {1 / (1 + math.exp(-amount)):.2f}"
            elif row.of == "open":
                effect = f"times {math.exp(amount) if row.sign > 0 else 1 - value:.2f}"
            lines.append(f"{row.sentence.format(value=value, absence=absence)}: {effect}")
        against = weigh(self.evidence[len(WORDS) : len(OF_HITS)])[0]
        remainder = self.log_odds - sum(self.contributions) - self.slope * against
        if remainder > _TOLD:
            lines.append(f"near all the same: words say no more against it: {remainder:+.1f}")
        elif remainder < -_TOLD:
            lines.append(f"far: no hit has a word of it or is near: {remainder:+.1f}")
        return tuple(lines)


def log_likelihood_ratio(kind: Literal["unnamed", "outside"], share: float) -> float:
    """Return the log likelihood ratio of an answer if the first hit lacks a name.

    It was learned by `benchmarks/quality/counterevidence.py`, as a ratio a of likelihoods where the
    lack is rare. It tells the less, the more passages lack the name: with a share b of them,
    P(lack | no answer) is b and P(lack | an answer) is a b / (a b + 1 - b).

    Parameters
    ----------
    kind : {"unnamed", "outside"}
        Whether the name is any, or that of a folder.
    share : float
        b, from 0 to 1.
    """
    ratio = math.exp(-weights()[kind])
    return math.log(ratio / (ratio * share + 1 - share))
