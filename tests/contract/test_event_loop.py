"""What is awaited leaves the event loop to others, however many texts it is given."""

import asyncio
import gc
import time

import numpy as np
import pytest

from uec_rag import UEC, Retriever
from uec_rag.encoders import CachedEncoder, load_encoder
from uec_rag.langchain import UECEmbeddings

pytestmark = pytest.mark.filterwarnings("ignore:This UEC is not fitted")

TEXTS = [f"passage number {i}" for i in range(20_000)]
VECTORS = np.random.default_rng(0).normal(size=(len(TEXTS), 64))


def remote(texts):
    return VECTORS[: len(texts)]


class Service:
    """Answers as APIs do, in lists."""

    model_name = "service"

    def embed_documents(self, texts):
        return VECTORS[: len(texts)].tolist()

    def embed_query(self, text):
        return VECTORS[0].tolist()

    async def aembed_documents(self, texts):
        return await asyncio.to_thread(self.embed_documents, texts)


@pytest.fixture
def uec(tmp_path):
    return UEC([CachedEncoder(load_encoder(remote), tmp_path, revision="1"), Service()])


async def longest_hold(work):
    """Seconds of processor time that the loop's own thread spent between two of its turns."""
    gc.collect()
    gc.freeze()  # a pass of the collector looks at what this work made, not at all tests' before
    held, before = [], time.thread_time()

    async def beat():
        nonlocal before
        while True:
            await asyncio.sleep(0.001)
            held.append(time.thread_time() - before)
            before = time.thread_time()

    heart = asyncio.create_task(beat())
    await asyncio.sleep(0.01)
    await work
    heart.cancel()
    gc.unfreeze()
    return max([*held, time.thread_time() - before])


async def test_embedding_many_texts_holds_the_loop_for_an_instant_at_most(uec):
    assert await longest_hold(UECEmbeddings(uec).aembed_documents(TEXTS)) < 0.05


async def test_so_does_indexing_them(uec):
    ids = [str(number) for number in range(len(TEXTS))]
    assert await longest_hold(Retriever(uec).aadd(TEXTS, ids)) < 0.05
