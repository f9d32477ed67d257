"""What fitting found, as numbers and as a table a person reads."""

from __future__ import annotations

from dataclasses import dataclass

from uec_rag.laplace.posterior import PosteriorSummary


@dataclass(frozen=True)
class FitReport:
    """What `UEC.fit` found.

    Attributes
    ----------
    encoders : dict
        Encoder name -> `PosteriorSummary` (slope, prior precision, scale, pairs, held-out NLL).
    structure, likelihood : str
        How the posteriors were fitted.
    encoding_seconds, fitting_seconds : float
        Time in the encoders, and in everything else.
    """

    encoders: dict[str, PosteriorSummary]
    structure: str
    likelihood: str
    encoding_seconds: float
    fitting_seconds: float

    def __str__(self) -> str:
        """Return a table: one line per encoder."""
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
        lines.append(
            f"{self.structure} posterior, {self.likelihood} likelihood; encoding "
            f"{self.encoding_seconds:.1f} s, fitting {self.fitting_seconds:.1f} s"
        )
        return "\n".join(lines)
