"""While an index is fitted, nothing waits for it but its own first searches."""

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from tests.helpers import bag_of_words, beside, index_of, python
from tests.index.test_learn import ASKED, TEXTS
from tests.ways import WAYS
from uec_rag import UEC, Gate, Retriever, llama_index
from uec_rag.langchain import UECRetriever, UECVectorStore
from uec_rag.retrieval.search import LOG

pytestmark = pytest.mark.filterwarnings("ignore:This UEC is not fitted")
LONGEST = 60  # seconds that nothing takes


class Held:
    """A model that waits, in a fit, until it is let go; questions alone it embeds at once."""

    def __init__(self):
        self.begun, self.free, self.fits = threading.Event(), threading.Event(), 0
        self._words = bag_of_words(16, "held")
        self.free.set()

    def hold(self):
        self.free.clear()

    def __call__(self, texts):
        if len(texts) > 20 and not self.free.is_set():
            self.fits += 1
            self.begun.set()
            assert self.free.wait(LONGEST)
        return self._words(texts)


def held_index(**options):
    model = Held()
    index = index_of(UEC([model, "bm25"]), TEXTS, **options)
    model.hold()
    return model, index


@pytest.fixture
def other():
    """The index of another tenant, with a model of its own."""
    return index_of(UEC([bag_of_words(16, "other"), "bm25"]), [text.upper() for text in TEXTS])


def test_a_search_of_another_tenant_ends_while_a_fit_is_held(other):
    model, index = held_index()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(index.search, ASKED)
        assert model.begun.wait(LONGEST)
        assert other.search(ASKED).decisions  # its own first search, with its own fit
        assert other.uec.is_fitted
        assert not waiting.done()
        model.free.set()
        assert waiting.result(LONGEST).sigma2.all()


PLAIN = ("asearch", "UECRetriever", "UECGate", "LlamaIndex's UECRetriever")
AWAITED = {
    **{one: lambda i, ask=WAYS[one]: ask(i, i, Gate(0.3))(ASKED[0]) for one in PLAIN},
    "LangChain's store": lambda index: UECVectorStore(index).asimilarity_search(ASKED[0]),
    "its scores": lambda index: UECVectorStore(index).asimilarity_search_with_score(ASKED[0]),
    "its diversity": lambda index: UECVectorStore(index).amax_marginal_relevance_search(ASKED[0]),
    "LlamaIndex's store": lambda index: llama_index.UECVectorStore(index).aquery(
        llama_index.vector_store.VectorStoreQuery(query_str=ASKED[0], similarity_top_k=2)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", AWAITED)
async def test_who_awaits_a_fit_leaves_the_threads_of_the_event_loop_to_others(way, other):
    model, index = held_index()
    pool = ThreadPoolExecutor(2)
    asyncio.get_running_loop().set_default_executor(pool)
    searches = [asyncio.ensure_future(AWAITED[way](index)) for _ in range(6)]
    await asyncio.wait_for(asyncio.to_thread(model.begun.wait), LONGEST)
    assert await asyncio.to_thread(lambda: "another's work") == "another's work"
    assert (await other.asearch(ASKED[:1])).decisions
    assert not any(search.done() for search in searches)
    assert model.fits == 1
    model.free.set()
    assert all(await asyncio.gather(*searches))
    assert index.uec.is_fitted


async def test_who_stops_waiting_does_not_stop_the_fit():
    model, index = held_index()
    one, two = (asyncio.ensure_future(index.asearch(ASKED)) for _ in range(2))
    await asyncio.wait_for(asyncio.to_thread(model.begun.wait), LONGEST)
    one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one
    model.free.set()
    assert (await two).sigma2.all()


def test_two_retrievers_over_one_store_and_model_make_one_fit():
    model = Held()

    class Model(Embeddings):
        def embed_documents(self, texts):
            return model(texts).tolist()

        def embed_query(self, text):
            return model([text])[0].tolist()

    theirs = InMemoryVectorStore(Model())
    theirs.add_documents([Document(text, id=str(at)) for at, text in enumerate(TEXTS)])
    model.hold()
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(UECRetriever.over(theirs).invoke, ASKED[0]) for _ in range(2)]
        assert model.begun.wait(LONGEST)
        model.free.set()
        first, second = (one.result(LONGEST) for one in both)
    assert model.fits == 1
    assert [d.id for d in first] == [d.id for d in second]


def test_in_the_background_searches_are_uncertain_until_it_is_made_and_not_remembered(caplog):
    model, index = held_index(fit="background")
    asked = []
    index_view = index.with_gate(Gate(doubt=(0.0, 1.0), advisor=lambda *given: asked.append(given)))
    with caplog.at_level(logging.INFO, LOG.name):
        [found] = index.search(ASKED[:1])
        index_view.search(ASKED[:1])
    assert model.begun.wait(LONGEST)
    assert (found.decision.action, found.decision.code) == ("abstain", "uncertain")
    assert "still being fitted" in found.decision.reason
    assert ASKED[0] in found.passages[0].text
    assert not asked
    assert not [record for record in caplog.records if record.name == LOG.name]
    assert index.search(["Wie lange dauert es?"])[0].decision.reason.count("noch an diese") == 1
    index.gate = Gate(max_wrong=0.1)  # for which an ensemble without a fit is refused
    assert index.search(ASKED[:1])[0].decision.code == "uncertain"
    model.free.set()
    ended(index)
    [found] = index.search(ASKED[:1])
    assert "fitted" not in found.decision.reason
    assert found.decision.action == "answer"
    assert model.fits == 1


def ended(index):
    """Wait until the fit in the background has ended."""
    for thread in threading.enumerate():
        if thread.name == "uec-rag-fit":
            thread.join(LONGEST)
    assert index.uec.is_fitted


@pytest.mark.parametrize("made", ["in memory", "in a folder"])
def test_searches_and_additions_beside_a_swap_are_whole(made, tmp_path):
    model, index = held_index(fit="background")
    if made == "in a folder":
        index.save(tmp_path / "index")
    index.search(ASKED)
    assert model.begun.wait(LONGEST)
    numbers = iter(range(10**6))

    def search():
        found = index.search(ASKED[:2])
        assert [ASKED[at] in row[0].text for at, row in enumerate(found.passages)] == [True, True]

    with beside(search, lambda: index.add([f"one more {next(numbers)}"])):
        model.free.set()
        ended(index)
    found = index.search(["one more 0"])
    assert found.passages[0][0].text == "one more 0"
    assert found.sigma2.all()  # no vector is of the ensemble before the fit
    assert index.check() is None


def test_a_fit_whose_service_fails_is_tried_again_and_ends_no_search():
    model = bag_of_words(16, "service")
    broken = threading.Event()

    def service(texts):
        if broken.is_set():
            raise ConnectionError("429")
        return model(texts)

    index = index_of(UEC([service, "bm25"]), TEXTS)
    broken.set()
    with pytest.warns(UserWarning, match="'service' failed"):
        [found] = index.search(ASKED[:1])
    assert found.decision.code == "uncertain"
    broken.clear()
    assert not index.uec.is_fitted
    index._core.first_fit.not_before = 0.0  # a minute later
    index.search(ASKED)
    assert index.uec.is_fitted


def test_one_failed_call_of_a_service_is_repeated_within_the_fit():
    model, failures = bag_of_words(16, "limited"), []

    def limited(texts):
        if failures:
            raise failures.pop()
        return model(texts)

    index = index_of(UEC([limited, "bm25"]), TEXTS)
    failures.append(ConnectionError("429"))
    index.search(ASKED)
    assert not failures
    assert index.uec.is_fitted


ENDS = """
import sys, threading, time
from tests.helpers import LinearHead
from tests.index.test_learn import TEXTS
from uec_rag import UEC, Retriever

begun = threading.Event()

class Slow(LinearHead):
    def encode(self, texts, role):
        if threading.current_thread().name == "uec-rag-fit":
            begun.set()
            try:
                for _ in range(1000):
                    time.sleep(0.01)
            finally:
                print("the fit ended", flush=True)
        return super().encode(texts, role)

index = Retriever(UEC([Slow(), "bm25"]), fit="background")
index.add(TEXTS)
index.search(["What is the first?"])
assert begun.wait(60)
sys.exit(7)
"""


def test_a_process_that_ends_beside_a_fit_ends_it_first_and_with_its_own_code():
    """A thread that the interpreter ends within a model's library would abort the process."""
    ended = python(ENDS)
    assert (ended.returncode, ended.stdout) == (7, "the fit ended\n")


@pytest.mark.parametrize("wrong", ["later", None, 2, "true"])
def test_another_way_to_fit_is_refused(wrong):
    with pytest.raises(ValueError, match="fit: expected True, False or 'background', got"):
        Retriever(UEC(["bm25"]), fit=wrong)
