"""The best scale and intercept of a model, which constraints on ranks leave free.

A positive multiple of all scores, and a number added to all of them, change no rank, and so no gap of
statistical parity or group AUC. The loss is convex in the two. Steps on exact gaps end at models whose loss
is far above what these two numbers would make of it, and without the re-optimization a model may be returned
that a constant beats.
"""

from __future__ import annotations

import numpy as np

from partialfair.optimization.problems import Capability, Problem
from partialfair.utils.typing import Floats

__all__ = ["rescale"]

_MAX_STEPS = 20
"""Newton steps; four are usual, more where scores are large and the loss is flat."""
_NO_GAIN = 1e-9
"""A predicted fall of the objective, relative to it, that is not worth a step."""
_MIN_SCALE = 1e-3
"""The smallest scale of scores: a smaller one would make them equal but for rounding."""


def rescale(problem: Problem, w: Floats) -> Floats | None:
    """Minimize the objective over ``a > 0`` and b, where scores are a times those at w, plus b.

    Parameters
    ----------
    problem
        The problem without constraints, on the whole space.
    w : (n,)
        Parameters of the model.

    Returns
    -------
    (n,) or None
        The parameters with the best scale and intercept, or `w` itself if that is as good or where scores
        cannot be scaled. None if no positive scale is better than a constant score: the model orders rows
        against their targets.
    """
    parameters = problem.rows.parameters
    flat = parameters.at_no_scores
    if (
        problem.m
        or Capability.LINEAR not in problem.rows.capabilities
        or not (w - flat)[: parameters.n_penalised].any()
    ):
        return w
    directions = [w - flat]
    if parameters.level is not None:
        directions.append(parameters.level)
    elif parameters.n > parameters.n_penalised:
        directions.append(np.where(np.arange(parameters.n) < parameters.n_penalised, 0.0, 1.0))
    plane = np.stack(directions, axis=1)
    at, place = problem.at(w), np.eye(1, plane.shape[1])[0]
    for _ in range(_MAX_STEPS):
        gradient = plane.T @ at.objective_gradient()
        hessian = plane.T @ np.stack([at.hessian_product(one) for one in directions], axis=1)
        step = -np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        if -0.5 * gradient @ step <= _NO_GAIN * abs(at.objective):
            break
        share = 1.0
        while share > _MIN_SCALE:
            following = problem.at(flat + plane @ (place + share * step))
            if following.objective < at.objective:
                break
            share /= 2
        else:
            break
        at, place = following, place + share * step
    if place[0] < _MIN_SCALE:
        return None
    return w if (place == np.eye(1, place.size)[0]).all() else at.x
