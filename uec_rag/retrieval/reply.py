"""What to say in place of an answer, without a language model."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from uec_rag.confidence.decision import Action

_HEADLINE = 100  # characters of a passage in a clarifying question


def plain_reply(action: Action, reason: str, candidates: Sequence[str]) -> str:
    """Ask which of the competing passages is meant, or say why there is no answer.

    Parameters
    ----------
    action : {"clarify", "abstain"}
    reason : str
        Of the decision.
    candidates : sequence of str
        Texts of the passages that compete.

    Examples
    --------
    >>> print(plain_reply("abstain", "no passage stands out", []))
    I cannot answer this from the documents: no passage stands out.
    """
    if action == "abstain":
        return f"I cannot answer this from the documents: {reason}."
    lines = [
        f"{place}. {textwrap.shorten(text, _HEADLINE, placeholder=' ...')}"
        for place, text in enumerate(candidates, start=1)
    ]
    return "\n".join(["Several passages could answer this. Which one do you mean?", *lines])
