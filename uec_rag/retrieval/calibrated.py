"""An index with what was learned of its corpus: what relevance and confidence rest on."""

from __future__ import annotations

import warnings

from uec_rag.base.checks import check_unanswerable
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.confidence.shipped import shipped_model
from uec_rag.ensemble.evidence import EvidenceWeights
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.basis import basis_of
from uec_rag.retrieval.calibrate import CorpusCalibration
from uec_rag.retrieval.index import Index
from uec_rag.retrieval.published import Published, published
from uec_rag.stores.base import Filter, Store


class Calibrated(Index):
    """An index, and a calibration of it where there is one; `Searcher` is one that is asked.

    Parameters
    ----------
    uec : UEC
    store : Store
    unanswerable : float, optional
        Share of the questions to come that the corpus does not answer, in [0, 1).
    """

    def __init__(self, uec: UEC, store: Store, unanswerable: float | None = None) -> None:
        told = None if unanswerable is None else check_unanswerable(unanswerable)
        super().__init__(uec, store)
        self.unanswerable = told
        self.calibration: CorpusCalibration | None = None
        self._changes_at_calibration = 0
        self._published: Published | None = None
        self._follow(self.store)

    @property
    def evidence_weights(self) -> EvidenceWeights | None:
        """What turns evidence into coefficients: `self_calibrate`'s, else the ensemble's."""
        own = None if self.calibration is None else self.calibration.evidence_weights
        return own or self.uec.fitted.evidence_weights

    @property
    def confidence_model(self) -> ConfidenceModel:
        """What turns logits into probabilities: `calibrate`'s, the fitted ensemble's, or ours."""
        own = None if self.calibration is None else self.calibration.model
        return own or self.uec.confidence_model or shipped_model("unfitted")

    def basis(
        self,
        filter: Filter | None = None,
        unanswerable: float | None = None,
        *,
        verified: bool = True,
    ) -> str:
        """Fingerprint of what confidence rests on in a search, but for the passages themselves.

        Of filters that are callables only that they are one is told; `verified` is False where the
        verifier failed.
        """
        told = self.unanswerable if unanswerable is None else unanswerable
        reader = self._reader if verified else None
        return basis_of(self._model(verified), self.evidence_weights, told, filter, reader)

    def _model(self, verified: bool) -> ConfidenceModel:
        """What judges hits; without the verifier what was learned without it."""
        unread = None if verified else self.uec.fitted.confidence_model
        return unread or self.confidence_model

    @property
    def _reader(self) -> str | None:
        """Fingerprint of who reads the first hits, if anybody does."""
        verification = self.uec.verification
        return None if verification is None else verification.fingerprint

    def set_calibration(self, calibration: CorpusCalibration | None, *, current: bool) -> None:
        """Use a calibration; `current` says whether the corpus is still the calibrated one.

        One that was learned with another verifier than reads now is warned of, and not used.
        """
        if calibration is not None and calibration.verifier != self._reader:
            warnings.warn(
                "The index was calibrated with another verifier than reads its hits now (or one of "
                "them is none): relevance and confidence are those of the fit. Calibrate again.",
                UserWarning,
                stacklevel=3,
            )
            calibration = None
        self.calibration = calibration
        self._changes_at_calibration = self._changes if current else -1

    def _follow(self, store: Store) -> None:
        """Take over what another process has learned of the corpus, where the store keeps it."""
        before, self._published = self._published, published(store, self._published)
        if self._published is None:
            return
        if self._published.version != (before and before.version):
            self.set_calibration(self._published.calibration, current=self._published.current)
        elif not self._published.current:
            self._changes_at_calibration = -1

    def _warn_changed(self) -> None:
        if self.calibration is not None and self._changes != self._changes_at_calibration:
            self._changes_at_calibration = self._changes
            warnings.warn(
                "The index has changed since it was calibrated: what was learned is of the old "
                "corpus. Call calibrate or self_calibrate again.",
                UserWarning,
                stacklevel=4,
            )
