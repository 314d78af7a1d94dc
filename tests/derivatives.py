"""Finite differences."""

import numpy as np
import pytest


def check_gradient(loss, scores, step=1e-6, abs=1e-8):
    gradient = loss.value_and_gradient(scores)[1]
    for i in range(scores.size):
        nudge = step * (np.arange(scores.size) == i)
        up, down = (loss.value_and_gradient(scores + sign * nudge)[0] for sign in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / (2 * step), abs=abs)


def matrix(loss, scores):
    """The second derivative as a matrix, from its products with unit vectors."""
    return np.stack([loss.curvature(scores).product(unit) for unit in np.eye(scores.size)])


def check_curvature(loss, scores, step=1e-6, abs=1e-6):
    found = matrix(loss, scores)
    for i in range(scores.size):
        nudge = step * (np.arange(scores.size) == i)
        up, down = (loss.value_and_gradient(scores + sign * nudge)[1] for sign in (1, -1))
        assert found[i] == pytest.approx((up - down) / (2 * step), abs=abs)


def check_convex(value, draw, n_segments=200):
    """On random segments the value in the middle is at most the mean of those at the ends."""
    for share in np.linspace(0.02, 0.98, n_segments):
        start, end = draw(), draw()
        middle = value((1 - share) * start + share * end)
        assert middle <= (1 - share) * value(start) + share * value(end) + 1e-12
