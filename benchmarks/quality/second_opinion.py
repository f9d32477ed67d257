"""What a second opinion gains, by the accuracy of the judge and how often it is asked: simulated.

    python -m benchmarks.quality.second_opinion

Prints a Markdown table. Questions have confidences on a level like that of real ones: 66 % are
answered by their hits, and confidence separates them from the others with AUROC .90. From a hundred
labels a gate is calibrated with and without a judge of some accuracy, the same for passages that
suffice and for others; both promise that at most a share of all questions is answered wrongly.
Means of 1,000 draws of labels, each with 1,000 more questions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from uec_rag.confidence.risk import conformal_threshold
from uec_rag.confidence.second_opinion import cascade

LABELS, ASKED, DRAWS = 100, 1000, 1000
SHARES = (0.05, 0.1)
ACCURACIES = (0.6, 0.7, 0.8, 0.9, 0.95)
ANSWERABLE, FOUND = 0.71, 0.93
CENTRES, SPREAD = (2.2, 0.3, -0.2), 1.3  # of logits: right, only answerable, neither

Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]


def questions(rng: np.random.Generator, count: int) -> tuple[Floats, Truths]:
    """Confidence, and whether the hits answer, of some questions."""
    answerable = rng.random(count) < ANSWERABLE
    right = answerable & (rng.random(count) < FOUND)
    centre = np.where(right, CENTRES[0], np.where(answerable, CENTRES[1], CENTRES[2]))
    return expit(centre + SPREAD * rng.normal(size=count)), right


def judged(rng: np.random.Generator, right: Truths, accuracy: float) -> Truths:
    """What a judge says of them."""
    return np.where(rng.random(len(right)) < accuracy, right, ~right)


def draw(rng: np.random.Generator, accuracy: float, share: float) -> list[float]:
    """Shares answered alone, answered and wrong with a judge, and asked, after one calibration."""
    confidence, right = questions(rng, LABELS)
    alone = conformal_threshold(confidence, ~right, share).threshold
    found = cascade(confidence, right, judged(rng, right, accuracy).tolist(), share)
    confidence, right = questions(rng, ASKED)
    between = (confidence > found.low) & (confidence <= found.high)
    answered = (confidence > found.high) | (between & judged(rng, right, accuracy))
    wrong = answered & ~right
    return [float(a.mean()) for a in (confidence > alone, answered, wrong, between)]


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    print(
        "| at most wrong, of all | the judge is right | answered alone | answered with it | wrong "
        "| asked |"
    )
    print("|---|---|---|---|---|---|")
    for share in SHARES:
        for accuracy in ACCURACIES:
            means = np.mean([draw(rng, accuracy, share) for _ in range(DRAWS)], axis=0)
            alone, answered, wrong, asked = (100 * means).tolist()
            numbers = [100 * share, 100 * accuracy, alone, answered]
            cells = [f"{number:.0f} %" for number in numbers] + [f"{wrong:.1f} %", f"{asked:.0f} %"]
            print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
