"""Batching of queries that arrive at the same time, to encode and search them together."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from uec_rag.retrieval import Retriever, SearchResult
from uec_rag.retrieval.request import Query, texts_of
from uec_rag.server.access import Limits
from uec_rag.server.running import Metrics

TOGETHER = 64  # largest number of queries in a batch
BATCHES = 2  # in progress: one is encoded on all cores while another is searched for on one
_WAIT = 0.002  # seconds that a query waits for others if the previous batch had several


@dataclass(frozen=True, eq=False)
class WaitingQuery:
    """A question, and the future of its result.

    `turns`: the turns before the question. `within`: ids or label of the chosen reading.
    """

    text: str
    k: int
    filter: Mapping[str, Any] | None
    turns: Sequence[str] = ()
    within: Sequence[str] | str | None = None
    answer: asyncio.Future[SearchResult] = field(default_factory=asyncio.Future)
    came: float = field(default_factory=time.perf_counter)

    @property
    def batch_key(self) -> str:
        """A key that is equal for queries that one search can answer."""
        return json.dumps([self.k, self.filter, self.within], sort_keys=True)


class Batcher:
    """Answers queries in batches; each task that runs `run` processes one batch at a time.

    `limits`: `queue` is the number of queries that may wait. `together`: largest batch size.
    """

    def __init__(self, index: Retriever, metrics: Metrics, limits: Limits, together: int) -> None:
        self.index, self.metrics, self.together = index, metrics, together
        self._waiting: asyncio.Queue[WaitingQuery] = asyncio.Queue(limits.queue)

    async def search(self, query: WaitingQuery) -> SearchResult:
        """Return the result of one query.

        Raises asyncio.QueueFull if too many queries are waiting, and the errors of
        `Retriever.search`.
        """
        self._waiting.put_nowait(query)
        return await query.answer

    async def run(self) -> None:
        """Process batches until cancelled."""
        several = False
        while True:
            batch = [await self._waiting.get()]
            if several and self.together > 1:
                await asyncio.sleep(_WAIT)
            while len(batch) < self.together and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            several = len(batch) > 1
            for query, outcome in zip(batch, await self._answers(batch), strict=True):
                if query.answer.done():  # its request was cancelled
                    continue
                if isinstance(outcome, BaseException):
                    query.answer.set_exception(outcome)
                else:
                    query.answer.set_result(outcome)

    async def _answers(self, batch: Sequence[WaitingQuery]) -> list[SearchResult | Exception]:
        """Return results in the order of the queries; if a batch fails, retry each query alone."""
        begun = time.perf_counter()
        try:  # around everything, since an exception here would end the task that answers queries
            for query in batch:
                self.metrics.stages.labels("wait").observe(begun - query.came)
            self.metrics.batches.observe(len(batch))
            return [*await asyncio.to_thread(self._search, batch)]
        except Exception as error:
            if len(batch) == 1 or isinstance(error, OSError):  # an unreachable store fails for all
                return [error for _ in batch]
        return [outcome for query in batch for outcome in await self._answers([query])]

    def _search(self, batch: Sequence[WaitingQuery]) -> list[SearchResult]:
        retriever = self.index
        asked = [Query.parse(query.text, query.turns, query.within) for query in batch]
        different = texts_of(asked)
        with self.metrics.stages.labels("encode").time():
            parts = retriever.uec.encode(different, "query")
        results = dict[int, SearchResult]()
        for alike in {query.batch_key: None for query in batch}:
            rows = [row for row, query in enumerate(batch) if query.batch_key == alike]
            first = batch[rows[0]]
            with self.metrics.stages.labels("search").time():
                result = retriever.search_encoded(
                    [batch[row].text for row in rows],
                    parts,
                    first.k,
                    texts=different,
                    filter=first.filter,
                    history=[batch[row].turns for row in rows],
                    within=first.within,
                )
            for row, single in zip(rows, result, strict=True):
                results[row] = SearchResult([single])
        return [results[row] for row in range(len(batch))]
