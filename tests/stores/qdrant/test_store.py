"""What is Qdrant's own; the rest is in `test_contract`."""

import pytest
from qdrant_client import QdrantClient, models

from tests.helpers import refused
from tests.stores.test_contract import gaussians, numbered
from uec_rag.stores.qdrant import QdrantStore


def test_a_collection_in_memory_has_no_address():
    with pytest.raises(ValueError, match=r"a collection in memory, .* cannot be reopened"):
        QdrantStore(location=":memory:").state()


def test_a_collection_of_someone_else_is_refused():
    client = QdrantClient(":memory:")
    vectors = models.VectorParams(size=8, distance=models.Distance.COSINE)
    client.create_collection("theirs", vectors_config=vectors)
    store = QdrantStore(client=client, collection="theirs")
    for call in (lambda: len(store), lambda: store.add(numbered([1]), gaussians(0, 1))):
        with pytest.raises(ValueError, match="'theirs' exists and was not created by"):
            call()


def test_settings_reach_the_collection():
    client = QdrantClient(":memory:")
    seen = {}
    make = client.create_collection
    client.create_collection = lambda name, **named: seen.update(named) or make(name, **named)
    quantised = models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type="int8"))
    links = models.HnswConfigDiff(m=32, ef_construct=200)
    store = QdrantStore(
        client=client, shard_number=3, quantization_config=quantised, hnsw_config=links
    )
    store.add(numbered([1]), gaussians(0, 1))
    assert (seen["shard_number"], seen["quantization_config"]) == (3, quantised)
    assert seen["hnsw_config"] == links


@pytest.mark.parametrize(("given", "error", "message"), refused("QdrantStore"))
def test_what_cannot_be_opened_is_refused_naming_the_argument(given, error, message):
    with pytest.raises(error, match=message):
        QdrantStore(**given)
