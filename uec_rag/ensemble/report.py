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
        Encoder name -> `PosteriorSummary` (slope, prior precision, scale, pairs, held-out NLL);
        a verifier's, too.
    structure, likelihood : str
        How the posteriors were fitted.
    encoding_seconds, fitting_seconds : float
        Time in the encoders, and in everything else.
    source : str
        What it was fitted on where that was not the user's doing: of `UEC()`, as it comes.
    """

    encoders: dict[str, PosteriorSummary]
    structure: str
    likelihood: str
    encoding_seconds: float
    fitting_seconds: float
    source: str = ""

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
        took = f"encoding {self.encoding_seconds:.1f} s, fitting {self.fitting_seconds:.1f} s"
        how = f"{self.structure} posterior, {self.likelihood} likelihood"
        lines.append(f"{how}; {self.source or took}")
        return "\n".join(lines)
