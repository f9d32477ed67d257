"""A question in its conversation, in LlamaIndex's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llama_index.core.llms import ChatMessage
from llama_index.core.schema import QueryBundle

from uec_rag.confidence.readings import Within
from uec_rag.ensemble.views import turns_of


@dataclass
class UECQueryBundle(QueryBundle):
    """A query with the turns before it, for every engine and retriever over a `UECRetriever`.

    Attributes
    ----------
    history : sequence of ChatMessage or str, optional
        The turns before the question, oldest first; `uec_rag.ensemble.views.turns_of` says which
        count, and `Turn.before` how many.
    within : Reading, mapping or sequence of str, optional
        The reading that the user chose, as in `Retriever.search`.
    **kwargs
        What every `QueryBundle` takes.

    Examples
    --------
    >>> asked = UECQueryBundle("And how long?", history=["Who repairs the door?"])
    >>> asked.query_str, turns(asked.history)
    ('And how long?', ['Who repairs the door?'])
    """

    history: Sequence[ChatMessage | str] | None = None
    within: Within | None = None


def turns(history: object) -> list[str]:
    """The turns that a question is searched with: see `uec_rag.ensemble.views.turns_of`.

    Of a message its text counts. A string stays whatever it says.

    `history`: messages or strings; or None. Raises TypeError if it is something else.
    """
    expected = "history: expected a list of ChatMessages or strings, oldest first"
    if history is None:
        return []
    if isinstance(history, str | Mapping | ChatMessage) or not isinstance(history, Sequence):
        raise TypeError(f"{expected}, got {history!r:.60}.")
    said = []
    for one in history:
        if isinstance(one, ChatMessage):
            said.append((_SPEAKERS.get(one.role.value, one.role.value), one.content or ""))
        elif isinstance(one, str):
            said.append(("user", one))
        else:
            raise TypeError(f"{expected}, got {one!r:.60} among them.")
    return turns_of(said)


_SPEAKERS = {"chatbot": "assistant", "model": "assistant"}
