"""Every loss against its definition, and under changes that must not matter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partialfair.objectives import AUC, LOSSES, Hinge, Logistic, PartialAUC, Squared, parts
from tests import brute
from tests.property.strategies import STEP, as_array

PHI = {
    "squared": lambda x: (1 + x) ** 2 / 2,
    "squared_hinge": lambda x: np.maximum(1 + x, 0) ** 2 / 2,
    "hinge": lambda x: np.maximum(1 + x, 0),
    "logistic": lambda x: np.logaddexp(0, x),
}
POINTWISE = [Logistic(), Squared(), Hinge(0.0), Hinge(0.3)]
WHOLE = [AUC(kind, rounding) for kind in PHI for rounding in ((0.0, 0.3) if kind == "hinge" else (0.1,))]
PARTIAL = [
    PartialAUC(fpr, kind, rounding)
    for kind in PHI
    for fpr, rounding in (((0.0, 0.35), 0.0), ((0.0, 0.35), 0.2), ((0.15, 0.6), 0.0), ((0.15, 0.6), 0.2))
    if kind != "squared"
]
PAIRWISE = WHOLE + PARTIAL
EVERY = POINTWISE + PAIRWISE

quick = settings(max_examples=settings.default.max_examples // 4, deadline=None)


def every(losses):
    return pytest.mark.parametrize("loss", losses, ids=str)


@dataclass(frozen=True)
class Rows:
    """Scores, tied or not, labels of both kinds, and weights, some of them 0."""

    scores: np.ndarray
    signs: np.ndarray
    weights: list[Fraction]

    def take(self, rows) -> Rows:
        return Rows(self.scores[rows], self.signs[rows], [self.weights[i] for i in rows])


@st.composite
def rows_to_train_on(draw, choices=(0, 1, 1, 2, 3)) -> Rows:
    n_positive, n_negative = draw(st.integers(1, 8)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    signs = np.repeat([1.0, -1.0], [n_positive, n_negative])
    scores = 1.5 * rng.normal(size=signs.size)
    scores = np.round(2 * scores) / 2 if draw(st.booleans()) else scores  # pairs on the corner of the hinge
    weights = [Fraction(choices[k]) for k in rng.integers(len(choices), size=signs.size)]
    for first in (0, n_positive):
        weights[first] = weights[first] or Fraction(1)
    order = rng.permutation(signs.size)
    return Rows(scores, signs, weights).take(order)


ANY_WEIGHTS = (0, 1, Fraction(1, 3), Fraction(5, 7), Fraction(1, 10), 250)


def evaluated(loss, rows: Rows, *, anchored=True):
    return loss.build(rows.signs, as_array(rows.weights), anchored=anchored).value_and_gradient(rows.scores)


def same(expected):
    return pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_every_loss_is_here():
    assert {type(loss) for loss in EVERY} >= {type(loss) for loss in LOSSES.values()}


# The definition


@every([loss for loss in WHOLE if loss.kind != "hinge" or loss.rounding == 0])
@quick
@given(rows=rows_to_train_on(ANY_WEIGHTS))
def test_auc_is_the_mean_over_all_pairs(loss, rows):
    weights = as_array(rows.weights)
    s, t = (rows.scores[rows.signs == sign] for sign in (1, -1))
    p, q = (weights[rows.signs == sign] / weights[rows.signs == sign].sum() for sign in (1, -1))
    expected = p @ PHI[loss.kind](np.subtract.outer(t, s).T) @ q
    assert evaluated(loss, rows, anchored=False)[0] == same(expected)


@pytest.mark.parametrize("kind", [kind for kind in PHI if kind != "squared"])
@quick
@given(
    rows=rows_to_train_on(ANY_WEIGHTS),
    ends=st.lists(st.integers(0, 20), min_size=2, max_size=2, unique=True),
)
def test_partial_auc_is_the_mean_over_pairs_whose_negative_is_in_the_interval(kind, rows, ends):
    """Of negatives on an end, tied or not, a part counts, as in the metrics."""
    low, high = (STEP * end for end in sorted(ends))
    groups = brute.split(rows.scores.tolist(), rows.signs.tolist(), rows.weights)
    p = brute.band_shares(groups[1.0], [(Fraction(0), Fraction(1))])
    r = brute.band_shares(groups[-1.0], [(low, high)])
    expected = sum(
        float(share * other) * PHI[kind](negative.score - positive.score)
        for positive, share in zip(groups[1.0], p, strict=True)
        for negative, other in zip(groups[-1.0], r, strict=True)
    )
    loss = PartialAUC((float(low), float(high)), kind, rounding=0.0)
    assert evaluated(loss, rows, anchored=False)[0] == same(expected)


# Rows and weights


@every(EVERY)
@quick
@given(rows=rows_to_train_on())
def test_integer_weights_are_repeated_rows(loss, rows):
    repeats = [i for i in range(rows.signs.size) for _ in range(int(rows.weights[i]))]
    repeated = replace(rows.take(repeats), weights=[Fraction(1)] * len(repeats))
    value, gradient = evaluated(loss, rows)
    again, pieces = evaluated(loss, repeated)
    assert value == same(again)
    assert gradient == same(np.bincount(repeats, pieces, minlength=rows.signs.size))


@every(EVERY)
@quick
@given(rows=rows_to_train_on(ANY_WEIGHTS))
def test_weight_zero_is_a_removed_row(loss, rows):
    left = [i for i in range(rows.signs.size) if rows.weights[i]]
    value, gradient = evaluated(loss, rows)
    again, others = evaluated(loss, rows.take(left))
    assert value == same(again)
    assert gradient[left] == same(others)
    assert not np.delete(gradient, left).any()


@every(EVERY)
@quick
@given(rows=rows_to_train_on(ANY_WEIGHTS), data=st.data())
def test_neither_the_order_of_rows_nor_having_all_of_them_twice_matters(loss, rows, data):
    order = data.draw(st.permutations(range(rows.signs.size))) * data.draw(st.integers(1, 2))
    value, gradient = evaluated(loss, rows)
    again, moved = evaluated(loss, rows.take(order))
    assert value == same(again)
    assert gradient == same(np.bincount(order, moved))


@every(EVERY)
@quick
@given(rows=rows_to_train_on(ANY_WEIGHTS), factor=st.sampled_from([1e-6, 7.0, 1e9]))
def test_the_unit_of_the_weights_does_not_matter(loss, rows, factor):
    scaled = replace(rows, weights=[float(weight) * factor for weight in rows.weights])
    value, gradient = evaluated(loss, rows)
    again, others = evaluated(loss, scaled)
    assert value == same(again)
    assert gradient == same(others)


# Scores and labels


@every(PAIRWISE)
@quick
@given(rows=rows_to_train_on(ANY_WEIGHTS), shift=st.sampled_from([-4.0, 0.5]))
def test_pairs_do_not_see_a_constant(loss, rows, shift):
    moved = replace(rows, scores=rows.scores + shift)
    value, gradient = evaluated(loss, rows, anchored=False)
    again, others = evaluated(loss, moved, anchored=False)
    assert value == same(again)
    assert gradient == same(others)
    assert gradient.sum() == same(0)


@every(POINTWISE + WHOLE)
@quick
@given(rows=rows_to_train_on(ANY_WEIGHTS))
def test_classes_may_be_exchanged_with_the_sign_of_the_scores(loss, rows):
    mirrored = replace(rows, scores=-rows.scores, signs=-rows.signs)
    value, gradient = evaluated(loss, rows)
    again, others = evaluated(loss, mirrored)
    assert value == same(again)
    assert gradient == same(-others)


# Convexity


@every(EVERY)
@quick
@given(rows=rows_to_train_on(ANY_WEIGHTS), other=st.integers(0, 1000), share=st.floats(0, 1))
def test_parts_are_convex_and_gradients_are_subgradients(loss, rows, other, share):
    rng = np.random.default_rng(other)
    there = np.round(2 * rng.normal(size=rows.signs.size), int(other % 2))
    between = share * rows.scores + (1 - share) * there
    for part in parts(loss.build(rows.signs, as_array(rows.weights))):
        if part is None:
            continue
        (here, gradient), (end, _), (middle, _) = map(part.value_and_gradient, (rows.scores, there, between))
        assert middle <= share * here + (1 - share) * end + 1e-9
        assert end >= here + gradient @ (there - rows.scores) - 1e-9
        along = there - rows.scores
        assert along @ part.curvature(rows.scores).product(along) >= -1e-9
