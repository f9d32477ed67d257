"""The example of an agent: langchain-mcp-adapters reaches the server over stdio."""

import re

from examples import mcp_agent


async def test_an_agent_of_langchain_does_what_the_decision_says(index):
    assert await mcp_agent.ask(str(index), "who may park in the yard") == (
        "Staff may park in the yard behind the mill. (from parking.md)"
    )
    said = await mcp_agent.ask(str(index), "Which capital has France?")
    near = r"Nothing found answers this with enough certainty\. Closest: .*\. The nearest is "
    assert re.fullmatch(rf"{near}[\w/]+\.md\.", said)
    said = await mcp_agent.ask(str(index), "the note on the archive")
    assert said.startswith("Do you mean Title of n")
