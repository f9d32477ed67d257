"""Adding to a vector store and removing from it, as LangChain does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from uec_rag.langchain.documents import from_documents, from_texts, refuse_unknown, to_documents
from uec_rag.langchain.search import RetrieverSearch


class RetrieverAdding(RetrieverSearch):
    """The writing half of `UECVectorStore`: each method converts and hands to the `retriever`."""

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
            Left as they are; the store keeps copies. Those without text are left out, with a
            warning that names them: loaders make such of blank pages.
        ids : sequence of str, optional
            Instead of the documents' own. Where there is neither, one is made up.
        show_progress, **kwargs
            As in `add_texts`; so are what is returned and raised.
        """
        refuse_unknown(kwargs, "add_documents", "batch_size")
        added, blank = from_documents(documents, ids)
        self.retriever.delete(blank)
        return self.retriever.add(**added, show_progress=show_progress)

    async def aadd_documents(
        self,
        documents: Iterable[Document],
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """`add_documents` without blocking the event loop."""
        refuse_unknown(kwargs, "aadd_documents", "batch_size")
        added, blank = from_documents(documents, ids)
        self.retriever.delete(blank)
        return await self.retriever.aadd(**added)

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
