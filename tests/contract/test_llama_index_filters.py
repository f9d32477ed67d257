"""Metadata filters mean what they mean in LlamaIndex's own `SimpleVectorStore`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    SimpleVectorStore,
)
from llama_index.core.vector_stores.types import VectorStoreQuery

from tests.helpers import bag_of_words, data_of, passages
from uec_rag import UEC
from uec_rag.llama_index import UECEmbedding, UECVectorStore

METADATA = data_of("llama_index_metadata.json")
VALUES = data_of("llama_index_filters.json")
FILTERS = [
    MetadataFilter(key=key, value=value, operator=FilterOperator(operator))
    for operator, cases in VALUES.items()
    for key, value in cases
]
FAILING = [
    MetadataFilter(key="year", value="2", operator=FilterOperator.TEXT_MATCH),
    MetadataFilter(key="year", value=2005, operator=FilterOperator.IN),
]
UNLIKE = [
    MetadataFilter(key="year", value="2", operator=FilterOperator.GT),
    MetadataFilter(key="year", value=2, operator=FilterOperator.CONTAINS),
]


@pytest.fixture(scope="module")
def stores():
    uec = UEC([bag_of_words(16, "words")])
    texts = list(dict.fromkeys(passages(20)))[: len(METADATA)]
    vectors = UECEmbedding(uec=uec).get_text_embedding_batch(texts)
    nodes = [
        TextNode(
            id_=f"n{i}",
            text=text,
            embedding=vector,
            metadata=metadata,
            excluded_embed_metadata_keys=list(metadata),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc{i // 3}")},
        )
        for i, (text, vector, metadata) in enumerate(zip(texts, vectors, METADATA, strict=True))
    ]
    theirs, ours = SimpleVectorStore(), UECVectorStore(uec)
    theirs.add(nodes)
    ours.add(nodes)
    question = " ".join(t.split()[0] for t in texts)
    vector = UECEmbedding(uec=uec).get_query_embedding(question)
    return theirs, ours, {"query_str": question, "query_embedding": vector}


def same(stores, filters, **options):
    """The stores find the same nodes with the same scores; these are the ids."""
    theirs, ours, question = stores
    query = VectorStoreQuery(**question, similarity_top_k=len(METADATA), filters=filters, **options)
    expected, found = theirs.query(query), ours.query(query)
    assert found.ids == expected.ids
    assert found.similarities == pytest.approx(expected.similarities, abs=1e-6)
    return found.ids


def test_every_operator_and_condition_is_among_the_cases():
    assert {*VALUES} == {operator.value for operator in FilterOperator}


@pytest.mark.parametrize("filter_", FILTERS, ids=lambda f: f"{f.key} {f.operator.value} {f.value}")
def test_one_filter_finds_the_same(stores, filter_):
    same(stores, MetadataFilters(filters=[filter_]))


@pytest.mark.parametrize("condition", [*FilterCondition, None])
@given(chosen=st.lists(st.sampled_from(FILTERS), max_size=4))
def test_any_combination_finds_the_same(stores, condition, chosen):
    same(stores, MetadataFilters(filters=chosen, condition=condition))


@pytest.mark.parametrize(
    "filter_", [*FAILING, *UNLIKE], ids=lambda f: f"{f.key} {f.operator.value} {f.value}"
)
def test_a_filter_that_does_not_fit_the_values_fails_as_in_theirs_or_matches_nothing(
    stores, filter_
):
    theirs, ours, question = stores
    query = VectorStoreQuery(**question, filters=MetadataFilters(filters=[filter_]))
    with pytest.raises(TypeError) as expected:
        theirs.query(query)
    if filter_ in UNLIKE:  # values of another kind
        with pytest.warns(UserWarning, match="filter: 'year' is compared"):
            assert ours.query(query).ids == []
        return
    with pytest.raises(TypeError) as found:
        ours.query(query)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("key", ["doc_id", "ref_doc_id", "document_id"])
def test_the_document_of_a_node_can_be_filtered_by(stores, key):
    filter_ = MetadataFilter(key=key, value="doc1")
    assert sorted(same(stores, MetadataFilters(filters=[filter_]))) == ["n3", "n4", "n5"]


def test_groups_may_be_nested_which_theirs_refuses(stores):
    theirs, ours, question = stores
    early = MetadataFilter(key="year", value=2000, operator=FilterOperator.LT)
    pets = MetadataFilter(key="tags", value="pets", operator=FilterOperator.CONTAINS)
    not_pets = MetadataFilters(filters=[pets], condition=FilterCondition.NOT)
    filters = MetadataFilters(filters=[early, not_pets], condition=FilterCondition.AND)
    query = VectorStoreQuery(**question, similarity_top_k=9, filters=filters)
    with pytest.raises(ValueError, match="Nested"):
        theirs.query(query)
    assert ours.query(query).ids == ["n7"]


OF_LISTS = [
    ("year", FilterOperator.ANY, [2005, 1999], lambda one: one.get("year") in (2005, 1999)),
    ("year", FilterOperator.ALL, [2005], lambda one: one.get("year") == 2005),
    ("year", FilterOperator.ANY, 2005, lambda one: one.get("year") == 2005),
    ("year", FilterOperator.ANY, ["2005"], lambda one: False),
    ("year", FilterOperator.ALL, [2005, 1999], lambda one: False),
]


@pytest.mark.parametrize(("key", "operator", "value", "matches"), OF_LISTS)
def test_any_and_all_of_a_number_are_about_a_list_of_it(stores, key, operator, value, matches):
    """For which LlamaIndex's own store raises TypeError."""
    _, ours, question = stores
    filters = MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])
    query = VectorStoreQuery(**question, similarity_top_k=len(METADATA), filters=filters)
    expected = {f"n{at}" for at, one in enumerate(METADATA) if matches(one)}
    assert {*ours.query(query).ids} == expected
