"""UEC: several encoders that answer together, each with its uncertainty."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from uec_rag.base.checks import check_beta, check_texts
from uec_rag.base.gaussian import Gaussian
from uec_rag.base.generations import reading, writing
from uec_rag.base.spans import span
from uec_rag.base.terms import Terms
from uec_rag.encoders import EMBEDDED, Backend, Encoder, EncoderLike, LastLayers, Precision
from uec_rag.encoders.base import Role, WithoutVectors, check_role, unique_names
from uec_rag.encoders.loading import load_encoders
from uec_rag.encoders.shared_tokens import shared_tokens
from uec_rag.ensemble.coefficients import CoefficientRule, make_rule
from uec_rag.ensemble.convolution import Space, block_scales
from uec_rag.ensemble.faults import OnError, aencode_all, encode_all
from uec_rag.ensemble.fitted import Fitted, blocks_of
from uec_rag.ensemble.fitted_properties import FittedProperties
from uec_rag.ensemble.options import PAPER, check_options
from uec_rag.laplace.likelihood import Likelihood
from uec_rag.laplace.pairs import Negatives
from uec_rag.laplace.posterior import Structure

if TYPE_CHECKING:
    from uec_rag.ensemble.fit import PairsLike


class UEC(FittedProperties):
    """An ensemble of embedding models whose embeddings are Gaussians.

    Parameters
    ----------
    encoders : sequence, optional
        Each a hub name, a folder, "pypi:NAME", a SentenceTransformer, a LangChain or LlamaIndex
        embedding, or a callable(list[str]) -> (n, d) array; or "bm25" for words, in the direct sum.
        Without any they are `uec_rag.encoders.EMBEDDED`, already fitted: that fit comes with the
        package, and `fit` replaces it. Any encoders that are given, these too, wait for `fit`, and
        so do options of how to fit.
    space : {"direct", "shared"}
        "direct" stacks the encoders' embeddings, whose dimensions may differ; "shared" averages
        them as the paper does.
    structure : {"kron", "diag"}
        Of the Laplace posterior over each last layer.
    coefficients : {"evidence", "trace", "standardised_trace", "uniform"}, weights or rule, optional
        How much each encoder counts in a query (in the shared space, in every text). By default
        "evidence" in the direct sum and "trace" in the shared space, which keeps no similarities
        of single encoders.
    temperature : float, optional
        T of "trace" (paper eq. 4), in the unit of raw traces, 1.5 by default; of
        "standardised_trace", in standard deviations over the fit's held-out queries, 1 by default.
    likelihood : {"pairs", "in_batch"}
        What the posterior is fitted on: labelled pairs, or the softmax over a batch's passages.
    negatives : {"hard", "random"}
        What a query's answer is told from: a random and a hard passage, or a random one alone.
    scaled : bool
        Whether a posterior's variance is scaled to the held-out pairs; else it is Laplace's own.
    last_layer : {"projection", "ffn", "auto"}
        Which layer the posterior is about; "ffn" needs a transformer with its weights at hand,
        "auto" takes "projection" where there is none, with a warning.
    beta : float
        How strongly sigma_s^2 lowers a score (paper eq. 6).
    device, dtype, batch_size, backend
        For the encoders that are loaded here: "cpu", "cuda", "mps", or several for a process each;
        "float32", "float16", "bfloat16"; texts at a time; "torch", "onnx", "onnx-int8" (also before
        a name, as in "onnx-int8:intfloat/e5-small-v2").
    seed : int
        Of the held-out split and the mining of negatives.
    on_error : {"raise", "drop"}
        Where an encoder fails on texts that others encode: with "drop" its coefficient is 0 there,
        as the log says, and under "uec_missing" the metadata of passages, which rank lower than
        they should until they are added again. Not saved; `fit` always raises.

    Attributes
    ----------
    encoders : list of Encoder
    fitted : Fitted
        What `fit` found, replaced as a whole by it; empty before.

    Raises
    ------
    ValueError, TypeError
        If there are no encoders or an option is not one of those above.

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

    def __init__(
        self,
        encoders: Sequence[EncoderLike] | None = None,
        *,
        space: Space = "direct",
        structure: Structure = "kron",
        coefficients: str | Sequence[float] | Mapping[str, float] | CoefficientRule | None = None,
        temperature: float | None = None,
        likelihood: Likelihood = "pairs",
        negatives: Negatives = "hard",
        scaled: bool = True,
        last_layer: LastLayers = "projection",
        beta: float = 1.0,
        device: str | Sequence[str] | None = None,
        dtype: Precision | None = None,
        batch_size: int = 32,
        backend: Backend = "torch",
        seed: int = 0,
        on_error: OnError = "raise",
    ) -> None:
        check_options(
            space=space,
            structure=structure,
            likelihood=likelihood,
            negatives=negatives,
            last_layer=last_layer,
            on_error=on_error,
        )
        strength = check_beta(beta)
        self.encoders: list[Encoder] = load_encoders(
            EMBEDDED if encoders is None else encoders,
            last_layer=last_layer,
            device=device,
            dtype=dtype,
            batch_size=batch_size,
            backend=backend,
        )
        self.structure: Structure = structure
        self.likelihood: Likelihood = likelihood
        self.negatives: Negatives = negatives
        self.scaled = scaled
        self.last_layer: LastLayers = last_layer
        self.seed = seed
        self.on_error: OnError = on_error
        names = unique_names([encoder.name for encoder in self.encoders])
        rule = make_rule(coefficients, names, temperature, space)
        self.fitted = Fitted(tuple(names), space, rule, strength)
        self._warned = False
        if encoders is None:
            from uec_rag.ensemble.shipped import with_shipped_fit

            self.fitted = with_shipped_fit(self.encoders, self.fitted, self.options)

    @classmethod
    def paper(cls, encoders: Sequence[EncoderLike], **options: Any) -> Self:
        """The paper as it is written.

        Shared space; diagonal posteriors over the last block's output layer, fitted on pairs with
        random negatives, their variance as Laplace gives it; softmax of minus the raw traces with
        T = 1.5; beta = 0.01. A model that cannot be looked into has its posterior over the
        projection on its output, with a warning.

        Parameters
        ----------
        encoders : sequence
            Of one dimension.
        **options
            What to choose otherwise, as in the constructor: ``likelihood="in_batch"`` is the
            authors' code, ``coefficients="standardised_trace"`` measures T in standard deviations.
        """
        return cls(encoders, **(PAPER | options))

    def __repr__(self) -> str:
        state = "fitted" if self.is_fitted else "not fitted"
        return f"UEC({self.names}, space={self.space!r}, coefficients={self.rule.name!r}, {state})"

    @property
    def dimension(self) -> int:
        """Dimension of `embed`'s Gaussians."""
        dimensions = [encoder.dimension for encoder in self.encoders]
        return sum(dimensions) if self.space == "direct" else dimensions[0]

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
        ImportError
            If laplace-torch is not installed: pip install "uec-rag[fit]".
        """
        from uec_rag.ensemble.fit import fit

        self.fitted = fit(
            self.encoders,
            self.fitted,
            pairs,
            structure=self.structure,
            likelihood=self.likelihood,
            negatives=self.negatives,
            scaled=self.scaled,
            seed=self.seed,
            show_progress=show_progress,
        )
        return self

    def embed(
        self, texts: Sequence[str], role: Role = "passage", *, show_progress: bool = False
    ) -> Gaussian:
        """Embed texts as Gaussians of the ensemble.

        Parameters
        ----------
        texts : sequence of str
        role : {"query", "passage"}
            Models prompt the two differently, and a query's coefficients follow the rule.
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
        """Each encoder's own Gaussians of the texts, in the order of `encoders`."""
        check_role(role)
        checked = check_texts(texts)
        self._warn_unfitted()
        with shared_tokens(), span("encode", texts=len(checked), role=role):
            encoded = encode_all(
                *(self.encoders, self.posteriors, checked, role, self.on_error),
                show_progress=show_progress,
            )
        return self.fitted.gaussians(encoded)

    async def aencode(self, texts: Sequence[str], role: Role) -> list[Gaussian]:
        """`encode` without blocking the event loop; encoders run side by side."""
        check_role(role)
        checked = await asyncio.to_thread(check_texts, texts)
        self._warn_unfitted()
        with shared_tokens(), span("encode", texts=len(checked), role=role):
            encoded = await aencode_all(
                self.encoders, self.posteriors, checked, role, self.on_error
            )
        return await asyncio.to_thread(self.fitted.gaussians, encoded)

    def embed_terms(self, texts: Sequence[str]) -> list[Terms]:
        """The sparse blocks of `embed` for passages, without a run of the models that give vectors.

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
        if not self.is_fitted and not self._warned:
            self._warned = True
            warnings.warn(
                "This UEC is not fitted: variances are 0 and all encoders count alike, a plain "
                "ensemble. Call fit(pairs) with at least 32 (query, passage) pairs.",
                UserWarning,
                stacklevel=4,
            )

    @property
    def fingerprint(self) -> str:
        """What stored vectors depend on: models, revisions, space and posterior, as a hash."""
        from uec_rag.ensemble.save import fingerprint

        return fingerprint(self.encoders, self.fitted, self.last_layer)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to a folder: safetensors and JSON; the encoders by name, not their weights.

        Raises
        ------
        FileExistsError
            If `path` is something else than a saved ensemble.
        BlockingIOError
            If another process is saving there.
        """
        from uec_rag.ensemble.save import KIND

        with writing(path, KIND) as folder:
            self.write(folder)

    def write(self, folder: Path) -> None:
        """Write the files of a saved ensemble into an existing folder, as a part of something else.

        Raises
        ------
        ValueError
            If the rule for the coefficients is not one of this package's.
        """
        from uec_rag.ensemble.save import write_ensemble

        write_ensemble(folder, self.encoders, self.fitted, self.options, self.last_layer)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        encoders: Mapping[str, EncoderLike] | None = None,
        device: str | None = None,
        trust: bool = False,
        verify: bool = True,
    ) -> Self:
        """Load a saved ensemble.

        Parameters
        ----------
        path : path
        encoders : mapping, optional
            Encoder name -> object, for those that no name on disk brings back (an API's, a
            callable), or to take a model from elsewhere.
        device : str, optional
            For the encoders that are loaded by name.
        trust : bool
            Fetch from the hub whatever models the folder names. Otherwise those that are on this
            machine already serve, embedded ones ("pypi:NAME"), and those that `UEC_TRUSTED` lists.
        verify : bool
            Compare every file's sha256 with what was saved, not the small ones' alone. Sizes are
            compared in any case.

        Raises
        ------
        FileNotFoundError
            If there is no saved ensemble.
        IndexCorrupted
            If it is not whole: see `uec_rag.IndexCorrupted`.
        FingerprintMismatch
            If an encoder is not the one that was saved.
        ValueError
            If an encoder has to be given, or is not to be fetched unasked.
        """
        from uec_rag.ensemble.save import KIND

        with reading(path, KIND, verify=verify) as folder:
            return cls.read(folder, encoders=encoders, device=device, trust=trust)

    @classmethod
    def read(
        cls,
        folder: Path,
        *,
        encoders: Mapping[str, EncoderLike] | None = None,
        device: str | None = None,
        trust: bool = False,
    ) -> Self:
        """Read the files that `write` wrote; parameters and errors as in `load`."""
        from uec_rag.ensemble.save import read_ensemble

        saved = read_ensemble(folder, encoders or {}, device, trust=trust)
        uec = cls(
            saved.encoders,
            coefficients=saved.fitted.rule,
            space=saved.fitted.space,
            **saved.options,
        )
        uec.fitted = saved.fitted
        return uec
