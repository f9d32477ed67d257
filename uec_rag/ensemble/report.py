"""What fitting found, as numbers, as a table a person reads, and in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import Record
from uec_rag.laplace.posterior import PosteriorSummary

_ENOUGH = 300  # pairs; with fewer a prior decides much of what a fit finds
_IGNORED = 0.02  # a member's mean share, below which it counts for nothing
_CONSTANT = 0.01  # standard deviation of the shares, below which queries do not matter


@dataclass(frozen=True)
class FitFacts(Record):
    """What the posteriors do not tell of a fit.

    Attributes
    ----------
    pairs : tuple of K int
        Distinct pairs of a query and its passage that each encoder was fitted on.
    shares, deviations : tuple of K float
        How much each encoder counted in the fit queries: mean and standard deviation.
    unanswerable : float
        Share of the questions without an answer that confidence was learned with.
    own_confidence : bool
        Whether confidence was learned from these pairs alone, since they clearly told otherwise
        than the many collections that it rests on elsewhere.
    """

    pairs: tuple[int, ...]
    shares: tuple[float, ...]
    deviations: tuple[float, ...]
    unanswerable: float
    own_confidence: bool

    @classmethod
    def of(
        cls, pairs: Sequence[int], shares: FloatArray, unanswerable: float, own_confidence: bool
    ) -> FitFacts:
        """Facts of a fit, from each fit query's shares (n, K)."""
        mean, deviation = (tuple(v.tolist()) for v in (shares.mean(axis=0), shares.std(axis=0)))
        return cls(tuple(pairs), mean, deviation, unanswerable, own_confidence)


@dataclass(frozen=True)
class FitReport:
    """What `UEC.fit` found.

    Attributes
    ----------
    encoders : dict
        Encoder name -> `PosteriorSummary` (slope, prior precision, scale, pairs, held-out NLL);
        a verifier's, too.
    structure, likelihood : str
        How the posteriors were fitted.
    encoding_seconds, fitting_seconds : float
        Time in the encoders, and in everything else.
    source : str
        What it was fitted on where that was not the user's doing: of `UEC()`, as it comes.
    facts : FitFacts or None
        None for what version 0.1 saved.
    """

    encoders: dict[str, PosteriorSummary]
    structure: str
    likelihood: str
    encoding_seconds: float
    fitting_seconds: float
    source: str = ""
    facts: FitFacts | None = None

    def __str__(self) -> str:
        """Return a table, one line per encoder, and the notes."""
        head = ("encoder", "pairs", "slope", "prior prec.", "scale", "NLL", "without var.")
        rows = [
            (
                name,
                str(s.pairs),
                f"{s.slope:.1f}",
                f"{s.prior_precision:.2g}",
                f"{s.scale:.2g}",
                f"{s.nll:.4f}",
                f"{s.nll_deterministic:.4f}",
            )
            for name, s in self.encoders.items()
        ]
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in (head, *rows)
        ]
        took = f"encoding {self.encoding_seconds:.1f} s, fitting {self.fitting_seconds:.1f} s"
        how = f"{self.structure} posterior, {self.likelihood} likelihood"
        lines.append(f"{how}; {self.source or took}")
        return "\n".join([*lines, *self.notes])

    @property
    def notes(self) -> list[str]:
        """What to know before trusting the fit, in sentences."""
        return [*self._of_pairs(), *self.shares_told, *self._of_confidence()]

    def _of_pairs(self) -> Iterator[str]:
        fewest = min(self.facts.pairs) if self.facts else _ENOUGH
        if fewest < _ENOUGH:
            yield (
                f"Fitted on {fewest} pairs: below {_ENOUGH} slopes, variances and confidence rest "
                "on what is usual as much as on the pairs. Give more where you can."
            )
        for what in ("slope", "variance"):
            names = [name for name, s in self.encoders.items() if what in s.by_prior]
            if names:
                yield (
                    f"The {what} of {', '.join(names)} is what is usual more than what the pairs "
                    "tell: a prior decided."
                )

    @property
    def shares_told(self) -> list[str]:
        """What to know of how much each encoder counts."""
        if self.facts is None or len(self.facts.shares) < 2:
            return []
        # A verifier comes after the encoders, and has no share: it reads the first hits only.
        told = list(zip(self.encoders, self.facts.shares, strict=False))
        notes = []
        if max(self.facts.deviations) < _CONSTANT:
            weights = ", ".join(f"{name} {share:.2f}" for name, share in told)
            notes.append(f"The encoders count the same in every query: {weights}.")
        return notes + [
            f"{name} is as good as ignored: it counts for {share:.1%} on average. Leave it out, or "
            "look whether it suits these texts."
            for name, share in told
            if share < _IGNORED
        ]

    def _of_confidence(self) -> Iterator[str]:
        if self.facts is None:
            return
        rests = (
            "these pairs alone, which clearly told otherwise than other collections"
            if self.facts.own_confidence
            else "many collections, its level in part on these pairs"
        )
        yield (
            f"Confidence rests on {rests}; {self.facts.unanswerable:.0%} of the questions asked "
            "had no answer."
        )
