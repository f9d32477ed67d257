"""What is Qdrant's own: candidates, other writers, servers that go or refuse, and addresses."""

from contextlib import closing

import httpx
import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from tests.helpers import bag_of_words, data_of, index_of, pairs, passages, refused
from tests.stores.kinds import ENGINES, beside
from tests.stores.test_contract import QUERY, gaussians, numbered, search
from tests.stores.test_contract_words import asking, with_words
from uec_rag import UEC, FingerprintMismatch, Gaussian, Retriever
from uec_rag.base.similarity import moments, probit
from uec_rag.stores import LocalStore
from uec_rag.stores.qdrant import QdrantStore

every_engine = pytest.mark.parametrize("kind", ENGINES)


@every_engine
def test_the_order_is_that_of_an_exact_search_of_as_many_candidates_as_were_asked_for(store):
    some, orders = gaussians(0, 1000), []  # so unsure that the best are not the nearest
    stored = Gaussian.from_factors(some.mean, 100 * some.scales, some.profile, widths=some.widths)
    store.add(numbered(range(1000)), stored)
    mu, sigma2 = moments(QUERY, stored)
    scores = probit(mu, sigma2, 1.0)
    for store.candidates in (256, 20):
        near = np.argsort(-mu, axis=1)[:, : store.candidates]
        best = np.argsort(-np.take_along_axis(scores, near, axis=1), axis=1)[:, :5]
        found = search(store, QUERY, 5, beta=1.0)
        orders.append([[int(p.id[1:]) for p in row] for row in found.passages])
        assert orders[-1] == np.take_along_axis(near, best, axis=1).tolist()
    assert orders[0] != orders[1]


@every_engine
def test_who_had_it_open_when_other_encoders_took_the_place_is_told(store):
    """Before it searches, and before it writes its own beside theirs."""
    texts, ids = passages(20), [f"p{i}" for i in range(20)]
    first, other = (UEC([bag_of_words(24, name)]).fit(pairs(64)) for name in ("small", "large"))
    mine = index_of(first, texts, ids, store=store)
    mine.search(texts[:2], k=3)
    theirs = beside(store)
    theirs.delete(ids)
    Retriever(other, theirs).add(texts, ids)
    for call in (
        lambda: mine.search(texts[:2], k=3),
        lambda: mine.add(["something new"], ["new"]),
        lambda: mine.search(texts[:2], k=3),
    ):
        with pytest.raises(FingerprintMismatch, match="holds vectors of other encoders"):
            call()
    assert len(theirs) == 20


def test_a_collection_of_someone_else_is_refused():
    client = QdrantClient(":memory:")
    vectors = models.VectorParams(size=8, distance=models.Distance.COSINE)
    client.create_collection("theirs", vectors_config=vectors)
    store = QdrantStore(client=client, collection="theirs")
    for call in (lambda: len(store), lambda: store.add(numbered([1]), gaussians(0, 1))):
        with pytest.raises(ValueError, match="'theirs' exists and was not created by"):
            call()


@pytest.mark.parametrize(("given", "error", "message"), refused("QdrantStore"))
def test_what_cannot_be_opened_is_refused_naming_the_argument(given, error, message):
    with pytest.raises(error, match=message):
        QdrantStore(**given)


# Servers that go while they are asked or written to, or refuse.

ASKED = {
    "search": lambda store: search(store, asking(9, 2), 5, beta=1.0).scores.tolist(),
    "passages": lambda store: [passage.id for passage in store.passages({"third": True})],
    "sample": lambda store: store.sample(600)[0].embedding.tolist(),
    "vectors": lambda store: store.vectors(["p3", "p299"])[0].embedding.tolist(),
    "length": len,
}
CALLS = {
    **ASKED,
    "add": lambda store: store.add(numbered([7]), with_words(1, 1)),
    "delete": lambda store: store.delete(["p3"]),
}
GONE = ResponseHandlingException(ConnectionError("gone"))


def refusal(status, content=b"no"):
    return UnexpectedResponse(status, "", content, httpx.Headers())


class Client:
    """A client whose requests, by number and name, may fail as `fails` says."""

    def __init__(self):
        self._client, self.asked, self.fails = QdrantClient(":memory:"), [], lambda *_: None

    def __getattr__(self, name):
        def call(*arguments, **named):
            self.asked.append(name)
            if error := self.fails(len(self.asked), name):
                raise error
            return getattr(self._client, name)(*arguments, **named)

        return call

    def fail(self, error, after=0, times=10**6):
        """Fail so often, after some requests."""
        self.asked.clear()
        self.fails = lambda number, _: error if after < number <= after + times else None


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def filled(client):
    store = QdrantStore(client=client, api_key="s3cret")
    store.add(numbered(range(300)), with_words(0, 300))
    return store


@pytest.mark.parametrize("what", ASKED)
def test_a_server_that_goes_while_it_is_asked_is_an_error_and_never_a_part_of_an_answer(
    client, filled, what
):
    ASKED[what](filled)
    client.asked.clear()
    expected, requests = ASKED[what](filled), len(client.asked)
    for after in sorted({0, requests // 2, requests - 1}):
        client.fail(GONE, after)
        with pytest.raises(ConnectionError, match="does not answer"):
            ASKED[what](filled)
        client.fail(None)
        assert ASKED[what](filled) == expected


def all_that_is_said(error, caplog):
    """An error, what it is the context or the cause of, and the log."""
    said, left = [caplog.text], [error]
    while left:
        one = left.pop()
        if one is not None:
            said += [str(one), repr(one), *map(str, one.args), *getattr(one, "__notes__", ())]
            left += [one.__cause__, one.__context__]
    return "\n".join(said)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 503])
def test_what_a_server_refuses_is_said_by_every_method_without_the_key(
    client, filled, status, caplog
):
    for name, call in CALLS.items():
        client.fail(refusal(status, b"s3cret is the key"))
        message = rf"(?s)^store: Qdrant at '.*' .*refuses .*{status}.* api_key="
        with pytest.raises(ConnectionError, match=message) as caught:
            call(filled)
        assert "s3cret" not in all_that_is_said(caught.value, caplog), name
        client.fail(None)
        call(filled)


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(ConnectionError, match=r"http://127.0.0.1:9/uec_rag' does not answer"):
        len(QdrantStore(url="http://127.0.0.1:9"))


def test_a_collection_that_somebody_removed_is_no_empty_one(client, filled):
    client._client.delete_collection("uec_rag")
    for call in CALLS.values():
        with pytest.raises(ValueError, match="not found"):
            call(filled)


def test_the_frequencies_of_words_are_those_of_a_sample_of_now(client):
    store, texts = QdrantStore(client=client), [[5, i] for i in range(1500)]
    store.add(numbered(range(1500)), with_words(0, 1500, texts))
    QdrantStore(client=client).add(numbered(range(1500, 2500)), with_words(1, 1000, [[9]] * 1000))
    one = asking(9, 2)[[1]]
    view = store.fetch([""], one, 5)  # of the terms 5 and 6
    compared = view.compare([one.mean[:, :6], one.mean[:, 6:], *one.terms])
    rarities = compared.looked_up[0].idf.tolist()
    assert rarities == pytest.approx([np.log(2500 / 1500), np.log(2050)], abs=0.2)
    assert len(view) < view.corpus_size < 2500


# Keys, passwords and addresses.


@pytest.mark.filterwarnings("ignore:Api key is used")
@pytest.mark.parametrize("odd", ["", "@", "/", ":", "?#", "%2F", "\\", " ", "\n", "\ud800", "a1"])
@pytest.mark.parametrize("where", data_of("addresses.json"))
def test_a_secret_in_an_address_of_qdrant_is_refused_and_not_repeated(odd, where, caplog):
    address = where.format(f"s3cr{odd}3t")
    for given in ({"url": address}, {"location": address}):
        with pytest.raises(ValueError, match="expected") as caught:
            QdrantStore(**given)
        told = all_that_is_said(caught.value, caplog)
        assert "s3cr" not in told
        assert "3t" not in told


# A saved folder may come from a stranger: the engine that it names is not opened unasked.


@pytest.mark.parametrize("trust", [True, False])
@pytest.mark.parametrize(
    "noted",
    [
        {"store": "Qdrant", "address": "qdrant:///tmp/x"},
        {"store": "qdrant", "collection": "x", "path": "/tmp", "url": None},
        {"store": "cellar", "address": {"a": [None] * 999}},
        {"store": ["memory"]},
        ["qdrant:///tmp/x"],
    ],
)
def test_a_place_that_a_folder_names_is_not_opened(small, tmp_path, noted, trust):
    small.save(tmp_path / "gift")
    LocalStore(tmp_path / "gift").change_settings({"store": noted})
    with pytest.raises(ValueError, match=r"not opened just because a saved|names no store"):
        Retriever.load(tmp_path / "gift", small.uec, trust=trust)


def test_ones_own_index_is_opened_as_the_error_says(tmp_path):
    uec = UEC([bag_of_words(8, "bag")], coefficients="uniform")
    with closing(QdrantStore(path=tmp_path / "engine", collection="passages")) as store:
        index_of(uec, ["a text", "another text"], ["a", "b"], store=store).save(tmp_path / "index")
    with pytest.raises(ValueError, match=r"Retriever\.load\(path, store=\.\.\.\)") as said:
        Retriever.load(tmp_path / "index", uec)
    assert f"{tmp_path / 'engine'}/passages" in str(said.value)
    store = QdrantStore(path=tmp_path / "engine", collection="passages")
    with closing(Retriever.load(tmp_path / "index", uec, store=store)) as loaded:
        assert loaded.search(["a text"], k=1).ids == [["a"]]


def test_a_store_is_given_where_there_is_one_and_must_be_one(small, tmp_path):
    small.save(tmp_path / "index")
    with pytest.raises(
        ValueError, match="expected none: the folder has its own passages; omit store=, over="
    ):
        Retriever.load(tmp_path / "index", small.uec, store=LocalStore())
    with pytest.raises(TypeError, match=r"store: expected a store, .* got str") as said:
        Retriever.load(tmp_path / "index", small.uec, store="qdrant://me:secret@host/x")
    assert "secret" not in str(said.value)
