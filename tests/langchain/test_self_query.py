"""LangChain's own `SelfQueryRetriever` and parser over our store: a model with a script."""

import json

import pytest
from langchain_classic.chains.query_constructor.schema import AttributeInfo
from langchain_classic.retrievers import SelfQueryRetriever
from langchain_core.language_models import FakeListChatModel
from langchain_core.structured_query import Comparator, Comparison

from tests.helpers import passages
from uec_rag.langchain import UECVectorStore
from uec_rag.langchain.documents import UECTranslator

TEXTS = list(dict.fromkeys(passages(20)))
NAMES = ("year", "lang", "day", "tags")
FIELDS = [AttributeInfo(name=name, description=name, type="string") for name in NAMES]


@pytest.fixture(scope="module")
def store(fitted):
    metadatas = [
        {
            "year": 2000 + i,
            "lang": "de" if i % 3 else "en",
            "day": f"2026-01-{i + 1:02}",
            "tags": ["odd"] if i % 2 else [],
        }
        for i in range(len(TEXTS))
    ]
    ids = [str(i) for i in range(len(TEXTS))]
    return UECVectorStore.from_texts(TEXTS, fitted, metadatas, ids=ids)


def asking(store, filter, limit=None, **options):
    said = {"query": "bafima degopi", "filter": filter} | ({"limit": limit} if limit else {})
    model = FakeListChatModel(responses=[f"```json\n{json.dumps(said)}\n```"])
    return SelfQueryRetriever.from_llm(
        model,
        store,
        "Sentences",
        FIELDS,
        structured_query_translator=UECTranslator(),
        enable_limit=limit is not None,
        **options,
    )


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ('eq("year", 2003)', {3}),
        ('and(gte("year", 2003), lt("year", 2006), ne("year", 2004))', {3, 5}),
        ('or(lte("year", 2000), gt("year", 2018))', {0, 19}),
        ('and(not(eq("lang", "de")), gt("year", 2010))', {12, 15, 18}),
        ('not(and(eq("lang", "de"), lte("year", 2018)))', {0, 3, 6, 9, 12, 15, 18, 19}),
        ('in("year", [2001, 2002, 1900])', {1, 2}),
        ('and(nin("lang", ["de"]), lt("year", 2005))', {0, 3}),
        ('and(contain("tags", "odd"), lt("year", 2004))', {1, 3}),
        ('gte("day", "2026-01-19")', {18, 19}),
        ("NO_FILTER", set(range(20))),
    ],
)
async def test_a_model_s_filter_is_ours(store, filter, expected):
    assert len(TEXTS) == 20
    for retriever in (
        asking(store, filter, search_kwargs={"k": 20}),
        asking(store, filter, limit=20),
    ):
        assert {int(document.id) for document in retriever.invoke("?")} == expected
    found = await asking(store, filter, search_kwargs={"k": 20}).ainvoke("?")
    assert {int(document.id) for document in found} == expected
    [best] = asking(store, filter, limit=1).invoke("?")
    assert int(best.id) in expected


def test_what_has_no_equal_is_refused():
    with pytest.raises(ValueError, match="disallowed comparator"):
        Comparison(Comparator.LIKE, "lang", "d%").accept(UECTranslator())
