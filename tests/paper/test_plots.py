import builtins
import io
import sys

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from torchmetrics.classification import BinaryCalibrationError

from uec_rag.paper import plots
from uec_rag.paper.metrics import ABSTENTION_RATES, abstention_curve, nauc, var_ece

RNG = np.random.default_rng(0)
QUALITY = RNG.uniform(size=60)
CORRECT = QUALITY > 0.4
CONFIDENCE = QUALITY + RNG.normal(0, 0.3, size=60)
NOISE = RNG.normal(size=60)
FIGURES = {
    "risk_coverage": lambda: plots.risk_coverage(CONFIDENCE, CORRECT, threshold=0.5, risk=0.2),
    "abstention": lambda: plots.abstention({"a": CONFIDENCE, "b": NOISE}, QUALITY),
    "reliability_diagram": lambda: plots.reliability_diagram(QUALITY, CORRECT),
    "coefficient_heatmap": lambda: plots.coefficient_heatmap([[0.2, 0.8]], ["x"], ["p", "q"]),
    "variance_error_bins": lambda: plots.variance_error_bins(QUALITY, QUALITY, CONFIDENCE),
}


def line(figure, label):
    [found] = [line for line in figure.axes[0].lines if line.get_label() == label]
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def labels(figure):
    return [str(line.get_label()) for line in figure.axes[0].lines]


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_figures_can_be_saved_and_leave_pyplot_alone(draw):
    had_pyplot = "matplotlib.pyplot" in sys.modules
    picture = io.BytesIO()
    draw().savefig(picture)
    assert picture.getvalue().startswith(b"\x89PNG")
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_missing_matplotlib_names_the_extra(draw, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"uec-rag\[plots\]"):
        draw()


def test_risk_coverage_holds_the_risk_of_the_surest():
    coverage, risk = line(plots.risk_coverage(CONFIDENCE, CORRECT), "confidence")
    surest = np.argsort(-CONFIDENCE)
    for share, wrong in zip(coverage, risk, strict=True):
        assert wrong == pytest.approx(1 - CORRECT[surest[: round(share * 60)]].mean())
    assert coverage[0] == 1
    assert coverage[-1] == pytest.approx(1 / 60)


def test_risk_coverage_of_an_oracle_is_zero_up_to_the_share_of_right_answers():
    coverage, risk = line(plots.risk_coverage(NOISE, CORRECT), "oracle")
    np.testing.assert_allclose(risk, np.maximum(0, 1 - CORRECT.mean() / coverage), atol=1e-12)


def test_many_queries_make_a_risk_coverage_curve_of_few_points():
    right = np.arange(5000) % 2 == 0
    coverage, risk = line(plots.risk_coverage(np.arange(5000.0), right), "confidence")
    assert len(coverage) == 200
    answered = np.round(5000 * coverage).astype(int)
    np.testing.assert_allclose(risk, [1 - right[-n:].mean() for n in answered])


def test_gate_is_marked_where_its_threshold_leads():
    figure = plots.risk_coverage(
        {"a": [0.9, 0.8, 0.5, 0.1], "b": [0, 0, 0, 1]}, [1, 0, 1, 0], threshold=0.5, risk=0.3
    )
    x, y = line(figure, "gate: answers 50%, 50.0% wrong")
    assert (x.item(), y.item()) == (0.5, 0.5)
    assert (line(figure, "target: 30.0% wrong")[1] == 0.3).all()


def test_gate_that_never_answers_is_never_wrong():
    figure = plots.risk_coverage([0.9, 0.8], [1, 0], threshold=float("inf"))
    assert "gate: answers 0%, 0.0% wrong" in labels(figure)


def test_abstention_holds_the_curves_and_nauc_of_metrics():
    figure = plots.abstention({"a": CONFIDENCE, "b": NOISE}, QUALITY)
    for name, signal in (("a", CONFIDENCE), ("b", NOISE)):
        x, y = line(figure, f"{name}, nAUC {nauc(signal, QUALITY):.2f}")
        np.testing.assert_array_equal(x, ABSTENTION_RATES)
        np.testing.assert_array_equal(y, abstention_curve(signal, QUALITY))
    np.testing.assert_array_equal(line(figure, "oracle")[1], abstention_curve(QUALITY, QUALITY))
    np.testing.assert_allclose(line(figure, "flat")[1], QUALITY.mean())
    assert sorted(texts(figure)) == sorted(labels(figure))  # every line is named beside it


def test_abstention_takes_other_rates():
    figure = plots.abstention(CONFIDENCE, QUALITY, rates=[0, 0.5])
    np.testing.assert_array_equal(line(figure, "oracle")[0], [0, 0.5])


def test_names_of_lines_that_end_together_stand_apart():
    figure = plots.abstention({"a": CONFIDENCE, "b": CONFIDENCE + 1}, QUALITY)
    heights = sorted(text.xy[1] for text in figure.axes[0].texts)
    assert min(np.diff(heights)) > 0.01


def test_reliability_diagram_holds_each_bins_mean_and_share():
    figure = plots.reliability_diagram([0.1, 0.3, 0.3, 0.9, 1.0], [0, 0, 1, 1, 1], bins=2)
    above, below = figure.axes
    dots = above.lines[1]
    np.testing.assert_allclose(dots.get_xdata(), [0.7 / 3, 0.95])
    np.testing.assert_allclose(dots.get_ydata(), [1 / 3, 1])
    assert [bar.get_height() for bar in below.patches] == [3, 2]
    assert f"ECE {0.6 * (1 / 3 - 0.7 / 3) + 0.4 * 0.05:.3f}" in texts(figure)


def test_reliability_diagrams_calibration_error_is_torchmetrics():
    measure = BinaryCalibrationError(n_bins=10)
    expected = measure(torch.tensor(QUALITY), torch.tensor(CORRECT))
    assert f"ECE {expected:.3f}" in texts(plots.reliability_diagram(QUALITY, CORRECT))


def test_reliability_intervals_are_scipys_wilson_intervals():
    figure = plots.reliability_diagram([0.5] * 8, [1, 0, 0, 0, 0, 0, 0, 0])
    [segment] = figure.axes[0].collections[0].get_segments()
    expected = binomtest(1, 8).proportion_ci(method="wilson")
    np.testing.assert_allclose(segment[:, 1], [expected.low, expected.high], atol=1e-4)


def test_heatmap_holds_the_groups_means_in_order_of_appearance():
    figure = plots.coefficient_heatmap(
        [[0.2, 0.8], [1.0, 0.0], [0.4, 0.6]], ["zh", "en", "zh"], ["p", "q"]
    )
    [axes] = figure.axes
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.3, 0.7], [1.0, 0.0]])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["zh", "en"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["p", "q"]
    assert texts(figure) == ["0.30", "0.70", "1.00", "0.00"]


def test_variance_bins_gaps_are_var_ece():
    mean, variance, target = RNG.uniform(size=(3, 50))
    figure = plots.variance_error_bins(mean, variance, target, bins=5)
    number, predicted = line(figure, "predicted variance")
    _, observed = line(figure, "squared error")
    expected = var_ece(mean, variance, target, bins=5)
    assert np.abs(predicted - observed).mean() == pytest.approx(expected)
    assert number.tolist() == [1, 2, 3, 4, 5]
    assert (np.diff(predicted) > 0).all()
    assert f"Var-ECE {expected:.3g}" in texts(figure)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.risk_coverage([], []), "correct: expected one number"),
        (lambda: plots.risk_coverage([0.5], [1, 0]), r"confidence: expected shape \(2,\)"),
        (lambda: plots.risk_coverage([0.5], [0.5]), "correct: expected only True and False"),
        (lambda: plots.risk_coverage({"x": [np.nan]}, [1]), r"confidence\['x'\]: holds NaN"),
        (lambda: plots.risk_coverage({}, [1]), "at least one signal"),
        (lambda: plots.risk_coverage([0.5], [1], risk=1), "risk: .* got 1"),
        (lambda: plots.risk_coverage([0.5], [1], threshold=np.nan), "threshold: .* NaN"),
        (lambda: plots.abstention([[0.5]], [1]), r"confidence: .* got shape \(1, 1\)"),
        (lambda: plots.abstention([0.5], [np.inf]), "quality: holds NaN or infinity"),
        (lambda: plots.abstention([0.5], [1], rates=[0.5]), "rates: .* at least two"),
        (lambda: plots.abstention([0.5], [1], rates=[0.5, 0.1]), "rates: .* increasing"),
        (lambda: plots.abstention([0.5], [1], rates=[0, 2]), r"rates: .* in \[0, 1\]"),
        (lambda: plots.reliability_diagram([1.5], [1]), "probability: .* got 1.5 to 1.5"),
        (lambda: plots.reliability_diagram([0.5], [2]), "outcome: expected only"),
        (lambda: plots.reliability_diagram([0.5], [1], bins=0), "bins: expected at least 1"),
        (lambda: plots.coefficient_heatmap([0.5, 0.5], ["a"], ["p"]), r"expected shape \(1, 1\)"),
        (lambda: plots.coefficient_heatmap(np.ones((0, 1)), [], ["p"]), "at least one of each"),
        (lambda: plots.coefficient_heatmap([[-1]], ["a"], ["p"]), "at least 0"),
        (lambda: plots.variance_error_bins([1], [-1], [1], bins=1), "variance: expected"),
        (lambda: plots.variance_error_bins([1], [1], [1]), "bins: expected 1 to 1"),
    ],
)
def test_bad_input_is_refused_by_name(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
