"""The policy of a gate: what it was made with, when it asks, and what it decides from numbers."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Literal, Self

import numpy as np

from uec_rag.base.checks import check_k, check_pickles, check_share, check_type
from uec_rag.base.errors import IndexCorrupted, warn
from uec_rag.base.files import as_path, read_json, replace_file
from uec_rag.base.logistic import EVEN, NEARLY
from uec_rag.base.records import Record
from uec_rag.confidence.decision import CLARIFY_FROM, Criteria, Decision, decide
from uec_rag.confidence.model import ANSWER_ABOVE, JUDGED, SURE, UNLIKELY
from uec_rag.confidence.risk import Guarantee, expected_threshold
from uec_rag.encoders.base import NotCopied, are_of_one_model
from uec_rag.gates.advisor import SHOWN, Advisor
from uec_rag.gates.decision_models import decision_model

OTHER_SETTINGS = (
    "The gate was made with another calibration or filter, or another version: its guarantee does "
    "not apply to this search. Make it again from its labels."
)
"""The note on a gate for a search with other settings."""

_OTHER_CORPUS = (
    "the gate was made for other passages, another calibration or other settings than the index "
    "has now, so its guarantee does not hold; recalibrate it with 'uec-rag gate'"
)
_OTHER_TEXTS = (
    "{} of the {} compared passages that the gate was made with are gone or have other texts, so "
    "its guarantee does not hold; make the gate again from its labels"
)
_OTHER_MODEL = (
    "the gate was made with another embedding model than the index has now, or the store has "
    "vectors of another one, so its guarantee does not hold; make the gate again from its labels"
)


@dataclass(frozen=True)
class Stamp(Record):
    """The settings, passages and models that confidence depends on; an empty field is unknown.

    Attributes
    ----------
    basis : str
        Fingerprint of the settings (`uec_rag.retrieval.rankings.method_of`).
    corpus : str
        Fingerprint of the passages.
    probes : tuple of tuple of float
        The vectors of a few texts by each model of the index, and by that of the store below it.
    passages : tuple of (str, str)
        The ids of up to 32 passages, and hashes of their texts; none if a store cannot look up ids.
    """

    basis: str = ""
    corpus: str = ""
    probes: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    passages: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def differs(self, now: Stamp) -> str:
        """Return why what was made with this stamp does not hold for an index; "" if it may.

        `now`: the stamp of the index, with those of the `passages` that it has. A tenth of them may
        be gone or changed, as in any corpus.
        """
        alike = len(self.probes) == len(now.probes) and all(
            map(are_of_one_model, self.probes, now.probes)
        )
        if self.probes and not alike:
            return _OTHER_MODEL
        if self.corpus not in ("", now.corpus):
            return _OTHER_CORPUS
        lost = len({*self.passages} - {*now.passages})
        if lost > len(self.passages) / 10:
            return _OTHER_TEXTS.format(lost, len(self.passages))
        return "" if self.basis in ("", now.basis) else OTHER_SETTINGS


DOUBT = (UNLIKELY, SURE)
"""The confidences between which an advisor is asked, without labels."""

UNDERSPECIFIED = (EVEN, NEARLY)
"""P(underspecified) above which an advisor is asked, too; above the second, the user is asked."""

_CHECKSUM = "sha256"  # key of the checksum in a saved gate


class _Usual(float):
    """The threshold if none is given, by which one of the same value is told from it."""


@dataclass(frozen=True)
class Policy(NotCopied, Record):
    """The attributes of a `uec_rag.Gate`, and what follows from these; see there."""

    threshold: float = _Usual(ANSWER_ABOVE)
    guarantee: Guarantee | None = None
    advisor: Advisor | None = field(default=None, repr=False, compare=False)
    doubt: tuple[float, float] = DOUBT
    rewritten: float = DOUBT[1]
    rewriter: Advisor | None = field(default=None, repr=False, compare=False)
    ask: Literal["borderline", "always", "shadow"] = "borderline"
    timeout: float = 30.0
    k: int = JUDGED
    is_advised: bool = False
    stamp: Stamp = field(default_factory=Stamp)
    confidences: tuple[float, ...] = field(default=(), repr=False)
    max_wrong: float | None = None
    clarify_from: float = CLARIFY_FROM
    tenant_required: bool = False

    def __post_init__(self) -> None:
        if self.max_wrong is not None:
            object.__setattr__(self, "threshold", self._expected_threshold(self.max_wrong))
        elif isinstance(self.threshold, _Usual):
            object.__setattr__(self, "threshold", float(self.threshold))
        check_type(self.guarantee, Guarantee | None, "guarantee", "a Guarantee or None")
        low, high = self.doubt
        numbers = {"threshold": self.threshold, "rewritten": self.rewritten}
        numbers["clarify_from"] = self.clarify_from
        for name, value in (numbers | {"doubt[0]": low, "doubt[1]": high}).items():
            if value != np.nextafter(0, -1):  # a threshold at which everything is answered
                check_share(value, name, "a number from 0 to 1")
        if low > high:
            raise ValueError(f"doubt: expected the lower confidence first, got {self.doubt}.")
        if self.ask not in ("borderline", "always", "shadow"):
            expected = "'borderline', 'always' or 'shadow'"
            raise ValueError(f"ask: expected {expected}, got {self.ask!r:.60}.")
        check_k(self.k)
        check_advisor(self.advisor)
        check_advisor(self.rewriter, "rewriter")
        if self.guarantee is None:
            return
        if self.clarify_from > CLARIFY_FROM:
            raise ValueError(
                f"clarify_from: a gate with a guarantee was made where a clarifying question is "
                f"asked from {CLARIFY_FROM}; expected at most that, got {self.clarify_from}."
            )
        if self.ask == "always":
            raise ValueError(
                "ask: expected 'borderline' for a gate with a guarantee, which labels gave it with "
                "the advisor asked in doubt alone; or omit guarantee=."
            )
        if self.advisor is not None and not self.is_advised:
            raise ValueError(
                "advisor: this gate was calibrated without one, so its guarantee would not hold "
                "with one; pass it to Gate.from_labels(..., advisor=...), or use a plain threshold."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Pickle it with its advisor; TypeError if that does not pickle."""
        instead = (
            "Define it at the top of a module; or save the gate, and load it where it is needed: "
            "Gate.load(path, advisor=...)."
        )
        check_pickles(self.advisor, "advisor: it", instead)
        check_pickles(self.rewriter, "rewriter: it", instead)
        return self.__dict__

    def _expected_threshold(self, max_wrong: float) -> float:
        """Check `max_wrong` and what is given beside it, and return its threshold."""
        share = check_share(max_wrong, "max_wrong", "a number in (0, 1)")
        threshold = expected_threshold(share)
        fields = (self.guarantee, self.advisor, self.k)
        is_given = not isinstance(self.threshold, _Usual) and self.threshold != threshold
        if is_given or fields != (None, None, JUDGED):
            raise ValueError(
                f"max_wrong: without labels, {max_wrong} stands for a threshold of "
                f"{threshold:.3f}, without an advisor and with k={JUDGED}: omit threshold=, "
                f"advisor= and k=, or use Gate.from_labels(..., max_wrong={max_wrong})."
            )
        return threshold

    def check_settings(self, decisions: Sequence[Decision]) -> None:
        """Warn if a search used another calibration or filter than the gate was made with."""
        basis = self.stamp.basis
        if any(basis and decision.basis not in ("", basis) for decision in decisions):
            warn(OTHER_SETTINGS)

    def decide_again(self, decision: Decision, hits: int | None = None) -> Decision:
        """Repeat the decision of a search at this gate's threshold, without the advisor.

        Warns as `decide` does, and if the decision is about another number of hits than `k`.

        `hits`: number of hits that are left of the search. With a guarantee, a question is not
        answered from fewer than `k`, unless fewer passages were searched; this warns.
        """
        threshold = self.threshold
        if hits is not None and hits < min(decision.size, self.hits_needed(0)):
            threshold = math.inf
            warn(
                f"The gate was made for {self.k} hits, and fewer of them are left, here {hits}. "
                "Its guarantee does not hold for these, so it abstains. Search for "
                f"{self.k} hits and keep them all, or use a gate without a guarantee."
            )
        if decision.hits not in (0, self.k):
            warn(
                f"The decision is about the first {decision.hits} hits, and the gate was made for "
                f"{self.k}, so its guarantee does not apply. Make a gate with k={decision.hits}."
            )
        self.check_settings([decision])
        return decide(decision, Criteria(threshold, self.clarify_from))

    def is_doubted(self, decision: Decision) -> bool:
        """Return whether the advisor is asked about a question."""
        low, high = self.doubt[0], max(self.doubt[1], self.threshold)
        unclear, vague = UNDERSPECIFIED
        if decision.action == "clarify" and decision.underspecified > vague:
            return False
        if decision.code == "no_question":  # to which no passage is an answer
            return False
        if math.isinf(decision.threshold) or decision.caveat:  # too few hits are left
            return False
        unsure = decision.confidence <= high or decision.underspecified > unclear
        unsure |= self.ask == "always" and decision.action == "answer"
        return low < decision.confidence and unsure

    def depth(self, k: int) -> int:
        """Return how many hits are searched for, for those that are judged and read as well."""
        return max(k, self.k, SHOWN if self.advisor is not None else 0)

    def hits_needed(self, k: int) -> int:
        """Return how many hits a search for k returns: with a guarantee, at least the gate's k."""
        return k if self.guarantee is None else max(k, self.k)

    def metadata(self) -> dict[str, Any]:
        """Return the state as a JSON object, without the advisors."""
        state = Record.metadata(replace(self, advisor=None, rewriter=None))
        here = ("advisor", "rewriter")
        return {name: value for name, value in state.items() if name not in here}

    @classmethod
    def restore(cls, metadata: Mapping[str, Any]) -> Self:
        """Rebuild from `metadata`; a guarantee's threshold may be infinite, which JSON lacks."""
        if not isinstance(guarantee := metadata.get("guarantee"), Mapping):
            return super().restore(metadata)
        gate = super().restore({**metadata, "guarantee": None})
        return replace(gate, guarantee=Guarantee.restore(guarantee))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the gate to a JSON file atomically, with a checksum; the advisor is not saved."""
        state = self.metadata()
        text = json.dumps(state | {_CHECKSUM: _checksum(state)}, ensure_ascii=False, indent=1)
        replace_file(as_path(path), text)

    @classmethod
    def load(cls, path: str | PathLike[str], advisor: Advisor | None = None) -> Self:
        """Load a gate that `save` wrote, with the advisor that it was calibrated with.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        IndexCorrupted
            If the file is not a JSON object, or its checksum is wrong.
        ValueError
            If the object is not a gate, or a number is out of range.
        """
        file = as_path(path)
        if not file.exists():
            raise FileNotFoundError(f"path: there is no gate in {os.fspath(path)!r}.")
        mend = "recalibrate it with 'uec-rag gate' or Gate.from_labels, or delete it."
        try:
            state = read_json(file)
        except IndexCorrupted as error:
            raise IndexCorrupted(
                f"gate: {file.name} is damaged ({error.__cause__ or error}); {mend}"
            ) from error
        digest = state.pop(_CHECKSUM, None)
        if digest not in (None, _checksum(state)):
            raise IndexCorrupted(f"gate: it is damaged, edited, or of a newer uec-rag; {mend}")
        return replace(cls.restore(state), advisor=advisor)


def check_advisor(advisor: object, argument: str = "advisor") -> None:
    """Raise TypeError unless it is an advisor or None."""
    if advisor is not None and not callable(advisor) and decision_model(advisor) is None:
        raise TypeError(
            f"{argument}: expected a callable(question, texts) -> Advice, or a decision model, "
            f"got {type(advisor).__name__}. For a chat model, use chat_advisor of "
            "uec_rag.langchain or llm_advisor of uec_rag.llama_index."
        )


def _checksum(state: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
