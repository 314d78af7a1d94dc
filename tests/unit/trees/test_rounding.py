"""The grid of leaf values: sums are exact in every order, and the values are the nearest on it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.trees.ensembles import largest_sum, on_grid
from partialfair.trees.nodes import Nodes


@st.composite
def forests(draw):
    """Leaf values of a few trees, of sizes that differ by powers of ten."""
    sizes = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=40)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = 10.0 ** draw(st.integers(-8, 8))
    return scale * rng.normal(size=sum(sizes)) * 10.0 ** rng.integers(-3, 2, sum(sizes)), sizes


@given(forests(), st.randoms(use_true_random=False))
def test_single_precision_sums_are_exact_in_any_order(forest, random):
    values, sizes = forest
    rounded = on_grid(values, sizes, 24)
    np.testing.assert_array_equal(rounded.astype(np.float32), rounded)  # held without rounding
    starts = np.cumsum([0, *sizes[:-1]])
    chosen = [
        float(rounded[start + random.randrange(size)]) for start, size in zip(starts, sizes, strict=True)
    ]
    exact = sum(chosen)  # in double precision, whose 53 bits hold all such sums
    for _ in range(3):
        random.shuffle(chosen)
        total = np.float32(0.0)
        for value in chosen:
            total += np.float32(value)
        assert float(total) == exact


@given(forests(), st.sampled_from([24, 48]))
def test_values_move_by_half_a_step_and_then_stay(forest, bits):
    values, sizes = forest
    rounded = on_grid(values, sizes, bits)
    # The step is at most 2 B / 2**bits, B being the bound on sums, which rounding may have lifted a little.
    assert np.abs(rounded - values).max() <= 1.001 * largest_sum(values, sizes) / 2.0**bits
    np.testing.assert_array_equal(on_grid(rounded, sizes, bits), rounded)


def test_a_bound_at_a_power_of_two_takes_the_finer_step():
    # B = 1 and 2 bits: 2**2 steps of 1/4 reach it, so 0.3 becomes 1/4 rather than 1/2.
    np.testing.assert_array_equal(on_grid(np.array([1.0, 0.3]), (2,), 2), [1.0, 0.25])


def test_rounding_up_over_a_power_of_two_widens_the_step():
    # B = 1.0 - 2**-6 leaves steps of 1/4, onto which both trees round up to sums of 2 > 2**2 / 4.
    rounded = on_grid(np.array([0.49, 0.49]), (1, 1), 2)
    assert largest_sum(rounded, (1, 1)) <= 2.0**2 * 0.25
    rounded = on_grid(np.full(3, 0.33), (1, 1, 1), 1)
    np.testing.assert_array_equal(rounded, on_grid(rounded, (1, 1, 1), 1))


def test_zeros_stay():
    np.testing.assert_array_equal(on_grid(np.zeros(4), (2, 2), 24), np.zeros(4))


def test_the_mean_of_leaves_that_nobody_reached_is_the_plain_one():
    nodes = Nodes(np.array([1, -1, -1]), np.array([2, -1, -1]), np.zeros(3))
    assert nodes.means(np.array([1.0, 3.0]))[0] == 2.0


def test_nodes_that_pruning_left_behind_are_no_leaves():
    # Node 1 and 2 were children once; the root's are 3 and 4 now, and 5 hangs on nothing.
    left, right = np.array([3, -1, -1, -1, 1, -1]), np.array([4, -1, -1, -1, 2, -1])
    nodes = Nodes(left, right, np.array([10.0, 2.0, 3.0, 5.0, 5.0, 7.0]))
    np.testing.assert_array_equal(nodes.leaf_ids, [1, 2, 3])
    means = nodes.means(np.array([1.0, 2.0, 4.0]))
    assert means[4] == pytest.approx((2 * 1 + 3 * 2) / 5)
    assert means[0] == pytest.approx((5 * 4 + 5 * means[4]) / 10)
