"""What is awaited leaves the event loop to others, however many texts it is given."""

import asyncio
import gc
import time

import numpy as np

from uec_rag import UEC
from uec_rag.encoders import CachedEncoder, load_encoder
from uec_rag.langchain import UECEmbeddings

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


def fresh(folder):
    """An ensemble that has seen no text yet."""
    name = str(len(list(folder.iterdir())))
    return UEC([CachedEncoder(load_encoder(remote), folder / name, revision="1"), Service()])


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


def taken(work, *arguments):
    """Seconds of processor time that it takes where nobody else waits."""
    before = time.thread_time()
    work(*arguments)
    return time.thread_time() - before


async def test_embedding_many_texts_holds_the_loop_for_an_instant_at_most(tmp_path):
    held = await longest_hold(UECEmbeddings(fresh(tmp_path)).aembed_documents(TEXTS))
    assert held < 0.15 * taken(UECEmbeddings(fresh(tmp_path)).embed_documents, TEXTS)
