"""Trees that are grown for the constraint: what boosting is given, what is added, and when it pays."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from partialfair.constraints import StatisticalParity
from partialfair.datasets import make_admissions
from partialfair.exceptions import OverfittedGapWarning
from partialfair.trees import PartialFairTrees, ensemble_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    from _tree_tables import Tables, grower
    from growing import CONSTRAINT, LOSS, REFIT, Refit, judged, over_levels, with_more_trees
finally:
    sys.path.remove(str(BENCHMARKS))

STATED = StatisticalParity((0.15, 0.4), max_gap=0.05)


@pytest.fixture(scope="module")
def grown():
    """Rows, trees whose leaf values were refitted on them, and the Lagrangian there."""
    pytest.importorskip("lightgbm")
    data = make_admissions(800)
    groups = np.asarray(data.sensitive_features)
    train = Tables(None, data.X.select_dtypes("number"), np.asarray(data.y), groups, STATED.interval)
    trees = PartialFairTrees(grower(10, 4, 0), STATED, enforce="surrogate", early_stopping=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverfittedGapWarning)  # new people are not asked
        trees.fit(train.trees, train.y, sensitive_features=groups)
    return train, trees, Refit.of(trees, train, STATED)


def test_the_lagrangian_is_stationary_in_every_leaf(grown):
    """At s* the slopes of L in a leaf add up to alpha times what its value was moved by, the other way."""
    train, trees, refit = grown
    slopes, _ = refit.slopes(refit.multipliers)(refit.scores)
    leaves = ensemble_of(trees.grown_).leaves(train.trees)
    by_leaf = [
        np.bincount(codes, slopes, len(levels)) / len(slopes)
        for codes, levels in zip(leaves.codes.T, leaves.categories, strict=True)
    ]
    n_trees, alpha = leaves.codes.shape[1], trees.alpha_
    moved = trees._refit.coef_[0].reshape(n_trees, -1)
    assert refit.multipliers.sum() > 1e-2  # the constraint has a say
    assert np.abs(np.array(by_leaf) + alpha * moved).max() < trees.tol


def test_slopes_are_derivatives_of_the_lagrangian(grown):
    _, _, refit = grown
    slopes, curvatures = refit.slopes(refit.multipliers)(refit.scores)
    step, n = 1e-5, len(slopes)
    for row in range(0, n, n // 20):
        moved = [refit.scores + sign * step * (np.arange(n) == row) for sign in (-1, 1)]
        low, high = (refit.lagrangian.value(at, refit.theta, refit.multipliers) for at in moved)
        assert slopes[row] == pytest.approx(n * (high - low) / (2 * step), abs=1e-4)
    assert (curvatures > 0).all()


def test_without_multipliers_slopes_are_those_of_the_loss(grown):
    train, trees, refit = grown
    slopes, curvatures = refit.slopes(np.zeros_like(refit.multipliers))(refit.scores)
    chances = 1 / (1 + np.exp(-refit.scores))
    assert slopes == pytest.approx(chances - (train.y == trees.classes_[1]))
    assert curvatures == pytest.approx(chances * (1 - chances))


def test_more_trees_begin_with_the_same_model(grown):
    train, trees, refit = grown
    booster = with_more_trees(trees.grown_, train, refit.scores, refit.slopes(refit.multipliers), 5)
    before, after = ensemble_of(trees.grown_), ensemble_of(booster)
    assert after.n_trees == before.n_trees + 5
    assert after.n_leaves[: before.n_trees] == before.n_leaves
    assert after.scores(train.trees) == pytest.approx(before.scores(train.trees))
    assert max(after.n_leaves[before.n_trees :]) > 1


def test_new_trees_are_grown_from_the_scores_of_the_refit(grown):
    """Boosting is asked for slopes at s* first, and then where its first tree has led."""
    train, trees, refit = grown
    asked = []

    def derivatives(scores):
        asked.append(np.array(scores))
        return np.where(train.y == trees.classes_[1], -1.0, 1.0), np.ones(len(scores))

    with_more_trees(trees.grown_, train, refit.scores, derivatives, 2)
    assert asked[0] == pytest.approx(refit.scores, abs=1e-6)
    assert np.abs(asked[1] - asked[0]).max() == pytest.approx(trees.grown_.learning_rate, rel=0.5)


def splits_of(*accuracies, auc=0.8):
    """Frontiers of one model that is as fair as any level: of the refit, for the loss, for the constraint."""
    names = (REFIT, LOSS, CONSTRAINT)
    return [
        {name: [{"gap": 0.0, "accuracy": one, "auc": auc}] for name, one in zip(names, split, strict=True)}
        for split in accuracies
    ]


def test_means_are_over_levels_and_splits():
    splits = splits_of((0.8, 0.8, 0.81), (0.8, 0.8, 0.83))
    paired = over_levels([one[REFIT] for one in splits], [one[CONSTRAINT] for one in splits], "accuracy")
    assert (paired.mean, paired.error) == (pytest.approx(0.02), pytest.approx(0.01))


def test_it_pays_where_two_tables_gain_and_none_loses():
    gain, noise = (
        splits_of((0.8, 0.8, 0.802), (0.8, 0.8, 0.803)),
        splits_of((0.8, 0.8, 0.81), (0.8, 0.8, 0.79)),
    )
    loss = splits_of((0.8, 0.8, 0.799), (0.8, 0.8, 0.7985))
    rows = {("a", "interval"): gain, ("b", "interval"): gain, ("c", "interval"): noise}
    assert judged(REFIT, rows)["pays"] == "yes"
    assert judged(REFIT, rows | {("c", "interval"): loss})["pays"] == "no"
    assert judged(REFIT, rows | {("b", "absolute"): noise})["pays"] == "no"  # on one scale of b only
