"""Objectives at some scores, and their derivatives by finite differences."""

from dataclasses import replace

import numpy as np
import pytest

from partialfair.optimization.objectives import split_loss


def evaluated(objective, scores):
    """Value, and slopes in the scores."""
    return objective.loss.value_and_slopes(scores, objective.targets, objective.shares)


def curvature(objective, scores):
    return objective.loss.curvature(scores, objective.targets, objective.shares)


def convex_parts(objective):
    """The objective of each convex part of the loss."""
    return [replace(objective, loss=part) for part in split_loss(objective.loss) if part is not None]


def check_slopes(objective, scores, step=1e-6, abs=1e-8):
    slopes = evaluated(objective, scores)[1]
    for i in range(scores.size):
        nudge = step * (np.arange(scores.size) == i)
        up, down = (evaluated(objective, scores + sign * nudge)[0] for sign in (1, -1))
        assert slopes[i] == pytest.approx((up - down) / (2 * step), abs=abs)


def matrix(objective, scores):
    """The second derivative as a matrix, from its products with unit vectors."""
    return np.stack([curvature(objective, scores).product(unit) for unit in np.eye(scores.size)])


def check_curvature(objective, scores, step=1e-6, abs=1e-6):
    second = matrix(objective, scores)
    for i in range(scores.size):
        nudge = step * (np.arange(scores.size) == i)
        up, down = (evaluated(objective, scores + sign * nudge)[1] for sign in (1, -1))
        assert second[i] == pytest.approx((up - down) / (2 * step), abs=abs)


def check_convex(value, draw, n_segments=200):
    """On random segments the value in the middle is at most the mean of those at the ends."""
    for share in np.linspace(0.02, 0.98, n_segments):
        start, end = draw(), draw()
        middle = value((1 - share) * start + share * end)
        assert middle <= (1 - share) * value(start) + share * value(end) + 1e-12
