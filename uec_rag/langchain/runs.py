"""Retrieval that callbacks hear of, for many questions that are searched for together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForRetrieverRun,
    CallbackManager,
    CallbackManagerForRetrieverRun,
)
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig


@contextmanager
def retriever_runs(
    retriever: BaseRetriever,
    queries: Sequence[str],
    configs: Sequence[RunnableConfig],
    noted: Mapping[str, Any],
) -> Iterator[list[CallbackManagerForRetrieverRun]]:
    """Start a run of a retriever per query, and end all with an error if the block fails.

    Parameters
    ----------
    retriever : BaseRetriever
    queries : sequence of str
    configs : sequence of RunnableConfig
        One per query.
    noted : mapping
        What tracing notes of the runs.
    """
    runs = [
        CallbackManager.configure(**_heard_by(retriever, config, noted)).on_retriever_start(
            None, query, name=config.get("run_name") or retriever.get_name()
        )
        for query, config in zip(queries, configs, strict=True)
    ]
    try:
        yield runs
    except Exception as error:
        for run in runs:
            run.on_retriever_error(error)
        raise


@asynccontextmanager
async def aretriever_runs(
    retriever: BaseRetriever,
    queries: Sequence[str],
    configs: Sequence[RunnableConfig],
    noted: Mapping[str, Any],
) -> AsyncIterator[list[AsyncCallbackManagerForRetrieverRun]]:
    """`retriever_runs` without blocking the event loop."""
    runs = [
        await AsyncCallbackManager.configure(
            **_heard_by(retriever, config, noted)
        ).on_retriever_start(None, query, name=config.get("run_name") or retriever.get_name())
        for query, config in zip(queries, configs, strict=True)
    ]
    try:
        yield runs
    except Exception as error:
        for run in runs:
            await run.on_retriever_error(error)
        raise


def _heard_by(
    retriever: BaseRetriever, config: RunnableConfig, noted: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "inheritable_callbacks": config.get("callbacks"),
        "inheritable_tags": config.get("tags"),
        "local_tags": retriever.tags,
        "inheritable_metadata": {**(config.get("metadata") or {}), **noted},
        "local_metadata": retriever.metadata,
    }
