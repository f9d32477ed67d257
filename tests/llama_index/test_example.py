"""The example, run on small encoders and LlamaIndex's `MockLLM`."""

import pytest
from llama_index.core.llms import MockLLM

from examples import llama_index_query_engine as example
from tests.helpers import fitted_on_documentation


@pytest.fixture(scope="module")
def index():
    return example.build_index(fitted_on_documentation(32, 48), passages=300)


def test_the_llm_is_asked_where_the_decision_is_to_answer_and_only_then(index):
    engine = example.build_engine(index, MockLLM(max_tokens=2))
    retriever = index.vector_store.index
    for question in example.QUESTIONS:
        response = engine.query(question)
        decision = retriever.search([question], 3).decisions[0]
        assert response.metadata["uec_decision"] == decision.action
        assert response.metadata["uec_reason"] == decision.reason
        assert (str(response) == "text text") == (decision.action == "answer")
