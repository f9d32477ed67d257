"""A middleware for agents of LangChain: a turn whose searches do not answer it ends unanswered."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage

from uec_rag.base.errors import missing_extra

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
    from langgraph.runtime import Runtime
except ModuleNotFoundError as error:
    raise ImportError(missing_extra("langchain", "agents")) from error

from uec_rag.langchain.gated import best, searches


class UECGateMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Ends an agent's turn with a refusal or a question if no search of the turn answers it.

    For ``create_agent(model, tools=[retriever.as_tool()], middleware=[UECGateMiddleware()])``. The
    model is not called again, so it cannot invent an answer. A turn begins with the last human
    message; a turn without a search is not checked, so instruct the model to search.
    """

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """End the turn if its searches do not answer it, before the model is called again."""
        # After a search for nothing, the model may try again.
        found = searches(state["messages"])
        outputs = [output for output in found if output["reason_code"] != "no_question"]
        if not outputs or (outcome := best(outputs))["decision"] == "answer":
            return None
        told = {f"uec_{key}": outcome[key] for key in ("decision", "reason", "reason_code")}
        text = outcome["clarifying_question"] or outcome["reason"]
        said = AIMessage(text, response_metadata=told)
        return {"messages": [said], "jump_to": "end"}
