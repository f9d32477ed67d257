"""A question in its conversation, over HTTP and for agents: as the index answers it."""

import asyncio
import re

import pytest
from mcp.server.fastmcp.exceptions import ToolError

from examples.chat import PASSAGES
from tests.helpers import data_of
from tests.server.conftest import serving
from uec_rag.index import Retriever
from uec_rag.questions.answers import Turn
from uec_rag.server import create_mcp

FOLLOW_UP = {"question": "And how long does it take?", "k": 3}
BEFORE = ["Who repairs the door opener?"]
SAID = {"system": "Talk of heating alone.", "user": BEFORE[0], "assistant": "The caretaker."}
MESSAGES = [{"role": role, "content": content} for role, content in SAID.items()]
VAGUE = {"question": "What is the force option?"}


@pytest.fixture(scope="module")
def folder(chat_index, tmp_path_factory):
    """A saved index; not to be written to."""
    folder = tmp_path_factory.mktemp("saved") / "idx"
    chat_index.save(folder)
    return folder


@pytest.fixture(scope="module")
def client(folder):
    with serving(folder) as client:
        yield client


@pytest.fixture(scope="module")
def call(folder):
    """Call a tool of the server for agents."""
    server = create_mcp(Retriever.load(folder))
    return lambda tool, **arguments: asyncio.run(server.call_tool(tool, arguments))


IN_PARTS = [{"role": r, "parts": [{"type": "text", "text": text}]} for r, text in SAID.items()]
AS_TEXT = [{"role": role, "content": "", "text": text} for role, text in SAID.items()]


@pytest.mark.parametrize("history", [BEFORE, MESSAGES, IN_PARTS, AS_TEXT])
def test_a_follow_up_is_searched_with_the_turns_of_the_user(client, call, chat_index, history):
    turns = BEFORE if history is BEFORE else [*BEFORE, Turn("assistant", "The caretaker.")]
    [expected] = chat_index.search([FOLLOW_UP["question"]], 3, history=[turns])
    asked = client.post("/ask", json={**FOLLOW_UP, "history": history}).json()
    said = call("search", **FOLLOW_UP, history=history).structuredContent
    for told in (asked, said):
        assert [each["id"] for each in told["passages"]] == expected.ids
        assert told["decision"] == expected.decision.action == "answer"
        assert told["confidence"] == pytest.approx(expected.decision.confidence, abs=1e-5)


def test_the_reply_to_a_question_back_is_a_label_ids_or_text(client, call):
    asked = client.post("/ask", json=VAGUE).json()
    assert asked["clarifying_question"] == "Do you mean git add, git push or rsync?"
    [ids] = [one["ids"] for one in asked["readings"] if one["title"] == "git push"]
    for within in ("Git Push", "2", ids):
        found = client.post("/ask", json={**VAGUE, "within": within}).json()
        told = call("search", **VAGUE, within=within).structuredContent
        for one in (found, told):
            assert [each["id"] for each in one["passages"]] == ["git push"]
            assert one["decision"] == "answer"
        assert [each["text"] for each in found["passages"]] == [PASSAGES["git push"]]
    turns = [
        {"role": "user", "content": VAGUE["question"]},
        {"role": "assistant", "content": asked["clarifying_question"]},
    ]
    body = {"question": "The one that pushes", "history": turns}
    assert client.post("/ask", json=body).json()["passages"][0]["id"] == "git push"


@pytest.mark.parametrize(("wrong", "message"), data_of("wrong_turns.json"))
def test_what_is_no_history_or_reading_is_named(client, call, wrong, message):
    found = client.post("/ask", json=VAGUE | wrong)
    assert found.status_code == 422
    assert message in found.json()["detail"]
    with pytest.raises(ToolError, match=re.escape(message)):
        call("search", **VAGUE, **wrong)


def test_a_long_history_is_cut_and_a_huge_one_refused(client):
    long = ["x" * 100_000, *BEFORE]
    found = client.post("/ask", json={**FOLLOW_UP, "history": long})
    assert found.json()["passages"][0]["id"] == "door opener"
    assert client.post("/ask", json={**FOLLOW_UP, "history": ["x" * 2**20]}).status_code == 413


def test_servers_of_two_indexes_have_their_names_and_descriptions(folder):
    retriever = Retriever.load(folder)
    [plain, named] = create_mcp(retriever), create_mcp(retriever, name="git", description="Of git.")
    assert (plain.name, named.name) == ("uec-rag", "git")
    for one, other in zip(
        asyncio.run(plain.list_tools()), asyncio.run(named.list_tools()), strict=True
    ):
        assert other.description == f"Of git. {one.description}"
    assert named.instructions == f"Of git. {plain.instructions}"
