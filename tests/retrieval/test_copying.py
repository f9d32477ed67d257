"""An index in another store."""

import numpy as np
import pytest

from tests.helpers import FORGED, Remembering, index_of, pairs, passages
from tests.stores.kinds import KINDS, close
from tests.stores.postgres_server import new_place as in_postgres
from tests.stores.test_contract import gaussians, numbered
from uec_rag import UEC, FingerprintMismatch
from uec_rag.retrieval.copying import checksum, copy_index, digests, transfer
from uec_rag.stores import MemoryStore, Passage
from uec_rag.stores.pgvector import PgVectorStore
from uec_rag.stores.places import store_at
from uec_rag.stores.qdrant import QdrantStore

TEXTS = list(dict.fromkeys(passages(80)))
QUERIES = [query for query, _ in pairs(40)]


def members(words):
    return [Remembering(16, "small"), Remembering(24, "large", 1), *(["bm25"] if words else [])]


def filled(uec):
    return index_of(
        uec, TEXTS, [f"t{i}" for i in range(len(TEXTS))], [{"n": i} for i in range(len(TEXTS))]
    )


def same(one, other, queries=QUERIES, **tolerance):
    a, b = one.search(queries, 5), other.search(queries, 5)
    np.testing.assert_allclose(a.scores, b.scores, **({"rtol": 1e-4} | tolerance))
    np.testing.assert_allclose(a.sigma2, b.sigma2, rtol=1e-3)
    assert a.ids == b.ids


@pytest.mark.parametrize("words", [False, True])
def test_a_copy_finds_what_the_original_finds_and_keeps_its_calibration(words):
    index = filled(UEC(members(words)).fit(pairs(100)))
    index.calibrate(TEXTS[:40], [[f"t{i}"] for i in range(40)])
    for encoder in index.uec.encoders[:2]:
        encoder._given.texts.clear()
    copy, done = copy_index(index, MemoryStore())
    assert (done.passages, done.written) == (len(TEXTS),) * 2
    assert not any(encoder._given.texts for encoder in index.uec.encoders[:2])
    same(index, copy, rtol=1e-6)
    assert copy.calibration == index.calibration
    ours, theirs = index.search(QUERIES).confidence, copy.search(QUERIES).confidence
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert copy_index(index, copy.store)[1].written == 0


def test_a_store_of_another_fit_is_refused():
    encoders = members(words=False)
    index, other = filled(UEC(encoders).fit(pairs(100))), filled(UEC(encoders).fit(pairs(60)))
    with pytest.raises(FingerprintMismatch, match="another ensemble"):
        copy_index(index, other.store)


def test_a_passage_whose_metadata_lies_about_missing_members_is_copied():
    index = filled(UEC(members(words=False)).fit(pairs(100)))
    index.store.add([Passage("lies", TEXTS[0], FORGED)], index.uec.embed([TEXTS[0]]))
    assert copy_index(index, MemoryStore())[1].written == len(TEXTS) + 1


@pytest.mark.parametrize("pairs_of_fit", [60, 80, 100])
@pytest.mark.parametrize("engine", [False, True])
def test_a_copy_with_words_can_be_added_to(pairs_of_fit, engine):
    index = filled(UEC(members(words=True)).fit(pairs(pairs_of_fit)))
    store = QdrantStore(location=":memory:") if engine else MemoryStore()
    copy, _ = copy_index(index, store)
    for each in (index, copy):
        each.add(["something new"], ["new"])
    same(index, copy, QUERIES[:10])


@pytest.mark.parametrize("engine", [False, True])
def test_a_calibration_of_an_earlier_corpus_is_one_in_a_copy_too(engine):
    index = filled(UEC(members(words=False)).fit(pairs(100)))
    index.calibrate(TEXTS[:40], [[f"t{i}"] for i in range(40)])
    index.add(["something new"], ["new"])
    copy, _ = copy_index(index, QdrantStore(location=":memory:") if engine else MemoryStore())
    assert copy.calibration == index.calibration
    with pytest.warns(UserWarning, match="index has changed since it was calibrated"):
        copy.search(QUERIES[:2])


ENGINES = ["memory", "qdrant in memory", "postgres", "qdrant's engine"]


@pytest.fixture
def make(tmp_path):
    made = []

    def make(kind):
        made.append(KINDS[kind](tmp_path / str(len(made))))
        made[-1].bind("one ensemble")
        return made[-1]

    yield make
    for store in made:
        close(store)


WAYS = [
    *(("memory", to, True) for to in ENGINES),
    *((of, "memory", False) for of in ENGINES),
    ("qdrant in memory", "postgres", True),
    ("postgres", "qdrant's engine", False),
]


@pytest.mark.parametrize(("of", "to", "factored"), WAYS)
def test_every_store_goes_into_others_unchanged(make, of, to, factored):
    source, target, stored = make(of), make(to), gaussians(0, 150, factored)
    odd = {"ñ": [1, 2.5, None], "nested": {"b": 1, "a": "é"}, "big": 2**53, "one": 1.0}
    source.add(numbered(range(150), **odd), stored)
    told = []
    done = transfer(source, target, advance=told.append)
    assert (done.passages, done.written, done.others) == (150, 150, 0)
    assert sum(told) == 150
    assert checksum(source) == checksum(target) == done.checksum
    ids = [f"p{i}" for i in range(150)]
    assert target.get(ids) == source.get(ids)
    np.testing.assert_array_equal(target.vectors(ids).mean, stored.mean)
    np.testing.assert_array_equal(target.vectors(ids).scales, stored.scales)
    assert tuple(target.vectors(ids).widths) == tuple(stored.widths)


@pytest.mark.parametrize("to", ENGINES[:3])
def test_what_is_there_stays_and_what_differs_is_written_again(make, to):
    source, target, stored = make("memory"), make(to), gaussians(0, 60)
    source.add(numbered(range(60)), stored)
    target.add(numbered(range(40)), stored[list(range(40))])
    target.add(numbered([3], changed=True), stored[[3]])  # its metadata
    target.add(numbered([4]), stored[[5]])  # its vector
    target.add(numbered([99]), stored[[0]])  # not from the source
    done = transfer(source, target)
    assert (done.passages, done.written, done.others) == (60, 22, 1)
    assert transfer(source, target).written == 0
    target.delete(["p99"])
    assert checksum(target) == done.checksum


def test_a_checksum_is_of_every_part_and_of_no_order():
    stored, kept = gaussians(0, 4), numbered(range(4))
    one, other = MemoryStore(), MemoryStore()
    one.add(kept, stored)
    other.add(kept[::-1], stored[[3, 2, 1, 0]])
    assert checksum(one) == checksum(other) != checksum(MemoryStore())
    first = digests(kept, stored)
    changed = stored[[0, 1, 2, 3]]
    changed.mean[2, 1] += 1e-6
    assert [a == b for a, b in zip(first, digests(kept, changed), strict=True)] == [1, 1, 0, 1]
    kept[1] = Passage("p1", "text 1", {"third": True})
    assert [a == b for a, b in zip(first, digests(kept, stored), strict=True)] == [1, 0, 1, 1]


class Forgetful(MemoryStore):
    """Loses what it was given, as an engine that is written to by others may."""

    def add(self, passages, gaussians):
        super().add(passages, gaussians)
        self.delete([passages[-1].id])


class Changing(MemoryStore):
    """Loses a passage between two looks, as an engine that others write to may."""

    remote = True

    def vectors(self, ids):
        self.delete(["p7"])
        return super().vectors(ids)


def test_a_source_or_a_target_that_changes_is_noticed():
    source = MemoryStore()
    source.add(numbered(range(10)), gaussians(0, 10))
    with pytest.raises(RuntimeError, match="target: passage 'p9' differs from what was written"):
        transfer(source, Forgetful())
    changing = Changing()
    changing.add(numbered(range(10)), gaussians(0, 10))
    with pytest.raises(RuntimeError, match=r"source: it changed while it was copied .*'p7'"):
        transfer(changing, MemoryStore())


def test_a_copy_of_a_store_in_memory_is_of_the_moment_it_began(make):
    source, target, stored = make("memory"), make("memory"), gaussians(0, 1200)
    source.add(numbered(range(1200)), stored)
    expected = checksum(source)

    def write(count):
        source.add(numbered(range(400, 900), changed=True), gaussians(1, 500))
        source.delete(["p1"])

    done = transfer(source, target, advance=write)
    assert done.checksum == checksum(target) == expected != checksum(source)
    assert (done.passages, done.others, len(source)) == (1200, 0, 1199)


@pytest.mark.parametrize("of", ["qdrant in memory", "postgres", "qdrant's engine"])
@pytest.mark.parametrize("place", [0, 1199])
def test_a_source_in_an_engine_that_is_written_to_meanwhile_is_never_said_to_be_copied(
    make, of, place
):
    source, target, stored = make(of), make("memory"), gaussians(0, 1200)
    source.add(numbered(range(1200)), stored)
    written = []

    def write(count):
        if not written:
            written.append(count)
            source.add(numbered([place], changed=True), stored[[1]])

    with pytest.raises(RuntimeError, match=r"source: .* changed while it was copied"):
        transfer(source, target, advance=write)
    assert transfer(source, target).checksum == checksum(source) == checksum(target)


def test_addresses_lead_to_their_stores(tmp_path):
    folder = store_at(f"qdrant://{tmp_path}/passages")
    folder.add(numbered([1]), gaussians(0, 1))
    folder.close()
    again = store_at(f"qdrant://{tmp_path}/passages")
    assert len(again) == 1
    again.close()
    table = store_at(f"{in_postgres()}%20more")
    assert isinstance(table, PgVectorStore)
    assert table._collection.endswith(" more")
    table.close()
    asked = "options=-c%20maintenance_work_mem%3D77MB"
    settled = store_at(f"{in_postgres()}&{asked}")
    with settled._server.transaction() as connection:
        assert connection.execute("SHOW maintenance_work_mem").fetchone() == ("77MB",)
    settled.close()
    odd = store_at(f"{in_postgres()}&{asked}&connect_timeout=7")  # in the middle
    assert odd._collection.startswith("test")
    assert "connect_timeout=7" in odd._server.place
    odd.close()
    for wrong in ("ftp://host/a", "qdrant://host:6333", "qdrant://host:6333/a/b", "qdrant:///"):
        with pytest.raises(ValueError, match="expected"):
            store_at(wrong)
