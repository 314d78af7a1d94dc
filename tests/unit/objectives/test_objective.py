"""Losses tied to rows, to some of them, and to scores that count downwards."""

from dataclasses import replace

import numpy as np
import pytest

from partialfair.exceptions import InputError
from partialfair.optimization.objectives import (
    LOSSES,
    AUCLoss,
    Difference,
    HingeLoss,
    LogisticLoss,
    Mirrored,
    PartialAUC,
    SquaredLoss,
    mirror_loss,
    tie_loss,
)
from tests.derivatives import convex_parts, curvature, evaluated

SETTINGS = [*LOSSES.values(), PartialAUC((0.1, 0.4))]
POINTWISE = [LogisticLoss(), SquaredLoss(), HingeLoss(), HingeLoss(0.1)]


def draw(n=40):
    rng = np.random.default_rng(0)
    return rng.normal(size=n), rng.choice([-1.0, 1.0], n), rng.integers(0, 4, n).astype(float)


@pytest.mark.parametrize("loss", POINTWISE, ids=str)
def test_shares_of_pointwise_losses_add_up_to_one(loss):
    _, signs, weights = draw()
    objective = tie_loss(loss, signs, weights)
    assert objective.shares == pytest.approx(weights / weights.sum())
    assert objective.mean_target == pytest.approx(np.average(signs, weights=weights))


def test_shares_of_pairs_add_up_to_one_in_each_class():
    _, signs, weights = draw()
    for loss in (AUCLoss(), mirror_loss(AUCLoss()), Difference(AUCLoss(top=0.4), AUCLoss(top=0.1))):
        shares = tie_loss(loss, signs, weights).shares
        for sign in (1, -1):
            of_class = signs == sign
            assert shares[of_class] == pytest.approx(weights[of_class] / weights[of_class].sum())


def test_what_is_additive():
    pointwise, pairs = LogisticLoss(), AUCLoss()
    assert all(loss.additive for loss in POINTWISE)
    assert not pairs.additive
    for loss in (pointwise, pairs):
        assert mirror_loss(loss).additive is loss.additive
    assert Difference(pointwise, pointwise).additive
    assert not Difference(pointwise, pairs).additive
    assert not Difference(pairs, pointwise).additive


def test_some_rows_keep_the_shares_they_have_among_all():
    _, signs, weights = draw()
    objective = tie_loss(LogisticLoss(), signs, weights)
    shard = objective.take(slice(5, 12))
    assert shard.loss is objective.loss
    assert (shard.targets == signs[5:12]).all()
    assert (shard.shares == objective.shares[5:12]).all()
    shards = [objective.take(slice(start, start + 8)) for start in range(0, 40, 8)]
    assert sum(shard.mean_target for shard in shards) == pytest.approx(objective.mean_target)


@pytest.mark.parametrize("loss", POINTWISE, ids=str)
def test_no_rows_have_no_loss(loss):
    _, signs, weights = draw()
    for formula in (loss, Mirrored(loss)):
        nobody = tie_loss(formula, signs, weights).take(slice(3, 3))
        value, slopes = evaluated(nobody, np.empty(0))
        assert value == 0
        assert slopes.shape == curvature(nobody, np.empty(0)).diagonal.shape == (0,)
        assert nobody.mean_target == 0


def test_formulas_are_equal_if_their_settings_are():
    assert AUCLoss("hinge", rounding=0.1) == AUCLoss("hinge", rounding=0.1) != AUCLoss("hinge")
    assert mirror_loss(HingeLoss(0.1)) == Mirrored(HingeLoss(0.1))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_mirrored_losses(settings):
    scores, signs, weights = draw()
    objective = settings.build(signs, weights)
    other = replace(objective, loss=mirror_loss(objective.loss))
    value, slopes = evaluated(objective, -scores)
    assert evaluated(other, scores)[0] == pytest.approx(value)
    assert evaluated(other, scores)[1] == pytest.approx(-slopes)
    mean = objective.mean_target
    assert other.loss.best_constant(mean) == pytest.approx(-objective.loss.best_constant(mean))
    along = np.random.default_rng(1).normal(size=40)
    for part, turned in zip(convex_parts(objective), convex_parts(other), strict=True):
        assert isinstance(turned.loss, Mirrored)
        expected = curvature(part, -scores).product(along)
        assert curvature(turned, scores).product(along) == pytest.approx(expected)


@pytest.mark.parametrize("settings", [loss for loss in SETTINGS if loss != LOSSES["squared"]])
def test_losses_of_labels_refuse_zeros_and_ones(settings):
    with pytest.raises(InputError, match="labels of a classification loss must be the floats 1 and −1"):
        settings.build(np.array([0.0, 1.0]), np.ones(2))
