"""From texts to Gaussians: every encoder's own, and the ensemble's."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence

from uec_rag.base.checks import check_texts
from uec_rag.base.gaussian import Gaussian
from uec_rag.base.spans import span
from uec_rag.base.terms import Terms
from uec_rag.encoders import Encoder
from uec_rag.encoders.base import Role, WithoutVectors, check_role
from uec_rag.encoders.shared_tokens import shared_tokens
from uec_rag.encoders.verifier import Verifier
from uec_rag.ensemble.convolution import block_scales
from uec_rag.ensemble.faults import OnError, aencode_all, encode_all
from uec_rag.ensemble.fitted import blocks_of
from uec_rag.ensemble.fitted_properties import FittedProperties

_PLAIN = "This UEC is not fitted: variances are 0 and all encoders count alike, a plain ensemble."


class Encoding(FittedProperties):
    """What an ensemble makes of texts.

    Attributes
    ----------
    encoders : list of Encoder
    verifier : Verifier or None
    on_error : {"raise", "drop"}
    """

    encoders: list[Encoder]
    verifier: Verifier | None
    on_error: OnError
    _warned = False

    @property
    def dimension(self) -> int:
        """Dimension of `embed`'s Gaussians."""
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
                self.encoders,
                self.posteriors,
                checked,
                role,
                self.on_error,
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
        unheard = self.verifier is not None and self.fitted.verifier is None
        if self._warned or (self.is_fitted and not unheard):
            return
        self._warned = True
        said = [] if self.is_fitted else [_PLAIN]
        if unheard:
            said.append("The verifier is not asked: nobody has learned what its score is worth.")
        warnings.warn(
            " ".join([*said, "Call fit(pairs) with at least 32 (query, passage) pairs."]),
            UserWarning,
            stacklevel=4,
        )
