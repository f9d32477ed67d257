"""A chat engine of LlamaIndex's that understands follow-ups, asks back and abstains.

    python examples/llama_index_chat.py

A chat engine hands the last message alone to its retriever. `UECRetriever` reads the turns before
it from the engine's memory; no model rewrites the question. The model is a stand-in that quotes the
first passage, or says what the gate tells it to.
"""

import json
import re
from typing import Any

from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import LLM, CompletionResponse, MockLLM
from llama_index.core.memory import Memory

from uec_rag import UEC, Retriever
from uec_rag.llama_index import UECGatePostprocessor, UECRetriever

PASSAGES = {
    "Holidays": "Full-time staff have 30 days of holiday a year, part-time staff 18 days.",
    "Parking": "A place in the car park costs 40 euros a month, for part-time staff 20 euros.",
    "Door opener": "The door opener is repaired by the caretaker within three working days.",
    "Heating": "The heating is repaired within one day in winter. Report it by telephone.",
    "Loan of laptops": "The loan of a laptop lasts two weeks.",
    "Loan of cameras": "The loan of a camera lasts three days.",
    "Loan of projectors": "The loan of a projector lasts one day.",
}


class Quoting(MockLLM):
    """Says what it is told to reply, else the first passage; put your model here."""

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Return the reply to a prompt, which has the passages between dashes."""
        context = prompt.split("--------------------")[1].strip()
        order = re.search(r'Reply with this alone: (".*")', context)
        if order:
            return CompletionResponse(text=json.loads(order[1]))
        return CompletionResponse(text=context.split("\n\n")[1])  # below its metadata


def build_index(uec: UEC | None = None) -> Retriever:
    """Index the passages, under the default `UEC()` unless another is passed."""
    index = Retriever(uec or UEC())
    index.add([*PASSAGES.values()], metadatas=[{"title": title} for title in PASSAGES])
    return index


def build_chat(index: Retriever, llm: LLM | None = None) -> ContextChatEngine:
    """Return a chat engine, one for each conversation, over an index that they share."""
    memory = Memory.from_defaults()
    return ContextChatEngine.from_defaults(
        UECRetriever(index, memory=memory),
        memory=memory,
        node_postprocessors=[UECGatePostprocessor()],
        llm=llm or Quoting(),
    )


CONVERSATIONS = [
    ["What does a place in the car park cost?", "And if I am part-time?"],
    ["Who repairs the door opener?", "And how long does it take?"],
    ["How long does the loan last?", "the camera"],
    ["Who wrote Hamlet?"],
]


def main() -> None:
    index = build_index()
    for turns in CONVERSATIONS:
        chat = build_chat(index)
        for turn in turns:
            print(f"> {turn}\n{chat.chat(turn)}")
        print()


if __name__ == "__main__":
    main()
