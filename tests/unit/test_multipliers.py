"""Multipliers of quadratic programs are exact: zero where there is slack, to the last digits."""

import numpy as np
import pytest

from partialfair.problems.quadratic import best_multipliers


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("m", [1, 5, 30])
def test_they_meet_the_conditions_of_optimality(m, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(m, m + 5))
    gram, linear = rows @ rows.T, rng.normal(size=m)
    upper = np.where(rng.random(m) < 0.3, 0.05, 10.0)
    z = best_multipliers(gram, linear, np.empty((0, m)), np.empty((0, 0)), upper)
    slopes = linear - gram @ z
    assert (z >= 0).all()
    assert (z <= upper).all()
    assert slopes[z == 0].max(initial=-1.0) <= 1e-9
    assert slopes[z == upper].min(initial=1.0) >= -1e-9
    assert np.abs(slopes[(z > 0) & (z < upper)]).max(initial=0.0) <= 1e-9


def test_opposite_constraints_leave_the_program_solvable():
    """Where the matrix is singular, the interior solution stands."""
    rows = np.array([[1.0, 2.0], [-1.0, -2.0]])
    linear = np.array([-0.1, -0.1])
    assert best_multipliers(
        rows @ rows.T, linear, np.empty((0, 2)), np.empty((0, 0)), np.ones(2)
    ) == pytest.approx([0, 0], abs=1e-6)
