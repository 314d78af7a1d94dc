"""Every loss against its definition, and under changes that must not matter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.optimization.objectives import AUC, LOSSES, Hinge, Logistic, PartialAUC, Squared, mirror_loss
from tests import brute
from tests.derivatives import convex_parts, curvature, evaluated
from tests.property.strategies import STEP, as_array
from tests.sizes import examples

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

pytestmark = pytest.mark.no_cover  # tracing would take as long as checking; quicker tests run the same lines
few = examples(6)


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


def loss_of(settings, rows: Rows, *, anchored=True):
    """Value, and slopes in the scores."""
    return evaluated(settings.build(rows.signs, as_array(rows.weights), anchored=anchored), rows.scores)


def same(expected):
    return pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_every_loss_is_here():
    assert {type(loss) for loss in EVERY} >= {type(loss) for loss in LOSSES.values()}


# The definition


@every([loss for loss in WHOLE if loss.kind != "hinge" or loss.rounding == 0])
@few
@given(rows=rows_to_train_on(ANY_WEIGHTS))
def test_auc_is_the_mean_over_all_pairs(loss, rows):
    weights = as_array(rows.weights)
    s, t = (rows.scores[rows.signs == sign] for sign in (1, -1))
    p, q = (weights[rows.signs == sign] / weights[rows.signs == sign].sum() for sign in (1, -1))
    expected = p @ PHI[loss.kind](np.subtract.outer(t, s).T) @ q
    assert loss_of(loss, rows, anchored=False)[0] == same(expected)


@pytest.mark.parametrize("kind", [kind for kind in PHI if kind != "squared"])
@few
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
    assert loss_of(loss, rows, anchored=False)[0] == same(expected)


# Rows and weights


@every(EVERY)
@few
@given(rows=rows_to_train_on())
def test_integer_weights_are_repeated_rows(loss, rows):
    repeats = [i for i in range(rows.signs.size) for _ in range(int(rows.weights[i]))]
    repeated = replace(rows.take(repeats), weights=[Fraction(1)] * len(repeats))
    value, slopes = loss_of(loss, rows)
    again, apart = loss_of(loss, repeated)
    assert value == same(again)
    assert slopes == same(np.bincount(repeats, apart, minlength=rows.signs.size))


@every(EVERY)
@few
@given(rows=rows_to_train_on(ANY_WEIGHTS))
def test_weight_zero_is_a_removed_row(loss, rows):
    left = [i for i in range(rows.signs.size) if rows.weights[i]]
    value, slopes = loss_of(loss, rows)
    again, others = loss_of(loss, rows.take(left))
    assert value == same(again)
    assert slopes[left] == same(others)
    assert not np.delete(slopes, left).any()


@every(EVERY)
@few
@given(rows=rows_to_train_on(ANY_WEIGHTS), data=st.data())
def test_neither_the_order_of_rows_nor_having_all_of_them_twice_matters(loss, rows, data):
    order = data.draw(st.permutations(range(rows.signs.size))) * data.draw(st.integers(1, 2))
    value, slopes = loss_of(loss, rows)
    again, moved = loss_of(loss, rows.take(order))
    assert value == same(again)
    assert slopes == same(np.bincount(order, moved))


@every(EVERY)
@few
@given(rows=rows_to_train_on(ANY_WEIGHTS), factor=st.sampled_from([1e-6, 7.0, 1e9]))
def test_the_unit_of_the_weights_does_not_matter(loss, rows, factor):
    scaled = replace(rows, weights=[float(weight) * factor for weight in rows.weights])
    value, slopes = loss_of(loss, rows)
    again, others = loss_of(loss, scaled)
    assert value == same(again)
    assert slopes == same(others)


# Scores and labels


@every(PAIRWISE)
@few
@given(rows=rows_to_train_on(ANY_WEIGHTS), shift=st.sampled_from([-4.0, 0.5]))
def test_pairs_do_not_see_a_constant(loss, rows, shift):
    moved = replace(rows, scores=rows.scores + shift)
    value, slopes = loss_of(loss, rows, anchored=False)
    again, others = loss_of(loss, moved, anchored=False)
    assert value == same(again)
    assert slopes == same(others)
    assert slopes.sum() == same(0)


@every(POINTWISE + WHOLE)
@few
@given(rows=rows_to_train_on(ANY_WEIGHTS))
def test_classes_may_be_exchanged_with_the_sign_of_the_scores(loss, rows):
    mirrored = replace(rows, scores=-rows.scores, signs=-rows.signs)
    value, slopes = loss_of(loss, rows)
    again, others = loss_of(loss, mirrored)
    assert value == same(again)
    assert slopes == same(-others)


# Convexity


@every(EVERY)
@few
@given(rows=rows_to_train_on(ANY_WEIGHTS), other=st.integers(0, 1000), share=st.floats(0, 1))
def test_parts_are_convex_and_slopes_are_subgradients(loss, rows, other, share):
    rng = np.random.default_rng(other)
    there = np.round(2 * rng.normal(size=rows.signs.size), int(other % 2))
    between = share * rows.scores + (1 - share) * there
    along = there - rows.scores
    for part in convex_parts(loss.build(rows.signs, as_array(rows.weights))):
        (here, slopes), (end, _), (middle, _) = (
            evaluated(part, scores) for scores in (rows.scores, there, between)
        )
        assert middle <= share * here + (1 - share) * end + 1e-9
        assert end >= here + slopes @ along - 1e-9
        assert along @ curvature(part, rows.scores).product(along) >= -1e-9


# Shards


@every(POINTWISE)
@pytest.mark.parametrize("downwards", [False, True])
@few
@given(rows=rows_to_train_on(ANY_WEIGHTS), equal=st.booleans(), data=st.data())
def test_any_split_into_shards_gives_the_whole(loss, downwards, rows, equal, data):
    """To 1e-12 of the sum of absolute contributions; shards may be empty, of one class or of no weight."""
    n = rows.signs.size
    whole = loss.build(rows.signs, np.ones(n) if equal else as_array(rows.weights))
    whole = replace(whole, loss=mirror_loss(whole.loss)) if downwards else whole
    assert whole.loss.additive
    borders = [0, *sorted(data.draw(st.lists(st.integers(0, n), max_size=6))), n]
    shards = [slice(*ends) for ends in pairwise(borders)]
    values, slopes = zip(*(evaluated(whole.take(shard), rows.scores[shard]) for shard in shards), strict=True)
    diagonals = [curvature(whole.take(shard), rows.scores[shard]).diagonal for shard in shards]
    value, whole_slopes = evaluated(whole, rows.scores)
    contributions = [evaluated(whole.take(slice(i, i + 1)), rows.scores[i : i + 1])[0] for i in range(n)]
    assert abs(sum(values) - value) <= 1e-12 * np.abs(contributions).sum()
    # Slopes and diagonals are one number a row, which is its only contribution.
    assert np.concatenate(slopes) == pytest.approx(whole_slopes, rel=1e-12, abs=0)
    diagonal = curvature(whole, rows.scores).diagonal
    assert np.concatenate(diagonals) == pytest.approx(diagonal, rel=1e-12, abs=0)
    assert not curvature(whole, rows.scores).couplings
    along = np.random.default_rng(n).normal(size=n)
    terms = diagonal * along
    products = [np.sum(d * along[shard]) for d, shard in zip(diagonals, shards, strict=True)]
    assert abs(sum(products) - terms.sum()) <= 1e-12 * np.abs(terms).sum()
