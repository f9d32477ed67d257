import json
import re
import sys
import threading
import warnings

import numpy as np
import pytest

from tests.helpers import LinearHead, bag_of_words, noise, passages
from uec_rag import UEC, Retriever
from uec_rag.encoders import BlackBoxEncoder, Encoded
from uec_rag.similarity import probit, score
from uec_rag.stores import MemoryStore

NUMERIC = ("scores", "mu", "sigma2", "relevance", "coefficients", "confidence")


@pytest.fixture(scope="module")
def texts(fit_pairs):
    return [passage for _, passage in fit_pairs]


@pytest.fixture(scope="module")
def queries(fit_pairs):
    return [query for query, _ in fit_pairs[:20]]


@pytest.fixture(scope="module")
def full(fitted, texts):
    """An index of two hundred passages; not to be written to."""
    retriever = Retriever(fitted)
    metadatas = [{"number": i, "even": i % 2 == 0} for i in range(len(texts))]
    retriever.add(texts, ids=[f"p{i}" for i in range(len(texts))], metadatas=metadatas)
    return retriever


@pytest.fixture
def small(fitted, texts):
    """An index of ten passages, p0 to p9, to be written to."""
    retriever = Retriever(fitted)
    retriever.add(texts[:10], ids=[f"p{i}" for i in range(10)])
    return retriever


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def assert_same(one, other):
    assert one.ids == other.ids
    assert one.passages == other.passages
    assert one.decisions == other.decisions
    assert (one.queries, one.names, one.exact) == (other.queries, other.names, other.exact)
    for name in NUMERIC:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# What a search returns


def test_the_right_passage_is_found_far_more_often_than_by_chance(full, queries):
    found = full.search(queries, k=3).ids
    assert np.mean([f"p{i}" in row for i, row in enumerate(found)]) > 0.3


def test_hits_are_ordered_by_the_score_that_their_moments_make(full, queries):
    result = full.search(queries, k=7)
    np.testing.assert_array_equal(result.scores, probit(result.mu, result.sigma2, full.uec.beta))
    assert (np.diff(result.scores, axis=1) <= 0).all()
    assert (result.sigma2 > 0).all()
    assert result.exact
    assert len(result) == len(result.ids) == 20
    assert result.queries == queries


@pytest.mark.parametrize("options", [{}, {"coefficients": "uniform"}, {"structure": "diag"}])
@pytest.mark.parametrize("beta", [0.0, 1.0, 100.0])
def test_the_hits_are_those_of_scoring_everything(
    encoders, fit_pairs, texts, queries, options, beta
):
    uec = UEC(encoders, beta=beta, **options).fit(fit_pairs)
    retriever = Retriever(uec)
    ids = retriever.add(texts)
    result = retriever.search(queries, k=10)
    query = uec.combine(uec.encode(queries, "query"), result.coefficients)
    scores = score(query, uec.embed(texts, "passage"), beta)
    best = np.sort(scores, axis=1)[:, :-11:-1]
    np.testing.assert_allclose(result.scores, best, rtol=1e-4, atol=1e-6)
    place = {id_: i for i, id_ in enumerate(ids)}
    found = np.array([[place[id_] for id_ in row] for row in result.ids])
    np.testing.assert_allclose(
        np.take_along_axis(scores, found, axis=1), best, rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("coefficients", ["evidence", "uniform", "trace", [1, 2, 3]])
def test_similarity_is_the_weighted_sum_of_the_encoders_own(
    encoders, fit_pairs, texts, queries, coefficients
):
    """mu_s = sum_k pi_k w_k s_k, with w_k the slope over the mean slope."""
    uec = UEC(encoders, coefficients=coefficients).fit(fit_pairs)
    retriever = Retriever(uec)
    retriever.add(texts, ids=[str(i) for i in range(200)])
    result = retriever.search(queries, k=5)
    slopes = np.array([summary.slope for summary in uec.report.encoders.values()])
    rows = np.array(result.ids, dtype=int)
    expected = np.zeros((20, 5))
    for k, encoder in enumerate(uec.encoders):
        q = encoder.encode(queries, "query").embedding
        c = encoder.encode(texts, "passage").embedding
        own = np.take_along_axis(q @ c.T, rows, axis=1)
        expected += result.coefficients[:, [k]] * slopes[k] / slopes.mean() * own
    np.testing.assert_allclose(result.mu, expected, atol=1e-5)
    np.testing.assert_allclose(result.coefficients.sum(axis=1), 1, rtol=1e-5)


def test_where_there_is_no_variance_the_ranking_is_that_of_the_cosine(texts, queries):
    embed = bag_of_words(64, "plain")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        retriever = Retriever(UEC([embed], beta=5.0))
        retriever.add(texts, ids=[str(i) for i in range(200)])
        result = retriever.search(queries, k=10)
    cosine = unit(embed(queries)) @ unit(embed(texts)).T
    assert result.ids == [[str(i) for i in row] for row in np.argsort(-cosine, axis=1)[:, :10]]
    np.testing.assert_allclose(result.scores, -np.sort(-cosine, axis=1)[:, :10], atol=1e-6)
    assert (result.sigma2 == 0).all()


def test_of_two_passages_as_similar_the_more_certain_one_comes_first(fit_pairs):
    """One differs from the query in a direction that fitting has seen, the other in a new one."""
    place = {"query": ([0], [1.0]), "usual": ([0, 1], [0.6, 0.8]), "strange": ([0, 8], [0.6, 0.8])}
    words = bag_of_words(8, "words")

    def embed(texts):
        vectors = np.zeros((len(texts), 9))
        for row, text in enumerate(texts):
            if text in place:
                columns, values = place[text]
                vectors[row, columns] = values
            else:
                vectors[row, :8] = words([text])[0]
        return vectors

    uec = UEC([embed], beta=0.0).fit(fit_pairs)
    retriever = Retriever(uec)
    retriever.add(["strange", "usual"], ids=["strange", "usual"])
    plain = retriever.search(["query"], k=2)
    assert plain.ids == [["strange", "usual"]]  # a tie
    assert plain.mu[0, 0] == plain.mu[0, 1]
    uec.beta = 1.0
    assert retriever.search(["query"], k=2).ids == [["usual", "strange"]]


def test_every_hit_carries_plain_metadata(full, queries):
    result = full.search(queries, k=4)
    for row in range(3):
        for rank in range(4):
            metadata = result.metadata(row, rank)
            assert json.loads(json.dumps(metadata)) == metadata
            assert list(metadata["uec_coefficients"]) == ["fine", "coarse", "head"]
            assert metadata["uec_score"] == pytest.approx(float(result.scores[row, rank]))
            assert 0 <= metadata["uec_relevance"] <= 1
            assert 0 <= metadata["uec_confidence"] <= 1
            assert metadata["uec_decision"] in ("answer", "clarify", "abstain")


def test_more_hits_than_passages_gives_all_of_them(small):
    result = small.search(["badero", "golugo"], k=50)
    assert [sorted(row) for row in result.ids] == [[f"p{i}" for i in range(10)]] * 2
    assert result.scores.shape == result.relevance.shape == (2, 10)


def test_an_empty_index_finds_nothing_and_abstains(fitted):
    result = Retriever(fitted).search(["badero", "golugo"], k=3)
    assert result.ids == [[], []]
    assert result.scores.shape == result.relevance.shape == (2, 0)
    assert result.confidence.tolist() == [0.0, 0.0]
    assert [decision.action for decision in result.decisions] == ["abstain"] * 2


def test_no_queries_give_an_empty_result(full):
    result = full.search([], k=3)
    assert (len(result), result.ids) == (0, [])
    assert result.coefficients.shape == (0, 3)


def test_one_query_gives_the_same_as_many(full, queries):
    many = full.search(queries, k=5)
    for row in (0, 7):
        alone = full.search(queries[row : row + 1], k=5)
        assert alone.ids[0] == many.ids[row]
        for name in NUMERIC:
            np.testing.assert_allclose(
                getattr(alone, name)[0], getattr(many, name)[row], rtol=1e-4, atol=1e-6
            )


def test_many_queries_are_searched_in_blocks_of_bounded_memory(full, queries, monkeypatch):
    whole, sizes = full.search(queries, k=5), []
    similarities = MemoryStore.similarities

    def recorded(store, blocks):
        sizes.append(len(blocks[0]))
        return similarities(store, blocks)

    monkeypatch.setattr(MemoryStore, "similarities", recorded)
    monkeypatch.setattr("uec_rag.retrieval._BLOCK", 3 * 200 * 4)  # three queries, 3 + 1 matrices
    blocks = full.search(queries, k=5)
    assert sizes == [3] * 6 + [2]
    assert blocks.ids == whole.ids
    assert len(blocks.decisions) == len(blocks.queries) == 20
    for name in NUMERIC:
        np.testing.assert_allclose(
            getattr(blocks, name), getattr(whole, name), rtol=1e-4, atol=1e-6
        )


async def test_searching_asynchronously_gives_the_same(full, queries):
    assert_same(await full.asearch(queries, k=5), full.search(queries, k=5))


@pytest.mark.parametrize(
    ("filter_", "keep"),
    [
        ({"even": True}, lambda number: number % 2 == 0),
        ({"even": True, "number": 8}, lambda number: number == 8),
        (lambda passage: passage.metadata["number"] < 5, lambda number: number < 5),
        ({"number": -1}, lambda number: False),
    ],
)
async def test_a_filter_leaves_only_what_it_lets_through(full, queries, filter_, keep):
    wanted = [number for number in range(200) if keep(number)]
    for result in (
        full.search(queries[:3], k=300, filter=filter_),
        await full.asearch(queries[:3], k=300, filter=filter_),
    ):
        assert [sorted(p.metadata["number"] for p in row) for row in result.passages] == [
            wanted
        ] * 3


class Roles(LinearHead):
    """An encoder that remembers the roles it was asked for."""

    def __init__(self):
        super().__init__()
        self.roles = []

    def encode(self, texts, role, *, show_progress=False):
        self.roles.append(role)
        return super().encode(texts, role)


@pytest.mark.filterwarnings("ignore:This UEC is not fitted")
def test_texts_are_embedded_as_passages_and_queries_as_queries():
    encoder = Roles()
    retriever = Retriever(UEC([encoder]))
    retriever.add(["badero"])
    assert encoder.roles == ["passage"]
    retriever.search(["golugo"])
    assert encoder.roles == ["passage", "query"]


# Writing


def test_ids_are_made_up_where_none_are_given(fitted, texts):
    retriever = Retriever(fitted)
    ids = retriever.add(texts[:5])
    assert len(set(ids)) == len(retriever) == 5
    assert [p.text for p in retriever.get(ids)] == texts[:5]
    assert set(retriever.add(texts[:5])).isdisjoint(ids)
    assert len(retriever) == 10


def test_an_id_that_is_there_is_replaced_text_vector_and_metadata(small, texts):
    small.add(["tavone tavone tavone"], ids=["p3"], metadatas=[{"new": True}])
    assert len(small) == 10
    (passage,) = small.get(["p3"])
    assert (passage.text, passage.metadata) == ("tavone tavone tavone", {"new": True})
    assert small.search(["tavone"], k=1).ids == [["p3"]]
    np.testing.assert_array_equal(
        small.vectors(["p3"]).mean, small.uec.embed(["tavone tavone tavone"]).mean
    )


def test_what_is_deleted_is_not_found(small):
    assert small.delete(["p1", "p4", "unknown"]) == 2
    assert len(small) == 8
    assert small.get(["p1", "p2"])[0].id == "p2"
    assert {"p1", "p4"}.isdisjoint(small.search(["badero"], k=10).ids[0])
    with pytest.raises(KeyError, match="'p1' is not in the store"):
        small.vectors(["p1"])
    small.clear()
    assert (len(small), list(small.passages())) == (0, [])


def test_texts_of_any_length_and_in_any_script_are_kept_as_they_are(small):
    texts = ["x" * 100_000, "中文没有空格", "a\n\nb\u2028c", "🙂", "'; drop table passages; --"]
    ids = small.add(texts)
    assert [p.text for p in small.get(ids)] == texts


async def test_adding_asynchronously_gives_the_same(fitted, texts, queries):
    one, other = Retriever(fitted), Retriever(fitted)
    ids = one.add(texts, ids=texts, metadatas=[{"t": t} for t in texts])
    assert await other.aadd(texts, ids=texts, metadatas=[{"t": t} for t in texts]) == ids
    assert_same(one.search(queries), other.search(queries))


def test_metadata_is_copied(small):
    metadata = {"a": 1}
    small.add(["badero"], ids=["x"], metadatas=[metadata])
    metadata["a"] = 2
    assert small.get(["x"])[0].metadata == {"a": 1}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"texts": "one text"}, TypeError, "texts must be a list of strings, got one string"),
        ({"texts": ["a", ""]}, ValueError, "texts[1] is empty"),
        ({"texts": ["a", 3]}, TypeError, "texts[1] must be a string, got int"),
        ({"texts": ["a", "b"], "ids": ["1"]}, ValueError, "ids: expected 2, one per text, got 1"),
        (
            {"texts": ["a", "b"], "ids": ["1", "1"]},
            ValueError,
            "ids: '1' is given twice; expected distinct ids in one call",
        ),
        ({"texts": ["a"], "ids": [1]}, TypeError, "ids: expected non-empty strings, got 1"),
        ({"texts": ["a"], "ids": [""]}, TypeError, "ids: expected non-empty strings, got ''"),
        (
            {"texts": ["a"], "ids": "a"},
            TypeError,
            "ids: expected a list of strings, got one string",
        ),
        (
            {"texts": ["a"], "metadatas": []},
            ValueError,
            "metadatas: expected 1, one per text, got 0",
        ),
        (
            {"texts": ["a"], "metadatas": {"k": 1}},
            TypeError,
            "metadatas: expected a list of mappings",
        ),
        (
            {"texts": ["a"], "metadatas": ["k"]},
            TypeError,
            "metadatas[0]: expected a mapping, got str",
        ),
    ],
)
async def test_what_cannot_be_added_is_refused_and_changes_nothing(
    small, arguments, error, message
):
    with pytest.raises(error, match=re.escape(message)):
        small.add(**arguments)
    with pytest.raises(error, match=re.escape(message)):
        await small.aadd(**arguments)
    assert [p.id for p in small.passages()] == [f"p{i}" for i in range(10)]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"queries": "a question"}, TypeError, "queries must be a list of strings, got one string"),
        ({"queries": [""]}, ValueError, "queries[0] is empty"),
        ({"queries": [None]}, TypeError, "queries[0] must be a string, got NoneType"),
        ({"queries": ["a"], "k": 0}, ValueError, "k: expected an integer >= 1, got 0"),
        ({"queries": ["a"], "k": -3}, ValueError, "k: expected an integer >= 1, got -3"),
        ({"queries": ["a"], "k": 2.5}, TypeError, "k: expected an integer, got 2.5"),
        ({"queries": ["a"], "k": True}, TypeError, "k: expected an integer, got True"),
        ({"queries": ["a"], "filter": {"x": 1}}, KeyError, "no passage has the metadata key 'x'"),
        ({"queries": ["a"], "filter": "x"}, TypeError, "filter: expected a mapping of metadata"),
    ],
)
async def test_a_search_that_makes_no_sense_is_refused(full, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        full.search(**arguments)
    with pytest.raises(error, match=re.escape(message)):
        await full.asearch(**arguments)


def test_unknown_keyword_arguments_are_refused(full):
    with pytest.raises(TypeError, match="top_k"):
        full.search(["a"], top_k=3)
    with pytest.raises(TypeError, match="metadata"):
        full.add(["a"], metadata=[{}])


def test_one_string_is_no_list_of_ids(small):
    for call in (small.get, small.delete, small.vectors):
        with pytest.raises(TypeError, match="ids: expected a list of strings, got one string 'p1'"):
            call("p1")
    assert len(small) == 10


@pytest.mark.filterwarnings("ignore:This UEC is not fitted")
def test_an_encoder_that_fails_leaves_the_index_as_it_was():
    def moody(texts):
        if any("fail" in text for text in texts):
            raise ConnectionError("the service is down")
        return noise(texts)

    retriever = Retriever(UEC([moody]))
    retriever.add(["one", "two"], ids=["1", "2"])
    with pytest.raises(ConnectionError):
        retriever.add(["three", "fail"], ids=["3", "1"])
    assert [(p.id, p.text) for p in retriever.passages()] == [("1", "one"), ("2", "two")]


def test_passages_of_another_posterior_are_refused(small, encoders, fit_pairs):
    other = Retriever(UEC(encoders, seed=1).fit(fit_pairs), small.store)
    with pytest.raises(ValueError, match="another profile than the stored ones"):
        other.add(["badero"])
    assert len(small) == 10


@pytest.mark.filterwarnings("ignore:This UEC is not fitted")
def test_an_index_of_before_a_fit_is_not_mixed_with_vectors_of_after(encoders, fit_pairs, texts):
    uec = UEC(encoders)
    retriever = Retriever(uec)
    retriever.add(texts[:5])
    uec.fit(fit_pairs)
    for call in (retriever.search, retriever.add):
        with pytest.raises(ValueError, match=r"uec: it was fitted after these 5 passages"):
            call(["badero"])
    retriever.clear()
    retriever.add(texts[:5])
    assert (retriever.search(["badero"]).sigma2 > 0).all()


# Saving


def load(path, uec, **options):
    named = dict(zip(uec.names, uec.encoders, strict=True))
    return Retriever.load(path, encoders=named, **options)


def test_an_index_comes_back_with_the_same_hits_to_the_last_bit(full, queries, tmp_path):
    full.save(tmp_path / "index")
    for loaded in (
        load(tmp_path / "index", full.uec),
        Retriever.load(tmp_path / "index", full.uec),
    ):
        assert len(loaded) == len(full)
        assert list(loaded.passages()) == list(full.passages())
        assert_same(loaded.search(queries, k=10), full.search(queries, k=10))
        assert_same(
            loaded.search(queries, k=3, filter={"even": True}),
            full.search(queries, k=3, filter={"even": True}),
        )


@pytest.mark.filterwarnings("ignore:This UEC is not fitted")
@pytest.mark.parametrize(
    "make",
    [
        lambda encoders, pairs: UEC(encoders, structure="diag").fit(pairs),
        lambda encoders, pairs: UEC.paper([encoders[1], LinearHead(16)]).fit(pairs),
        lambda encoders, pairs: UEC(encoders),
    ],
    ids=["diag", "paper", "unfitted"],
)
def test_so_does_one_of_another_kind_of_ensemble(
    make, encoders, fit_pairs, texts, queries, tmp_path
):
    retriever = Retriever(make(encoders, fit_pairs))
    retriever.add(texts[:50])
    retriever.save(tmp_path / "index")
    loaded = load(tmp_path / "index", retriever.uec)
    assert_same(loaded.search(queries), retriever.search(queries))


def test_a_loaded_index_can_be_written_to_and_saved_over_itself(small, texts, tmp_path):
    small.save(tmp_path / "index")
    loaded = load(tmp_path / "index", small.uec)
    loaded.delete(["p0"])
    loaded.add(["tavone tavone"], ids=["new"])
    loaded.save(tmp_path / "index")
    again = load(tmp_path / "index", small.uec)
    assert [p.id for p in again.passages()] == [*(f"p{i}" for i in range(1, 10)), "new"]
    assert again.search(["tavone"], k=1).ids == loaded.search(["tavone"], k=1).ids == [["new"]]
    assert len(small) == 10


def test_an_empty_index_is_saved_too(fitted, tmp_path):
    Retriever(fitted).save(tmp_path / "index")
    assert len(load(tmp_path / "index", fitted)) == 0


def test_another_ensemble_is_refused(full, encoders, fit_pairs, tmp_path):
    full.save(tmp_path / "index")
    for other in (UEC(encoders), UEC(encoders, seed=1).fit(fit_pairs), UEC(encoders[:2])):
        with pytest.raises(ValueError, match=r"uec: its fingerprint .* is not that of the index"):
            Retriever.load(tmp_path / "index", other)


def test_an_index_of_black_boxes_asks_for_them(small, tmp_path):
    small.save(tmp_path / "index")
    with pytest.raises(ValueError, match=r"\['fine', 'coarse', 'head'\] cannot be loaded by name"):
        Retriever.load(tmp_path / "index")


@pytest.mark.parametrize(
    "file",
    [
        "store/mean.npy",
        "store/scales.npy",
        "store/passages.jsonl",
        "ensemble/uec.json",
        "index.json",
    ],
)
def test_a_truncated_file_is_not_loaded(small, tmp_path, file):
    small.save(tmp_path / "index")
    content = (tmp_path / "index" / file).read_bytes()
    (tmp_path / "index" / file).write_bytes(content[:-7])
    with pytest.raises(ValueError, match="truncated or was changed"):
        load(tmp_path / "index", small.uec)


def test_an_ensemble_is_no_index(fitted, tmp_path):
    fitted.save(tmp_path / "uec")
    with pytest.raises(ValueError, match="holds a saved UEC ensemble, expected a saved UEC index"):
        Retriever.load(tmp_path / "uec")
    with pytest.raises(FileExistsError, match="exists and is not a saved UEC index"):
        Retriever(fitted).save(tmp_path / "uec")


def test_a_save_that_fails_leaves_the_old_index(small, tmp_path):
    small.save(tmp_path / "index")
    small.add(["badero"], ids=["odd"], metadatas=[{"value": {1, 2}}])
    with pytest.raises(TypeError, match="metadata: passage 'odd' cannot be saved as JSON"):
        small.save(tmp_path / "index")
    assert len(load(tmp_path / "index", small.uec)) == 10
    assert [entry.name for entry in tmp_path.iterdir()] == ["index"]


def test_nothing_is_pickled(full, tmp_path):
    full.save(tmp_path / "index")
    for file in (f for f in tmp_path.rglob("*") if f.is_file()):
        assert file.suffix in (".json", ".jsonl", ".npy", ".safetensors")
        if file.suffix == ".npy":
            assert np.load(file, allow_pickle=False).dtype != object


# Threads


@pytest.mark.filterwarnings("ignore:This UEC is not fitted")
def test_searches_during_writes_always_find_one_whole_state():
    """The vector of a text is its number; twenty passages are replaced together, over and over.

    A search in between would find less than twenty, or hits whose text is not their vector's.
    """

    class Numbers(BlackBoxEncoder):
        def encode(self, texts, role, *, show_progress=False):
            angle = np.array([float(text.split()[0]) for text in texts]) / 1e4
            vectors = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
            return Encoded(vectors, vectors)

    retriever = Retriever(UEC([Numbers(noise, name="numbers")]), MemoryStore())
    ids = [str(i) for i in range(20)]
    stop, failures = threading.Event(), []

    def write(version):
        retriever.add([f"{100 * version + i} text" for i in range(20)], ids=ids)

    def read():
        try:
            while not stop.is_set():
                result = retriever.search(["0 zero"], k=30)
                assert sorted(result.ids[0]) == sorted(ids)
                numbers = np.array([float(p.text.split()[0]) for p in result.passages[0]])
                assert len({int(number) // 100 for number in numbers}) == 1
                np.testing.assert_allclose(result.mu[0], np.cos(numbers / 1e4), atol=1e-6)
        except BaseException as error:
            failures.append(error)
            stop.set()

    write(0)
    readers = [threading.Thread(target=read) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for reader in readers:
            reader.start()
        for version in range(1, 120):
            if stop.is_set():
                break
            write(version)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(interval)
    assert not failures


def test_an_index_is_saved_whole_while_it_is_written(small, tmp_path):
    stop = threading.Event()
    batches = [passages(10, seed=seed) for seed in range(4)]

    def write():
        version = 0
        while not stop.is_set():
            version += 1
            small.add(
                batches[version % 4],
                ids=[f"p{i}" for i in range(10)],
                metadatas=[{"version": version}] * 10,
            )

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            small.save(tmp_path / "index")
            loaded = load(tmp_path / "index", small.uec)
            found = list(loaded.passages())
            assert len(found) == 10
            assert len({p.metadata.get("version", 0) for p in found}) == 1
            np.testing.assert_array_equal(
                loaded.vectors([p.id for p in found]).mean,
                small.uec.embed([p.text for p in found]).mean,
            )
    finally:
        stop.set()
        writer.join()
