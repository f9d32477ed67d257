"""Pickled, copied, written down: what comes back is whole, or it is refused at once."""

import copy
import json
import pickle

import pytest
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode

from tests.helpers import noise, passages
from uec_rag import UEC
from uec_rag.confidence.risk import Guarantee
from uec_rag.llama_index import (
    UECEmbedding,
    UECGatePostprocessor,
    UECQueryEngine,
    UECRetriever,
    UECVectorStore,
)
from uec_rag.retrieval.gate import Gate

TEXTS = passages(30)


@pytest.fixture(scope="module")
def named():
    """An ensemble whose encoder pickle finds by its name."""
    return UEC([noise])


@pytest.fixture
def store(named):
    store = UECVectorStore(named)
    store.add([TextNode(id_=f"n{i}", text=text) for i, text in enumerate(TEXTS)])
    return store


def found(store):
    return UECRetriever(store.retriever).retrieve(TEXTS[3])


def test_a_pickled_embedding_makes_the_same_vectors(named):
    embedding = UECEmbedding(uec=named, embed_batch_size=7)
    back = pickle.loads(pickle.dumps(embedding))
    assert back.get_text_embedding(TEXTS[0]) == embedding.get_text_embedding(TEXTS[0])
    assert (back.embed_batch_size, back.model_name) == (7, embedding.model_name)


@pytest.mark.slow
def test_a_pipeline_of_several_processes_fills_the_store(named):
    store = UECVectorStore(named)
    pipeline = IngestionPipeline(
        transformations=[UECEmbedding(uec=named)], vector_store=store, disable_cache=True
    )
    pipeline.run(nodes=[TextNode(id_=f"n{i}", text=t) for i, t in enumerate(TEXTS)], num_workers=2)
    assert len(store.retriever) == len(TEXTS)
    assert found(store)[0].node_id == "n3"


GATE = Gate(0.7, Guarantee(0.7, 0.1, 0.05, 100, 50, 2, 29), k=4)


def test_a_postprocessor_is_written_down_with_its_gate():
    data = json.loads(json.dumps(UECGatePostprocessor(gate=GATE).to_dict()))
    back = UECGatePostprocessor.from_dict(data)
    assert back.gate == GATE
    assert UECGatePostprocessor.from_dict(UECGatePostprocessor().to_dict()).gate is None


def agreeing(question, texts):
    return True


def test_what_has_a_gate_is_copied_with_it_also_after_it_has_decided(store):
    nodes = found(store)
    gate = Gate(0.9, doubt=(0.0, 1.0))
    processor = UECGatePostprocessor(gate=gate, advisor=agreeing)
    engine = UECQueryEngine.from_args(
        UECRetriever(store.retriever), llm=MockLLM(), gate=gate, advisor=agreeing
    )
    assert processor.postprocess_nodes(nodes, query_str="?") == nodes
    answer = engine.query(TEXTS[3])
    assert copy.deepcopy(processor).postprocess_nodes(nodes, query_str="?") == nodes
    assert str(copy.deepcopy(engine).query(TEXTS[3])) == str(answer)
