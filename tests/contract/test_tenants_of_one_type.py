"""A tenant is equal to itself alone: of the same type, and of the same characters."""

import datetime
import decimal
import pathlib
import uuid

import numpy as np
import pytest

from tests.contract.test_over_filters import over_filled
from tests.contract.test_tenants_apart import EVERY
from tests.helpers import bag_of_words, index_of
from tests.stores.kinds import KINDS
from uec_rag import UEC, Retriever
from uec_rag.gates import Gate

WORDS = UEC([bag_of_words(16, "small"), "bm25"])
TEXTS = ["The gate code of the first is 4711.", "The gate code of the second is 9933."]
IDS = [f"00000000-0000-0000-0000-00000000000{at}" for at in range(2)]
QUESTION = "What is the gate code?"
CODES = {  # canonically equal in Unicode
    "unit": ("\u212a", "K"),
    "length": ("\u212bngstr\u00f6m", "\u00c5ngstr\u00f6m"),
    "resistance": ("\u2126", "\u03a9"),
    "accent": ("Jos\u00e9", "Jose\u0301"),
    "two marks": ("\u1e69", "s\u0323\u0307"),
    "syllable": ("\uac00", "\u1100\u1161"),
    "ideograph": ("\uf900", "\u8c48"),
}
LARGE = {"number": (2**60 + 1, str(2**60 + 1)), "negative": (-(2**53) - 1, str(-(2**53) - 1))}
TYPES = {
    "date": (datetime.date(2026, 1, 31), "2026-01-31"),
    "time of a day": (datetime.datetime(2026, 1, 31, 8), "2026-01-31T08:00:00"),
    "date and time": (datetime.date(2026, 1, 31), datetime.datetime(2026, 1, 31)),
    "uuid": (uuid.UUID(int=7), str(uuid.UUID(int=7))),
    "path": (pathlib.PurePosixPath("a/b"), "a/b"),
    "time": (datetime.time(8, 30), "08:30:00"),
    "decimal": (decimal.Decimal(2**70), str(2**70)),
    "flag": (True, 1),
    "digits": (7, "7"),
    "array": (np.int64(2**55), str(2**55)),
}


def check_apart(index, values):
    """Each tenant sees its passage alone, whatever is asked."""
    for at, value in enumerate(values):
        tenant = {"t": value}
        for condition in (tenant, {"t": [value]}, {"t": {"$in": [value]}}, {"$and": [tenant]}):
            result = index.search([QUESTION], tenant=condition)
            assert [p.text for p in result.passages[0]] == [TEXTS[at]]
            if index.store.can_look_up:
                assert {p.text for p in index.get(result.ids[0], tenant=tenant)} == {TEXTS[at]}
                assert not index.get(result.ids[0], tenant={"t": values[1 - at]})


@pytest.mark.filterwarnings("ignore:filter by:UserWarning")
@pytest.mark.parametrize("name", EVERY)
def test_what_unicode_takes_for_equal_are_two_tenants(name, tmp_path):
    is_typed = name.startswith("LanceDB")  # a column has one type
    for number, values in enumerate({**CODES, **({} if is_typed else LARGE)}.values()):
        metadatas = [{"t": value} for value in values]
        (folder := tmp_path / str(number)).mkdir()
        if name in KINDS:
            index = index_of(WORDS, TEXTS, IDS, metadatas, store=KINDS[name](folder))
        elif name == "saved":
            index_of(WORDS, TEXTS, IDS, metadatas).save(folder / "idx")
            index = Retriever.load(folder / "idx", WORDS)
        else:
            index = over_filled(name, folder, TEXTS, IDS, metadatas, WORDS).index
        check_apart(index, values)
        index.close()


@pytest.mark.parametrize("values", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("name", ["memory", "folder", "qdrant in memory", "qdrant's engine"])
def test_tenants_of_other_types_are_others(name, values, tmp_path):
    metadatas = [{"t": value} for value in values]
    index = index_of(WORDS, TEXTS, IDS, metadatas, store=KINDS[name](tmp_path))
    check_apart(index, values)
    if name == "folder":
        index.save(tmp_path / "idx")
        again = Retriever.load(tmp_path / "idx", WORDS)
        check_apart(again, values)
        again.label(QUESTION, [IDS[0]], tenant={"t": values[0]})
        assert again.labels_of({"t": values[1]}) == {}
        assert again.labels_of({"t": values[0]}) == {QUESTION: {IDS[0]}}
    if name != "memory":
        return
    for tenant, others in ((values[0], values[1]), (values[1], values[0])):
        assert len(index.passages(tenant={"t": {"$ne": others}})) == 1
        assert Gate(0.5).search(index, [QUESTION], tenant={"t": tenant}).ids[0]


def test_filters_find_what_they_found():
    metadatas = [{"t": "Jos\u00e9", "n": 2**60}, {"t": "Jose\u0301", "n": str(2**60)}]
    index = index_of(WORDS, TEXTS, IDS, metadatas)
    for filter in ({"t": "Jos\u00e9"}, {"t": "Jose\u0301"}, {"n": 2**60}, {"n": str(2**60)}):
        assert len(index.passages(filter)) == 2
    assert len(index.passages({"t": "Jose\u0301"}, tenant={"n": 2**60})) == 1


@pytest.mark.parametrize(
    "tenant",
    [
        {"of": {"day": datetime.date(2026, 1, 31)}},
        {"of": {"$eq": [uuid.UUID(int=7)]}},
        {"of": {"$in": [[2**60]]}},
        {"of": {"$contains": 2**60}},
        {"of": {"$not": {"$eq": {"path": pathlib.PurePosixPath("a")}}}},
    ],
)
def test_a_tenant_that_cannot_be_told_from_its_text_is_refused(tenant):
    index = index_of(WORDS, TEXTS, IDS, [{"of": "a"}, {"of": "b"}])
    with pytest.raises(ValueError, match=r"tenant: 'of.*write them as texts"):
        index.search([QUESTION], tenant=tenant)
