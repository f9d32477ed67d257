"""A log of what advisors were asked and what that changed: a line of JSON for each question."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from uec_rag.base.checks import visible_json
from uec_rag.base.records import Record
from uec_rag.confidence.decision import Action, Decision
from uec_rag.gates.opinion import Opinion


@dataclass(frozen=True)
class LoggedAdvice(Record):
    """A line of the log.

    Attributes
    ----------
    time : float
        Seconds since 1970.
    question : str
        The hash of the question with its turns (`question_hash`).
    before, after : str
        The action before and after the advice.
    confidence_before, confidence : float
    advice : str
        As `Decision.advice`.
    probability : float or None
        As `Decision.advice_probability`.
    calls, tokens : int
    seconds : float
    is_shadow : bool
        Whether the advice was only logged.
    text : str
        The question, if the log has texts.
    """

    time: float
    question: str
    before: Action
    after: Action
    confidence_before: float
    confidence: float
    advice: str
    probability: float | None
    calls: int
    tokens: int
    seconds: float
    is_shadow: bool = False
    text: str = ""


@dataclass(frozen=True)
class AdviceLog:
    """A file that a gate appends to.

    Parameters
    ----------
    path : str
    with_text : bool
        Whether questions are logged, too; by default, only their hashes are.
    """

    path: str
    with_text: bool = False

    def write(
        self,
        questions: Sequence[str],
        before: Sequence[Decision],
        after: Sequence[Decision],
        opinions: Sequence[Opinion],
        *,
        is_shadow: bool,
    ) -> None:
        """Append a line for each question."""
        lines = []
        for question, prior, final, opinion in zip(questions, before, after, opinions, strict=True):
            change = prior.action, final.action, prior.confidence, final.confidence
            advice = final.advice, final.advice_probability, final.advice_calls, final.advice_tokens
            how = round(opinion.seconds, 3), is_shadow, question if self.with_text else ""
            row = LoggedAdvice(time.time(), question_hash(question), *change, *advice, *how)
            lines.append(visible_json(json.dumps(row.metadata(), ensure_ascii=False)) + "\n")
        # One call, so that the lines of several processes do not mix.
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write("".join(lines).encode())


def question_hash(question: str) -> str:
    """Return the hash that stands for a question in the log."""
    return hashlib.sha256(question.encode()).hexdigest()[:16]


def read_log(path: str | PathLike[str]) -> Iterator[LoggedAdvice]:
    """Read a log; ValueError if a line is none of it."""
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        yield LoggedAdvice.restore(json.loads(line))
