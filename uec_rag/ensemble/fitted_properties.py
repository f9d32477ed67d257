"""What an ensemble tells of what was fitted, by the names its users know."""

from __future__ import annotations

from collections.abc import Sequence

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.encoders.base import Role
from uec_rag.ensemble.coefficients import CoefficientRule
from uec_rag.ensemble.convolution import Space
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.options import OPTIONS
from uec_rag.ensemble.report import FitReport
from uec_rag.laplace.posterior import Posterior


class FittedProperties:
    """Read-only names for parts of `fitted`, and what it computes.

    Attributes
    ----------
    fitted : Fitted
    """

    fitted: Fitted

    @property
    def names(self) -> list[str]:
        """The encoders' names, made unique."""
        return list(self.fitted.names)

    @property
    def options(self) -> dict[str, object]:
        """How `fit` fits, as it is saved."""
        return {option: getattr(self, option) for option in OPTIONS}

    @property
    def space(self) -> Space:
        """Where the encoders' embeddings meet."""
        return self.fitted.space

    @property
    def rule(self) -> CoefficientRule:
        """How much each encoder counts in a text."""
        return self.fitted.rule

    @property
    def beta(self) -> float:
        """How strongly sigma_s^2 lowers a score."""
        return self.fitted.beta

    @property
    def posteriors(self) -> tuple[Posterior, ...] | None:
        """One per encoder; None before `fit`."""
        return self.fitted.posteriors

    @property
    def confidence_model(self) -> ConfidenceModel | None:
        """What turns logits into relevance and confidence, learned on the fit pairs."""
        verifier = self.fitted.verifier
        return self.fitted.confidence_model if verifier is None else verifier.confidence_model

    @property
    def report(self) -> FitReport | None:
        """What `fit` found; None before."""
        return self.fitted.report

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called, a fitted ensemble was loaded, or this is `UEC()`."""
        return self.fitted.posteriors is not None

    @property
    def weights(self) -> FloatArray:
        """Weight w_k of each encoder's cosine, mean 1: its slope over the mean slope."""
        return self.fitted.weights

    @property
    def slopes(self) -> list[float]:
        """Slope a_k of each encoder's logit a_k s_k + b_k; 1 before `fit`."""
        return self.fitted.slopes

    @property
    def slope(self) -> float:
        """Logits per unit of similarity: the mean of the encoders' slopes."""
        return self.fitted.slope

    @property
    def intercepts(self) -> list[float]:
        """Intercept b_k of each encoder's logit a_k s_k + b_k; 0 before `fit`."""
        return self.fitted.intercepts

    def coefficients(self, parts: Sequence[Gaussian], role: Role) -> FloatArray:
        """Coefficients of texts from the encoders' Gaussians alone; see `Fitted.coefficients`."""
        return self.fitted.coefficients(parts, role)

    def combine(self, parts: Sequence[Gaussian], coefficients: FloatArray) -> Gaussian:
        """Gaussian convolution of the encoders' Gaussians with given coefficients."""
        return self.fitted.combine(parts, coefficients)
