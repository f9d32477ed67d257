"""LangChain's own standard tests, all of them, on our classes."""

import pytest
from langchain_tests.integration_tests import (
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)
from langchain_tests.unit_tests import EmbeddingsUnitTests

from tests.helpers import bag_of_words, pairs
from uec_rag import UEC
from uec_rag.langchain import UECEmbeddings, UECRetriever, UECVectorStore
from uec_rag.stores.qdrant import QdrantStore


@pytest.fixture(scope="module", params=[False, True], ids=["not fitted", "fitted"])
def uec(request):
    uec = UEC([bag_of_words(16, "small"), bag_of_words(24, "large", seed=1)])
    return uec.fit(pairs(64)) if request.param else uec


class _OurEmbeddings:
    @property
    def embeddings_class(self):
        return UECEmbeddings

    @property
    def embedding_model_params(self):
        return {"uec": self.uec}

    @pytest.fixture(autouse=True)
    def _ensemble(self, uec):
        self.uec = uec


class TestEmbeddingsUnit(_OurEmbeddings, EmbeddingsUnitTests):
    pass


class TestEmbeddingsIntegration(_OurEmbeddings, EmbeddingsIntegrationTests):
    pass


class TestVectorStoreOfAnEnsemble(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, uec):
        return UECVectorStore(uec)


class TestVectorStoreInQdrant(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, uec):
        return UECVectorStore(uec, store=QdrantStore(location=":memory:"))


class TestVectorStoreOfAnyEmbeddings(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        return UECVectorStore(embedding=self.get_embeddings())


class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _store(self, uec):
        self.store = UECVectorStore.from_texts(["foo", "bar", "baz", "qux", "quux"], uec)

    @property
    def retriever_constructor(self):
        return UECRetriever

    @property
    def retriever_constructor_params(self):
        return {"vectorstore": self.store}

    @property
    def retriever_query_example(self):
        return "which of them is bar?"
