import numpy as np
import pytest
from scipy.special import expit

from uec_rag.laplace.likelihood import minimise

FREE = [(-np.inf, np.inf)] * 2


def bowl(x):
    """Lowest at (3, -2), its axes turned and of unlike curvature."""
    matrix = np.array([[5.0, 2.0], [2.0, 1.0]])
    away = x - [3.0, -2.0]
    return float(away @ matrix @ away) / 2, matrix @ away, matrix


def rosenbrock(x):
    """Lowest, 0, at (1, 1), at the end of a bent valley with negative curvature beside it."""
    a, b = x
    gradient = np.array([-2 * (1 - a) - 400 * a * (b - a**2), 200 * (b - a**2)])
    hessian = np.array([[2 - 400 * (b - 3 * a**2), -400 * a], [-400 * a, 200]])
    return float((1 - a) ** 2 + 100 * (b - a**2) ** 2), gradient, hessian


def test_a_quadratic_takes_one_step():
    asked = []

    def counted(x):
        asked.append(x)
        return bowl(x)

    np.testing.assert_allclose(minimise(counted, [40.0, 70.0], FREE), [3, -2], rtol=1e-9)
    assert len(asked) <= 4


@pytest.mark.parametrize("start", [(-1.2, 1.0), (0.0, 1.0), (5.0, -5.0)])
def test_a_bent_valley_is_followed_to_its_end(start):
    np.testing.assert_allclose(minimise(rosenbrock, start, FREE, 1e-14), [1, 1], atol=1e-5)


def test_at_a_bound_the_others_are_still_best():
    point = minimise(bowl, [0.0, 0.0], [(-10, 2), (-10, 10)])
    # With x = 2 the gradient by y, 2 (x - 3) + (y + 2), is 0 at y = 0.
    np.testing.assert_allclose(point, [2, 0], atol=1e-8)


def test_a_start_outside_the_bounds_is_brought_in():
    np.testing.assert_allclose(minimise(bowl, [90, 90], [(-10, 10), (-10, 10)]), [3, -2], rtol=1e-9)


def test_where_every_way_down_leads_out_of_the_bounds_it_stays():
    assert minimise(bowl, [1.0, -4.0], [(-1, 1), (-9, -4)]).tolist() == [1.0, -4.0]


def test_from_a_top_it_goes_down():
    """The curvature is negative where it starts: Newton's own step would climb."""

    def wave(x):
        return float(np.cos(x[0])), -np.sin(x), -np.cos(x)[:, None]

    assert np.cos(minimise(wave, [0.3], [(-10, 10)])[0]) == pytest.approx(-1)


@pytest.mark.parametrize("start", [-70.0, -20.0, 3.0, 60.0, 500.0])
def test_from_where_the_curvature_vanishes_it_comes_back(start):
    # A third of coins fall on heads; far out the loss is a straight line to the last digit.
    def loss(x):
        heads = expit(x[0])
        value = float(np.logaddexp(0, x[0]) - x[0] / 3)
        return value, np.array([heads - 1 / 3]), np.array([[heads * (1 - heads)]])

    found = minimise(loss, [start], [(-1e4, 1e4)])
    assert found[0] == pytest.approx(-np.log(2), abs=1e-4)
