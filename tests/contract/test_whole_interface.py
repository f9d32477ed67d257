"""Every public method of the frameworks' classes, as installed, works on ours or says what does."""

import copy
import inspect
import json
import re
from collections.abc import AsyncIterator, Iterator

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, Runnable, RunnableLambda
from langchain_core.vectorstores import VectorStore
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever as LlamaIndexBaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQuery

from tests.helpers import bag_of_words
from uec_rag import UEC, langchain, llama_index

UEC_ = UEC([bag_of_words(16, "a"), "bm25"])
TEXTS = ["bafima degopi", "lumane bafima", "rosuta voneba"]
Q = "bafima degopi?"
V = UEC_.embed([Q], "query").mean[0].tolist()
DOCUMENTS = [langchain.vectorstore.Document(text, id=text) for text in TEXTS]
NODES = [TextNode(text=text, id_=text) for text in TEXTS]


GIVEN = {
    **{"texts": TEXTS, "documents": DOCUMENTS, "nodes": NODES, "ids": TEXTS[:1]},
    **{"queries": TEXTS, "inputs": [Q, Q], "prompts_dict": {}, "context": None},
    **dict.fromkeys(["text", "query", "input", "str_or_query_bundle"], Q),
    **dict.fromkeys(["embedding", "embedding1", "embedding2"], V),
    **{"query_bundle": QueryBundle(Q), "ref_doc_id": "document", "search_type": "mmr"},
}
"""What a parameter without a default is given, by its name."""


def calls_of(base, **other):
    """A call of each public method of a class; `other`: those that need something else."""
    return {name: other.get(name) or (lambda x, name=name: call(x, name)) for name in public(base)}


def call(x, name):
    if isinstance(inspect.getattr_static(x, name), property):
        return getattr(x, name)
    method, variable = (
        getattr(x, name),
        (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL),
    )
    parameters = inspect.signature(method).parameters.values()
    needed = [
        one.name for one in parameters if one.default is one.empty and one.kind not in variable
    ]
    return method(*[copy.deepcopy(GIVEN[name]) for name in needed])


async def _asynchronous(one):
    yield one


STORE = {
    "from_texts": lambda x: x.from_texts(TEXTS, UEC_),
    "afrom_texts": lambda x: x.afrom_texts(TEXTS, UEC_),
    "from_documents": lambda x: x.from_documents(DOCUMENTS, UEC_),
    "afrom_documents": lambda x: x.afrom_documents(DOCUMENTS, UEC_),
    "embeddings": lambda x: x.similarity_search_by_vector(x.embeddings.embed_query(Q)),
}
RUNNABLE = {
    "transform": lambda x: x.transform(iter([Q])),
    "atransform": lambda x: x.atransform(_asynchronous(Q)),
    "stream_events": lambda x: x.stream_events(Q, version="v3"),
    "map": lambda x: x.map().invoke([Q]),
    "pipe": lambda x: x.pipe(RunnableLambda(len)),
    "assign": lambda x: (RunnableLambda(lambda q: {"q": x.invoke(q)})).assign(n=len),
    "pick": lambda x: RunnableLambda(lambda q: {"q": x.invoke(q)}).pick("q"),
    "with_fallbacks": lambda x: x.with_fallbacks([x]),
    "configurable_fields": lambda x: x.configurable_fields(tags=ConfigurableField(id="tags")),
    "configurable_alternatives": lambda x: x.configurable_alternatives(
        ConfigurableField(id="other"), other=x
    ),
}
COMPONENT = {
    "custom_model_dump": lambda x: x.model_dump(),
    "from_dict": lambda x: type(x).from_dict(json.loads(json.dumps(x.to_dict())), **_parts(x)),
    "from_json": lambda x: type(x).from_json(x.to_json(), **_parts(x)),
}
NODE_STORE = COMPONENT | {
    "query": lambda x: x.query(VectorStoreQuery(query_embedding=V, similarity_top_k=1)),
    "aquery": lambda x: x.aquery(VectorStoreQuery(query_embedding=V, similarity_top_k=1)),
    "delete_nodes": lambda x: x.delete_nodes(TEXTS[:1]),
    "adelete_nodes": lambda x: x.adelete_nodes(TEXTS[:1]),
    "persist": lambda x: x.persist(f"{x._folder}/index"),
}
POSTPROCESSOR = COMPONENT | {
    "postprocess_nodes": lambda x: x.postprocess_nodes([]),
    "apostprocess_nodes": lambda x: x.apostprocess_nodes([]),
}
VALIDATOR = {"check_base_embeddings_class": lambda x: x}


def _parts(x):
    """What is not in the JSON of a component."""
    if isinstance(x, llama_index.UECVectorStore):
        return {"embedding": x.index}
    return {"uec": x.uec} if isinstance(x, llama_index.UECEmbedding) else {}


def _of_langchain():
    return langchain.UECRetriever.from_texts(TEXTS, UEC_, ids=TEXTS)


def _of_llama_index():
    return llama_index.UECRetriever.from_nodes(NODES, UEC_)


def public(base):
    """The names that a framework's class offers; those of pydantic are not its own."""
    frameworks = ("langchain_core", "llama_index")
    ours = [each for each in base.__mro__ if each.__module__.split(".")[0] in frameworks]
    return {name for each in ours for name in vars(each) if _is_method(each, name)}


def _is_method(owner, name):
    value = vars(owner)[name]
    kinds = classmethod | staticmethod | property
    return not name.startswith("_") and (callable(value) or isinstance(value, kinds))


KINDS = {
    "LangChain's store": (VectorStore, STORE, lambda: _of_langchain().vectorstore),
    "LangChain's embeddings": (Embeddings, {}, lambda: langchain.UECEmbeddings(UEC_)),
    "LangChain's retriever": (BaseRetriever, RUNNABLE, _of_langchain),
    "LangChain's gate": (Runnable, RUNNABLE, lambda: langchain.UECGate(retriever=_of_langchain())),
    "LlamaIndex's store": (
        BasePydanticVectorStore,
        NODE_STORE,
        lambda: llama_index.UECVectorStore(_of_llama_index().index),
    ),
    "LlamaIndex's retriever": (LlamaIndexBaseRetriever, {}, _of_llama_index),
    "LlamaIndex's engine": (
        BaseQueryEngine,
        {},
        lambda: llama_index.UECQueryEngine.from_args(_of_llama_index(), MockLLM()),
    ),
    "LlamaIndex's postprocessor": (
        BaseNodePostprocessor,
        POSTPROCESSOR,
        llama_index.UECGatePostprocessor,
    ),
    "LlamaIndex's embedding": (
        BaseEmbedding,
        COMPONENT | VALIDATOR,
        lambda: llama_index.UECEmbedding(UEC_),
    ),
}
METHODS = {
    f"{kind}: {name}": (base, name, make, call)
    for kind, (base, other, make) in KINDS.items()
    for name, call in sorted(calls_of(base, **other).items())
}


@pytest.mark.parametrize(("make", "call"), [row[2:] for row in METHODS.values()], ids=METHODS)
@pytest.mark.filterwarnings("ignore:This UEC is not fitted", "ignore::DeprecationWarning")
async def test_every_method_works_or_its_error_says_what_to_use(make, call, tmp_path):
    """Also one that a later version of a framework adds: it is called by its signature."""
    made = make()
    if isinstance(made, llama_index.UECVectorStore):
        made._folder = tmp_path
    try:
        result = call(made)
        result = await result if inspect.isawaitable(result) else result
    except NotImplementedError as error:  # the frameworks' own, which say what to use
        assert re.search("use a?query directly|is only supported on", str(error))  # noqa: PT017
        return
    if isinstance(result, AsyncIterator):
        assert [one async for one in result]
    elif isinstance(result, Iterator):
        assert [*result]
    elif isinstance(result, Runnable):
        assert result.invoke(Q) is not None
