"""A gate inside an agent, which refuses or asks back if the agent's searches say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from uec_rag.base.checks import check_k
from uec_rag.langchain.gated import Gated
from uec_rag.langchain.graph import best, searches

Reply: TypeAlias = Callable[[Gated], str]
"""From what was found to what to say instead of an answer."""


def reply_in_words(found: Gated) -> str:
    """Ask which reading is meant, or say why there is no answer; without a model."""
    return found["question_back"] or found["reason"]


class UECGateMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Ends an agent's turn with a refusal or a question if no search of the turn answers it.

    For ``create_agent(model, tools=[retriever.as_tool()], middleware=[UECGateMiddleware()])``. The
    model is not called again, so it cannot invent an answer. A turn begins with the last human
    message; a turn without a search is not checked, so instruct the model to search.

    Parameters
    ----------
    attempts : int
        Searches that a model may make in a turn before it is stopped: with two, it may rephrase
        once.
    reply : callable, optional
        What to say instead of an answer.

    Raises
    ------
    TypeError, ValueError
        If attempts is not an integer of at least 1.
    """

    def __init__(self, attempts: int = 1, reply: Reply = reply_in_words) -> None:
        super().__init__()
        check_k(attempts, "attempts")
        self.attempts = attempts
        self.reply = reply

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """End the turn if its searches do not answer it, before the model is asked again."""
        found = searches(state["messages"])
        if len(found) < self.attempts:
            return None
        outcome = best(found)
        if outcome["decision"] == "answer":
            return None
        told = {"uec_decision": outcome["decision"], "uec_reason": outcome["reason"]}
        said = AIMessage(self.reply(outcome), response_metadata=told)
        return {"messages": [said], "jump_to": "end"}

    @hook_config(can_jump_to=["end"])
    async def abefore_model(
        self, state: AgentState[Any], runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Do what `before_model` does, which waits for nothing."""
        return self.before_model(state, runtime)
