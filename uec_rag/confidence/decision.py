"""The decision about a query, to answer, ask back or abstain, and the evidence behind it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal, Self, cast

from msgspec import Meta

from uec_rag.base.checks import one_line, visible
from uec_rag.base.errors import InternalError
from uec_rag.base.records import Record
from uec_rag.confidence.model import ANSWER_ABOVE
from uec_rag.confidence.outline import CLARIFY_FROM
from uec_rag.confidence.readings import Reading
from uec_rag.confidence.replies import (
    clarifying_list,
    clarifying_question,
    is_clarifying_question,
)
from uec_rag.questions.languages import (
    ENGLISH,
    TRANSLATIONS,
    Code,
    check_language,
    language_of,
    sentence,
)

Action = Literal["answer", "clarify", "abstain"]

PLAUSIBLE = 0.1
"""P(the corpus answers the query) below which nothing that was found is near.

Above it, a question whose passage was found in other words may be among those that get no answer.
"""

_OFF_TOPIC = 1e-3  # P(the corpus answers the query) below which it is off the subject, as "Thanks!"
_COST = 0.5  # of asking back in vain, if that of leaving an answerable question unanswered is 1


_Share = Annotated[float, Meta(ge=0, le=1)]
_Count = Annotated[int, Meta(ge=0)]

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
class Decision(Record):
    """The decision about a query's hits.

    Attributes
    ----------
    action : {"answer", "clarify", "abstain"}
    reason : str
        A sentence for users; for "clarify", the question which reading is meant.
    readings : tuple of Reading
        The possible meanings of the question, most probable first, whatever the action.
    closest : tuple of Reading
        The first different sections that were found, whatever the action; see `suggestions`.
    confidence : float
        P(the query is answered by its hits).
    in_corpus : float
        P(the corpus answers the query); 1 if unknown.
    underspecified : float
        P(the corpus answers several readings of the query, which does not say which is meant).
    threshold : float
        The confidence above which to answer.
    clarify_from : float
        The lowest P(underspecified) at which to ask for clarification.
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
        The kind of reason; see `Code`.
    advice : str
        The verdict of an advisor: "answer", "clarify" or "no", or "none: " and why it has none; ""
        if none was asked. Behind a verdict from probabilities, the answers that were not valid.
    advice_probability : float or None
        P(the passages contain the answer) by an advisor alone, or what its verdict stands for; None
        if it gave none.
    advice_calls, advice_tokens : int
        Calls of advisors, and tokens that these read and wrote, where known.
    searched_as : str
        The advisor's rewrite of the question, or the part of a message that asks, whose hits are
        those of this decision; "" if they are those of the question as it is.
    lacking : tuple of str
        Words of the question that no passage has; empty if that is not certain.
    language : str
        The code of the language of `reason`, one of `uec_rag.questions.languages.languages`.

    Raises
    ------
    InternalError
        If a probability is NaN.
    """

    action: Action
    reason: str
    readings: tuple[Reading, ...] = ()
    confidence: _Share = field(default=0.0, compare=False)
    in_corpus: _Share = field(default=1.0, compare=False)
    underspecified: _Share = field(default=0.0, compare=False)
    threshold: float = field(default=ANSWER_ABOVE, compare=False)
    clarify_from: float = field(default=CLARIFY_FROM, compare=False)
    unfamiliar: str = ""
    basis: str = field(default="", compare=False)
    hits: _Count = field(default=0, compare=False)
    size: _Count = field(default=0, compare=False)
    shown: _Count = field(default=0, compare=False)
    code: Code | Literal[""] = field(default="", compare=False)
    advice: str = ""
    advice_probability: _Share | None = field(default=None, compare=False)
    advice_calls: _Count = field(default=0, compare=False)
    advice_tokens: _Count = field(default=0, compare=False)
    searched_as: str = ""
    language: str = field(default=ENGLISH, compare=False)
    closest: tuple[Reading, ...] = field(default=(), compare=False)
    lacking: tuple[str, ...] = field(default=(), compare=False)
    caveat: str = field(default="", compare=False)

    @classmethod
    def empty(
        cls,
        basis: str = "",
        language: str = ENGLISH,
        code: Code = "nothing_found",
        caveat: str = "",
    ) -> Self:
        """Create the decision to abstain if nothing was found."""
        reason = sentence(code, language)
        if caveat:
            reason = sentence("note", language, reason=reason, note=caveat)
        told: dict[str, Any] = {"code": code, "language": language, "caveat": caveat}
        return cls("abstain", reason, basis=basis, in_corpus=0.0, **told)

    def __post_init__(self) -> None:
        # Comparisons with NaN are all false: a gate would abstain, while user code such as
        # "if confidence < 0.5: refuse" would answer.
        probabilities = (self.confidence, self.in_corpus, self.underspecified)
        if any(map(math.isnan, probabilities)):
            raise InternalError(
                f"a confidence is not a number (confidence, in_corpus, underspecified: "
                f"{probabilities}): a bug in uec_rag; please report how it arose."
            )

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
        written = not self.readings and is_clarifying_question(self.reason)
        return self.reason if written else clarifying_list(self.readings, self.language)

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
        fields = super().metadata() | {"suggestions": self.suggested()}
        return {name: fields.pop(own) for own, name in _NAMES.items()} | fields

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `findings`; ValueError if something is missing, unknown or invalid."""
        told = {name: value for name, value in metadata.items() if name != "suggestions"}
        search = told.pop("search", {})
        known = told | cast(dict[str, Any], search if isinstance(search, Mapping) else {})
        known = {own: known.pop(name) for own, name in _NAMES.items() if name in known} | known
        is_never = known.get("threshold", ANSWER_ABOVE) is None  # JSON has no infinity
        if is_never:
            del known["threshold"]
        made = super().restore(known)
        lines = {
            name: one_line(getattr(made, name)) for name in ("reason", "advice", "searched_as")
        }
        titled = (replace(one, title=one_line(one.title)) for one in made.readings)
        language = made.language if "language" in known else language_of(made.reason)
        fields: dict[str, Any] = lines | {"readings": tuple(titled)}
        fields["language"] = check_language(language) or ENGLISH
        if is_never:
            fields["threshold"] = math.inf
        return replace(made, **fields)

    def suggested(self) -> list[dict[str, Any]]:
        """Return title and ids of each of `suggestions`, as JSON values."""
        return [{"title": one.title, "ids": [*one.ids]} for one in self.suggestions]

    def advice_metadata(self) -> dict[str, Any]:
        """Return the fields of an advisor; empty if none was asked."""
        names = ("advice", "searched_as", *_COSTS)
        return {name: value for name in names if (value := getattr(self, name))}


def means_several(
    underspecified: float, in_corpus: float, clarify_from: float = CLARIFY_FROM
) -> bool:
    """Return whether a question may mean several things, so that no hit answers it alone.

    This is the case if P(underspecified) is at least `clarify_from`, and the question is at least
    half as likely to be underspecified as unanswerable: to ask in vain costs a user less than to be
    told that there is no answer.

    Parameters are those of `decide_one`.
    """
    worthwhile = _COST * (1 - in_corpus) < underspecified * in_corpus
    return underspecified >= clarify_from and worthwhile


def _names_closest(action: Action, code: str, readings: Sequence[Reading]) -> bool:
    return code == "uncertain" or (action == "clarify" and not readings)


def decide_one(
    confidence: float,
    underspecified: float = 0.0,
    readings: tuple[Reading, ...] = (),
    *,
    threshold: float = ANSWER_ABOVE,
    clarify_from: float = CLARIFY_FROM,
    in_corpus: float = 1.0,
    unfamiliar: str = "",
    language: str = ENGLISH,
    closest: tuple[Reading, ...] = (),
    lacking: tuple[str, ...] = (),
    searched_as: str = "",
    asks: bool = True,
    caveat: str = "",
) -> Decision:
    """Ask for clarification, else answer if confident, else abstain.

    A question that may mean several things (see `means_several`) is asked back about, but it is
    uncertain if just one of them can be named. So is one with a name that no passage has, at best.
    A message in which nothing asks gets no answer.

    Parameters
    ----------
    confidence, in_corpus, underspecified, unfamiliar, language, closest, lacking, searched_as,
    caveat
        As in `Decision`.
    asks : bool
        Whether the text asks anything.
    readings : tuple of Reading
        The possible meanings of the question; empty if unknown, as where an advisor names none.
    threshold : float
        The confidence above which to answer, such as that of a
        `uec_rag.confidence.risk.Guarantee`.
    clarify_from : float
        The lowest P(underspecified) at which to ask for clarification.

    Examples
    --------
    >>> two = (Reading("the printer", ("a",), 0.5), Reading("the scanner", ("b",), 0.4))
    >>> [decide_one(*args).action for args in ((0.9, 0.1), (0.9, 0.8, two), (0.3, 0.1))]
    ['answer', 'clarify', 'abstain']
    """
    action: Action = "abstain"
    code: Code = "uncertain"
    is_open = means_several(underspecified, in_corpus, clarify_from)
    if not asks:
        code = "no_question"
    elif caveat:
        pass  # uncertain
    elif is_open and len(readings) != 1:
        action, code = "clarify", "underspecified"
    elif confidence > threshold:
        # A name that no passage has, so that the nearest is another's, or one of several things.
        action, code = ("abstain", code) if lacking or is_open else ("answer", "answered")
    elif in_corpus < _OFF_TOPIC:
        code = "off_topic"
    elif in_corpus < PLAUSIBLE:
        code = "no_answer"
    asks_back = action == "clarify"
    reason = clarifying_question(readings, language) if asks_back else sentence(code, language)
    if code in ("uncertain", "no_answer"):
        reason = _why_not(code, language, lacking, is_open=is_open and not caveat)
    if closest and _names_closest(action, code, readings):
        titles = TRANSLATIONS[language]["comma"].join(reading.title for reading in closest)
        reason = sentence("closest", language, reason=reason, titles=titles)
    if searched_as and not asks_back:
        reason = _searched(reason, searched_as, language)
    details: dict[str, Any] = {"code": code, "language": language, "closest": closest}
    details |= {"lacking": lacking, "searched_as": searched_as, "caveat": caveat}
    details["clarify_from"] = clarify_from
    if caveat and asks:
        reason = sentence("note", language, reason=reason, note=caveat)
    numbers = (confidence, in_corpus, underspecified, threshold)
    decision = Decision(action, reason, readings, *numbers, **details)
    return with_note(decision, unfamiliar) if unfamiliar else decision


def _why_not(code: Code, language: str, lacking: Sequence[str], *, is_open: bool) -> str:
    """Return the reason for which nothing is answered: what is lacking, or what is left open."""
    if lacking:
        values = TRANSLATIONS[language]["comma"].join(_quoted(word, language) for word in lacking)
        return sentence("absent", language, values=values)
    return sentence("several" if is_open and code == "uncertain" else code, language)


def _searched(reason: str, question: str, language: str) -> str:
    return sentence("searched_as", language, reason=reason, question=_quoted(question, language))


def _quoted(text: str, language: str) -> str:
    return sentence("quoted", language, text=visible(text))


def with_note(decision: Decision, unfamiliar: str) -> Decision:
    """Add a note about an unusual query to a decision and its reason."""
    notes = "; ".join(filter(None, (decision.unfamiliar, unfamiliar)))
    reason = sentence("note", decision.language, reason=decision.reason, note=unfamiliar)
    return replace(decision, unfamiliar=notes, reason=reason)


def decide_again(decision: Decision, threshold: float) -> Decision:
    """Repeat a decision with another threshold; see `decide_one`."""
    if decision.code in ("nothing_found", "no_question"):
        return replace(decision, threshold=threshold)
    names = ["confidence", "underspecified", "readings", "in_corpus"]
    names += ["unfamiliar", "language", "closest", "lacking", "searched_as", "caveat"]
    names += ["clarify_from"]
    told = {name: getattr(decision, name) for name in names}
    again = decide_one(**told, threshold=threshold)
    of_search = {name: getattr(decision, name) for name in ("basis", "hits", "size", "shown")}
    return replace(again, **of_search)


def decide_on_left(
    decision: Decision, relevance: Sequence[float], titles: Collection[str]
) -> Decision:
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
    >>> found = replace(decide_one(0.9, in_corpus=0.95), shown=3, hits=4)
    >>> [decide_on_left(found, left, ()).action for left in ([0.02, 0.01], [0.8, 0.01])]
    ['abstain', 'answer']
    """
    if len(relevance) >= decision.shown:
        return decision
    best = sorted(relevance, reverse=True)[: decision.hits or None]
    sure = min(decision.confidence, sum(best))
    share = sure / max(decision.confidence, 1e-7)
    readings = tuple(one for one in decision.readings if one.title in titles)
    known = replace(
        decision,
        confidence=sure,
        # What was dropped was on the subject.
        in_corpus=max(sure, decision.in_corpus * share, min(decision.in_corpus, _OFF_TOPIC)),
        readings=readings if decision.action == "clarify" else decision.readings,
        shown=len(relevance),
    )
    return decide_again(known, decision.threshold)


@dataclass(frozen=True)
class Evidence:
    """The parts of the log odds that the documents answer one question.

    Attributes
    ----------
    features : tuple of 3 + W floats
        `uec_rag.confidence.model.Features.in_corpus`.
    added : tuple of 4 + W floats
        What the mean and each feature add, see `uec_rag.confidence.model.Calibrator.added`.
    against : float
        What the first hits add that lack what the question names.
    meant : float
        P(the first hits are those that the question means), by which the probability is multiplied.
    missing : tuple of str
        The words of the question that none of its first hits has.
    """

    features: tuple[float, ...]
    added: tuple[float, ...]
    against: float
    meant: float
    missing: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The parts in words, a line for each."""
        (coverage, names), (base, *added) = self.features[-2:], self.added
        lacked = " and ".join(self.missing) or "a name"
        verb = "are" if len(self.missing) > 1 else "is"
        named = f"names: {lacked} {verb} in no hit" if names == 0 else "names: none is missing"
        said = [
            "first hit: how far it stands out from the others",
            "nearness: of the first hit, by the model that finds it nearest",
            "agreement: nearness of the first hit by all models",
            f"words: one hit has {coverage:.0%} of the question's" if coverage >= 0 else "",
            named if names >= 0 else "",
        ]
        lines = [f"{text}: {value:+z.1f}" for text, value in zip(said, added, strict=True) if text]
        if against := round(self.against, 1):
            lines.append(f"against it: the first hit lacks what the question names: {against:+.1f}")
        if self.meant < 1:
            lines.append(f"against it: nothing tells which hit is meant: times {self.meant:.2f}")
        return (f"usual question: {base:+z.1f}", *lines)
