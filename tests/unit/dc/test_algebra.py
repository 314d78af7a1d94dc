import numpy as np
import pytest

from partialfair.dc import DC, Affine, DCSystem, atom, maximum

ATOMS = np.array([0.3, -1.0, 2.0])


def value(f):
    return DCSystem((f,), 3).values(ATOMS)[0]


def test_signed_sums():
    f = 2.0 * atom(0) - 0.5 * atom(2) + 3.0
    assert value(f) == pytest.approx(0.6 - 1.0 + 3.0)
    assert value(-f) == pytest.approx(-value(f))
    assert value(f - f) == pytest.approx(0)
    assert value(f - 1.0) == pytest.approx(value(f) - 1)
    assert value(DC(constant=4.0)) == 4


def test_maxima_and_parts():
    top = maximum(Affine(((0, 1.0),)), Affine(((2, 2.0), (1, 1.0)), -0.5))
    assert value(top) == pytest.approx(max(0.3, 4 - 1 - 0.5))
    plus, minus = DCSystem((top - 3.0 * atom(1), -top), 3).parts(ATOMS)
    assert plus == pytest.approx([2.5, 0])
    assert minus == pytest.approx([-3, 2.5])


def test_a_negative_factor_swaps_the_parts():
    f = 2.0 * atom(0) - atom(1)
    plus, minus = DCSystem((f, -f), 3).parts(ATOMS)
    assert plus[0] == minus[1]
    assert minus[0] == plus[1]


def test_slopes_follow_the_active_piece():
    top = maximum(Affine(((0, 1.0),)), Affine(((2, 2.0),), -0.5))
    plus, minus = DCSystem((top - atom(1),), 3).slope(ATOMS, 0)
    assert plus.tolist() == [0, 0, 2]
    assert minus.tolist() == [0, 1, 0]


def test_combined_slopes_are_multiples_of_those_of_all_functions():
    """Also where pieces of a maximum are equal: the first of them counts everywhere."""
    rng = np.random.default_rng(0)
    equal = maximum(Affine(((0, 1.0),)), Affine(((0, 1.0),)), Affine(((1, 1.0),), -9.0))
    top = maximum(Affine(((0, 1.0),)), Affine(((2, 2.0), (1, 1.0)), -0.5))
    system = DCSystem((top - 3.0 * atom(1), 2.0 * equal - top, DC(constant=1.0), -equal), 3)
    multipliers = rng.random(4)
    for part, of_all in zip(system.combined(ATOMS, multipliers), system.slopes(ATOMS), strict=True):
        np.testing.assert_allclose(part, multipliers @ of_all)
    for i in range(system.m):
        for part, of_all in zip(system.slope(ATOMS, i), system.slopes(ATOMS), strict=True):
            np.testing.assert_allclose(part, of_all[i])


def test_pieces_need_coefficients_of_at_least_zero():
    with pytest.raises(ValueError, match="at least 0"):
        Affine(((0, -1.0),))
