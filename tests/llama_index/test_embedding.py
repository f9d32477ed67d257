import json

import numpy as np
import pytest
from llama_index.core.ingestion import IngestionPipeline
from pydantic import ValidationError

from uec_rag.llama_index import UECEmbedding


@pytest.fixture
def embedding(fitted):
    return UECEmbedding(uec=fitted)


def test_passages_and_queries_get_the_means_of_their_role(embedding, fitted, texts):
    passages = np.array(embedding.get_text_embedding_batch(texts), dtype=np.float32)
    query = np.array(embedding.get_query_embedding(texts[0]), dtype=np.float32)
    np.testing.assert_allclose(passages, fitted.embed(texts, "passage").mean, atol=1e-6)
    np.testing.assert_allclose(query, fitted.embed(texts[:1], "query").mean[0], atol=1e-6)
    assert not np.allclose(passages[0], query)
    assert {type(number) for number in embedding.get_query_embedding("lumane")} == {float}


def test_events_tell_its_name_which_is_of_its_encoders_or_its_own_and_not_its_weights(fitted):
    for options, name in (({}, "UEC(small, large)"), ({"model_name": "mine"}, "mine")):
        told = UECEmbedding(uec=fitted, **options).to_payload()
        known = {"class_name": "UECEmbedding", "embed_batch_size": 10}
        assert told == known | {"model_name": name}


def test_it_is_made_again_from_its_dict_and_its_ensemble(fitted):
    data = json.loads(json.dumps(UECEmbedding(uec=fitted, embed_batch_size=3).to_dict()))
    assert data["uec"] == fitted.fingerprint
    back = UECEmbedding.from_dict(data, uec=fitted)
    assert back.uec is fitted
    assert back.embed_batch_size == 3


def test_an_ingestion_pipeline_embeds_with_it_and_remembers_its_work(counting, nodes):
    uec, encoders = counting
    pipeline = IngestionPipeline(transformations=[UECEmbedding(uec=uec)])
    first = pipeline.run(nodes=nodes[:5])
    again = pipeline.run(nodes=[node.model_copy(update={"embedding": None}) for node in nodes[:5]])
    assert [node.embedding for node in first] == [node.embedding for node in again]
    assert len(encoders[0].texts) == 5


def test_anything_but_an_ensemble_is_refused():
    with pytest.raises(ValidationError, match="Input should be an instance of UEC"):
        UECEmbedding(uec="all-MiniLM-L6-v2")
