"""Encoders that expose nothing but vectors: functions, APIs, and embeddings of frameworks."""

import inspect
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from uec_rag.base.checks import check_k, check_pickles
from uec_rag.base.errors import EncoderFailed, NoDirection, warn
from uec_rag.base.loops import either
from uec_rag.base.progress import advance
from uec_rag.encoders.base import (
    Encoded,
    IdentityHead,
    Role,
    assemble,
    check_vectors,
    prepare_texts,
)
from uec_rag.encoders.calls import AT_ONCE, MOST_TEXTS, CallFailed, Calls, kind_of, said_by
from uec_rag.encoders.sentence_transformer import lost_prompts

ACCEPTED = (
    "a hub name, a folder, 'pypi:NAME', 'bm25', a SentenceTransformer, a LangChain Embeddings, a "
    "LlamaIndex BaseEmbedding, a callable(list[str]) -> (n, d) array, or an Encoder"
)
"""The kinds of objects that `load_encoder` takes, for messages."""

_KINDS: dict[Role, str] = {"query": "queries", "passage": "passages"}
_RECENT = 256  # questions whose vectors are remembered

# What embeds with an object of these packages runs its model in this process, which a second thread
# does not make faster, and may break: tokenizers and contexts are not shared.
_IN_PROCESS = frozenset(
    (
        *("fastembed", "gpt4all", "llama_cpp", "model2vec", "onnxruntime", "optimum"),
        *("sentence_transformers", "tensorflow", "tokenizers", "torch", "transformers", "uec_rag"),
    )
)
_DEPTH = 2  # how far inside an embedding another one is looked for, as below a cache


@runtime_checkable
class LangChainEmbeddings(Protocol):
    """The methods that make an object a LangChain `Embeddings`, or their awaited twins."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""

    def embed_query(self, text: str) -> list[float]:
        """Embed one query."""


@runtime_checkable
class LlamaIndexEmbedding(Protocol):
    """The methods that make an object a LlamaIndex `BaseEmbedding`, or their awaited twins."""

    def get_text_embedding_batch(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""

    def get_query_embedding(self, query: str) -> list[float]:
        """Embed one query."""


def _has(value: object, *methods: str) -> bool:
    """Return whether an object has all methods, or their awaited twins."""
    return not isinstance(value, type) and all(
        hasattr(value, method) or hasattr(value, f"a{method}") for method in methods
    )


def is_langchain(value: object) -> TypeGuard[LangChainEmbeddings]:
    """Return whether a value has the methods of LangChain's `Embeddings`."""
    return _has(value, "embed_documents", "embed_query")


def is_llama_index(value: object) -> TypeGuard[LlamaIndexEmbedding]:
    """Return whether a value has the methods of LlamaIndex's `BaseEmbedding`."""
    return _has(value, "get_text_embedding_batch", "get_query_embedding")


class BlackBoxEncoder(IdentityHead):
    """An encoder around anything that turns a list of strings into vectors.

    Its last layer is the identity on its output, so `features` is `embedding`. Its dimension is
    known after the first call; reading it earlier embeds one short text.

    A call that a service refuses for its size is halved, and the size is remembered. In a fit and
    an addition, a call that fails for a moment is sent again, after the wait that the service says.

    Parameters
    ----------
    source
        A LangChain `Embeddings`, a LlamaIndex `BaseEmbedding` or a callable(list[str]) that
        returns an (n, d) array. Framework embeddings use their own query method, for one question
        at a time unless they have `embed_queries`. Awaited methods may take the place of others.
    name
        By default the model name that a framework embedding carries, the function's `__name__`,
        or the class's name.
    max_concurrency
        Number of calls at the same time. By default 8; the `num_workers` of a LlamaIndex embedding;
        1 for a function, and for a model in this process.

    Raises
    ------
    TypeError
        If source is none of these, or max_concurrency is no whole number.
    ValueError
        If max_concurrency is below 1.

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
        max_concurrency: int | None = None,
    ) -> None:
        if max_concurrency is not None:
            check_k(max_concurrency, "max_concurrency")
        self.name = name or _name_of(source)
        self.source, self.max_concurrency = source, max_concurrency
        self._calls = _calls_of(source, max_concurrency or _concurrency_of(source))
        self._recent: dict[str, Any] = {}
        self._dimension: int | None = None
        if is_langchain(source) or is_llama_index(source):
            _say_lost_prompts(source, {role: calls.embed for role, calls in self._calls.items()})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the source and the name."""
        check_pickles(
            self.source,
            f"encoder: what {self.name!r} embeds with",
            "Define a function at the top of a module; or save the index, and load it where it is "
            f"needed, with encoders={{{self.name!r}: ...}}.",
        )
        make = partial(BlackBoxEncoder, name=self.name, max_concurrency=self.max_concurrency)
        return make, (self.source,)

    @property
    def dimension(self) -> int:
        """The dimension of the vectors."""
        if self._dimension is None:
            self.encode(["dimension"], "passage")
        assert self._dimension is not None
        return self._dimension

    def expect(self, dimension: int) -> None:
        """Take a dimension for that of the vectors, if it is not known, without a call."""
        self._dimension = self._dimension or dimension

    def query_vector(self, text: str) -> Sequence[float]:
        """Return the vector of a question as the source makes it; a recent one costs no call."""
        [(_, [vector])] = self._ask([text], "query")
        self._remember([text], [vector])
        return np.asarray(vector, dtype=np.float64).tolist()  # type: ignore[no-any-return]

    def _ask(self, texts: list[str], role: Role) -> Iterator[tuple[Sequence[int], Sequence[Any]]]:
        """Yield the positions of some texts with what the source makes of them, as it comes.

        EncoderFailed if the source fails.
        """
        recent = self._recent if role == "query" else {}
        places = [at for at, text in enumerate(texts) if text not in recent]
        if len(places) < len(texts):
            hits = [at for at, text in enumerate(texts) if text in recent]
            yield hits, [recent[texts[at]] for at in hits]
        if not places:
            return
        try:
            for rows, vectors in self._calls[role].run([texts[at] for at in places]):
                yield places[rows], vectors
        except CallFailed as failure:
            error, subject, mend = failure.error, f"{len(texts)} texts", "try again"
            is_of_text = kind_of(error) in ("refused", "lasting") and len(failure.texts) == 1
            if is_of_text and role == "passage":
                [text] = failure.texts
                subject = f"a text of {len(text):,} characters, {text!r:.60}"
                mend = "leave it out, or cut it"
            message = (
                f"encoder: {self.name!r} failed to embed {subject} ({said_by(error)}); {mend}."
            )
            raise EncoderFailed(message, self.name, failure.texts if is_of_text else ()) from error

    def _remember(self, texts: Sequence[str], vectors: Sequence[Any]) -> None:
        recent = {**self._recent, **dict(zip(texts, vectors, strict=True))}
        # Others may read the old one.
        self._recent = dict([*recent.items()][-_RECENT:])

    def pieces(self, texts: Sequence[str], role: Role) -> Iterator[tuple[Sequence[int], Encoded]]:
        """Yield the positions of some texts, prepared before, with their encodings, as these come.

        Raises the errors of `encode`, once what else there is was yielded.
        """
        distinct, failures = [*dict.fromkeys(texts)], list[NoDirection]()
        places = defaultdict[str, list[int]](list)
        for place, text in enumerate(texts):
            places[text].append(place)
        for rows, vectors in self._ask(distinct, role) if distinct else ():
            batch, width = [distinct[at] for at in rows], self._dimension
            try:
                vectors = _without_nulls(vectors, batch, width)
                unit = check_vectors(
                    vectors, rows=len(rows), encoder=self.name, dimension=width, texts=batch
                )
            except NoDirection as error:
                failures.append(error)
                continue
            self._dimension = unit.shape[1]
            if role == "query":
                self._remember(batch, vectors)
            if len(distinct) < len(texts):
                unit = unit.repeat([len(places[text]) for text in batch], axis=0)
            advance(len(unit))
            yield [place for text in batch for place in places[text]], Encoded(unit, unit)
        if failures:
            count = sum(error.count for error in failures)
            failure = min(failures, key=lambda error: places[error.text][0])
            row = places[failure.text][0]
            raise NoDirection(self.name, count, row, texts, is_null=failure.is_null)

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
        return assemble(self.pieces(checked, role))


def _without_nulls(vectors: Any, texts: Sequence[str], width: int | None) -> Any:  # noqa: ANN401
    """Return vectors of which each that is null, or has a null, is NaN: it has no direction."""
    is_empty = vectors is None or (isinstance(vectors, list | tuple) and not vectors)
    rows = [None] * len(texts) if is_empty else vectors
    if width is None or not isinstance(rows, list | tuple):
        return vectors
    nulls = [row is None or (isinstance(row, list | tuple) and None in row) for row in rows]
    lost = [math.nan] * width
    pairs = zip(rows, nulls, strict=True)
    return [lost if is_null else row for row, is_null in pairs] if any(nulls) else vectors


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


def _calls_of(source: object, at_once: int) -> dict[Role, Calls]:
    """Return what embeds queries and passages."""
    if is_langchain(source):
        embed, embed_query = _both(source, "embed_documents"), _both(source, "embed_query")
        query = Calls(lambda texts: [embed_query(texts[0])], at_once, 1)
        if _has(source, "embed_queries"):
            query = Calls(_both(source, "embed_queries"), at_once)
        return {"passage": Calls(embed, at_once), "query": query}
    if is_llama_index(source):
        embed = _both(source, "get_text_embedding_batch")
        embed_query = _both(source, "get_query_embedding")
        # It cuts what it is given, and sends one part after the other.
        size = getattr(source, "embed_batch_size", None) if at_once > 1 else None
        passage = Calls(embed, at_once, size if isinstance(size, int) else MOST_TEXTS)
        return {
            "passage": passage,
            "query": Calls(lambda texts: [embed_query(texts[0])], at_once, 1),
        }
    if callable(source) and not isinstance(source, type):
        calls = Calls(_awaited(source), at_once)
        return {"passage": calls, "query": calls}
    raise TypeError(
        f"cannot make an encoder from {type(source).__name__} {source!r:.80}; expected {ACCEPTED}"
    )


def _both(source: object, method: str) -> Callable[..., Any]:
    """Return a method, in place of which its awaited twin is called if it is refused."""
    call, acall = (getattr(source, name, _missing) for name in (method, f"a{method}"))
    return call if acall is _missing else either(call, acall)


def _missing(*_: object) -> Any:  # noqa: ANN401
    raise NotImplementedError


def _awaited(function: Callable[[list[str]], Any]) -> Callable[[list[str]], Any]:
    call = getattr(function, "__call__", function)  # noqa: B004
    is_awaited = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    return either(_missing, function) if is_awaited else function


def _concurrency_of(source: object) -> int:
    """Return how many calls an embedding takes at the same time."""
    is_framework = is_langchain(source) or is_llama_index(source)
    if not is_framework or _is_in_process(source, _DEPTH):
        return 1
    workers = getattr(source, "num_workers", None)
    return workers if isinstance(workers, int) and workers > 0 else AT_ONCE


def _is_in_process(holder: object, depth: int) -> bool:
    """Return whether an embedding holds a model that runs in this process, or another that does."""
    state = {**getattr(holder, "__dict__", {})}
    state |= getattr(holder, "__pydantic_private__", None) or {}
    for value in state.values():
        roots = {cls.__module__.partition(".")[0] for cls in type(value).__mro__}
        if not _IN_PROCESS.isdisjoint(roots):
            return True
        is_inner = depth > 0 and (is_langchain(value) or is_llama_index(value))
        if is_inner and _is_in_process(value, depth - 1):
            return True
    return False


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
