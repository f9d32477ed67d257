"""The decision about a query, to answer, ask back or abstain, and the evidence behind it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any, Literal, Self, cast

from msgspec import Meta

from uec_rag.base.checks import one_line, visible
from uec_rag.base.errors import InternalError
from uec_rag.base.records import Record
from uec_rag.confidence.model import ANSWER_ABOVE, PLAUSIBLE, SURE
from uec_rag.questions.languages import (
    ENGLISH,
    TRANSLATIONS,
    Code,
    check_language,
    language_of,
    sentence,
)
from uec_rag.questions.replies import (
    Reading,
    clarifying_list,
    clarifying_question,
    is_clarifying_question,
)

Action = Literal["answer", "clarify", "abstain"]

CLARIFY_FROM = 0.68
"""The lowest P(underspecified) at which to ask for clarification.

By the record of the twelve manuals (`benchmarks.quality.golden`), 5 more of 257 ambiguous questions
are asked back from 0.68 than from 0.7, and 12 answerable ones in vain; from 0.6 many more in vain.
Among statements it asks from 0.6, by the weight of that row of evidence.
"""

_OFF_TOPIC = 1e-3  # P(the corpus answers the query) below which it is off the subject, as "Thanks!"
_COST = 0.5  # of asking back in vain, if that of leaving an answerable question unanswered is 1


_Share = Annotated[float, Meta(ge=0, le=1)]
_Count = Annotated[int, Meta(ge=0)]

MOST_CLOSEST = 3
"""The number of closest sections that a reason names."""

# Names that are others in JSON, fields that only a gate needs, and those that seldom have a value.
_NAMES = {"action": "decision", "code": "reason_code"}
_SEARCH = (
    *("threshold", "unfamiliar", "caveat", "basis", "hits", "size", "shown", "language", "closest"),
    *("lacking", "clarify_from"),
)
_COSTS = ("advice_probability", "advice_calls", "advice_tokens")
_SELDOM = ("readings", "advice", "searched_as", "suggestions", *_COSTS)

DECISION_KEYS = (
    *("decision", "reason", "reason_code", "confidence", "in_corpus", "underspecified", "search"),
    *_SELDOM,
)
"""The names of what `Decision.findings` tells."""


@dataclass(frozen=True)
class Criteria:
    """The bounds by which a question is decided.

    Attributes
    ----------
    threshold : float
        The confidence above which to answer, such as that of a
        `uec_rag.confidence.risk.Guarantee`.
    clarify_from : float
        The lowest P(underspecified) at which to ask for clarification.
    asks_back : bool
        Whether it may be asked which reading is meant.
    """

    threshold: float = ANSWER_ABOVE
    clarify_from: float = CLARIFY_FROM
    asks_back: bool = True


USUAL = Criteria()


@dataclass(frozen=True, kw_only=True)
class Evidence(Record):
    """The evidence of a search, or of an advisor, about a question: all that decides.

    Attributes
    ----------
    readings : tuple of Reading
        The possible meanings of the question, most probable first; empty if unknown, as where an
        advisor names none.
    closest : tuple of Reading
        The first different sections that were found; see `Decision.suggestions`.
    confidence : float
        P(the query is answered by its hits).
    in_corpus : float
        P(the corpus answers the query); 1 if unknown.
    underspecified : float
        P(the corpus answers several readings of the query, which does not say which is meant).
    unfamiliar : str
        How the query differs from those that confidence was learned from; "" if it does not.
    caveat : str
        Why the search was not what it usually is, as if a model failed: whatever its numbers, it is
        decided to be uncertain. "" if it was.
    basis : str
        Fingerprint of the settings that confidence depends on (see `Retriever._method`); "" if
        unknown.
    hits : int
        Number of hits that confidence is about; 0 if unknown.
    size : int
        Number of passages that were searched; 0 if unknown.
    shown : int
        Number of different hits that were handed over; 0 if unknown.
    code : str
        The kind of reason, see `Code`: "nothing_found" and "no_question" need no numbers. Any other
        is that of an earlier decision, and decides nothing.
    searched_as : str
        The advisor's rewrite of the question, or the part of a message that asks, whose hits are
        those of this decision; "" if they are those of the question as it is.
    lacking : tuple of str
        Words of the question that no passage has; empty if that is not certain.
    language : str
        The code of the language of the reason, one of `uec_rag.questions.languages.languages`.

    Raises
    ------
    InternalError
        If a probability is NaN.
    """

    readings: tuple[Reading, ...] = ()
    confidence: _Share = field(default=0.0, compare=False)
    in_corpus: _Share = field(default=1.0, compare=False)
    underspecified: _Share = field(default=0.0, compare=False)
    unfamiliar: str = ""
    basis: str = field(default="", compare=False)
    hits: _Count = field(default=0, compare=False)
    size: _Count = field(default=0, compare=False)
    shown: _Count = field(default=0, compare=False)
    code: Code | Literal[""] = field(default="", compare=False)
    searched_as: str = ""
    language: str = field(default=ENGLISH, compare=False)
    closest: tuple[Reading, ...] = field(default=(), compare=False)
    lacking: tuple[str, ...] = field(default=(), compare=False)
    caveat: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        # Comparisons with NaN are all false: a gate would abstain, while user code such as
        # "if confidence < 0.5: refuse" would answer.
        probabilities = (self.confidence, self.in_corpus, self.underspecified)
        if any(map(math.isnan, probabilities)):
            raise InternalError(
                f"a confidence is not a number (confidence, in_corpus, underspecified: "
                f"{probabilities}): a bug in uec_rag; please report how it arose."
            )


@dataclass(frozen=True)
class Decision(Evidence):
    """The decision about a query's hits, with what it rests on: the attributes of `Evidence`.

    Attributes
    ----------
    action : {"answer", "clarify", "abstain"}
    reason : str
        A sentence for users; for "clarify", the question which reading is meant.
    threshold, clarify_from : float
        The `Criteria`.
    advice : str
        The verdict of an advisor: "answer", "clarify" or "no", or "none: " and why it has none; ""
        if none was asked. Behind a verdict from probabilities, the answers that were not valid.
    advice_probability : float or None
        P(the passages contain the answer) by an advisor alone, or what its verdict stands for; None
        if it gave none.
    advice_calls, advice_tokens : int
        Calls of advisors, and tokens that these read and wrote, where known.
    """

    action: Action
    reason: str
    threshold: float = field(default=ANSWER_ABOVE, compare=False)
    clarify_from: float = field(default=CLARIFY_FROM, compare=False)
    advice: str = ""
    advice_probability: _Share | None = field(default=None, compare=False)
    advice_calls: _Count = field(default=0, compare=False)
    advice_tokens: _Count = field(default=0, compare=False)

    @property
    def criteria(self) -> Criteria:
        """The criteria by which it was decided."""
        return Criteria(self.threshold, self.clarify_from)

    @property
    def candidates(self) -> tuple[str, ...]:
        """The ids of the passages of all readings; empty unless the action is "clarify"."""
        if self.action != "clarify":
            return ()
        return tuple(id_ for reading in self.readings for id_ in reading.ids)

    @property
    def clarifying_question(self) -> str:
        """The question to the user, "Do you mean A or B?"; "" unless the action is "clarify".

        Long titles are a numbered list in it, a row for each.
        """
        if self.action != "clarify":
            return ""
        # A decision restored from serialised hits has the sentence, but not the readings.
        is_written = not self.readings and is_clarifying_question(self.reason)
        return self.reason if is_written else clarifying_list(self.readings, self.language)

    @property
    def suggestions(self) -> tuple[Reading, ...]:
        """The closest sections, up to three, if they are near, but none answers certainly."""
        return self.closest if _names_closest(self.action, self.code, self.readings) else ()

    @property
    def choices(self) -> list[dict[str, Any]]:
        """The readings as JSON objects; empty unless the action is "clarify"."""
        if self.action != "clarify":
            return []
        return [asdict(reading) | {"ids": [*reading.ids]} for reading in self.readings]

    def metadata(self) -> dict[str, Any]:
        """Return what programs are told of the decision, as JSON values."""
        fields = self._json()  # less what gates alone need
        for name in ("basis", "hits", "size", "shown", "closest", "lacking", "caveat"):
            del fields[name]
        del fields["clarify_from"]
        for name in ("advice", "searched_as", *_COSTS):
            if not fields[name]:
                del fields[name]
        fields |= {"readings": self.choices, "candidates": [*self.candidates]}
        return fields | {"clarifying_question": self.clarifying_question}

    def findings(self) -> dict[str, Any]:
        """Return what hits tell of the decision, as JSON values that `restore` reads."""
        fields = self._json()
        fields["search"] = {name: fields.pop(name) for name in _SEARCH}
        return {name: fields[name] for name in DECISION_KEYS if fields[name] or name not in _SELDOM}

    def _json(self) -> dict[str, Any]:
        closest = [{"title": row.title, "ids": [*row.ids]} for row in self.suggestions]
        fields = super().metadata() | {"suggestions": closest}
        return {name: fields.pop(key) for key, name in _NAMES.items()} | fields

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `findings`; ValueError if something is missing, unknown or invalid."""
        findings = {name: value for name, value in metadata.items() if name != "suggestions"}
        search = findings.pop("search", {})
        values = findings | cast(dict[str, Any], search if isinstance(search, Mapping) else {})
        values = {key: values.pop(name) for key, name in _NAMES.items() if name in values} | values
        is_never = values.get("threshold", ANSWER_ABOVE) is None  # JSON has no infinity
        if is_never:
            del values["threshold"]
        decision = super().restore(values)
        lines = {
            name: one_line(getattr(decision, name)) for name in ("reason", "advice", "searched_as")
        }
        titled = (replace(reading, title=one_line(reading.title)) for reading in decision.readings)
        language = decision.language if "language" in values else language_of(decision.reason)
        fields: dict[str, Any] = lines | {"readings": tuple(titled)}
        fields["language"] = check_language(language) or ENGLISH
        if is_never:
            fields["threshold"] = math.inf
        return replace(decision, **fields)

    def advice_metadata(self) -> dict[str, Any]:
        """Return the fields of an advisor; empty if none was asked."""
        names = ("advice", "searched_as", *_COSTS)
        return {name: value for name in names if (value := getattr(self, name))}


def _names_closest(action: Action, code: str, readings: Sequence[Reading]) -> bool:
    return code == "uncertain" or (action == "clarify" and not readings)


_CARRIED = tuple(item.name for item in fields(Evidence) if item.name != "code")


def decide(evidence: Evidence, criteria: Criteria = USUAL) -> Decision:
    """Ask for clarification, else answer if confident, else abstain.

    A question may mean several things, so that no hit answers it alone, if P(underspecified) is at
    least `clarify_from`, and at least half P(unanswerable): to ask in vain costs a user less than
    to be told that there is no answer. It is asked back about. If just one of them can be named, it
    is answered, but uncertain from a probability of `SURE`. So is one with a name that no passage
    has, at best. A message in which nothing asks, and one for which nothing is found, get no
    answer.

    A decision is evidence, too: to decide again, pass it by other criteria, or with what is known
    now in place of what was (`dataclasses.replace`).

    Examples
    --------
    >>> two = (Reading("the printer", ("a",), 0.5), Reading("the scanner", ("b",), 0.4))
    >>> vague = decide(Evidence(confidence=0.9, underspecified=0.8, readings=two))
    >>> vague.reason
    'Do you mean the printer or the scanner?'
    >>> clear = replace(vague, underspecified=0.1)
    >>> [decide(clear, Criteria(threshold)).action for threshold in (0.5, 0.95)]
    ['answer', 'abstain']
    """
    action: Action = "abstain"
    code: Code = "uncertain"
    ambiguous, in_corpus = evidence.underspecified, evidence.in_corpus
    is_ambiguous = criteria.asks_back and ambiguous >= criteria.clarify_from
    is_ambiguous = is_ambiguous and _COST * (1 - in_corpus) < ambiguous * in_corpus
    is_ambiguous = is_ambiguous and (len(evidence.readings) != 1 or ambiguous >= SURE)
    if evidence.code == "nothing_found" or evidence.code == "no_question":
        code = evidence.code
    elif evidence.caveat:
        is_ambiguous = False
    elif is_ambiguous and len(evidence.readings) != 1:
        action, code = "clarify", "underspecified"
    elif evidence.confidence > criteria.threshold:
        if not is_ambiguous:  # else it is one of several
            action, code = "answer", "answered"
    elif in_corpus < PLAUSIBLE:
        code = "off_topic" if in_corpus < _OFF_TOPIC else "no_answer"
    reason = _reason(evidence, action, code, is_ambiguous=is_ambiguous)
    facts: dict[str, Any] = {name: getattr(evidence, name) for name in _CARRIED}
    return Decision(action, reason, criteria.threshold, criteria.clarify_from, code=code, **facts)


def chance_of_chosen(in_corpus: float) -> float:
    """Return P(the chosen reading answers), where a question was asked back about.

    Who chooses says that it is what was meant, and that it is there: an answer that it lacks then
    costs as much as to have asked in vain, by which the odds against it count for less.

    Examples
    --------
    >>> [round(chance_of_chosen(sure), 2) for sure in (0.1, 0.45, 0.9)]
    [0.18, 0.62, 0.95]
    """
    return in_corpus / (in_corpus + _COST * (1 - in_corpus)) if in_corpus else 0.0


def _reason(evidence: Evidence, action: Action, code: Code, *, is_ambiguous: bool) -> str:
    """Return the sentence for users, with what was searched for, and with notes."""
    language, words, readings = evidence.language, evidence.lacking, evidence.readings
    comma = TRANSLATIONS[language]["comma"]
    if action == "clarify":
        reason = clarifying_question(readings, language)
    elif words and code in ("uncertain", "no_answer"):
        values = comma.join(_quote(word, language) for word in words)
        reason = sentence("absent", language, values=values)
    else:
        reason = sentence("several" if is_ambiguous and code == "uncertain" else code, language)
    if evidence.closest and _names_closest(action, code, readings):
        titles = comma.join(reading.title for reading in evidence.closest)
        reason = sentence("closest", language, reason=reason, titles=titles)
    if evidence.searched_as and action != "clarify":
        question = _quote(evidence.searched_as, language)
        reason = sentence("searched_as", language, reason=reason, question=question)
    caveat = "" if code == "no_question" else evidence.caveat
    for note in filter(None, (caveat, evidence.unfamiliar)):
        reason = sentence("note", language, reason=reason, note=note)
    return reason


def _quote(text: str, language: str) -> str:
    return sentence("quoted", language, text=visible(text))


def restrict(decision: Decision, relevance: Sequence[float], titles: Collection[str]) -> Decision:
    """Decide on the different hits that are left of those of a search, as if no other were there.

    The confidence is at most the sum of the relevance of as many as it is about; what may be in the
    corpus shrinks with it. It is the same decision if none is missing, in whatever order they are.

    Parameters
    ----------
    decision : Decision
        That of the search.
    relevance : sequence of float
        P(this hit is relevant) of each hit that is left.
    titles : collection of str
        The readings that hits are left of.

    Examples
    --------
    >>> decision = decide(Evidence(confidence=0.9, in_corpus=0.95, shown=3, hits=4))
    >>> [restrict(decision, rest, ()).action for rest in ([0.02, 0.01], [0.8, 0.01])]
    ['abstain', 'answer']
    """
    if len(relevance) >= decision.shown:
        return decision
    best = sorted(relevance, reverse=True)[: decision.hits or None]
    sure = min(decision.confidence, sum(best))
    share = sure / max(decision.confidence, 1e-7)
    readings = tuple(reading for reading in decision.readings if reading.title in titles)
    evidence = replace(
        decision,
        confidence=sure,
        # What was dropped was on the subject.
        in_corpus=max(sure, decision.in_corpus * share, min(decision.in_corpus, _OFF_TOPIC)),
        readings=readings if decision.action == "clarify" else decision.readings,
        shown=len(relevance),
    )
    return decide(evidence, decision.criteria)
