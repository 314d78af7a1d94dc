import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partialfair.constraints.dc import DC, Affine, DCSystem, atom, maximum

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


def random_system(rng, n_atoms):
    """Signed sums of maxima of one or two pieces that share atoms, some of them equal somewhere."""

    def piece():
        used = rng.choice(n_atoms, size=int(rng.integers(1, n_atoms + 1)), replace=False)
        coefficients = tuple((int(a), float(rng.choice([0.5, 1.0, 2.0]))) for a in used)
        return Affine(coefficients, float(rng.choice([0, 0.125])))

    def function():
        terms = [maximum(*(piece() for _ in range(rng.integers(1, 3)))) for _ in range(rng.integers(1, 5))]
        return sum((float(rng.choice([-2, -1, 1, 2])) * term for term in terms), DC(constant=rng.normal()))

    return DCSystem(tuple(function() for _ in range(4)), n_atoms)


@settings(max_examples=200)
@given(st.integers(0, 10_000), st.sampled_from([1e-6, 0.3, 10.0]))
def test_what_stands_in_both_parts_cancels_and_no_value_changes(seed, length):
    """f changes by net slopes, by what other pieces of f⁺ add to that, less what f⁻ is above its tangent."""
    rng = np.random.default_rng(seed)
    system = random_system(rng, 4)
    here = rng.choice([0.0, 0.125, 1.0], size=4)  # no rounding: pieces that tie, tie
    there = here + length * rng.normal(size=4)
    plus, minus = system.slopes(here)
    ties = system.ties(here, np.ones(system.m, dtype=bool), np.inf)
    changes = (plus - minus) @ (there - here)
    np.add.at(
        changes,
        ties.functions,
        ties.factors * np.maximum(ties.slopes @ (there - here) - ties.gaps, 0),
    )
    above_tangent = system.parts(there)[1] - system.parts(here)[1] - minus @ (there - here)
    assert system.values(there) - system.values(here) == pytest.approx(changes - above_tangent, abs=1e-9)
    assert (above_tangent >= -1e-9).all()


def test_a_function_on_another_piece_has_its_slopes():
    """max(B, A − α) − max(B, A − β): both parts are B below α, and B cancels; beyond it does not."""
    low, high = (maximum(Affine(((1, 1.0),)), Affine(((0, 1.0),), -c)) for c in (0.2, 0.5))
    system = DCSystem((2.0 * low - 2.0 * high,), 2)
    here = np.array([1.1, 1.0])
    plus, minus = system.slopes(here)
    assert (plus - minus).tolist() == [[0, 0]]
    ties = system.ties(here, np.ones(1, dtype=bool), 0.15)
    assert ties.gaps == pytest.approx([0.1])
    assert ties.net(plus - minus).tolist() == [[2, -2]]


def test_the_nearest_of_several_pieces_is_kept():
    top = maximum(
        Affine(((0, 1.0),), -0.2), Affine(((0, 2.0),)), Affine(((0, 3.0),), -1.1), Affine(((1, 1.0),))
    )
    system = DCSystem((top + top, atom(0)), 2)
    ties = system.ties(np.array([1.0, 0.0]), np.ones(2, dtype=bool), 5.0)
    assert ties.gaps == pytest.approx([1.2, 0.1, 2.0] * 2)
    nearest = ties.nearest()
    assert nearest.gaps == pytest.approx([0.1, 0.1])
    assert nearest.functions.tolist() == [0, 0]
    assert nearest.slopes.tolist() == [[1, 0], [1, 0]]
