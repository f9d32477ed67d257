"""Encoders that expose nothing but vectors: functions, APIs, and embeddings of frameworks."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol, TypeGuard, cast, runtime_checkable

from uec_rag.base.checks import check_pickles
from uec_rag.base.errors import EncoderFailed, warn
from uec_rag.base.loops import waiting
from uec_rag.encoders.base import Encoded, IdentityHead, Role, check_vectors, prepare_texts
from uec_rag.encoders.sentence_transformer import lost_prompts

ACCEPTED = (
    "a hub name, a folder, 'pypi:NAME', 'bm25', a SentenceTransformer, a LangChain Embeddings, a "
    "LlamaIndex BaseEmbedding, a callable(list[str]) -> (n, d) array, or an Encoder"
)
"""The kinds of objects that `load_encoder` takes, for messages."""

_KINDS: dict[Role, str] = {"query": "queries", "passage": "passages"}
_RECENT = 64  # questions whose vectors are remembered
_BUGS = (AttributeError, ImportError, NameError, NotImplementedError, TypeError)  # no service's


@runtime_checkable
class LangChainEmbeddings(Protocol):
    """The two methods that make an object a LangChain `Embeddings`."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""

    def embed_query(self, text: str) -> list[float]:
        """Embed one query."""


@runtime_checkable
class LlamaIndexEmbedding(Protocol):
    """The two methods that make an object a LlamaIndex `BaseEmbedding`."""

    def get_text_embedding_batch(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""

    def get_query_embedding(self, query: str) -> list[float]:
        """Embed one query."""


def is_langchain(value: object) -> TypeGuard[LangChainEmbeddings]:
    """Return whether a value has the methods of LangChain's `Embeddings`."""
    return isinstance(value, LangChainEmbeddings) and not isinstance(value, type)


def is_llama_index(value: object) -> TypeGuard[LlamaIndexEmbedding]:
    """Return whether a value has the methods of LlamaIndex's `BaseEmbedding`."""
    return isinstance(value, LlamaIndexEmbedding) and not isinstance(value, type)


class BlackBoxEncoder(IdentityHead):
    """An encoder around anything that turns a list of strings into vectors.

    Its last layer is the identity on its output, so `features` is `embedding`. Its dimension is
    known after the first call; reading it earlier embeds one short text.

    Parameters
    ----------
    source
        A LangChain `Embeddings`, a LlamaIndex `BaseEmbedding` or a callable(list[str]) that
        returns an (n, d) array. Framework embeddings use their own query method.
    name
        By default the model name that a framework embedding carries, the function's `__name__`,
        or the class's name.

    Raises
    ------
    TypeError
        If source is none of these.

    Examples
    --------
    >>> def letters(texts):
    ...     return [[len(text), text.count("e")] for text in texts]
    >>> encoder = BlackBoxEncoder(letters)
    >>> encoder.name
    'letters'
    >>> encoder.encode(["three"], "passage").embedding.round(2)
    array([[0.93, 0.37]], dtype=float32)
    """

    revision = ""
    spec = None
    waits = True
    """True: the vectors may come from a service, while other encoders work."""

    def __init__(
        self,
        source: LangChainEmbeddings | LlamaIndexEmbedding | Callable[[list[str]], object],
        *,
        name: str | None = None,
    ) -> None:
        self.name = name or _name_of(source)
        self.source = source
        self._embed = _functions_of(source)
        self._dimension: int | None = None
        if is_langchain(source) or is_llama_index(source):
            _say_lost_prompts(source, self._embed)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the source and the name."""
        check_pickles(
            self.source,
            f"encoder: what {self.name!r} embeds with",
            "Define a function at the top of a module; or save the index, and load it where it is "
            f"needed, with encoders={{{self.name!r}: ...}}.",
        )
        return partial(BlackBoxEncoder, name=self.name), (self.source,)

    @property
    def dimension(self) -> int:
        """The dimension of the vectors."""
        if self._dimension is None:
            self.encode(["dimension"], "passage")
        assert self._dimension is not None
        return self._dimension

    def query_vector(self, text: str) -> Sequence[float]:
        """Return the vector of a question as the source makes it; a recent one costs no call."""
        [vector] = cast(Sequence[Sequence[float]], self._ask([text], "query"))
        return vector

    def _ask(self, texts: list[str], role: Role) -> object:
        """Return what the source makes of texts; EncoderFailed if it fails."""
        try:
            with waiting():
                return self._embed[role](texts)
        except _BUGS:
            raise
        except Exception as error:
            note = f"{type(error).__name__}: {str(error).strip():.200}"
            text = f"encoder: {self.name!r} failed to embed {len(texts)} texts ({note}); try again."
            raise EncoderFailed(text, self.name) from error

    def encode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Embed texts as queries or as passages.

        Raises
        ------
        TypeError, ValueError
            If texts, role or the returned vectors are invalid.
        EncoderFailed
            If the source fails.
        """
        checked = prepare_texts(texts, role)
        if not checked:
            return Encoded.empty(self.dimension, self.dimension)
        vectors, dimension = self._ask(checked, role), self._dimension
        embedding = check_vectors(
            vectors, rows=len(checked), encoder=self.name, dimension=dimension, texts=checked
        )
        self._dimension = embedding.shape[1]
        return Encoded(embedding, embedding)


def _name_of(source: object) -> str:
    if is_langchain(source) or is_llama_index(source):
        for attribute in ("model_name", "model"):
            value = getattr(source, attribute, None)
            if isinstance(value, str) and value not in ("", "unknown"):
                return value.rstrip("/").rpartition("/")[2]
        return type(source).__name__
    if isinstance(source, partial):
        return _name_of(source.func)
    name = getattr(source, "__name__", type(source).__name__)
    return "callable" if name == "<lambda>" else str(name)


def _functions_of(source: object) -> dict[Role, Callable[[list[str]], object]]:
    """Return the functions that embed queries and passages."""
    if is_langchain(source):
        return {"passage": source.embed_documents, "query": _one_by_one(source.embed_query)}
    if is_llama_index(source):
        embed_query = _one_by_one(source.get_query_embedding)
        return {"passage": source.get_text_embedding_batch, "query": embed_query}
    if callable(source) and not isinstance(source, type):
        return dict.fromkeys(("passage", "query"), source)
    raise TypeError(
        f"cannot make an encoder from {type(source).__name__} {source!r:.80}; expected {ACCEPTED}"
    )


def _say_lost_prompts(source: object, embed: dict[Role, Callable[[list[str]], object]]) -> None:
    lost = lost_prompts(source, embed)
    losses = " and ".join(
        f"{_KINDS[role]} without {repr(prompt) if prompt else f'the part for {_KINDS[role]}'}"
        for role, prompt in lost.items()
    )
    kind = "prompts" if any(lost.values()) else "of two"
    if losses:
        warn(
            f"{type(source).__name__} embeds {losses}, {kind} that its model has: pass the model "
            "itself, as in UEC([SentenceTransformer(name), 'bm25']), and fill anew what was "
            "filled without them."
        )


def _one_by_one(embed: Callable[[str], list[float]]) -> Callable[[list[str]], object]:
    recent = lru_cache(_RECENT)(embed)
    return lambda texts: [*map(recent, texts)]
