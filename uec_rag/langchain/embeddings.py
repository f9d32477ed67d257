"""The ensemble as a LangChain `Embeddings`, and any LangChain `Embeddings` as an ensemble."""

from __future__ import annotations

import asyncio

from langchain_core.embeddings import Embeddings

from uec_rag.base.gaussian import as_lists
from uec_rag.encoders.black_box import is_langchain
from uec_rag.ensemble import UEC, plain


class UECEmbeddings(Embeddings):
    """The mean vectors of an ensemble, for whatever takes a LangChain `Embeddings`.

    A vector has no room for a variance: to search with uncertainty use `UECVectorStore` or
    `UECRetriever`. Passages' vectors have length 1. Queries' may differ from it where the weights
    of the encoders depend on the query; the inner product is then the similarity to use, and a
    cosine gives the same order.

    Parameters
    ----------
    uec : UEC

    Raises
    ------
    TypeError
        If uec is something else.

    Examples
    --------
    >>> def letters(texts):
    ...     return [[text.count(letter) + 1 for letter in "abc"] for text in texts]
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # not fitted
    ...     vector = UECEmbeddings(uec=UEC([letters])).embed_query("aba")
    >>> [round(number, 3) for number in vector]
    [0.802, 0.535, 0.267]
    """

    def __init__(self, uec: UEC) -> None:
        if not isinstance(uec, UEC):
            raise TypeError(
                f"uec: expected a UEC, got {type(uec).__name__}; make one with UEC([encoder, ...])."
            )
        self.uec = uec

    def __repr__(self) -> str:
        return f"UECEmbeddings({self.uec!r})"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""
        return as_lists(self.uec.embed(texts, "passage").mean)

    def embed_query(self, text: str) -> list[float]:
        """Embed one query."""
        vector: list[float] = self.uec.embed([check_text(text, "text")], "query").mean[0].tolist()
        return vector

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages without blocking the event loop."""
        return await asyncio.to_thread(as_lists, (await self.uec.aembed(texts, "passage")).mean)

    async def aembed_query(self, text: str) -> list[float]:
        """Embed one query without blocking the event loop."""
        gaussian = await self.uec.aembed([check_text(text, "text")], "query")
        vector: list[float] = gaussian.mean[0].tolist()
        return vector


def as_ensemble(embedding: UEC | Embeddings | None) -> UEC:
    """Return the ensemble that a UEC, a `UECEmbeddings` or any LangChain `Embeddings` stands for.

    None stands for `UEC()`. Other embeddings become an ensemble of one member that is not fitted: a
    plain vector search, variance 0.

    Raises
    ------
    TypeError
        If embedding is none of these.
    """
    return plain.as_ensemble(
        embedding,
        UECEmbeddings,
        is_langchain,
        argument="embedding",
        expected="a UECEmbeddings or a LangChain Embeddings object",
    )


def check_text(text: str, argument: str) -> str:
    """Return the text if it is one string that is not blank, else say which argument is wrong.

    Raises
    ------
    TypeError, ValueError
    """
    if not isinstance(text, str):
        raise TypeError(f"{argument}: expected a string, got {type(text).__name__} {text!r:.60}.")
    if not text or text.isspace():
        raise ValueError(f"{argument}: expected a text, got an empty one ({text!r}).")
    return text
