"""UEC: several encoders that answer together, each with its uncertainty."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from uec_rag.base.checks import check_beta, check_k
from uec_rag.base.generations import reading, writing
from uec_rag.encoders import (
    EMBEDDED,
    Backend,
    Encoder,
    EncoderLike,
    LastLayers,
    MemberLike,
    Precision,
    load_encoders,
)
from uec_rag.encoders.base import unique_names
from uec_rag.encoders.verifier import VerifierLike, load_verifier
from uec_rag.ensemble.coefficients import CoefficientRule, make_rule
from uec_rag.ensemble.convolution import Space
from uec_rag.ensemble.encoding import Encoding
from uec_rag.ensemble.faults import OnError
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.options import PAPER, check_options
from uec_rag.ensemble.verifier import VERIFY_K, Verification
from uec_rag.laplace.likelihood import Likelihood
from uec_rag.laplace.pairs import Negatives
from uec_rag.laplace.posterior import Structure

if TYPE_CHECKING:
    from uec_rag.ensemble.fit import PairsLike


class UEC(Encoding):
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
        they should until they are added again; a verifier that fails counts in none of the
        queries it was asked about. Not saved; `fit` always raises.
    verifier : optional
        What reads query and passage together and scores the pair: a CrossEncoder of
        sentence-transformers (a name, a folder or an object) or a callable(query, passages) ->
        scores. `fit` learns what its score is worth; before, it is not asked. Then its logit joins
        the sum over each query's first hits, which are ordered anew, and in confidence.
    verify_k : int
        How many hits it reads.

    Attributes
    ----------
    encoders : list of Encoder
    verifier : Verifier or None
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
        verifier: VerifierLike | None = None,
        verify_k: int = VERIFY_K,
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
        self.verifier = None
        if verifier is not None:
            check_k(verify_k, "verify_k")
            self.verifier = load_verifier(
                verifier, device=device, dtype=dtype, batch_size=batch_size
            )
        self.verify_k = verify_k
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
            verifier=self.verifier,
            verify_k=self.verify_k,
            show_progress=show_progress,
        )
        return self

    @property
    def verification(self) -> Verification | None:
        """The verifier with what was fitted of it; None where there is none, or before `fit`."""
        if self.verifier is None or self.fitted.verifier is None:
            return None
        return Verification(self.verifier, self.fitted.verifier, self.on_error)

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

        write_ensemble(
            folder,
            self.encoders,
            self.fitted,
            self.options,
            self.last_layer,
            self.verifier,
            self.verify_k,
        )

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
            Encoder name -> object, for those that no name on disk brings back (an API's, a
            callable), or to take a model from elsewhere; a verifier among them.
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
        TypeError
            If `encoders` is not a mapping.
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
            space=saved.fitted.space,
            verifier=saved.verifier,
            verify_k=saved.verify_k,
            **saved.options,
        )
        uec.fitted = saved.fitted
        return uec
