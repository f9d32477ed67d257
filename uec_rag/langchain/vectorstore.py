"""The ensemble's index as a LangChain `VectorStore`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from uec_rag.encoders import EncoderLike
from uec_rag.ensemble import UEC
from uec_rag.langchain.documents import from_documents, from_texts, refuse_unknown, to_documents
from uec_rag.langchain.embeddings import UECEmbeddings, as_ensemble
from uec_rag.langchain.search import RetrieverSearch
from uec_rag.retrieval import Retriever


class UECVectorStore(RetrieverSearch):
    """A vector store that knows the variance of every similarity.

    Drop-in for LangChain's `InMemoryVectorStore`: the same methods, with scores that are s_hat
    (higher is better), and `similarity_search_with_uncertainty` besides. Where a method takes no
    text but a vector, the query's own variance is unknown and taken as 0 (that of the passages
    still counts), and the encoders' weights are those the vector was made with, which were not
    chosen in the light of this corpus.

    Parameters
    ----------
    embedding : UEC, UECEmbeddings, Embeddings or Retriever
        With any other LangChain `Embeddings` this is a plain vector search, variance 0. A
        `uec_rag.retrieval.retriever.Retriever` is taken as it is, with the passages it holds.

    Attributes
    ----------
    retriever : Retriever
        The index behind it, which does the work.

    Raises
    ------
    TypeError
        If embedding is none of these.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> store = UECVectorStore(DeterministicFakeEmbedding(size=8))
    >>> store.add_texts(["cats purr", "dogs bark"], ids=["1", "2"])
    ['1', '2']
    >>> store.similarity_search("dogs bark", k=1)
    [Document(id='2', metadata={}, page_content='dogs bark')]
    """

    def __init__(self, embedding: UEC | Embeddings | Retriever) -> None:
        self.retriever = (
            embedding if isinstance(embedding, Retriever) else Retriever(as_ensemble(embedding))
        )

    def __repr__(self) -> str:
        return f"UECVectorStore({self.retriever!r})"

    @property
    def embeddings(self) -> UECEmbeddings:
        """The ensemble as `Embeddings`; its vectors fit the methods that take one."""
        return UECEmbeddings(self.retriever.uec)

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        show_progress: bool = False,
        **kwargs: Any,
    ) -> list[str]:
        """Embed and index texts; a text whose id is there already replaces the old one.

        Parameters
        ----------
        texts : iterable of str
        metadatas : sequence of mapping, optional
            One per text.
        ids : sequence of str, optional
            One per text, distinct; made up where None.
        show_progress : bool
        **kwargs
            Only `batch_size`, which LangChain's `index` passes to every store. It has no effect:
            encoders have their own.

        Returns
        -------
        list of str
            The ids.

        Raises
        ------
        TypeError, ValueError
            If a text is empty or not a string, an id comes twice, or the lengths differ.
        """
        refuse_unknown(kwargs, "add_texts", "batch_size")
        added = from_texts(texts, ids, metadatas)
        return self.retriever.add(**added, show_progress=show_progress)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """`add_texts` without blocking the event loop."""
        refuse_unknown(kwargs, "aadd_texts", "batch_size")
        return await self.retriever.aadd(**from_texts(texts, ids, metadatas))

    def add_documents(
        self,
        documents: Iterable[Document],
        ids: Sequence[str | None] | None = None,
        *,
        show_progress: bool = False,
        **kwargs: Any,
    ) -> list[str]:
        """Embed and index documents; one whose id is there already replaces the old one.

        Parameters
        ----------
        documents : iterable of Document
            Left as they are; the store keeps copies.
        ids : sequence of str, optional
            Instead of the documents' own. Where there is neither, one is made up.
        show_progress, **kwargs
            As in `add_texts`; so are what is returned and raised.
        """
        refuse_unknown(kwargs, "add_documents", "batch_size")
        added = from_documents(documents, ids)
        return self.retriever.add(**added, show_progress=show_progress)

    async def aadd_documents(
        self,
        documents: Iterable[Document],
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """`add_documents` without blocking the event loop."""
        refuse_unknown(kwargs, "aadd_documents", "batch_size")
        return await self.retriever.aadd(**from_documents(documents, ids))

    def delete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> bool:
        """Remove documents of those ids, or all where ids is None, as LangChain defines it.

        Ids that are not there are ignored. Returns True.
        """
        refuse_unknown(kwargs, "delete")
        if ids is None:
            self.retriever.clear()
        else:
            self.retriever.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents of those ids that are there, in the order asked."""
        return to_documents(self.retriever.get(ids))

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: UEC | Embeddings | Retriever,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a store and add texts; parameters as in the class and `add_texts`."""
        store = cls(embedding)
        store.add_texts(texts, metadatas, ids=ids, **kwargs)
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        embedding: UEC | Embeddings | Retriever,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """`from_texts` without blocking the event loop."""
        store = cls(embedding)
        await store.aadd_texts(texts, metadatas, ids=ids, **kwargs)
        return store

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], embedding: UEC | Embeddings | Retriever, **kwargs: Any
    ) -> Self:
        """Make a store and add documents; parameters as in the class and `add_documents`."""
        store = cls(embedding)
        store.add_documents(documents, **kwargs)
        return store

    @classmethod
    async def afrom_documents(
        cls, documents: Iterable[Document], embedding: UEC | Embeddings | Retriever, **kwargs: Any
    ) -> Self:
        """`from_documents` without blocking the event loop."""
        store = cls(embedding)
        await store.aadd_documents(documents, **kwargs)
        return store

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Save documents, vectors and ensemble to a folder, atomically: `Retriever.save`."""
        self.retriever.save(path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        embedding: UEC | Embeddings | None = None,
        *,
        encoders: Mapping[str, EncoderLike] | None = None,
        device: str | None = None,
    ) -> Self:
        """Load what `dump`, or `Retriever.save`, saved.

        Parameters
        ----------
        path : path
        embedding : UEC, UECEmbeddings or Embeddings, optional
            What the store was made with; by default the ensemble saved in the folder is loaded.
        encoders, device
            As in `UEC.load`.

        Raises
        ------
        FileNotFoundError, ValueError
            If the folder is not a whole saved index, or `embedding` is not what it was made with.
        """
        uec = None if embedding is None else as_ensemble(embedding)
        return cls(Retriever.load(path, uec, encoders=encoders, device=device))
