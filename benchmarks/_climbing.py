"""Random steps on the exact metric, and rescalings that keep the gap.

A step is accepted if it lowers the objective, satisfies the constraint and adds no ties. Directions are
differences of earlier models, and single coefficients. Scaling the scores, and for pSP shifting them, keeps
the gap, so the best factor and shift are computed exactly.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numba import njit

from _judging import Case, Model, Ties, logistic_minimum

ARITIES = (1, 2, 4, 16)
"""Number of directions of a step."""
FIRST_STEP, SMALLEST_STEP = 0.1, 1e-5
"""Sizes of steps, in standard deviations of the scores."""
LONGER, SHORTER = 1.4, 0.97
"""Factors of the step size after a success and after a failure."""


@njit(cache=True, fastmath=True)
def mean_loss(scores, signs):  # type: ignore[no-untyped-def]
    """Return ``mean log(1 + e^(−y s))``."""
    total = 0.0
    for i in range(scores.size):
        margin = signs[i] * scores[i]
        total += np.log1p(np.exp(-abs(margin))) - min(margin, 0.0)
    return total / scores.size


def rescaled(case: Case, model: Model) -> Model:
    """Return the best rescaled model with the same order, or for pDP the same selection."""
    Z = model.scores[:, None]
    penalties = np.array([case.alpha * float((model.coef**2).sum())])
    if case.kind == "pSP":
        Z, penalties = np.column_stack([Z, np.ones(len(Z))]), np.append(penalties, 0.0)
    try:
        v, _ = logistic_minimum(Z, case.signs, penalties)
    except np.linalg.LinAlgError:  # constant scores
        return model
    factor, number = v[0], v[1] if case.kind == "pSP" else 0.0
    if not factor > 1e-6:
        return model
    better = Model(factor * model.coef, factor * model.intercept + number, factor * model.scores + number)
    return better if case.objective(better) < case.objective(model) else model


def towards(case: Case, model: Model, goal: Model, free: Ties, n_steps: int = 60) -> Model:
    """Return the best admissible model on the segment to another model, or the model itself."""
    way, best, value = goal.minus(model), model, case.objective(model)
    for share in np.concatenate([np.linspace(0, 1, n_steps + 1)[1:], np.geomspace(1e-4, 0.02, 10)]):
        trial = model.shifted([way], [share])
        objective = case.objective(trial)
        if objective < value and case.admits(trial.scores, free):
            best, value = trial, objective
    return best


def climb(
    case: Case,
    start: Model,
    directions: Sequence[Model],
    free: Ties,
    rng: np.random.Generator,
    seconds: float,
) -> Model:
    """Return the best model that random steps along some of the directions reach."""
    spread = max(float(start.scores.std()), 1e-9)
    moves = [move for move in directions if float(move.scores.std()) > 1e-12]
    if not moves:
        return start
    units = [spread / float(move.scores.std()) for move in moves]
    by_score = np.array([unit * move.scores for unit, move in zip(units, moves, strict=True)])
    by_coef = np.array([unit * move.coef for unit, move in zip(units, moves, strict=True)])
    by_intercept = np.array([unit * move.intercept for unit, move in zip(units, moves, strict=True)])
    best, value = start, case.objective(start)
    sizes = {arity: FIRST_STEP for arity in ARITIES if arity <= len(moves)}
    end, step_number = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        step_number += 1
        arity = int(rng.choice(list(sizes)))
        chosen = rng.choice(len(moves), arity, replace=False)
        step = sizes[arity] * rng.normal(size=arity)
        shift = sizes[arity] * spread * rng.normal() * (rng.random() < 0.5)
        coef = best.coef + np.tensordot(step, by_coef[chosen], axes=1)
        scores = best.scores + step @ by_score[chosen] + shift
        objective = mean_loss(scores, case.signs) + 0.5 * case.alpha * float((coef**2).sum())
        if objective < value and case.admits(scores, free):
            intercept = best.intercept + step @ by_intercept[chosen] + shift
            best, value = Model(coef, intercept, scores), objective
            sizes[arity] = min(sizes[arity] * LONGER, 1.0)
        else:
            sizes[arity] = max(sizes[arity] * SHORTER, SMALLEST_STEP)
        if step_number % 300 == 0:
            best = rescaled(case, best)
            value = case.objective(best)
            if max(sizes.values()) < 2 * SMALLEST_STEP:  # begin with long steps again
                sizes = dict.fromkeys(sizes, FIRST_STEP)
    return rescaled(case, best)
