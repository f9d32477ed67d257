"""The ensemble as a LlamaIndex embedding, which is copied and sent to workers as JSON."""

from __future__ import annotations

import asyncio
import base64
import pickle
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from pydantic import field_serializer, field_validator

from uec_rag.base.gaussian import Gaussian, as_lists
from uec_rag.encoders.base import Role
from uec_rag.encoders.black_box import is_llama_index
from uec_rag.ensemble import UEC
from uec_rag.ensemble.known_vectors import aencode, encode
from uec_rag.retrieval import Retriever, plain


class UECEmbedding(BaseEmbedding):
    """The mean vectors of an ensemble as a LlamaIndex embedding.

    Vectors carry no variance. A `UECVectorStore` of the same ensemble gets the variances
    nevertheless, without encoding a text again (see `uec_rag.ensemble.known_vectors`); with another
    store, the index is a plain vector search.

    Parameters
    ----------
    uec : UEC, optional
        Or one that `to_dict` serialised; `UEC()` by default.
    **kwargs
        The parameters of every LlamaIndex embedding: `embed_batch_size`, `num_workers`,
        `embeddings_cache`, `callback_manager`, `rate_limiter`, `model_name`. An `embeddings_cache`
        stores vectors only; to avoid encoding twice, use `uec_rag.encoders.CachedEncoder`.

    Raises
    ------
    ValueError
        If uec is neither.

    Notes
    -----
    `to_dict` and `from_dict` include the fitted ensemble, and its encoders by name. If an encoder
    cannot be loaded by name (a callable, an API), pass the ensemble again:
    ``UECEmbedding.from_dict(data, uec=uec)``.

    Examples
    --------
    >>> def letters(texts):
    ...     return [[text.count(letter) + 1 for letter in "abc"] for text in texts]
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # not fitted
    ...     vector = UECEmbedding(uec=UEC([letters])).get_query_embedding("aba")
    >>> [round(number, 3) for number in vector]
    [0.802, 0.535, 0.267]
    """

    uec: UEC

    def __init__(self, uec: UEC | Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs | {"uec": UEC() if uec is None else uec})
        if "model_name" not in kwargs:
            self.model_name = f"UEC({', '.join(self.uec.names)})"

    @classmethod
    def class_name(cls) -> str:
        """Return the name in serialised form."""
        return "UECEmbedding"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it for worker processes; an ensemble that cannot be pickled is refused."""
        check_picklable(self.uec)
        options: dict[str, Any] = {
            "embed_batch_size": self.embed_batch_size,
            "num_workers": self.num_workers,
            "model_name": self.model_name,
        }
        return partial(type(self), **options), (self.uec,)

    @field_validator("uec", mode="before")
    @classmethod
    def _restore(cls, value: object) -> object:
        return ensemble_from_dict(value) if isinstance(value, Mapping) else value

    @field_serializer("uec")
    def _dump(self, uec: UEC) -> dict[str, str]:
        return ensemble_to_dict(uec)

    def _get_query_embedding(self, query: str) -> Embedding:
        return self._vectors([query], "query", encode(self.uec, [query], "query"))[0]

    async def _aget_query_embedding(self, query: str) -> Embedding:
        parts = await aencode(self.uec, [query], "query")
        return (await asyncio.to_thread(self._vectors, [query], "query", parts))[0]

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._get_text_embeddings([text])[0]

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return (await self._aget_text_embeddings([text]))[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return self._vectors(texts, "passage", encode(self.uec, texts, "passage"))

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        parts = await aencode(self.uec, texts, "passage")
        return await asyncio.to_thread(self._vectors, texts, "passage", parts)

    def _vectors(self, texts: list[str], role: Role, parts: list[Gaussian]) -> list[Embedding]:
        combined = self.uec.combine(parts, self.uec.coefficients(parts, role))
        return as_lists(combined.mean)


def as_ensemble(uec: UEC | BaseEmbedding | None) -> UEC:
    """Return the ensemble of a UEC, a `UECEmbedding`, any LlamaIndex embedding or None."""
    return plain.as_ensemble(
        uec,
        UECEmbedding,
        is_llama_index,
        argument="uec",
        expected="a UECEmbedding or a LlamaIndex embedding",
    )


def _packed(folder: Path) -> dict[str, str]:
    """Return the files of a folder as a mapping of path to base64."""
    return {
        file.relative_to(folder).as_posix(): base64.b64encode(file.read_bytes()).decode()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def _unpacked(data: Mapping[str, str], folder: Path) -> Path:
    """Write what `_packed` made into a folder; ValueError if a file would lie outside."""
    for name, content in data.items():
        file = (folder / name).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise ValueError(f"index: {name!r} lies outside its folder.")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(content))
    return folder


def ensemble_to_dict(uec: UEC) -> dict[str, str]:
    """Return what `UEC.save` writes, as JSON takes it."""
    with tempfile.TemporaryDirectory() as folder:
        uec.write(Path(folder))
        return _packed(Path(folder))


def ensemble_from_dict(data: Mapping[str, str]) -> UEC:
    """Rebuild an ensemble from `ensemble_to_dict`; ValueError as `UEC.load`."""
    with tempfile.TemporaryDirectory() as folder:
        return UEC.read(_unpacked(data, Path(folder)))


def index_to_dict(retriever: Retriever) -> dict[str, str]:
    """Return what `Retriever.save` writes, as JSON takes it; TypeError as there."""
    with tempfile.TemporaryDirectory() as folder:
        retriever.save(Path(folder) / "index")
        return _packed(Path(folder) / "index")


def index_from_dict(data: Mapping[str, str], uec: UEC | None = None, **options: Any) -> Retriever:
    """Rebuild an index from `index_to_dict`; options and errors as in `Retriever.load`."""
    with tempfile.TemporaryDirectory() as folder:
        return Retriever.load(_unpacked(data, Path(folder) / "index"), uec, **options)


def check_picklable(uec: UEC) -> None:
    """Raise pickle.PicklingError if an encoder cannot be pickled, which LlamaIndex would hide."""
    for encoder in uec.encoders:
        try:
            pickle.dumps(encoder)
        except Exception as error:
            raise pickle.PicklingError(
                f"uec: encoder {encoder.name!r} cannot be pickled ({error}). Expected one that is "
                "loaded by name, or a function at the top of a module; or save (UEC.save, "
                "UECVectorStore.persist) and load with encoders= in the other process."
            ) from error
