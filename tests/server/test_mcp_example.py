"""The example of an agent: langchain-mcp-adapters reaches the server over stdio."""

import pytest

from examples import mcp_agent
from tests.helpers import index_of
from uec_rag import UEC


@pytest.mark.slow
async def test_an_agent_of_langchain_does_what_the_decision_says(index):
    assert await mcp_agent.ask(str(index), "who may park in the yard") == (
        "Staff may park in the yard behind the mill. (from parking.md)"
    )
    said = await mcp_agent.ask(str(index), "Which capital has France?")
    assert said == 'No passage mentions "France".'
    said = await mcp_agent.ask(str(index), "the note on the archive")
    assert said.startswith("Do you mean Title of n")


@pytest.mark.slow
async def test_it_names_the_nearest_passage_if_that_may_answer(tmp_path):
    texts = [
        f"The loan of a {thing} lasts two weeks." for thing in ("laptop", "camera", "projector")
    ]
    sources = [{"source": "loans.md"}] * 3
    index_of(UEC(), texts, metadatas=sources).save(tmp_path / "idx")
    said = await mcp_agent.ask(str(tmp_path / "idx"), "Can I borrow a beamer?")
    near = 'No passage mentions "borrow", "beamer". Closest: '
    assert said.startswith(near)
    assert said.endswith(" The nearest is loans.md.")
