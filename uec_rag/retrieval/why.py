"""Why a question is decided as it is: what each feature adds to the log odds of an answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from uec_rag.confidence.model import Calibrator, Features
from uec_rag.retrieval.hits import SearchResult

LOG = logging.getLogger("uec_rag.decisions")
"""Gets a line of JSON for each question at the level INFO, which is off unless you set it."""
if LOG.level == logging.NOTSET:
    LOG.setLevel(logging.WARNING)  # else an application that logs at INFO would log questions


def explain(model: Calibrator, features: Features, missing: Sequence[str]) -> tuple[str, ...]:
    """Say what each feature adds to the log odds that the documents answer a question.

    Parameters
    ----------
    model : Calibrator
        The model of `in_corpus`.
    features : Features
        Those of the question.
    missing : sequence of str
        The words of the question that none of its first hits has.
    """
    base, *added = model.added(features.in_corpus[0]).tolist()
    coverage, names = features.in_corpus[0, -2:].tolist()
    lacked = " and ".join(missing) or "a name"
    verb = "are" if len(missing) > 1 else "is"
    named = f"names: {lacked} {verb} in no hit" if names == 0 else "names: none is missing"
    said = [
        "first hit: how far it stands out from the others",
        "nearness: of the first hit, by the model that finds it nearest",
        "agreement: nearness of the first hit by all models",
        f"words: one hit has {coverage:.0%} of the question's" if coverage >= 0 else "",
        named if names >= 0 else "",
    ]
    lines = [f"{text}: {value:+z.1f}" for text, value in zip(said, added, strict=True) if text]
    if against := round(model.slope * float(features.against[0]), 1):
        lines.append(f"against it: the first hit lacks what the question names: {against:+.1f}")
    if features.meant[0] < 1:
        lines.append(f"against it: nothing tells which hit is meant: times {features.meant[0]:.2f}")
    return (f"usual question: {base:+z.1f}", *lines)


def log_decisions(result: SearchResult, told: dict[str, Any]) -> None:
    """Log each question with its final decision and what led to it, as JSON, if that is asked.

    Those of a search that was not what it usually is are left out of the log.

    `told`: of the search's `span`, to which actions and codes are added in any case, and how many
    questions were borderline.
    """
    decisions = result.decisions
    told["decisions"] = [one.action for one in decisions]
    told["reasons"] = [one.code for one in decisions]
    told["borderline"] = sum(bool(one.advice) or one.code == "uncertain" for one in decisions)
    if not LOG.isEnabledFor(logging.INFO):
        return
    for one in [one for one in result if not one.decision.caveat]:
        line = {"question": one.query, "searched_as": one.decision.searched_as}
        line |= one.decision.metadata() | {"why": [*one.why]}
        LOG.info("%s", json.dumps(line, ensure_ascii=False))
