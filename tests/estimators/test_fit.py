"""The fit as a function: it sees rows, constraints and settings, and leaves its arguments as they are."""

import pickle

import numpy as np
import pytest

from partialfair import PartialFairClassifier, PartialFairRegressor
from partialfair.data.groups import encode_groups
from partialfair.data.samples import Samples
from partialfair.estimators.inputs import read_samples
from partialfair.estimators.parameters import read_task
from partialfair.optimization.objectives import Squared
from partialfair.optimization.solvers import MultiStartSQP
from partialfair.training.fit import fit_linear
from partialfair.training.settings import EarlierFits, FitSettings


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], 400)
    X = rng.normal(size=(400, 3)) + np.outer(groups == "a", [1, 0, 0])
    return X, X.sum(axis=1) + rng.normal(size=400), groups


def test_units_are_a_matter_of_the_fit_alone(regression):
    """Scores that are counted in units of 4 give the model of scores in units of 1, and the same result."""
    X, y, groups = regression
    clf = PartialFairRegressor(interval=(0.1, 0.5), max_gap=0.15, enforce="surrogate")
    constraints = clf._read_constraints()
    settings = FitSettings(solver=MultiStartSQP(), solver_name="auto", enforce="surrogate", alpha=1e-4)
    before = pickle.dumps(settings)
    fits = []
    for unit in (1.0, 4.0):
        samples = Samples(X, y, encode_groups(groups))
        fits.append(fit_linear(samples, constraints, Squared(), settings, unit=unit))
    assert pickle.dumps(settings) == before
    one, four = fits
    assert four.coef == pytest.approx(one.coef, rel=1e-3)
    assert four.result.objective == pytest.approx(one.result.objective, rel=1e-4)
    assert four.result.gap == pytest.approx(one.result.gap, abs=0.02)
    assert four.result.surrogate.width == pytest.approx(one.result.surrogate.width, rel=1e-3)


def test_a_fit_leaves_what_it_needs_on_its_estimator_alone(regression):
    """What fits of a path know and offsets of trees are values: nothing of them stays with the model."""
    X, y, groups = regression
    clf = PartialFairClassifier(interval=(0.1, 0.5), max_gap=0.2, enforce="surrogate")
    given = EarlierFits()
    fits = clf._fit_samples(read_samples(clf, X, y > 0, groups), read_task(clf), np.inf, earlier=given)
    assert given.unconstrained is None
    assert fits.unconstrained is not None
    plain = PartialFairClassifier(interval=(0.1, 0.5), max_gap=0.2, enforce="surrogate")
    plain.fit(X, y > 0, sensitive_features=groups)
    assert vars(clf).keys() == vars(plain).keys()
    assert (clf.coef_ == plain.coef_).all()
