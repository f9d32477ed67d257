"""Two small ensembles, one fitted, and nodes that belong to documents."""

from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.llms import CompletionResponse, MockLLM
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from tests.helpers import WORDS, Remembering, bag_of_words, passages
from uec_rag import UEC
from uec_rag.gates import Gate
from uec_rag.llama_index import UECEmbedding, UECRetriever, UECVectorStore
from uec_rag.questions.languages import SENTENCES
from uec_rag.questions.replies import Reading, clarifying_question

WEIGHTS = (0.3, 0.7)


def build(uec, nodes, **options):
    """LlamaIndex's own index over our store."""
    storage = StorageContext.from_defaults(vector_store=UECVectorStore(uec))
    embedding = UECEmbedding(uec=uec)
    return VectorStoreIndex(nodes, storage_context=storage, embed_model=embedding, **options)


def nodes_of(texts, ids, metadatas, **options):
    """Nodes of which only the text is embedded."""
    fields = zip(texts, ids, metadatas, strict=False)
    return [
        TextNode(text=text, id_=id_, metadata=m, excluded_embed_metadata_keys=[*m], **options)
        for text, id_, m in fields
    ]


def always(action):
    """A gate that decides the same whatever it is asked."""

    class Always(Gate):
        def decide_again(self, decision, hits=None):
            asked = [Reading(name, (f"passages of {name}",), 0.4) for name in ("n3", "n4")]
            readings = tuple(asked) if action == "clarify" else ()
            reason = {"answer": SENTENCES["answered"], "abstain": SENTENCES["no_answer"]}.get(
                action
            ) or clarifying_question(readings)
            codes = {"answer": "answered", "clarify": "underspecified", "abstain": "no_answer"}
            told = replace(decision, action=action, reason=reason, readings=readings)
            return replace(told, code=codes[action])

    return Always(0.5)


class Saying(MockLLM):
    """A language model that always says the same."""

    words: str = ""

    def __init__(self, words):
        super().__init__()
        self.words = words

    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text=self.words)


async def said_by(response):
    """What a response says, in parts if it is a stream."""
    parts = getattr(response, "response_gen", None)
    if isinstance(parts, AsyncIterator):
        return "".join([part async for part in parts])
    return str(response) if parts is None else "".join(parts)


@pytest.fixture(scope="session")
def texts():
    return list(dict.fromkeys(passages(60)))[:40]


@pytest.fixture(scope="session")
def fitted(texts):
    """Fitted, with a variance that shows in the scores; queries weigh the encoders unlike passages.

    It finds the passage that most of a question's words are from, and is sure of it.
    """
    rng = np.random.default_rng(0)
    known = dict.fromkeys([*passages(60), *passages(60, seed=1)])
    encoders = [bag_of_words(24, "small"), bag_of_words(32, "large", seed=1)]
    uec = UEC(encoders, coefficients=WEIGHTS)
    return uec.fit([(" ".join([*t.split()[:4], *rng.choice(WORDS, 2)]), t) for t in known])


@pytest.fixture
def counting(fitted):
    """The fitted ensemble, on encoders that count, and these."""
    encoders = [Remembering(24, "small"), Remembering(32, "large", seed=1)]
    uec = UEC(encoders, coefficients=WEIGHTS)
    uec.fitted = replace(uec.fitted, posteriors=fitted.fitted.posteriors, report=fitted.report)
    assert uec.dimension == 56  # a black box embeds one text to tell
    for encoder in encoders:
        encoder.texts.clear()
    return uec, encoders


@pytest.fixture
def nodes(texts):
    """One node per text, four to a document, every second one in German."""
    return [
        TextNode(
            id_=f"n{i}",
            text=text,
            metadata={"lang": "de" if i % 2 else "en", "place": i},
            excluded_embed_metadata_keys=["lang", "place"],
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc{i // 4}")},
        )
        for i, text in enumerate(texts)
    ]


@pytest.fixture
def retriever(fitted, nodes):
    return UECRetriever.from_nodes(nodes, fitted)


@pytest.fixture
def question(texts):
    """A question that the fourth text answers, and no other."""
    return " ".join(texts[3].split()[6:])
