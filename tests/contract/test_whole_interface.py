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


def both(name, *arguments, **options):
    """Calls of a method and of its asynchronous twin."""
    call = lambda x, name=name: getattr(x, name)(*copy.deepcopy(arguments), **options)  # noqa: E731
    return {name: call, f"a{name}": lambda x: call(x, f"a{name}")}


STORE = (
    both("add_texts", TEXTS)
    | both("add_documents", DOCUMENTS)
    | both("delete", TEXTS[:1])
    | both("get_by_ids", TEXTS[:1])
    | both("from_texts", TEXTS, UEC_)
    | both("from_documents", DOCUMENTS, UEC_)
    | both("search", Q, search_type="mmr")
    | both("similarity_search", Q)
    | both("similarity_search_with_score", Q)
    | both("similarity_search_with_relevance_scores", Q, score_threshold=0.1)
    | both("similarity_search_by_vector", V)
    | both("max_marginal_relevance_search", Q, fetch_k=3)
    | both("max_marginal_relevance_search_by_vector", V, lambda_mult=0.2)
    | {
        "as_retriever": lambda x: x.as_retriever(search_type="mmr").invoke(Q),
        "embeddings": lambda x: x.similarity_search_by_vector(x.embeddings.embed_query(Q)),
    }
)

EMBEDDINGS = both("embed_documents", TEXTS) | both("embed_query", Q)

RUNNABLE = (
    both("invoke", Q)
    | both("batch", [Q, Q])
    | both("batch_as_completed", [Q, Q])
    | both("stream", Q)
    | both("stream_events", Q, version="v2")
    | {
        "transform": lambda x: x.transform(iter([Q])),
        "atransform": lambda x: x.atransform(_asynchronous(Q)),
        "astream_log": lambda x: x.astream_log(Q),
        "stream_events": lambda x: x.stream_events(Q, version="v3"),
        "map": lambda x: x.map().invoke([Q]),
        "bind": lambda x: x.bind(k=1).invoke(Q),
        "pipe": lambda x: x.pipe(RunnableLambda(len)).invoke(Q),
        "assign": lambda x: (RunnableLambda(lambda q: {"q": x.invoke(q)})).assign(n=len).invoke(Q),
        "pick": lambda x: RunnableLambda(lambda q: {"q": x.invoke(q)}).pick("q").invoke(Q),
        "as_tool": lambda x: x.as_tool().invoke(Q),
        "with_config": lambda x: x.with_config(tags=["t"]).invoke(Q),
        "with_fallbacks": lambda x: x.with_fallbacks([x]).invoke(Q),
        "with_listeners": lambda x: x.with_listeners(on_end=lambda run: None).invoke(Q),
        "with_alisteners": lambda x: x.with_alisteners().ainvoke(Q),
        "with_retry": lambda x: x.with_retry().invoke(Q),
        "with_types": lambda x: x.with_types(input_type=str).invoke(Q),
        "configurable_fields": lambda x: (
            x.configurable_fields(retriever=ConfigurableField(id="retriever"))
            if hasattr(x, "retriever")
            else x.configurable_fields(k=ConfigurableField(id="k")).invoke(Q)
        ),
        "configurable_alternatives": lambda x: x.configurable_alternatives(
            ConfigurableField(id="other"), other=x
        ).invoke(Q),
        "get_lc_namespace": lambda x: type(x).get_lc_namespace(),
        "model_post_init": lambda x: x.model_post_init(None),
        "get_graph": lambda x: x.get_graph().draw_mermaid(),
    }
    | {
        name: lambda x, name=name: getattr(x, name)()
        for name in [
            "config_schema",
            "get_config_jsonschema",
            "get_input_jsonschema",
            "get_input_schema",
            "get_name",
            "get_output_jsonschema",
            "get_output_schema",
            "get_prompts",
            "is_lc_serializable",
            "lc_id",
            "to_json",
            "to_json_not_implemented",
        ]
    }
    | {
        name: lambda x, name=name: getattr(x, name)
        for name in [
            "InputType",
            "OutputType",
            "config_specs",
            "input_schema",
            "lc_attributes",
            "lc_secrets",
            "output_schema",
        ]
    }
)

COMPONENT = {
    name: lambda x, name=name: getattr(x, name)() for name in ["class_name", "dict", "json"]
} | {
    "to_dict": lambda x: json.dumps(x.to_dict()),
    "to_json": lambda x: json.loads(x.to_json()),
    "custom_model_dump": lambda x: x.model_dump(),
    "from_dict": lambda x: type(x).from_dict(x.to_dict(), **_parts(x)),
    "from_json": lambda x: type(x).from_json(x.to_json(), **_parts(x)),
}

NODE_STORE = (
    COMPONENT
    | both("delete", "document")
    | both("delete_nodes", TEXTS[:1])
    | both("clear")
    | both("get_nodes", TEXTS[:1])
    | both("query", VectorStoreQuery(query_embedding=V, similarity_top_k=1))
    | {
        "add": lambda x: x.add(NODES),
        "async_add": lambda x: x.async_add(NODES),
        "client": lambda x: x.client.search([Q]),
        "persist": lambda x: x.persist(f"{x._folder}/index"),
    }
)

PROMPTS = {
    "get_prompts": lambda x: x.get_prompts(),
    "update_prompts": lambda x: x.update_prompts({}),
}
NODE_RETRIEVER = PROMPTS | both("retrieve", Q)
QUERY_ENGINE = (
    PROMPTS
    | both("query", Q)
    | both("synthesize", QueryBundle(Q), [])
    | {"retrieve": lambda x: x.retrieve(QueryBundle(Q))}
)
POSTPROCESSOR = COMPONENT | both("postprocess_nodes", [])
EMBEDDING = (
    COMPONENT
    | both("get_query_embedding", Q)
    | both("get_text_embedding", Q)
    | both("get_text_embedding_batch", TEXTS)
    | both("get_agg_embedding_from_queries", TEXTS)
    | {
        "acall": lambda x: x.acall(NODES),
        "similarity": lambda x: x.similarity(V, V),
        "to_payload": lambda x: x.to_payload(),
        "check_base_embeddings_class": lambda x: x,  # a validator
    }
)


async def _asynchronous(one):
    yield one


def _parts(x):
    """What is not in the JSON of a component."""
    if isinstance(x, llama_index.UECVectorStore):
        return {"embedding": x.index}
    return {"uec": x.uec} if isinstance(x, llama_index.UECEmbedding) else {}


def _of_langchain():
    return langchain.UECRetriever.from_texts(TEXTS, UEC_, ids=TEXTS)


def _of_llama_index():
    return llama_index.UECRetriever.from_nodes(NODES, UEC_)


CLASSES = {
    "LangChain's store": (VectorStore, STORE, lambda: _of_langchain().vectorstore),
    "LangChain's embeddings": (Embeddings, EMBEDDINGS, lambda: langchain.UECEmbeddings(UEC_)),
    "LangChain's retriever": (BaseRetriever, RUNNABLE, _of_langchain),
    "LangChain's gate": (Runnable, RUNNABLE, lambda: langchain.UECGate(retriever=_of_langchain())),
    "LlamaIndex's store": (
        BasePydanticVectorStore,
        NODE_STORE,
        lambda: llama_index.UECVectorStore(_of_llama_index().index),
    ),
    "LlamaIndex's retriever": (LlamaIndexBaseRetriever, NODE_RETRIEVER, _of_llama_index),
    "LlamaIndex's engine": (
        BaseQueryEngine,
        QUERY_ENGINE,
        lambda: llama_index.UECQueryEngine.from_args(_of_llama_index(), MockLLM()),
    ),
    "LlamaIndex's postprocessor": (
        BaseNodePostprocessor,
        POSTPROCESSOR,
        llama_index.UECGatePostprocessor,
    ),
    "LlamaIndex's embedding": (BaseEmbedding, EMBEDDING, lambda: llama_index.UECEmbedding(UEC_)),
}


def public(base):
    """The names that a framework's class offers; those of pydantic are not its own."""
    frameworks = ("langchain_core", "llama_index")
    ours = [each for each in base.__mro__ if each.__module__.split(".")[0] in frameworks]
    return {name for each in ours for name in vars(each) if _is_method(each, name)}


def _is_method(owner, name):
    value = vars(owner)[name]
    kinds = classmethod | staticmethod | property
    return not name.startswith("_") and (callable(value) or isinstance(value, kinds))


@pytest.mark.parametrize(("base", "calls"), [(b, c) for b, c, _ in CLASSES.values()], ids=CLASSES)
def test_no_method_of_the_installed_framework_is_left_untried(base, calls):
    assert public(base) - calls.keys() == set()


@pytest.mark.parametrize(
    ("make", "call"),
    [
        pytest.param(make, calls[name], id=f"{kind}: {name}")
        for kind, (base, calls, make) in CLASSES.items()
        for name in sorted(public(base) & calls.keys())
    ],
)
@pytest.mark.filterwarnings("ignore:This UEC is not fitted", "ignore::DeprecationWarning")
async def test_every_method_works_or_its_error_says_what_to_use(make, call, tmp_path):
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
