"""The ensemble as a LlamaIndex embedding."""

from __future__ import annotations

from functools import partial
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from pydantic import field_serializer

from uec_rag.encoders.base import Role
from uec_rag.ensemble import UEC
from uec_rag.retrieval.adapters import in_thread


class UECEmbedding(BaseEmbedding):
    """The mean vectors of an ensemble as a LlamaIndex embedding.

    Vectors have no variance. A `UECVectorStore` with the same ensemble nevertheless gets the
    variances, without encoding texts again (see `UEC.with_cache`). With another
    store, the search is a plain vector search.

    Parameters
    ----------
    uec : UEC, optional
        `UEC()` by default.
    **kwargs
        The parameters of every LlamaIndex embedding: `embed_batch_size`, `num_workers`,
        `embeddings_cache`, `callback_manager`, `rate_limiter`, `model_name`. An `embeddings_cache`
        stores vectors only; to avoid encoding twice, use `uec_rag.encoders.CachedEncoder`.

    Raises
    ------
    ValueError
        If `uec` is not an ensemble.

    Notes
    -----
    `to_dict` includes the fingerprint of the ensemble, which identifies it in the cache of a
    pipeline. To restore the embedding, pass the ensemble:
    ``UECEmbedding.from_dict(data, uec=uec)``.

    Examples
    --------
    Set up, with a function as the model; ``UEC()`` has one of its own:

    >>> def letters(texts):
    ...     return [[text.count(letter) + 1 for letter in "abc"] for text in texts]
    >>> embedding = UECEmbedding(uec=UEC([letters]))

    Embed:

    >>> [round(number, 3) for number in embedding.get_query_embedding("aba")]
    [0.802, 0.535, 0.267]
    """

    uec: UEC

    def __init__(self, uec: UEC | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs | {"uec": UEC() if uec is None else uec})
        if "model_name" not in kwargs:
            self.model_name = f"UEC({', '.join(self.uec.names)})"

    @classmethod
    def class_name(cls) -> str:
        """Return the name for serialisation."""
        return "UECEmbedding"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle for worker processes, which fails if the ensemble cannot be pickled."""
        options: dict[str, Any] = {
            "embed_batch_size": self.embed_batch_size,
            "num_workers": self.num_workers,
            "model_name": self.model_name,
        }
        return partial(type(self), **options), (self.uec,)

    @field_serializer("uec")
    def _dump(self, uec: UEC) -> str:
        return uec.fingerprint

    def _get_query_embedding(self, query: str) -> Embedding:
        return self._vectors([query], "query")[0]

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._vectors([text], "passage")[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return self._vectors(texts, "passage")

    _aget_query_embedding = in_thread(_get_query_embedding)
    _aget_text_embedding = in_thread(_get_text_embedding)
    _aget_text_embeddings = in_thread(_get_text_embeddings)

    def _vectors(self, texts: list[str], role: Role) -> list[Embedding]:
        parts = self.uec.with_cache().encode(texts, role)
        vectors: list[Embedding] = self.uec.fitted.combine_as(parts, role).mean.tolist()
        return vectors
