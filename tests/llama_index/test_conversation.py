"""Questions in their conversation, in LlamaIndex's messages, bundles and engines."""

import pytest
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.llms import ChatMessage, ImageBlock, MockLLM, TextBlock
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.schema import QueryBundle

from examples.chat import PASSAGES
from tests.helpers import index_of
from uec_rag import UEC
from uec_rag.confidence.readings import Reading, ask_back
from uec_rag.llama_index import UECGatePostprocessor, UECQueryBundle, UECQueryEngine, UECRetriever
from uec_rag.llama_index.agent import retriever_tool
from uec_rag.llama_index.conversation import turns

ASKED, FOLLOW_UP, VAGUE = (
    "Who repairs the door opener?",
    "And how long does it take?",
    "What is the force option?",
)
HISTORY = [
    ChatMessage("Be brief.", role="system"),
    ChatMessage(ASKED),
    ChatMessage("The caretaker.", role="assistant"),
]
SENTENCE = ask_back([Reading(label, (label,), 0.5) for label in ("git add", "rsync")])


@pytest.fixture(scope="module")
def index():
    return index_of(
        UEC(), [*PASSAGES.values()], [*PASSAGES], [{"title": title} for title in PASSAGES]
    )


@pytest.fixture(scope="module")
def engine(index):
    return UECQueryEngine.from_args(UECRetriever(index), MockLLM(max_tokens=3))


def test_turns_are_the_users_and_the_last_answer_if_it_asked_back():
    picture = ChatMessage(blocks=[TextBlock(text="this?"), ImageBlock(image=b"AAAA")])
    assert turns([*HISTORY, "two", picture]) == [ASKED, "two", "this?"]
    assert turns([ChatMessage("one"), ChatMessage(SENTENCE, role="chatbot")]) == ["one", SENTENCE]
    assert turns(None) == []


@pytest.mark.parametrize("wrong", ["hello", 3, ChatMessage("hello"), [3]])
def test_what_is_no_history_is_refused(index, wrong):
    with pytest.raises(TypeError, match="history: expected a list of ChatMessages or strings"):
        UECRetriever(index).retrieve(UECQueryBundle(FOLLOW_UP, history=wrong))


async def test_a_follow_up_is_answered_in_its_conversation(engine):
    assert engine.query(FOLLOW_UP).metadata["uec_decision"] == "abstain"
    asked = UECQueryBundle(FOLLOW_UP, history=HISTORY)
    for response in (engine.query(asked), await engine.aquery(asked)):
        assert response.metadata["uec_decision"] == "answer"
        assert response.source_nodes[0].node_id == "door opener"


def test_the_response_is_the_question_back_and_the_chosen_reading_is_searched(engine):
    response = engine.query(VAGUE)
    assert str(response) == response.metadata["uec_question_back"]
    assert str(response) == "Do you mean git add, rsync or git push?"
    for reading in response.metadata["uec_readings"]:
        again = engine.query(UECQueryBundle(VAGUE, within=reading))
        assert again.metadata["uec_decision"] == "answer"
        assert [node.node_id for node in again.source_nodes] == reading["ids"]


def test_a_reply_that_is_the_label_of_a_reading_chooses_it(engine):
    asked = engine.query(VAGUE)
    said = [ChatMessage(VAGUE), ChatMessage(str(asked), role="assistant")]
    replies = [(None, said, "Git push."), (None, said, "The last one."), ("git push", None, VAGUE)]
    for within, history, text in replies:
        response = engine.query(UECQueryBundle(text, history=history, within=within))
        assert [node.node_id for node in response.source_nodes] == ["git push"]
        assert response.metadata["uec_decision"] == "answer"


def test_what_a_query_transform_wrote_is_searched_without_the_memory_and_says_so(index):
    memory = Memory.from_defaults()
    memory.put_messages(HISTORY)
    bundle = QueryBundle(FOLLOW_UP, custom_embedding_strs=["It takes long.", FOLLOW_UP])
    alone = UECRetriever(index).retrieve(bundle)
    with pytest.warns(UserWarning, match="query transform are searched without the turns"):
        found = UECRetriever(index, memory=memory).retrieve(bundle)
    assert [node.node_id for node in found] == [node.node_id for node in alone]


def test_a_tool_lists_the_readings_and_no_passage(index):
    found = retriever_tool(UECRetriever(index)).call(query=VAGUE).raw_output
    assert found.question_back == "Do you mean git add, rsync or git push?"
    assert [reading["label"] for reading in found.readings] == ["git add", "rsync", "git push"]
    assert '- "git push"' in found.text
    assert "stages changes" not in found.text


class Counting(MockLLM):
    """Counts the prompts that are not a chat's answer."""

    rewritten: int = 0

    def complete(self, *args, **kwargs):
        self.rewritten += 1
        return super().complete(*args, **kwargs)


@pytest.mark.parametrize("kind", [Memory, ChatMemoryBuffer])
async def test_a_chat_engine_rewrites_nothing_and_shares_its_memory(index, kind):
    memory, llm = kind.from_defaults(), Counting(max_tokens=3)
    chat = CondensePlusContextChatEngine.from_defaults(
        UECRetriever(index, memory=memory),
        llm=llm,
        memory=memory,
        skip_condense=True,
        node_postprocessors=[UECGatePostprocessor()],
    )
    chat.chat(ASKED)
    for response in (chat.chat(FOLLOW_UP), await chat.achat(FOLLOW_UP)):
        assert response.source_nodes[0].node_id == "door opener"
    chat.reset()
    assert chat.chat(FOLLOW_UP).source_nodes[0].metadata["uec_decision"] == "abstain"
