"""The ensemble as LangChain's embeddings."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from uec_rag.base.checks import check_text, check_type
from uec_rag.ensemble import UEC


class UECEmbeddings(Embeddings):
    """The mean vectors of an ensemble as a LangChain `Embeddings`.

    Vectors carry no variance: to search with uncertainty, use `UECVectorStore` or `UECRetriever`.
    Vectors of passages have length 1. Vectors of queries may not, if the encoders' weights depend
    on the query; then use the inner product (a cosine gives the same order).

    Parameters
    ----------
    uec : UEC, optional
        `UEC()` by default.

    Raises
    ------
    TypeError
        If uec is not a UEC.

    Examples
    --------
    Set up, with a function as the model; ``UEC()`` has one of its own:

    >>> def letters(texts):
    ...     return [[text.count(letter) + 1 for letter in "abc"] for text in texts]
    >>> embeddings = UECEmbeddings(uec=UEC([letters]))

    Embed:

    >>> [round(number, 3) for number in embeddings.embed_query("aba")]
    [0.802, 0.535, 0.267]
    """

    def __init__(self, uec: UEC | None = None) -> None:
        check_type(uec, UEC | None, "uec", "a UEC", "; make one with UEC([encoder, ...])")
        self.uec = UEC() if uec is None else uec

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""
        vectors: list[list[float]] = self.uec.embed(texts, "passage").mean.tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed one query."""
        vector: list[float] = self.uec.embed([check_text(text, "text")], "query").mean[0].tolist()
        return vector
