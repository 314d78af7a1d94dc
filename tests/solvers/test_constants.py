"""Estimated constants against what can be computed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from partialfair.constraints.block import join
from partialfair.exceptions import InputError
from partialfair.optimization.problems import Ball, Problem, estimate_constants
from partialfair.theory import idca_budget
from tests.solvers.problems import features, first_order, problem


def test_lipschitz_estimate_lies_between_difference_quotients_and_a_bound():
    """Parts of a ramp of width 1 have slopes of at most 1 in each score and threshold."""
    task = problem(alpha=0.0)
    start, mu, radius = task.trivial_start, 0.1, 3.0
    longest = np.linalg.norm(np.column_stack([features(task), np.ones(80)]), axis=1).max()
    constants = estimate_constants(task, mu=mu, radius=radius, n_samples=30)
    bound = np.sqrt(longest**2 + 1) / 0.5  # as fractions of the interval, which is half of each group
    assert constants.lipschitz <= bound + mu * max(radius, np.linalg.norm(start))

    def parts(x):
        return np.concatenate(task.constraints.system.parts(task.at(x).atoms)) + mu / 2 * x @ x

    rng = np.random.default_rng(0)
    for _ in range(20):
        step = 1e-6 * rng.normal(size=start.size)
        quotients = np.abs(parts(start + step) - parts(start)) / np.linalg.norm(step)
        assert quotients.max() <= constants.lipschitz + 1e-6


def test_nu_is_half_of_max_gap():
    """At the trivial start every mean σ lies in the middle of the ``max_gap`` that it may differ by."""
    constants = estimate_constants(problem(max_gap=0.1), mu=1.0, radius=1.0, n_samples=1)
    assert constants.nu == pytest.approx(0.1 / 2)
    assert constants.mu == 1.0
    assert constants.decrease == pytest.approx(np.log(2))


def test_budget_is_the_theorems_and_refuses_without_slack():
    constants = estimate_constants(problem(domain=Ball(2.0)), mu=0.5, radius=2.0)
    expected = idca_budget(
        lipschitz=constants.lipschitz, mu=0.5, nu=constants.nu, epsilon=0.1, decrease=constants.decrease
    )
    assert constants.budget(0.1) == expected
    with pytest.raises(InputError, match="nu > 0"):
        replace(constants, nu=0.0).budget(0.1)


@pytest.mark.parametrize("bad", [{"mu": 0.0}, {"radius": -1.0}, {"n_samples": 0}])
def test_bad_settings(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        estimate_constants(problem(), **{"mu": 1.0, "radius": 1.0, **bad})


def test_scores_must_be_linear_with_jacobians():
    task = problem()
    (rows,) = task.rows.shards
    nonlinear = Problem.of(first_order(rows.model), rows.objective, join([]), task.alpha)
    with pytest.raises(InputError, match="needs Jacobians and scores that are linear"):
        estimate_constants(nonlinear, mu=1.0, radius=1.0)
