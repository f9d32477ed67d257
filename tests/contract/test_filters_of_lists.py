"""Filters on values that are lists, such as readers, mean the same wherever passages are."""

import warnings

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

from tests.contract.test_over_filters import TEXTS, Member, over_filled
from tests.helpers import data_of, index_of
from tests.stores.kinds import DISTINCT, KINDS
from uec_rag import UEC, Retriever, llama_index

ROWS = data_of("filters_of_lists.json")


GROUPS = [["hr"], ["all"], ["hr", "all"], ["sales", "all"], [], "hr", None]
YEARS = [[2019, 2023], [2024], [2023], [2022], [], 2023, None]
IDS = [f"00000000-0000-0000-0000-{at:012}" for at in range(len(GROUPS))]
METADATA = [
    {"year": 2020 + at, "ok": at % 2 == 0}
    | ({} if groups is None else {"groups": groups, "years": YEARS[at]})
    for at, groups in enumerate(GROUPS)
]
EVERY = {*range(len(GROUPS))}
CASES = [
    ({"groups": "hr"}, {0, 2, 5}),
    ({"groups": {"$eq": "hr"}}, {0, 2, 5}),
    ({"groups": {"$in": ["all"]}}, {1, 2, 3}),
    ({"groups": {"$in": ["sales", "hr"]}}, {0, 2, 3, 5}),
    ({"groups": ["sales", "hr"]}, {0, 2, 3, 5}),
    ({"groups": ("sales",)}, {3}),
    ({"groups": {"sales"}}, {3}),
    ({"groups": []}, set()),
    ({"groups": {"$nin": ["hr"]}}, EVERY - {0, 2, 5}),
    ({"groups": {"$ne": "hr"}}, EVERY - {0, 2, 5}),
    ({"groups": {"$not": {"$in": ["hr", "all"]}}}, {4, 6}),
    ({"groups": {"$eq": ["hr", "all"]}}, {2}),
    ({"groups": {"$contains": "all"}}, {1, 2, 3}),
    ({"years": 2023}, {0, 2, 5}),
    ({"years": [2023, 2024]}, {0, 1, 2, 5}),
    ({"years": {"$gte": 2023}}, {0, 1, 2, 5}),
    ({"years": {"$lt": 2020}}, {0}),
    ({"year": [2021, 2023]}, {1, 3}),
    ({"$and": [{"groups": "all"}, {"years": {"$ne": 2023}}]}, {1, 3}),
]
OVER = ["InMemory", "FAISS", "Qdrant", "SimpleVectorStore", "QdrantVectorStore"]


def uec():
    return UEC([Member(), "bm25"])


def of_ours(kind, folder):
    return index_of(uec(), TEXTS[: len(IDS)], IDS, METADATA, store=KINDS[kind](folder))


def saved(folder):
    of_ours("memory", folder).save(folder / "saved")
    return Retriever.load(folder / "saved", uec(), read_only=True)


MAKE = {
    **{kind: lambda folder, kind=kind: of_ours(kind, folder) for kind in DISTINCT},
    "saved": saved,
    **{
        name: lambda folder, name=name: (
            over_filled(name, folder, TEXTS[: len(IDS)], IDS, METADATA, uec()).index
        )
        for name in OVER
    },
}


@pytest.fixture(params=MAKE)
def index(request, tmp_path):
    return MAKE[request.param](tmp_path)


@pytest.mark.filterwarnings("ignore::uec_rag.base.errors.UECWarning")
def test_a_filter_on_a_list_selects_by_its_items(index):
    for where, expected in CASES:
        for named in ({"filter": where}, {"tenant": where}):
            if where == {"groups": []} and "tenant" in named:
                continue
            [ids] = index.search([TEXTS[0]], 20, **named).ids
            assert {*map(IDS.index, ids)} == expected, (where, named)


OTHER_KINDS = ROWS["other kinds"]
ALIKE = ROWS["alike"]


def notes_of(index, where):
    """What is said of the kinds of values in a search."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        index.search([TEXTS[0]], filter=where)
    return [text for one in caught if (text := str(one.message)).startswith("filter: ")]


@pytest.mark.parametrize("name", ["memory", "qdrant's engine", "InMemory", "SimpleVectorStore"])
def test_a_value_of_another_kind_is_said_once(name, tmp_path):
    for at, (where, said) in enumerate(OTHER_KINDS):
        (folder := tmp_path / str(at)).mkdir()
        index = MAKE[name](folder)
        [note] = notes_of(index, where)
        assert said in note
        assert not notes_of(index, where)
    for where in ALIKE:
        assert not notes_of(index, where)


def theirs(key, value, operator):
    one = MetadataFilter(key=key, value=value, operator=FilterOperator[operator])
    return MetadataFilters(filters=[one])


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (theirs("groups", ["sales", "hr"], "IN"), {0, 2, 3, 5}),
        (theirs("groups", ["hr"], "NIN"), EVERY - {0, 2, 5}),
        (theirs("groups", "hr", "NE"), EVERY - {0, 2, 5}),
        (theirs("groups", "hr", "EQ"), {0, 2, 5}),
        (theirs("groups", "all", "CONTAINS"), {1, 2, 3}),
        (theirs("years", 2023, "GTE"), {0, 1, 2, 5}),
    ],
    ids=str,
)
@pytest.mark.parametrize("named", ["filters", "tenant"])
def test_operators_of_llama_index_mean_the_same(filters, expected, named, tmp_path):
    for name in ("memory", "SimpleVectorStore"):
        index = MAKE[name](tmp_path)
        retriever = llama_index.UECRetriever(index, 20, **{named: filters})
        with warnings.catch_warnings(action="ignore"):
            hits = retriever.retrieve(TEXTS[0])
        assert {IDS.index(hit.node_id) for hit in hits} == expected


EMPTY = [
    MetadataFilters(filters=[]),
    MetadataFilters(filters=[MetadataFilters(filters=[])]),
    MetadataFilters(filters=[MetadataFilters(filters=[])], condition="or"),
    theirs("groups", [], "NIN"),
]


@pytest.mark.parametrize("filters", EMPTY, ids=repr)
def test_a_deletion_by_an_empty_condition_is_refused(filters):
    store = llama_index.UECVectorStore(uec())
    store.add([TextNode(id_=id_, text=text) for id_, text in zip(IDS, TEXTS, strict=False)])
    for ids in (None, IDS[:1]):
        with pytest.raises(ValueError, match=r"filters: .*selects all of them; clear\(\) removes"):
            store.delete_nodes(ids, filters=filters)
    for wrong in (None, "", " "):
        with pytest.raises((TypeError, ValueError), match="ref_doc_id"):
            store.delete(wrong)
    store.delete_nodes(node_ids=[])
    assert len(store.index) == len(IDS)
    store.delete_nodes(filters=theirs("absent", "x", "EQ"))
    assert len(store.index) == len(IDS)
    store.clear()
    assert not store.index
