"""An embedding service: what it is sent, once, in calls that it takes, and who waits for it."""

import asyncio
import threading
import warnings
from email.utils import formatdate

import numpy as np
import pytest
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import TextNode

from tests.contract.service import FakeClock, Refusal, Service, every
from tests.helpers import bag_of_words, data_of, index_of, labelled
from tests.index.test_learn import ASKED, TEXTS
from tests.index.test_updates import document
from uec_rag import UEC, EncoderFailed, Gate, Retriever, llama_index
from uec_rag.documents.generated_questions import pairs_from_passages
from uec_rag.encoders import BlackBoxEncoder, CachedEncoder, calls
from uec_rag.index import first_fit
from uec_rag.index.updates import replace_files
from uec_rag.langchain import UECRetriever, UECVectorStore
from uec_rag.stores.passage import Passage

pytestmark = pytest.mark.filterwarnings("ignore:This UEC is not fitted")
LONGEST = 60  # seconds that nothing takes
DOWN = Refusal(503, "Service Unavailable")


class Meeting:
    """A clock on which calls, after some that do not, sleep until a number of them is there."""

    def __init__(self, count, free=0):
        self.count, self.calls, self.free = count, 0, free
        self._there = threading.Condition()

    def monotonic(self):
        return 0.0

    def sleep(self, _):
        with self._there:
            self.calls += 1
            self._there.notify_all()
            is_met = lambda: self.calls >= self.free + self.count  # noqa: E731
            assert self.calls <= self.free or self._there.wait_for(is_met, LONGEST)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock on which nobody waits: the seconds that calls would have waited."""
    clock = FakeClock()
    monkeypatch.setattr(calls, "pause", clock.sleep)
    monkeypatch.setattr(calls, "now", clock.monotonic)
    return clock


@pytest.fixture
def service(clock):
    return Service(clock=clock)


def filled(service, **options):
    index = index_of(UEC([service, "bm25"]), TEXTS, **options)
    service.reset()
    return index


MADE = len(pairs_from_passages([Passage(str(at), text) for at, text in enumerate(TEXTS)]))
"""The questions of a fit on the texts."""


# The fit


def test_a_fit_on_pairs_embeds_each_of_their_texts_once_and_no_other(service):
    pairs = [(f"What of {number}?", f"Item {number} is on shelf {number}.") for number in range(40)]
    UEC([service, "bm25"]).fit(pairs)
    assert sorted(service.log) == sorted(text for pair in pairs for text in pair)


def test_questions_of_a_fit_are_embedded_eight_at_a_time(service):
    index = filled(service)
    service.clock = Meeting(8, free=1)  # after the answers
    index.search(ASKED[:1])
    assert index.uec.is_fitted
    assert service.at_once == 8


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_than_an_option_says(service, most):
    index = index_of(UEC([BlackBoxEncoder(service, max_concurrency=most), "bm25"]), TEXTS)
    service.clock = Meeting(most, free=1)
    index.search(ASKED[:1])
    assert service.at_once == most


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), ("two", TypeError)])
def test_the_option_is_checked(service, value, error):
    with pytest.raises(error, match="max_concurrency: expected"):
        BlackBoxEncoder(service, max_concurrency=value)


def test_a_batch_for_questions_is_one_call(service):
    class Batched(Service):
        def embed_queries(self, texts):
            return self.embed_documents(texts)

    batched = Batched(clock=service.clock)
    index = filled(batched)
    index.search(ASKED[:1])
    assert index.uec.is_fitted
    assert (batched.queries, batched.calls) == (0, 3)  # answers, questions, and that of the user


class Local(Embeddings):
    """An embedding that says nothing of services: its model is in this process."""

    def __init__(self, model):
        self._model, self.at_once = model, 0

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [float(len(text)), 1.0]


def test_a_model_in_this_process_is_called_by_one_thread_at_a_time():
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    model = Tokenizer(WordLevel({"a": 0}, unk_token="a"))
    assert BlackBoxEncoder(Local(model))._calls["query"].at_once == 1
    assert BlackBoxEncoder(Local(Local(model)))._calls["query"].at_once == 1  # below a cache
    assert BlackBoxEncoder(Local(None))._calls["query"].at_once == calls.AT_ONCE


def test_workers_of_llama_index_are_as_many_as_it_says():
    class Their(BaseEmbedding):
        def _get_query_embedding(self, query):
            return [1.0, 2.0]

        _get_text_embedding = _get_query_embedding

        async def _aget_query_embedding(self, query):
            return [1.0, 2.0]

    assert BlackBoxEncoder(Their(num_workers=2))._calls["query"].at_once == 2
    assert BlackBoxEncoder(Their())._calls["query"].at_once == calls.AT_ONCE


@pytest.mark.parametrize("step", [20, 5, 2])
@pytest.mark.parametrize("error", [DOWN, Refusal(429, "slow down"), TimeoutError("timed out")])
def test_a_fit_goes_on_where_a_call_has_failed(service, step, error):
    index, failing = filled(service), every(step, error)
    # Nine failures at most: threads may give all to one call, which is sent ten times and no more.
    service.fails = lambda number: failing(number) if number <= 9 * step else None
    index.fit_from()
    assert service.refusals
    assert len({*service.log}) == len(service.log)  # none was paid twice
    assert service.texts <= 2 * MADE


def test_what_a_fit_has_embedded_is_kept_for_the_next_try(service, monkeypatch):
    monkeypatch.setattr(first_fit, "_AGAIN", 0.0)
    index = filled(service)
    service.fails = lambda number: DOWN if number > 20 else None
    with pytest.warns(UserWarning, match="Searched without it"):
        [one] = index.search(ASKED[:1])
    assert (one.decision.code, index.uec.is_fitted) == ("uncertain", False)
    assert 0 < service.texts < 2 * MADE
    service.fails = lambda _: None
    index.search(ASKED[:1])
    assert index.uec.is_fitted
    assert len({*service.log}) == len(service.log)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_who_may_not_call_is_not_tried_again(service, status, clock):
    service.fails = lambda _: Refusal(status, "no")
    with pytest.raises(EncoderFailed, match=f"failed to embed 80 texts .*{status}"):
        index_of(UEC([service, "bm25"]), TEXTS[:80])
    assert (service.calls, clock.seconds) == (1, 0.0)


def test_a_user_does_not_wait_for_a_service_that_is_down(service, clock):
    index = filled(service, fit=False)
    service.fails = lambda _: DOWN
    with pytest.warns(UserWarning, match="Searched without it"):
        index.search(ASKED[:1])
    assert (service.calls, clock.seconds) == (1, 0.0)


def with_header(name, value):
    error = Refusal(429, "slow down")
    error.response = type("Response", (), {"headers": {name: value}, "status_code": 429})()
    return error


def wrapped(error):
    try:
        try:
            raise error
        except Refusal as cause:
            raise RuntimeError("the call failed") from cause
    except RuntimeError as outer:
        return outer


WAITS = [
    (Refusal(429, "slow down", 7.0), 7.0),
    (with_header("Retry-After", "7"), 7.0),
    (with_header("retry-after-ms", "7000"), 7.0),
    (with_header("retry-after", formatdate(0, usegmt=True)), 0.0),
    (Refusal(429, "Rate limit reached. Please try again in 7.0s."), 7.0),
    (ConnectionError("429 Too Many Requests: retry after 7 seconds"), 7.0),
    (ConnectionError("429: please wait 1m 15.5s."), 75.5),
    (ConnectionError("429: try again in 1m20s (limit 20)"), 80.0),
    (ConnectionError("429: retry in 1 minute and 5 secs"), 65.0),
    (ConnectionError("429: retry in 250ms, or later"), 0.25),
    (wrapped(Refusal(429, "slow down", 7.0)), 7.0),
    (Refusal(429, "slow down"), 1.0),
    (DOWN, 0.5),
]


@pytest.mark.parametrize(("error", "seconds"), WAITS)
def test_a_wait_is_as_long_as_the_error_says(service, clock, error, seconds):
    service.fails = lambda number: error if number == 1 else None
    index_of(UEC([service, "bm25"]), TEXTS[:4])
    assert (clock.seconds, service.calls) == (seconds, 2)


BUSY = Refusal(429, "Too Many Requests")
FAILURES = {
    "two of three calls": (0.0, lambda number: BUSY if number % 3 else None),
    "all but the first": (0.0, lambda number: BUSY if number > 1 else None),
    "with a time to wait": (0.0, lambda number: Refusal(429, "slow", 25.0) if number % 2 else None),
    "away": (0.0, lambda number: DOWN if number > 1 else None),
    "each after a while": (20.0, lambda number: DOWN if number % 2 else None),
}


@pytest.mark.parametrize(("seconds", "fails"), FAILURES.values(), ids=FAILURES)
def test_a_first_search_waits_two_minutes_at_most_and_is_uncertain_until_a_fit_is_made(
    service, clock, seconds, fails
):
    index = index_of(UEC([BlackBoxEncoder(service, max_concurrency=1), "bm25"]), TEXTS)
    service.reset()
    service.fails, service.seconds, start = fails, seconds, clock.seconds
    with pytest.warns(UserWarning, match="not fitted|failed"):
        decisions = index.search(ASKED).decisions
    assert clock.seconds - start <= 120 + 4 * seconds  # of calls that succeed before the first
    assert {decision.code for decision in decisions} <= {"uncertain"}
    service.fails = lambda _: None
    later = index.search(ASKED)
    assert not index.uec.is_fitted
    assert {decision.code for decision in later.decisions} == {"uncertain"}
    assert all("fitted to these documents" in decision.reason for decision in later.decisions)
    assert UECRetriever(vectorstore=UECVectorStore(index)).invoke(ASKED[0])


def test_waits_grow_and_end(service, clock):
    service.fails = lambda _: Refusal(429, "Too Many Requests")
    with pytest.raises(EncoderFailed, match="429"):
        index_of(UEC([service, "bm25"]), TEXTS[:4])
    assert (service.calls, clock.seconds) == (7, 1 + 2 + 4 + 8 + 16 + 32)


def test_nobody_waits_for_the_quota_of_tomorrow(service, clock):
    service.fails = lambda _: Refusal(429, "Too Many Requests", 3600.0)
    with pytest.raises(
        EncoderFailed, match=r"429.*asks to wait for 3,600 s, and 120 s are the most"
    ):
        index_of(UEC([service, "bm25"]), TEXTS[:4])
    assert (service.calls, clock.seconds) == (1, 0.0)


def test_a_text_that_is_too_long_is_named_by_its_passage_and_length(service):
    def strict(texts):
        if max(map(len, texts)) > 1_000:
            raise Refusal(400, "maximum context length is 256 tokens")
        return service.embed_documents(texts)

    texts = [*TEXTS[:9], "word " * 300, *TEXTS[9:12]]
    with pytest.raises(EncoderFailed, match=r"a text of 1,500 characters, 'word .*passage 'p9'"):
        index_of(UEC([strict, "bm25"]), texts)


def test_no_key_of_an_address_is_shown(service):
    service.fails = lambda _: Refusal(400, "400 for url 'https://host.org/v1/embed?key=s3cret'")
    with pytest.raises(EncoderFailed, match=r"for url .https:..host\.org.v1.embed.") as raised:
        index_of(UEC([service, "bm25"]), TEXTS[:4])
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("most", [10, 60])
def test_a_limit_of_calls_a_minute_is_kept(service, clock, most):
    index = filled(service)
    service.most_calls = most
    index.fit_from()  # which no user waits for
    assert index.uec.is_fitted
    assert service.texts <= 2 * MADE + 1
    assert clock.seconds >= 60 * (MADE // most - 1)


# The size of calls


@pytest.mark.parametrize("most", [64, 32, 10, 1])
def test_a_call_that_is_refused_for_its_size_is_halved_and_the_size_remembered(service, most):
    service.most_texts = most
    index = index_of(UEC([service, "bm25"]), TEXTS)
    assert (service.texts, len({*service.log})) == (len(TEXTS), len(TEXTS))
    refusals = service.refusals
    assert refusals
    index.search(ASKED[:1])
    assert index.uec.is_fitted
    assert service.refusals == refusals


REFUSALS = [
    Refusal(413, "Payload Too Large"),
    Refusal(400, "'input' must have at most 8 items"),
    Refusal(422, "batch size 80 > 8"),
    ValueError("Too many inputs: 80, the maximum is 8"),
    RuntimeError("you may send 8 or fewer texts"),
    ValueError("HTTP 400"),  # whatever it says
]


@pytest.mark.parametrize("error", REFUSALS, ids=str)
def test_whatever_a_service_says_of_it(clock, error):
    class Small(Service):
        def embed_documents(self, texts):
            if len(texts) > 8:
                self.refusals += 1
                raise error
            return super().embed_documents(texts)

    small = Small(clock=clock)
    index = index_of(UEC([small, "bm25"]), TEXTS[:32])
    assert (small.texts, clock.seconds) == (32, 0.0)
    before = small.refusals
    index.add(TEXTS[32:48])
    assert small.refusals == before


def test_a_text_that_is_too_long_makes_calls_no_smaller(service, clock):
    long = "long " * 50

    class Strict(Service):
        def embed_documents(self, texts):
            if long in texts:
                raise Refusal(400, "maximum context length is 40 tokens")
            return super().embed_documents(texts)

    strict = Strict(clock=clock)
    index = Retriever(UEC([strict, "bm25"]))
    with pytest.raises(
        EncoderFailed,
        match=r"failed to embed a text of 250 characters, .long .*maximum context length",
    ):
        index.add([*TEXTS[:32], long])
    strict.reset()
    index.add(TEXTS[32:64])
    assert strict.calls == 1


# Each text once

HALF = len(TEXTS) // 2


@pytest.mark.parametrize("kind", ["same", "other metadata", "other ids", "one among new"])
def test_no_text_that_is_there_is_embedded_again(service, kind):
    index = filled(service, fit=False)
    texts, ids = TEXTS[:HALF], [f"p{number}" for number in range(HALF)]
    fields = [{"author": "somebody", "source": "elsewhere.md"}] * HALF
    before = index.vectors(ids).mean
    new = 0
    match kind:
        case "same":
            index.add(texts, ids)
        case "other metadata":
            index.add(texts, ids, fields)
        case "other ids":
            index.add(texts, [f"q{number}" for number in range(HALF)], fields)
            ids = [f"q{number}" for number in range(HALF)]
        case _:
            index.add(["Another text.", texts[0]], ["new", "p0"])
            new = 1
    assert service.texts == new
    np.testing.assert_array_equal(index.vectors(ids).mean, before)
    if "other" in kind:  # whose words are counted again
        assert index.search(["elsewhere.md"], k=1).passages[0][0].metadata["author"] == "somebody"


def test_one_text_many_times_is_embedded_once(service):
    index = index_of(UEC([service, "bm25"]), ["The same text."] * 10)
    assert (service.texts, len(index)) == (1, 10)
    assert len({*map(bytes, index.vectors([f"p{n}" for n in range(10)]).mean)}) == 1


def test_headings_that_changed_are_another_text(service):
    index = index_of(UEC([service, "bm25"]), TEXTS[:2], metadatas=[{"title": "One"}] * 2)
    index.add(TEXTS[:2], ["p0", "p1"], [{"title": "One"}, {"title": "Two words"}])
    assert service.texts == 3


@pytest.mark.parametrize("between", [[], ["Something else."]])
def test_an_addition_that_failed_goes_on_and_nobody_pays_twice(service, between):
    texts = [f"Text {number} of many." for number in range(700)]
    index = Retriever(UEC([BlackBoxEncoder(service, max_concurrency=1), "bm25"]))
    service.fails = lambda number: DOWN if number >= 3 else None
    with pytest.raises(EncoderFailed, match="503"):
        index.add(texts)
    assert (len(index), service.texts) == (0, 512)
    service.fails = lambda _: None
    index.add(between)
    index.add(texts)
    assert len(index) == service.texts == 700 + len(between)


async def test_an_awaited_addition_that_is_cancelled_adds_nothing(service):
    """So that it can be tried again without ids."""
    begun, goes_on = threading.Event(), threading.Event()

    def embed(texts):
        begun.set()
        assert goes_on.wait(LONGEST)
        return service.embed_documents(texts)

    store = UECVectorStore(UEC([embed, "bm25"]))
    task = asyncio.create_task(store.aadd_texts(TEXTS[:9]))
    await asyncio.to_thread(begun.wait, LONGEST)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    goes_on.set()
    assert len(await store.aadd_documents([Document(text) for text in TEXTS[:9]])) == 9
    assert len(store.index) == 9


def test_the_same_for_a_second_model_that_fails(service, clock):
    other = Service(clock=clock, model="other")
    other.fails = lambda _: DOWN
    index = Retriever(UEC([service, other, "bm25"]))
    with pytest.raises(EncoderFailed, match="'other' failed"):
        index.add(TEXTS[:9])
    other.fails = lambda _: None
    index.add(TEXTS[:9])
    assert (service.texts, other.texts) == (9, 9)


# The cache


def cached(service, folder):
    return CachedEncoder(service, folder)


def test_a_cache_around_an_embedding(service, tmp_path):
    one = cached(service, tmp_path).encode(TEXTS[:5], "passage")
    assert service.texts == 5
    again = Service(clock=service.clock)
    other = cached(again, tmp_path).encode(TEXTS[:5], "passage")
    assert again.calls == 0
    np.testing.assert_array_equal(one.embedding, other.embedding)
    index = index_of(UEC([cached(again, tmp_path), "bm25"]), TEXTS[:5])
    assert again.calls == 0
    assert index.search(ASKED[:1]).ids[0]


def test_a_cache_keeps_what_came_before_a_failure(service, tmp_path):
    service.fails = lambda number: DOWN if number == 2 else None
    with pytest.raises(EncoderFailed):
        cached(service, tmp_path).encode([f"text {n}" for n in range(300)], "passage")
    again = Service(clock=service.clock)
    cached(again, tmp_path).encode([f"text {n}" for n in range(300)], "passage")
    assert service.texts + again.texts == 300 + 1  # one is compared


def test_a_cache_is_of_one_model(service, tmp_path):
    cached(service, tmp_path).encode(TEXTS[:5], "passage")

    class Service2(Service):
        def embed_documents(self, texts):
            return [[-v[1], v[0], *v[2:][::-1]] for v in super().embed_documents(texts)]

    Service2.__qualname__, Service2.__module__ = Service.__qualname__, Service.__module__
    with pytest.raises(ValueError, match="vectors of another model than 'service' makes now"):
        cached(Service2(clock=service.clock), tmp_path).encode(["new"], "passage")


def test_passages_of_a_changed_file_that_stay_are_not_embedded_again(service):
    index = Retriever(UEC([service, "bm25"]))
    replace_files(index, [document("a.md", "one", "two", "three")])
    replace_files(index, [document("a.md", "one", "two", "four")])
    assert sorted(passage.text.split()[-1] for passage in index.passages()) == [
        "four",
        "one",
        "two",
    ]
    assert service.texts == 4


# One wait a question

QUESTIONS = {
    "a follow-up": (["And on lamps?"], ["How long is the warranty on sofas?", "What colours?"]),
    "a double question": (["How long is the warranty on lamps, and how do I return a sofa?"], []),
    "its turns": (["How long does it last?"], ["I bought a lamp.", "Is there a warranty?"]),
    "two questions": ([f"How long is the warranty on {it}?" for it in ("lamps", "beds")], []),
}
SHOP = data_of("shop.json")["texts"]


def over_langchain(service, **options):
    store = InMemoryVectorStore(service)
    store.add_texts(SHOP)
    return UECRetriever.over(store, **options).index


def over_faiss(service, **options):
    return UECRetriever.over(FAISS.from_texts(SHOP, service), **options).index


class LlamaService(BaseEmbedding):
    """The same service for LlamaIndex."""

    _service: Service = PrivateAttr()

    def __init__(self, service):
        super().__init__(embed_batch_size=256)
        self._service = service

    def _get_query_embedding(self, query):
        return self._service.embed_query(query)

    def _get_text_embedding(self, text):
        return self._service.embed_documents([text])[0]

    def _get_text_embeddings(self, texts):
        return self._service.embed_documents(texts)

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


def over_llama_index(service, **options):
    nodes = [TextNode(text=text, id_=str(at)) for at, text in enumerate(SHOP)]
    index = VectorStoreIndex(nodes, embed_model=LlamaService(service))
    return llama_index.UECRetriever.over(index, **options).index


STORES = {
    "an index": lambda service, **options: index_of(UEC([service, "bm25"]), SHOP, **options),
    "LangChain's in memory": over_langchain,
    "FAISS": over_faiss,
    "LlamaIndex's": over_llama_index,
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("kind", QUESTIONS)
def test_all_texts_of_a_search_are_embedded_at_once(service, store, kind):
    texts, turns = QUESTIONS[kind]
    STORES[store](service, fit=False).search(texts, history=[turns] * len(texts))
    count = service.queries
    again = Service(clock=service.clock)
    index = STORES[store](again, fit=False)
    again.clock = Meeting(count)
    index.search(texts, history=[turns] * len(texts))  # which ends
    assert again.queries == count >= max(2, len(texts))


def test_the_candidates_of_all_ways_of_asking_are_read_once(service):
    store, reads = InMemoryVectorStore(service), []
    store.add_texts(SHOP)

    def vectors(ids):
        reads.append([*ids])
        return {id_: store.store[id_]["vector"] for id_ in ids}

    index = UECRetriever.over(store, vectors=vectors, fit=False).index
    texts, _ = QUESTIONS["a double question"]
    index.search(texts)
    reads.clear()
    index.search(texts)
    assert len(reads) == 1
    assert len({*reads[0]}) == len(reads[0])


# A service that is down


LISTED = {name: make for name, make in STORES.items() if name != "an index"}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("error", [DOWN, ConnectionError("refused"), Refusal(401, "no key")])
def test_while_a_service_is_down_words_find_and_nothing_is_answered(service, store, error):
    index = STORES[store](service, fit=False)
    service.fails = lambda _: error
    with pytest.warns(UserWarning, match="failed .*Searched without it"):
        [one] = index.search(["How long is the warranty on lamps?"])
    assert (one.decision.action, one.decision.code) == ("abstain", "uncertain")
    assert "failed, so it was searched without it" in one.decision.reason
    assert one.passages[0].text == "The warranty on lamps is two years."


def test_also_below_a_store_that_embeds_questions_itself(service):
    store = InMemoryVectorStore(service)
    store.add_texts(SHOP)
    index = UECRetriever.over(store, UEC([bag_of_words(16, "ours"), "bm25"]), fit=False).index
    service.fails = lambda _: DOWN
    with pytest.warns(UserWarning, match="failed to search .*503.* Searched without it"):
        [one] = index.search(["How long is the warranty on lamps?"])
    assert (one.decision.code, one.passages[0].text[:21]) == ("uncertain", "The warranty on lamps")


@pytest.mark.parametrize("store", LISTED)
def test_without_words_there_is_one_error_that_is_true(service, store):
    index = LISTED[store](service, words=False, fit=False)
    service.fails = lambda _: DOWN
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*Searched without it")
        with pytest.raises(EncoderFailed, match=r"failed to embed 1 texts .*503"):
            index.search(["How long is the warranty on lamps?"])


def test_a_defect_of_a_store_is_no_failure_of_its_embedding(service):
    class Broken(InMemoryVectorStore):
        def similarity_search_by_vector(self, *args, **kwargs):
            raise ValueError("no such column")

    store = Broken(service)
    store.add_texts(SHOP)
    with pytest.raises(ValueError, match="no such column"):
        UECRetriever.over(store, fit=False).index.search(["How long?"])


def test_an_index_loads_while_its_service_is_down(service, tmp_path):
    index_of(UEC([service, "bm25"]), SHOP).save(tmp_path / "idx")
    again = Service(clock=service.clock)
    again.fails = lambda _: DOWN
    with pytest.warns(UserWarning, match="Loaded without comparing"):
        index = Retriever.load(tmp_path / "idx", encoders={"service": again}, fit=False)
    with pytest.warns(UserWarning, match="Searched without it"):
        [one] = index.search(["How long is the warranty on lamps?"])
    assert one.passages[0].text == "The warranty on lamps is two years."
    again.fails = lambda _: None
    assert index.search(["How long is the warranty on lamps?"]).decisions[0].code != "uncertain"


def test_it_also_loads_with_the_ensemble_and_over_a_store(service, tmp_path):
    store = InMemoryVectorStore(service)
    store.add_texts(TEXTS)
    UECRetriever.over(store).fit_from([Document(text) for text in TEXTS]).save(tmp_path / "fit")
    index_of(UEC([service, "bm25"]), SHOP).save(tmp_path / "idx")
    service.fails = lambda _: DOWN
    again = Service(clock=service.clock)
    again.fails = lambda _: DOWN
    assert len(Retriever.load(tmp_path / "idx", UEC([again, "bm25"]))) == len(SHOP)
    with pytest.warns(UserWarning, match="Loaded without comparing"):
        over = UECRetriever.load(tmp_path / "fit", over=store, fit=False)
    assert over.index.uec.is_fitted
    with pytest.warns(UserWarning, match="Searched without it"):
        assert over.invoke(ASKED[0])


def test_a_gate_decides_while_the_service_is_down(service, tmp_path):
    index = filled(service)
    index.search(ASKED[:1])
    queries, relevant = labelled(TEXTS, 60)
    gate = Gate.from_labels(index, queries, relevant, max_wrong=0.3)
    index.gate = gate
    service.fails = lambda _: DOWN
    with pytest.warns(UserWarning, match="Searched without it"):
        [one] = index.search(ASKED[1:2])
    assert one.decision.code == "uncertain"
