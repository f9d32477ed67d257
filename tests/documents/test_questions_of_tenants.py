"""A model that writes questions reads texts of one tenant at a time, also where it obeys them."""

import json
import re

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import TextNode

from uec_rag.documents.question_writer import estimate_calls, write_questions
from uec_rag.stores import Passage

FIRMS = ("Kiln", "Loom", "Mast")
SHARED = "Keys are kept at the desk."
OWN = [f"The {name} firm pays {number} euros." for number, name in enumerate(FIRMS)]
OF = {name: {"of": {"firm": name}} for name in FIRMS}
ROWS = [(text, name) for text, name in zip(OWN, FIRMS, strict=True)]
ROWS += [(SHARED, name) for name in FIRMS] + [(f"{text} Twice.", name) for text, name in ROWS]
KINDS = {
    "passages": lambda text, of: Passage("a", text, of),
    "documents": lambda text, of: Document(text, metadata=of),
    "nodes": lambda text, of: TextNode(text=text, metadata=of),
}


class Obedient:
    """A model that writes all that it reads into each passage's question."""

    def __init__(self):
        self.prompts = []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        names = [name for name in FIRMS if f"The {name} firm" in prompt]
        count = len(re.findall(r"(?m)^\[\d+\]", prompt))
        rows = (
            {"passage": at, "questions": [f"Of {' and '.join(names)}?"], "names": []}
            for at in range(1, count + 1)
        )
        return "\n".join(map(json.dumps, rows))


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_call_has_texts_of_one_tenant(make, tmp_path):
    passages = [make(text, OF[name]) for text, name in ROWS]
    model, keep = Obedient(), tmp_path / "kept.jsonl"
    written = write_questions(passages, model, count=1, keep=keep, name="m", tenant="of.firm")
    assert [*written] == [[f"Of {name}?"] for _, name in ROWS]
    assert len(model.prompts) == 3
    again = Obedient()
    assert [*write_questions(passages, again, count=1, keep=keep, name="m", tenant="of.firm")] == [
        *written
    ]
    assert again.prompts == []
    other = [make(SHARED, {"of": {"firm": "Mill"}})]
    assert estimate_calls(other, count=1, keep=keep, name="m", tenant="of.firm")[0] == 1
    assert len(write_questions(passages, again, count=1, keep=keep, name="m", tenant="")) == len(
        ROWS
    )
    assert len(again.prompts) == 1


@pytest.mark.parametrize("metadata", [{}, {"firm": None}, {"firm": {}}, {"firms": "Kiln"}])
def test_a_passage_of_nobody_is_refused(metadata):
    passages = [Passage("a", OWN[0], {"firm": "Kiln"}), Passage("b", OWN[1], metadata)]
    model = Obedient()
    with pytest.raises(ValueError, match="tenant: expected 'firm' in the metadata"):
        write_questions(passages, model, tenant="firm")
    assert model.prompts == []


def test_types_and_characters_tell_tenants_apart():
    values = [7, "7", True, "\u212a", "K", 2**60, str(2**60), ["K"]]
    passages = [Passage("a", f"Text {at}.", {"t": value}) for at, value in enumerate(values)]
    model = Obedient()
    write_questions(passages, model, count=1, tenant="t")
    assert len(model.prompts) == len(values)
